// The request log: the way of each request without a word of its text, in the API and in the browser.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SCHEMES, SIZES, startBrowser } from './browser.mjs';
import { makeGated } from './fleet.mjs';
import { call, LONG, makeEcho, nodes, register, say, startNode, startRouter, stream, until } from './support.mjs';

const SECRET = 'swordfish';
const left = [];
const keep = (process) => {
  left.push(process);
  return process;
};
const slow = makeGated('slow');
let router, browser, admin, key, first;

before(async () => {
  router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--require-key', '--node-timeout', '3s'] }));
  admin = router.adminKey;
  const args = ['--model', makeEcho('echo'), '--model', slow.model];
  first = keep(await startNode(router, { name: 'one', args }));
  await until('the node is there', async () => (await nodes(router)).some((n) => n.online));
  await register(router, 'echo');
  await register(router, 'slow');
  key = (await call(`${router.url}/v0/keys`, { key: admin, body: { name: 'Hanako', role: 'api' } })).json;
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
});

const list = async (query = '') => (await call(`${router.url}/v0/requests${query}`, { key: admin })).json;
const ask = (body, headers) => call(`${router.url}/v1/chat/completions`, { key: key.key, body, headers });

async function open(hash, options) {
  const page = await browser.open(`${router.url}/${hash}`, options);
  await page.locator('input').first().fill(admin);
  await page.locator('button[type=submit]').click();
  return page;
}

test('a request is in the log with key, model, node, reason, times and tokens, and without a word of its text', async () => {
  const answer = await ask({ model: 'echo', ...say(`${SECRET} one two three`) }, { 'x-request-id': 'my-request' });
  assert.equal(answer.status, 200);
  await until('its tokens are counted', async () => (await list()).requests[0]?.completion_tokens > 0);
  const { requests, capacity } = await list();
  const [row] = requests;
  assert.equal(capacity, 2000);
  assert.deepEqual(
    [row.request_id, row.key, row.key_name, row.model, row.node_name, row.status, row.phase, row.api],
    ['my-request', key.id, 'Hanako', 'echo', 'one', 200, 'done', '/v1/chat/completions'],
  );
  assert.equal(row.chosen.nodes, 1);
  assert.match(row.reason, /cost=/);
  assert.ok(row.wait_ms >= 0 && row.first_token_ms >= row.wait_ms && row.total_ms >= row.first_token_ms);
  const { json } = await call(`${router.url}/v0/requests/my-request`, { key: admin });
  assert.equal(json.id, row.id);
  const steps = json.steps.map((s) => s.step);
  assert.deepEqual(
    ['sent', 'accepted', 'first_token'].filter((s) => steps.includes(s)),
    ['sent', 'accepted', 'first_token'],
  );
  assert.ok(json.steps.every((s) => s.at_ms <= json.total_ms && s.node === 'one'));
  assert.doesNotMatch(JSON.stringify([await list(), json]), new RegExp(SECRET));
});

test('refused requests are in the log with the reason, but not with what the client wrote', async () => {
  await ask({ model: 'nothing', ...say('x') });
  const quoted = await ask({ model: 'echo', messages: [{ role: SECRET, content: 'x' }] });
  assert.match(quoted.text, new RegExp(SECRET), 'the client is told what is wrong');
  const { requests } = await list('?status=failed');
  assert.deepEqual(
    requests.map((r) => [r.status, r.model]),
    [
      [400, 'echo'],
      [404, 'nothing'],
    ],
  );
  assert.doesNotMatch(JSON.stringify(requests), new RegExp(SECRET));
  assert.match(requests[1].error, /nothing/);
});

test('filters, search and pages; a wrong filter is a 400; a key of role api may not look', async () => {
  const ids = async (query) => (await list(query)).requests.map((r) => r.id);
  assert.deepEqual(
    (await list('?q=MY-REQ')).requests.map((r) => r.request_id),
    ['my-request'],
  );
  assert.equal((await ids('?key=Hanako')).length, (await ids(`?key=${key.id}`)).length);
  assert.equal((await ids('?model=slow')).length, 0);
  assert.equal((await ids('?status=404')).length, 1);
  const all = await ids('?limit=500');
  const page = await list('?limit=2');
  assert.equal(page.more, true);
  assert.deepEqual(
    [...page.requests.map((r) => r.id), ...(await ids(`?limit=500&before=${page.requests[1].id}`))],
    all,
  );
  for (const query of ['?status=bad', '?limit=0', '?limit=x', '?before=x'])
    assert.equal((await call(`${router.url}/v0/requests${query}`, { key: admin })).status, 400, query);
  assert.equal((await call(`${router.url}/v0/requests/none`, { key: admin })).status, 404);
  for (const path of ['', `/${all[0]}`])
    assert.equal((await call(`${router.url}/v0/requests${path}`, { key: key.key })).status, 403);
});

test('in the browser: a request appears while it runs, with its phase; its node dies, and the timeline shows the failover', async () => {
  const page = await open('#/requests?model=slow');
  await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor();
  const second = keep(await startNode(router, { name: 'two', args: ['--model', slow.model] }));
  slow.open(20); // the answer stands still in its middle until its node is dead
  let tokens = 0;
  const words = Array.from({ length: 120 }, (_, i) => `w${i}`).join(' ');
  const answer = stream(
    router.url,
    { model: 'slow', max_tokens: 120, ...say(words) },
    { key: key.key, onChunk: () => tokens++ },
  );
  const row = page.getByRole('row', { name: /slow/ }).first();
  await row.getByText('decoding').waitFor();
  await until('both nodes have the model', async () =>
    (await nodes(router)).every((n) => n.models.some((m) => m.id === 'slow' && m.can_run)),
  );
  const holder = (await list('?status=running')).requests[0].node_name;
  await (holder === 'one' ? first : second).stop('SIGKILL');
  slow.open(1000);
  await answer;
  await row.getByText('200', { exact: true }).waitFor();
  await row.getByRole('cell').nth(3).click();
  await page.getByRole('heading', { level: 1, name: 'Request' }).waitFor();
  await page.getByText(`Failed over from ${holder}`).waitFor();
  await page.getByText('Answer complete', { exact: true }).waitFor();
  assert.match(await page.locator('.way').getAttribute('aria-label'), /Decode \d/);
  await page.look('request');
  page.watch.allow(401);
  page.watch.assertClean();
  await page.context().close();
});

test('every theme, size and language of the log and of one request', async () => {
  const wanted = LONG
    ? SCHEMES.flatMap((scheme) =>
        Object.keys(SIZES).flatMap((size) => ['en', 'ja'].map((lang) => ({ scheme, size, lang }))),
      )
    : [{ scheme: 'dark', size: 'phone', lang: 'ja' }];
  for (const how of wanted) {
    const page = await open('#/requests', how);
    page.watch.allow(401);
    await page.locator('tbody tr').first().waitFor();
    await page.look(`requests-${how.lang}`);
    await page.visit(`#/requests/${(await list('?model=slow')).requests[0].id}`);
    await page.locator('.way').waitFor();
    await page.look(`request-${how.lang}`);
    page.watch.assertClean();
    await page.context().close();
  }
});
