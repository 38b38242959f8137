// What an operator sees at a glance: figures that do not mislead, things that are broken, rows that react to
// clicks, and a page whose router is gone.
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { SCHEMES, SIZES, startBrowser } from './browser.mjs';
import { call, LONG, makeEcho, nodes, register, say, startNode, startRouter, startStandIn, until } from './support.mjs';

const REASON =
  'model "broken" needs 61.0 GiB (65498251264 bytes: weights 60.0 GiB, KV cache 0.8 GiB, workspace 0.2 GiB) and NVIDIA L4 can give it 21.6 GiB (23192823398 bytes of 24.0 GiB, at most 90 % in use): use a machine with more memory, or lower max-tokens or max-sequences';
const left = [];
const keep = (process) => {
  left.push(process);
  return process;
};
let router, browser;

/** A node whose words are the test's: it is online as long as the router waits for heartbeats. */
async function standIn(name, { models = [], draining = false } = {}) {
  const { url } = await startStandIn();
  const body = {
    protocol: 2,
    version: '0.1.0',
    node_id: `node-${name}`,
    name,
    url,
    device: 'cuda',
    secret: `lr-${name.padStart(40, '0')}`,
    draining,
    models: models.map((m) => ({ can_run: true, loaded: false, slots: 8, engine: 'gptoss', weight_bytes: 13e9, ...m })),
    pools: [
      { name: 'ram', title: 'RAM', total: 5e11, used: 1e11 },
      { name: 'gpu0', title: 'NVIDIA L4', total: 24e9, used: 20e9 },
    ],
  };
  const answer = await call(`${router.url}/v0/nodes/join`, { body });
  assert.equal(answer.status, 200, answer.text);
}

// Models of stand-ins cannot be asked about: their registrations go into the store.
before(async () => {
  const first = await startRouter({});
  await first.stop();
  const store = new DatabaseSync(path.join(first.dir, 'router.db'));
  const insert = store.prepare(
    "INSERT INTO models (folded_id, id, source, format, manifest, chat_template, created_ms, path) VALUES (?, ?, 'local', 'safetensors', '', '', 1700000000000, '')",
  );
  for (const id of ['broken', 'large', 'shelf', 'nobody']) insert.run(id, id);
  store.close();
  router = keep(await startRouter({ dir: first.dir, args: ['--allow-cpu-nodes', '--node-timeout', '600s'] }));
  keep(await startNode(router, { name: 'real', args: ['--model', makeEcho('echo')] }));
  await until('the node is there', async () => (await nodes(router)).some((n) => n.online));
  await register(router, 'echo');
  const failed = { id: 'broken', can_run: false, state: 'failed', reason: REASON };
  await standIn('gpu-1', {
    models: [failed, { id: 'large', state: 'ready', loaded: true }, { id: 'shelf', state: 'present' }],
  });
  await standIn('gpu-2', {
    models: [{ id: 'broken', can_run: false, state: 'absent', reason: 'the files are not there' }],
  });
  await call(`${router.url}/v0/nodes/node-gpu-2/drain`, { method: 'POST' });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
});

const card = (page, title) => page.locator('.stat').filter({ has: page.getByRole('heading', { name: title }) });
const shown = async (page, title) =>
  Number((await card(page, title).locator('.stat-value').textContent()).replace(/,/g, ''));

test('a figure is that of the last minute: after a burst it is not 0 while its chart is busy', async () => {
  await until('the router counts', async () => (await call(`${router.url}/v0/stats?step=1`)).json.time.length > 1);
  await Promise.all(
    Array.from({ length: 12 }, () =>
      call(`${router.url}/v1/chat/completions`, { body: { model: 'echo', ...say('hello there') } }),
    ),
  );
  const page = await browser.open(router.url);
  await until('this second has no request', async () => {
    const { time, requests_per_second: rates } = (await call(`${router.url}/v0/stats?step=1`)).json;
    return time.length > 5 && rates.at(-1) === 0 && rates.some((r) => r > 0);
  });
  await until('the burst is in the figure', async () => (await shown(page, 'Requests per second')) > 0);
  assert.ok((await shown(page, 'Tokens per second')) > 0);
  await page.context().close();
});

test('the counts tell loaded models from models on disk, and nodes in service from others', async () => {
  const page = await browser.open(router.url);
  const tally = (title) => page.locator('.tally').filter({ hasText: title });
  await tally('Models').getByText('2 of 5 are loaded').waitFor();
  for (const part of ['1 on disk', '1 failed', '1 on no node']) await tally('Models').getByText(part).waitFor();
  await tally('Nodes').getByText('2 of 3 are in service').waitFor();
  await tally('Nodes').getByText('1 out of service').waitFor();
  await page.getByRole('link', { name: '1 failed' }).click();
  await page.getByRole('row', { name: /broken/ }).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 1, 'the link shows what it counts');
  await page.context().close();
});

