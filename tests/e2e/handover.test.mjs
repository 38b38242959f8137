// A new router takes the place of a running router without a gap (docs/adr/0061).
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { startLoad } from '../support/load.mjs';
import { startPostgres } from '../support/postgres.mjs';
import { addNode, fleet, keep, makeGated, makeKey } from './fleet.mjs';
import {
  BIN,
  call,
  cli,
  descriptors,
  LONG,
  makeEcho,
  nodes,
  online,
  register,
  say,
  sleep,
  startRouter,
  stream,
  tempDir,
  until,
} from './support.mjs';

const PER_SECOND = LONG ? 500 : 50;
const SETTLE_MS = LONG ? 5000 : 700; // of load before, between and after what is tested

const takeOver = async (router, { args = [], ...more } = {}) =>
  keep(await startRouter({ dir: router.dir, args: ['--allow-cpu-nodes', '--takeover', ...args], ...more }));

// Resolves once the stream has begun, with its end.
const begin = (url, body) =>
  new Promise((begun, fail) => {
    const done = stream(url, body, { onChunk: (out) => out.text.length >= 3 && begun({ done }) });
    done.catch(fail);
  });

const handles = (router) => descriptors(router.pid).length;
const memory = (router) => Number(fs.readFileSync(`/proc/${router.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]);

// Of a key; two rows where an hour has ended meanwhile.
const requestsOf = async (router, key) =>
  (await call(`${router.url}/v0/usage`)).json.usage
    .filter((u) => u.key === key.id)
    .reduce((sum, u) => sum + u.requests, 0);

const isWhole = async (router, count) => {
  const all = await nodes(router);
  return all.length === count && all.every((n) => n.online && n.models[0].state === 'ready');
};

test('0 requests fail while a new router and then a new binary take over, and sessions go on', async () => {
  const { router } = await fleet(2, makeEcho('swift'));
  const key = await makeKey(router);
  const admin = await makeKey(router, { role: 'admin' });
  const signedIn = await call(`${router.url}/v0/session`, { body: { key: admin.key } });
  const headers = { cookie: signedIn.headers.get('set-cookie').split(';')[0] };
  const { csrf } = (await call(`${router.url}/v0/whoami`, { headers })).json;

  const load = startLoad(router.url, { perSecond: PER_SECOND, model: 'swift', key: key.key });
  await sleep(SETTLE_MS); // the load is shown to hold without a takeover
  await until('answers come', () => load.answered > PER_SECOND / 4);
  assert.deepEqual(load.failures, []);
  const before = { handles: handles(router), memory: memory(router) };

  const second = await takeOver(router);
  assert.equal(second.url, router.url);
  assert.deepEqual(await router.ended, { code: 0, signal: null });
  await until('the second router knows', () => /router\.predecessor_ended/.test(second.log));
  await sleep(SETTLE_MS);

  const copy = path.join(tempDir('upgrade'), 'llm-router');
  fs.copyFileSync(BIN, copy);
  const third = await takeOver(router, { bin: copy });
  assert.deepEqual(await second.ended, { code: 0, signal: null });
  await until('the third router knows', () => /router\.predecessor_ended/.test(third.log));
  await sleep(SETTLE_MS);

  const whoami = (await call(`${third.url}/v0/whoami`, { headers })).json;
  assert.deepEqual([whoami.id, whoami.signed_in, whoami.csrf], [admin.id, true, csrf]);
  await until('all nodes are online and ready', () => isWhole(third, 2));
  const { sent, chats, failures } = await load.stop();
  assert.deepEqual([failures.length, failures.slice(0, 5)], [0, []], `of ${sent} requests`);
  await until('every answer is counted once', async () => (await requestsOf(third, key)) === chats);
  assert.equal((await call(`${third.url}/v0/alerts`)).json.alerts.length, 0);
  assert.ok(handles(third) <= before.handles + 16, `${handles(third)} handles, ${before.handles} before`);
  assert.ok(memory(third) <= before.memory * 1.5 + 20000, `${memory(third)} KB, ${before.memory} KB before`);
  const left = fs.readFileSync(path.join(router.dir, 'router.lock'), 'utf8').trim();
  assert.equal(left, String(third.pid), 'the lock names its process');
});

test('with PostgreSQL 0 requests fail while a new router takes over, and keys, sessions and usage go on', async (t) => {
  const database = startPostgres();
  t.after(database.stop);
  const args = ['--database', database.url];
  const { router } = await fleet(2, makeEcho('swift'), { args });
  const key = await makeKey(router);
  const admin = await makeKey(router, { role: 'admin' });
  const signedIn = await call(`${router.url}/v0/session`, { body: { key: admin.key } });
  const headers = { cookie: signedIn.headers.get('set-cookie').split(';')[0] };

  const load = startLoad(router.url, { perSecond: PER_SECOND, model: 'swift', key: key.key });
  await until('answers come', () => load.answered > PER_SECOND / 4);
  const next = await takeOver(router, { args });
  assert.deepEqual(await router.ended, { code: 0, signal: null });
  await sleep(SETTLE_MS);

  const whoami = (await call(`${next.url}/v0/whoami`, { headers })).json;
  assert.deepEqual([whoami.id, whoami.signed_in], [admin.id, true]);
  await until('all nodes are online and ready', () => isWhole(next, 2));
  const { sent, chats, failures } = await load.stop();
  assert.deepEqual([failures.length, failures.slice(0, 5)], [0, []], `of ${sent} requests`);
  await until('every answer is counted once', async () => (await requestsOf(next, key)) === chats);
  assert.equal((await call(`${next.url}/v0/alerts`)).json.alerts.length, 0);
});

test('running and waiting requests of the old router are finished by it', async () => {
  const { model, open } = makeGated('one', { step_ms: 20 });
  const { router } = await fleet(1, model, { nodeArgs: ['--max-sequences', '1'] });
  open(5);
  const text = '0123456789'.repeat(LONG ? 10 : 3); // at full size longer than --node-timeout
  const running = await begin(router.url, { model: 'one', ...say(text) });
  const waiting = Array.from({ length: 6 }, () => stream(router.url, { model: 'one', ...say(text) }));
  await until('some wait', async () => (await call(`${router.url}/v0/explain?model=one`)).json.queued >= 3);
  const next = await takeOver(router);
  open(1000);
  const answer = await call(`${next.url}/v1/chat/completions`, { body: { model: 'one', ...say('hi') } });
  assert.equal(answer.json.choices[0].message.content, 'hi', 'the new router serves beside the old one');
  for (const out of await Promise.all([running.done, ...waiting]))
    assert.deepEqual([out.status, out.error, out.text, out.done], [200, null, text, true]);
  assert.deepEqual(await router.ended, { code: 0, signal: null });
});

test('a change that the old router makes on an open connection is known to the new router', async () => {
  const { model, open } = makeGated('slow');
  const { router } = await fleet(1, model);
  open(5);
  const running = await begin(router.url, { model: 'slow', ...say('x'.repeat(80)) });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const ask = (method, at, body) =>
    new Promise((done, fail) => {
      const { hostname, port } = new URL(router.url);
      const headers = body ? { 'content-type': 'application/json' } : {};
      const req = http.request({ hostname, port, path: at, method, agent, headers }, async (res) => {
        let json = '';
        for await (const part of res.setEncoding('utf8')) json += part;
        done({ status: res.statusCode, close: res.headers.connection === 'close', json: JSON.parse(json) });
      });
      req.on('error', fail);
      req.end(body && JSON.stringify(body));
    });
  assert.equal((await ask('GET', '/v0/keys')).close, false);
  await takeOver(router);
  // The loop of the old router that has this connection may learn a moment later that it stops.
  const late = [];
  await until('the old router asks the client to connect anew', async () => {
    late.push(`late-${late.length}`);
    const made = await ask('POST', '/v0/keys', { name: late.at(-1) });
    assert.equal(made.status, 201);
    return made.close;
  });
  // Over a connection of its own: the old router would still answer on one that fetch has kept.
  await until('the new router knows the keys', async () => {
    const { close, json } = await ask('GET', '/v0/keys');
    return !close && late.every((name) => json.keys.some((k) => k.name === name));
  });
  agent.destroy();
  open(1000);
  assert.equal((await running.done).done, true);
  assert.equal((await router.ended).code, 0);
});

test('if the new router fails before it is ready, the running router goes on, and the next takeover works', async () => {
  const socket = path.join(tempDir('s'), 'a.sock');
  const { router } = await fleet(1, makeEcho('kept'), { args: ['--listen', `unix:${socket}`] });
  const busy = net.createServer().listen(0, '127.0.0.1');
  await until('it listens', () => busy.listening);
  const addresses = ['--listen', '127.0.0.1:0', '--listen', `unix:${socket}`];
  const args = ['router', '--takeover', '--data-dir', router.dir];
  await assert.rejects(
    cli([...args, ...addresses, '--listen', `127.0.0.1:${busy.address().port}`]),
    /the port is in use/,
  );
  busy.close();
  await until('the router says so', () => /router\.handover_failed .*goes_on=true/.test(router.log));
  assert.equal(fs.existsSync(socket), true, 'the Unix socket is still there');
  const hello = { body: { model: 'kept', ...say('hello') } };
  assert.equal((await call(`${router.url}/v1/chat/completions`, hello)).status, 200);
  await assert.rejects(cli(['router', '--data-dir', router.dir, ...addresses]), /router\.lock is held by process/);
  const next = await takeOver(router, { args: ['--listen', `unix:${socket}`] });
  assert.equal((await call(`${next.url}/v1/chat/completions`, hello)).status, 200);
  assert.equal((await router.ended).code, 0);
  assert.equal(fs.existsSync(socket), true);
  await next.stop();
  assert.equal(fs.existsSync(socket), false, 'the last router removes it');
});

const answersHi = async (router) => {
  const { status, text } = await call(`${router.url}/v1/chat/completions`, { body: { model: 'swift', ...say('hi') } });
  assert.equal(status, 200, text);
};
// A router that drains because of one stream, and the router that took over from it.
async function handedOver(text = '0123456789'.repeat(3)) {
  const gate = makeGated('slow');
  const { router } = await fleet(1, gate.model, { nodeArgs: ['--model', makeEcho('swift')] });
  await register(router, 'swift');
  gate.open(5);
  const running = await begin(router.url, { model: 'slow', ...say(text) });
  const next = await takeOver(router);
  const finish = async () => {
    gate.open(1000);
    const out = await running.done;
    assert.deepEqual([out.status, out.error, out.text, out.done], [200, null, text, true]);
    assert.deepEqual(await router.ended, { code: 0, signal: null });
  };
  return { router, next, finish };
}
const port = (router) => Number(new URL(router.url).port);

test('a draining router whose successor is killed takes its place back without a refused request, and gives it to the next one', async () => {
  const { router, next, finish } = await handedOver();
  const key = await makeKey(next);
  await next.stop('SIGKILL');
  await answersHi(router);
  await until('the node is online', () => isWhole(router, 1));
  await until(
    'it knows the new key',
    async () => (await call(`${router.url}/v0/whoami`, { key: key.key })).json?.id === key.id,
  );
  assert.match(router.log, new RegExp(`router\\.took_back from_pid=${next.pid}`));
  assert.equal(fs.readFileSync(path.join(router.dir, 'router.lock'), 'utf8').trim(), String(router.pid));
  assert.equal((await makeKey(router)).role, 'api', 'it changes the database');
  const third = await takeOver(router);
  await answersHi(third);
  await finish();
  await until('the third router knows', () => /router\.predecessor_ended/.test(third.log));
  assert.equal((await call(`${third.url}/v0/alerts`)).json.alerts.filter((a) => a.open).length, 0);
});

for (const [how, args] of [['by a plain start', []], ...(LONG ? [['by --takeover', ['--takeover']]] : [])])
  test(`whoever starts next gets the sockets and the locks of a draining router whose successor was killed, ${how}`, async () => {
    const { router, next, finish } = await handedOver();
    await next.stop('SIGKILL');
    const third = keep(
      await startRouter({ dir: router.dir, port: port(router), args: ['--allow-cpu-nodes', ...args] }),
    );
    assert.equal(third.url, router.url);
    await answersHi(third);
    await assert.rejects(cli(['router', '--data-dir', router.dir]), /router\.lock is held by process/);
    await finish();
    await answersHi(third);
  });

test('a draining router does not come back when its successor has handed over itself', async () => {
  const { router, next, finish } = await handedOver();
  const gate = makeGated('gate');
  await addNode(next, gate.model, { name: 'other' });
  await until('both are online', async () => (await online(next)) === 2);
  await register(next, 'gate');
  gate.open(5);
  const running = await begin(next.url, { model: 'gate', ...say('0123456789') });
  const third = await takeOver(next);
  await next.stop('SIGKILL');
  await running.done.catch(() => undefined);
  await answersHi(third);
  await third.stop('SIGKILL');
  const fourth = keep(await startRouter({ dir: router.dir, port: port(router), args: ['--allow-cpu-nodes'] }));
  assert.equal(fourth.url, router.url);
  await fourth.stop();
  await assert.rejects(fetch(`${router.url}/livez`), 'nobody serves');
  assert.doesNotMatch(router.log, /took_back/);
  await finish();
});

test('a draining router does not come back when its successor is stopped', async () => {
  const { router, next, finish } = await handedOver();
  await next.stop();
  await until('nobody serves', () =>
    fetch(`${router.url}/livez`).then(
      () => false,
      () => true,
    ),
  );
  await finish();
  assert.doesNotMatch(router.log, /took_back/);
});

test('takeovers that begin together take over one after the other, and no request fails', async () => {
  const { router, finish } = await handedOver();
  const key = await makeKey(router);
  const load = startLoad(router.url, { perSecond: PER_SECOND, model: 'swift', key: key.key });
  const all = await Promise.all(Array.from({ length: LONG ? 6 : 3 }, () => takeOver(router)));
  await until('one is left', () => all.filter(({ child }) => child.exitCode === null).length === 1);
  await answersHi(router);
  const { sent, failures } = await load.stop();
  assert.deepEqual([failures.length, failures.slice(0, 5)], [0, []], `of ${sent} requests`);
  await finish();
});

test('a router that was started for an upgrade and has handed over itself is no failed upgrade', async () => {
  const gate = makeGated('slow');
  const { router } = await fleet(1, gate.model);
  gate.open(5);
  const running = await begin(router.url, { model: 'slow', ...say('0123456789') });
  process.kill(router.pid, 'SIGUSR2');
  await until('it has handed over', () => /router\.handed_over/.test(router.log));
  await takeOver(router); // the successor may not offer its place yet
  await until('the one between has ended', () => /router\.successor_ended how="exited with 0"/.test(router.log));
  assert.doesNotMatch(router.log, /router\.upgrade_failed/);
  gate.open(1000);
  assert.equal((await running.done).done, true);
});

test('a process that cannot read the secret of the data folder gets nothing; a successor that the router starts itself needs none', async () => {
  const { router } = await fleet(1, makeEcho('kept'));
  const file = path.join(router.dir, 'handover.secret');
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  const secret = fs.readFileSync(file, 'utf8');
  for (const other of ['x'.repeat(secret.length), ''])
    try {
      fs.writeFileSync(file, other);
      const args = ['router', '--takeover', '--data-dir', router.dir, '--listen', '127.0.0.1:0'];
      await assert.rejects(cli(args), /does not show the secret of handover\.secret/);
    } finally {
      fs.writeFileSync(file, secret);
    }
  assert.equal((await call(`${router.url}/health`)).status, 200);
  fs.writeFileSync(file, 'of another release');
  router.child.kill('SIGUSR2');
  assert.equal((await router.ended).code, 0);
  assert.match(router.log, /router\.handed_over/);
  fs.writeFileSync(file, secret);
  const pid = Number(router.log.match(/router\.upgrade pid=(\d+)/)[1]);
  process.kill(pid, 'SIGTERM');
  await until('the successor has ended', () => !fs.existsSync(path.join(router.dir, 'router.sock')));
});

test('--takeover without a running router starts as usual', async () => {
  const router = keep(await startRouter({ args: ['--takeover'] }));
  assert.equal((await call(`${router.url}/health`)).status, 200);
  assert.equal((await router.stop()).code, 0);
  assert.equal(fs.existsSync(path.join(router.dir, 'router.sock')), false);
});
