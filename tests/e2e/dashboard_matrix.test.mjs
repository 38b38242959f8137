// Every page of the dashboard in every theme, language and size: no serious finding of axe, no error, no request to
// another host, nothing wider than the screen, no text that is missing.  Only with LR_LONG=1; `make test` looks at each page in one
// combination (the other dashboard tests).  The pictures are build/test-log/screens/all-*.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { GB, makeGpus, writeHistory } from '../support/gpus.mjs';
import { SCHEMES, SIZES, startBrowser } from './browser.mjs';
import { call, DEMO, LONG, makeEcho, nodes, online, register, say, startNode, startRouter, until } from './support.mjs';

// fleet.mjs has a hook after all tests, and Node never ends a file that has such a hook and no test.
const { keep, makeFaulty } = LONG ? await import('./fleet.mjs') : {};
const every = SCHEMES.flatMap((scheme) =>
  Object.keys(SIZES).flatMap((size) => ['en', 'ja'].map((lang) => ({ scheme, size, lang }))),
);
let router, empty, mortal, browser, node, request;
const keys = {};

const gpu = (words) => ({ total: 80 * GB, used: 31 * GB, words: `${words} limit=700000 dbe=0` });
const figures = (i, age) => {
  const wave = 50 + 30 * Math.sin(age / (110 + 20 * i)) + 10 * Math.cos(age / 37);
  return {
    used: (20 + wave / 8) * GB,
    total: 80 * GB,
    utilization: wave,
    temperature: 42 + wave / 3,
    power: 90000 + wave * 5500,
    clock: 1100 + wave * 8,
  };
};

async function startFull() {
  const gpus = makeGpus([
    gpu('util=64 temp=61 power=412000 clock=1755'),
    gpu('util=71 temp=66 power=690000 clock=1830 throttle=4'),
    gpu('util=0 temp=34 power=71000 clock=345 ecc=2'),
    { ...gpu('temp=30'), words: 'util=0 temp=31 power=70000 limit=700000 clock=345 dbe=3' },
  ]);
  const args = ['--require-key', '--allow-cpu-nodes', '--price', 'demo=1000/2000', '--currency', 'EUR'];
  const first = await startRouter({ args });
  const models = [DEMO, makeEcho('org/a-model-with-a-long-name-GGUF-Q4_K_M'), makeFaulty('broken', { fail: 'load' })];
  const more = { args: [...gpus.args, ...models.flatMap((m) => ['--model', m])], env: gpus.env };
  const key = first.adminKey;
  const token = (await call(`${first.url}/v0/nodes/tokens`, { key, body: {} })).json.key;
  keep(await startNode(first, { name: 'tower', token, ...more }));
  const list = async (at) => (await call(`${at.url}/v0/nodes`, { key })).json.nodes;
  await until('the node is there', async () => (await list(first)).some((n) => n.online && n.models.length === 3));
  node = (await list(first))[0].id;
  await first.stop();
  writeHistory(first.dir, node, 4, 24, figures);
  router = keep(await startRouter({ args, dir: first.dir, port: Number(new URL(first.url).port) }));
  router.adminKey = key;
  await until('the node is back', async () => (await list(router)).some((n) => n.online));
  const post = (path, body) => call(router.url + path, { key, body });
  for (const { id } of (await list(router))[0].models) {
    const answer = await post('/v0/models/register', { path: id });
    assert.ok([201, 409].includes(answer.status), answer.text);
  }
  keys.admin = key;
  keys.api = (
    await post('/v0/keys', { name: 'Hanako Yamada', tokens_per_month: 5000, requests_per_minute: 60, owner: 'sales' })
  ).json.key;
  keys.viewer = (await post('/v0/keys', { name: 'screen in the hall', role: 'viewer' })).json.key;
  const ask = (as, model, text) =>
    call(`${router.url}/v1/chat/completions`, { key: as, body: { model, max_tokens: 60, ...say(text) } });
  for (let i = 0; i < 6; i++) await ask(i % 2 ? key : keys.api, 'demo', `Count from 1 to ${i + 8}`);
  await ask(keys.api, 'broken', 'x');
  request = (await call(`${router.url}/v0/requests`, { key })).json.requests.find((r) => r.model === 'demo').id;
}

async function look(page, name, how, ready) {
  await page.locator(ready).first().waitFor();
  await page.locator('.skeleton').first().waitFor({ state: 'detached' });
  await page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 60))); // charts
  await page.look(`all-${name}-${how.lang}`);
  // A text without a translation shows its key, as in "nodes.title".
  const raw = await page.evaluate(() => {
    const key =
      /\b(common|overview|models|model|nodes|requests|keys|usage|audit|playground|palette|welcome|self|alerts)\.[a-z]+[A-Z_]\w*/;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); // one by one: joined, two words may look like a key
    while (texts.nextNode()) if (key.test(texts.currentNode.data)) return texts.currentNode.data;
    return null;
  });
  assert.equal(raw, null, `${name}: the text ${raw} is missing`);
}

async function signIn(url, key, how) {
  const page = await browser.open(url, how);
  page.watch.allow(401, 403, 404, 502, 503);
  if (!key) return page;
  await page.evaluate(
    (body) => fetch('/v0/session', { method: 'POST', headers: { 'content-type': 'application/json' }, body }),
    JSON.stringify({ key }),
  );
  await page.reload();
  await page.locator('nav.nav').waitFor();
  return page;
}

// A dialog that is still open takes the next keys.
async function leaveDialog(page) {
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
}

