// The first visit, from an empty fleet to the first chat; and the keys that work on every page.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { demoFiles, SHARD } from '../integration/hub_harness.mjs';
import { startHub } from '../support/hub.mjs';
import { SCHEMES, SIZES, startBrowser } from './browser.mjs';
import { call, DEMO, LONG, online, startNode, startRouter, tempDir, until } from './support.mjs';

const left = [];
const keep = (process) => {
  left.push(process);
  return process;
};
let hub, router, browser, release;

before(async () => {
  hub = await startHub();
  const files = demoFiles();
  hub.add('openai/gpt-oss-20b', files);
  // The shard stops half way until the test has seen the progress.
  const gate = new Promise((done) => {
    release = done;
  });
  hub.script(SHARD, [{ gate, after: Math.floor(files[SHARD].length / 2) }]);
  const env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--hub-host', hub.storage], env }));
  keep(await startNode(router, { name: 'workstation', args: ['--hub-host', hub.storage, '--model', DEMO], env }));
  await until('the node is online', async () => (await online(router)) === 1);
  browser = await startBrowser();
});
after(async () => {
  release?.();
  await browser?.close();
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  await hub?.close();
});

test('an empty fleet shows what it has and what fits; one click registers, shows the progress and leads to the first chat', async () => {
  for (const scheme of LONG ? SCHEMES : ['light'])
    for (const size of LONG ? Object.keys(SIZES) : ['desktop'])
      for (const lang of LONG ? ['en', 'ja'] : ['en']) {
        const page = await browser.open(router.url, { scheme, size, lang });
        await page.getByRole('button', { name: /gpt-oss-20b/ }).waitFor();
        await page.getByText('gptoss').waitFor();
        await page.look(`welcome${lang === 'ja' ? '-ja' : ''}`);
        page.watch.assertClean();
        await page.context().close();
      }
  const page = await browser.open(router.url);
  await page.getByRole('heading', { name: 'Welcome' }).waitFor();
  const machine = page.locator('.machine');
  await machine.getByText('gptoss').waitFor(); // each part of the page has an answer of its own
  assert.match(await machine.textContent(), /workstation.*none, the CPU computes.*GiB free.*gptoss/s);
  await page
    .locator('.offer', { hasText: 'gpt-oss-20b' })
    .getByText(/Fits on workstation|Needs about 15 GiB/)
    .waitFor();
  assert.equal(await page.getByRole('button', { name: 'Start a chat' }).isDisabled(), true);
  await page.getByRole('button', { name: 'Register gpt-oss-20b' }).click();
  await page.locator('.first-model [role=progressbar]').waitFor();
  await page.locator('.first-model', { hasText: /of .*B/ }).waitFor();
  await page.look('welcome-progress');
  release();
  await page.getByRole('link', { name: 'Start a chat' }).click();
  await page.locator('.composer textarea').fill('Count from 1 to 12');
  await page.locator('.composer textarea').press('Enter');
  await page.locator('.prose', { hasText: '10, 11, 12' }).waitFor();
  await page.visit('#/overview');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('a model that lies on a node is registered with one click; the first steps can be skipped', async () => {
  for (const { id } of (await call(`${router.url}/v0/models`)).json.models) {
    const answer = await call(`${router.url}/v0/models/${encodeURIComponent(id)}`, { method: 'DELETE' });
    assert.ok(answer.status < 300, answer.text);
  }
  await until('none is left', async () => (await call(`${router.url}/v0/models`)).json.models.length === 0);
  const page = await browser.open(router.url);
  await page.getByRole('link', { name: 'Skip to the overview' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.visit('#/welcome');
  await page.getByRole('button', { name: 'Register demo' }).click();
  await page.getByRole('link', { name: 'Start a chat' }).waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('by keyboard: the palette finds pages, models, nodes and conversations; ? lists the keys; g and a letter go', async () => {
  await until('the demo', async () => (await call(`${router.url}/v1/models`)).json.data.some((m) => m.id === 'demo'));
  for (const scheme of LONG ? SCHEMES : ['dark'])
    for (const size of LONG ? Object.keys(SIZES) : ['desktop'])
      for (const lang of LONG ? ['en', 'ja'] : ['en']) {
        const page = await browser.open(`${router.url}/#/models`, { scheme, size, lang });
        await page.keyboard.press('Control+k');
        await page.locator('.palette input').fill('demo');
        await page.getByRole('option', { name: /demo/ }).nth(1).waitFor();
        await page.look(`palette${lang === 'ja' ? '-ja' : ''}`, { fullPage: false });
        await page.keyboard.press('Escape');
        await page.locator('dialog[open]').waitFor({ state: 'detached' }); // it would take the next key
        await page.keyboard.press('?');
        await page.locator('.shortcuts').waitFor();
        await page.look(`shortcuts${lang === 'ja' ? '-ja' : ''}`, { fullPage: false });
        page.watch.assertClean();
        await page.context().close();
      }
  const page = await browser.open(`${router.url}/#/playground/demo`);
  const at = (hash) => until(hash, async () => (await page.evaluate(() => location.hash)) === hash);
  await page.locator('.composer textarea').fill('find this talk');
  await page.locator('.composer textarea').press('Enter');
  await page.locator('.turn-tools .button').last().waitFor();
  const pick = async (words, name) => {
    await page.keyboard.press('Control+k');
    await page.locator('.palette input').fill(words);
    await page.getByRole('option', { name, selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await page.locator('dialog[open]').waitFor({ state: 'detached' });
  };
  await pick('works', /workstation/);
  await until('the node', async () => /^#\/nodes\/node-/.test(await page.evaluate(() => location.hash)));
  await page.getByRole('heading', { level: 1, name: 'workstation' }).waitFor();
  await pick('chat with demo', /Chat with demo/);
  await at('#/playground/demo');
  await page.getByRole('heading', { level: 1, name: 'Playground' }).waitFor();
  await pick('find this', /find this talk/);
  await page.locator('.bubble', { hasText: 'find this talk' }).waitFor();
  await page.locator('h1').focus();
  await until('#/keys', async () => {
    for (const key of ['g', 'k']) await page.keyboard.press(key); // the letter counts for a second after the g
    return (await page.evaluate(() => location.hash)) === '#/keys';
  });
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('option', { name: /Overview/, selected: true }).waitFor();
  await page.locator('.palette input').press('ArrowDown');
  await page.getByRole('option', { name: /Models/, selected: true }).waitFor();
  await page.locator('.palette input').press('Enter');
  await at('#/models');
  page.watch.assertClean();
  await page.context().close();
});
