// What keys of role api and metrics cannot do and cannot see, and how a key ends.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleet, keep, makeKey } from './fleet.mjs';
import { call, makeEcho, nodes, online, say, startRouter, startStandIn, stream, until } from './support.mjs';

test('a key of role metrics reads /metrics and nothing else, and cannot sign in', async () => {
  const router = keep(await startRouter({ args: ['--require-key'] }));
  const key = (
    await call(`${router.url}/v0/keys`, { body: { role: 'metrics', name: 'prometheus' }, key: router.adminKey })
  ).json.key;
  const status = async (at, as = key) => (await call(`${router.url}${at}`, { key: as })).status;
  assert.equal(await status('/metrics'), 200);
  assert.equal(await status('/metrics', router.adminKey), 200);
  for (const at of ['/v1/models', '/v0/keys', '/v0/nodes', '/v0/models/registry'])
    assert.equal(await status(at), 403, at);
  assert.equal((await call(`${router.url}/v0/session`, { body: { key } })).status, 403);
  const api = (await call(`${router.url}/v0/keys`, { body: { role: 'api' }, key: router.adminKey })).json.key;
  assert.equal(await status('/metrics', api), 403);
});

test('a key of role api learns neither folders nor ids, names and addresses of nodes; operators do', async (t) => {
  const {
    router,
    all: [real],
  } = await fleet(1, makeEcho('m'), { args: ['--node-timeout', '2s'] });
  const { key } = await makeKey(router);
  const chat = (as) => call(`${router.url}/v1/chat/completions`, { key: as, body: { model: 'm', ...say('hello') } });
  const [{ id }] = await nodes(router);
  assert.equal((await chat()).headers.get('x-llm-router-node'), id);
  const served = await chat(key);
  assert.deepEqual([served.status, served.headers.get('x-llm-router-node')], [200, null]);
  assert.doesNotMatch([...served.headers].join(), new RegExp(`${id}|\\bn0\\b`));

  const { url } = keep(await startStandIn());
  const models = [
    { id: 'm', state: 'failed', reason: 'the folder /srv/secret/m is broken', can_run: false, loaded: false },
  ];
  const broken = { draining: false, models, pools: [] };
  const joined = await call(`${router.url}/v0/nodes/join`, {
    body: {
      protocol: 2,
      version: '0',
      node_id: 'node-hidden000',
      name: 'cellar',
      url,
      device: 'cpu',
      secret: 's'.repeat(40),
      ...broken,
    },
  });
  assert.equal(joined.status, 200, joined.text);
  const heartbeat = setInterval(
    () => call(`${router.url}/v0/nodes/node-hidden000/heartbeat`, { body: broken }).catch(() => {}),
    300,
  );
  t.after(() => clearInterval(heartbeat));
  await real.stop();
  await until('the one that works is gone', async () => (await online(router)) === 1);
  const secrets = new RegExp(`/srv/secret|node-hidden|cellar|${id}|\\bn0\\b|127\\.0\\.0\\.1`);
  for (const [at, wants] of [
    ['/v1/models?all=true', /\/srv\/secret\/m/],
    ['/v1/models/m', /\/srv\/secret\/m/],
    ['/v0/explain?model=m', /cellar/],
  ]) {
    assert.match((await call(`${router.url}${at}`)).text, wants, `an operator sees ${at}`);
    const seen = await call(`${router.url}${at}`, { key });
    assert.equal(seen.status, 200);
    assert.doesNotMatch(seen.text, secrets, at);
  }
  assert.match((await call(`${router.url}/v1/models/m`, { key })).json.reason, /operators see why/);
  assert.match((await chat()).text, /\/srv\/secret\/m/);
  const failed = await chat(key);
  assert.equal(failed.status, 503);
  assert.doesNotMatch(failed.text, secrets);
  const request = failed.headers.get('x-request-id');
  assert.match(failed.json.error.message, new RegExp(`cannot be served at the moment.*log under ${request}`));
  await until('the log has the reason', () =>
    new RegExp(`${request}.*request\\.failed|request\\.failed.*${request}`).test(router.log),
  );
});

test("a revoked key's running and waiting requests end, those of other keys continue", async () => {
  const { router } = await fleet(1, makeEcho('m', { step_ms: 20 }), { nodeArgs: ['--max-sequences', '2'] });
  const lost = await makeKey(router),
    kept = await makeKey(router);
  const long = { model: 'm', ...say('word '.repeat(40)) };
  let begun = 0;
  const run = (key) =>
    stream(router.url, long, {
      key: key.key,
      onChunk: () => {
        begun++;
      },
    });
  const gone = run(lost),
    other = run(kept);
  await until('both run', () => begun >= 4);
  const waiting = call(`${router.url}/v1/chat/completions`, { key: lost.key, body: long });
  await until('one waits', async () => (await call(`${router.url}/v0/models?id=m`)).json.models[0].queued === 1);
  assert.equal((await call(`${router.url}/v0/keys/${lost.id}`, { method: 'DELETE' })).status, 200);
  const ended = await gone;
  assert.equal(ended.done && !ended.error, false, 'it did not come to its end');
  assert.match(JSON.stringify(ended.error), /was revoked/);
  const refused = await waiting;
  assert.equal(refused.status, 401);
  assert.match(refused.text, /was revoked/);
  const whole = await other;
  assert.deepEqual([whole.done, whole.error, whole.text.trim().split(' ').length], [true, null, 40]);
  await until('no slot is taken', async () => (await nodes(router))[0].models[0].inflight === 0);
  assert.equal(
    (await call(`${router.url}/v1/chat/completions`, { key: kept.key, body: { model: 'm', ...say('hi') } })).status,
    200,
  );
});
