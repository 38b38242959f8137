// An operator registers a model in the browser and follows it until it serves.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { demoFiles, SHARD } from '../integration/hub_harness.mjs';
import { startHub } from '../support/hub.mjs';
import { startBrowser } from './browser.mjs';
import { call, cli, online, say, startNode, startRouter, tempDir, until } from './support.mjs';

const HOSTILE = '<img src=x onerror="globalThis.broken = true">';
const left = [];
const keep = (process) => {
  left.push(process);
  return process;
};
let hub, router, browser, release;

before(async () => {
  hub = await startHub();
  const files = demoFiles();
  const { [SHARD]: shard, ...partial } = files;
  assert.ok(shard);
  hub.add('openai/demo', files);
  hub.add('openai/partial', partial);
  // The shard stops half way until the test has seen the progress.
  const gate = new Promise((done) => {
    release = done;
  });
  hub.script(SHARD, [{ gate, after: Math.floor(shard.length / 2) }]);
  const env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--hub-host', hub.storage], env }));
  keep(await startNode(router, { name: 'n0', args: ['--hub-host', hub.storage], env }));
  await until('the node is online', async () => (await online(router)) === 1);
  browser = await startBrowser();
});
after(async () => {
  release?.();
  await browser?.close();
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  await hub?.close();
});

const register = async (page, repo) => {
  await page.getByRole('button', { name: 'Register a model' }).first().click();
  await page.getByLabel('Model or repository').fill(repo);
  await page.getByRole('button', { name: 'Check and register' }).click();
};

test('without a registered model the page suggests the next step', async () => {
  const page = await browser.open(`${router.url}/#/models`);
  await page.getByRole('heading', { name: 'No model is registered yet' }).waitFor();
  await page.look('models-empty');
  page.watch.assertClean();
});

test("a wrong registration shows the API's message with the missing file, until it is dismissed", async () => {
  const page = await browser.open(`${router.url}/#/models`);
  page.watch.allow(400, 404);
  const said = (await call(`${router.url}/v0/models/register`, { body: { repo: 'openai/partial' } })).json.error
    .message;
  assert.match(said, new RegExp(SHARD));
  await register(page, 'openai/partial');
  const note = page.getByRole('alert');
  await note.waitFor();
  assert.equal(await note.locator('.error-message').textContent(), said);
  assert.equal(
    await page.getByLabel('Model or repository').inputValue(),
    'openai/partial',
    'what was typed is still there',
  );
  await page.look('register-error');
  await page.getByLabel('Model or repository').fill('openai/other');
  assert.ok(await note.isVisible(), 'typing does not take it away');
  await note.getByRole('button', { name: 'Dismiss' }).click();
  await note.waitFor({ state: 'detached' });
  page.watch.assertClean();
});

test('typed text in an error is shown as text, never as markup', async () => {
  const page = await browser.open(`${router.url}/#/models`);
  page.watch.allow(400, 404);
  await register(page, `openai/${HOSTILE}`);
  await page.getByRole('alert').waitFor();
  assert.equal(await page.locator('img').count(), 0);
  assert.equal(await page.evaluate(() => globalThis.broken), undefined);
  page.watch.assertClean();
});