test('without an alert the page is calm only if no node is offline and no model has failed', async () => {
  const page = await browser.open('about:blank', { wait: false });
  let all = { nodes: [], models: [] };
  await page.route('**/v0/alerts', (route) => route.fulfill({ json: { alerts: [] } }));
  await page.route('**/v0/nodes?brief=true', (route) => route.fulfill({ json: { nodes: all.nodes } }));
  await page.route('**/v0/models?brief=true', (route) => route.fulfill({ json: { models: all.models } }));
  const { json } = await call(`${router.url}/v0/nodes?brief=true`);
  const { json: models } = await call(`${router.url}/v0/models?brief=true`);
  const well = models.models.filter((m) => m.ready);
  all = { nodes: json.nodes, models: well };
  await page.goto(router.url);
  await page.getByText('All is well').waitFor();
  all = { nodes: json.nodes.map((n, i) => ({ ...n, online: i > 0 })), models: models.models };
  await page.reload();
  const calm = page.locator('.calm');
  await calm.getByText('1 node is offline.').waitFor();
  await calm.getByText('1 model has failed.').waitFor();
  assert.equal(await page.getByText('All is well').count(), 0);
  await page.context().close();
});

test('charts have a time axis, and a legend where there are two lines', async () => {
  const page = await browser.open(router.url);
  const first = card(page, 'Time to first token');
  await first.locator('.legend li').nth(1).waitFor(); // charts come after the heading
  assert.deepEqual(await first.locator('.legend li').allTextContents(), ['p50', 'p99']);
  assert.equal(await card(page, 'Waiting').locator('.legend').count(), 0);
  await first.locator('.u-axis').nth(1).waitFor();
  const [time, value] = await Promise.all([0, 1].map((i) => first.locator('.u-axis').nth(i).boundingBox()));
  assert.ok(time.y >= value.y + value.height - 1, 'the time is below the chart');
  await page.context().close();
});

test('a failed model looks failed: its colour, the reason in the list, and a button that loads it again', async () => {
  const page = await browser.open(`${router.url}/#/models`);
  page.watch.allow(502);
  const row = page.getByRole('row', { name: /broken/ });
  await row.getByText('failed', { exact: true }).first().waitFor();
  assert.equal(await row.locator('.badge.bad').count(), 1);
  assert.equal(
    await page
      .getByRole('row', { name: /nobody/ })
      .locator('.badge.faint')
      .count(),
    1,
    'absent looks otherwise',
  );
  await row
    .getByText(
      'needs 61.0 GiB (weights 60.0 GiB, KV cache 0.8 GiB, workspace 0.2 GiB), and NVIDIA L4 can give it 21.6 GiB',
    )
    .waitFor();
  const asked = page.waitForRequest((r) => r.method() === 'POST' && r.url().endsWith('/v0/models/broken/load'));
  await row.getByRole('button', { name: 'Load again: broken' }).click();
  await asked;
  assert.equal(await page.getByRole('button', { name: /again/ }).count(), 1, 'only the failed row has it');
  assert.equal(new URL(page.url()).hash, '#/models', 'the button did not open the row');
  await page.context().close();
});

