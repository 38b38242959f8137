// Embeddings and reranking through the router: values, forms, limits, failover.  The values come
// from the llama.cpp engine and are compared with a plain loop over llama.h;
// all else uses the echo engine.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { BUILD } from '../support/program.mjs';
import { fleet, makeKey, metric, used } from './fleet.mjs';
import { BIN, call, DEMO, makeEcho, say, startUp, tempDir, until } from './support.mjs';

const clientOf = (server) =>
  new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'x', maxRetries: 0, defaultHeaders: { Authorization: null } });
const near = (a, b, what) => {
  assert.equal(a.length, b.length, what);
  for (let i = 0; i < a.length; i++) assert.ok(Math.abs(a[i] - b[i]) < 1e-4, `${what}: ${a[i]} and ${b[i]} at ${i}`);
};
const length = (v) => Math.hypot(...v);

let up;
before(async () => {
  up = await startUp({ args: ['--model', makeEcho('e'), '--model', DEMO] });
});
after(() => up?.stop());
const embed = (more, options = {}) =>
  call(`${options.url ?? up.url}/v1/embeddings`, { body: { model: 'e', ...more }, ...options });
const rerank = (more, where = '/v1/rerank') =>
  call(`${up.url}${where}`, { body: { model: 'e', query: 'ab', documents: ['zz', 'ab', 'az'], ...more } });

const texts = ['the river', 'in the morning', 'x', '<|im_end|> is text here', 'a b c d e f g h i j k l m n o p q r'];
let gguf, client;
const dir = tempDir('vectors');
const oracle = (family, kind, ...words) =>
  execFileSync(path.join(BUILD, 'testing/llama_oracle'), [path.join(dir, family, 'model.gguf'), kind, ...words])
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
before(async () => {
  for (const family of ['bert', 'reranker'])
    execFileSync(BIN, [
      ...['debug', 'write-gguf', '--architecture', family, '--context', '128'],
      ...['--output', path.join(dir, family, 'model.gguf')],
    ]);
  gguf = await startUp({ args: ['--model', path.join(dir, 'bert'), '--model', path.join(dir, 'reranker')] });
  client = clientOf(gguf);
});
after(() => gguf?.stop());

test('embeddings of the openai client are those of a plain loop over llama.h, as numbers and as base64', async () => {
  const wanted = oracle('bert', 'embed', ...texts);
  const plain = await client.embeddings.create({ model: 'bert', input: texts, encoding_format: 'float' });
  const packed = await client.embeddings.create({ model: 'bert', input: texts }); // asks for base64
  assert.deepEqual(
    plain.data.map((d) => d.index),
    [0, 1, 2, 3, 4],
  );
  for (const [i, vector] of wanted.entries()) {
    near(plain.data[i].embedding, vector, texts[i]);
    near(packed.data[i].embedding, vector, texts[i]);
  }
  assert.ok(plain.usage.prompt_tokens > texts.length && plain.usage.total_tokens === plain.usage.prompt_tokens);
  const cut = await client.embeddings.create({ model: 'bert', input: texts[0], dimensions: 8 });
  const scale = length(wanted[0].slice(0, 8));
  near(
    cut.data[0].embedding,
    wanted[0].slice(0, 8).map((x) => x / scale),
    'cut',
  );
});

test('scores of documents are those of a plain loop over llama.h, the best first', async () => {
  const wanted = oracle('reranker', 'rerank', 'where is it', ...texts).map(([score]) => score);
  const body = { model: 'reranker', query: 'where is it', documents: texts.map((text) => ({ text })) };
  const { status, json, text } = await call(`${gguf.url}/v1/rerank`, { body });
  assert.equal(status, 200, text);
  near(
    json.results.map((r) => r.relevance_score),
    json.results.map((r) => wanted[r.index]),
    'scores',
  );
  assert.deepEqual(new Set(json.results.map((r) => r.index)), new Set([0, 1, 2, 3, 4]));
  for (let i = 1; i < 5; i++) assert.ok(json.results[i - 1].relevance_score >= json.results[i].relevance_score);
});

