// Temporary problems leave no trace: when the cause that kept a model from loading is gone,
// the model serves again, without a restart of the node and without an operator.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, describe, it } from 'node:test';
import {
  ask,
  BIN,
  copyEngine,
  countFds,
  generate,
  isAlive,
  makeModel,
  startNode,
  tempDir,
  until,
} from './node_harness.mjs';

const nodes = [];
const start = async (options) => {
  const node = await startNode(options);
  nodes.push(node);
  return node;
};
after(() => Promise.all(nodes.map((node) => node.stop())));

const ready = (node, id, ms = 8000) =>
  until(
    `${id} is ready`,
    async () => {
      const m = await node.model(id);
      return m.state === 'ready' && m;
    },
    ms,
  );
const waiting = (node, id, ms = 8000) =>
  until(
    `${id} waits`,
    async () => {
      const m = await node.model(id);
      return m.state === 'waiting' && m;
    },
    ms,
  );
const serves = async (node, id) => assert.equal((await generate(node, ask(id, 'well'))).text, 'well');
const kill = async (node, id) => {
  const { pid } = await until('a worker', () => node.worker(id));
  process.kill(pid, 'SIGKILL');
  await until('it is gone', () => !isAlive(pid));
};

describe('a model recovers without help', { concurrency: 3 }, () => {
  it('after its probe was killed once: clients see no error', async () => {
    const models = tempDir('models');
    makeModel(models, 'm', 'faulty', { crash: 'probe', once: path.join(models, 'once') });
    const node = await start({ models });
    await serves(node, 'm');
    assert.equal((await node.model('m')).failures, 0);
  });

  it('after one crash and two kills while it loaded', async () => {
    const models = tempDir('models');
    makeModel(models, 'm', 'faulty', { load_ms: 1500, step_ms: 20 });
    const node = await start({ models });
    await serves(node, 'm');
    const cut = generate(node, ask('m', 'x'.repeat(300)));
    await until('it runs', async () => (await node.worker('m'))?.live === 1);
    for (let i = 0; i < 3; i++) {
      const { pid } = await until('a worker', async () => {
        const w = await node.worker('m');
        return w && (i === 0 || !w.ready) && w;
      });
      process.kill(pid, 'SIGKILL');
      await until('it is gone', async () => (await node.worker('m'))?.pid !== pid);
    }
    const model = await waiting(node, 'm');
    assert.match(model.reason, /SIGKILL while it loaded/);
    assert.equal(model.failures, 3);
    assert.ok(model.next_try_ms <= 1000);
    // Whoever waited may be served by another node, and is told so at once.
    const { error } = await cut;
    assert.equal(error.retryable, true);
    assert.deepEqual(
      [error.code, /cannot be loaded at the moment.*3 failures/.test(error.message)],
      ['UNAVAILABLE', true],
    );
    const early = await node.post('/v1/completions', { model: 'm', prompt: 'x' });
    if (early.status !== 200) {
      assert.equal(early.status, 503);
      assert.ok(Number(early.headers.get('retry-after')) >= 1);
    }
    await ready(node, 'm');
    await serves(node, 'm');
    assert.equal((await node.model('m')).failures, 0);
  });

  it('after its folder was missing', async () => {
    const models = tempDir('models');
    const dir = makeModel(models, 'm', 'faulty');
    const node = await start({ models });
    await serves(node, 'm');
    fs.renameSync(dir, `${models}-away`);
    await kill(node, 'm');
    const answer = await generate(node, ask('m', 'x'));
    assert.deepEqual([answer.error.code, answer.error.retryable], ['UNAVAILABLE', true]);
    assert.match((await waiting(node, 'm')).reason, /config\.json/);
    await until('three tries', async () => (await node.model('m')).failures >= 3);
    fs.renameSync(`${models}-away`, dir);
    await ready(node, 'm');
    await serves(node, 'm');
  });

  it('with the new files, if the files have changed', async () => {
    const models = tempDir('models');
    const dir = makeModel(models, 'm', 'faulty', { fail: 'load' });
    const node = await start({ models });
    assert.match((await generate(node, ask('m', 'x'))).error.message, /told to fail/);
    await waiting(node, 'm');
    fs.rmSync(dir, { recursive: true });
    makeModel(models, 'm', 'echo');
    await until('described anew', async () => (await node.model('m')).engine === 'echo');
    await serves(node, 'm');
  });

  it('after a named folder appeared late: it is loaded as if it had existed at the start', async () => {
    const models = tempDir('models');
    const dir = path.join(models, 'late');
    const node = await start({ args: ['--model', dir] });
    assert.equal((await node.model('late')).state, 'absent');
    makeModel(models, 'late', 'echo');
    await ready(node, 'late');
  });

  it('after the copy of its engine was deleted', async () => {
    const models = tempDir('models');
    makeModel(models, 'm');
    const node = await start({ models });
    await serves(node, 'm');
    fs.rmSync(path.join(node.dir, 'data/engine-cache'), { recursive: true });
    await kill(node, 'm');
    await serves(node, 'm');
  });

  it('after the copy of its engine was damaged while the node was stopped: a byte, a cut file, a lost one', async () => {
    const models = tempDir('models');
    makeModel(models, 'm');
    const dir = tempDir('node');
    const flip = (file) => {
      const bytes = fs.readFileSync(file);
      bytes[bytes.length >> 1] ^= 1;
      fs.writeFileSync(file, bytes);
    };
    for (const damage of [undefined, flip, (file) => fs.truncateSync(file, 4096), (file) => fs.rmSync(file)]) {
      const cache = path.join(dir, 'data/engine-cache');
      const copies = fs.existsSync(cache) ? fs.readdirSync(cache) : [];
      const copy = copies.map((name) => path.join(cache, name, 'echo.so')).find((file) => fs.existsSync(file));
      if (damage) damage(copy);
      const node = await start({ models, dir });
      assert.ok((await node.get('/v0/engines')).engines.every((e) => e.usable));
      assert.equal(/engine\.copy_damaged id=echo/.test(node.log), damage !== undefined);
      await serves(node, 'm');
      node.child.kill('SIGTERM');
      await node.wait();
    }
  });

  it('after the node had no file descriptor left', async () => {
    const models = tempDir('models');
    makeModel(models, 'm');
    const node = await start({ models });
    await serves(node, 'm');
    await node.post('/v0/models/m/pin');
    const { pid } = await node.worker('m');
    const fds = countFds(node);
    execFileSync('prlimit', ['--pid', `${node.pid}`, '--nofile=4:']);
    process.kill(pid, 'SIGKILL');
    await until('it was noticed', () => /model\.state model=m .*to=waiting reason="?cannot/.test(node.log));
    execFileSync('prlimit', ['--pid', `${node.pid}`, '--nofile=1024:']);
    await ready(node, 'm');
    await serves(node, 'm');
    await until('nothing leaked', () => countFds(node) <= fds + 2);
  });

  it('after a disk that was full when the node started', async () => {
    const models = tempDir('models');
    makeModel(models, 'm');
    const engines = tempDir('engines');
    copyEngine(engines, 'echo');
    const small = path.join(tempDir('bin'), 'small');
    // A limit on the size of its files instead of a disk of our own: the write fails in the same place.
    fs.writeFileSync(small, `#!/bin/bash\ntrap '' XFSZ\nulimit -S -f 4\nexec ${BIN} "$@"\n`, { mode: 0o755 });
    const node = await start({ models, engines, bin: small });
    const refused = (await node.get('/v0/engines')).engines[0];
    assert.equal(refused.usable, false);
    assert.match(refused.reason, /File too large/);
    assert.equal((await node.model('m')).state, 'absent');
    execFileSync('prlimit', ['--pid', `${node.pid}`, '--fsize=unlimited:']);
    await until('the engine is taken', async () => (await node.get('/v0/engines')).engines[0].usable, 10000);
    await serves(node, 'm');
  });

  it('when memory is free again, and is loaded if a request or an operator asked for it', async () => {
    const models = tempDir('models');
    const proc = tempDir('proc');
    const use = (percent) =>
      fs.writeFileSync(
        path.join(proc, 'meminfo'),
        `MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: ${(100 - percent) * 10000} kB\n`,
      );
    for (const id of ['asked', 'wanted']) makeModel(models, id, 'echo', { weights_bytes: 300e6 });
    use(80);
    const node = await start({ models, args: ['--proc-root', proc] });
    assert.equal((await generate(node, ask('asked', 'x'))).error.code, 'OUT_OF_RAM');
    await node.post('/v0/models/wanted/load');
    assert.match((await waiting(node, 'wanted')).reason, /needs .* and RAM can give it/);
    assert.equal((await node.model('asked')).state, 'waiting');
    use(10);
    await ready(node, 'wanted');
    assert.equal((await node.model('asked')).state, 'present');
    await serves(node, 'asked');
  });
});

describe('a model that waits', { concurrency: 2 }, () => {
  for (const [how, act] of [
    ['says load', (node) => node.post('/v0/models/m/load')],
    ['sends SIGHUP', (node) => node.child.kill('SIGHUP')],
  ])
    it(`is retried at once when an operator ${how}`, async () => {
      const models = tempDir('models');
      const dir = tempDir('node'),
        cause = path.join(dir, 'data/engine-scratch/faulty/cause'); // where a confined engine writes
      makeModel(models, 'm', 'faulty', { fail: 'load', once: cause });
      const node = await start({ models, dir });
      // Three failures: the next try by itself is four seconds away.
      for (let failures = 1; failures <= 3; failures++) {
        if (failures === 1) await generate(node, ask('m', 'x'));
        else await node.post('/v0/models/m/load');
        await until('it failed', async () => (await node.model('m')).failures === failures);
        fs.rmSync(cause);
      }
      fs.writeFileSync(cause, '');
      assert.ok((await waiting(node, 'm')).next_try_ms > 2000);
      await act(node);
      await ready(node, 'm', 2000);
    });

  it('is not retried after an operator called unload, until it is asked for again', async () => {
    const models = tempDir('models');
    makeModel(models, 'm', 'faulty', { fail: 'load', once: path.join(models, 'a') });
    const node = await start({ models });
    await generate(node, ask('m', 'x'));
    await waiting(node, 'm');
    assert.equal((await (await node.post('/v0/models/m/unload')).json()).state, 'present');
    await serves(node, 'm');
  });

  it('is retried for a request only five seconds after the last failure', async () => {
    const models = tempDir('models');
    makeModel(models, 'm', 'faulty', { fail: 'load' });
    const node = await start({ models });
    const tries = () => (node.log.match(/worker\.start model=m/g) ?? []).length;
    const began = Date.now();
    for (let i = 0; i < 20; i++) assert.equal((await generate(node, ask('m', 'x'))).error.retryable, true);
    // One for the first request, and those whose time came meanwhile.
    assert.ok(tries() <= 2 + (Date.now() - began) / 1000, `${tries()} tries`);
  });
});

describe('a pinned model', () => {
  it('whose idle worker dies is loaded again by itself', async () => {
    const models = tempDir('models');
    for (const id of ['pinned', 'other']) makeModel(models, id);
    const node = await start({ models });
    for (const id of ['pinned', 'other']) await serves(node, id);
    await node.post('/v0/models/pinned/pin');
    await kill(node, 'pinned');
    await kill(node, 'other');
    await ready(node, 'pinned');
    await until('nobody wants the other', async () => (await node.model('other')).state === 'present');
  });
});
