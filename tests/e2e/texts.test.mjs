// Prompts and answers in the request log: only for keys with keep_texts, visible to their holders, bounded, readable by
// admins, and gone when the switch is turned off.  On SQLite, and on PostgreSQL with two routers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startPostgres } from '../support/postgres.mjs';
import { startBrowser } from './browser.mjs';
import { call, makeEcho, online, register, say, startNode, startRouter, stream, until } from './support.mjs';

const left = [];
const routers = {};
let database, browser;

before(async () => {
  database = startPostgres();
  const args = ['--allow-cpu-nodes', '--require-key', '--price', 'echo=1000/2000', '--currency', 'EUR'];
  routers.SQLite = await startRouter({ args });
  routers.PostgreSQL = await startRouter({ args: [...args, '--database', database.url] });
  routers.second = await startRouter({ args: [...args, '--database', database.url] });
  left.push(...Object.values(routers));
  routers.second.adminKey ??= routers.PostgreSQL.adminKey;
  for (const name of ['SQLite', 'PostgreSQL']) {
    left.push(await startNode(routers[name], { args: ['--model', makeEcho('echo')] }));
    await until('the node is there', async () => (await online(routers[name])) === 1);
    await register(routers[name], 'echo');
  }
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  database.stop();
});

const admin = async (r, path_, options = {}) => {
  const answer = await call(`${r.url}${path_}`, { key: r.adminKey, ...options });
  assert.ok(answer.status < 300, answer.text);
  return answer.json;
};
const make = (r, body) => admin(r, '/v0/keys', { body });
const patch = (r, key, body) => admin(r, `/v0/keys/${key.id}`, { method: 'PATCH', body });
let asked = 0;
const ask = async (r, key, text, status = 200) => {
  const id = `texts-${asked++}`;
  const body = { model: 'echo', max_tokens: 60, ...say(text) };
  const answer = await call(`${r.url}/v1/chat/completions`, { key: key.key, body, headers: { 'x-request-id': id } });
  assert.equal(answer.status, status, answer.text);
  return { id, text: answer.json.choices?.[0].message.content };
};
const look = (r, id) => admin(r, `/v0/requests/${id}`);

for (const name of ['SQLite', 'PostgreSQL'])
  test(`${name}: texts are kept for the keys that say so and no others, and leave when the switch is turned off`, async () => {
    const r = routers[name];
    const plain = await make(r, { name: 'plain' });
    const kept = await make(r, { name: 'kept', keep_texts: true });
    assert.deepEqual([plain.keep_texts, kept.keep_texts], [false, true]);
    const a = await look(r, (await ask(r, plain, 'swordfish')).id);
    assert.equal(a.texts, 'off');
    assert.doesNotMatch(JSON.stringify(a), /swordfish/);

    const answer = await ask(r, kept, 'zebra <b>&amp;</b> 日本');
    const b = await look(r, answer.id);
    assert.equal(b.texts, 'kept');
    assert.match(b.prompt.begin, /zebra <b>&amp;<\/b> 日本/);
    assert.deepEqual([b.prompt.left_out, b.prompt.end], [0, '']);
    assert.deepEqual(b.answers, [{ parts: [{ kind: 'content', text: answer.text }], left_out: 0 }]);
    // A streamed answer is the same; the list and the log of the program have no text.
    await stream(r.url, { model: 'echo', max_tokens: 60, ...say('okapi one two') }, { key: kept.key });
    const list = await admin(r, '/v0/requests');
    const streamed = await look(r, list.requests[0].id);
    assert.match(streamed.answers[0].parts[0].text, /okapi/);
    assert.doesNotMatch(JSON.stringify(list), /okapi|zebra/);
    assert.doesNotMatch(r.log, /okapi|zebra/);

    await patch(r, kept, { keep_texts: false });
    const off = await look(r, answer.id);
    assert.equal(off.texts, 'removed');
    assert.doesNotMatch(JSON.stringify(off), /zebra/);
    assert.equal((await look(r, (await ask(r, kept, 'lemur')).id)).texts, 'off');
    const { audit } = await admin(r, `/v0/audit?action=key.change`);
    const line = audit.find((l) => l.target === kept.id);
    assert.deepEqual([line.before, line.after], [{ keep_texts: true }, { keep_texts: false }]);
  });

test('a key keeps its switch over another router, and turning it off there deletes the texts here', async () => {
  const { PostgreSQL: r, second } = routers;
  const key = await make(r, { name: 'shared', keep_texts: true });
  const { id } = await ask(r, key, 'gecko');
  assert.equal((await look(r, id)).texts, 'kept');
  await until('the other router knows the key', async () =>
    (await admin(second, '/v0/keys')).keys.some((k) => k.id === key.id && k.keep_texts),
  );
  await patch(second, key, { keep_texts: false });
  await until('the texts have left', async () => (await look(r, id)).texts === 'removed');
});