test('a model says what it can do, and a request for anything else is a 400 that names both', async () => {
  const { data } = (await call(`${gguf.url}/v1/models`)).json;
  assert.deepEqual(Object.fromEntries(data.map((m) => [m.id, m.capabilities])), {
    bert: ['embed'],
    reranker: ['rerank'],
  });
  const { models } = (await call(`${gguf.url}/v0/models`)).json;
  assert.deepEqual(models.find((m) => m.id === 'bert').capabilities, ['embed']);
  for (const [where, body, said] of [
    ['/v1/chat/completions', { model: 'bert', ...say('x') }, /"bert" generates no text; it can: embed/],
    ['/v1/completions', { model: 'reranker', prompt: 'x' }, /"reranker" generates no text; it can: rerank/],
    ['/v1/embeddings', { model: 'reranker', input: 'x' }, /"reranker" gives no embeddings; it can: rerank/],
    ['/v1/rerank', { model: 'bert', query: 'x', documents: ['x'] }, /"bert" ranks no documents; it can: embed/],
  ]) {
    const answer = await call(`${gguf.url}${where}`, { body });
    assert.equal(answer.status, 400, `${where}: ${answer.text}`);
    assert.match(answer.json.error.message, said);
  }
  const chat = await embed({ model: 'demo', input: 'x' });
  assert.equal(chat.status, 400, chat.text);
  assert.match(chat.json.error.message, /"demo" gives no embeddings; it can: chat, completion/);
});

test('a text beyond the context is a 400 that names the text, its tokens and the limit', async () => {
  const body = { model: 'bert', input: ['a', 'b '.repeat(200), 'c'] };
  const { status, json } = await call(`${gguf.url}/v1/embeddings`, { body });
  assert.deepEqual([status, json.error.code, json.error.param], [400, 'context_length_exceeded', 'input']);
  assert.match(json.error.message, /maximum context length is 128 tokens.*input\[1\]: the text has 402 tokens/);
  const many = await embed({ model: 'bert', input: 'x', dimensions: 65 }, { url: gguf.url });
  assert.equal(many.status, 400);
  assert.match(many.json.error.message, /65; an embedding of this model has 64/);
});

test('an input is a text, token ids, or a list of either', async () => {
  for (const [input, count] of [
    ['hello', 1],
    [['hello', 'you'], 2],
    [[1, 2, 3], 1],
    [[[1, 2, 3], [4]], 2],
  ]) {
    const { status, json, text } = await embed({ input });
    assert.equal(status, 200, text);
    assert.deepEqual([json.object, json.model, json.data.length], ['list', 'e', count]);
    for (const { embedding } of json.data) assert.ok(Math.abs(length(embedding) - 1) < 1e-3);
  }
  for (const [input, param] of [
    ['', 'input'],
    [[], 'input'],
    [['a', ''], 'input[1]'],
    [7, 'input'],
    [[1, 'a'], 'input'],
    [undefined, 'input'],
    [Array(2049).fill('a'), 'input'],
    [['a', 'b'.repeat((1 << 20) + 1)], 'input[1]'],
  ]) {
    const { status, json } = await embed({ input });
    assert.deepEqual([status, json.error.param], [400, param], JSON.stringify(input)?.slice(0, 40));
  }
});

test('a batch of many texts is answered in order, and counted as one request with all its tokens', async () => {
  const key = await makeKey(up);
  const input = Array.from({ length: 300 }, (_, i) => `text ${i} ${'x'.repeat(i % 7)}`);
  const { status, json, text } = await embed({ input }, { key: key.key });
  assert.equal(status, 200, text.slice(0, 300));
  assert.deepEqual(
    json.data.map((d) => d.index),
    input.map((_, i) => i),
  );
  const alone = (await embed({ input: input[217] })).json;
  near(json.data[217].embedding, alone.data[0].embedding, 'one of many');
  const row = await used(up, key);
  assert.deepEqual([row.requests, row.prompt_tokens, row.completion_tokens], [1, json.usage.prompt_tokens, 0]);
});

