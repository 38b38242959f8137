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