test('a click anywhere in a row opens it, in a new tab with Ctrl; links and buttons inside keep their own', async () => {
  const page = await browser.open(`${router.url}/#/models`);
  await page.getByRole('row', { name: /shelf/ }).getByRole('cell').nth(2).click();
  await page.getByRole('heading', { level: 1, name: 'shelf' }).waitFor();
  await page.visit('#/nodes');
  const row = page.getByRole('row', { name: /real/ });
  const [tab] = await Promise.all([
    page.context().waitForEvent('page'),
    row
      .getByRole('cell')
      .nth(1)
      .click({ modifiers: ['ControlOrMeta'] }),
  ]);
  await tab.waitForURL(/#\/nodes\/./);
  await tab.close();
  assert.equal(new URL(page.url()).hash, '#/nodes');
  await row.getByRole('cell').nth(3).click();
  await page.getByRole('heading', { level: 1, name: 'real' }).waitFor();
  await page.context().close();
});

test('reasons have a code and parameters in the API, and are Japanese on a Japanese page', async () => {
  const { models } = (await call(`${router.url}/v0/models?brief=true`)).json;
  const of = (id) => models.find((m) => m.id === id);
  assert.equal(of('broken').reason, REASON);
  assert.equal(of('broken').reason_code, 'too_large');
  assert.deepEqual([of('broken').reason_params.need, of('broken').reason_params.device], ['61.0 GiB', 'NVIDIA L4']);
  assert.deepEqual([of('nobody').reason_code, of('nobody').reason_params], ['nowhere', {}]);
  assert.equal(of('large').reason_code, undefined);
  const page = await browser.open(`${router.url}/#/models`, { lang: 'ja' });
  await page.getByText('61.0 GiB 必要ですが').waitFor();
  await page.getByText('このモデルを持つオンラインのノードがありません').waitFor();
  await page.visit('#/models/broken');
  await page.getByText('運用から外されています').waitFor();
  assert.doesNotMatch(await page.locator('main').textContent(), /needs 61|no online node/);
  await page.context().close();
});

test('the fleet as a picture: the router, each node with its state and the models that it has loaded', async () => {
  const page = await browser.open(`${router.url}/#/nodes`);
  await page.getByRole('link', { name: 'Picture' }).click();
  const box = (name) => page.locator('.fleet-node').filter({ hasText: name });
  await box('gpu-1').getByText('large').waitFor();
  assert.match(await box('gpu-1').getAttribute('class'), /online/);
  assert.match(await box('gpu-2').getAttribute('class'), /drained/);
  assert.equal(await box('gpu-1').locator('.fleet-chip.broken').textContent(), 'broken');
  assert.equal(await box('gpu-1').getByText('shelf').count(), 0, 'on disk is not loaded');
  await page.look('topology');
  await box('real').getByRole('link').click();
  await page.getByRole('heading', { level: 1, name: 'real' }).waitFor();
  await page.context().close();
});

test('charts of a range, a model and a node come from the history, and the figures are means of the range', async () => {
  const page = await browser.open(router.url);
  const [node] = (await nodes(router)).filter((n) => n.name === 'real');
  const asked = (part) =>
    page.waitForResponse((r) => r.url().includes('/v0/history') && r.url().includes(part) && r.ok());
  await Promise.all([asked('range=1h'), page.getByLabel('1 h', { exact: true }).check({ force: true })]);
  await card(page, 'Requests per second').getByText('mean').waitFor();
  await until('the requests are in the history', async () => (await shown(page, 'Tokens per second')) > 0);
  await Promise.all([asked('model=shelf'), page.getByLabel('Model', { exact: true }).selectOption('shelf')]);
  await until('another model has none', async () => (await shown(page, 'Tokens per second')) === 0);
  await page.getByLabel('Model', { exact: true }).selectOption('');
  await Promise.all([asked(`node=${node.id}`), page.getByLabel('Node', { exact: true }).selectOption(node.id)]);
  for (const name of ['24 h', '7 d'])
    await Promise.all([
      asked(`range=${name.replace(' ', '')}`),
      page.getByLabel(name, { exact: true }).check({ force: true }),
    ]);
  await page.look('overview-history');
  page.watch.assertClean();
  await page.context().close();
});

test('every theme and size of the overview, the models and the nodes with things that are broken', async () => {
  const wanted = LONG
    ? SCHEMES.flatMap((scheme) =>
        Object.keys(SIZES).flatMap((size) => ['en', 'ja'].map((lang) => ({ scheme, size, lang }))),
      )
    : [{ scheme: 'dark', size: 'phone', lang: 'ja' }];
  for (const how of wanted) {
    const page = await browser.open(router.url, how);
    page.watch.allow(502, 503);
    for (const name of ['overview', 'models', 'nodes', 'nodes?view=picture']) {
      await page.visit(`#/${name}`);
      await page.locator('.skeleton').first().waitFor({ state: 'detached' });
      await page
        .locator(name === 'overview' ? '.tally' : name.includes('picture') ? '.fleet-box' : 'tbody tr')
        .first()
        .waitFor();
      await page.look(`fleet-${name.replace(/\W/g, '-')}-${how.lang}`);
    }
    page.watch.assertClean();
    await page.context().close();
  }
});

test('with the router gone the page says so and since when, and never that nothing is registered', async () => {
  const page = await browser.open(router.url);
  await page.locator('.tally').first().waitFor();
  for (const name of ['Models', 'Nodes']) {
    await page.visit(`#/${name.toLowerCase()}`); // the module of the page arrives
    await page.getByRole('heading', { level: 1, name }).waitFor();
  }
  await router.stop('SIGKILL');
  await page.getByText(/^The router has not answered since \d/).waitFor();
  for (const name of ['models', 'nodes', 'overview']) {
    await page.visit(`#/${name}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    assert.doesNotMatch(
      await page.locator('main').textContent(),
      /No model is registered|No node has joined|All is well/,
      name,
    );
    await page.getByText(/^The router has not answered since/).waitFor();
  }
  await page.look('router-gone');
  await page.context().close();
});
