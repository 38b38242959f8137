// A model's folder without a tokenizer.json: the same vocabulary as tokenizer.model, tekken.json,
// vocab.json with merges.txt, or vocab.txt gives the ids that the tokenizer.json gives
// (tests/fixtures/tokenizers), and tokenizer_config.json decides over added tokens, BOS and EOS.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { BIN, ROOT } from '../support/program.mjs';

const FOLDER = path.join(ROOT, 'tests/fixtures/tokenizers');
const read = (file) => JSON.parse(fs.readFileSync(path.join(FOLDER, file), 'utf8'));
const texts = read('cases/texts.json');

// A folder with these files; objects as JSON.
function folder(t, files) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizer-'));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    const bytes = typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content);
    fs.writeFileSync(path.join(dir, name), bytes);
  }
  return dir;
}

function ids(dir, input, ...flags) {
  const args = ['debug', 'tokenize', '--tokenizer', dir, '--batch', ...flags];
  return JSON.parse(execFileSync(BIN, args, { input: JSON.stringify(input), maxBuffer: 64 << 20 }));
}

// Texts without added tokens, and their ids.
function common(name) {
  const cases = read(`cases/${name}.json`).cases.filter(([text]) => typeof text === 'number');
  return { inputs: cases.map(([text]) => texts[text]), wanted: cases.map(([, list]) => list) };
}

const byId = (vocab) => Object.entries(vocab).sort((a, b) => a[1] - b[1]);
const decoder = (file) => Object.fromEntries(file.added_tokens.map(({ id, ...rest }) => [id, rest]));

test('vocab.txt gives the ids of its tokenizer.json', (t) => {
  const words = byId(read('bert.json').model.vocab).map(([word]) => word);
  const { inputs, wanted } = common('bert');
  const dir = folder(t, { 'vocab.txt': `${words.join('\n')}\n` });
  assert.deepEqual(ids(dir, inputs, '--special'), wanted);
  assert.deepEqual(ids(dir, ['hello'], '--template'), [[101, 7592, 102]]);
  const cased = folder(t, { 'vocab.txt': words.join('\n'), 'tokenizer_config.json': { do_lower_case: false } });
  assert.deepEqual(ids(cased, ['Hello']), [[100]]);
});

test('vocab.json with merges.txt and added_tokens_decoder gives the ids of its tokenizer.json', (t) => {
  const file = read('roberta.json');
  const { inputs, wanted } = common('roberta');
  const dir = folder(t, {
    'vocab.json': file.model.vocab,
    'merges.txt': `#version: 0.2\n${file.model.merges.join('\n')}\n`,
    'tokenizer_config.json': { added_tokens_decoder: decoder(file), eos_token: '</s>', bos_token: { content: '<s>' } },
  });
  assert.deepEqual(ids(dir, inputs, '--special'), wanted);
});

// The letters of the byte alphabet back to bytes.
const plain = [...Array(256).keys()].filter((b) => (b > 32 && b < 127) || (b > 160 && b !== 173));
const rest = [...Array(256).keys()].filter((b) => !plain.includes(b));
const letters = new Map([...plain.map((b) => [b, b]), ...rest.map((b, i) => [256 + i, b])]);
const bytesOf = (token) => Buffer.from([...token].map((c) => letters.get(c.codePointAt(0))));

test('tekken.json gives the ids of the same merges', (t) => {
  const { model, pre_tokenizer } = read('roberta.json');
  const pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  assert.equal(pre_tokenizer.type, 'ByteLevel');
  const single = Object.keys(model.vocab).filter((token) => [...token].length === 1);
  const tokens = [...single, ...model.merges.map((merge) => merge.replace(' ', ''))];
  const special = ['<unk>', '<s>', '</s>'];
  const dir = folder(t, {
    'tekken.json': {
      config: { pattern, default_vocab_size: tokens.length + 3, default_num_special_tokens: 3 },
      vocab: tokens.map((token, rank) => ({ rank, token_bytes: bytesOf(token).toString('base64') })),
      special_tokens: special.map((token_str, rank) => ({ rank, token_str, is_control: true })),
    },
  });
  const { inputs, wanted } = common('roberta');
  const name = new Map(byId(model.vocab).map(([token, id]) => [id, token]));
  const place = new Map(tokens.map((token, rank) => [token, rank + 3]));
  const known = inputs.map((_, i) => i).filter((i) => wanted[i].every((id) => place.has(name.get(id))));
  assert.ok(known.length > 40);
  assert.deepEqual(
    ids(
      dir,
      known.map((i) => inputs[i]),
    ),
    known.map((i) => wanted[i].map((id) => place.get(name.get(id)))),
  );
  assert.deepEqual(ids(dir, ['</s>'], '--special', '--template'), [[1, 2]]);
});

// ---- protocol buffers, as SentencePiece writes them ----

const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(Math.floor(n / 128))]);
const message = (number, bytes) =>
  Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);
const number = (field, value) => Buffer.from([...varint(field * 8), ...varint(value)]);

