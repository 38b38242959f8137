// One PostgreSQL server, two routers, three nodes: both routers have the same state.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startPostgres } from '../support/postgres.mjs';
import { DEBUG_BIN } from '../support/program.mjs';
import { metric } from './fleet.mjs';
import {
  call,
  makeEcho,
  nodes,
  online,
  register,
  say,
  startNode,
  startRouter,
  stopwatch,
  stream,
  tempDir,
  until,
} from './support.mjs';

const TIMEOUT_MS = 1500;
const left = [];
let database, first, second, model;

before(async () => {
  database = startPostgres();
  model = makeEcho('shared');
  const args = ['--database', database.url, '--allow-cpu-nodes', '--database-timeout', `${TIMEOUT_MS}ms`];
  first = await startRouter({ args });
  // Its sanitizer sees what is used after it was freed, and each second it looks at whose client hears nothing.
  second = await startRouter({ args: [...args, '--keep-alive', '500ms'], bin: DEBUG_BIN });
  left.push(first, second);
  for (let i = 0; i < 3; i++)
    left.push(await startNode(i < 2 ? first : second, { name: `n${i}`, args: ['--model', model] }));
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  database.stop();
});

test('nodes that joined one router send heartbeats to both', async () => {
  await until('three at the first', async () => (await online(first)) === 3, 20000);
  await until('three at the second', async () => (await online(second)) === 3, 20000);
});

test('a model registered at one router is served by the other within two seconds', async () => {
  await register(first, 'shared');
  await until(
    'it serves',
    async () =>
      (await call(`${second.url}/v1/chat/completions`, { body: { model: 'shared', ...say('hello') } })).status === 200,
    2000,
  );
  const key = (await call(`${second.url}/v0/keys`, { body: { name: 'k' } })).json;
  await until(
    'the key is known',
    async () => (await call(`${first.url}/v0/whoami`, { key: key.key })).status === 200,
    2000,
  );
  await call(`${first.url}/v0/models/shared`, { method: 'PATCH', body: { aliases: ['claude-shared'] } });
  await until(
    'the alias is known',
    async () => (await call(`${second.url}/v1/models/claude-shared`)).json.id === 'shared',
    2000,
  );
  // A change spreads at the database's word, well before anybody would look by himself.
  for (const name of ['a', 'b', 'c']) {
    await call(`${first.url}/v0/keys/${key.id}`, { method: 'PATCH', body: { name, requests_per_minute: 3 } });
    await until(
      'the change is known',
      async () => (await call(`${second.url}/v0/whoami`, { key: key.key })).json.name === name,
      500,
    );
  }
  assert.equal((await call(`${second.url}/v0/keys`)).json.keys.find((k) => k.id === key.id).requests_per_minute, 3);
  await call(`${first.url}/v0/keys/${key.id}`, { method: 'DELETE' });
  await until(
    'the key is revoked',
    async () => (await call(`${second.url}/v0/whoami`, { key: key.key })).status === 401,
    2000,
  );
});

test('the usage of both routers is in one database', async () => {
  for (const r of [first, second]) assert.equal((await stream(r.url, { model: 'shared', ...say('x') })).status, 200);
  const sum = async (r) => (await call(`${r.url}/v0/usage`)).json.usage.reduce((n, u) => n + u.requests, 0);
  await until('both show all three', async () => (await sum(first)) >= 3 && (await sum(first)) === (await sum(second)));
  // Slots begin where a day begins for whoever looks; a key's own; pages of the log.
  const { usage } = (await call(`${first.url}/v0/usage?step=86400&zone=32400`)).json;
  assert.ok(usage.length >= 1 && usage.every((u) => (u.time + 32400) % 86400 === 0));
  assert.deepEqual((await call(`${first.url}/v0/usage?key=key-of-nobody`)).json.usage, []);
  const page = (await call(`${second.url}/v0/audit?limit=1&offset=1`)).json;
  assert.deepEqual([page.audit.length, page.more], [1, true]);
});

const respond = (r, more) => call(`${r.url}/v1/responses`, { body: { model: 'shared', input: 'x', ...more } });

