// Every slot of the fleet is taken when a worker or a node dies.  Its answers wait for no other answer: they go on as soon
// as what died is back, and the answers beside them do not notice.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { addNode, allIdle, fleet, keep } from './fleet.mjs';
import { BUILD } from '../support/program.mjs';
import {
  call,
  LONG,
  makeEcho,
  nodes,
  register,
  say,
  sleep,
  startRouter,
  stopwatch,
  stream,
  tempDir,
  until,
} from './support.mjs';

const STREAMS = 16;
const ROUNDS = LONG ? 20 : 2;
const SILENCE_MS = 1500;
const RESTART_MS = 300; // how long a killed node stays away
const MB = 1_000_000;
// Takes 3 s, so a stream that waits for the end of another one is silent for far longer than SILENCE_MS.
const STEP_MS = 5;
const LOAD_MS = 500; // longer than a full node seems to need for one more: the estimate is 64 steps
const TEXT = '0123456789'.repeat(60);

const serving = async (router) =>
  (
    await Promise.all(
      (
        await nodes(router)
      ).map(async (n) => (await call(`${router.url}/v0/nodes/${n.id}/models`)).json?.models?.[0]?.workers ?? []),
    )
  )
    .flat()
    .filter((w) => w.role === 'serving' && w.ready);

// The router has measured the steps of every node: it knows that a full node with quick steps looks better than a load.
const warm = (router, model) =>
  Promise.all(Array.from({ length: STREAMS }, () => stream(router.url, { model, ...say('x'.repeat(40)) })));

// Sixteen streams; kill() is called once each has tokens and has a slot.  Resolves with the longest silence of each.
async function fill(router, model, workers, kill) {
  let begun = 0;
  await until('every slot is free', async () => (await serving(router)).every((w) => w.live === 0));
  await until('the router knows', async () => (await nodes(router)).every((n) => n.models[0].running === 0));
  const running = Array.from({ length: STREAMS }, () => {
    let gap = 0,
      last;
    const heard = () => {
      gap = Math.max(gap, last?.ms ?? 0);
      last = stopwatch();
    };
    return stream(
      router.url,
      { model, ...say(TEXT) },
      {
        onChunk: (out) => {
          heard();
          if (out.chunks === 10) begun++;
        },
      },
    ).then((out) => ({ error: out.error, text: out.text, gap }));
  });
  await until('every stream runs', () => begun === STREAMS);
  const busy = await serving(router);
  assert.deepEqual(
    busy.map((w) => w.live),
    Array(workers).fill(STREAMS / workers),
    'every slot is taken',
  );
  const limit = SILENCE_MS + (await kill(busy));
  const all = await Promise.all(running);
  for (const o of all) assert.deepEqual([o.error, o.text], [null, TEXT]);
  const gaps = all.map((o) => Math.round(o.gap)).sort((a, b) => b - a);
  assert.ok(gaps[0] <= limit, `silent for ${gaps} ms, at most ${limit} are promised`);
  await allIdle(router);
  return gaps[0];
}

// The rounds of a test, each of which gives its longest silence.
async function rounds(t, one) {
  const silences = [];
  for (let round = 0; round < ROUNDS; round++) silences.push(await one());
  t.diagnostic(`longest silences in ms: ${silences.sort((a, b) => a - b).join(' ')}`);
}

const killWorker = async ([first]) => {
  process.kill(first.pid, 'SIGKILL');
  return 0;
};

test('all slots of two nodes are taken and a worker dies: no stream is silent for 1.5 s, and the texts are whole', async (t) => {
  const { router } = await fleet(2, makeEcho('packed', { step_ms: STEP_MS, load_ms: LOAD_MS }), {
    nodeArgs: ['--max-sequences', String(STREAMS / 2)],
  });
  await warm(router, 'packed');
  await rounds(t, async () => {
    await until('both serve', async () => (await serving(router)).length === 2);
    return fill(router, 'packed', 2, killWorker);
  });
});

test('all slots of two nodes are taken and a node dies: its streams go on 1.5 s after it has joined again at the latest', async (t) => {
  const model = makeEcho('packed', { step_ms: STEP_MS, load_ms: LOAD_MS });
  const nodeArgs = ['--max-sequences', String(STREAMS / 2)];
  const { router, all } = await fleet(2, model, { nodeArgs });
  let node = all[0];
  await warm(router, 'packed');
  await rounds(t, async () => {
    await until('both serve', async () => (await serving(router)).length === 2);
    return fill(router, 'packed', 2, async () => {
      const away = stopwatch();
      await node.stop('SIGKILL');
      await sleep(RESTART_MS);
      node = await addNode(router, model, { name: node.name, dir: node.dir, port: node.port, args: nodeArgs });
      await until('it has joined', () => /router\.joined/.test(node.log));
      return away.ms;
    });
  });
});

test('all slots of four replicas on one node are taken and one dies: no stream is silent for 1.5 s, and the texts are whole', async (t) => {
  const gpus = path.join(tempDir('nvml'), 'gpus');
  fs.writeFileSync(gpus, `${1000 * MB} ${10 * MB}\n`.repeat(4));
  const model = makeEcho('many', { on_device: true, weights_bytes: 600 * MB, step_ms: STEP_MS, load_ms: LOAD_MS });
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
  await addNode(router, model, {
    name: 'big',
    env: { LR_FAKE_NVML: gpus },
    args: [
      ...['--nvml-library', path.join(BUILD, 'testing/fake_nvml.so'), '--memory-interval', '100ms'],
      ...['--replicas', '4', '--max-sequences', String(STREAMS / 4)],
    ],
  });
  await until('the node is online', async () => (await nodes(router)).some((n) => n.online));
  await register(router, 'many');
  await call(`${router.url}/v1/chat/completions`, { body: { model: 'many', ...say('x') } });
  await warm(router, 'many');
  await rounds(t, async () => {
    await until('all serve', async () => (await serving(router)).length === 4);
    await until('the router knows the slots', async () => (await nodes(router))[0].models[0].slots === STREAMS);
    return fill(router, 'many', 4, killWorker);
  });
});
