// Ranking by the engine native: cross-encoders with a classifier, and decoders that answer yes or no, give through the
// router the scores of a plain implementation of our own (support/plain_encoders.mjs).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { bert, decoder, modernBert } from '../support/plain_encoders.mjs';
import { randomTensors } from '../support/random_tensors.mjs';
import { BIN, call, startUp, tempDir } from './support.mjs';

const dir = tempDir('native-rerank');
const letters = 'abcdefghijklmnopqrstuvwxyz'.split('');
const SPECIALS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '<|im_start|>', '<|im_end|>'];
const words = [...SPECIALS, 'yes', 'no', ...letters];
const id = (word) => words.indexOf(word);
const [CLS, SEP, YES, NO] = ['[CLS]', '[SEP]', 'yes', 'no'].map(id);

const special = (token) => ({ SpecialToken: { id: token, type_id: 0 } });
const text = (name) => ({ Sequence: { id: name, type_id: 0 } });
const PROCESSORS = {
  bert: { type: 'BertProcessing', sep: ['[SEP]', SEP], cls: ['[CLS]', CLS] },
  roberta: {
    type: 'TemplateProcessing',
    single: [special('[CLS]'), text('A'), special('[SEP]')],
    pair: [special('[CLS]'), text('A'), special('[SEP]'), special('[SEP]'), text('B'), special('[SEP]')],
    special_tokens: {
      '[CLS]': { id: '[CLS]', ids: [CLS], tokens: ['[CLS]'] },
      '[SEP]': { id: '[SEP]', ids: [SEP], tokens: ['[SEP]'] },
    },
  },
};
const tokenizer = (post_processor) => ({
  version: '1.0',
  added_tokens: SPECIALS.map((content, n) => ({
    id: n,
    content,
    special: true,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  })),
  normalizer: {
    type: 'BertNormalizer',
    clean_text: true,
    handle_chinese_chars: true,
    strip_accents: null,
    lowercase: true,
  },
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor,
  decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
  model: {
    type: 'WordPiece',
    unk_token: '[UNK]',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab: Object.fromEntries(words.map((w, n) => [w, n])),
  },
});

const SIZES = {
  vocab_size: words.length,
  hidden_size: 24,
  intermediate_size: 40,
  num_hidden_layers: 2,
  num_attention_heads: 3,
  max_position_embeddings: 64,
  pad_token_id: 0,
};
const BERT = { ...SIZES, hidden_act: 'gelu', layer_norm_eps: 1e-5 };
const QWEN = {
  ...SIZES,
  model_type: 'qwen3',
  num_key_value_heads: 1,
  head_dim: 8,
  rms_norm_eps: 1e-6,
  rope_theta: 1e6,
  hidden_act: 'silu',
  max_position_embeddings: 256,
  tie_word_embeddings: false,
};
const pairOf = (query, document, between) => {
  const [a, b] = [query, document].map((words) => words.split(' ').map(id));
  return { ids: [CLS, ...a, ...between, ...b, SEP], second: 1 + a.length + between.length };
};

// The prompt that Qwen3-Reranker was trained with.
function question(model, query, document) {
  const prompt =
    '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer ' +
    'can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer the ' +
    `query\n<Query>: ${query}\n<Document>: ${document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n`;
  const args = ['debug', 'tokenize', '--tokenizer', path.join(dir, model), '--batch', '--special'];
  return JSON.parse(execFileSync(BIN, args, { input: JSON.stringify([prompt]) }))[0];
}

