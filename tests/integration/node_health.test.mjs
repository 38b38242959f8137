// The health of GPUs, from a fake NVML: figures, errors that take a GPU out of use, and what routers are told.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ask, BIN, events, generate, makeModel, startNode, tempDir, TESTING, until } from './node_harness.mjs';

const MB = 1_000_000;

// `gpus`: the words of each GPU's line after its memory.
const writer = (file) => (gpus) => {
  fs.writeFileSync(`${file}.new`, gpus.map((words) => `${1000 * MB} ${50 * MB} ${words}\n`).join(''));
  fs.renameSync(`${file}.new`, file);
};

async function startWithGpus(gpus, { library = 'fake_nvml.so', testing = {} } = {}) {
  const models = tempDir('models');
  const file = path.join(models, 'nvml');
  const use = writer(file);
  use(gpus);
  makeModel(models, 'm', 'echo', { weights_bytes: 100 * MB, on_device: true, ...testing });
  const node = await startNode({
    models,
    env: { LR_FAKE_NVML: file },
    args: ['--nvml-library', path.join(TESTING, library), '--memory-interval', '50ms'],
  });
  node.use = use;
  node.metrics = async () => (await fetch(`${node.url}/metrics`)).text();
  node.gpu = async (i) => (await node.get('/v0/memory')).pools.find((p) => p.pool === `GPU-fake-${i}`).gpu;
  return node;
}

describe('the health of GPUs', () => {
  let node;
  before(async () => {
    node = await startWithGpus(
      [
        'util=37 temp=61 power=312000 limit=700000 clock=1830 throttle=4 ecc=3 dbe=0 xids=0',
        'util=5 temp=40 dbe=0',
        'temp=30',
      ],
      { testing: { step_ms: 20 } },
    );
  });
  after(() => node.stop());

  it('has the figures that a GPU reports, in /metrics and /v0/memory, and no others', async () => {
    assert.deepEqual(await node.gpu(0), {
      utilization_percent: 37,
      memory_busy_percent: 18,
      temperature_celsius: 61,
      power_milliwatts: 312000,
      power_limit_milliwatts: 700000,
      clock_mhz: 1830,
      throttle_reasons: 4,
      ecc_corrected_total: 3,
      ecc_uncorrected_total: 0,
      xid_errors_total: 0,
      faulty: false,
    });
    assert.deepEqual(await node.gpu(2), { temperature_celsius: 30, xid_errors_total: 0, faulty: false });
    const text = await node.metrics();
    assert.match(text, /^llm_router_node_gpu_temperature_celsius\{pool="GPU-fake-0"\} 61$/m);
    assert.match(text, /^llm_router_node_gpu_power_milliwatts\{pool="GPU-fake-0"\} 312000$/m);
    assert.doesNotMatch(text, /gpu_power_milliwatts\{pool="GPU-fake-1"\}/);
    assert.match(text, /^llm_router_node_gpu_faulty\{pool="GPU-fake-2"\} 0$/m);
  });

  it('an uncorrectable memory error drains the GPU: a running stream ends well, the next request runs on another GPU', async () => {
    const stream = events(node, ask('m', 's'.repeat(60)));
    let text = '';
    const first = await stream.next();
    assert.equal(first.value.event, 'accepted');
    await until('a worker', async () => (await node.worker('m'))?.ready);
    const pool = (await node.worker('m')).pool;
    const sick = Number(pool.slice(-1));
    const lines = ['temp=50 dbe=0', 'temp=50 dbe=0', 'temp=50 dbe=0'];
    node.use(lines.map((line, i) => (i === sick ? 'temp=50 dbe=1' : line)));
    await until('the GPU is faulty', async () => (await node.gpu(sick)).faulty);
    await until('the log says so', () =>
      new RegExp(`gpu\\.faulty pool=${pool} reason=.*1 uncorrectable error`).test(node.log),
    );
    const second = generate(node, ask('m', 'next'));
    for await (const event of stream) {
      assert.notEqual(event.event, 'error');
      if (event.event === 'token' && !event.special) text += event.text;
    }
    assert.equal(text, 's'.repeat(60));
    assert.equal((await second).text, 'next');
    await until('the worker of the faulty GPU is gone', async () => {
      const { workers } = await node.model('m');
      return workers.length > 0 && workers.every((w) => w.pool !== pool);
    });
    assert.match(await node.metrics(), new RegExp(`^llm_router_node_gpu_faulty\\{pool="${pool}"\\} 1$`, 'm'));
    // The error count is back at 0: a GPU that had such an error is not trusted before it was reset.
    node.use(lines);
    await until('figures were read again', async () => (await node.gpu(sick)).ecc_uncorrected_total === 0);
    assert.equal((await node.gpu(sick)).faulty, true);
  });
});