test('the demo snapshot is registered from the hub; progress shows per node and file; then it is ready', async () => {
  const page = await browser.open(`${router.url}/#/models`);
  await register(page, 'openai/demo');
  await page.getByText('openai/demo is registered').waitFor();
  await page.look('register-done');
  await page.getByRole('button', { name: 'Show progress' }).click();
  await page.getByRole('heading', { level: 1, name: 'openai/demo' }).waitFor();
  const meter = page.getByRole('progressbar', { name: 'downloading n0' });
  await meter.waitFor();
  await until('half of it has arrived', async () => Number(await meter.getAttribute('aria-valuenow')) >= 20);
  assert.ok(Number(await meter.getAttribute('aria-valuenow')) < 100);
  await page.locator('summary', { hasText: /\d of \d files/ }).click();
  await page.getByRole('progressbar', { name: SHARD }).waitFor();
  await page.look('model-download');
  release();
  await page
    .locator('table')
    .first()
    .getByText(/^(on disk|ready)$/)
    .waitFor();
  await page.getByRole('row', { name: new RegExp(SHARD) }).waitFor(); // of the manifest
  await page.getByRole('button', { name: 'Load on n0' }).click();
  await page.locator('table').first().getByText('ready', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Pin on n0' }).click();
  await page.locator('table').first().getByText('pinned', { exact: true }).waitFor();
  await page.look('model-ready');
  const chat = await call(`${router.url}/v1/chat/completions`, {
    body: { model: 'openai/demo', max_tokens: 8, ...say('Hello') },
  });
  assert.equal(chat.status, 200, chat.text);
  page.watch.assertClean();
});

test('aliases are shown, added and removed; a name that is taken is refused with the reason', async () => {
  const page = await browser.open(`${router.url}/#/models/openai%2Fdemo`);
  page.watch.allow(409);
  const names = async () => (await call(`${router.url}/v0/models`)).json.models[0].aliases;
  const list = page.getByRole('list', { name: 'Aliases' });
  const add = async (name) => {
    await page.getByLabel('New alias').fill(name);
    await page.getByRole('button', { name: 'Add alias' }).click();
  };
  await add('claude-sonnet-4-5');
  await list.getByText('claude-sonnet-4-5', { exact: true }).waitFor();
  await add('gpt-5');
  await list.getByText('gpt-5', { exact: true }).waitFor();
  assert.deepEqual(await names(), ['claude-sonnet-4-5', 'gpt-5']);
  await page.look('model-aliases');
  await add('openai/demo');
  await page.getByRole('alert').waitFor();
  assert.equal(await page.getByLabel('New alias').inputValue(), 'openai/demo', 'what was typed is still there');
  await page.getByRole('button', { name: 'Remove the alias claude-sonnet-4-5' }).click();
  await list.getByText('claude-sonnet-4-5', { exact: true }).waitFor({ state: 'detached' });
  assert.deepEqual(await names(), ['gpt-5']);
  page.watch.assertClean();
});

test("a failed action shows the API's message, which stays until it is dismissed", async () => {
  const page = await browser.open(`${router.url}/#/models/openai%2Fdemo`);
  page.watch.allow(404, 503);
  await page.getByRole('button', { name: 'Unload on n0' }).waitFor();
  await page.route('**/unload*', (route) =>
    route.fulfill({
      status: 503,
      contentType: 'application/json',
      body: JSON.stringify({ error: { message: `no: ${HOSTILE}`, code: 'x', type: 'y' } }),
    }),
  );
  await page.getByRole('button', { name: 'Unload on n0' }).click();
  assert.equal(await page.locator('.error-message').textContent(), `no: ${HOSTILE}`);
  assert.equal(await page.locator('img').count(), 0);
  page.watch.assertClean();
});

test('deleting asks first, offers to delete the files, and names the nodes that still have files', async () => {
  const page = await browser.open(`${router.url}/#/models/openai%2Fdemo`);
  const dialog = page.getByRole('dialog', { name: 'Delete openai/demo?' });
  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.waitFor();
  await page.look('model-delete');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await call(`${router.url}/v1/models/openai/demo`)).status, 200);
  // A node that could not: what the router would answer then.
  const purged = [
    { node: 'a', name: 'n0', ok: false, reason: `cannot delete ${HOSTILE}` },
    { node: 'b', name: 'n1', ok: true },
  ];
  await page.route('**/v0/models/openai%2Fdemo?purge=true', (route) =>
    route.fulfill({ contentType: 'application/json', body: JSON.stringify({ deleted: true, purged }) }),
  );
  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByRole('checkbox').check();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await page.getByText(`n0: cannot delete ${HOSTILE}`, { exact: true }).waitFor();
  assert.equal(await page.getByText('n1:').count(), 0);
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
  await page.unroute('**/v0/models/openai%2Fdemo?purge=true');
  await page.getByRole('link', { name: 'openai/demo' }).click();
  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('openai/demo was deleted').last().waitFor();
  await page.getByRole('heading', { name: 'No model is registered yet' }).waitFor();
  assert.equal((await call(`${router.url}/v1/models/openai/demo`)).status, 404);
  page.watch.assertClean();
});

test('the box takes what people type: words propose what runs here, and of a repository the best file that fits is registered', async () => {
  const file = path.join(tempDir('gguf'), 'x.gguf');
  await cli(['debug', 'write-gguf', '--output', file]);
  const model = fs.readFileSync(file);
  hub.add('acme/words-8b-GGUF', { 'w-Q2_K.gguf': model, 'w-Q8_0.gguf': model, 'mmproj-w.gguf': model });
  const page = await browser.open(`${router.url}/#/models`);
  await register(page, 'words:8b');
  await page.getByRole('alert').getByText('on the hub these run here').waitFor();
  await page.look('register-words');
  await page.getByRole('button', { name: 'Use acme/words-8b-GGUF' }).click();
  await page.getByRole('button', { name: 'Check and register' }).click();
  await page.getByText('acme/words-8b-GGUF is registered').waitFor();
  await page.getByText('w-Q8_0.gguf: the best quantization that fits here').waitFor();
  page.watch.assertClean();
});