test('a response that one router stores is continued, listed and deleted at the other', async () => {
  let last = '';
  const items = [];
  for (const r of [first, second, first, second]) {
    const { json } = await respond(r, last ? { previous_response_id: last } : {});
    assert.deepEqual([json.store, json.previous_response_id], [true, last || null], JSON.stringify(json));
    last = json.id;
    items.push({ role: 'user', content: 'x' });
    const whole = await respond(first, { input: items, store: false });
    assert.equal(json.usage.input_tokens, whole.json.usage.input_tokens, 'the whole conversation');
    items.push(...json.output);
  }
  const references = items.map((item) => (item.id ? { type: 'item_reference', id: item.id } : item));
  const next = [{ role: 'user', content: 'y' }];
  const [named, whole] = await Promise.all([
    respond(first, { input: [...references, ...next] }),
    respond(second, { input: [...items, ...next], store: false }),
  ]);
  assert.equal(named.json.usage.input_tokens, whole.json.usage.input_tokens);
  const at = `/v1/responses/${last}`;
  assert.equal((await call(`${first.url}${at}`)).json.id, last);
  assert.equal((await call(`${first.url}${at}/input_items`)).json.data.length, 1);
  assert.equal((await call(`${first.url}${at}`, { method: 'DELETE' })).status, 200);
  assert.equal((await call(`${second.url}${at}`)).status, 404);
  const { json } = await respond(first, { background: true });
  assert.equal(json.status, 'queued');
  await until(
    'the other router shows that it has ended',
    async () => (await call(`${second.url}/v1/responses/${json.id}`)).json.status === 'completed',
    20000,
  );
});

test("a key's rate is shared: both routers together admit as many requests as the key allows", async () => {
  const key = (await call(`${first.url}/v0/keys`, { body: { name: 'slow', requests_per_minute: 10 } })).json.key;
  await until('the key is known', async () => (await call(`${second.url}/v0/whoami`, { key })).status === 200, 2000);
  const ask = async (r) =>
    (await call(`${r.url}/v1/chat/completions`, { body: { model: 'shared', ...say('x') }, key })).status;
  const got = [];
  for (let i = 0; i < 10; i++) got.push(await ask(first), await ask(second));
  const passed = got.filter((s) => s === 200).length;
  assert.ok(passed >= 8 && passed <= 11, `${passed} passed: ${got}`);
  assert.equal(got.filter((s) => s === 429).length, 20 - passed);
});

test('a node that is drained or removed at one router is drained or removed at the other', async () => {
  const [{ id }] = (await nodes(first)).filter((n) => n.name === 'n2');
  const seen = async () => (await nodes(second)).find((n) => n.id === id);
  await call(`${first.url}/v0/nodes/${id}/drain`, { body: {} });
  await until('it is drained there', async () => (await seen())?.drained, 4000);
  await call(`${first.url}/v0/nodes/${id}/undrain`, { body: {} });
  await until('it serves there', async () => !(await seen()).drained, 4000);
  const spare = await startNode(first, { name: 'spare' });
  left.push(spare);
  const mine = await until(
    'it is known there',
    async () => (await nodes(second)).find((n) => n.name === 'spare' && n.online),
    5000,
  );
  // Its join is written there before this key, and so before the removal.
  assert.equal((await call(`${second.url}/v0/keys`, { body: { name: 'after the join' } })).status, 201);
  await spare.stop('SIGKILL');
  assert.equal((await call(`${first.url}/v0/nodes/${mine.id}`, { method: 'DELETE' })).status, 200);
  await until('it is gone there', async () => !(await nodes(second)).some((n) => n.name === 'spare'), 4000);
});

test('the database goes away and comes back: both serve all the while, and no usage is lost', async () => {
  const key = (await call(`${first.url}/v0/keys`, { body: { name: 'through' } })).json;
  await until(
    'the key is known',
    async () => (await call(`${second.url}/v0/whoami`, { key: key.key })).status === 200,
    2000,
  );
  database.stop();
  for (const r of [first, second, first, second])
    assert.equal((await stream(r.url, { model: 'shared', ...say('x') }, { key: key.key })).text, 'x');
  for (const r of [first, second]) {
    const { status, json } = await respond(r);
    assert.deepEqual([status, json.store], [200, false], 'an answer that cannot be stored says so');
  }
  assert.equal((await respond(first, { previous_response_id: 'resp_1' })).status, 503);
  for (const r of [first, second]) {
    const { status, headers, json } = await respond(r, { background: true });
    assert.equal(status, 503, 'a background request cannot begin');
    assert.ok(Number(headers.get('retry-after')) >= 1);
    assert.match(json.error.message, /a background request needs the database/);
  }
  const refused = await call(`${first.url}/v0/keys`, { body: { name: 'not now' } });
  assert.equal(refused.status, 503);
  assert.doesNotMatch(refused.json.error.message, /[\n\t]/);
  assert.match(refused.json.error.message, /PostgreSQL/);
  const [spared] = await nodes(first);
  assert.equal((await call(`${first.url}/v0/nodes/${spared.id}/drain`, { body: {} })).status, 503);
  assert.equal((await nodes(first)).find((n) => n.id === spared.id).drained, false, 'it stays in service');
  database.again();
  const used = async (r) =>
    (await call(`${r.url}/v0/usage`)).json.usage?.filter((u) => u.key === key.id).reduce((n, u) => n + u.requests, 0);
  await until('all four are counted', async () => (await used(first)) === 4 && (await used(second)) === 4);
  await until('answers are stored again', async () => (await respond(first)).json.store, 20000);
  const fresh = (await call(`${second.url}/v0/keys`, { body: { name: 'again' } })).json;
  await until(
    'words arrive again',
    async () => (await call(`${first.url}/v0/whoami`, { key: fresh.key })).status === 200,
    2000,
  );
});

