// A key's limits are changed while it is in use: the next request is checked against the new limits,
// what was not named stays, and the log tells who changed what.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { BIN, call, cli, makeEcho, online, register, say, startNode, startRouter, until } from './support.mjs';

const left = [];
let router, admin;

before(async () => {
  router = await startRouter({ args: ['--require-key', '--allow-cpu-nodes'] });
  admin = router.adminKey;
  left.push(router, await startNode(router, { args: ['--model', makeEcho('one'), '--model', makeEcho('two')] }));
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'one');
  await register(router, 'two');
});
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));

const make = async (body) => (await call(`${router.url}/v0/keys`, { body, key: admin })).json;
const change = (id, body, key = admin) => call(`${router.url}/v0/keys/${id}`, { method: 'PATCH', body, key });
const find = async (id) => (await call(`${router.url}/v0/keys`, { key: admin })).json.keys.find((k) => k.id === id);
const ask = (key, model = 'one') => call(`${router.url}/v1/chat/completions`, { key, body: { model, ...say('x') } });

test('the named properties change, the others stay, and the answer has the properties of the key without the key itself', async () => {
  const made = await make({
    name: 'before',
    requests_per_minute: 100,
    tokens_per_minute: 5000,
    expires_in: 3600,
    models: ['one'],
  });
  const changed = await change(made.id, { name: 'after' });
  assert.equal(changed.status, 200, changed.text);
  const { key: text, ...rest } = made;
  assert.deepEqual(changed.json, { ...rest, name: 'after' });
  assert.doesNotMatch(changed.text, new RegExp(text.slice(3)));
  await change(made.id, { tokens_per_minute: 0, expires_in: 0, models: [] });
  const now = await find(made.id);
  assert.deepEqual(
    [now.name, now.requests_per_minute, now.tokens_per_minute, now.expires, now.models],
    ['after', 100, undefined, undefined, undefined],
  );
  assert.equal((await call(`${router.url}/v0/whoami`, { key: text })).json.name, 'after');
});

test('raised and lowered rates apply from the next request on', async () => {
  const made = await make({ name: 'rate', requests_per_minute: 2 });
  assert.deepEqual(
    [(await ask(made.key)).status, (await ask(made.key)).status, (await ask(made.key)).status],
    [200, 200, 429],
  );
  await change(made.id, { requests_per_minute: 0 });
  for (let i = 0; i < 5; i++) assert.equal((await ask(made.key)).status, 200);
  await change(made.id, { requests_per_minute: 1 });
  const got = [];
  for (let i = 0; i < 4; i++) got.push((await ask(made.key)).status);
  assert.ok(got.filter((s) => s === 200).length <= 1 && got.includes(429), `${got}`);
});

test('an expiry is set and removed: the key and its sessions follow', async () => {
  const made = await make({ name: 'end', role: 'admin' });
  const cookie = (await call(`${router.url}/v0/session`, { body: { key: made.key } })).headers
    .get('set-cookie')
    .split(';')[0];
  const signedIn = async () => (await call(`${router.url}/v0/whoami`, { headers: { cookie } })).json.signed_in;
  assert.equal(await signedIn(), true);
  await change(made.id, { expires_in: 1 });
  await until('it has expired', async () => (await ask(made.key)).status === 401, 5000);
  assert.equal(await signedIn(), false);
  await change(made.id, { expires_in: 0 });
  assert.equal((await ask(made.key)).status, 200, 'an expired key can be prolonged');
});

test('a key for some models: other models are as if they did not exist', async () => {
  const made = await make({ name: 'narrow', models: ['ONE'] });
  const list = async () => (await call(`${router.url}/v1/models`, { key: made.key })).json.data.map((m) => m.id).sort();
  assert.equal((await ask(made.key, 'one')).status, 200);
  for (const at of ['/v1/models/two', '/v0/explain?model=two'])
    assert.equal((await call(`${router.url}${at}`, { key: made.key })).status, 404, at);
  const refused = await ask(made.key, 'two'),
    unknown = await ask(made.key, 'nobody');
  assert.deepEqual([refused.status, unknown.status], [404, 404]);
  assert.equal(refused.text.replaceAll('two', 'nobody'), unknown.text, 'word for word');
  assert.deepEqual(await list(), ['one']);
  await change(made.id, { models: ['one', 'two'] });
  assert.deepEqual([(await ask(made.key, 'two')).status, await list()], [200, ['one', 'two']]);
  assert.equal(
    (await call(`${router.url}/v0/usage?key=${made.id}`, { key: admin })).json.usage.some((u) => u.model === 'nobody'),
    false,
  );
});

