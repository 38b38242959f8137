// Nodes in the browser: one dies and comes back, an engine is replaced during a chat, memory,
// log, and names that nobody should trust.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { copyEngine, TESTING } from '../integration/node_harness.mjs';
import { startBrowser } from './browser.mjs';
import {
  call,
  makeEcho,
  nodes,
  online,
  register,
  say,
  startNode,
  startRouter,
  startStandIn,
  stream,
  tempDir,
  until,
} from './support.mjs';

const HOSTILE = '<img src=x onerror="globalThis.broken = true">';
const left = [];
const keep = (process) => {
  left.push(process);
  return process;
};
let router, browser, engines, node, args;

before(async () => {
  engines = tempDir('engines');
  copyEngine(engines, 'echo');
  router = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
  args = ['--engines-dir', engines, '--model', makeEcho('slow', { step_ms: 20 }), '--model', makeEcho('second')];
  node = keep(await startNode(router, { name: 'n0', args }));
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'slow');
  await register(router, 'second');
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
});

test('a node is killed and comes back: the list and the overview say so without a reload', async () => {
  const page = await browser.open(`${router.url}/#/nodes`);
  const overview = await browser.open(`${router.url}/#/overview`);
  const row = page.getByRole('row', { name: /n0/ });
  await row.getByText('online', { exact: true }).waitFor();
  await overview.getByText('1 of 1 is in service').waitFor();
  const { port, dir } = node;
  await node.stop('SIGKILL');
  await row.getByText('offline', { exact: true }).waitFor();
  await overview.getByText(/n0 has been silent/).waitFor();
  await page.getByRole('status').filter({ hasText: 'Node n0 is offline' }).waitFor(); // said to screen readers
  await overview.look('overview-alert');
  const japanese = await browser.open(`${router.url}/#/overview`, { lang: 'ja' });
  await japanese.getByText(/ノードがオフライン: ノード n0 からの応答が \d+ ms 途絶えています/).waitFor();
  await japanese.context().close();
  page.watch.allow(503); // of questions to the node that died
  await page.visit(`#/nodes/${(await nodes(router))[0].id}`);
  await page.getByText('This node does not answer').waitFor();
  await page.look('node-offline');
  node = keep(await startNode(router, { name: 'n0', args, port, dir }));
  await page.getByRole('heading', { name: 'Engines' }).waitFor();
  await overview.getByText('No open alerts.').waitFor();
  page.watch.assertClean();
  overview.watch.assertClean();
});

test('an engine is reloaded from the page during a chat, and the chat continues without a break', async () => {
  const [{ id }] = await nodes(router);
  const page = await browser.open(`${router.url}/#/nodes/${id}`);
  const text = 'word '.repeat(60).trim();
  let chunks = 0;
  const chat = stream(
    router.url,
    { model: 'slow', ...say(text) },
    {
      onChunk: (out) => {
        chunks = out.chunks;
      },
    },
  );
  await until('the chat runs', () => chunks > 3);
  const row = page.getByRole('row', { name: /^echo/ });
  await row.getByText('1.0.0').waitFor();
  await row.getByRole('button', { name: 'Reload echo' }).click();
  const folder = path.join(engines, 'echo');
  const manifest = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')));
  fs.copyFileSync(path.join(TESTING, 'echo_next.so'), path.join(folder, '.new'));
  fs.renameSync(path.join(folder, '.new'), path.join(folder, 'echo.so'));
  fs.writeFileSync(
    path.join(folder, 'manifest.json'),
    JSON.stringify({ ...manifest, engine_version: '2.0.0', library_sha256: undefined }),
  );
  // The node looks for new files itself, every second: a reload that it has begun counts as this one.
  await page.getByRole('dialog').getByRole('button', { name: 'Reload' }).click();
  await page.getByText('the new version is in use').waitFor();
  await row.getByText('2.0.0').waitFor();
  const out = await chat;
  assert.ok(out.done && !out.error);
  assert.equal(out.text, text, 'not a token was lost');
  await page
    .getByRole('row', { name: /^slow/ })
    .getByText(/2\.0\.0/)
    .waitFor();
  page.watch.assertClean();
});

test('memory is a picture with text: which model uses how much, and which would be evicted', async () => {
  const [{ id }] = await nodes(router);
  await call(`${router.url}/v1/chat/completions`, { body: { model: 'second', ...say('x') } });
  const page = await browser.open(`${router.url}/#/nodes/${id}`);
  await page.getByRole('img', { name: /slow .*second|second .*slow/ }).waitFor();
  await page.getByText('evicted first').waitFor();
  await call(`${router.url}/v0/models/second/unload?node=${id}`, { body: {} });
  await page.getByLabel('Which models would a load evict?').selectOption('second');
  await page.getByText(/second needs .* and fits/).waitFor();
  await page.look('node-memory');
  page.watch.assertClean();
});