test('the database freezes: both serve, an answer that waits to be stored outlives its request, a change gets 503 in time that names the setting, and rows that waited in memory are written afterwards', async () => {
  const key = (await call(`${first.url}/v0/keys`, { body: { name: 'frozen' } })).json;
  await until(
    'the key is known',
    async () => (await call(`${second.url}/v0/whoami`, { key: key.key })).status === 200,
    2000,
  );
  database.freeze();
  try {
    const watch = stopwatch();
    // Clients leave while the database has what their calls wait for: an earlier answer, or room for theirs.
    const leaves = (more) =>
      assert.rejects(
        fetch(`${second.url}/v1/responses`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'shared', input: 'x', ...more }),
          signal: AbortSignal.timeout(300),
        }).then((answer) => answer.text()),
        { name: 'TimeoutError' },
      );
    const left = [{}, { stream: true }, { previous_response_id: 'resp_1' }].map(leaves);
    const refused = Promise.all(
      [first, second, first, second].map((r) => call(`${r.url}/v0/keys`, { body: { name: 'not now' } })),
    );
    for (const r of [first, second, first])
      assert.equal((await stream(r.url, { model: 'shared', ...say('x') }, { key: key.key })).text, 'x');
    assert.equal((await respond(second)).json.store, false);
    await Promise.all(left);
    for (const answer of await refused) {
      assert.equal(answer.status, 503);
      assert.ok(Number(answer.headers.get('retry-after')) >= 1);
      assert.match(answer.json.error.message, /PostgreSQL "postgres" at .*database-timeout/);
    }
    assert.ok(watch.ms < 3 * TIMEOUT_MS + 2000, `${watch.real} ms`);
    const alert = await until('an alert says so', async () =>
      (await call(`${first.url}/v0/alerts`)).json.alerts.find((a) => a.kind === 'database_failed' && a.open),
    );
    assert.match(alert.message, /database-timeout/);
    // A third one can't even begin, and says why.
    const late = stopwatch();
    await assert.rejects(
      startRouter({ args: ['--database', database.url, '--database-timeout', '500ms'] }),
      /did not accept a connection/,
    );
    assert.ok(late.ms < 10000, `${late.real} ms`);
  } finally {
    database.thaw();
  }
  const used = async (r) =>
    (await call(`${r.url}/v0/usage`)).json.usage?.filter((u) => u.key === key.id).reduce((n, u) => n + u.requests, 0);
  await until('all three are counted', async () => (await used(first)) === 3 && (await used(second)) === 3);
  assert.equal((await call(`${second.url}/v0/keys`, { body: { name: 'again' } })).status, 201);
  await until(
    'the alert is over',
    async () => !(await call(`${first.url}/v0/alerts`)).json.alerts.some((a) => a.kind === 'database_failed' && a.open),
  );
  assert.equal(await online(first), 3);
});

test('a frozen database does not keep a router from stopping, whichever calls wait for it', async () => {
  const third = await startRouter({
    args: ['--database', database.url, '--allow-cpu-nodes', '--database-timeout', '1m'],
    dir: tempDir('frozen'),
  });
  left.push(third);
  database.freeze();
  try {
    const refused = call(`${third.url}/v0/keys`, { body: { name: 'not now' } }).catch(() => undefined);
    await until('it waits', async () => (await metric(third, 'active_requests')) === 2); // this one and the other
    const watch = stopwatch();
    assert.deepEqual(await third.stop('SIGTERM'), { code: 0, signal: null });
    assert.ok(watch.ms < 8000, `${watch.real} ms`);
    await refused;
  } finally {
    database.thaw();
  }
});

test('either router dies, the other continues; a deleted model is deleted there, too', async () => {
  const begun = stream(second.url, { model: 'shared', ...say('x'.repeat(200)) });
  await first.stop('SIGKILL');
  assert.equal((await begun).text, 'x'.repeat(200));
  assert.equal((await stream(second.url, { model: 'shared', ...say('still here') })).text, 'still here');
  const again = await startRouter({ args: ['--database', database.url, '--allow-cpu-nodes'], dir: tempDir('again') });
  left.push(again);
  await until('the nodes send it heartbeats', async () => (await online(again)) === 3, 20000);
  await second.stop('SIGKILL');
  assert.equal((await stream(again.url, { model: 'shared', ...say('so am I') })).text, 'so am I');
  assert.equal((await call(`${again.url}/v0/models/shared`, { method: 'DELETE' })).status, 200);
  const third = await startRouter({ args: ['--database', database.url, '--allow-cpu-nodes'], dir: tempDir('third') });
  left.push(third);
  assert.deepEqual((await call(`${third.url}/v0/models`)).json.models, []);
});
