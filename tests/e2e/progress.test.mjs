// What a streamed request waits for: comments that a client may ask for.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { call, makeEcho, say, startUp, tempDir, until } from './support.mjs';

const gate = path.join(tempDir('gate'), 'gate');
let up;
before(async () => {
  fs.writeFileSync(gate, '');
  up = await startUp({
    args: [
      '--max-sequences',
      '1',
      '--model',
      makeEcho('gated', { gate }),
      '--model',
      makeEcho('loads', { load_ms: 3000 }),
      '--model',
      makeEcho('reads', { prefill_ms: 2500 }),
    ],
  });
});
after(() => up?.stop());

/** A stream whose comments are kept; `text` is the rest. */
async function open(model, content, headers = { 'x-llm-router-progress': '1' }) {
  const out = { comments: [], text: '' };
  out.ended = fetch(`${up.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model, stream: true, ...say(content) }),
  }).then(async (answer) => {
    let rest = '';
    for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
      rest += piece;
      for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
        const line = rest.slice(0, end);
        if (line.startsWith(': progress ')) out.comments.push(JSON.parse(line.slice(11)));
        else if (line.startsWith('data: {')) out.text += JSON.parse(line.slice(6)).choices[0]?.delta?.content ?? '';
      }
    }
  });
  return out;
}

test('a request that waits in the queue is told how many come first', async () => {
  const waiting = (count) =>
    until(`${count} wait`, async () => (await call(`${up.url}/v0/explain?model=gated`)).json.queued === count);
  // The node takes two beyond its slots.
  const running = await Promise.all(['x', 'y', 'z'].map((text) => open('gated', text, {})));
  const inflight = async () => (await call(`${up.url}/v0/models?id=gated`)).json.models[0].nodes[0].inflight;
  await until('they run', async () => (await inflight()) === running.length);
  const second = await open('gated', 'b');
  await waiting(1);
  const third = await open('gated', 'c');
  await waiting(2);
  await until('both know', () => second.comments.length > 0 && third.comments.length > 0);
  assert.deepEqual([second.comments[0].state, second.comments[0].ahead], ['queued', 0]);
  assert.deepEqual([third.comments[0].state, third.comments[0].ahead], ['queued', 1]);
  fs.writeFileSync(gate, 'x'.repeat(100));
  await Promise.all([...running, second, third].map((one) => one.ended));
  assert.deepEqual([second.text, third.text], ['b', 'c']);
  assert.deepEqual(running[0].comments, [], 'a client that does not ask gets none');
});

test('a request that waits for a model is told how much of it is loaded', async () => {
  await call(`${up.url}/v0/models/loads/unload`, { body: {} });
  await until(
    'it is gone',
    async () => (await call(`${up.url}/v0/models?id=loads`)).json.models[0].state === 'present',
  );
  const one = await open('loads', 'hello');
  await one.ended;
  const loading = one.comments.filter((c) => c.state === 'loading');
  assert.ok(loading.length >= 2, JSON.stringify(one.comments));
  assert.ok(loading.every((c, i) => c.done <= c.total && (i === 0 || c.done > loading[i - 1].done)));
  assert.ok(
    loading.every((c) => c.node?.length >= 8),
    'an admin sees the node',
  );
  assert.equal(one.text, 'hello');
});

test('a request whose prompt is computed is told how far that is', async () => {
  const one = await open('reads', 'word '.repeat(200));
  await one.ended;
  const read = one.comments.filter((c) => c.state === 'prefill');
  assert.ok(read.length >= 1, JSON.stringify(one.comments));
  assert.ok(read.every((c) => c.done <= c.total && c.total >= 200));
});
