// Mistakes and faults around a router: a wrong flag, a missing folder, a file that
// another router uses, a full disk.  Each error suggests a fix, and nothing is lost.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { promisify } from 'node:util';
import {
  BIN,
  call,
  launch,
  makeEcho,
  nodes,
  online,
  register,
  say,
  startNode,
  startRouter,
  tempDir,
  until,
} from './support.mjs';
import { keep, makeGated, makeKey } from './fleet.mjs';

const fails = async (args, message, code = 1) => {
  const error = await promisify(execFile)(BIN, args, { timeout: 60000 }).then(
    () => assert.fail(`${args.join(' ')} worked`),
    (e) => e,
  );
  assert.match(error.stderr, message, args.join(' '));
  assert.equal(error.code, code, `${args.join(' ')}: ${error.stderr}`);
};
const anywhere = ['--listen', '127.0.0.1:0'];

test('up reports a mistyped model folder at once, with the reason', async () => {
  await fails(
    ['up', '--device', 'cpu', ...anywhere, '--data-dir', tempDir('up'), '--model', '/no/such/model'],
    /model: there is no folder \/no\/such\/model/,
    2,
  );
  const empty = tempDir('notamodel');
  const up = keep(
    await launch(
      ['up', '--device', 'cpu', ...anywhere, '--no-hf-cache', '--data-dir', tempDir('up'), '--model', empty],
      { match: /Ctrl-C stops everything/ },
    ),
  );
  assert.match(
    up.out,
    /has no model yet\.\n\n {2}\S+ cannot run: .*missing: config\.json, a tokenizer \(tokenizer\.json, /,
  );
  assert.match(up.out, /llm-router register/);
  await fails(['up', '--listen', 'nonsense'], /listen: "nonsense" is not ADDRESS:PORT/, 2);
});

test('a node-timeout so short that healthy nodes would go offline is refused', () =>
  fails(
    ['router', ...anywhere, '--node-timeout', '1500ms', '--data-dir', tempDir('r')],
    /--node-timeout: "1500ms" is not allowed; .* 2s to 10m/,
    2,
  ));

test('a port in use, and a data folder or a database of another router, are named in the error', async () => {
  const first = keep(await startRouter());
  const { port } = new URL(first.url);
  await fails(
    ['router', '--listen', `127.0.0.1:${port}`, '--data-dir', tempDir('r')],
    new RegExp(`127\\.0\\.0\\.1:${port}: the port is in use; stop the program that has it or choose another`),
  );
  await fails(
    ['router', ...anywhere, '--data-dir', first.dir],
    new RegExp(`router\\.lock is held by process ${first.pid}: stop it, or choose another --data-dir`),
  );
  await fails(
    ['router', ...anywhere, '--data-dir', tempDir('r'), '--database', path.join(first.dir, 'router.db')],
    /router\.db is in use by another router: .*postgres:\/\//,
  );
  await fails(
    ['router', ...anywhere, '--data-dir', tempDir('r'), '--database', 'redis://me:secret@host'],
    /^(?!.*secret).*neither postgres:\/\/\.\.\. nor a file's path/,
    2,
  );
  const other = path.join(tempDir('db'), 'elsewhere.db');
  const second = keep(await startRouter({ args: ['--database', other] }));
  const { id } = await makeKey(second);
  for (const name of fs.readdirSync(path.dirname(other)))
    assert.equal(fs.statSync(path.join(path.dirname(other), name)).mode & 0o077, 0, `${name} holds secrets`);
  await second.stop();
  const again = keep(await startRouter({ args: ['--database', other] }));
  assert.equal((await call(`${again.url}/v0/keys`)).json.keys[0].id, id, 'the lock goes with its process');
});

test('the first successful start creates the admin key, not a failed start', async () => {
  const other = keep(await startRouter());
  const dir = tempDir('locked');
  await fails(
    ['router', '--listen', `127.0.0.1:${new URL(other.url).port}`, '--require-key', '--data-dir', dir],
    /the port is in use/,
  );
  const router = keep(await startRouter({ args: ['--require-key'], dir }));
  assert.equal((await call(`${router.url}/v0/keys`, { key: router.adminKey })).status, 200, 'the key was shown');
});

test('a file that is no database is left unchanged, and the error suggests a fix', async () => {
  const file = path.join(tempDir('db'), 'router.db');
  fs.writeFileSync(file, 'these are my notes, not a database\n'.repeat(100));
  const before = fs.readFileSync(file);
  await fails(
    ['router', ...anywhere, '--data-dir', path.dirname(file)],
    /router\.db.*: file is not a database: put a backup in its place/,
  );
  assert.deepEqual(fs.readFileSync(file), before);
});

test('an empty database beside the data of a router is named and left as it is; an empty one alone is a new one', async () => {
  const dir = tempDir('emptied');
  const file = path.join(dir, 'router.db');
  fs.writeFileSync(file, '');
  const router = keep(await startRouter({ dir }));
  const { id } = await makeKey(router);
  await router.stop();
  fs.renameSync(file, `${file}.backup`);
  fs.writeFileSync(file, '');
  await fails(
    ['router', ...anywhere, '--data-dir', dir],
    /router\.db is empty, but .*usage-0\.lock shows that a router has used it: put a backup in its place, or remove/,
  );
  assert.equal(fs.statSync(file).size, 0);
  fs.renameSync(`${file}.backup`, file);
  const again = keep(await startRouter({ dir }));
  assert.equal((await call(`${again.url}/v0/keys`)).json.keys[0].id, id);
  await again.stop('SIGKILL');
  fs.rmSync(path.join(dir, 'usage-0.lock'));
  fs.truncateSync(file);
  await fails(['router', ...anywhere, '--data-dir', dir], /router\.db is empty, but .*router\.db-wal shows/);
  fs.rmSync(file);
  keep(await startRouter({ dir }));
});

test('a node with a wrong token or none logs how to get one; another problem is logged, too', async () => {
  const router = keep(await startRouter({ args: ['--require-key'] }));
  for (const token of ['lr-wrong', '']) {
    const node = keep(await startNode(router, { args: ['--engine', 'echo'], token }));
    await until('it complains', () =>
      /router\.trouble.*this key was not issued here \(status 401\): llm-router nodes token makes a token, --token or LLM_ROUTER_TOKEN passes it/.test(
        node.log,
      ),
    );
    assert.equal(node.log.match(/router\.trouble/g).length, 1, 'once, not once a second');
    await node.stop('SIGKILL');
  }
  const { port } = new URL(router.url);
  await router.stop();
  const early = keep(await startNode(router, { args: ['--engine', 'echo'], token: 'lr-wrong' }));
  await until('nobody answers', () => /router\.trouble.*cannot connect/.test(early.log));
  keep(await startRouter({ args: ['--require-key'], dir: router.dir, port }));
  await until('the reason has changed, and is said', () => /router\.trouble.*not issued here/.test(early.log));
});

// A router whose disk can be full: a limit on the size of its files instead of a disk of our own makes writes fail in
// the same place.  `room` is that limit from its first moment.
async function startOnDisk(dir, { port = 0, room = 'unlimited', args = '' } = {}) {
  const listen = `--listen 127.0.0.1:${port} --allow-cpu-nodes --data-dir ${dir} ${args}`;
  const limit = `trap '' XFSZ; exec prlimit --fsize=${room}: ${BIN} router ${listen}`;
  const router = keep(await launch(['-c', limit], { match: /listening on (http:\/\/\S+)/, bin: 'bash' }));
  router.url = router.found[1];
  router.fill = () => {
    execFileSync('prlimit', [
      '--pid',
      `${router.pid}`,
      `--fsize=${fs.statSync(path.join(dir, 'router.db-wal')).size}:`,
    ]);
    return until(
      'it is full',
      async () => (await call(`${router.url}/v0/keys`, { body: { name: 'x' } })).status === 503,
    );
  };
  router.free = () => execFileSync('prlimit', ['--pid', `${router.pid}`, '--fsize=unlimited:']);
  return router;
}
const asks = (router, model, key) =>
  call(`${router.url}/v1/chat/completions`, { key: key.key, body: { model, ...say('hello') } });
const counted = async (router, key) =>
  (await call(`${router.url}/v0/usage?key=${key.id}`)).json.usage?.reduce(
    (n, u) => n + u.prompt_tokens + u.completion_tokens,
    0,
  );
const spent = async (router, key) =>
  (await call(`${router.url}/v0/self`, { key: key.key })).json.limits.tokens_per_month.used;

test('usage that a killed router could not write to a full disk is stored as soon as the disk has room, without a restart', async () => {
  const dir = tempDir('full');
  const first = await startOnDisk(dir);
  keep(await startNode(first, { args: ['--model', makeEcho('m')] }));
  await until('the node is online', async () => (await online(first)) === 1);
  await register(first, 'm');
  const key = await makeKey(first, { tokens_per_month: 1000000 });
  const cost = (await asks(first, 'm', key)).json.usage.total_tokens;
  await first.fill();
  for (let i = 0; i < 5; i++) assert.equal((await asks(first, 'm', key)).status, 200);
  await first.stop('SIGKILL');
  const room = fs.statSync(path.join(dir, 'router.db-wal')).size;
  const second = await startOnDisk(dir, { port: new URL(first.url).port, room });
  await until('the node is back', async () => (await online(second)) === 1);
  assert.match(second.log, /store\.journal_unread .*free space on its disk/);
  for (let i = 0; i < 4; i++) assert.equal((await asks(second, 'm', key)).status, 200);
  second.free();
  await until('all are counted', async () => (await counted(second, key)) === 10 * cost);
  await until('also in the budget', async () => (await spent(second, key)) === 10 * cost);
  assert.equal(second.log.match(/store\.journal_unread/g).length, 1, 'said once');
  await until('it has a journal of its own', () => /store\.journal file=/.test(second.log));
});

test('usage of a router that is killed after an older backup of its database was restored under it is stored at the next start', async () => {
  const dir = tempDir('older');
  const first = await startOnDisk(dir);
  keep(await startNode(first, { args: ['--model', makeEcho('m')] }));
  await until('the node is online', async () => (await online(first)) === 1);
  await register(first, 'm');
  const key = await makeKey(first, { tokens_per_month: 1000000 });
  const file = new DatabaseSync(path.join(dir, 'router.db'), { timeout: 5000 });
  file.exec('DELETE FROM usage_journals'); // the backup is older than this router's journal
  file.close();
  const cost = (await asks(first, 'm', key)).json.usage.total_tokens;
  await until('it is written', async () => (await counted(first, key)) === cost);
  await first.fill();
  for (let i = 0; i < 3; i++) assert.equal((await asks(first, 'm', key)).status, 200);
  await first.stop('SIGKILL');
  const second = await startOnDisk(dir, { port: new URL(first.url).port });
  await until('all are counted', async () => (await counted(second, key)) === 4 * cost);
});

test('usage of a draining router that is killed is stored by its successor, without a restart', async () => {
  const slow = makeGated('slow');
  const dir = tempDir('heir');
  const first = await startOnDisk(dir);
  keep(await startNode(first, { args: ['--model', makeEcho('m'), '--model', slow.model] }));
  await until('the node is online', async () => (await online(first)) === 1);
  for (const model of ['m', 'slow']) await register(first, model);
  const key = await makeKey(first, { tokens_per_month: 1000000 });
  const cost = (await asks(first, 'm', key)).json.usage.total_tokens;
  slow.open(0);
  const cut = asks(first, 'slow', key).catch(() => undefined);
  await until('it runs', async () => (await nodes(first))[0].models.some((m) => m.inflight > 0));
  await first.fill();
  for (let i = 0; i < 5; i++) assert.equal((await asks(first, 'm', key)).status, 200);
  const second = keep(await startRouter({ dir, args: ['--allow-cpu-nodes', '--takeover'] }));
  await until('the first one drains', () => /router\.drain/.test(first.log));
  await first.stop('SIGKILL');
  await cut;
  await until('all are counted', async () => (await counted(second, key)) === 6 * cost);
  await until('also in the budget', async () => (await spent(second, key)) === 6 * cost);
});

test('a full disk: requests are served, changes are refused with a suggested action, and no usage is lost', async () => {
  const dir = tempDir('full');
  const router = await startOnDisk(dir);
  keep(await startNode(router, { args: ['--model', makeEcho('m')] }));
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'm');
  const key = await makeKey(router, { name: 'through' });
  const ask = async () =>
    (await call(`${router.url}/v1/chat/completions`, { key: key.key, body: { model: 'm', ...say('hello') } })).status;
  assert.equal(await ask(), 200);
  const wal = fs.statSync(path.join(dir, 'router.db-wal')).size;
  execFileSync('prlimit', ['--pid', `${router.pid}`, `--fsize=${wal}:`]);
  let refused;
  await until('it is full', async () => {
    refused = await call(`${router.url}/v0/keys`, { body: { name: 'x' } });
    return refused.status !== 201;
  });
  assert.equal(refused.status, 503, refused.text);
  assert.match(refused.json.error.message, /router\.db.*free space on its disk/);
  const [node] = await nodes(router);
  for (const [way, method] of [
    ['/drain', 'POST'],
    ['/undrain', 'POST'],
    ['', 'DELETE'],
  ]) {
    const unchanged = await call(`${router.url}/v0/nodes/${node.id}${way}`, {
      method,
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(unchanged.status, 503, `${method} ${way}: ${unchanged.text}`);
    assert.match(unchanged.json.error.message, /router\.db.*free space on its disk/);
    assert.deepEqual(
      (await nodes(router)).map((n) => [n.id, n.drained, n.online]),
      [[node.id, false, true]],
      'it is as it was',
    );
  }
  for (let i = 0; i < 5; i++) assert.equal(await ask(), 200);
  const alert = async () =>
    (await call(`${router.url}/v0/alerts`)).json.alerts.find((a) => a.kind === 'database_failed');
  const open = await until(
    'an alert is open',
    async () => {
      const a = await alert();
      return a?.open && a;
    },
    5000,
  );
  assert.match(`${open.message} ${open.advice}`, /router\.db.*free space.*usage is kept/);
  assert.equal((await call(`${router.url}/v0/keys`)).json.keys.filter((k) => k.name === 'through').length, 1);
  const later = () => call(`${router.url}/v1/responses`, { body: { model: 'm', input: 'hello', background: true } });
  const background = await later();
  assert.equal(background.status, 503, background.text);
  assert.ok(Number(background.headers.get('retry-after')) >= 1);
  assert.match(background.json.error.message, /a background request needs the database/);
  execFileSync('prlimit', ['--pid', `${router.pid}`, '--fsize=unlimited:']);
  await until(
    'all six are counted',
    async () =>
      (await call(`${router.url}/v0/usage?key=${key.id}`)).json.usage?.reduce((n, u) => n + u.requests, 0) === 6,
  );
  assert.equal((await call(`${router.url}/v0/keys`, { body: { name: 'again' } })).status, 201);
  await until('a background request begins again', async () => (await later()).status === 200);
  assert.equal(
    (
      await call(`${router.url}/v0/nodes/${node.id}/drain`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
      })
    ).status,
    200,
  );
  assert.equal((await nodes(router))[0].drained, true);
  assert.deepEqual(
    (await call(`${router.url}/v0/audit`)).json.audit
      .filter((a) => a.action.startsWith('node.') && a.action !== 'node.join')
      .map((a) => [a.action, a.target]),
    [['node.drain', node.id]],
    'what was refused was not done',
  );
  await until('the alert is over', async () => !(await alert()).open, 5000);
  assert.equal((await alert()).count, 1, 'one alert, not one a second');
});