test('out of service and back, the log, and a token for another node', async () => {
  const [{ id }] = await nodes(router);
  const page = await browser.open(`${router.url}/#/nodes/${id}`);
  await page.getByRole('log').getByText('worker.ready').first().waitFor();
  await page.getByLabel('Filter lines').fill('no such line');
  await page.getByText('No matches.').waitFor();
  await page.getByRole('button', { name: 'Take out of service' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Take out of service' }).click();
  await page.getByText('out of service', { exact: true }).waitFor();
  assert.equal((await nodes(router))[0].drained, true);
  await page.getByRole('button', { name: 'Put back into service' }).click();
  await page.getByText('online', { exact: true }).waitFor();
  await page.visit('#/nodes');
  await page.getByRole('button', { name: 'Add a node' }).click();
  await page.getByRole('button', { name: 'Create a token' }).click();
  await page.getByText(new RegExp(`llm-router node --router ${router.url} --token lr-`)).waitFor();
  page.watch.assertClean();
});

test('a node, a model, an engine and a log line that contain markup are shown as text', async (t) => {
  const model = (id) => ({
    id,
    state: 'failed',
    reason: `because ${HOSTILE}`,
    can_run: false,
    loaded: false,
    engine: HOSTILE,
    architecture: HOSTILE,
  });
  const { url } = await startStandIn();
  const join = await call(`${router.url}/v0/nodes/join`, {
    body: {
      protocol: 2,
      version: HOSTILE.slice(0, 20),
      node_id: 'node-hostile',
      name: HOSTILE.slice(0, 60),
      url,
      device: 'cpu',
      secret: 'lr-hostile-hostile-hostile-hostile-hostile',
      draining: false,
      models: [model(HOSTILE)],
      pools: [{ name: 'ram', title: HOSTILE, total: 100, used: 50 }],
    },
  });
  assert.equal(join.status, 200, join.text);
  const heartbeat = setInterval(
    () =>
      call(`${router.url}/v0/nodes/node-hostile/heartbeat`, {
        body: { draining: false, models: [], pools: [{ name: 'ram', title: HOSTILE, total: 100, used: 50 }] },
      }).catch(() => {}),
    500,
  );
  t.after(() => clearInterval(heartbeat));
  const page = await browser.open(`${router.url}/#/nodes`);
  page.watch.allow(502, 503);
  // What the node itself would answer.
  const answers = {
    models: { models: [{ ...model(HOSTILE), workers: [], pinned: false }] },
    engines: { engines: [{ id: HOSTILE, usable: false, reason: HOSTILE, folder: HOSTILE, reloading: false }] },
    logs: { lines: [{ time: new Date().toISOString(), level: 'info', text: HOSTILE }] },
    memory: {
      pools: [
        {
          pool: 'ram',
          title: HOSTILE,
          total: 100,
          used: 50,
          limit_percent: 90,
          over: false,
          foreign: 10,
          capacity: 80,
          reserved: 40,
          free: 40,
          claims: [
            {
              model: HOSTILE,
              pid: 1,
              kind: 'idle',
              reserved: 40,
              measured: 30,
              weights: 20,
              kv: 10,
              kv_in_use: 1,
              workspace: 1,
              fixed: 1,
              idle_ms: 5,
            },
          ],
        },
      ],
    },
  };
  await page.route('**/v0/nodes/node-hostile/*', (route) =>
    route.fulfill({
      contentType: 'application/json',
      body: JSON.stringify(answers[new URL(route.request().url()).pathname.split('/').at(-1)]),
    }),
  );
  await page.getByRole('link', { name: HOSTILE.slice(0, 60) }).click();
  for (const text of [HOSTILE, `because ${HOSTILE}`]) await page.getByText(text, { exact: true }).first().waitFor();
  await page.look('node-hostile');
  await page.visit('#/overview');
  await page.getByText('2 of 2 are in service').waitFor();
  await page.visit(`#/models/${encodeURIComponent(HOSTILE)}`);
  await page
    .getByRole('heading', { name: `Model ${HOSTILE} not found` })
    .first()
    .waitFor();
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(await page.evaluate(() => globalThis.broken), undefined);
  page.watch.assertClean();
});