it('an Xid error of a program is counted, one of the hardware drains the GPU, and the last GPU leaves a clear refusal', async () => {
  const node = await startWithGpus(['temp=50 xids=0']);
  assert.equal((await generate(node, ask('m', 'x'))).text, 'x');
  node.use(['temp=50 xids=1 xid=31']);
  await until('the error is counted', async () => (await node.gpu(0)).last_xid === 31);
  assert.deepEqual([(await node.gpu(0)).xid_errors_total, (await node.gpu(0)).faulty], [1, false]);
  assert.equal((await generate(node, ask('m', 'y'))).text, 'y');
  node.use(['temp=50 xids=2 xid=79']);
  await until('the GPU is faulty', async () => (await node.gpu(0)).faulty);
  await until('nothing is loaded there', async () => (await node.model('m')).workers.length === 0);
  const refused = await node.post('/v0/generate', ask('m', 'z'));
  assert.equal(refused.status, 503);
  assert.match(
    await refused.text(),
    /every GPU of this node is faulty; Fake GPU 0 .*Xid 79: the GPU has fallen off the bus.*reset/,
  );
  await node.stop();
});

// An old NVML tells it with the memory only, and a GPU may tell it first with the figures of its health.
for (const [what, word, library] of [
  ['all of NVML', 'lost=1', 'fake_nvml.so'],
  ['the memory', 'lost=1', 'fake_nvml_old.so'],
  ['the figures of its health', 'temp=50 lost=health', 'fake_nvml.so'],
])
  it(`a GPU that is lost is drained (told by ${what}): a running stream ends well, the next request runs on another GPU`, async () => {
    const node = await startWithGpus(['temp=50', 'temp=50'], { library, testing: { step_ms: 20 } });
    const stream = events(node, ask('m', 's'.repeat(60)));
    assert.equal((await stream.next()).value.event, 'accepted');
    await until('a worker', async () => (await node.worker('m'))?.ready);
    const { pool } = await node.worker('m');
    const lost = Number(pool.slice(-1));
    node.use(['temp=50', 'temp=50'].map((line, i) => (i === lost ? word : line)));
    await until('the GPU is faulty', async () => (await node.gpu(lost)).faulty);
    assert.equal((await node.gpu(1 - lost)).faulty, false);
    const told = new RegExp(`gpu\\.faulty pool=${pool} .*fallen off the bus, .*restart of the machine`);
    await until('it is drained', () => told.test(node.log));
    const second = generate(node, ask('m', 'next'));
    let text = '';
    for await (const event of stream) {
      assert.notEqual(event.event, 'error');
      if (event.event === 'token' && !event.special) text += event.text;
    }
    assert.equal(text, 's'.repeat(60));
    assert.equal((await second).text, 'next');
    await until('the worker of the lost GPU is gone', async () => {
      const { workers } = await node.model('m');
      return workers.length > 0 && workers.every((w) => w.pool !== pool);
    });
    await node.stop();
  });

