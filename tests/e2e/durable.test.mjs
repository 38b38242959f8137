// kill -9 of a router at any point: confirmed changes stay, unconfirmed changes are complete or
// absent, and it starts again.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { startHub } from '../support/hub.mjs';
import { DEBUG_BIN } from '../support/program.mjs';
import {
  BIN,
  call,
  LONG,
  launch,
  makeEcho,
  online,
  register,
  say,
  sleep,
  startNode,
  startRouter,
  tempDir,
  until,
} from './support.mjs';

const left = [];
let hub;

before(async () => {
  hub = await startHub();
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  await hub?.close();
});

const tiny = {
  'config.json': '{"architectures":["EchoForTesting"]}',
  'tokenizer.json': '{}',
  'model.safetensors': Buffer.alloc(16),
};

function start(dir, failpoint) {
  return launch(['router', '--listen', '127.0.0.1:0', '--data-dir', dir, '--hub-host', hub.storage], {
    bin: DEBUG_BIN,
    match: /listening on (http:\/\/\S+)/,
    env: { HF_ENDPOINT: hub.url, HF_HOME: dir, ...(failpoint ? { LR_FAILPOINT: failpoint } : {}) },
  });
}

// An operator at work until the router dies: what was answered, and what was on its way.
async function work(url) {
  const done = { keys: new Map(), revoked: new Set(), models: new Set(), gone: new Set(), pending: null };
  try {
    for (let i = 0; i < 8; i++) {
      done.pending = ['key', `k${i}`];
      const key = (await call(`${url}/v0/keys`, { body: { name: `k${i}` } })).json;
      done.keys.set(`k${i}`, key);
      done.pending = ['model', `m${i}`];
      hub.add(`acme/m${i}`, tiny);
      assert.equal(
        (await call(`${url}/v0/models/register`, { body: { repo: `acme/m${i}`, name: `m${i}` } })).status,
        201,
      );
      done.models.add(`m${i}`);
      if (i % 2 === 0) continue;
      done.pending = ['revoke', `k${i}`];
      await call(`${url}/v0/keys/${key.id}`, { method: 'DELETE' });
      done.revoked.add(`k${i}`);
      done.pending = ['delete', `m${i}`];
      await call(`${url}/v0/models/m${i}`, { method: 'DELETE' });
      done.gone.add(`m${i}`);
    }
    done.pending = null;
  } catch (error) {
    if (error.code === 'ERR_ASSERTION') throw error;
  }
  return done;
}

async function check(url, done) {
  const [act, what] = done.pending ?? [];
  const keys = (await call(`${url}/v0/keys`)).json.keys;
  for (const [name, key] of done.keys) {
    const status = (await call(`${url}/v0/whoami`, { key: key.key })).status;
    if (done.revoked.has(name)) assert.equal(status, 401, `${name} was revoked`);
    else if (!(act === 'revoke' && what === name)) assert.equal(status, 200, `${name} was issued`);
  }
  const extra = keys.filter((k) => !done.keys.has(k.name)).map((k) => k.name);
  assert.ok(extra.length === 0 || (act === 'key' && extra.join() === what), `keys nobody asked for: ${extra}`);
  const models = (await call(`${url}/v0/models`)).json.models.map((m) => m.id);
  for (const id of done.models)
    if (done.gone.has(id)) assert.ok(!models.includes(id), `${id} was deleted`);
    else if (!(act === 'delete' && what === id)) assert.ok(models.includes(id), `${id} was registered`);
  for (const id of models) {
    assert.ok(done.models.has(id) || (act === 'model' && what === id), `${id} was not asked for`);
    assert.equal((await call(`${url}/v0/models/registry/${id}/manifest.json`)).json.id, id, 'a registration is whole');
  }
}

// The log has a line for every action that was answered, and for none that did not happen.
async function checkAudit(url, done) {
  const { audit } = (await call(`${url}/v0/audit?limit=1000`)).json;
  const targets = (action) =>
    audit
      .filter((a) => a.action === action)
      .map((a) => a.target)
      .sort();
  const keys = (await call(`${url}/v0/keys`)).json.keys;
  assert.deepEqual(targets('key.create'), keys.map((k) => k.id).sort());
  assert.deepEqual(
    targets('key.revoke'),
    keys
      .filter((k) => k.revoked)
      .map((k) => k.id)
      .sort(),
  );
  const models = (await call(`${url}/v0/models`)).json.models.map((m) => m.id);
  const deleted = targets('model.delete');
  for (const id of done.gone) assert.ok(deleted.includes(id), `${id} was deleted`);
  assert.deepEqual(targets('model.register'), [...models, ...deleted].sort());
}

