// Under a service manager: readiness, watchdog, reload, and sockets that outlive a restart.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { track } from '../support/scene.mjs';
import { startLoad } from '../support/load.mjs';
import { addNode } from './fleet.mjs';
import { BIN, call, LONG, makeEcho, nodes, register, ROOT, sleep, tempDir, until } from './support.mjs';

const left = [];
after(() => left.forEach((manager) => manager.say('quit')));

// Runs the program under tests/support/manager.py.
function manage(args, { listens = false } = {}) {
  const script = path.join(ROOT, 'tests/support/manager.py');
  const child = track(
    spawn('python3', [script, ...(listens ? ['--listen'] : []), '--', BIN, ...args], {
      stdio: ['pipe', 'pipe', 'pipe'],
    }),
  );
  const self = { events: [], log: '', say: (word) => child.stdin.write(`${word}\n`) };
  let rest = '';
  child.stdin.on('error', () => {});
  child.stderr.on('data', (data) => (self.log += data));
  child.stdout.on('data', (data) => {
    const lines = (rest + data).split('\n');
    rest = lines.pop();
    self.events.push(...lines.map((line) => JSON.parse(line)));
  });
  self.notes = () => self.events.map((e) => e.notify).filter(Boolean);
  self.told = (text, count = 1) =>
    until(`${text} is told`, () => self.notes().filter((note) => note.includes(text)).length >= count);
  self.ended = (count = 1) =>
    until('it ends', () => {
      const ends = self.events.filter((e) => 'ended' in e);
      return ends.length >= count && ends;
    });
  left.push(self);
  return self;
}

const anywhere = (name) => ['--listen', '127.0.0.1:0', '--data-dir', tempDir(name)];

for (const [name, args] of [
  ['router', ['router', ...anywhere('r')]],
  ['node', ['node', ...anywhere('n'), '--device', 'cpu', '--no-hf-cache']],
  ['up', ['up', ...anywhere('u'), '--device', 'cpu', '--no-hf-cache', '--model', makeEcho('still')]],
])
  test(`${name} says when it is ready, alive, reloading and stopping`, async () => {
    const manager = manage(args);
    await manager.told('READY=1');
    assert.match(manager.log, /listening/);
    const { pid } = manager.events.find((e) => e.pid);
    assert.ok(
      manager
        .notes()
        .find((n) => n.includes('READY=1'))
        .includes(`MAINPID=${pid}`),
    );
    await manager.told('WATCHDOG=1', 2);
    manager.say('HUP');
    await manager.told('RELOADING=1');
    await manager.told('READY=1', 2);
    assert.match(
      manager.notes().find((n) => n.includes('RELOADING=1')),
      /MONOTONIC_USEC=\d+/,
    );
    manager.say('TERM');
    await manager.told('STOPPING=1');
    assert.equal((await manager.ended())[0].ended, 0);
  });

test('SIGUSR2 starts the program again, which takes over; the manager follows the new process', async () => {
  const manager = manage(['router', '--allow-cpu-nodes', '--data-dir', tempDir('r')], { listens: true });
  await manager.told('READY=1');
  const { port } = manager.events.find((e) => e.port);
  const { pid } = manager.events.find((e) => e.pid);
  const router = { url: `http://127.0.0.1:${port}` };
  await addNode(router, makeEcho('swapped'), { name: 'n0' });
  await until('the node is ready', async () => (await nodes(router))[0]?.models[0]?.state === 'ready');
  await register(router, 'swapped');
  const load = startLoad(router.url, { perSecond: LONG ? 500 : 50, model: 'swapped' });
  await until('answers come', () => load.answered > 10);
  manager.say('USR2');
  assert.equal((await manager.ended())[0].ended, 0);
  const next = Number(
    manager
      .notes()
      .filter((n) => n.includes('MAINPID='))
      .at(-1)
      .match(/MAINPID=(\d+)/)[1],
  );
  assert.notEqual(next, pid);
  await until('the new process is watched', () => manager.notes().at(-1) === 'WATCHDOG=1');
  const { sent, failures } = await load.stop();
  assert.deepEqual([failures.length, failures.slice(0, 5)], [0, []], `of ${sent} requests`);
  manager.say('TERM');
  await manager.told('STOPPING=1');
  await until('the new process is gone', () => !fs.existsSync(`/proc/${next}`));
});

test('with a socket of the manager 0 requests fail through a restart, and no node or session is lost', async () => {
  const dir = tempDir('r');
  const manager = manage(['router', '--allow-cpu-nodes', '--data-dir', dir], { listens: true });
  await manager.told('READY=1');
  const { port } = manager.events.find((e) => e.port);
  const router = { url: `http://127.0.0.1:${port}`, dir };
  await addNode(router, makeEcho('steady'), { name: 'n0' });
  await until('the node is ready', async () => (await nodes(router))[0]?.models[0]?.state === 'ready');
  await register(router, 'steady');
  const key = (await call(`${router.url}/v0/keys`, { body: { name: 'k', role: 'admin' } })).json;
  const signedIn = await call(`${router.url}/v0/session`, { body: { key: key.key } });
  const headers = { cookie: signedIn.headers.get('set-cookie').split(';')[0] };

  const load = startLoad(router.url, { perSecond: LONG ? 500 : 50, model: 'steady' });
  await sleep(LONG ? 3000 : 500); // the load is shown to hold without a restart
  await until('answers come', () => load.answered > 10);
  assert.deepEqual(load.failures, []);
  manager.say('TERM');
  assert.equal((await manager.ended())[0].ended, 0);
  manager.say('start');
  await manager.told('READY=1', 2);
  await sleep(LONG ? 3000 : 500);
  const { sent, failures } = await load.stop();
  assert.deepEqual([failures.length, failures.slice(0, 5)], [0, []], `of ${sent} requests`);
  assert.equal((await nodes(router)).filter((n) => n.online).length, 1);
  assert.equal((await call(`${router.url}/v0/whoami`, { headers })).json.signed_in, true);
  manager.say('TERM');
  await manager.ended(2);
});