const MODELS = {
  'bert-ranker': {
    config: { ...BERT, architectures: ['BertForSequenceClassification'], model_type: 'bert', type_vocab_size: 2 },
    processor: PROCESSORS.bert,
    score(get, c, query, document) {
      const { ids, second } = pairOf(query, document, [SEP]);
      return bert(get, c, ids, second);
    },
  },
  'xlmr-ranker': {
    config: {
      ...BERT,
      architectures: ['XLMRobertaForSequenceClassification'],
      model_type: 'xlm-roberta',
      type_vocab_size: 1,
    },
    processor: PROCESSORS.roberta,
    score: (get, c, query, document) => bert(get, c, pairOf(query, document, [SEP, SEP]).ids),
  },
  'modern-ranker': {
    config: {
      ...SIZES,
      architectures: ['ModernBertForSequenceClassification'],
      model_type: 'modernbert',
      norm_eps: 1e-5,
      global_rope_theta: 160000,
      local_rope_theta: 10000,
      local_attention: 6,
      global_attn_every_n_layers: 2,
      classifier_pooling: 'mean',
      hidden_activation: 'gelu',
    },
    processor: PROCESSORS.bert,
    score: (get, c, query, document) => modernBert(get, c, pairOf(query, document, [SEP]).ids),
  },
  'qwen-answers': {
    config: { ...QWEN, architectures: ['Qwen3ForCausalLM'], classifier_from_token: ['no', 'yes'] },
    score: (get, c, query, document) =>
      decoder(get, c, question('qwen-answers', query, document), { yes: YES, no: NO }),
  },
  'qwen-modules': {
    config: { ...QWEN, architectures: ['Qwen3ForCausalLM'], tie_word_embeddings: true },
    files: {
      'modules.json': [
        { idx: 0, name: '0', path: '', type: 'sentence_transformers.models.Transformer' },
        { idx: 1, name: '1', path: '1_LogitScore', type: 'sentence_transformers.cross_encoder.modules.LogitScore' },
      ],
      '1_LogitScore/config.json': { true_token_id: YES, false_token_id: NO },
    },
    score: (get, c, query, document) =>
      decoder(get, c, question('qwen-modules', query, document), { yes: YES, no: NO }),
  },
  'qwen-classifier': {
    config: { ...QWEN, architectures: ['Qwen3ForSequenceClassification'], num_labels: 1 },
    score: (get, c, query, document) => decoder(get, c, question('qwen-classifier', query, document), {}),
  },
};

const QUERY = 'c a t';
const DOCUMENTS = ['a', 'c a t s', 'the d o g'.replace('the ', ''), letters.join(' '), 'z y x w v u t s r q'];
const wanted = {};
let up;
before(async () => {
  for (const [name, { config, processor, files = {}, score }] of Object.entries(MODELS)) {
    const get = randomTensors(name);
    const at = path.join(dir, name);
    fs.mkdirSync(at, { recursive: true });
    fs.writeFileSync(path.join(at, 'tokenizer.json'), JSON.stringify(tokenizer(processor ?? null)));
    for (const [file, content] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(at, file)), { recursive: true });
      fs.writeFileSync(path.join(at, file), JSON.stringify(content));
    }
    wanted[name] = DOCUMENTS.map((document) => score(get, config, QUERY, document));
    get.write(at, config);
  }
  up = await startUp({ args: Object.keys(MODELS).flatMap((name) => ['--model', path.join(dir, name)]) });
});
after(() => up?.stop());

const rank = (model, more) =>
  call(`${up.url}/v1/rerank`, { body: { model, query: QUERY, documents: DOCUMENTS, ...more } });

test('a ranking model in safetensors says so before its first load', async () => {
  const { data } = (await call(`${up.url}/v1/models`)).json;
  assert.deepEqual(
    data.map(({ id: name, capabilities }) => [name, capabilities]).sort(),
    Object.keys(MODELS)
      .sort()
      .map((name) => [name, ['rerank']]),
  );
});

test('every form of ranking gives the scores of the plain implementation', async () => {
  for (const name of Object.keys(MODELS)) {
    const { status, json, text: body } = await rank(name);
    assert.equal(status, 200, `${name}: ${body}`);
    const got = DOCUMENTS.map((_, i) => json.results.find(({ index }) => index === i).relevance_score);
    got.forEach((score, i) =>
      assert.ok(Math.abs(score - wanted[name][i]) <= 1e-5, `${name}: ${i}: ${score}, wanted ${wanted[name][i]}`),
    );
    assert.ok(new Set(got).size === got.length, `${name}: ${got}`); // each document has a score of its own
  }
});

test('a ranking model refuses other requests, and a pair beyond its context, in words', async () => {
  const chat = await call(`${up.url}/v1/embeddings`, { body: { model: 'bert-ranker', input: 'a' } });
  assert.equal(chat.status, 400, chat.text);
  assert.match(chat.json.error.message, /rerank/);
  const long = await rank('bert-ranker', { documents: ['a '.repeat(100)] });
  assert.equal(long.status, 400, long.text);
  assert.match(long.json.error.message, /context/);
});
