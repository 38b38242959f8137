// An engine is replaced under load, and only the version number changes for clients.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  ask,
  children,
  copyEngine,
  countFds,
  ENGINES,
  events,
  generate,
  isAlive,
  LONG,
  makeModel,
  sleep,
  startNode,
  stopwatch,
  tempDir,
  TESTING,
  until,
} from './node_harness.mjs';

const versions = {
  '1.0.0': path.join(ENGINES, 'echo', 'echo.so'),
  '2.0.0': path.join(TESTING, 'echo_next.so'),
};

// As an installer does it: a whole new file takes the old one's name.
function install(folder, version, { library = versions[version], sha256 } = {}) {
  const manifest = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')));
  manifest.engine_version = version;
  delete manifest.library_sha256;
  if (sha256) manifest.library_sha256 = sha256;
  fs.copyFileSync(library, path.join(folder, '.new'));
  fs.renameSync(path.join(folder, '.new'), path.join(folder, 'echo.so'));
  fs.writeFileSync(path.join(folder, '.manifest'), JSON.stringify(manifest));
  fs.renameSync(path.join(folder, '.manifest'), path.join(folder, 'manifest.json'));
}

describe('hot reload', () => {
  let node;
  let folder;
  const gate = path.join(tempDir('gate'), 'gate');
  before(async () => {
    const engines = tempDir('engines');
    const models = tempDir('models');
    folder = copyEngine(engines, 'echo');
    makeModel(models, 'm', 'echo', { step_ms: 2 });
    makeModel(models, 'version', 'echo', { say_version: true });
    makeModel(models, 'gated', 'echo', { gate });
    node = await startNode({ engines, models });
    await generate(node, ask('m', 'x'));
  });
  after(() => node.stop());

  const running = async (id = 'm') => (await node.worker(id))?.version;
  const settled = (version, id = 'm') =>
    until(`${id} runs ${version}`, async () => {
      const model = await node.model(id);
      return model.workers.length === 1 && model.workers[0].version === version;
    });

  it('runs the code of the new file', async () => {
    assert.equal((await generate(node, ask('version', 'x'))).text, '1.0.0');
    install(folder, '2.0.0');
    const response = await node.post('/v0/engines/echo/reload');
    assert.deepEqual([response.status, await response.json()], [200, { changed: true }]);
    await settled('2.0.0', 'version');
    await settled('2.0.0');
    assert.equal((await generate(node, ask('version', 'x'))).text, '2.0.0');
    const again = await node.post('/v0/engines/echo/reload');
    assert.deepEqual(await again.json(), { changed: false });
  });

  it('under load, again and again: no request is lost, cut or wrong', async () => {
    const rounds = LONG ? 20 : 4;
    const fds = countFds(node);
    let stop = false;
    let answered = 0;
    const clients = Array.from({ length: 32 }, async (_, i) => {
      while (!stop) {
        const text = `stream ${i} says ${crypto.randomUUID()}`;
        const answer = await generate(node, ask('m', text));
        assert.equal(answer.error, null);
        assert.equal(answer.done.reason, 'stop');
        assert.equal(answer.text, text);
        answered++;
      }
    });
    // One request beside the clients: which engine serves it, and the milliseconds it takes.
    const one = async () => {
      const watch = stopwatch();
      const stream = events(node, ask('m', 'who is it?'));
      const { engine } = (await stream.next()).value;
      for await (const event of stream) assert.notEqual(event.event, 'error');
      return { engine, ms: watch.ms };
    };
    let version = await running();
    for (let i = 0; i < rounds; i++) {
      const before = await one();
      version = version === '1.0.0' ? '2.0.0' : '1.0.0';
      install(folder, version);
      assert.equal((await node.post('/v0/engines/echo/reload')).status, 200);
      await until('taken over', async () => (await running()) === version);
      // From here on a new request is served by the new version.
      const first = await one();
      assert.equal(first.engine, `echo ${version}`);
      // On a busy machine a request takes long without a reload too.
      assert.ok(first.ms < Math.max(1000, 3 * before.ms), `${first.ms} ms, before the reload ${before.ms} ms`);
    }
    stop = true;
    await Promise.all(clients);
    assert.ok(answered >= 32);
    await settled(version);
    await until('old workers are gone', async () => {
      const { models } = await node.get('/v0/models');
      const serving = models.flatMap((m) => m.workers).filter((w) => w.role === 'serving');
      return children(node.pid).length === serving.length;
    });
    for (const pid of children(node.pid)) assert.ok(isAlive(pid), 'a zombie');
    // The node itself has opened no library and shares no memory with those that did.
    assert.doesNotMatch(fs.readFileSync(`/proc/${node.pid}/maps`, 'utf8'), /echo\.so|\/dev\/shm|SYSV/);
    await until(`there are ${fds} descriptors again, or two more`, () => countFds(node) <= fds + 2);
  });

  it('lets the old worker finish its requests', async () => {
    fs.writeFileSync(gate, '.'.repeat(10)); // it stands still in the middle of its answer
    const stream = events(node, ask('gated', 'l'.repeat(400)));
    for (let i = 0; i < 10; i++) await stream.next();
    const before = await node.worker('gated');
    const next = before.version === '1.0.0' ? '2.0.0' : '1.0.0';
    install(folder, next);
    await node.post('/v0/engines/echo/reload');
    await until('taken over', async () => (await running('gated')) === next);
    assert.ok(isAlive(before.pid));
    fs.writeFileSync(gate, '.'.repeat(999));
    let count = 0;
    for await (const event of stream) count += event.event === 'token';
    assert.ok(count > 380);
    await until('the old worker is gone', () => !isAlive(before.pid));
  });

  it('to a broken library leaves the old version serving', async () => {
    const version = await running();
    const { pid } = await node.worker('m');
    const broken = path.join(node.dir, 'broken.so');
    fs.writeFileSync(broken, 'this is not a library');
    for (const library of [broken, path.join(TESTING, 'echo_alien.so')]) {
      install(folder, '1.0.0', { library });
      const response = await node.post('/v0/engines/echo/reload');
      assert.equal(response.status, 500);
      assert.match((await response.json()).error.message, /engine library|ABI 999/);
      assert.equal((await generate(node, ask('m', 'still here'))).text, 'still here');
    }
    const worker = await node.worker('m');
    assert.deepEqual([worker.pid, worker.version], [pid, version]);
    // Also a model that is loaded only now gets the version that works.
    await node.post('/v0/models/version/unload');
    await until('unloaded', async () => (await node.model('version')).state === 'present');
    assert.equal((await generate(node, ask('version', 'x'))).text, version);
  });

  it('waits for a half-copied file, then uses it without a command', async () => {
    const version = await running();
    const next = version === '1.0.0' ? '2.0.0' : '1.0.0';
    const whole = fs.readFileSync(versions[next]);
    const sha256 = crypto.createHash('sha256').update(whole).digest('hex');
    const half = path.join(node.dir, 'half.so');
    fs.writeFileSync(half, whole.subarray(0, whole.length / 2));
    install(folder, next, { library: half, sha256 });
    const response = await node.post('/v0/engines/echo/reload');
    assert.equal(response.status, 503);
    assert.match((await response.json()).error.message, /still being copied/);
    await sleep(300);
    assert.equal(await running(), version);
    install(folder, next, { sha256 });
    await settled(next);
    await until('the new code answers', async () => (await generate(node, ask('version', 'x'))).text === next);
  });

  it('on SIGHUP', async () => {
    const version = await running();
    const next = version === '1.0.0' ? '2.0.0' : '1.0.0';
    install(folder, next);
    node.child.kill('SIGHUP');
    await settled(next);
  });

  it('finds an engine folder that is dropped in', async () => {
    copyEngine(path.dirname(folder), 'faulty');
    await until('found', async () =>
      (await node.get('/v0/engines')).engines.some((e) => e.id === 'faulty' && e.usable),
    );
  });
});

describe('hot reload where memory does not hold both', () => {
  it('drains the old one first; requests wait and none is lost', async () => {
    const engines = tempDir('engines');
    const models = tempDir('models');
    const folder = copyEngine(engines, 'echo');
    makeModel(models, 'large', 'echo', { step_ms: 1, weights_bytes: 600_000_000 });
    const node = await startNode({ engines, models, args: ['--ram-limit', '1GB'] });
    let stop = false;
    const clients = Array.from({ length: 8 }, async (_, i) => {
      while (!stop) assert.equal((await generate(node, ask('large', `c${i}`))).text, `c${i}`);
    });
    await until('ready', async () => (await node.model('large')).state === 'ready');
    for (const version of ['2.0.0', '1.0.0', '2.0.0']) {
      install(folder, version);
      assert.equal((await node.post('/v0/engines/echo/reload')).status, 200);
      await until(`runs ${version}`, async () => {
        const model = await node.model('large');
        assert.ok(model.workers.length <= 1, 'two workers at once');
        return model.state === 'ready' && model.workers[0].version === version;
      });
    }
    stop = true;
    await Promise.all(clients);
    await node.stop();
  });
});
