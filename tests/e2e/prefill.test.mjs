// Fair prefill on the CPU: a short prompt does not wait behind a long one.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { allIdle, fleet, inflight } from './fleet.mjs';
import { call, until } from './support.mjs';

const DEMO = path.resolve('models/demo');

test('a short chat is answered while a long prompt is being computed, and a client that leaves its long prompt frees the model', async () => {
  const { router } = await fleet(1, DEMO);
  const client = new AbortController();
  let hasToken = false;
  const long = fetch(`${router.url}/v1/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ model: 'demo', prompt: 'What is 3 + 4? '.repeat(3000), max_tokens: 4, stream: true }),
    signal: client.signal,
  }).then(async (response) => {
    assert.equal(response.status, 200);
    for await (const bytes of response.body) hasToken ||= new TextDecoder().decode(bytes).includes('data: {');
  });
  long.catch(() => {});
  await until('the node has the long prompt', async () => (await inflight(router))[0] === 1);
  for (const question of ['What is 3 + 4?', 'What is 5 + 6?', 'What is 2 + 2?']) {
    const { status, json } = await call(`${router.url}/v1/chat/completions`, {
      body: { model: 'demo', temperature: 0, messages: [{ role: 'user', content: question }] },
    });
    assert.equal(status, 200, JSON.stringify(json));
    assert.equal(json.choices[0].finish_reason, 'stop');
    assert.equal(hasToken, false, 'the long prompt came first');
  }
  client.abort();
  await assert.rejects(long);
  await allIdle(router);
});

test('prompts that are tokenized beside the steps are answered in whole, or refused with 400 and both numbers', async () => {
  const { router } = await fleet(1, DEMO, { nodeArgs: ['--max-context', '2048'] });
  // One token of the demo model has 45 bytes: long texts, few tokens.
  const ask = (tokens, stream) =>
    fetch(`${router.url}/v1/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        model: 'demo',
        prompt: '、とても小さなデモ用モデルです'.repeat(tokens),
        max_tokens: 4,
        ignore_eos: true,
        stream,
      }),
    });
  const longs = [0, 1, 2, 3].map(async (i) => (await ask(400 + i, false)).json());
  for (const stream of [false, true]) {
    const refused = await ask(5000, stream);
    assert.equal(refused.status, 400);
    assert.match((await refused.json()).error.message, /maximum context length is 2048 tokens.* 5000 tokens/);
  }
  const answers = await Promise.all(longs);
  assert.deepEqual(
    answers.map((answer) => answer.usage.prompt_tokens),
    [400, 401, 402, 403],
  );
  for (const answer of answers) assert.equal(answer.usage.completion_tokens, 4, JSON.stringify(answer));
  await allIdle(router);
});
