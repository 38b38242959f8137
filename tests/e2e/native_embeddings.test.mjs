// Embeddings of the engine native through the router: those of the engine alone, from a model in safetensors.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { readFolder, startHub } from '../support/hub.mjs';
import { BIN, call, cli, startUp, tempDir } from './support.mjs';

const FIXTURES = path.join(import.meta.dirname, '../fixtures/families');
const dir = tempDir('native-embeddings');
const MODELS = ['qwen3-embedding', 'embeddinggemma', 'bert', 'modernbert'];

// The fixtures have no tokenizer: words of one letter, and fillers up to the 96 ids of the models.
const letters = 'abcdefghijklmnopqrstuvwxyz'.split('');
const words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', ...letters];
while (words.length < 96) words.push(`word${words.length}`);

const alone = (model, ids) =>
  JSON.parse(execFileSync(BIN, ['debug', 'embed', '--model', path.join(dir, model)], { input: JSON.stringify(ids) }));

let up;
before(async () => {
  for (const model of MODELS) {
    fs.cpSync(path.join(FIXTURES, model), path.join(dir, model), { recursive: true });
    fs.writeFileSync(path.join(dir, model, 'vocab.txt'), `${words.join('\n')}\n`);
    fs.writeFileSync(
      path.join(dir, model, 'tokenizer_config.json'),
      JSON.stringify({ tokenizer_class: 'BertTokenizer', do_lower_case: true }),
    );
  }
  up = await startUp({ args: MODELS.flatMap((model) => ['--model', path.join(dir, model)]) });
});
after(() => up?.stop());

const embed = (model, input) => call(`${up.url}/v1/embeddings`, { body: { model, input } });

test('an embedder in safetensors gives through the router the vectors of the engine alone', async () => {
  const texts = Array.from({ length: 8 }, (_, i) =>
    Array.from({ length: 1 + i * 20 }, (_, k) => 5 + ((k * 7 + i) % 26)),
  );
  for (const model of MODELS) {
    const { status, json, text } = await embed(model, texts);
    assert.equal(status, 200, text);
    for (const [i, ids] of texts.entries()) {
      const wanted = alone(model, ids);
      assert.deepEqual(Array.from(json.data[i].embedding, Math.fround), wanted.map(Math.fround), `${model}: text ${i}`);
    }
    assert.equal(json.usage.prompt_tokens, texts.flat().length);
  }
});

test('an embedder in safetensors says what it can do, and a text beyond its context is a 400', async () => {
  const { data } = (await call(`${up.url}/v1/models`)).json;
  for (const model of data) assert.deepEqual(model.capabilities, ['embed'], model.id);
  const long = await embed('bert', 'a '.repeat(300));
  assert.equal(long.status, 400, long.text);
  assert.match(long.json.error.message, /context/);
  const short = await embed('bert', 'a b c');
  assert.equal(short.status, 200, short.text);
  assert.equal(short.json.usage.prompt_tokens, 5);
});

test('a download of an embedder has the folders of its modules, and gives the same vectors', async () => {
  const hub = await startHub();
  try {
    hub.add('google/embedder', readFolder(path.join(dir, 'embeddinggemma')));
    const env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf'), http_proxy: '', HTTP_PROXY: '', all_proxy: '' };
    const made = await cli(['debug', 'manifest', 'google/embedder', '--hub-host', hub.storage], env);
    const manifest = path.join(dir, 'manifest.json');
    fs.writeFileSync(manifest, made.stdout);
    const output = path.join(dir, 'downloaded');
    const words = ['--manifest', manifest, '--output', output, '--hub-host', hub.storage];
    await cli(['debug', 'fetch', ...words], env);
    assert.deepEqual(alone('downloaded', [5, 6, 7]), alone('embeddinggemma', [5, 6, 7]));
  } finally {
    await hub.close();
  }
});
