// A worker dies.  Its answers continue at once and together, the request that killed it is found,
// and afterwards the fleet is in the same state as before.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allIdle, fleet, makeFaulty, metric } from './fleet.mjs';
import { changeFrames, TYPE } from '../support/link.mjs';
import { killWorkers, workersOf } from '../support/workers.mjs';
import { call, LONG, makeEcho, nodes, say, sleep, stopwatch, stream, until } from './support.mjs';

const STREAMS = 16;

// Everybody online, every model ready, no slot taken, no heartbeat refused, longer than a
// node may be silent.
async function isWhole(router, all) {
  await allIdle(router);
  await until('ready everywhere', async () =>
    (await nodes(router)).every((n) => n.online && n.models.every((m) => m.state === 'ready')),
  );
  await sleep(LONG ? 12000 : 1500);
  assert.equal((await nodes(router)).filter((n) => n.online).length, all.length);
  assert.doesNotMatch(router.log, /node\.refused|heartbeat\.refused/);
}

// Streams of one text; kill() is called once all have some tokens.  `gap` of an answer is the
// longest time without a token.
async function streamsWith(router, asks, kill) {
  let begun = 0;
  const running = asks.map((ask) => {
    let gap = 0,
      last;
    const heard = () => {
      gap = Math.max(gap, last?.ms ?? 0);
      last = stopwatch();
    };
    return stream(router.url, ask, {
      onChunk: (out) => {
        heard();
        if (out.chunks === 5) begun++;
      },
    }).then((out) => {
      heard();
      return Object.assign(out, { gap });
    });
  });
  await until('all run', () => begun >= asks.length);
  await kill();
  return Promise.all(running);
}

test('a worker with sixteen streams is killed: all continue together, the texts are complete, and the node stays in the fleet', async () => {
  const { router, all } = await fleet(1, makeEcho('calm', { step_ms: 10 }));
  const text = 'x0123456789'.repeat(25);
  const ask = { model: 'calm', stream_options: { include_usage: true }, ...say(text) };
  const out = await streamsWith(
    router,
    Array.from({ length: STREAMS }, () => ask),
    () => killWorkers(all[0]),
  );
  for (const o of out) {
    assert.deepEqual([o.error, o.text === text, o.usage.completion_tokens], [null, true, text.length + 1]);
    assert.ok(o.gap < 2500, `silent for ${o.gap} ms, each text alone takes 2750`);
  }
  assert.ok((await metric(router, 'continuations_total')) >= STREAMS);
  await isWhole(router, all);
});

test('twelve kills of workers in the middle of answers take none of three nodes out of the fleet', async () => {
  const { router, all } = await fleet(3, makeEcho('often', { step_ms: 10 }));
  const ask = { model: 'often', ...say('0123456789'.repeat(80)) };
  const isBusy = async (name) => (await nodes(router)).find((n) => n.name === name).models[0]?.inflight > 0;
  for (let kills = 0; kills < 12; ) {
    // So many, and the kills of one worker so far apart, that at no death a request is alone in its worker: nobody has a strike.
    let begun = 0,
      longest = 0;
    const running = Array.from({ length: 36 }, () =>
      stream(router.url, ask, {
        onChunk: (out) => {
          if (out.chunks === 1) begun++;
          longest = Math.max(longest, out.text.length);
        },
      }),
    );
    await until('all run', () => begun === running.length);
    // A slow machine needs more than one round: a kill has to hit the middle of the answers.  A
    // node does not load a model again that was idle when its worker died.
    const isLate = () => longest > 600;
    while (kills < 12 && !isLate()) {
      await sleep(400);
      await until('the node has requests', async () => isLate() || (await isBusy(`n${kills % 3}`)));
      if (!isLate()) await killWorkers(all[kills++ % 3]);
    }
    for (const o of await Promise.all(running)) assert.deepEqual([o.error, o.text.length], [null, 800]);
  }
  await isWhole(router, all);
});

test('a node whose model takes long to load again: its streams continue on a node that is ready', async () => {
  const { router, all } = await fleet(2, makeEcho('heavy', { step_ms: 20, load_ms: 4000 }));
  const text = '0123456789'.repeat(15);
  const out = await streamsWith(
    router,
    Array.from({ length: 8 }, () => ({ model: 'heavy', ...say(text) })),
    () => killWorkers(all[0]),
  );
  for (const o of out) {
    assert.deepEqual([o.error, o.text], [null, text]);
    assert.ok(o.gap < 3000, `silent for ${o.gap} ms: it waited for the load`);
  }
  await isWhole(router, all);
});

