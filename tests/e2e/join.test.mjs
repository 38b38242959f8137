// Join tokens: which machines and how many can join, and from which addresses.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import http from 'node:http';
import https from 'node:https';
import fs from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import {
  call,
  cli,
  makeEcho,
  makeToken,
  nodes,
  online,
  startNode,
  startRouter,
  startStandIn,
  tempDir,
  until,
} from './support.mjs';

const left = [];
after(() => Promise.all(left.map((p) => p.stop?.('SIGKILL') ?? p.close())));
const keep = (process) => {
  left.push(process);
  return process;
};
const cpu = ['--allow-cpu-nodes'];
const keys = async (router) => (await call(`${router.url}/v0/keys`, { key: router.adminKey })).json.keys;
const joins = async (router) =>
  (await call(`${router.url}/v0/audit`, { key: router.adminKey })).json.audit.filter((a) => a.action === 'node.join');

// A join as a node would send it.
const join = (router, key, id, url, headers, more = {}) =>
  call(`${router.url}/v0/nodes/join`, {
    key,
    headers,
    body: {
      protocol: 2,
      version: '0',
      node_id: `node-${id.padEnd(12, '0')}`,
      name: id,
      device: 'cpu',
      secret: id.padEnd(40, 's'),
      url,
      ...more,
    },
  });

test('a join token admits one node and is used up for every other node, also after a restart of the router', async () => {
  let router = keep(await startRouter({ args: cpu }));
  const made = (await call(`${router.url}/v0/nodes/tokens`, { body: {} })).json;
  assert.deepEqual([made.uses, made.joins, Math.round((made.expires - made.created) / 60)], [1, 0, 60]);
  const node = keep(await startNode(router, { name: 'first', token: made.key, args: ['--model', makeEcho('m')] }));
  await until('it has joined', async () => (await online(router)) === 1);
  const thief = keep(await startNode(router, { name: 'second', token: made.key }));
  await until('the second is told why', () =>
    /router\.trouble.*was for 1 node and has been used \(status 401\): llm-router nodes token makes a token/.test(
      thief.log,
    ),
  );
  assert.deepEqual(
    (await keys(router)).map((k) => [k.uses, k.joins]),
    [[1, 1]],
  );
  assert.equal(
    (await call(`${router.url}/v0/models/registry`, { key: made.key })).status,
    401,
    'nor does it open anything else',
  );
  const port = new URL(router.url).port;
  await router.stop();
  router = keep(await startRouter({ dir: router.dir, port, args: cpu }));
  await until('the first is back by its secret', async () => (await online(router)) === 1);
  assert.equal((await join(router, made.key, 'third', keep(await startStandIn()).url)).status, 401);
  assert.deepEqual(
    (await nodes(router)).map((n) => n.name),
    ['first'],
  );
  const rows = await joins(router);
  assert.deepEqual(
    rows.map((a) => a.actor),
    [made.id],
    'the join is in the audit log, by its token, and a restart of the router adds none',
  );
  assert.match(
    rows[0].detail,
    new RegExp(`url=http://127\\.0\\.0\\.1:${node.port} name="first" device=cpu from=127\\.0\\.0\\.1`),
  );
});

test('if many nodes use one token at the same time, only as many join as the token allows', async () => {
  const router = keep(await startRouter({ args: cpu }));
  for (const uses of [1, 3]) {
    const token = await makeToken(router, { uses });
    const ids = Array.from({ length: 8 }, (_, i) => `n${uses}x${i}`);
    const places = await Promise.all(ids.map(() => startStandIn()));
    const answers = await Promise.all(ids.map((id, i) => join(router, token, id, places[i].url)));
    assert.deepEqual(answers.map((a) => a.status).sort(), [...Array(uses).fill(200), ...Array(8 - uses).fill(401)]);
    const lucky = answers.findIndex((a) => a.status === 200);
    assert.equal(
      (await join(router, token, ids[lucky], places[lucky].url)).status,
      200,
      'the same node may say it again',
    );
    places.forEach((p) => p.close());
  }
  assert.equal((await nodes(router)).length, 4);
  assert.equal((await joins(router)).length, 4);
});