async function admin(how) {
  const page = await signIn(router.url, keys.admin, how);
  const routes = [
    ['overview', '#/overview', '.chart canvas'],
    ['models', '#/models', 'tbody tr'],
    ['models-failed', '#/models?state=failed', 'tbody tr'],
    ['model', '#/models/demo', '.facts'],
    ['model-failed', '#/models/broken', '.facts'],
    ['model-missing', '#/models/none', '.empty'],
    ['nodes', '#/nodes', 'tbody tr'],
    ['picture', '#/nodes?view=picture', '.fleet-box'],
    ['node', `#/nodes/${node}`, '.gpu-charts canvas'],
    ['node-missing', '#/nodes/none', '.empty'],
    ['requests', '#/requests', 'tbody tr'],
    ['request', `#/requests/${request}`, '.page h2'],
    ['request-missing', '#/requests/none', '.page'],
    ['playground', '#/playground/demo', '.composer textarea'],
    ['keys', '#/keys', 'tbody tr'],
    ['tokens', '#/keys/tokens', '.page h1'],
    ['usage', '#/keys/usage', '.chart canvas'],
    ['audit', '#/keys/audit', 'tbody tr'],
    ['welcome-again', '#/welcome', '.page h2'],
    ['nowhere', '#/nowhere', '.empty'],
  ];
  for (const [name, hash, ready] of routes) {
    await page.visit(hash);
    await look(page, name, how, ready);
  }
  await page.visit('#/overview');
  await Promise.all([
    page.waitForResponse((r) => r.url().includes('range=24h')),
    page.locator('.ranges input[value="24h"]').check({ force: true }),
  ]);
  await look(page, 'overview-24h', how, '.chart canvas');
  await page.visit('#/models?register');
  await look(page, 'register', how, 'dialog[open]');
  await leaveDialog(page);
  await page.visit('#/keys');
  await page.locator('.page-actions .button, .section-head .button').first().click();
  await look(page, 'key-form', how, 'dialog[open]');
  await leaveDialog(page);
  await page.locator('h1').focus();
  await page.keyboard.press('Control+k');
  await page.locator('.palette input').fill('de');
  await look(page, 'palette', how, '.palette-entry');
  await page.locator('.palette input').fill('nothing has this name');
  await look(page, 'palette-none', how, '.palette');
  await leaveDialog(page);
  await page.keyboard.press('?');
  await look(page, 'shortcuts', how, '.shortcuts');
  await leaveDialog(page);
  await page.visit('#/playground/demo');
  await page.locator('.composer textarea').fill('Count from 1 to 12');
  await page.locator('.composer textarea').press('Enter');
  await look(page, 'playground-answer', how, '.turn.model:not([aria-busy]) .turn-facts');
  page.watch.assertClean();
  await page.context().close();
}

async function others(how) {
  const guest = await signIn(router.url, '', how);
  await look(guest, 'signin', how, 'input');
  await guest.context().close();
  const user = await signIn(router.url, keys.api, how);
  for (const [name, hash, ready] of [
    ['self', '#/self', '.facts, .card'],
    ['user-playground', '#/playground/demo', '.composer textarea'],
    ['user-refused', '#/nodes', '.empty'],
  ]) {
    await user.visit(hash);
    await look(user, name, how, ready);
  }
  user.watch.assertClean();
  await user.context().close();
  const viewer = await signIn(router.url, keys.viewer, how);
  for (const [name, hash, ready] of [
    ['viewer-models', '#/models', 'tbody tr'],
    ['viewer-node', `#/nodes/${node}`, '.gpu-charts canvas'],
    ['viewer-refused', '#/playground', '.empty'],
  ]) {
    await viewer.visit(hash);
    await look(viewer, name, how, ready);
  }
  viewer.watch.assertClean();
  await viewer.context().close();
  const fresh = await browser.open(empty.url, how);
  await look(fresh, 'welcome', how, '.offer');
  for (const [name, hash] of [
    ['empty-models', '#/models'],
    ['empty-nodes', '#/nodes'],
    ['empty-requests', '#/requests'],
    ['empty-playground', '#/playground'],
    ['empty-usage', '#/keys/usage'],
    ['empty-keys', '#/keys'],
  ]) {
    await fresh.visit(hash);
    await look(fresh, name, how, '.page h1');
  }
  await fresh.evaluate(() => sessionStorage.setItem('lr.welcomed', '1'));
  await fresh.visit('#/overview');
  await look(fresh, 'empty-overview', how, '.empty, .tally');
  fresh.watch.assertClean();
  await fresh.context().close();
}

if (LONG) {
  before(async () => {
    await startFull();
    empty = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
    mortal = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
    keep(await startNode(mortal, { name: 'n', args: ['--model', DEMO] }));
    await until('the node is there', async () => (await online(mortal)) === 1);
    await register(mortal, 'demo');
    assert.equal((await nodes(mortal)).length, 1);
    browser = await startBrowser();
  });
  after(() => browser?.close());

  for (const how of every) {
    test(`every page of an admin: ${how.scheme}, ${how.size}, ${how.lang}`, () => admin(how));
    test(`sign-in, users, viewers and an empty fleet: ${how.scheme}, ${how.size}, ${how.lang}`, () => others(how));
  }

  test('a page whose router is gone, in every combination', async () => {
    const pages = [];
    for (const how of every) {
      const page = await browser.open(mortal.url, how);
      await page.locator('.tally').first().waitFor();
      await page.locator('.chart canvas').first().waitFor();
      pages.push([page, how]);
    }
    await mortal.stop('SIGKILL');
    for (const [page, how] of pages) {
      await page.bringToFront();
      await look(page, 'gone', how, '.lost .note');
      assert.equal(await page.locator('.calm:not(.uneasy)').count(), 0, 'nobody knows that all is well');
      await page.context().close();
    }
  });
}