test('killed before, inside and after any transaction: every confirmed change stays, no change is half done, and the audit log has it', async () => {
  let kills = 0;
  for (const point of ['store.begun', 'store.before_commit', 'store.after_commit']) {
    for (let turn = 1; turn <= 24; turn += LONG ? 1 : 5) {
      const dir = tempDir('durable');
      const victim = await start(dir, `${point}=kill:${turn}`);
      left.push(victim);
      const done = await work(victim.found[1]);
      if (done.pending) {
        assert.deepEqual(await victim.ended, { code: null, signal: 'SIGKILL' });
        kills++;
      }
      await victim.stop('SIGKILL');
      const again = await start(dir);
      left.push(again);
      await check(again.found[1], done);
      await checkAudit(again.found[1], done);
      await again.stop('SIGKILL');
    }
  }
  assert.ok(kills >= 12, `${kills} kills`);
});

test('a router that is killed while it creates its tables starts the next time', async () => {
  let killed = 0;
  for (let turn = 1; ; turn += LONG ? 1 : 3) {
    const dir = tempDir('tables');
    const whole = await start(dir, `schema.statement=kill:${turn}`).catch((error) => {
      assert.match(error.message, /SIGKILL/);
    });
    if (whole) {
      await whole.stop('SIGKILL');
      break;
    } // there are fewer statements
    killed++;
    const again = await start(dir);
    left.push(again);
    assert.deepEqual((await call(`${again.found[1]}/v0/models`)).json.models, []);
    await again.stop('SIGKILL');
  }
  assert.ok(killed >= 3, `${killed} kills`);
});

test('killed at random under load: the usage of every request that ended more than a second before is stored', async () => {
  const dir = tempDir('load');
  let router = await startRouter({ dir, args: ['--allow-cpu-nodes'] });
  left.push(router);
  const port = new URL(router.url).port;
  const node = await startNode(router, { args: ['--model', makeEcho('fast')] });
  left.push(node);
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'fast');
  const key = (await call(`${router.url}/v0/keys`, { body: { name: 'u' } })).json;
  const ask = () => call(`${router.url}/v1/chat/completions`, { body: { model: 'fast', ...say('hi') }, key: key.key });
  await until('it serves', async () => (await ask()).status === 200);
  const ended = [];
  let [least, counted] = [0, 0];
  for (let round = 0; round < (LONG ? 10 : 3); round++) {
    const first = ended.length;
    let running = true;
    const clients = Array.from({ length: 4 }, async () => {
      while (running) {
        const answer = await ask().catch(() => null);
        if (answer?.status === 200) ended.push(Date.now());
      }
    });
    await until('some have ended', () => ended.length >= first + 10);
    await sleep(1000 + Math.random() * 400);
    running = false;
    const killed = Date.now();
    router.child.kill('SIGKILL');
    await Promise.all([...clients, router.ended]);
    least = counted + ended.slice(first).filter((at) => at <= killed - 1000).length; // each kill may cost its last second
    router = await startRouter({ dir, port, args: ['--allow-cpu-nodes'] });
    left.push(router);
    await until('the node is back', async () => (await online(router)) === 1, 20000);
    const used = (await call(`${router.url}/v0/usage`)).json.usage
      .filter((u) => u.key === key.id)
      .reduce((n, u) => n + u.requests, 0);
    assert.ok(
      used >= least && used <= ended.length + 4 * (round + 1) + 1,
      `${used} counted; ${least} must be, ${ended.length} ended`,
    );
    counted = used;
    await until('it serves', async () => (await ask().catch(() => ({}))).status === 200);
    ended.push(Date.now());
  }
  assert.ok(least > 20, `${least} requests`);
});

