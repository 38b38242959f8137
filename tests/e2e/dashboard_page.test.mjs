// The page itself: how it is served, how every page of it looks.  How soon it shows: dashboard_paint.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SIZES, startBrowser } from './browser.mjs';
import { call, DEMO, makeEcho, say, startUp, until } from './support.mjs';

let up, browser;
before(async () => {
  up = await startUp({ args: ['--model', DEMO, '--model', makeEcho('echo')] });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await up?.stop();
});

const get = (path, headers = {}) => fetch(up.url + path, { headers: { 'accept-encoding': 'gzip', ...headers } });

test('GET / is the page: compressed, revalidated, under a strict policy', async () => {
  const first = await get('/');
  assert.equal(first.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.equal(first.headers.get('content-encoding'), 'gzip');
  assert.equal(first.headers.get('cache-control'), 'no-cache');
  assert.equal(first.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(first.headers.get('referrer-policy'), 'no-referrer');
  const policy = first.headers.get('content-security-policy');
  for (const rule of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ])
    assert.ok(policy.split('; ').includes(rule), rule);
  assert.doesNotMatch(policy, /unsafe|\*/);
  const page = await first.text();
  assert.doesNotMatch(page, /<script(?![^>]*\bsrc=)|\son\w+=|<style/, 'nothing inline');
  const again = await get('/', { 'if-none-match': first.headers.get('etag') });
  assert.equal(again.status, 304);
  assert.equal(await again.text(), '');
});

test('a file never changes under its name, and a name of another version is 404', async () => {
  const page = await (await get('/')).text();
  const [script] = page.match(/assets\/[0-9a-f]{16}\/app\.js/);
  const answer = await get(`/${script}`);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-type'), 'text/javascript; charset=utf-8');
  assert.match(answer.headers.get('cache-control'), /immutable/);
  assert.equal((await get(`/${script}`, { 'if-none-match': answer.headers.get('etag') })).status, 304);
  assert.equal((await get(`/${script.replace(/[0-9a-f]{16}/, '0123456789abcdef')}`)).status, 404);
});

test('a client without gzip gets a line of text that points to the API', async () => {
  const answer = await get('/', { 'accept-encoding': 'identity' });
  assert.match(answer.headers.get('content-type'), /^text\/plain/);
  assert.match(await answer.text(), /\/v1\/chat\/completions/);
});

test('the first paint shows the heading at its final position, in the right language, or none if it would be wrong', async () => {
  const visible = (page) =>
    page.evaluate(() =>
      [...document.querySelectorAll('.frame .h1')].filter((e) => e.checkVisibility()).map((e) => e.textContent),
    );
  for (const [lang, hash, isGuest, want] of [
    ['en', '', false, ['Overview']],
    ['ja', '#/overview', false, ['概要']],
    ['en', '#/models', false, []],
    ['en', '', true, []],
  ]) {
    const page = await browser.open('about:blank', { lang, wait: false });
    if (isGuest) await page.addInitScript(() => localStorage.setItem('lr.guest', '1'));
    await page.route('**/app.js', (route) => route.abort());
    await page.goto(`${up.url}/${hash}`);
    assert.deepEqual(await visible(page), want, `${lang} ${hash}`);
    await page.context().close();
  }
  for (const size of Object.keys(SIZES)) {
    const page = await browser.open('about:blank', { size, wait: false });
    await page.route('**/app.js', (route) => route.abort());
    await page.goto(up.url);
    const before = await page.locator('.frame .h1:visible').boundingBox();
    await page.unroute('**/app.js');
    await page.reload();
    assert.deepEqual(await page.locator('h1').boundingBox(), before, size);
    await page.context().close();
  }
});

test('every page, light and large, dark and small: no finding of axe, no error, no request to another host', async () => {
  const [node] = (await call(`${up.url}/v0/nodes`)).json.nodes;
  await Promise.all(
    Array.from({ length: 6 }, () =>
      call(`${up.url}/v1/chat/completions`, { body: { model: 'demo', max_tokens: 40, ...say('Hello') } }),
    ),
  );
  const routes = [
    ['overview', '#/overview'],
    ['models', '#/models'],
    ['model', '#/models/demo'],
    ['register', '#/models?register'],
    ['nodes', '#/nodes'],
    ['node', `#/nodes/${node.id}`],
    ['missing', '#/nowhere'],
  ];
  await until('a point of every chart', async () => (await call(`${up.url}/v0/stats?step=5`)).json.time.length >= 2);
  // Every combination, of more pages, with `make test-long`: dashboard_matrix.
  for (const [scheme, size] of [
    ['light', 'desktop'],
    ['dark', 'phone'],
  ]) {
    const page = await browser.open(up.url, { scheme, size });
    for (const [name, hash] of routes) {
      await page.visit(hash);
      await page
        .locator(name === 'missing' ? '.empty' : '.page')
        .first()
        .waitFor();
      await page.locator('.skeleton').first().waitFor({ state: 'detached' });
      if (name === 'register') await page.locator('dialog[open]').waitFor();
      await page.look(name);
    }
    page.watch.assertClean();
    await page.context().close();
  }
});

test('a page that is left before its charts have arrived makes no error', async () => {
  const page = await browser.open(up.url);
  // Effects are cleaned up after the next paint or 35 ms: here much later, so that the charts come before.
  await page.addInitScript(() => {
    const plain = globalThis.setTimeout;
    globalThis.requestAnimationFrame = () => 0;
    globalThis.setTimeout = (fn, ms, ...more) => plain(fn, ms === 35 && globalThis.isLate ? 60000 : ms, ...more);
  });
  let release, ask;
  const asked = new Promise((done) => {
    ask = done;
  });
  const gate = new Promise((done) => {
    release = done;
  });
  await page.route('**/vendor/uplot.js', async (route) => {
    ask(route.request().url());
    await gate;
    await route.continue();
  });
  await page.reload();
  const library = await asked;
  await page.evaluate(() => {
    globalThis.isLate = true;
  });
  await page.visit('#/models');
  release();
  await page.evaluate(async (url) => {
    await import(url);
    await new Promise((done) => setTimeout(done, 100));
  }, library);
  assert.equal(await page.locator('.chart').count(), 0);
  page.watch.assertClean();
  await page.context().close();
});

test('in Japanese every text is there, and the choice is remembered', async () => {
  const page = await browser.open(up.url, { lang: 'ja' });
  await page.getByRole('heading', { level: 1, name: '概要' }).waitFor();
  await page.getByRole('button', { name: 'English' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.context().close();
  const [en, ja] = await Promise.all(
    ['en', 'ja'].map(async (lang) => (await import(`../../dashboard/i18n/${lang}.js`)).default),
  );
  const holes = (text) =>
    [...JSON.stringify(text).matchAll(/\{(\w+)\}/g)]
      .map((m) => m[1])
      .filter((n) => n !== 'count')
      .sort();
  for (const file of Object.keys(en)) {
    // Advice is the API's own in English.
    assert.deepEqual(
      Object.keys(ja[file])
        .filter((key) => !key.startsWith('advice.'))
        .sort(),
      Object.keys(en[file]).sort(),
      file,
    );
    for (const key of Object.keys(en[file]))
      assert.deepEqual([...new Set(holes(ja[file][key]))], [...new Set(holes(en[file][key]))], `${file}.${key}`);
  }
});

test('by keyboard: a skip link first, focus inside a dialog and back at its button, the theme switch', async () => {
  const page = await browser.open(`${up.url}/#/models`);
  await page.getByRole('row', { name: /demo/ }).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  const open = page.getByRole('button', { name: 'Register a model' });
  await open.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.closest('dialog') !== null), true);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), 'Register a model');
  const shade = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await shade();
  for (const name of [/System/, /Light/]) await page.getByRole('button', { name }).click();
  assert.notEqual(await shade(), light, 'dark was chosen on a light system');
  await page.reload();
  await page.locator('h1').waitFor();
  assert.notEqual(await shade(), light, 'and is remembered');
  page.watch.assertClean();
});

