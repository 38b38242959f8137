// A node and a router one release apart: they work together, or refuse with both versions
// named.  A proxy between them speaks as the other release would.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, test } from 'node:test';
import { call, makeEcho, makeToken, nodes, register, say, startNode, startRouter, until } from './support.mjs';

const left = [];
after(() => Promise.all(left.map((p) => p.stop())));

// Passes everything on; `ask` and `answer` may change a JSON body.
async function startProxy(target, { ask = (b) => b, answer = (b) => b }) {
  const change = (fn, bytes, at) => {
    try {
      return JSON.stringify(fn(JSON.parse(bytes), at));
    } catch {
      return bytes;
    }
  };
  const server = http.createServer(async (req, res) => {
    const parts = [];
    for await (const part of req) parts.push(part);
    const body = change(ask, Buffer.concat(parts).toString(), req.url);
    const got = await fetch(target + req.url, {
      method: req.method,
      body: req.method === 'GET' ? undefined : body,
      headers: { 'content-type': 'application/json', authorization: req.headers.authorization },
    }).catch(() => null);
    if (!got) return res.destroy();
    res.writeHead(got.status, { 'content-type': 'application/json' });
    res.end(change(answer, await got.text(), req.url));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  left.push({
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  });
  return `http://127.0.0.1:${server.address().port}`;
}

async function fleet(between) {
  const router = await startRouter({ args: ['--allow-cpu-nodes'] });
  left.push(router);
  const token = await makeToken(router);
  const node = await startNode(
    { url: await startProxy(router.url, between) },
    { token, name: 'skewed', args: ['--model', makeEcho('apart')] },
  );
  left.push(node);
  return { router, node };
}

const drop = (object, ...names) => {
  for (const name of names) delete object[name];
  return object;
};

async function serves(router) {
  await until('the node is online', async () => (await nodes(router)).some((n) => n.online));
  await register(router, 'apart');
  await until(
    'it serves',
    async () =>
      (await call(`${router.url}/v1/chat/completions`, { body: { model: 'apart', ...say('hello') } })).json
        ?.choices?.[0].message.content === 'hello',
  );
}

test('a node of the next release, with members that this router does not know, joins and serves', async () => {
  const { router } = await fleet({
    ask: (body) => ({
      ...body,
      ...(body.version && { version: '99.1.0' }),
      shape: { of: ['things', 1] },
      colour: null,
      models: body.models?.map((m) => ({ ...m, mood: 'new', nested: [[{}]] })),
      pools: body.pools?.map((p) => ({ ...p, kind: 7 })),
    }),
  });
  await serves(router);
  assert.equal((await nodes(router))[0].version, '99.1.0');
});

test('a node of the release before, without the newer members, joins and serves', async () => {
  const { router } = await fleet({
    ask: (body) =>
      drop(
        {
          ...body,
          ...(body.version && { version: '0.0.1' }),
          models: body.models?.map((m) => drop(m, 'pinned', 'queued')),
        },
        'tls',
        'epoch',
        'event_end',
        'events',
        'downloads',
      ),
  });
  await serves(router);
});

test('a router of the next release, with more in its replies, is joined and served', async () => {
  const { router } = await fleet({
    answer: (body) =>
      body.node_id || body.registry_version ? { ...body, version: '99.1.0', mood: 'new', limits: { a: [1] } } : body,
  });
  await serves(router);
});

test('a router of the release before, with only the older members, is joined and served', async () => {
  const { router } = await fleet({ answer: (body) => drop(body, 'version', 'heartbeat_ms', 'routers', 'protocol') });
  await serves(router);
});

const OWN = 3; // WIRE_PROTOCOL

for (const [who, theirs] of [
  ['the next', OWN + 1],
  ['the same', OWN],
  ['the last', OWN - 1],
]) {
  const common = Math.min(theirs, OWN);
  test(`a node of ${who} protocol joins and serves: the router uses the older protocol`, async () => {
    const { router } = await fleet({ ask: (body) => (body.protocol ? { ...body, protocol: theirs } : body) });
    await serves(router);
    assert.equal((await nodes(router))[0].protocol, common);
  });
  test(`a router of ${who} protocol is joined and served: the node uses the older protocol`, async () => {
    const { router, node } = await fleet({
      answer: (body) => (body.protocol && body.node_id ? { ...body, protocol: theirs } : body),
    });
    await serves(router);
    assert.match(node.log, new RegExp(`router\\.joined .*protocol=${common}\\b`));
  });
}

for (const [what, protocol, release, upgrade] of [
  ['llm-router 0.1.0', 1, '0.1.0', 'node'],
  ['a protocol two ahead', 5, '99.1.0', 'router'],
])
  test(`${what} is refused on joining, and router, node and log name both versions, both protocols and what to upgrade`, async () => {
    const { router, node } = await fleet({
      ask: (body) => (body.protocol ? { ...body, protocol, version: release } : body),
    });
    const { version } = (await call(`${router.url}/health`)).json;
    const dots = (text) => text.replaceAll('.', '\\.');
    const both = new RegExp(
      `this router is llm-router ${dots(version)}.*node \\(llm-router ${dots(release)}\\) speaks protocol ${protocol}, this router protocol 3: upgrade the ${upgrade}`,
    );
    await until('the node says so', () => both.test(node.log));
    await until('the router says so', () => both.test(router.log));
    assert.deepEqual(await nodes(router), []);
  });

test('a router that has just begun knows from the nodes how fast they are', async () => {
  const first = await startRouter({ args: ['--allow-cpu-nodes'] });
  left.push(first);
  const port = new URL(first.url).port;
  left.push(await startNode(first, { name: 'paced', args: ['--model', makeEcho('apart', { step_ms: 10 })] }));
  await serves(first);
  assert.equal(
    (
      await call(`${first.url}/v1/chat/completions`, {
        body: { model: 'apart', ...say('forty letters and a few more to be sure..') },
      })
    ).status,
    200,
  );
  const rates = async (r) => (await call(`${r.url}/v0/explain?model=apart`)).json?.candidates?.[0];
  await first.stop('SIGKILL');
  const again = await startRouter({ dir: first.dir, port, args: ['--allow-cpu-nodes'] });
  left.push(again);
  const told = await until('the node has told it', async () => {
    const got = await rates(again).catch(() => null);
    return got?.step_ms > 0 && got;
  });
  assert.ok(told.step_ms > 5 && told.step_ms < 1000, `${told.step_ms} ms a step of an engine that takes 10`);
  assert.ok(told.prefill_ms_per_token > 0);
});
