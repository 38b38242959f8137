// Clocks that are wrong or jump, of one router and of one of two: nothing is judged by them that a right clock would
// judge otherwise, and nothing of it stays once the clock is right again.
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { makeClock } from '../support/clock.mjs';
import { startPostgres } from '../support/postgres.mjs';
import { addNode, idOf, keep, makeGated } from './fleet.mjs';
import { call, LONG, online, register, sleep, startRouter, tempDir, until } from './support.mjs';

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
