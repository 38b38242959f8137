// Access control: every route with every role, requests of web pages, and joining nodes.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { BIN, call, launch, ROOT, startNode, startRouter, startStandIn, tempDir, until } from './support.mjs';

let locked, open;
const keys = {};

before(async () => {
  open = await startRouter();
  locked = await startRouter({ args: ['--require-key', '--trusted-proxy', '127.0.0.1'] });
  keys.admin = locked.adminKey;
  for (const role of ['api', 'node', 'metrics'])
    keys[role] = (await call(`${locked.url}/v0/keys`, { body: { name: role, role }, key: keys.admin })).json.key;
  keys.expired = (
    await call(`${locked.url}/v0/keys`, { body: { name: 'old', role: 'admin', expires_in: 1 }, key: keys.admin })
  ).json.key;
  const gone = (await call(`${locked.url}/v0/keys`, { body: { name: 'gone', role: 'admin' }, key: keys.admin })).json;
  await call(`${locked.url}/v0/keys/${gone.id}`, { method: 'DELETE', key: keys.admin });
  keys.revoked = gone.key;
  await until(
    'the key of one second is over',
    async () => (await call(`${locked.url}/v0/whoami`, { key: keys.expired })).status === 401,
  );
});
after(() => Promise.all([open?.stop(), locked?.stop()]));

// [method, path, the least role] of every operation; openapi.test.mjs holds the page and the
// table of routes together, so nothing is left out here.
const page = fs.readFileSync(path.join(ROOT, 'docs/openapi.yaml'), 'utf8');
const routes = page
  .split(/^ {2}(?=\/)/m)
  .slice(1)
  .flatMap((part) => {
    const at = part
      .match(/^\S+(?=:)/)[0]
      .replace('/responses/{id}', '/responses/resp_x')
      .replace(/\/v0\/(sessions|requests)\/\{id\}/, '/v0/$1/x')
      .replace('{id}', 'org/name')
      .replace(/\{\w+\}/g, 'x');
    return [...part.matchAll(/^ {4}(get|post|patch|delete):$[^]*?^ {6}x-role: (\w+)$/gm)].map(([, method, role]) => [
      method.toUpperCase(),
      at,
      role,
    ]);
  });

// Another address each time: wrong keys are counted by address.
let addresses = 0;
const elsewhere = () => ({ 'x-forwarded-for': `10.0.${addresses >> 8}.${addresses++ & 255}` });

// The status of an answer, which may be a stream that never ends.
async function status(url, method, key) {
  const controller = new AbortController();
  const answer = await fetch(url, {
    method,
    signal: controller.signal,
    body: ['POST', 'PATCH'].includes(method) ? '{}' : undefined,
    headers: {
      'content-type': 'application/json',
      ...elsewhere(),
      ...(key ? { authorization: `Bearer ${key}` } : {}),
    },
  });
  controller.abort();
  return answer.status;
}

test('every route answers each role, no key, a wrong, an expired and a revoked key as the route table says', async () => {
  assert.ok(routes.length >= 35, `${routes.length} operations were read`);
  for (const [method, at, wants] of routes) {
    if (wants === 'public' && ['/v0/whoami', '/v0/session', '/v0/self'].includes(at)) continue; // they judge the key itself, and have tests of their own
    const ask = (key) => status(`${locked.url}${at}`, method, key);
    const name = `${method} ${at}`;
    for (const bad of [undefined, 'lr-wrong', keys.expired, keys.revoked]) {
      const got = await ask(bad);
      if (wants === 'public') assert.ok(got !== 401 && got !== 403, `${name} with ${bad}: ${got}`);
      else assert.equal(got, 401, `${name} with ${bad}`);
    }
    for (const role of ['api', 'node', 'metrics', 'admin']) {
      const got = await ask(keys[role]);
      if (wants === 'public' || role === wants || role === 'admin')
        assert.ok(got !== 401 && got !== 403, `${name} as ${role}: ${got}`);
      else assert.equal(got, 403, `${name} as ${role}`);
    }
  }
});

