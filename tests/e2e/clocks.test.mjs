// Clocks that are wrong or jump, of one router and of one of two: nothing is judged by them that a right clock would
// judge otherwise, and nothing of it stays once the clock is right again.
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { makeClock } from '../support/clock.mjs';
import { startPostgres } from '../support/postgres.mjs';
import { addNode, idOf, keep, makeGated } from './fleet.mjs';
import { call, LONG, makeEcho, online, register, sleep, startRouter, tempDir, until } from './support.mjs';

const TEXT = 'some words';

const answers = (router, id) => call(`${router.url}/v1/responses/${id}`);

async function inBackground(router, model) {
  const { json, text } = await call(`${router.url}/v1/responses`, {
    body: { model, input: TEXT, background: true },
  });
  assert.equal(json?.status, 'queued', text);
  await until('it runs', async () => (await answers(router, json.id)).json.status === 'in_progress');
  return json.id;
}

// A running response whose router ended long ago, of a release without the counter: whichever router looks fails it,
// which shows that it has looked. `ask` runs a statement.
let lost = 0;
async function looked(ask) {
  const id = `resp_lost${++lost}`;
  ask(
    'INSERT INTO responses (id, key_id, previous, status, running, created_ms, used_ms, bytes) ' +
      `VALUES ('${id}', '', '', '', 1, 1, 1, 0)`,
  );
  const left = () => ask(`SELECT COUNT(*) FROM responses WHERE id = '${id}' AND running = 1`);
  await until('a lost one is failed', () => Number(left()) === 0);
}

async function completes(router, id) {
  const answer = await until('it has ended', async () => {
    const { json } = await answers(router, id);
    return !['queued', 'in_progress'].includes(json.status) && json;
  });
  assert.deepEqual([answer.status, answer.output?.[0]?.content[0].text], ['completed', TEXT], JSON.stringify(answer));
}

test('two routers, and the clock of one is wrong: the background answers of both run to their end', async (t) => {
  const database = startPostgres();
  t.after(() => database.stop());
  const args = ['--database', database.url, '--allow-cpu-nodes'];
  const clock = makeClock('-120');
  const right = keep(await startRouter({ args }));
  const wrong = keep(await startRouter({ args, env: clock.env }));
  const slow = makeGated('slow');
  await addNode(right, slow.model, { name: 'n' });
  for (const router of [right, wrong])
    await until('the node is online', async () => (await online(router)) === 1, 20000);
  await register(right, idOf(slow.model));
  const ids = [];
  for (const router of [right, wrong]) ids.push([router, await inBackground(router, 'slow')]);
  // While the other router stands still, only one can have looked.
  const looks = async (other) => {
    process.kill(other.pid, 'SIGSTOP');
    await looked(database.ask).finally(() => process.kill(other.pid, 'SIGCONT'));
  };
  await looks(wrong);
  for (const at of LONG ? ['+45', '+120', '-45'] : ['+120']) {
    clock.set(at);
    await looks(right);
  }
  // Longer than three signs of life are apart.
  if (LONG) await sleep(70000);
  slow.open(1000);
  for (const [router, id] of ids) await completes(router, id);
});

test("a router's clock jumps: its background answers run to their end", async () => {
  const dir = tempDir('router');
  const clock = makeClock();
  const router = keep(await startRouter({ dir, args: ['--allow-cpu-nodes'], env: clock.env }));
  const slow = makeGated('slow');
  await addNode(router, slow.model, { name: 'n' });
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'slow');
  const file = new DatabaseSync(path.join(dir, 'router.db'), { timeout: 5000 });
  const ask = (statement) => Object.values(file.prepare(statement).all()[0] ?? {})[0];
  const id = await inBackground(router, 'slow');
  for (const at of LONG ? ['-120', '+120', '+0', '+120'] : ['+120']) {
    clock.set(at);
    await looked(ask);
  }
  file.close();
  slow.open(1000);
  await completes(router, id);
});

// A stored answer, and an old one that the next sweep removes, which shows that it has looked. `ask` runs a statement.
async function storeOne(router, model) {
  const { json, text } = await call(`${router.url}/v1/responses`, { body: { model, input: TEXT } });
  assert.equal(json?.status, 'completed', text);
  return json.id;
}
async function sweeps(ask, usedMs) {
  const id = `resp_old${++lost}`;
  ask(
    'INSERT INTO responses (id, key_id, previous, status, running, created_ms, used_ms, bytes) ' +
      `VALUES ('${id}', '', '', '', 0, 1, ${usedMs}, 0)`,
  );
  await until('an old one is removed', () => Number(ask(`SELECT COUNT(*) FROM responses WHERE id = '${id}'`)) === 0);
}