test('a backup is made while the router runs, readable by its owner alone, and a router started on it knows the keys', async () => {
  const router = await startRouter({ args: ['--require-key'] }),
    file = path.join(tempDir('backup'), 'copy.db');
  const key = (await call(`${router.url}/v0/keys`, { key: router.adminKey, body: { name: 'kept', role: 'api' } })).json
    .key;
  const backup = (to) =>
    spawnSync(BIN, ['backup', to, '--data-dir', router.dir], {
      encoding: 'utf8',
      env: { ...process.env, HOME: tempDir('home') },
    });
  assert.equal(backup(file).status, 0);
  assert.equal((fs.statSync(file).mode & 0o777).toString(8), '600');
  const again = backup(file);
  assert.equal(again.status, 1);
  assert.match(again.stderr, /exists: name another file/);
  const dir = tempDir('restored');
  fs.copyFileSync(file, path.join(dir, 'router.db'));
  const restored = await startRouter({ dir, args: ['--require-key'] });
  left.push(router, restored);
  assert.equal((await call(`${restored.url}/v1/models`, { key })).status, 200);
  assert.match(
    spawnSync(BIN, ['backup', `${file}2`, '--data-dir', tempDir('empty')], { encoding: 'utf8' }).stderr,
    /--data-dir names the router's data folder/,
  );
  assert.ok(!fs.existsSync(`${file}2`));
});

test('restore puts a backup in the place of the database, keeps the one before, and is refused while a router runs', async () => {
  const router = await startRouter({ args: ['--require-key'] });
  left.push(router);
  const make = async (name) =>
    (await call(`${router.url}/v0/keys`, { key: router.adminKey, body: { name, role: 'api' } })).json.key;
  const file = path.join(tempDir('backup'), 'copy.db');
  const run = (...words) =>
    spawnSync(BIN, [...words, '--data-dir', router.dir], {
      encoding: 'utf8',
      env: { ...process.env, HOME: tempDir('home') },
    });
  const before = await make('before');
  assert.equal(run('backup', file).status, 0);
  const after = await make('after');
  const running = run('restore', file);
  assert.equal(running.status, 1);
  assert.match(running.stderr, /stop the router first/);
  assert.match(run('restore', '--check', file).stdout, /2 keys, 0 models; it can be restored/);
  await router.stop();
  const database = path.join(router.dir, 'router.db');
  const sum = () => fs.readFileSync(database).toString('base64');
  const was = sum();

  // A damaged copy changes nothing.
  const bad = `${file}.bad`;
  const bytes = fs.readFileSync(file);
  bytes.fill(0x55, 4096, 4096 * 3);
  fs.writeFileSync(bad, bytes);
  const damaged = run('restore', bad);
  assert.equal(damaged.status, 1, damaged.stdout);
  assert.match(damaged.stderr, /damaged|malformed/);
  assert.equal(sum(), was);
  assert.match(run('restore', `${file}.none`).stderr, /cannot open .*none/);

  const done = run('restore', file);
  assert.equal(done.status, 0, done.stderr);
  assert.match(done.stdout, /the database before is .*router\.db\.before-1/);
  assert.equal(fs.readFileSync(`${database}.before-1`).toString('base64'), was);
  assert.equal((fs.statSync(database).mode & 0o777).toString(8), '600');
  assert.deepEqual(
    fs.readdirSync(router.dir).filter((name) => /restoring|router\.db-/.test(name)),
    [],
  );
  const restored = await startRouter({ dir: router.dir, args: ['--require-key'] });
  left.push(restored);
  assert.equal((await call(`${restored.url}/v1/models`, { key: before })).status, 200);
  assert.equal((await call(`${restored.url}/v1/models`, { key: after })).status, 401);
});

test('a backup of a database that cannot be read blames the database, not the copy', () => {
  const copy = path.join(tempDir('backup'), 'copy.db');
  const broken = tempDir('broken');
  fs.writeFileSync(path.join(broken, 'router.db'), 'this is no database'.repeat(99));
  const { status, stderr } = spawnSync(BIN, ['backup', copy, '--data-dir', broken], { encoding: 'utf8' });
  assert.equal(status, 1, stderr);
  assert.match(stderr, /cannot read .*router\.db: file is not a database/);
  assert.ok(!fs.existsSync(copy), 'nothing is left');
});