test('ten wrong keys a minute from an address are refused, on whatever routes; further ones wait, and a valid key from there is never slowed', async () => {
  const from = elsewhere();
  const paths = ['/v1/models', '/v0/whoami', '/v0/self', '/v0/keys', '/metrics', '/v0/nodes/x/heartbeat'];
  const ask = (at, key, headers = from) =>
    call(`${locked.url}${at}`, { key, headers, method: at.startsWith('/v0/nodes') ? 'POST' : 'GET' });
  const statuses = [];
  let last;
  for (let i = 0; i < 16; i++) {
    last = await ask(paths[i % paths.length], `lr-guess-${i}`);
    statuses.push(last.status);
  }
  assert.deepEqual(statuses, [...Array(10).fill(401), ...Array(6).fill(429)]);
  assert.match(last.json.error.message, /10 wrong keys a minute came from 10\.0\./);
  assert.ok(Number(last.headers.get('retry-after')) >= 1);
  const signIn = (key) => call(`${locked.url}/v0/session`, { body: { key }, headers: from });
  assert.equal((await signIn('lr-guess')).status, 429, 'the sign-in counts with the others');
  for (let i = 0; i < 20; i++) assert.equal((await ask('/v1/models', keys.api)).status, 200);
  assert.equal((await signIn(keys.admin)).status, 200);
  assert.equal((await ask('/v1/models', 'lr-guess', elsewhere())).status, 401, 'another address');
});

test('an expired or revoked key is told so however often it is sent, and counts as a wrong key once a minute', async () => {
  const from = elsewhere();
  const gone = (await call(`${locked.url}/v0/keys`, { body: {}, key: keys.admin })).json;
  await call(`${locked.url}/v0/keys/${gone.id}`, { method: 'DELETE', key: keys.admin });
  const ask = (key) => call(`${locked.url}/v1/models`, { key, headers: from });
  for (let i = 0; i < 30; i++) {
    const answer = await ask(gone.key);
    assert.equal(answer.status, 401);
    assert.match(answer.json.error.message, /was revoked/);
  }
  const statuses = [];
  for (let i = 0; i < 10; i++) statuses.push((await ask(`lr-guess-${i}`)).status);
  assert.deepEqual(statuses, [...Array(9).fill(401), 429], 'the revoked key was one of ten');
  assert.equal((await ask(gone.key)).status, 401, 'and is told why it is refused still');
});

test('where no key is required a made-up key counts as none; an expired or revoked key is 401', async () => {
  const whoami = (key) => call(`${open.url}/v0/whoami`, { key });
  const nobody = (await whoami()).json;
  for (const made of ['x', 'EMPTY', 'ollama', 'lr-...', keys.api]) {
    assert.equal((await call(`${open.url}/v1/models`, { key: made })).status, 200, made);
    assert.deepEqual((await whoami(made)).json, nobody, 'it has the rights of a request without a key, and no other');
  }
  assert.equal(open.log.match(/auth\.key_ignored/g).length, 1, 'logged once');
  assert.ok(!open.log.includes('EMPTY'), 'a key is never logged');
  for (let i = 0; i < 30; i++) assert.equal((await call(`${open.url}/v1/models`, { key: `lr-${i}` })).status, 200);
  const brief = (await call(`${open.url}/v0/keys`, { body: { expires_in: 1 } })).json;
  const gone = (await call(`${open.url}/v0/keys`, { body: {} })).json;
  await call(`${open.url}/v0/keys/${gone.id}`, { method: 'DELETE' });
  await until('it has expired', async () => (await whoami(brief.key)).status === 401);
  for (const [bad, why] of [
    [brief.key, /has expired/],
    [gone.key, /was revoked/],
  ]) {
    const answer = await call(`${open.url}/v1/models`, { key: bad });
    assert.equal(answer.status, 401);
    assert.match(answer.json.error.message, why);
  }
  assert.equal((await call(`${open.url}/v0/nodes/join`, { body: {}, key: 'x' })).status, 401, 'a node needs its token');
});

test('every path may end with a slash, GET may have any Content-Type, and HEAD is answered wherever GET is', async () => {
  for (const [method, at] of routes) {
    if (method !== 'GET') continue;
    const controller = new AbortController();
    const get = (where, more) => fetch(`${open.url}${where}`, { signal: controller.signal, ...more });
    const plain = await get(at);
    assert.equal((await get(`${at}/`.replace('//', '/'))).status, plain.status, `${at}/`);
    assert.equal((await get(at, { headers: { 'content-type': 'text/html' } })).status, plain.status, at);
    const head = await get(at, { method: 'HEAD' });
    assert.deepEqual([head.status, await head.text()], [plain.status, ''], `HEAD ${at}`);
    controller.abort();
  }
  const answer = await call(`${open.url}/v1/chat/completions/`, { body: { model: 'm', messages: [] } });
  assert.equal(answer.json.error.code, 'model_not_found', 'POST, too');
  const listed = await fetch(`${open.url}/v1/models`);
  const head = await fetch(`${open.url}/v1/models`, { method: 'HEAD' });
  assert.equal(head.headers.get('content-length'), String((await listed.text()).length));
});