test('only the prompt that kills its worker ends with a 500; the other requests lose nothing', async () => {
  const { router, all } = await fleet(2, makeFaulty('frail', { step_ms: 10, poison: 'cyanide' }));
  const text = '0123456789'.repeat(25);
  let bad;
  const out = await streamsWith(
    router,
    Array.from({ length: STREAMS }, () => ({ model: 'frail', ...say(text) })),
    async () => {
      bad = await call(`${router.url}/v1/chat/completions`, { body: { model: 'frail', ...say('some cyanide') } });
    },
  );
  assert.equal(bad.status, 500);
  assert.match(bad.json.error.message, /died twice/);
  for (const o of out) assert.deepEqual([o.error, o.text], [null, text]);
  const deaths = all.map((n) => (n.log.match(/worker\.died/g) ?? []).length).reduce((a, b) => a + b);
  assert.equal(deaths, 2, 'as the only newcomer of its steps it has two strikes');
  await isWhole(router, all);
});

test('a request that kills its worker in the middle of its answer is found by bisection; the other requests lose nothing', async () => {
  const { router, all } = await fleet(1, makeFaulty('late', { step_ms: 5, poison: 'cyanide', poison_after: 20 }));
  const text = '0123456789'.repeat(LONG ? 80 : 40);
  let bad;
  const out = await streamsWith(
    router,
    Array.from({ length: 7 }, () => ({ model: 'late', ...say(text) })),
    async () => {
      bad = await call(`${router.url}/v1/chat/completions`, {
        body: { model: 'late', ...say(`some cyanide ${'.'.repeat(50)}`) },
      });
    },
  );
  assert.equal(bad.status, 500);
  assert.match(bad.json.error.message, /died twice/);
  for (const o of out) assert.deepEqual([o.error, o.text], [null, text]);
  await isWhole(router, all);
});

test('a worker dies on a draining node: its streams move to another node at once', async () => {
  const { router, all } = await fleet(2, makeEcho('leaving', { step_ms: 20 }), {
    nodeArgs: ['--drain-timeout', '60s'],
  });
  const text = '0123456789'.repeat(15);
  const out = await streamsWith(
    router,
    Array.from({ length: 6 }, () => ({ model: 'leaving', ...say(text) })),
    async () => {
      const pids = workersOf(all[0]);
      all[0].child.kill('SIGTERM');
      await until('it drains', () => /node\.drain/.test(all[0].log));
      pids.forEach((pid) => process.kill(pid, 'SIGKILL'));
    },
  );
  for (const o of out) {
    assert.deepEqual([o.error, o.text], [null, text]);
    assert.ok(o.gap < 3000, `silent for ${o.gap} ms`);
  }
});

test('a link that breaks six times during one stream, with tokens between, does not end the stream', async () => {
  const { router, all } = await fleet(3, makeEcho('shaky', { step_ms: 10 }), { proxied: true });
  const text = '0123456789'.repeat(20);
  let cuts = 0;
  const out = await stream(
    router.url,
    { model: 'shaky', ...say(text) },
    {
      onChunk: (o) => {
        if (cuts < 6 && o.text.length >= 20 * (cuts + 1)) {
          cuts++;
          all.forEach((n) => n.proxy.reset());
        }
      },
    },
  );
  assert.deepEqual([cuts, out.error, out.text], [6, null, text]);
});

test('a malformed event of a node moves the answer to another node instead of ending it', async () => {
  const { router, all } = await fleet(2, makeEcho('garbled', { step_ms: 15 }), { proxied: true });
  const text = '0123456789'.repeat(10);
  let spoiled = 0;
  for (const node of all)
    node.proxy.changeAnswer = (bytes) =>
      changeFrames(bytes, (frame) => {
        // Behind the header the request, the id, flags, and a count that the frame cannot hold.
        if (spoiled === 0 && frame[5] === TYPE.TOKEN) {
          spoiled++;
          frame[25] = 255;
        }
        return [frame];
      });
  const out = await stream(router.url, { model: 'garbled', ...say(text) });
  assert.deepEqual([spoiled, out.error, out.text], [1, null, text]);
});

for (const [what, change] of [
  ['is missing', () => []],
  ['comes twice', (frame) => [frame, frame]],
])
  test(`an event that ${what} is detected, and the answer continues on another node without it`, async () => {
    const { router, all } = await fleet(2, makeEcho('gap', { step_ms: 15 }), { proxied: true });
    const text = '0123456789'.repeat(10);
    let tokens = 0;
    for (const node of all)
      node.proxy.changeAnswer = (bytes) =>
        changeFrames(bytes, (frame) => (frame[5] === TYPE.TOKEN && ++tokens === 10 ? change(frame) : [frame]));
    const out = await stream(router.url, { model: 'gap', ...say(text) });
    assert.deepEqual([out.error, out.text], [null, text]);
    assert.equal(await metric(router, 'continuations_total'), 1);
    assert.match(router.log, /event \d+ of a generation came where \d+ was due/);
  });