// No timer and no frame of the page runs until letGo(): two keys may arrive within a frame.
const hold = (page) =>
  page.evaluate(() => {
    const { requestAnimationFrame, setTimeout } = globalThis;
    const held = [];
    globalThis.requestAnimationFrame = globalThis.setTimeout = (callback) => {
      held.push(callback);
      return 0;
    };
    globalThis.letGo = () => {
      Object.assign(globalThis, { requestAnimationFrame, setTimeout });
      for (const callback of held) callback(performance.now());
    };
  });

test('a key that is pressed within the frame in which a dialog closes goes to where the focus was before', async () => {
  const page = await browser.open(`${up.url}/#/models`);
  const button = page.getByRole('button', { name: 'Register a model' });
  const dialog = (name) => page.getByRole('dialog', { name });
  await button.waitFor();
  for (const [opens, name, closes] of [
    ['Enter', 'Register a model', 'Escape'],
    ['Enter', 'Register a model', 'Cancel'],
    ['?', 'Keyboard shortcuts', 'Escape'],
    ['?', 'Keyboard shortcuts', 'Close'],
    ['Control+k', 'Search and commands', 'Escape'],
  ]) {
    await button.focus();
    await page.keyboard.press(opens);
    await dialog(name).waitFor();
    if (closes !== 'Escape') await dialog(name).getByRole('button', { name: closes }).focus();
    await hold(page);
    await page.keyboard.press(closes === 'Escape' ? 'Escape' : 'Enter');
    await page.keyboard.press('Enter');
    await page.evaluate(() => globalThis.letGo());
    await dialog('Register a model').waitFor();
    await page.keyboard.press('Escape');
    await dialog('Register a model').waitFor({ state: 'hidden' });
  }
  page.watch.assertClean();
});
