// Memory thresholds, refusals, and models that alternate in one memory.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import {
  ask,
  BIN,
  events,
  generate,
  LONG,
  makeModel,
  startNode,
  stopwatch,
  tempDir,
  TESTING,
  until,
} from './node_harness.mjs';

const MB = 1_000_000;
const run = promisify(execFile);

describe('thresholds on a GPU (fake NVML)', () => {
  let node;
  const models = tempDir('models');
  const figures = path.join(models, 'nvml');
  const use = (mb) => fs.writeFileSync(figures, `${1000 * MB} ${mb * MB}\n`);
  const state = async (id) => (await node.model(id)).state;
  before(async () => {
    for (const id of ['old', 'young', 'busy', 'pinned'])
      makeModel(models, id, 'echo', { weights_bytes: 100 * MB, on_device: true, step_ms: 20 });
    makeModel(models, 'tiny', 'echo', { weights_bytes: 1 * MB, on_device: true });
    makeModel(models, 'loading', 'echo', { weights_bytes: 100 * MB, on_device: true, load_ms: 8000 });
    makeModel(models, 'huge', 'echo', { weights_bytes: 5000 * MB, on_device: true });
    use(50);
    node = await startNode({
      models,
      env: { LR_FAKE_NVML: figures },
      args: ['--nvml-library', path.join(TESTING, 'fake_nvml.so'), '--min-resident', '0'],
    });
    for (const id of ['tiny', 'old', 'pinned', 'young', 'busy'])
      assert.equal((await generate(node, ask(id, 'x'))).text, 'x');
    await node.post('/v0/models/pinned/pin');
  });
  after(() => node.stop());

  it('explains every byte', async () => {
    const { pools } = await node.get('/v0/memory');
    const gpu = pools.find((p) => p.pool === 'GPU-fake-0');
    assert.equal(gpu.total, 1000 * MB);
    assert.equal(gpu.claims.length, 5);
    assert.equal(
      gpu.reserved,
      gpu.claims.reduce((sum, c) => sum + c.reserved, 0),
    );
    assert.equal(gpu.free, gpu.capacity - gpu.reserved);
    const { load } = await node.get('/v0/memory?model=young');
    assert.equal(load.plan, 'loaded');
  });

  it('refuses a model that needs more than there is, with both numbers', async () => {
    const before = await Promise.all(['old', 'young', 'busy'].map(state));
    const answer = await generate(node, ask('huge', 'x'));
    assert.equal(answer.error.code, 'OUT_OF_VRAM');
    assert.match(answer.error.message, /5000\d* MB|5000012288|4\.\d+ GiB/);
    assert.match(answer.error.message, /Fake GPU 0 can give it .*\d+ bytes of/);
    assert.equal(answer.error.retryable, true);
    assert.deepEqual(await Promise.all(['old', 'young', 'busy'].map(state)), before);
    const { load } = await node.get('/v0/memory?model=huge');
    assert.equal(load.plan, 'never');
  });

  it('alerts within 2 s and unloads the least recently used, until below', async () => {
    const stream = events(node, ask('busy', 'b'.repeat(400)));
    await stream.next();
    await node.post('/v0/models/loading/load');
    await until('loading', async () => (await state('loading')) === 'loading');
    const { pid } = (await node.model('loading')).workers[0];
    const watch = stopwatch();
    use(910);
    await until('an alert', () => /memory\.alert pool=GPU-fake-0/.test(node.log), 2000);
    await until('unloaded', async () => (await state('old')) === 'present', 2500);
    assert.ok(watch.ms < 3500, `${watch.real} ms`);
    use(850); // what it held is back
    await until('relieved', () => /memory\.relieved pool=GPU-fake-0/.test(node.log));
    assert.equal(await state('young'), 'ready');
    use(950);
    await until('unloaded', async () => (await state('young')) === 'present');
    // Nothing suitable is left: one is in use, one pinned, one too small to matter.
    for (let i = 0; i < 3; i++) {
      await until('another look', async () => true);
      assert.deepEqual([await state('busy'), await state('pinned'), await state('tiny')], ['ready', 'ready', 'ready']);
    }
    use(100);
    for await (const event of stream) assert.notEqual(event.event, 'error');
    await until('the load was kept', async () => (await state('loading')) === 'ready');
    assert.equal((await node.worker('loading')).pid, pid);
    const metrics = await (await fetch(`${node.url}/metrics`)).text();
    assert.match(metrics, /^llm_router_node_memory_alerts_total 2$/m);
  });
});

