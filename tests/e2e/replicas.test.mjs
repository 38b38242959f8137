// A model with four replicas on one node, behind a router: one of them is killed under load.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { allIdle, addNode, keep, metric } from './fleet.mjs';
import { BUILD } from '../support/program.mjs';
import {
  BIN,
  call,
  descriptors,
  LONG,
  makeEcho,
  nodes,
  register,
  say,
  startRouter,
  stopwatch,
  stream,
  tempDir,
  until,
} from './support.mjs';

const run = promisify(execFile);
const STREAMS = LONG ? 64 : 16;
const TOKENS = LONG ? 1500 : 200;
const KILLS = LONG ? 5 : 1;
const MB = 1_000_000;

async function start(testing = {}) {
  const gpus = path.join(tempDir('nvml'), 'gpus');
  fs.writeFileSync(gpus, `${1000 * MB} ${10 * MB}\n`.repeat(4));
  const model = makeEcho('many', { on_device: true, weights_bytes: 600 * MB, step_ms: 20, ...testing });
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
  const how = {
    name: 'big',
    env: { LR_FAKE_NVML: gpus },
    args: [
      ...['--nvml-library', path.join(BUILD, 'testing/fake_nvml.so')],
      ...['--memory-interval', '100ms', '--replicas', '4', '--max-sequences', String(STREAMS / 2)],
    ],
  };
  const node = await addNode(router, model, how);
  const again = () => addNode(router, model, { ...how, dir: node.dir });
  await until('the node is online', async () => (await nodes(router)).some((n) => n.online));
  await register(router, 'many');
  const workers = async () =>
    (await call(`${router.url}/v0/nodes/${(await nodes(router))[0].id}/models`)).json.models[0].workers;
  const whole = () =>
    until('four replicas', async () => {
      const all = (await workers()).filter((w) => w.role === 'serving' && w.ready);
      return all.length === 4 && all;
    });
  return { router, node, again, workers, whole };
}

const handles = (node) => descriptors(node.child.pid).length;

// Memory that the ledger has given away, per device.
async function reserved(router) {
  const [node] = await nodes(router);
  const { pools } = (await call(`${router.url}/v0/nodes/${node.id}/memory`)).json;
  return pools.map((p) => [p.pool, p.reserved, p.claims.length]);
}

test('one of four replicas is killed under load: no answer is lost, none is silent for 3 s, and all four serve again', async () => {
  const { router, node, whole } = await start();
  await call(`${router.url}/v1/chat/completions`, { body: { model: 'many', ...say('x') } });
  await whole();
  const told = await until('the router knows the slots', async () => {
    const m = (await nodes(router))[0].models[0];
    return m.slots === 2 * STREAMS && m;
  });
  assert.equal(told.replicas, 4);
  await allIdle(router);
  const before = { handles: handles(node), reserved: await reserved(router) };
  for (let round = 0; round < KILLS; round++) {
    let begun = 0;
    const running = Array.from({ length: STREAMS }, (_, i) => {
      const text = `${i} `.padEnd(TOKENS, 'k');
      let last,
        gap = 0;
      const answer = stream(
        router.url,
        { model: 'many', ...say(text) },
        {
          onChunk: () => {
            begun += last === undefined;
            gap = Math.max(gap, last?.ms ?? 0);
            last = stopwatch();
          },
        },
      );
      return answer.then((out) => ({ ...out, asked: text, gap }));
    });
    await until('every stream has begun', () => begun === STREAMS);
    const busy = (await whole()).filter((w) => w.live > 0);
    assert.equal(busy.length, 4, 'each replica has work');
    process.kill(busy[round % 4].pid, 'SIGKILL');
    const answers = await Promise.all(running);
    for (const a of answers) {
      assert.equal(a.status, 200);
      assert.equal(a.error, null);
      assert.equal(a.text, a.asked);
      assert.ok(a.gap <= 3000, `silent for ${a.gap} ms`);
    }
    const all = await whole();
    assert.ok(!all.some((w) => w.pid === busy[round % 4].pid));
  }
  assert.equal(await metric(router, 'failed_total'), 0);
  await allIdle(router);
  await until('handles are back', () => handles(node) <= before.handles);
  assert.deepEqual(await reserved(router), before.reserved);
});

test("the number of replicas is an operator's command, which says why some do not come", async () => {
  const { router, workers, whole } = await start();
  await run(BIN, ['models', 'load', 'many', '--url', router.url]);
  await whole();
  const many = await run(BIN, ['models', 'replicas', 'many', '8', '--url', router.url]);
  assert.equal(many.stdout, 'many: ready\nreplicas are missing: the node has 4 GPUs\n');
  const { stdout } = await run(BIN, ['models', 'replicas', 'many', '2', '--url', router.url]);
  assert.equal(stdout, 'many: ready\n');
  await until('two', async () => (await workers()).length === 2);
  await assert.rejects(
    run(BIN, ['models', 'replicas', 'many', '0', '--url', router.url]),
    /replicas is "auto" or a number from 1 to 16/,
  );
  await run(BIN, ['models', 'replicas', 'many', 'auto', '--node', 'big', '--url', router.url]);
  await until('told', async () => (await nodes(router))[0].models[0].replicas === 1 || (await workers()).length === 1);
});

test('the number that an operator set is kept when the node starts again', async () => {
  const { router, node, again, workers } = await start();
  await run(BIN, ['models', 'replicas', 'many', '2', '--url', router.url]);
  await node.stop();
  await again();
  await until('the node is back', async () => (await nodes(router)).some((n) => n.online && n.models[0]?.can_run));
  await run(BIN, ['models', 'load', 'many', '--url', router.url]);
  await until('two replicas', async () => (await workers()).filter((w) => w.ready).length === 2);
  const { json } = await call(`${router.url}/v0/nodes/${(await nodes(router))[0].id}/models`);
  assert.equal(json.models[0].replicas_wanted, 2);
});

test('host memory of a model on a GPU is a claim in the RAM pool', async () => {
  const { router } = await start({ ram_bytes: 50 * MB });
  await run(BIN, ['models', 'load', 'many', '--url', router.url]);
  const ram = () =>
    until('claims', async () => (await reserved(router)).find(([pool, , claims]) => pool === 'ram' && claims));
  await until('four claims', async () => (await ram())[2] === 4);
  assert.equal((await ram())[1], 4 * 50 * MB);
});
