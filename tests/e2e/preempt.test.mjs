// Preemption: the arriving request names the running answer that it replaces, that answer continues later,
// and neither client sees more than a pause; every token is counted once.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { allIdle, fleet, makeKey, metric } from './fleet.mjs';
import { changeFrames, TYPE } from '../support/link.mjs';
import { call, makeEcho, say, sleep, stopwatch, stream, until } from './support.mjs';

const text = (i, length) => `${i}:`.padEnd(length, 'abcdefghijklmnopqrstuvwxyz0123456789');

// Answers of a key, each as long as asked for; `now` is what has come so far.
function ask(router, key, model, says, { signal, ...more } = {}) {
  const self = { says, now: '' },
    watch = stopwatch();
  self.ended = stream(
    router.url,
    { model, ...say(says), ...more, stream_options: { include_usage: true } },
    {
      key: key.key,
      signal,
      onChunk: (out) => {
        if (out.text !== '') self.first ??= watch.ms;
        self.now = out.text;
      },
    },
  );
  return self;
}

async function whole(answers) {
  for (const a of answers) {
    const out = await a.ended;
    assert.equal(out.status, 200, out.body);
    assert.equal(out.text, a.says, 'nothing is lost and nothing comes twice');
    assert.equal(out.usage.completion_tokens, a.says.length + 1);
  }
}

async function metrics(node) {
  const { secret } = JSON.parse(fs.readFileSync(path.join(node.dir, 'node-identity.json')));
  return (await call(`http://127.0.0.1:${node.port}/metrics`, { key: secret })).text;
}

// The engine's own count of tokens made is what the keys are charged.
async function counted(router, all) {
  const made = async () => Number((await metrics(all[0])).match(/^llm_router_node_tokens_total (\d+)/m)?.[1]);
  const charged = async () =>
    (await call(`${router.url}/v0/usage`)).json.usage.reduce((n, u) => n + u.completion_tokens, 0);
  await until('every token is counted once', async () => (await made()) === (await charged()), 8000).catch(async () =>
    assert.equal(await charged(), await made(), 'tokens counted, tokens made'),
  );
}

for (const slots of [1, 8])
  test(`with ${slots === 1 ? 'one slot' : `${slots} slots`}: answers of the key that fills the model are preempted, all answers are complete and every token is counted once`, async () => {
    const { router, all } = await fleet(1, makeEcho('aside', { step_ms: 20 }), {
      nodeArgs: ['--max-sequences', `${slots}`],
    });
    const [flood, small] = await Promise.all([makeKey(router), makeKey(router)]);
    const many = Array.from({ length: 3 * slots + 2 }, (_, i) => ask(router, flood, 'aside', text(i, 40 + i)));
    await until('the slots are taken', async () => many.filter((a) => a.now !== '').length >= slots);
    const few = [];
    for (let i = 0; i < 6; i++) {
      few.push(ask(router, small, 'aside', text(i, 10)));
      await sleep(60);
    }
    await whole(few);
    await whole(many);
    assert.ok((await metric(router, 'preempted_total')) > 0);
    assert.equal(
      (await metric(router, 'retries_total')) + (await metric(router, 'continuations_total')),
      0,
      'no node is thought ill',
    );
    await counted(router, all);
    await allIdle(router);
  });