test('nodes token prints the number of nodes and the expiry; keys of role node are for any number of nodes and expire after a day', async () => {
  const router = keep(await startRouter({ args: cpu }));
  const env = { LLM_ROUTER_URL: router.url };
  await cli(['nodes', 'token'], env);
  await cli(['nodes', 'token', '--uses', '5', '--expires', '2h'], env);
  const { stderr } = await cli(['keys', 'create', '--role', 'node', '--name', 'images'], env);
  assert.match(stderr, /Any number of nodes can join with this key \(--uses N limits the number\) until it expires/);
  await cli(['keys', 'create', '--role', 'node', '--uses', '2', '--expires', '0'], env);
  const hours = (k) => (k.expires ? Math.round((k.expires - k.created) / 3600) : 0);
  assert.deepEqual(
    (await keys(router)).map((k) => [k.uses, hours(k)]),
    [
      [1, 1],
      [5, 2],
      [0, 24],
      [2, 0],
    ],
  );
  assert.match((await cli(['keys'], env)).stdout, /join token {2}0 of 5 nodes joined[^]*images {2}any number of nodes/);
  for (const body of [{ uses: -1 }, { uses: 'all' }, { role: 'admin' }, { colour: 1 }])
    assert.equal((await call(`${router.url}/v0/nodes/tokens`, { body })).status, 400, JSON.stringify(body));
  assert.equal((await call(`${router.url}/v0/keys`, { body: { role: 'api', uses: 1 } })).status, 400);
});

// A server that counts who asks, and a client of a trusted proxy that comes from elsewhere.
async function startVictim(serve = (fn) => http.createServer(fn)) {
  const victim = { hits: 0 };
  const server = serve((req, res) => {
    victim.hits++;
    res.end('{}');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  victim.port = server.address().port;
  victim.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return keep(victim);
}
const elsewhere = { 'x-forwarded-for': '203.0.113.9' };
const guarded = ['--require-key', '--trusted-proxy', '127.0.0.1', ...cpu];

test('a join cannot name the URL of another machine, and the router sends that machine nothing; --node-network allows it', async () => {
  const victim = await startVictim();
  const router = keep(await startRouter({ args: guarded }));
  const key = await makeToken(router, { uses: 0 });
  for (const url of [`http://127.0.0.1:${victim.port}`, `http://localhost:${victim.port}`]) {
    const refused = await join(router, key, 'rogue', url, elsewhere);
    assert.equal(refused.status, 403, refused.text);
    assert.match(
      refused.json.error.message,
      /joins from 203\.0\.113\.9, and .* is at (127\.0\.0\.1|::1): .*--node-network/,
    );
  }
  assert.equal(victim.hits, 0);
  assert.deepEqual(await nodes(router), []);
  assert.equal(
    (await join(router, key, 'own', `http://localhost:${victim.port}`)).status,
    200,
    'its own address may have a name',
  );
  assert.equal(
    (await nodes(router))[0].url,
    `http://127.0.0.1:${victim.port}`,
    'and is kept, whatever the name becomes',
  );
  const wide = keep(await startRouter({ args: [...guarded, '--node-network', '127.0.0.0/8'] }));
  assert.equal(
    (await join(wide, await makeToken(wide), 'remote', `http://127.0.0.1:${victim.port}`, elsewhere)).status,
    200,
  );
});

test('a join is refused where another program answers at the address, and where another process of the node does', async () => {
  const router = keep(await startRouter({ args: cpu }));
  const key = await makeToken(router, { uses: 0 });
  const other = keep(await startStandIn());
  const refused = await join(router, key, 'rogue', other.url, {}, { epoch: 5 });
  assert.equal(refused.status, 502, refused.text);
  assert.match(refused.json.error.message, /what answers there is no node/);
  const node = keep(await startNode(router, { args: ['--model', makeEcho('m')] }));
  await until('it is online', async () => (await online(router)) === 1);
  const twin = await join(router, key, 'twin', `http://127.0.0.1:${node.port}`, {}, { epoch: 5 });
  assert.equal(twin.status, 502, twin.text);
  assert.equal((await nodes(router)).length, 1);
});

test('a node with a certificate of --tls-ca may have any address', async () => {
  const dir = tempDir('ca'),
    file = (name) => path.join(dir, name);
  for (const name of ['good', 'foreign'])
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-keyout',
        file(`${name}.key`),
        '-out',
        file(`${name}.pem`),
        '-subj',
        `/CN=${name}`,
        '-days',
        '3',
        '-addext',
        'subjectAltName=IP:127.0.0.1',
      ],
      { stdio: 'ignore' },
    );
  const serve = (name) => (fn) =>
    https.createServer({ key: fs.readFileSync(file(`${name}.key`)), cert: fs.readFileSync(file(`${name}.pem`)) }, fn);
  const router = keep(await startRouter({ args: [...guarded, '--tls-ca', file('good.pem')] }));
  const foreign = await startVictim(serve('foreign')),
    good = await startVictim(serve('good'));
  assert.equal(
    (await join(router, await makeToken(router), 'foreign', `https://127.0.0.1:${foreign.port}`, elsewhere)).status,
    502,
  );
  assert.equal(foreign.hits, 0);
  assert.equal(
    (await join(router, await makeToken(router), 'good', `https://127.0.0.1:${good.port}`, elsewhere)).status,
    200,
  );
  const open = keep(await startRouter({ args: guarded }));
  assert.equal(
    (await join(open, await makeToken(open), 'good', `https://127.0.0.1:${good.port}`, elsewhere)).status,
    403,
    'without a CA of its own it may not',
  );
});
