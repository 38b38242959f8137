// Replicas of a model on the GPUs of a node: echo workers on GPUs of a fake NVML.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ask, generate, LONG, makeModel, sleep, startNode, tempDir, TESTING, until } from './node_harness.mjs';

const MB = 1_000_000;

async function startWithGpus(gpus, { models = { m: {} }, args = [], env = {} } = {}) {
  const dir = tempDir('models');
  const file = path.join(dir, 'nvml');
  fs.writeFileSync(file, gpus.map((words) => `${1000 * MB} ${10 * MB} ${words}\n`).join(''));
  for (const [id, testing] of Object.entries(models))
    makeModel(dir, id, 'echo', { weights_bytes: 600 * MB, on_device: true, ...testing });
  const node = await startNode({
    models: dir,
    env: { LR_FAKE_NVML: file, ...env },
    args: ['--nvml-library', path.join(TESTING, 'fake_nvml.so'), '--memory-interval', '100ms', ...args],
  });
  node.serving = async (id) => (await node.model(id)).workers.filter((w) => w.role === 'serving' && w.ready);
  node.ready = (id, count) =>
    until(`${count} replicas of ${id}`, async () => (await node.serving(id)).length === count);
  node.metric = async (name) =>
    Number(
      (await (await fetch(`${node.url}/metrics`)).text()).match(new RegExp(`^llm_router_node_${name} (\\d+)`, 'm'))[1],
    );
  return node;
}

const environ = (pid) => fs.readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');

describe('replicas', () => {
  let node;
  before(async () => {
    node = await startWithGpus(['', '', ''], {
      args: ['--max-sequences', '4', '--replicas', '3'],
      models: { m: { step_ms: 5 }, big: {} },
    });
    assert.equal((await generate(node, ask('m', 'x'))).text, 'x');
    await node.ready('m', 3);
  });
  after(() => node.stop());

  it('lie on GPUs of their own, and each worker sees its own GPU only', async () => {
    const workers = await node.serving('m');
    assert.deepEqual(workers.map((w) => w.pool).sort(), ['GPU-fake-0', 'GPU-fake-1', 'GPU-fake-2']);
    for (const w of workers) assert.ok(environ(w.pid).includes(`CUDA_VISIBLE_DEVICES=${w.pool}`), w.pool);
    assert.equal((await node.model('m')).replicas, 3);
    assert.equal(await node.metric('model_replicas{model="m"}'), 3);
  });

  it('share the requests: none has more than it can compute while another one has slots', async () => {
    const streams = Array.from({ length: 12 }, () => generate(node, ask('m', 'y'.repeat(400))));
    await until('each has four', async () => (await node.serving('m')).every((w) => w.live === 4));
    for (const answer of await Promise.all(streams)) assert.equal(answer.text, 'y'.repeat(400));
  });

  it('their number is changed by the API, and a wrong number is refused with the allowed ones', async () => {
    const wrong = await node.post('/v0/models/m/replicas?count=99');
    assert.equal(wrong.status, 400);
    assert.match(await wrong.text(), /auto.*1 to 16.*99/);
    assert.equal((await (await node.post('/v0/models/m/replicas?count=1')).json()).replicas_wanted, 1);
    await node.ready('m', 1);
    await node.post('/v0/models/m/replicas?count=3');
    await node.ready('m', 3);
  });

  it('wanted ones that do not come have a reason, which is logged once and goes when they are there', async () => {
    const answer = await (await node.post('/v0/models/m/replicas?count=8')).json();
    assert.equal(answer.replicas_reason, 'the node has 3 GPUs');
    await sleep(500); // the node compares wanted and running replicas several times
    assert.equal((await node.model('m')).replicas_reason, 'the node has 3 GPUs');
    assert.equal(node.log.match(/replica\.missing model=m .*reason="the node has 3 GPUs"/g).length, 1);
    await node.post('/v0/models/m/replicas?count=3');
    assert.equal((await node.model('m')).replicas_reason, undefined);
  });

  it('an extra one leaves when another model needs its memory, and comes back when there is room', async () => {
    await node.post('/v0/models/m/pin'); // protects one replica, and not all
    await node.post('/v0/models/big/replicas?count=1');
    const before = await node.serving('m');
    assert.equal((await generate(node, ask('big', 'z'))).text, 'z');
    const left = await node.serving('m');
    assert.equal(left.length, 2);
    for (const w of left) assert.ok(before.some((b) => b.pid === w.pid));
    const { pool } = await node.worker('big');
    assert.ok(left.every((w) => w.pool !== pool));
    await until('the reason for which the third does not come', async () =>
      /^no GPU that may hold one more replica has 57\d\.\d MiB free$/.test((await node.model('m')).replicas_reason),
    );
    await node.post('/v0/models/big/unload');
    await node.ready('m', 3);
    assert.equal((await node.model('m')).replicas_reason, undefined);
    assert.ok((await node.serving('m')).some((w) => w.pool === pool));
  });
});