it('a GPU that had uncorrectable errors before the node started is not used', async () => {
  const node = await startWithGpus(['dbe=2', 'temp=50']);
  assert.equal((await generate(node, ask('m', 'x'))).text, 'x');
  assert.equal((await node.worker('m')).pool, 'GPU-fake-1');
  await until('the alert', () => /gpu\.faulty pool=GPU-fake-0/.test(node.log));
  await node.stop();
});

// NVML's error 15: the GPU is lost; 4: this process may not use it.
it('a GPU that NVML counts but cannot open is named with the reason and what to do, and the other GPUs serve', async () => {
  const node = await startWithGpus(['temp=50', 'closed=15', 'closed=4', 'temp=40']);
  assert.equal((await generate(node, ask('m', 'x'))).text, 'x');
  const pools = (await node.get('/v0/memory')).pools.map((p) => p.pool);
  assert.deepEqual(pools, ['ram', 'GPU-fake-0', 'GPU-fake-3']);
  assert.match(node.log, /gpu\.left_out gpu=1 reason=.*GPU is lost \(error 15\).*restart of the machine/);
  assert.match(node.log, /gpu\.left_out gpu=2 reason=.*Insufficient Permissions \(error 4\).*access to the GPU/);
  assert.equal(node.log.match(/gpu\.left_out/g).length, 2);
  await node.stop();
});

it('a node that was to use a GPU that cannot be opened says why it does not start', async () => {
  const file = path.join(tempDir('nvml'), 'nvml');
  const data = tempDir('data');
  const start = async (gpus, ...args) => {
    writer(file)(gpus);
    const node = [BIN, 'node', '--listen', '127.0.0.1:0', '--data-dir', data, '--no-hf-cache'];
    const env = { ...process.env, LR_FAKE_NVML: file, VK_ICD_FILENAMES: '/nowhere' };
    const nvml = ['--nvml-library', path.join(TESTING, 'fake_nvml.so')];
    const { status, stderr } = spawnSync(node[0], [...node.slice(1), ...nvml, ...args], { env, encoding: 'utf8' });
    assert.notEqual(status, 0);
    return stderr;
  };
  const why = /NVML cannot open GPU 0: GPU is lost \(error 15\): .*restart of the machine/;
  for (const args of [[], ['--device', 'cuda']])
    assert.match(await start(['closed=15'], ...args), new RegExp(`no NVIDIA GPU was found.*${why.source}`));
  for (const args of [
    ['--gpus', '0'],
    ['--device', 'cuda:0'],
  ])
    assert.match(await start(['closed=15', 'temp=50'], ...args), new RegExp(`CUDA_VISIBLE_DEVICES.*; ${why.source}`));
});

it('doctor names a GPU that NVML counts but cannot open', () => {
  const folder = tempDir('nvml');
  const file = path.join(folder, 'nvml');
  fs.symlinkSync(path.join(TESTING, 'fake_nvml.so'), path.join(folder, 'libnvidia-ml.so.1'));
  const doctor = (gpus) => {
    writer(file)(gpus);
    const env = { ...process.env, LR_FAKE_NVML: file, LD_LIBRARY_PATH: folder };
    const args = ['doctor', '--as', 'node', '--no-hub', '--data-dir', folder];
    return spawnSync(BIN, args, { env, encoding: 'utf8' }).stdout;
  };
  assert.match(
    doctor(['temp=50', 'closed=15']),
    /MISS {2}NVIDIA GPU 1\n +NVML cannot open GPU 1: GPU is lost \(error 15\): .*restart of the machine/,
  );
  assert.doesNotMatch(doctor(['temp=50', 'temp=50']), /NVIDIA GPU [0-9]/);
});

it('an NVML without these functions serves as before and reports nothing', async () => {
  const node = await startWithGpus(['temp=50 dbe=3'], { library: 'fake_nvml_old.so' });
  assert.equal((await generate(node, ask('m', 'x'))).text, 'x');
  assert.deepEqual(await node.gpu(0), { faulty: false });
  assert.doesNotMatch(await node.metrics(), /gpu_temperature_celsius\{/);
  await node.stop();
});