describe('thresholds on RAM', () => {
  it('work the same', async () => {
    const models = tempDir('models');
    const proc = tempDir('proc');
    const use = (percent) =>
      fs.writeFileSync(
        path.join(proc, 'meminfo'),
        `MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: ${(100 - percent) * 10000} kB\n`,
      );
    for (const id of ['first', 'second']) makeModel(models, id, 'echo', { weights_bytes: 100 * MB });
    use(20);
    const node = await startNode({
      models,
      args: ['--proc-root', proc, '--min-resident', '0', '--memory-threshold', '80'],
    });
    for (const id of ['first', 'second']) await generate(node, ask(id, 'x'));
    use(79);
    await generate(node, ask('first', 'x')); // now the other is the least recently used
    use(81);
    await until('an alert', () => /memory\.alert pool=ram/.test(node.log), 2000);
    await until('unloaded', async () => (await node.model('second')).state === 'present');
    use(50);
    await until('relieved', () => /memory\.relieved pool=ram/.test(node.log));
    assert.equal((await node.model('first')).state, 'ready');
    await node.stop();
  });
});

describe('memory for one model', () => {
  let node;
  const models = tempDir('models');
  before(async () => {
    for (const id of ['a', 'b', 'c']) makeModel(models, id, 'echo', { weights_bytes: 600 * MB, step_ms: 4 });
    for (const id of ['x', 'y', 'z']) // each token is the time it was made
      makeModel(models, id, 'echo', { weights_bytes: 600 * MB, step_ms: 4, say_time: true });
    makeModel(models, 'small', 'echo', { weights_bytes: 50 * MB });
    makeModel(models, 'giant', 'echo', { weights_bytes: 2000 * MB });
    node = await startNode({ models, args: ['--ram-limit', '1000MB', '--max-sequences', '1'] });
  });
  after(() => node.stop());

  it('the idle model is evicted for the other, and only that one', async () => {
    assert.equal((await generate(node, ask('small', 'x'))).text, 'x');
    assert.equal((await generate(node, ask('a', 'x'))).text, 'x');
    const { load } = await node.get('/v0/memory?model=b');
    assert.equal((await generate(node, ask('b', 'x'))).text, 'x');
    assert.deepEqual([(await node.model('a')).state, (await node.model('small')).state], ['present', 'ready']);
    assert.ok(load.plan === 'evict' || load.plan.startsWith('unknown'));
    assert.deepEqual((await node.get('/v0/memory?model=a')).load.evicts, ['b']);
  });

  it('a model that could never fit is refused and evicts no other model', async () => {
    const answer = await generate(node, ask('giant', 'x'));
    assert.equal(answer.error.code, 'OUT_OF_RAM');
    assert.equal((await node.model('b')).state, 'ready');
    const giant = await node.model('giant');
    assert.deepEqual([giant.state, giant.failures], ['waiting', 0]);
    assert.match(giant.reason, /needs .* and RAM can give it/);
  });

  it('a model in use is not evicted; the other waits for it', async () => {
    const first = events(node, ask('b', 'b'.repeat(150)));
    for (let i = 0; i < 5; i++) await first.next();
    const other = generate(node, ask('a', 'mine'));
    let tokens = 0;
    for await (const event of first) {
      assert.notEqual(event.event, 'error');
      tokens += event.event === 'token';
    }
    assert.ok(tokens > 140);
    assert.equal((await other).text, 'mine');
  });

  it('a pinned model stays, and the refusal names both numbers', async () => {
    await node.post('/v0/models/a/pin');
    const answer = await generate(node, ask('b', 'x'));
    assert.equal(answer.error.code, 'OUT_OF_RAM');
    await node.post('/v0/models/a/unpin');
    assert.equal((await generate(node, ask('b', 'x'))).text, 'x');
  });

  it('many requests over three models end with none failed, first come first served', async () => {
    const count = LONG ? 200 : 45;
    const served = { x: [], y: [], z: [] };
    const all = [];
    for (let i = 0; i < count; i++) {
      const id = 'xyz'[Math.floor(Math.random() * 3)];
      const stream = events(node, ask(id, `r${i}`));
      assert.equal((await stream.next()).value.event, 'accepted'); // in this order
      all.push(
        (async () => {
          const tokens = [];
          for await (const event of stream) {
            assert.notEqual(event.event, 'error');
            if (event.event === 'token') tokens.push(event);
          }
          assert.equal(Buffer.from(tokens.slice(0, -1).map((t) => t.id)).toString(), `r${i}`);
          served[id].push({ i, first: BigInt(tokens[0].text), last: BigInt(tokens.at(-1).text) });
        })(),
      );
    }
    await Promise.all(all);
    assert.equal(Object.values(served).flat().length, count);
    // By the engine's own clock: within a model nobody begins before who came earlier has ended.
    for (const list of Object.values(served)) {
      list.sort((a, b) => a.i - b.i);
      for (let n = 1; n < list.length; n++)
        assert.ok(list[n - 1].last < list[n].first, `request ${list[n].i} overtook ${list[n - 1].i}`);
    }
    const metrics = await (await fetch(`${node.url}/metrics`)).text();
    assert.ok(Number(metrics.match(/evictions_total (\d+)/)[1]) >= 3); // they took turns
  });

  it('llm-router memory shows it', async () => {
    const { stdout } = await run(BIN, ['memory', '--node', node.url]);
    assert.match(stdout, /RAM/);
    assert.match(stdout, /limit/);
  });
});

