// Two routers on one database: after a fault of a router, its clock or the database, they
// and their nodes agree again.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { startHub } from '../support/hub.mjs';
import { Browser, SECRET, startProvider } from '../support/oidc.mjs';
import { startPostgres } from '../support/postgres.mjs';
import { addNode, keep } from './fleet.mjs';
import {
  call,
  makeEcho,
  makeToken,
  nodes,
  online,
  register,
  ROOT,
  say,
  startNode,
  startRouter,
  tempDir,
  until,
} from './support.mjs';

const DEBUG = process.env.LLM_ROUTER_DEBUG_BIN ?? path.join(ROOT, 'build/debug/bin/llm-router');
let database, hub, env, first, second;
const all = [];

const args = () => ['--database', database.url, '--allow-cpu-nodes', '--hub-host', hub.storage];

before(async () => {
  database = startPostgres();
  hub = await startHub();
  env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  for (const name of ['http_proxy', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']) env[name] = '';
  first = keep(await startRouter({ args: args(), env }));
  // Its clock is a minute fast.
  second = keep(await startRouter({ args: args(), env: { ...env, LR_FAILPOINT: 'clock.ahead=error' }, bin: DEBUG }));
});
after(async () => {
  await hub.close();
  database.stop();
});

test('clocks that differ by a minute do not split the fleet: nodes of either router serve at both', async () => {
  const model = makeEcho('m');
  for (const [i, router] of [first, second].entries())
    all.push(await addNode(router, model, { name: `n${i}`, env, args: ['--hub-host', hub.storage] }));
  for (const router of [first, second])
    await until('both nodes are online', async () => (await online(router)) === 2, 20000);
  await register(first, 'm');
  await until(
    'it serves at the other',
    async () =>
      (await call(`${second.url}/v1/chat/completions`, { body: { model: 'm', ...say('hello') } })).status === 200,
  );
});

test('a model that is deleted and registered again while the other router is away is new there, too, and nodes download each revision once', async () => {
  const dir = makeEcho('again');
  const files = Object.fromEntries(fs.readdirSync(dir).map((name) => [name, fs.readFileSync(path.join(dir, name))]));
  const mark = (filter) => `{% for m in messages %}{{ m.content | ${filter} }}{% endfor %}`;
  const repo = hub.add('acme/again', { ...files, 'chat_template.jinja': mark('upper') });
  const post = (body) => call(`${first.url}/v0/models/register`, { body: { repo: 'acme/again', ...body } });
  const said = async (router) =>
    (await call(`${router.url}/v1/chat/completions`, { body: { model: 'acme/again', ...say('hello') } })).json
      .choices?.[0].message.content;
  assert.equal((await post({ chat_template: mark('upper') })).status, 201);
  for (const router of [first, second]) await until('it answers', async () => (await said(router)) === 'HELLO', 30000);
  const list = async (router) =>
    (await call(`${router.url}/v0/models/registry`)).json.models.find((m) => m.id === 'acme/again');
  // A node that has no files yet would fetch the second revision as its first.
  await until('both nodes have the files', async () =>
    (await nodes(first)).every((n) => n.models.some((m) => m.id === 'acme/again' && /ready|present/.test(m.state))),
  );
  const old = await list(second);
  process.kill(second.pid, 'SIGSTOP');
  repo.commit({ ...files, 'chat_template.jinja': mark('title'), 'notes.txt': 'another revision' });
  assert.equal((await call(`${first.url}/v0/models/acme%2Fagain`, { method: 'DELETE' })).status, 200);
  assert.equal((await post({ chat_template: mark('reverse') })).status, 201);
  const wanted = await list(first);
  process.kill(second.pid, 'SIGCONT');
  await until(
    'the other has the new one',
    async () => (await list(second))?.manifest_sha256 === wanted.manifest_sha256,
    4000,
  );
  for (const router of [first, second])
    await until('it answers as the new one', async () => (await said(router)) === 'olleh', 30000);
  assert.deepEqual(await list(second), wanted);
  assert.ok(wanted.generation > old.generation, `${wanted.generation} after ${old.generation}`);
  for (const router of [first, second])
    await until('both nodes are online', async () => (await online(router)) === 2, 20000);
  for (const node of all) {
    await until('its files are the new ones', () => /revision\.installed model=acme\/again/.test(node.log));
    assert.equal(node.log.match(/revision\.fetch model=acme\/again/g).length, 1, 'not one after the other without end');
  }
});

test('a node that joins by a token for any number of nodes while the database is away is stored once the database is back', async () => {
  const token = await makeToken(first, { uses: 0 });
  database.stop();
  keep(await startNode(first, { name: 'late', token, args: ['--model', makeEcho('m')] }));
  await until('it has joined', async () =>
    (await nodes(first)).some(
      (n) => n.name === 'late' && n.models.some((m) => m.state === 'ready' || m.state === 'present'),
    ),
  );
  await until('it could not be stored', () => /store\.failed/.test(first.log));
  database.again();
  await until(
    'the other router knows it by the database',
    async () => (await nodes(second)).some((n) => n.name === 'late' && n.online),
    20000,
  );
  const again = keep(await startRouter({ args: args(), env }));
  assert.ok(
    (await nodes(again)).some((n) => n.name === 'late'),
    'a router that starts reads it',
  );
});

test('a node that starts while the router it was given is away joins the other routers of the last run', async () => {
  const named = await startRouter({ args: args(), env });
  const model = makeEcho('m');
  let node = await startNode(named, { name: 'loyal', args: ['--model', model] });
  const isOnline = async (router) => (await nodes(router)).some((n) => n.name === 'loyal' && n.online);
  await until('the other routers have it', async () => (await isOnline(first)) && (await isOnline(second)), 20000);
  await until('its routers are written down', () => fs.existsSync(path.join(node.dir, 'node-routers.json')));
  await named.stop();
  await node.stop();
  await until('it is offline', async () => !(await isOnline(first)) && !(await isOnline(second)), 20000);
  // The token is of no use without the router that would take it.
  node = keep(await startNode(named, { name: 'loyal', dir: node.dir, token: 'lr-none', args: ['--model', model] }));
  await until('it is back', async () => (await isOnline(first)) && (await isOnline(second)), 20000);
});

test('routers that share a database share sessions: begun, finished and used on different routers, and ended on all', async (t) => {
  const own = await startProvider({ people: { ada: { email: 'ada@example.com', groups: ['admins'] } } });
  t.after(() => own.close());
  const settings = [
    ...['--database', database.url, '--require-key', '--oidc-issuer', own.issuer, '--oidc-client-id', 'router'],
    ...['--oidc-scopes', 'openid email groups', '--oidc-admin-group', 'admins'],
  ];
  const secret = { LLM_ROUTER_OIDC_CLIENT_SECRET: SECRET };
  const first = keep(await startRouter({ args: settings, env: secret }));
  const second = keep(await startRouter({ args: settings, env: secret }));
  own.open([first.url, second.url]);
  // Cookies of the two ports are one jar, as behind one name.
  const browser = new Browser();
  const jar = browser.jar(first.url);
  browser.jar = (origin) => (origin === own.issuer ? Browser.prototype.jar.call(browser, origin) : jar);
  const callback = await browser.follow(`${first.url}/v0/oidc/start`, 'ada', (u) => u.includes('/v0/oidc/callback?'));
  const answer = await browser.fetch(callback);
  assert.equal(answer.status, 302, await answer.text());
  // At once, without waiting for the routers to tell each other.
  const seen = (await browser.api(second, '/v0/whoami')).json;
  assert.deepEqual([seen.name, seen.role], ['ada@example.com', 'admin']);
  const made = await browser.api(second, '/v0/keys', { method: 'POST', body: { name: 'x' }, csrf: seen.csrf });
  assert.equal(made.status, 201, made.text);
  assert.equal((await browser.api(first, '/v0/keys')).status, 200);
  assert.equal((await browser.api(second, '/v0/session', { method: 'DELETE', csrf: seen.csrf })).status, 200);
  await until(
    'the session is over on the first router, too',
    async () => (await browser.api(first, '/v0/keys')).status === 401,
    5000,
  );
  // A key that is revoked on one router ends its sessions on the other.
  const key = (await call(`${first.url}/v0/keys`, { body: { role: 'admin' }, key: first.adminKey })).json;
  const in2 = await until('the other router knows the key', async () => {
    const tried = await call(`${second.url}/v0/session`, { body: { key: key.key } });
    return tried.status === 200 && tried;
  });
  const cookie = in2.headers.get('set-cookie').split(';')[0];
  assert.equal((await call(`${first.url}/v0/keys`, { headers: { cookie } })).status, 200);
  assert.equal((await call(`${first.url}/v0/keys/${key.id}`, { method: 'DELETE', key: first.adminKey })).status, 200);
  await until(
    'it has ended',
    async () => (await call(`${second.url}/v0/keys`, { headers: { cookie } })).status === 401,
  );
});
