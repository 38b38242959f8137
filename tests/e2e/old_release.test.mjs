// This program beside that of the release before, which lacks what the protocol of the links and the database have got
// since: rolling upgrades, in every order.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { buildOld } from '../support/old_release.mjs';
import { startPostgres } from '../support/postgres.mjs';
import { killWorkers } from '../support/workers.mjs';
import { addNode, keep, makeKey } from './fleet.mjs';
import { call, makeEcho, online, register, say, startRouter, stream, tempDir, until } from './support.mjs';

const COMMIT = 'd66fe4d8';
const TEXT = 'the quick brown fox jumps over the lazy dog and counts '.repeat(3);
const STREAMS = 12;
const NOW = {};
let old;

before(() => {
  old = buildOld(COMMIT);
});

const start = async (program, { args = [], ...more } = {}) =>
  keep(await startRouter({ args: ['--allow-cpu-nodes', ...args], ...more, ...program }));
const isOnline = (router, count) => until('the nodes are online', async () => (await online(router)) === count);

// Streams with exact texts, while a worker dies in the midst of them.
async function servesThroughADeath(router, node) {
  let begun = 0;
  const running = Array.from({ length: STREAMS }, () =>
    stream(router.url, { model: 'm', ...say(TEXT) }, { onChunk: (out) => out.chunks === 5 && begun++ }),
  );
  await until('all have begun', () => begun === STREAMS);
  await killWorkers(node);
  for (const out of await Promise.all(running))
    assert.deepEqual([out.status, out.error, out.text, out.done], [200, null, TEXT, true]);
}

for (const [what, ofRouter, ofNode] of [
  ['a router of now with a node of the release before', () => NOW, () => old],
  ['a router of the release before with a node of now', () => old, () => NOW],
])
  test(`${what}: exact texts through the death of a worker, and of the node`, async () => {
    const router = await start(ofRouter());
    const model = makeEcho('m', { step_ms: 5 });
    const dir = tempDir('node');
    const node = await addNode(router, model, { name: 'n', dir, ...ofNode() });
    await isOnline(router, 1);
    await register(router, 'm');
    await servesThroughADeath(router, node);
    await node.stop('SIGKILL');
    const again = await addNode(router, model, { name: 'n', dir, port: node.port, ...ofNode() });
    await isOnline(router, 1);
    await servesThroughADeath(router, again);
    const { alerts } = (await call(`${router.url}/v0/alerts`)).json;
    assert.deepEqual(
      alerts.filter((a) => a.open),
      [],
    );
    for (const process of [router, again]) assert.doesNotMatch(process.log, /state\.bad_move|protocol_error|checksum/);
  });

// What a router leaves in its database: a key with usage, a stored answer.
async function leave(router) {
  const key = await makeKey(router, { tokens_per_month: 1_000_000 });
  const answer = (await call(`${router.url}/v1/responses`, { key: key.key, body: { model: 'm', input: 'hello' } }))
    .json;
  assert.equal(answer.status, 'completed');
  await until('the usage is written', async () => (await usageOf(router, key)) > 0);
  return { key, id: answer.id, tokens: await usageOf(router, key) };
}
const usageOf = async (router, key) =>
  (await call(`${router.url}/v0/usage?key=${key.id}`)).json.usage.reduce(
    (n, u) => n + u.prompt_tokens + u.completion_tokens,
    0,
  );
async function finds(router, { key, id, tokens }) {
  await until('the key holds', async () => (await call(`${router.url}/v0/whoami`, { key: key.key })).status === 200);
  const stored = await call(`${router.url}/v1/responses/${id}`, { key: key.key });
  assert.equal(stored.json?.output?.[0]?.content[0].text, 'hello', stored.text);
  assert.equal(await usageOf(router, key), tokens);
}

test('the router of the release before runs on the database of now, and the router of now on what that one leaves', async () => {
  const dir = tempDir('router');
  let router = await start(NOW, { dir });
  const port = Number(new URL(router.url).port);
  await addNode(router, makeEcho('m'), { name: 'n' });
  await isOnline(router, 1);
  await register(router, 'm');
  const left = [await leave(router)];
  for (const program of [old, NOW, old, NOW]) {
    await router.stop();
    router = await start(program, { dir, port });
    await isOnline(router, 1);
    for (const one of left) await finds(router, one);
    left.push(await leave(router));
  }
});

test('routers of both releases share a PostgreSQL database: each serves, and finds what the other one wrote', async (t) => {
  const database = startPostgres();
  t.after(() => database.stop());
  const args = ['--database', database.url];
  const first = await start(old, { args });
  const second = await start(NOW, { args });
  const model = makeEcho('m', { step_ms: 5 });
  const nodes = [
    await addNode(first, model, { name: 'before', ...old }),
    await addNode(second, model, { name: 'now' }),
  ];
  for (const router of [first, second]) await isOnline(router, 2);
  await register(first, 'm');
  await until('both know it', async () => (await call(`${second.url}/v1/models`)).json.data.length === 1);
  const left = [await leave(first), await leave(second)];
  for (const router of [first, second]) for (const one of left) await finds(router, one);
  for (const [router, node] of [
    [first, nodes[1]],
    [second, nodes[0]],
  ])
    await servesThroughADeath(router, node);
});

test('a router of now takes over from one of the release before; one of the release before, which shows no secret, is refused', async () => {
  const dir = tempDir('router');
  const first = await start(old, { dir });
  await addNode(first, makeEcho('m'), { name: 'n' });
  await isOnline(first, 1);
  await register(first, 'm');
  const second = await start(NOW, { dir, args: ['--takeover'] });
  assert.equal(second.url, first.url);
  assert.deepEqual(await first.ended, { code: 0, signal: null });
  await isOnline(second, 1);
  await finds(second, await leave(second));
  await assert.rejects(start(old, { dir, args: ['--takeover'] }), /does not show the secret of handover\.secret/);
  await finds(second, await leave(second));
});