describe('an unused model', () => {
  it('is unloaded after the time of idle-unload', async () => {
    const models = tempDir('models');
    makeModel(models, 'm');
    const node = await startNode({ models, args: ['--idle-unload', '1s'] });
    await generate(node, ask('m', 'x'));
    assert.equal((await node.model('m')).state, 'ready');
    await until('unloaded', async () => (await node.model('m')).state === 'present', 5000);
    assert.match(node.log, /idle-unload/);
    await node.stop();
  });
});

describe('a limit for GPU memory (fake NVML)', () => {
  it('holds for all models together, is shown, and a model beyond it is refused with the limit', async () => {
    const models = tempDir('models');
    const figures = path.join(models, 'nvml');
    for (const id of ['one', 'two']) makeModel(models, id, 'echo', { weights_bytes: 100 * MB, on_device: true });
    makeModel(models, 'large', 'echo', { weights_bytes: 160 * MB, on_device: true });
    fs.writeFileSync(figures, `${1000 * MB} ${50 * MB}\n`);
    const node = await startNode({
      models,
      env: { LR_FAKE_NVML: figures },
      args: ['--nvml-library', path.join(TESTING, 'fake_nvml.so'), '--vram-limit', `${150 * MB}`],
    });
    const gpu = async () => (await node.get('/v0/memory')).pools.find((p) => p.pool === 'GPU-fake-0');
    assert.equal((await gpu()).limit, 150 * MB);
    assert.equal((await gpu()).capacity, 150 * MB);
    for (const id of ['one', 'two', 'one']) {
      assert.equal((await generate(node, ask(id, 'x'))).text, 'x');
      assert.ok((await gpu()).reserved <= 150 * MB);
    }
    const { error } = await generate(node, ask('large', 'x'));
    assert.equal(error.code, 'OUT_OF_VRAM');
    assert.match(
      error.message,
      /160\d{6} bytes.*150000000 bytes of .*vram-limit is 150000000 bytes.*9\.\d MiB are missing/,
    );
    assert.match(error.message, /raise vram-limit, or lower max-context/);
    await node.stop();
  });

  it('above what the threshold allows, or without a GPU, is told in the log', async () => {
    const models = tempDir('models');
    const figures = path.join(models, 'nvml');
    fs.writeFileSync(figures, `${1000 * MB} 0\n`);
    for (const [args, words] of [
      [['--nvml-library', path.join(TESTING, 'fake_nvml.so')], /vram_limit_unused.*limit=900000000.*memory-threshold/],
      [[], /vram_limit_unused.*ram-limit/],
    ]) {
      const node = await startNode({
        models,
        env: { LR_FAKE_NVML: figures },
        args: [...args, '--vram-limit', `${950 * MB}`],
      });
      await until('the log has it', () => words.test(node.log));
      await node.stop();
    }
  });
});

