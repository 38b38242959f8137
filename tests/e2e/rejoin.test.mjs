// Nodes rejoin without help, with their own identity, and only if the router reaches them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { describe, test } from 'node:test';
import { addNode, fleet, keep } from './fleet.mjs';
import { startProxy } from '../support/proxy.mjs';
import {
  call,
  LONG,
  makeEcho,
  makeToken,
  nodes,
  online,
  register,
  say,
  startNode,
  startRouter,
  startStandIn,
  startUp,
  stopwatch,
  stream,
  tempDir,
  until,
} from './support.mjs';

const cpu = ['--allow-cpu-nodes'];
const alerts = async (router, kind) =>
  (await call(`${router.url}/v0/alerts`)).json.alerts.filter((a) => a.kind === kind);
const isOpen = async (router, kind) => (await alerts(router, kind)).some((a) => a.open);
const ask = (router, model = 'm') => call(`${router.url}/v1/chat/completions`, { body: { model, ...say('hello') } });
const identity = (node) => JSON.parse(fs.readFileSync(path.join(node.dir, 'node-identity.json')));

// All that a fault may cost has come back: every node is online, its model ready, and it answers.
async function whole(router, count) {
  await until('every node is online', async () => (await online(router)) === count, 20000);
  await until(
    'every model is ready',
    async () => (await nodes(router)).every((n) => n.models[0]?.state === 'ready'),
    20000,
  );
  assert.equal((await ask(router)).status, 200);
}

// A token that was good when the node joined and is not any more.
async function spentToken(router) {
  const { key, id } = (await call(`${router.url}/v0/nodes/tokens`, { body: {} })).json;
  return { key, spend: () => call(`${router.url}/v0/keys/${id}`, { method: 'DELETE' }) };
}

const restart = async (router) => {
  await router.stop('SIGKILL');
  return keep(await startRouter({ dir: router.dir, port: new URL(router.url).port, args: cpu }));
};