test('three requests of a small key within one step all begin with the next step', async () => {
  const step = 300,
    slots = 12; // an answer is preempted once: ten of them are
  const { router, all } = await fleet(1, makeEcho('three', { step_ms: step }), {
    nodeArgs: ['--max-sequences', `${slots}`],
  });
  const [flood, small] = await Promise.all([makeKey(router), makeKey(router)]);
  const leaving = new AbortController();
  const many = Array.from({ length: 30 }, (_, i) =>
    ask(router, flood, 'three', text(i, 40), { signal: leaving.signal }),
  );
  many.forEach((a) => a.ended.catch(() => {}));
  await until('the slots are taken', async () => many.filter((a) => a.now !== '').length >= slots);
  const two = () => ask(router, small, 'three', 'of this two tokens are enough', { max_tokens: 2 });
  await two().ended; // the key is known, and what the node can do
  const tries = [];
  for (let i = 0; i < 3; i++) {
    // Just after a step's tokens: the next step has begun, and the one after it is theirs.
    const before = many.map((a) => a.now.length);
    await until('a step', () => many.some((a, j) => a.now.length > before[j]), 5000);
    const three = Array.from({ length: 3 }, two);
    for (const a of three) assert.equal((await a.ended).text, 'of');
    tries.push(Math.max(...three.map((a) => a.first)));
  }
  // A wait for the one that leaves would be a third step; the machine may be busy in a try.
  assert.ok(Math.min(...tries) < 2.6 * step, `the last of three began after ${tries} ms, steps take ${step}`);
  assert.ok((await metric(router, 'preempted_total')) >= 10);
  leaving.abort();
  await allIdle(router);
  await counted(router, all);
});

test('a node that does not know the answer to be preempted: the router cancels that answer itself, and all answers are complete', async () => {
  const { router, all } = await fleet(1, makeEcho('older', { step_ms: 20 }), {
    nodeArgs: ['--max-sequences', '4'],
    proxied: true,
  });
  let named = 0;
  all[0].proxy.change = (bytes) =>
    changeFrames(bytes, (frame) => {
      if (frame[5] !== TYPE.SWAP) return [frame];
      named++;
      let at = 8 + 28; // request_id, model, trace, then who leaves
      for (let i = 0; i < 3; i++) at += 4 + frame.readUInt32LE(at);
      frame.fill('X', at + 4, at + 4 + frame.readUInt32LE(at));
      return [frame];
    });
  const [flood, small] = await Promise.all([makeKey(router), makeKey(router)]);
  const many = Array.from({ length: 16 }, (_, i) => ask(router, flood, 'older', text(i, 60)));
  await until('the slots are taken', async () => many.filter((a) => a.now !== '').length >= 4);
  await whole([ask(router, small, 'older', 'hello')]); // those beyond the slots leave, too, and are asked
  const asked = await metric(router, 'preempted_total');
  named = 0;
  for (let i = 0; i < 5; i++) await whole([ask(router, small, 'older', text(i, 6))]);
  const left = (await metric(router, 'preempted_total')) - asked;
  assert.ok(
    named > 1 && left >= named / 2,
    `of ${named} that the router named ${left} left all the same, asked one by one`,
  );
  await whole([10, 12, 14].map((length) => ask(router, small, 'older', text(0, length))));
  await whole(many);
  assert.equal((await metric(router, 'retries_total')) + (await metric(router, 'continuations_total')), 0);
  await counted(router, all);
  await allIdle(router);
});

test('answers whose clients disconnect during preemption, and answers that end in that moment, keep no slot', async () => {
  const { router, all } = await fleet(1, makeEcho('leave', { step_ms: 10 }), { nodeArgs: ['--max-sequences', '4'] });
  const [flood, small] = await Promise.all([makeKey(router), makeKey(router)]);
  for (let round = 0; round < 5; round++) {
    const gone = new AbortController();
    const leave = Array.from({ length: 4 }, (_, i) =>
      ask(router, flood, 'leave', text(i, 200), { signal: gone.signal }),
    );
    const end = Array.from({ length: 4 }, (_, i) => ask(router, flood, 'leave', text(i, 4 + 3 * i)));
    leave.forEach((a) => a.ended.catch(() => {}));
    await until('the slots are taken', async () => [...leave, ...end].filter((a) => a.now !== '').length >= 4);
    const few = Array.from({ length: 5 }, (_, i) => ask(router, small, 'leave', text(i, 8)));
    gone.abort();
    await whole(few);
    await whole(end);
  }
  await allIdle(router);
  await until('nothing runs', async () => /model_live\{[^}]*\} 0/.test(await metrics(all[0])));
  await counted(router, all);
});