it('two replicas give twice the throughput of one', async () => {
  const node = await startWithGpus(['', '', ''], {
    models: { one: { step_ms: 20, weights_bytes: 300 * MB }, two: { step_ms: 20, weights_bytes: 300 * MB } },
    args: ['--max-sequences', '4'],
  });
  for (const [id, count] of [
    ['one', 1],
    ['two', 2],
  ]) {
    await node.post(`/v0/models/${id}/replicas?count=${count}`);
    await node.post(`/v0/models/${id}/load`);
    await node.ready(id, count);
  }
  const controller = new AbortController();
  const all = ['one', 'two'].flatMap((id) =>
    Array.from({ length: 8 }, () =>
      generate(node, ask(id, 't'.repeat(20000)), { signal: controller.signal }).catch(() => {}),
    ),
  );
  await until('every slot is taken', async () =>
    [...(await node.serving('one')), ...(await node.serving('two'))].every((w) => w.stats.sequences >= 4),
  );
  // Both from one page: what is read later has more tokens.
  const tokens = async () => {
    const text = await (await fetch(`${node.url}/metrics`)).text();
    return ['one', 'two'].map((id) =>
      Number(text.match(new RegExp(`^llm_router_node_model_tokens_total{model="${id}"} (\\d+)`, 'm'))[1]),
    );
  };
  // Both at the same time: what disturbs one disturbs the other.
  const from = await tokens();
  await sleep(LONG ? 20000 : 2000);
  const to = await tokens();
  controller.abort();
  const ratio = (to[1] - from[1]) / (to[0] - from[0]);
  assert.ok(ratio >= 1.9, `${ratio}: ${from} to ${to}`);
  await Promise.all(all);
  await node.stop();
});

it('auto: a replica is added when no slot was free for some seconds', async () => {
  const node = await startWithGpus(['', ''], { models: { m: { step_ms: 10 } }, args: ['--max-sequences', '2'] });
  const answers = Array.from({ length: 6 }, () => generate(node, ask('m', 'a'.repeat(700))));
  await node.ready('m', 2);
  await until('both serve', async () => (await node.serving('m')).every((w) => w.live > 0));
  for (const answer of await Promise.all(answers)) assert.equal(answer.text.length, 700);
  await node.stop();
});

it('a CPU node says that it runs one replica', async () => {
  const models = tempDir('models');
  makeModel(models, 'm');
  const node = await startNode({ models, args: ['--replicas', '2'] });
  await node.post('/v0/models/m/load');
  await until('the reason', async () => (await node.model('m')).replicas_reason === 'a CPU node runs one replica');
  await node.stop();
});

it('the same GPU named twice holds two replicas; a GPU that is hidden is not used', async () => {
  const twice = await startWithGpus(['', ''], {
    models: { m: { weights_bytes: 300 * MB } },
    args: ['--gpus', '1,1', '--replicas', '2'],
  });
  assert.equal((await generate(twice, ask('m', 'x'))).text, 'x');
  await twice.ready('m', 2);
  assert.deepEqual(
    (await twice.serving('m')).map((w) => w.pool),
    ['GPU-fake-1', 'GPU-fake-1'],
  );
  await twice.stop();
  const hidden = await startWithGpus(['', '', ''], {
    args: ['--replicas', '3'],
    env: { CUDA_VISIBLE_DEVICES: '2,GPU-fake-0' },
  });
  assert.deepEqual(
    (await hidden.get('/v0/memory')).pools.map((p) => p.pool),
    ['ram', 'GPU-fake-0', 'GPU-fake-2'],
  );
  assert.equal((await generate(hidden, ask('m', 'x'))).text, 'x');
  await hidden.ready('m', 2);
  await hidden.stop();
  await assert.rejects(startWithGpus([''], { args: ['--gpus', '0,4'] }), /setting gpus names "4"/);
  await assert.rejects(startWithGpus([''], { args: ['--replicas', 'many'] }), /replicas is "auto" or a number/);
});

it('the parts of a GPU (MIG) are devices of their own', async () => {
  const node = await startWithGpus(['mig=2'], {
    models: { m: { weights_bytes: 300 * MB } },
    args: ['--replicas', '2'],
  });
  assert.equal((await generate(node, ask('m', 'x'))).text, 'x');
  await node.ready('m', 2);
  const workers = await node.serving('m');
  assert.deepEqual(workers.map((w) => w.pool).sort(), ['MIG-fake-0-0', 'MIG-fake-0-1']);
  for (const w of workers) assert.ok(environ(w.pid).includes(`CUDA_VISIBLE_DEVICES=${w.pool}`));
  await node.stop();
});