// A router as a node sees it.  `answer(what)` says what it replies to a "join" or a "heartbeat", more
// members or { status }, `list()` what it has registered.
async function startStub(answer, list = () => ({ version: 1, models: [] })) {
  const stub = { asked: 0, join: 0, heartbeat: 0, registry: 0, 'manifest.json': 0 };
  const server = http.createServer((req, res) => {
    const what = req.url.split('/').at(-1);
    const { status = 200, ...more } =
      what === 'manifest.json'
        ? { status: 404 }
        : what === 'registry'
          ? list()
          : { ...(what === 'join' && { node_id: 'x' }), registry_version: 1, routers: [], ...answer(what, req) };
    stub.asked++;
    stub[what]++;
    req.resume();
    res.writeHead(status, { 'content-type': 'application/json' });
    res.end(JSON.stringify(more));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  stub.url = `http://127.0.0.1:${server.address().port}`;
  stub.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return keep(stub);
}

describe('nodes and their router', { concurrency: 4 }, () => {
  test('a node whose token has expired joins again after a restart of its router, and after its own', async () => {
    let router = keep(await startRouter({ args: cpu }));
    const model = makeEcho('m');
    const token = await spentToken(router);
    const node = await addNode(router, model, { name: 'n', token: token.key });
    await until('it has joined', async () => (await online(router)) === 1);
    await register(router, 'm');
    assert.equal((await token.spend()).status, 200);
    router = await restart(router);
    await whole(router, 1);
    assert.doesNotMatch(node.log, /router\.trouble.*status 401/);
    await node.stop('SIGKILL');
    await addNode(router, model, { name: 'n', token: token.key, dir: node.dir });
    await whole(router, 1);
    assert.equal((await nodes(router)).length, 1, 'it came back as itself');
  });

  test('a database backup from before the join is restored: the node joins with a token that is still valid; without one it logs what to do and retries', async () => {
    let router = keep(await startRouter({ args: cpu }));
    const kept = tempDir('backup'),
      file = () => path.join(router.dir, 'router.db');
    // With the router stopped the file is whole.
    const again = async (change) => {
      await router.stop();
      change();
      router = keep(await startRouter({ dir: router.dir, port: new URL(router.url).port, args: cpu }));
    };
    const backup = (name) => again(() => fs.copyFileSync(file(), path.join(kept, name)));
    const restore = (name) => again(() => fs.copyFileSync(path.join(kept, name), file()));
    const token = await spentToken(router);
    await backup('before');
    const node = await addNode(router, makeEcho('m'), { name: 'n', token: token.key });
    await until('it has joined', async () => (await online(router)) === 1);
    await restore('before');
    await until('it has joined with its token', async () => (await online(router)) === 1);
    await register(router, 'm');
    await whole(router, 1);
    assert.equal((await nodes(router))[0].id, identity(node).node_id);
    await token.spend();
    await backup('with');
    await whole(router, 1);
    await restore('before');
    await call(
      `${router.url}/v0/keys/${(await call(`${router.url}/v0/keys`)).json.keys.find((k) => k.role === 'node').id}`,
      { method: 'DELETE' },
    );
    for (const { id } of await nodes(router)) await call(`${router.url}/v0/nodes/${id}`, { method: 'DELETE' });
    await until('it says what to do', () =>
      /router\.trouble.*status 401\): llm-router nodes token makes a token/.test(node.log),
    );
    assert.equal(await online(router), 0);
    await restore('with'); // nobody touches the node
    await whole(router, 1);
  });

  test('a node sends its secret first, and its token only if the secret is refused', async () => {
    const shown = [];
    const stub = await startStub((what, req) => {
      if (what === 'join') shown.push(req.headers.authorization);
      return { status: what === 'join' && shown.length < 4 ? 401 : 200 };
    });
    const node = keep(await startNode(stub, { name: 'n', token: 'lr-token' }));
    await until('it has joined', () => stub.heartbeat > 0);
    const secret = `Bearer ${identity(node).secret}`;
    assert.deepEqual(shown, [secret, 'Bearer lr-token', secret, 'Bearer lr-token']);
  });

  test('a node that has joined and is refused when it joins again continues its heartbeats and retries', async () => {
    let isRefusing = false;
    const stub = await startStub((what) =>
      what === 'join' ? { status: isRefusing ? 503 : 200 } : { join: isRefusing },
    );
    const node = keep(await startNode(stub, { name: 'n', token: 'lr-any' }));
    await until('the node sends heartbeats', () => stub.heartbeat > 0);
    isRefusing = true;
    const joins = stub.join;
    await until('it is refused, and again', () => stub.join >= joins + 2, 20000);
    const heartbeats = stub.heartbeat;
    await until('the node sends heartbeats between', () => stub.heartbeat > heartbeats);
    assert.match(node.log, /router\.trouble.*status 503/);
  });

  test('up starts its own node again though its node-secret has changed', async () => {
    const dir = tempDir('up');
    for (const secret of ['a'.repeat(40), 'b'.repeat(40)]) {
      const up = keep(await startUp({ dir, args: ['--node-secret', secret] }));
      await until('its node is online', async () => (await online(up)) === 1);
      await up.stop();
    }
  });

  test('a token does not replace a known node: the node needs its own secret, or an operator removes it first', async () => {
    const {
      router,
      all: [node],
    } = await fleet(1, makeEcho('m'));
    const { node_id: id, secret } = identity(node);
    const rogue = await startStandIn();
    const token = await makeToken(router);
    const join = (more, key = token) =>
      call(`${router.url}/v0/nodes/join`, {
        key,
        body: {
          protocol: 2,
          version: '0',
          node_id: id,
          name: 'rogue',
          device: 'cpu',
          secret: 's'.repeat(40),
          url: rogue.url,
          ...more,
        },
      });
    const refused = await join();
    assert.equal(refused.status, 403, refused.text);
    assert.match(refused.json.error.message, new RegExp(`must show its own secret.*llm-router nodes remove ${id}`));
    assert.equal((await join({}, undefined)).status, 403, 'nor does an operator by mistake');
    assert.equal((await nodes(router))[0].name, 'n0');
    await whole(router, 1);
    await node.stop('SIGKILL');
    assert.equal((await join({ secret })).status, 200, 'whoever has the secret is the node');
    assert.equal((await call(`${router.url}/v0/nodes/${id}`, { method: 'DELETE' })).status, 200);
    assert.equal((await join({}, secret)).status, 401);
    assert.equal((await join()).status, 200);
    rogue.close();
  });

  test('nodes that share one node-secret join and stay online', async () => {
    const router = keep(await startRouter({ args: cpu }));
    const args = ['--node-secret', 'shared-'.repeat(8)];
    const model = makeEcho('m');
    const all = [];
    for (const name of ['a', 'b', 'c']) all.push(await addNode(router, model, { name, args }));
    await until('all have joined', async () => (await online(router)) === 3);
    await register(router, 'm');
    await whole(router, 3);
    for (const node of all) assert.equal(node.log.match(/router\.joined/g).length, 1, 'one join each, then heartbeats');
  });

  test('a heartbeat with a number out of range counts: only that number is ignored, and the log names it', async () => {
    const { router } = await fleet(1, makeEcho('m'));
    const { id } = (await nodes(router))[0];
    const heartbeat = (model) =>
      call(`${router.url}/v0/nodes/${id}/heartbeat`, {
        body: { models: [{ id: 'm', state: 'ready', can_run: true, loaded: true, ...model }], pools: [] },
      });
    for (const wrong of [
      { prefill_us: 18446744073709000000 },
      { slots: 9e9 },
      { live: -1 },
      { queued: 'x' },
      { step_us: 1.5 },
    ]) {
      const answer = await heartbeat(wrong);
      assert.equal(answer.status, 200, `${JSON.stringify(wrong)}: ${answer.text}`);
      await until('the log names it', () => router.log.includes(`ignored=${Object.keys(wrong)[0]}`));
    }
    const unknown = await call(`${router.url}/v0/nodes/${id}/heartbeat`, {
      body: { models: [{ id: 'never-told', state: 'ready' }], pools: [] },
    });
    assert.equal(unknown.status, 200);
    assert.equal(unknown.json.join, true, 'it is asked to describe it');
    await whole(router, 1);
  });

  test('a node that the router cannot reach is refused with the reason and a suggested fix, and joins when it becomes reachable', async () => {
    const router = keep(await startRouter({ args: cpu }));
    const proxy = keep(await startProxy());
    proxy.mode = 'refuse';
    const node = keep(
      await startNode(router, { name: 'n', args: ['--model', makeEcho('m'), '--advertise', proxy.url] }),
    );
    await until('it is told why', () =>
      new RegExp(`router\\.trouble.*cannot reach this node at ${proxy.url} .*--advertise`).test(node.log),
    );
    assert.deepEqual(await nodes(router), []);
    proxy.port = node.port;
    proxy.mode = 'pass';
    await until('it has joined', async () => (await online(router)) === 1);
    await register(router, 'm');
    await whole(router, 1);
  });

  test('another program at the address a node names: the node is refused', async () => {
    const router = keep(await startRouter({ args: cpu }));
    const other = keep(await startNode(router, { name: 'other' }));
    const node = keep(await startNode(router, { name: 'n', args: ['--advertise', `http://127.0.0.1:${other.port}`] }));
    await until('it is told why', () => /router\.trouble.*another program answers there/.test(node.log));
    assert.deepEqual(
      (await nodes(router)).map((n) => n.name),
      ['other'],
    );
  });

  test('a node that the router no longer reaches goes offline with an alert although its heartbeats arrive, clients are told within seconds and without addresses, and it comes back', async () => {
    const {
      router,
      all: [node],
    } = await fleet(1, makeEcho('m', { step_ms: 20 }), { proxied: true, args: ['--node-timeout', '2s'] });
    let begun = false;
    const running =
      LONG &&
      stream(
        router.url,
        { model: 'm', ...say('x'.repeat(200)) },
        {
          onChunk: () => {
            begun = true;
          },
        },
      );
    if (running) await until('it streams', () => begun);
    const cut = stopwatch();
    node.proxy.mode = 'refuse';
    node.proxy.reset();
    const address = /127\.0\.0\.1|http:|ECONN/;
    if (running) {
      // one that waits for a node to come back is told after ten seconds
      const fresh = await ask(router);
      assert.equal(fresh.status, 503, fresh.text);
      assert.doesNotMatch(fresh.text, address);
      assert.doesNotMatch(JSON.stringify((await running).error), address);
      assert.ok(cut.ms < 20000, `${cut.real} ms`);
    }
    await until('it is offline', async () => (await online(router)) === 0);
    const [alert] = await alerts(router, 'node_unreachable');
    assert.ok(alert.open);
    assert.match(alert.message, /sends heartbeats, but the router cannot reach it/);
    assert.match(alert.advice, /--advertise/);
    const refused = await ask(router);
    assert.equal(refused.status, 503);
    assert.match(refused.json.error.message, /n0: the router cannot reach it/);
    assert.doesNotMatch(refused.text, address);
    node.proxy.mode = 'pass';
    await whole(router, 1);
    assert.equal(await isOpen(router, 'node_unreachable'), false);
    assert.equal(node.log.match(/router\.joined/g).length, 1, 'it did not even notice');
  });

  test('two processes with one identity: the first keeps serving, the second is refused with a suggested fix, and an alert is open until it stops', async () => {
    const {
      router,
      all: [node],
    } = await fleet(1, makeEcho('m'));
    const copy = path.join(tempDir('clone'), 'data');
    fs.mkdirSync(copy);
    fs.copyFileSync(path.join(node.dir, 'node-identity.json'), path.join(copy, 'node-identity.json'));
    const twin = keep(await startNode(router, { name: 'twin', dir: copy, args: ['--model', makeEcho('m')] }));
    await until('an alert', () => isOpen(router, 'node_cloned'));
    const [alert] = await alerts(router, 'node_cloned');
    assert.match(alert.advice, /delete node-identity\.json in the copy/);
    await until('it is told', () =>
      /router\.trouble.*another process serves as node .*delete node-identity\.json/.test(twin.log),
    );
    assert.deepEqual(
      (await nodes(router)).map((n) => [n.name, n.online]),
      [['n0', true]],
    );
    await whole(router, 1);
    // The first dies: its address must not stay online by the other's heartbeats.
    await node.stop('SIGKILL');
    await until('the other takes over', async () =>
      (await nodes(router)).some((n) => n.online && n.url.endsWith(`:${twin.port}`)),
    );
    await whole(router, 1);
    await until('the alert is over', async () => !(await isOpen(router, 'node_cloned')));
  });

  test('heartbeats of a process that was replaced while the router could not reach it are refused', async () => {
    const {
      router,
      all: [node],
    } = await fleet(1, makeEcho('m'), { proxied: true });
    node.proxy.mode = 'refuse';
    node.proxy.reset();
    const { node_id: id, secret } = identity(node);
    const newer = await startStandIn({ epoch: 7 });
    const join = await call(`${router.url}/v0/nodes/join`, {
      key: secret,
      body: { protocol: 2, version: '0', node_id: id, name: 'newer', device: 'cpu', secret, url: newer.url, epoch: 7 },
    });
    assert.equal(join.status, 200, join.text);
    const old = await call(`${router.url}/v0/nodes/${id}/heartbeat`, {
      key: secret,
      body: { models: [], pools: [], epoch: 8 },
    });
    assert.equal(old.status, 409, old.text);
    assert.match(old.json.error.message, /another process has joined as node/);
    newer.close();
    node.proxy.mode = 'pass';
    await whole(router, 1);
    assert.equal((await nodes(router))[0].url, node.proxy.url, 'the one that lives');
  });

  test('a node forgets routers that have left, so that a fleet may change its addresses any number of times', async () => {
    const routers = [];
    const startNext = () => startStub(() => ({ routers: routers.map((r) => r.url) }));
    const first = await startNext();
    routers.push(first);
    const node = keep(await startNode(first, { name: 'n', token: 'lr-any' }));
    for (let i = 0; i < 20; i++) {
      const next = await startNext();
      routers[1]?.close();
      routers[1] = next;
      await call(`http://127.0.0.1:${node.port}/v0/heartbeat`, {
        method: 'POST',
        body: {},
        key: identity(node).secret,
      });
      await until(`router ${i} is joined`, () => next.asked > 0, 10000);
    }
    await until('it has forgotten', () => (node.log.match(/router\.forgotten/g) ?? []).length >= 18, 10000);
    assert.ok(first.asked > 0);
  });

  test('a node of two routers follows the router with the newer registration of a model, also when the other router gets a newer one', async () => {
    const routers = [],
      older = { version: 1, generation: 7 };
    const listing = (version, generation) => ({
      version,
      models: [
        {
          id: 'acme/m',
          source: 'hub',
          format: 'safetensors',
          manifest_sha256: String(generation).padStart(64, '0'),
          generation,
        },
      ],
    });
    const fleetOf = (version) => () => ({ registry_version: version(), routers: routers.map((r) => r.url) });
    routers.push(
      await startStub(
        fleetOf(() => 1),
        () => listing(1, 8),
      ),
    );
    routers.push(
      await startStub(
        fleetOf(() => older.version),
        () => listing(older.version, older.generation),
      ),
    );
    const [newer, late] = routers;
    keep(await startNode(newer, { name: 'n', token: 'lr-any' }));
    await until('the manifest of the newer one is asked for', () => newer['manifest.json'] > 0);
    await until('the list of the older one is read', () => late.registry > 0 && late.heartbeat > 1);
    assert.equal(late['manifest.json'], 0);
    Object.assign(older, { version: 2, generation: 9 });
    await until('its manifest is asked for', () => late['manifest.json'] > 0);
  });
});