test('two routers, and the clock of one is 40 days ahead: stored answers, keys, sessions and usage of both are the same to both', async (t) => {
  const database = startPostgres();
  t.after(() => database.stop());
  const args = ['--database', database.url, '--allow-cpu-nodes', '--keep-responses', '30d', '--keep-usage', '30d'];
  const clock = makeClock('+40d');
  const right = keep(await startRouter({ args }));
  const wrong = keep(await startRouter({ args, env: clock.env }));
  await addNode(right, makeEcho('swift'), { name: 'n' });
  for (const router of [right, wrong])
    await until('the node is online', async () => (await online(router)) === 1, 20000);
  await register(right, 'swift');
  await until('both know the model', async () => (await call(`${wrong.url}/v1/models`)).json.data.length === 1);

  const ids = [await storeOne(right, 'swift'), await storeOne(wrong, 'swift')];
  process.kill(right.pid, 'SIGSTOP');
  await sweeps(database.ask, 1).finally(() => process.kill(right.pid, 'SIGCONT'));
  for (const router of [right, wrong])
    for (const id of ids) assert.equal((await answers(router, id)).json.status, 'completed', `${id} at ${router.url}`);

  for (const [maker, other] of [
    [right, wrong],
    [wrong, right],
  ]) {
    const key = (await call(`${maker.url}/v0/keys`, { body: { name: 'short', expires_in: 3600, role: 'admin' } })).json;
    assert.ok(Math.abs(key.expires - Date.now() / 1000 - 3600) < 60, `it ends at ${key.expires}`);
    await until('the key holds', async () => (await call(`${other.url}/v0/whoami`, { key: key.key })).status === 200);
    const signedIn = await call(`${maker.url}/v0/session`, { body: { key: key.key } });
    const headers = { cookie: signedIn.headers.get('set-cookie').split(';')[0] };
    await until(
      'the session holds',
      async () => (await call(`${other.url}/v0/whoami`, { headers })).json?.signed_in === true,
    );
  }
  const now = Math.floor(Date.now() / 1000);
  const usage = async (router) =>
    (await call(`${router.url}/v0/usage?since=${now - 3600}&until=${now + 3600}&step=100000`)).json.usage.reduce(
      (n, u) => n + u.requests,
      0,
    );
  for (const router of [right, wrong]) await until('both requests are of now', async () => (await usage(router)) === 2);
});

test("a router's clock jumps 40 days ahead and comes back: no stored answer is removed meanwhile", async () => {
  const dir = tempDir('router');
  const clock = makeClock();
  const args = ['--allow-cpu-nodes', '--keep-responses', '30d'];
  const router = keep(await startRouter({ dir, args, env: clock.env }));
  await addNode(router, makeEcho('swift'), { name: 'n' });
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'swift');
  const file = new DatabaseSync(path.join(dir, 'router.db'), { timeout: 5000 });
  const ask = (statement) => Object.values(file.prepare(statement).all()[0] ?? {})[0];
  await sweeps(ask, 1); // by its age
  const id = await storeOne(router, 'swift');
  clock.set('+40d');
  await until('it says so', () => /clock\.jumped/.test(router.log));
  await sweeps(ask, 0); // of a key that was told to forget
  assert.equal((await answers(router, id)).status, 404, 'by this clock it is too old');
  clock.set('+0');
  await sweeps(ask, 0);
  file.close();
  assert.equal((await answers(router, id)).json.status, 'completed');
});

const differing = async (router) =>
  (await call(`${router.url}/v0/alerts`)).json.alerts.filter((a) => a.kind === 'clock_differs' && a.open);

const saysOnce = (router, pattern) =>
  until(`an alert says ${pattern}`, async () => (await differing(router)).some((a) => pattern.test(a.message)));

test("a node's clock is a minute ahead: an alert says by how much, and ends when the clock is right", async () => {
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
  const clock = makeClock('+60');
  const slow = makeGated('ahead');
  await addNode(router, slow.model, { name: 'early', env: clock.env });
  await addNode(router, slow.model, { name: 'right' });
  await saysOnce(router, /the clock of node early is (59|60)\.\d s ahead of this router's; 5 s are allowed/);
  const [alert] = await differing(router);
  assert.deepEqual(
    alert.nodes.map((n) => n.name),
    ['early'],
  );
  assert.match(alert.advice, /NTP/);
  clock.set('+0');
  await until('the alert ends', async () => (await differing(router)).length === 0);
});

test('two routers and their database: each is told how far its clock is from the others', async (t) => {
  const database = startPostgres();
  t.after(() => database.stop());
  const args = ['--database', database.url];
  const clock = makeClock('-30');
  const right = keep(await startRouter({ args }));
  const late = keep(await startRouter({ args, env: clock.env }));
  await saysOnce(late, /this router's clock is (29|30)\.\d s behind that of the database; 5 s are allowed/);
  await saysOnce(late, /this router's clock is (29|30)\.\d s behind that of the router http/);
  await saysOnce(right, /this router's clock is (29|30)\.\d s ahead of that of the router http/);
  assert.equal((await differing(right)).length, 1, 'its own clock and that of the database agree');
  clock.set('+0');
  for (const router of [right, late]) await until('the alert ends', async () => (await differing(router)).length === 0);
});