it('a node uses 64 GPUs and parts of GPUs, and says how many it leaves out', async () => {
  const parts = await startWithGpus(Array.from({ length: 8 }, () => 'mig=7'));
  const { pools } = await parts.get('/v0/memory');
  assert.equal(pools.length, 1 + 56);
  assert.equal(new Set(pools.map((p) => p.pool)).size, 1 + 56);
  assert.doesNotMatch(parts.log, /gpus_left_out/);
  await parts.stop();

  const gpus = Array.from({ length: 70 }, () => '');
  const many = await startWithGpus(gpus);
  assert.equal((await many.get('/v0/memory')).pools.length, 1 + 64);
  assert.match(many.log, /memory\.gpus_left_out count=6 reason=".*setting gpus chooses/);
  await many.stop();

  const chosen = await startWithGpus(gpus, { args: ['--gpus', '68,69', '--replicas', '2'] });
  assert.equal((await generate(chosen, ask('m', 'x'))).text, 'x');
  await chosen.ready('m', 2);
  assert.deepEqual((await chosen.serving('m')).map((w) => w.pool).sort(), ['GPU-fake-68', 'GPU-fake-69']);
  await chosen.stop();
});

it('a load on one GPU does not wait for a load or an eviction on another', async () => {
  const node = await startWithGpus(['', '', ''], {
    models: {
      small: { weights_bytes: 400 * MB },
      busy: { step_ms: 20 },
      slow: { load_ms: 60000 },
      big: {},
      quick: { weights_bytes: 250 * MB },
    },
    args: ['--replicas', '1'],
  });
  const state = async (id) => (await node.model(id)).state;
  // A GPU each; what is pinned stays.
  for (const id of ['small', 'busy']) assert.equal((await generate(node, ask(id, 'x'))).text, 'x');
  for (const id of ['small', 'slow']) await node.post(`/v0/models/${id}/pin`);
  await node.post('/v0/models/slow/load');
  await until('it loads', async () => (await state('slow')) === 'loading');
  const client = new AbortController();
  const stream = generate(node, ask('busy', 'b'.repeat(20000)), { signal: client.signal }).catch(() => {});
  await until('the stream runs', async () => (await node.worker('busy')).live === 1);
  // Only "busy" can make room for it, once its stream has ended.
  const waiting = generate(node, ask('big', 'y'));
  await until('the eviction is on its way', async () => (await node.metric('evictions_total')) === 1);
  assert.equal((await generate(node, ask('quick', 'x'))).text, 'x');
  assert.equal((await node.worker('quick')).pool, (await node.worker('small')).pool);
  assert.deepEqual([await state('slow'), await state('big')], ['loading', 'starting']);
  assert.equal((await node.worker('busy')).live, 1);
  client.abort();
  await stream;
  assert.equal((await waiting).text, 'y');
  assert.equal(await state('slow'), 'loading');
  await node.post('/v0/models/slow/unpin');
  await node.post('/v0/models/slow/unload');
  await node.stop();
});

it('a killed replica: its requests go on in the others, and it comes back', async () => {
  const node = await startWithGpus(['', ''], {
    models: { m: { step_ms: 10 } },
    args: ['--replicas', '2', '--max-sequences', '8'],
  });
  assert.equal((await generate(node, ask('m', 'x'))).text, 'x');
  await node.ready('m', 2);
  const streams = Array.from({ length: 8 }, (_, i) => generate(node, ask('m', String(i).repeat(300))));
  await until('both serve', async () => (await node.serving('m')).every((w) => w.live === 4));
  const [victim] = await node.serving('m');
  process.kill(victim.pid, 'SIGKILL');
  for (const [i, answer] of (await Promise.all(streams)).entries()) {
    assert.equal(answer.error, null);
    assert.equal(answer.text, String(i).repeat(300));
  }
  await node.ready('m', 2);
  assert.equal((await node.model('m')).failures, 0);
  await node.stop();
});

describe('a GPU that an engine refuses', () => {
  let node;
  before(async () => {
    node = await startWithGpus(['', ''], { args: ['--replicas', '2'], models: { m: { refuses: 'GPU-fake-0' } } });
  });
  after(() => node.stop());

  it('is left for another one, and the log says why', async () => {
    assert.equal((await generate(node, ask('m', 'x'))).text, 'x');
    assert.deepEqual(
      (await node.serving('m')).map((w) => w.pool),
      ['GPU-fake-1'],
    );
    assert.match(node.log, /model\.gpu_refused model=m gpu=GPU-fake-0 .*GPU-fake-0 is too old/);
  });

  it('is named as the reason for a replica that does not come', async () => {
    const answer = await (await node.post('/v0/models/m/replicas?count=2')).json();
    assert.equal(answer.replicas_reason, 'the node has 2 GPUs, and the engine cannot use 1 of them');
  });
});