test('a property that cannot be changed is refused, and nothing changes', async () => {
  const made = await make({ name: 'firm', requests_per_minute: 5 });
  const before = await find(made.id);
  for (const [body, message] of [
    [{}, /say what to change/],
    [{ role: 'admin' }, /"role" of a key cannot be changed/],
    [{ key: 'lr-mine' }, /"key" is not known here/],
    [{ name: 'a\u001b[2J' }, /"name".*control characters/],
    [{ name: 'x'.repeat(64) }, /"name"/],
    [{ requests_per_minute: -1 }, /"requests_per_minute"/],
    [{ expires_in: 'soon' }, /"expires_in"/],
    [{ models: 'one' }, /"models" must be an array/],
    [{ models: [7] }, /"models"/],
    [{ models: ['../x'] }, /"models"/],
    [{ models: ['a b'] }, /"models"/],
    [{ models: Array(20).fill('x'.repeat(60)) }, /"models" may have 1023 bytes/],
    [{ name: 'good', tokens_per_minute: 1.5 }, /"tokens_per_minute"/],
  ]) {
    const answer = await change(made.id, body);
    assert.equal(answer.status, 400, JSON.stringify(body));
    assert.match(answer.json.error.message, message);
  }
  assert.deepEqual(await find(made.id), before);
  assert.equal((await change('key-nobody', { name: 'x' })).status, 404);
  assert.equal((await change(made.id, { name: 'x' }, made.key)).status, 403, 'not by itself');
  await call(`${router.url}/v0/keys/${made.id}`, { method: 'DELETE', key: admin });
  const over = await change(made.id, { expires_in: 0 });
  assert.equal(over.status, 409);
  assert.match(over.json.error.message, /was revoked for good: make a new one/);
});

test('the audit log records who changed which property; a restart keeps everything', async () => {
  const made = await make({ name: 'kept' });
  await change(made.id, { name: 'kept 2', requests_per_minute: 9, models: ['one'] });
  const row = await until('it is in the log', async () =>
    (await call(`${router.url}/v0/audit`, { key: admin })).json.audit.find(
      (a) => a.action === 'key.change' && a.target === made.id,
    ),
  );
  assert.match(row.actor, /^key-/);
  assert.equal(row.detail, 'name="kept 2" requests_per_minute=9 models=one');
  const before = await find(made.id);
  await router.stop('SIGKILL');
  router = await startRouter({ args: ['--require-key', '--allow-cpu-nodes'], dir: router.dir });
  left.push(router);
  assert.deepEqual({ ...(await find(made.id)), last_used: undefined }, { ...before, last_used: undefined });
});

test('llm-router keys set changes the named properties and prints the key', async () => {
  const env = { LLM_ROUTER_URL: router.url, LLM_ROUTER_KEY: admin };
  const made = await make({ name: 'cli' });
  const { stdout } = await cli(
    ['keys', 'set', made.id, '--requests-per-minute', '30', '--models', 'one,two', '--expires', '2h'],
    env,
  );
  assert.match(stdout, new RegExp(`^${made.id} +api +good +20\\S+Z +cli  30 requests/min  models one,two\n$`));
  assert.match(
    (await cli(['keys', 'set', made.id, '--models', 'all', '--expires', '0', '--name', 'new'], env)).stdout,
    /good +never +new {2}30 requests\/min\n$/,
  );
  assert.match((await cli(['keys'], env)).stdout, new RegExp(`${made.id} +api +good +never +new  30 requests/min\n`));
  for (const [args, message] of [
    [['keys', 'set', made.id], /say what to change: --name/],
    [['keys', 'set', made.id, '--models', ''], /--models is empty: name at least one, or "all" for no limit/],
    [['keys', 'set', made.id, '--addresses', ' , '], /--addresses is empty: name at least one, or "any"/],
    [['keys', 'create', '--models', ''], /--models is empty/],
    [['keys', 'set', made.id, '--role', 'admin'], /role of a key cannot be changed/],
    [['keys', 'set'], /keys takes: create, list, show KEY, set KEY/],
  ]) {
    const error = await cli(args, env).then(
      () => assert.fail(`${BIN} ${args} worked`),
      (e) => e,
    );
    assert.equal(error.code, 2, error.stderr);
    assert.match(error.stderr, message);
  }
  await assert.rejects(cli(['keys', 'set', 'no/such key', '--name', 'x'], env), /there is no|not offered/);
  // Less than a second is not for ever.
  const brief = (await cli(['keys', 'create', '--expires', '200ms'], env)).stdout.trim();
  await until('it ends', async () => (await ask(brief)).status === 401, 5000);
});
