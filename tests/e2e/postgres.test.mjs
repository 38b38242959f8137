// One PostgreSQL server, two routers, three nodes: what one learns the other knows.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { call, makeEcho, online, register, say, sleep, startNode, startRouter, stream, tempDir, until } from './support.mjs';

const bin = ['/usr/lib/postgresql', '/usr/local/bin'].flatMap((root) => (root.endsWith('bin') ? [root]
  : fs.existsSync(root) ? fs.readdirSync(root).map((v) => path.join(root, v, 'bin')) : [])).find((dir) => fs.existsSync(path.join(dir, 'initdb')));
const left = [];
let data, url, first, second, model;

// PostgreSQL refuses to run as root: then as the user its package made.
function run(program, args) {
  const isRoot = process.getuid() === 0;
  const command = isRoot ? ['runuser', ['-u', 'postgres', '--', path.join(bin, program), ...args]] : [path.join(bin, program), args];
  return execFileSync(command[0], command[1], { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/tmp' });
}

before(async () => {
  data = tempDir('pg');
  fs.chmodSync(data, 0o777);
  const cluster = path.join(data, 'cluster');
  run('initdb', ['-D', cluster, '-A', 'trust', '-U', 'lr', '--no-sync']);
  run('pg_ctl', ['-D', cluster, '-w', '-l', path.join(data, 'log'), '-o', `-c listen_addresses= -c unix_socket_directories=${data} -c fsync=off`, 'start']);
  url = `postgresql://lr@/postgres?host=${encodeURIComponent(data)}`;
  model = makeEcho('shared');
  const args = ['--database', url, '--allow-cpu-nodes'];
  first = await startRouter({ args });
  second = await startRouter({ args });
  left.push(first, second);
  for (let i = 0; i < 3; i++) left.push(await startNode(i < 2 ? first : second, { name: `n${i}`, args: ['--model', model] }));
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  run('pg_ctl', ['-D', path.join(data, 'cluster'), '-m', 'immediate', 'stop']);
});

test('nodes that joined one router beat to both', async () => {
  await until('three at the first', async () => (await online(first)) === 3, 20000);
  await until('three at the second', async () => (await online(second)) === 3, 20000);
});

test('a model registered at one serves at the other within two seconds', async () => {
  await register(first, 'shared');
  await until('it serves', async () => (await call(`${second.url}/v1/chat/completions`, { body: { model: 'shared', ...say('hello') } })).status === 200, 2000);
  const key = (await call(`${second.url}/v0/keys`, { body: { name: 'k' } })).json;
  await until('the key is known', async () => (await call(`${first.url}/v0/whoami`, { key: key.key })).status === 200, 2000);
  await call(`${first.url}/v0/keys/${key.id}`, { method: 'DELETE' });
  await until('the key is revoked', async () => (await call(`${second.url}/v0/whoami`, { key: key.key })).status === 401, 2000);
});

test('usage of both lands in one place', async () => {
  for (const r of [first, second]) assert.equal((await stream(r.url, { model: 'shared', ...say('x') })).status, 200);
  await sleep(600);
  const sum = async (r) => (await call(`${r.url}/v0/usage`)).json.usage.reduce((n, u) => n + u.requests, 0);
  assert.ok((await sum(first)) >= 3);
  assert.equal(await sum(first), await sum(second));
});

test('a router dies, the other goes on; a deleted model is gone there too', async () => {
  await first.stop('SIGKILL');
  assert.equal((await stream(second.url, { model: 'shared', ...say('still here') })).text, 'still here');
  assert.equal((await call(`${second.url}/v0/models/shared`, { method: 'DELETE' })).status, 200);
  const again = await startRouter({ args: ['--database', url, '--allow-cpu-nodes'], dir: tempDir('again') });
  left.push(again);
  assert.deepEqual((await call(`${again.url}/v0/models`)).json.models, []);
});