function piece(text, score, type) {
  const float = Buffer.alloc(5);
  float[0] = 2 * 8 + 5;
  float.writeFloatLE(score, 1);
  return message(1, Buffer.concat([message(1, Buffer.from(text)), float, number(3, type)]));
}

test('a Unigram tokenizer.model gives the ids of its tokenizer.json', (t) => {
  const file = read('t5_small.json');
  const types = { '<pad>': 3, '</s>': 3, '<unk>': 2 };
  const pieces = file.model.vocab.map(([text, score]) => piece(text, score, types[text] ?? 1));
  const map = Buffer.from(file.normalizer.precompiled_charsmap, 'base64');
  const model = Buffer.concat([...pieces, message(2, number(3, 1)), message(3, message(2, map))]);
  const dir = folder(t, {
    'tokenizer.model': model,
    'tokenizer_config.json': { added_tokens_decoder: decoder(file), add_eos_token: true, eos_token: '</s>' },
  });
  // T5's tokenizer.json also splits at U+0085, which SentencePiece keeps.
  const { inputs, wanted } = common('t5_small');
  const same = (_, i) => !inputs[i].includes('\u0085');
  assert.deepEqual(ids(dir, inputs.filter(same), '--special'), wanted.filter(same));
  assert.deepEqual(ids(dir, ['a'], '--template'), [[3, 9, 1]]);
});

// "low" and "lower" by merges; é has only its bytes.
function llama(config) {
  const texts = ['\u2581', 'l', 'o', 'w', 'e', 'r', '\u2581l', 'ow', '\u2581low', 'er', '\u2581lower'];
  const bytes = [...Array(256).keys()].map((b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
  const pieces = [
    piece('<unk>', 0, 2),
    piece('<s>', 0, 3),
    piece('</s>', 0, 3),
    ...bytes.map((text) => piece(text, 0, 6)),
    ...texts.map((text, i) => piece(text, -i, 1)),
  ];
  const trainer = message(2, Buffer.concat([number(3, 2), number(35, 1)]));
  const normalizer = message(3, Buffer.concat([number(3, 1), number(4, 0)]));
  return { 'tokenizer.model': Buffer.concat([...pieces, trainer, normalizer]), 'tokenizer_config.json': config };
}
const FIRST = 259; // the id of the first text

test('a BPE tokenizer.model merges by scores and writes what it lacks as bytes', (t) => {
  const dir = folder(t, llama({}));
  assert.deepEqual(ids(dir, ['lower low', 'é<s>']), [
    [FIRST + 10, FIRST + 8],
    [FIRST, 3 + 0xc3, 3 + 0xa9, 3 + 0x3c, 3 + 0x73, 3 + 0x3e],
  ]);
  assert.deepEqual(ids(dir, ['low</s>low'], '--special', '--template'), [[1, FIRST + 8, 2, FIRST + 8]]);
  const back = (list) =>
    execFileSync(BIN, ['debug', 'detokenize', '--tokenizer', dir], { input: JSON.stringify(list) });
  assert.equal(back([FIRST + 10, FIRST + 8, 3 + 0xc3, 3 + 0xa9]).toString(), 'lower lowé');
});

test('add_bos_token and add_eos_token decide, and a text that a template wrote gets none', (t) => {
  const names = { bos_token: '<s>', eos_token: { content: '</s>' } };
  const both = folder(t, llama({ ...names, add_bos_token: true, add_eos_token: true }));
  assert.deepEqual(ids(both, ['low'], '--template'), [[1, FIRST + 8, 2]]);
  const none = folder(t, llama({ ...names, add_bos_token: false }));
  assert.deepEqual(ids(none, ['low'], '--template'), [[FIRST + 8]]);
  const segments = (list) =>
    JSON.parse(
      execFileSync(BIN, ['debug', 'tokenize', '--tokenizer', both, '--segments', '--template'], {
        input: JSON.stringify(list),
      }),
    );
  assert.deepEqual(segments([{ text: 'low', control: false }]), [1, FIRST + 8, 2]);
  assert.deepEqual(
    segments([
      { text: '<s>', control: true },
      { text: 'low', control: false },
    ]),
    [1, FIRST + 8],
  );
});

test('a damaged or missing file is refused by its name', (t) => {
  const refused = (files, pattern) => {
    const dir = folder(t, files);
    assert.throws(
      () => ids(dir, ['a']),
      (error) => pattern.test(String(error.stderr)),
    );
  };
  const { 'tokenizer.model': model } = llama({});
  refused(
    {},
    /has no tokenizer: tokenizer\.json, tokenizer\.model, tekken\.json, vocab\.json with merges\.txt, or vocab\.txt/,
  );
  refused({ 'tokenizer.model': model.subarray(0, 100) }, /tokenizer\.model: tokenizer\.model is damaged/);
  refused({ 'tekken.json': { config: {} } }, /tekken\.json: .*default_vocab_size/);
  refused({ 'vocab.json': '{"a":0', 'merges.txt': '' }, /vocab\.json: /);
  refused({ 'vocab.txt': 'a', 'tokenizer_config.json': '{' }, /tokenizer_config\.json: /);
});