test('the limits of a key hold: its models, its requests a minute, its tokens a minute', async () => {
  const other = await makeKey(up, { models: ['demo'] });
  assert.equal((await embed({ input: 'x' }, { key: other.key })).status, 404);
  const few = await makeKey(up, { requests_per_minute: 1 });
  assert.equal((await embed({ input: 'x' }, { key: few.key })).status, 200);
  assert.equal((await embed({ input: 'x' }, { key: few.key })).status, 429);
  const short = await makeKey(up, { tokens_per_minute: 10 });
  assert.equal((await embed({ input: 'x'.repeat(50) }, { key: short.key })).status, 200);
  assert.equal((await embed({ input: 'x' }, { key: short.key })).status, 429);
});

test('documents are ranked under all three paths, cut to top_n, with their texts where asked', async () => {
  for (const where of ['/v1/rerank', '/v2/rerank', '/rerank']) {
    const { status, json, text } = await rerank({}, where);
    assert.equal(status, 200, text);
    assert.deepEqual(
      json.results.map((r) => r.index),
      [1, 2, 0],
    );
    assert.ok(json.usage.total_tokens > 0 && json.results[0].document === undefined);
  }
  const best = await rerank({ top_n: 1, return_documents: true });
  assert.deepEqual(
    best.json.results.map((r) => [r.index, r.document]),
    [[1, { text: 'ab' }]],
  );
  for (const [more, param] of [
    [{ query: '' }, 'query'],
    [{ query: 'x'.repeat(65537) }, 'query'],
    [{ documents: [] }, 'documents'],
    [{ documents: ['a', 7] }, 'documents[1]'],
    [{ documents: [{ title: 'a' }] }, 'documents[0]'],
    [{ documents: Array(2049).fill('a') }, 'documents'],
    [{ top_n: 0 }, 'top_n'],
  ]) {
    const { status, json } = await rerank(more);
    assert.deepEqual([status, json.error.param], [400, param], JSON.stringify(more).slice(0, 60));
  }
});

test('a node that is killed while it embeds costs no request: another node does its part', async () => {
  const { router, all } = await fleet(2, makeEcho('e', { step_ms: 30 }), { nodeArgs: ['--max-sequences', '2'] });
  const input = Array.from({ length: 60 }, (_, i) => `text number ${i}`);
  const asked = embed({ input }, { url: router.url });
  await until('some texts are done', async () => (await metric(router, 'generations_total')) > 8);
  await all[0].stop('SIGKILL');
  const { status, json, text } = await asked;
  assert.equal(status, 200, text.slice(0, 300));
  const again = (await embed({ input }, { url: router.url })).json;
  for (const [i, { embedding }] of json.data.entries()) near(embedding, again.data[i].embedding, input[i]);
  assert.equal(json.usage.prompt_tokens, again.usage.prompt_tokens);
});

test('a client that leaves stops its batch', async () => {
  const { router } = await fleet(1, makeEcho('e', { step_ms: 30 }), { nodeArgs: ['--max-sequences', '2'] });
  const leave = new AbortController();
  const asked = fetch(`${router.url}/v1/embeddings`, {
    method: 'POST',
    signal: leave.signal,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'e', input: Array(500).fill('many of them') }),
  }).catch((error) => error.name);
  await until('it has begun', async () => (await metric(router, 'generations_total')) > 2);
  leave.abort();
  assert.equal(await asked, 'AbortError');
  await until('nothing runs or waits', async () => {
    const [model] = (await call(`${router.url}/v0/models`)).json.models;
    return model.queued === 0 && model.nodes.every((n) => n.inflight === 0);
  });
  assert.ok((await metric(router, 'generations_total')) < 400, 'most of the batch never began');
});