const raw = (url, headers, method = 'GET', body) =>
  new Promise((done, fail) => {
    const { hostname, port, pathname } = new URL(url);
    const req = http.request({ hostname, port, path: pathname, method, headers }, (res) => {
      res.resume();
      res.on('end', () => done(res.statusCode));
    });
    req.on('error', fail);
    req.end(body);
  });

test('on loopback without a key web pages are kept out: Host, Origin, content type', async () => {
  const url = `${open.url}/v1/models`;
  assert.equal(await raw(url, {}), 200);
  assert.equal(await raw(url, { Host: 'evil.example' }), 421);
  assert.equal(await raw(url, { Origin: 'https://evil.example' }), 403);
  assert.equal(await raw(url, { 'Sec-Fetch-Site': 'cross-site' }), 403);
  assert.equal(await raw(`${open.url}/v0/keys`, { 'Content-Type': 'text/plain' }, 'POST', '{}'), 415);
  assert.equal(await raw(`${open.url}/v0/keys`, { 'Content-Type': 'application/json' }, 'POST', '{}'), 201);
});

test('listening beyond this machine needs TLS or --insecure-http, and prints an admin key once', async () => {
  await assert.rejects(
    launch(['router', '--listen', '0.0.0.0:0', '--data-dir', tempDir('beyond')], { match: /listening/ }),
    /insecure-http/,
  );
  const dir = tempDir('beyond');
  const first = await launch(['router', '--listen', '0.0.0.0:0', '--data-dir', dir, '--insecure-http'], {
    match: /listening on \S+:(\d+)/,
  });
  assert.match(first.out, /Admin key, shown this once: lr-/);
  assert.equal((await call(`http://127.0.0.1:${first.found[1]}/v1/models`)).status, 401);
  await first.stop();
  const second = await launch(['router', '--listen', '0.0.0.0:0', '--data-dir', dir, '--insecure-http'], {
    match: /listening/,
  });
  assert.doesNotMatch(second.out, /Admin key/);
  await second.stop();
  await assert.rejects(
    promisify(execFile)(BIN, ['up', '--device', 'cpu', '--listen', '0.0.0.0:0', '--data-dir', tempDir('u')]),
    /this machine only/,
  );
});

test('a node without a GPU is refused with the reason', async () => {
  const token = (await call(`${locked.url}/v0/nodes/tokens`, { body: {}, key: keys.admin })).json.key;
  const node = await startNode(locked, { args: ['--engine', 'echo'], token });
  await until('it is refused', () => /no GPU .*--allow-cpu-nodes/.test(node.log));
  await node.stop('SIGKILL');
  const join = (more) =>
    call(`${locked.url}/v0/nodes/join`, {
      key: token,
      body: {
        protocol: 2,
        version: '0',
        node_id: 'node-0123456789',
        name: 'n',
        device: 'cpu',
        secret: 's'.repeat(40),
        port: 1,
        ...more,
      },
    });
  const ram = { name: 'ram', title: 'RAM', total: 1 << 30, used: 0 },
    gpu = { name: 'GPU-1', title: 'A GPU', total: 1 << 30, used: 0 };
  for (const [more, status, message] of [
    [{}, 403, /has no GPU/],
    [{ device: 'cuda', pools: [ram] }, 403, /lists no GPU with memory/],
    [{ device: 'cuda', pools: [ram, { ...gpu, total: 0 }] }, 403, /lists no GPU with memory/],
    [{ device: 'vulkan', pools: [ram] }, 403, /says vulkan but lists no GPU with memory/],
    [{ device: 'abacus' }, 400, /cuda, vulkan, metal or cpu/],
  ]) {
    const answer = await join(more);
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.json.error.message, message);
  }
  assert.deepEqual((await call(`${locked.url}/v0/nodes`, { key: keys.admin })).json.nodes, []);
  const standIn = await startStandIn();
  assert.equal((await join({ device: 'cuda', pools: [ram, gpu], url: standIn.url })).status, 200);
  standIn.close();
  const alien = await call(`${locked.url}/v0/nodes/join`, { key: token, body: { protocol: 99, version: '9.9.9' } });
  assert.equal(alien.status, 400);
  assert.match(alien.json.error.message, /9\.9\.9.*protocol 99/);
});
