// A stopping router lets its streams finish, and refuses new requests with Retry-After.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fleet, keep, makeGated, makeKey } from './fleet.mjs';
import {
  call,
  LONG,
  makeEcho,
  say,
  sleep,
  startRouter,
  startUp,
  stopwatch,
  stream,
  tempDir,
  until,
} from './support.mjs';

// Resolves with the stream's end, or 'cut'.
const begin = (url, body, key) =>
  new Promise((begun) => {
    const done = stream(url, body, {
      key,
      onChunk: (out) => {
        if (out.text.length >= 3) begun({ done });
      },
    }).catch(() => 'cut');
  });

const answers = (url) =>
  call(`${url}/health`).then(
    () => true,
    () => false,
  );

test('SIGTERM: running streams finish, new requests get 503 with Retry-After, then the router is gone', async () => {
  const { model, open } = makeGated('slow');
  open(5);
  const { router } = await fleet(1, model);
  const text = '0123456789'.repeat(4);
  const running = await Promise.all(
    Array.from({ length: 3 }, () => begin(router.url, { model: 'slow', ...say(text) })),
  );
  router.child.kill('SIGTERM');
  const refused = await until('it refuses', async () => {
    const answer = await call(`${router.url}/v1/chat/completions`, {
      body: { model: 'slow', max_tokens: 1, ...say('hi') },
    });
    return answer.status !== 200 && answer;
  });
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
  assert.match(refused.json.error.message, /shutting down/);
  open(100);
  for (const { done } of running) {
    const out = await done;
    assert.deepEqual([out.error, out.text, out.done], [null, text, true]);
  }
  assert.deepEqual(await router.ended, { code: 0, signal: null });
});

test('requests in the queue at SIGTERM are served, too', async () => {
  const { model, open } = makeGated('one');
  const { router } = await fleet(1, model, { nodeArgs: ['--max-sequences', '1'] });
  const text = '0123456789';
  const all = Array.from({ length: 6 }, () => stream(router.url, { model: 'one', ...say(text) }));
  await until('some wait', async () => (await call(`${router.url}/v0/explain?model=one`)).json.queued === 3);
  router.child.kill('SIGTERM');
  await until('it drains', () => /router\.drain/.test(router.log));
  open(100);
  for (const out of await Promise.all(all)) assert.deepEqual([out.error, out.text], [null, text]);
  assert.equal((await router.ended).code, 0);
});

test('a second signal ends the router at once; the tokens until then are counted', async () => {
  const { router } = await fleet(1, makeEcho('long', { step_ms: 40 }));
  const key = await makeKey(router);
  const running = await begin(router.url, { model: 'long', ...say('x'.repeat(2000)) }, key.key);
  router.child.kill('SIGTERM');
  await until('it drains', () => /router\.drain/.test(router.log));
  const watch = stopwatch();
  router.child.kill('SIGTERM');
  assert.equal((await router.ended).code, 0);
  assert.ok(watch.ms < 3000, `${watch.real} ms`);
  const out = await running.done;
  assert.ok(out === 'cut' || !out.done);
  const again = keep(await startRouter({ dir: router.dir, args: ['--allow-cpu-nodes'] }));
  const row = (await call(`${again.url}/v0/usage`)).json.usage.find((u) => u.key === key.id);
  assert.ok(row?.completion_tokens >= 3, JSON.stringify(row));
});

test('drain-timeout is the longest a stopping router waits', async () => {
  const { router } = await fleet(1, makeEcho('long', { step_ms: 40 }), { args: ['--drain-timeout', '500ms'] });
  const running = await begin(router.url, { model: 'long', ...say('x'.repeat(2000)) });
  const watch = stopwatch();
  router.child.kill('SIGTERM');
  assert.equal((await router.ended).code, 0);
  assert.ok(watch.real >= 500 && watch.ms < 4000, `${watch.real} ms`);
  const out = await running.done;
  assert.ok(out === 'cut' || !out.done);
});

test('up: Ctrl-C ends without a warning, at any time between two heartbeats of the node', async () => {
  for (const wait of LONG ? [0, 150, 300, 450, 600, 750, 900] : [0, 450, 900]) {
    const up = keep(await startUp({ args: ['--model', makeEcho('calm')], dir: tempDir('up') }));
    await sleep(wait); // the moment is what is tested
    up.child.kill('SIGINT');
    assert.equal((await up.ended).code, 0);
    assert.doesNotMatch(up.log, /level=(warn|error)| (WARN|ERROR) |router\.trouble/i);
  }
});

test('up: a second Ctrl-C ends router, node and worker at once', async () => {
  const up = keep(await startUp({ args: ['--model', makeEcho('long', { step_ms: 40 })], dir: tempDir('up') }));
  const running = await begin(up.url, { model: 'long', ...say('x'.repeat(2000)) });
  const children = (pid) =>
    fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  const [node] = children(up.pid);
  const pids = [node, ...children(node)];
  assert.ok(pids.length >= 2);
  up.child.kill('SIGINT');
  await until('it says how to hurry', () => /Ctrl-C again to stop at once/.test(up.out));
  assert.equal(await answers(up.url), true, 'it still listens');
  const watch = stopwatch();
  up.child.kill('SIGINT');
  assert.equal((await up.ended).code, 0);
  assert.ok(watch.ms < 4000, `${watch.real} ms`);
  await until(
    'nobody is left',
    () =>
      pids.every(
        (pid) =>
          !fs.existsSync(path.join('/proc', pid, 'fd', '0')) ||
          /^State:\s+[ZX]/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8')),
      ),
    5000,
  );
  const out = await running.done;
  assert.ok(out === 'cut' || !out.done);
});
