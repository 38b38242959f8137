// A GGUF model through the router: registered, ready, used by OpenAI's client,
// beside the demo model.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { BIN, call, DEMO, online, say, startNode, startRouter, startUp, tempDir, until } from './support.mjs';

let up, client;
const write = (dir) => execFileSync(BIN, ['debug', 'write-gguf', '--output', path.join(dir, 'model.gguf')]);
before(async () => {
  const dir = path.join(tempDir('gguf'), 'tiny');
  write(dir);
  up = await startUp({ args: ['--model', DEMO, '--model', dir, '--max-context', '2048'] });
  client = new OpenAI({
    baseURL: `${up.url}/v1`,
    apiKey: 'unused',
    maxRetries: 0,
    defaultHeaders: { Authorization: null },
  });
});
after(() => up?.stop());

test('a GGUF on a node is registered with its format, becomes ready and answers', async () => {
  const models = tempDir('models');
  write(path.join(models, 'mine'));
  const router = await startRouter({ args: ['--allow-cpu-nodes'] });
  const node = await startNode(router, { args: ['--models-dir', models, '--max-context', '1024'] });
  try {
    await until('the node is online', async () => (await online(router)) === 1);
    const body = { path: 'mine', format: 'gguf' };
    const answer = await call(`${router.url}/v0/models/register`, { body, key: router.adminKey });
    assert.equal(answer.status, 201, answer.text);
    await until('it is ready', async () =>
      (await call(`${router.url}/v1/models`, { key: router.adminKey })).json.data.some(
        (m) => m.id === 'mine' && m.ready,
      ),
    );
    const chat = await call(`${router.url}/v1/chat/completions`, {
      body: { model: 'mine', max_tokens: 4, ...say('Hello') },
      key: router.adminKey,
    });
    assert.equal(chat.status, 200, chat.text);
    assert.ok(chat.json.usage.completion_tokens >= 1);
  } finally {
    await node.stop();
    await router.stop();
  }
});

test('both models are listed and become ready', async () => {
  await until('both are ready', async () => {
    const { data } = await client.models.list();
    return data.length === 2 && data.every((m) => m.ready);
  });
});

test('a GGUF model answers the openai client, plain and streaming, with the same text', async () => {
  const ask = { model: 'tiny', temperature: 0, max_tokens: 16, ...say('Hello there') };
  const whole = await client.chat.completions.create(ask);
  assert.ok(whole.usage.completion_tokens >= 1);
  const stream = await client.chat.completions.create({ ...ask, stream: true });
  let text = '';
  for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? '';
  assert.equal(text, whole.choices[0].message.content ?? '');
});

test('a GGUF model answers with JSON that fits a schema, from its first token', async () => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer', minimum: 1, maximum: 99 }, kind: { enum: ['a', 'b'] } },
    required: ['n', 'kind'],
    additionalProperties: false,
  };
  for (let seed = 0; seed < 5; seed++) {
    const { message, finish_reason: why } = (
      await client.chat.completions.create({
        model: 'tiny',
        seed,
        max_tokens: 200,
        ...say('Hello there'),
        response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
      })
    ).choices[0];
    assert.equal(why, 'stop');
    const { n, kind, ...rest } = JSON.parse(message.content);
    assert.ok(n >= 1 && n <= 99 && ['a', 'b'].includes(kind), message.content);
    assert.deepEqual(rest, {});
  }
});

test('log probabilities come with every token', async () => {
  const answer = await client.chat.completions.create({
    model: 'tiny',
    max_tokens: 5,
    logprobs: true,
    top_logprobs: 3,
    seed: 4,
    ...say('Hello there'),
  });
  const { content } = answer.choices[0].logprobs;
  assert.ok(content.length >= 1);
  for (const token of content) {
    assert.ok(token.logprob <= 0 && token.top_logprobs.length === 3);
    assert.ok(token.top_logprobs[0].logprob >= token.logprob);
  }
});

test('the demo model still answers', async () => {
  const answer = await client.chat.completions.create({ model: 'demo', temperature: 0, ...say('Hello there') });
  assert.match(answer.choices[0].message.content, /Hello/);
});

test('unsupported fields are refused, not ignored', async () => {
  const answer = await call(`${up.url}/v1/chat/completions`, {
    body: { model: 'tiny', logprobs: true, top_logprobs: 99, ...say('x') },
  });
  assert.equal(answer.status, 400);
});