test('only admins read texts; the holder of the key sees that they are kept, and the cost of the month', async () => {
  const r = routers.SQLite;
  const key = await make(r, { name: 'Hanako', keep_texts: true });
  const viewer = await make(r, { name: 'watcher', role: 'viewer' });
  const { id } = await ask(r, key, 'panda');
  const seen = await call(`${r.url}/v0/requests/${id}`, { key: viewer.key });
  assert.equal(seen.json.texts, 'hidden');
  assert.doesNotMatch(seen.text, /panda/);
  assert.equal((await call(`${r.url}/v0/requests/${id}`, { key: key.key })).status, 403);
  const self = async () => (await call(`${r.url}/v0/self`, { key: key.key })).json;
  await until('the usage is counted', async () => (await self()).usage.requests === 1);
  const mine = await self();
  assert.equal(mine.keep_texts, true);
  assert.equal(mine.currency, 'EUR');
  const usage = await admin(r, `/v0/usage?by=key&since=0&key=${key.id}`);
  assert.ok(mine.usage.cost > 0);
  assert.equal(mine.usage.cost, usage.usage[0].cost);
  assert.equal(mine.usage.models[0].cost, mine.usage.cost);
});

test('a prompt that is too long for the model is kept with its beginning and its end, and says what was left out; revoking the key deletes', async () => {
  const r = routers.SQLite;
  const key = await make(r, { name: 'long', keep_texts: true });
  const { id } = await ask(r, key, `first ${'é'.repeat(100000)} last`, 400);
  const { prompt } = await look(r, id);
  assert.match(prompt.begin, /first é+$/);
  assert.match(prompt.end, /^é+ last/);
  const bytes = Buffer.byteLength(prompt.begin) + Buffer.byteLength(prompt.end);
  assert.ok(bytes <= 65536 && bytes > 65500, String(bytes));
  assert.ok(prompt.left_out >= 200000 - 65536);
  await admin(r, `/v0/keys/${key.id}`, { method: 'DELETE' });
  assert.equal((await look(r, id)).texts, 'removed');
});

test('a wrong switch is a 400 and changes nothing', async () => {
  const r = routers.SQLite;
  const key = await make(r, { name: 'strict' });
  for (const [method, url, body] of [
    ['PATCH', `/v0/keys/${key.id}`, { keep_texts: 1 }],
    ['POST', '/v0/keys', { role: 'node', keep_texts: true }],
    ['POST', '/v0/keys', { role: 'metrics', keep_texts: true }],
  ]) {
    const answer = await call(`${r.url}${url}`, { key: r.adminKey, method, body });
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.json.error.message, /keep_texts/);
  }
  assert.equal((await admin(r, '/v0/keys')).keys.find((k) => k.id === key.id).keep_texts, false);
});

test('in the browser: switched on in the form, shown as a badge and to the holder; the inspector shows the texts as text', async () => {
  const r = routers.SQLite;
  const key = await make(r, { name: 'Browser' });
  const off = await ask(r, key, 'quiet');
  const page = await browser.open(`${r.url}/#/requests/${off.id}`);
  const signIn = async (secret) => {
    await page.locator('input').first().fill(secret);
    await page.locator('button[type=submit]').click();
  };
  page.watch.allow(401);
  await signIn(r.adminKey);
  await page.getByText('are not kept. To keep those of later requests').waitFor();
  await page.getByRole('link', { name: 'Open the Keys page' }).click();
  await page.getByRole('button', { name: 'Edit Browser' }).click();
  await page.getByLabel('Keep prompts and answers').check();
  await page.getByRole('button', { name: 'Save' }).click();
  const row = page.getByRole('row', { name: /Browser/ });
  await row.getByText('Prompts and answers of this key are kept').waitFor();
  const on = await ask(r, key, '<img src=x onerror=alert(1)>');
  await page.visit(`#/requests/${on.id}`);
  await page.getByRole('region', { name: 'Prompt', exact: true }).getByText('<img src=x onerror=alert(1)>').waitFor();
  await page.getByRole('region', { name: 'Answer' }).getByText('onerror').waitFor();
  assert.equal(await page.locator('main img').count(), 0);
  await page.look('request-texts');
  page.watch.assertClean();
  await page.context().close();
  const own = await browser.open(`${r.url}/#/self`);
  own.watch.allow(401);
  await own.locator('input').first().fill(key.key);
  await own.locator('button[type=submit]').click();
  await own.getByText('Prompts and answers of this key are kept').waitFor();
  await own.getByText('EUR').waitFor();
  own.watch.assertClean();
  await own.context().close();
});