describe('a model that plans with all memory of a GPU (fake NVML)', () => {
  const models = tempDir('models');
  const figures = path.join(models, 'nvml');
  const args = ['--nvml-library', path.join(TESTING, 'fake_nvml.so'), '--memory-interval', '100ms'];
  let node;
  const gpu = async () => (await node.get('/v0/memory')).pools.find((p) => p.pool === 'GPU-fake-0');
  // Other programs use so much; the GPU's figure has what our models hold, too.
  async function others(mb) {
    fs.writeFileSync(figures, `${1000 * MB} ${mb * MB + (node ? (await gpu()).reserved : 0)}\n`);
    if (node) await until('the node has seen it', async () => (await gpu()).capacity === (900 - mb) * MB, 5000);
  }
  async function unload(id) {
    await node.post(`/v0/models/${id}/unload`);
    await until('unloaded', async () => (await node.model(id)).state === 'present', 5000);
  }
  before(async () => {
    makeModel(models, 'wide', 'echo', { weights_bytes: 600 * MB, on_device: true, fill: true });
    makeModel(models, 'small', 'echo', { weights_bytes: 200 * MB, on_device: true });
    await others(50);
    node = await startNode({ models, env: { LR_FAKE_NVML: figures }, args });
  });
  after(() => node.stop());

  it('is loaded beside other programs, with what they leave', async () => {
    assert.equal((await generate(node, ask('wide', 'x'))).text, 'x');
    const { reserved } = await gpu();
    assert.ok(reserved <= 850 * MB && reserved >= 830 * MB, `${reserved}`);
  });

  it('is loaded with less beside a pinned model, and with more when that has gone', async () => {
    await unload('wide');
    await others(50);
    await node.post('/v0/models/small/pin');
    assert.equal((await generate(node, ask('small', 'x'))).text, 'x');
    await others(50);
    assert.equal((await generate(node, ask('wide', 'x'))).text, 'x');
    const both = (await gpu()).reserved;
    assert.ok(both <= 850 * MB && both >= 830 * MB, `${both}`);
    await node.post('/v0/models/small/unpin');
    for (const id of ['small', 'wide']) await unload(id);
    await others(50);
    assert.equal((await generate(node, ask('wide', 'x'))).text, 'x');
    assert.ok((await gpu()).reserved >= 830 * MB, `${(await gpu()).reserved}`);
  });

  it('is refused where the others leave too little, with what it needs, and loaded once they leave more', async () => {
    await unload('wide');
    await others(500);
    const { error } = await generate(node, ask('wide', 'x'));
    assert.equal(error.code, 'OUT_OF_VRAM');
    assert.match(error.message, /needs 600\d{6} bytes/);
    assert.equal((await node.model('wide')).state, 'waiting');
    await others(150); // more than at its first load
    assert.equal((await generate(node, ask('wide', 'x'))).text, 'x');
  });
});
