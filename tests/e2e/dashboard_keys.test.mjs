// Signing in with a browser; keys made, used, seen in the usage and revoked; the audit log.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startBrowser } from './browser.mjs';
import { call, makeEcho, online, register, say, startNode, startRouter, until } from './support.mjs';

const HOSTILE = '<img src=x onerror="globalThis.broken=1">';
let router, node, browser;

before(async () => {
  router = await startRouter({
    args: ['--require-key', '--allow-cpu-nodes', '--price', 'echo=1000/2000', '--currency', 'EUR'],
  });
  node = await startNode(router, { args: ['--model', makeEcho('echo')] });
  await until('the node is online', async () => (await nodesOnline()) === 1);
  await register(router, 'echo');
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await node?.stop();
  await router?.stop();
});
const nodesOnline = () => online(router);
const talk = (key) => call(`${router.url}/v1/chat/completions`, { key, body: { model: 'echo', ...say('hello') } });

async function signIn(key = router.adminKey, { page, at = '#/keys', ...options } = {}) {
  page ??= await browser.open(`${router.url}/${at}`, options);
  await page.getByLabel('Key', { exact: true }).fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  return page;
}

const row = (page, name) => page.getByRole('region', { name: 'Keys' }).getByRole('row').filter({ hasText: name });

async function create(page, name, fill = async () => {}) {
  await page.getByRole('button', { name: 'Create key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill(name);
  await fill(dialog);
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await dialog.getByText('Copy the key now').waitFor();
  const key = await dialog.locator('.made-key input').inputValue();
  return { key, dialog };
}

test("a wrong key shows the API's message; the right key opens the page; signing out closes it", async () => {
  const page = await browser.open(`${router.url}/#/keys`);
  page.watch.allow(401);
  await page.look('signin');
  await signIn('lr-wrong', { page });
  await page.getByRole('alert').waitFor();
  const said = (await call(`${router.url}/v0/session`, { body: { key: 'lr-wrong' } })).json.error.message;
  assert.equal(await page.locator('.error-message').textContent(), said);
  assert.equal(
    await page.getByLabel('Key', { exact: true }).evaluate((input) => input === document.activeElement),
    true,
  );
  await signIn(router.adminKey, { page });
  await page.getByRole('heading', { name: 'Keys and usage' }).waitFor();
  assert.deepEqual(await page.evaluate(() => document.cookie), '', 'scripts do not see the session');
  await page.reload();
  await page.getByRole('heading', { name: 'Keys and usage' }).waitFor();
  await page.getByRole('button', { name: /^Sign out/ }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('a key is created, shown once, used, counted in the usage, revoked, and refused from then on', async () => {
  const page = await signIn();
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const { key, dialog } = await create(page, 'Hanako', async (form) => {
    await form.getByLabel('Requests per minute').fill('60');
    await form.getByLabel('Tokens per minute').fill('100000');
    await form.getByLabel('Owner').fill('sales');
    await form.getByLabel('Expires').selectOption('month');
  });
  assert.match(key, /^lr-[0-9A-Za-z]{43}$/);
  await page.look('keys-made', { fullPage: false });
  await dialog.getByRole('button', { name: 'Copy' }).click();
  await dialog.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), key);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await row(page, 'Hanako').waitFor();
  assert.match(
    await row(page, 'Hanako').textContent(),
    /api.*Active.*60 requests\/min, 100,000 tokens\/min.*in 30 days/,
  );
  assert.doesNotMatch(await page.content(), new RegExp(key.slice(3)), 'it is nowhere in the page any more');
  for (let i = 0; i < 3; i++) assert.equal((await talk(key)).status, 200);
  await page.visit('#/keys/usage');
  await page.getByLabel('Usage of').selectOption({ label: 'Hanako' });
  const usage = page.getByRole('region', { name: 'Usage by key' }).getByRole('row').filter({ hasText: 'Hanako' });
  await until(
    'the three requests are booked',
    async () => (await usage.count()) === 1 && (await usage.getByRole('cell').first().textContent()) === '3',
  );
  await until('the chart tells it', async () =>
    /Requests over time: 3 in total/.test(
      await page.getByRole('img', { name: /^Requests over time/ }).getAttribute('aria-label'),
    ),
  );

  await page.getByLabel('Stacked').selectOption('model');
  await page.getByRole('region', { name: 'Usage by model' }).getByRole('row', { name: /echo/ }).waitFor();
  await page.getByLabel('Stacked').selectOption('owner');
  const owners = page.getByRole('region', { name: 'Usage by owner' });
  await owners.getByRole('columnheader', { name: 'Cost (EUR)' }).waitFor();
  const shown = await owners.getByRole('row', { name: /sales/ }).getByRole('cell').last().textContent();
  const exported = async (name) => {
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name }).click()]);
    return fs
      .readFileSync(await file.path(), 'utf8')
      .trim()
      .split(/\r?\n/);
  };
  const [head, ...csv] = await exported('Export CSV');
  assert.match(head, /^time,key,key_name,owner,model,requests,.*,cost$/);
  assert.ok(csv.length > 0 && csv.every((line) => line.includes(',"Hanako","sales","echo",')), csv.join('\n'));
  const lines = (await exported('Export JSON lines')).map((line) => JSON.parse(line));
  const cost = lines.reduce((sum, line) => sum + line.cost, 0);
  assert.ok(cost > 0 && Math.abs(Number(shown) - cost) < 1e-4, `${shown} on the page, ${cost} in the file`);
  await page.visit('#/keys');
  await page.getByRole('button', { name: 'Revoke Hanako' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await talk(key)).status, 200, 'not yet');
  await page.getByRole('button', { name: 'Revoke Hanako' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('Hanako was revoked').waitFor();
  const refused = await talk(key);
  assert.equal(refused.status, 401);
  assert.match(refused.json.error.message, /revoked/);
  await until('the row is gone', async () => (await row(page, 'Hanako').count()) === 0);
  await page.getByLabel(/Show \d+ revoked or expired/).check();
  assert.match(await row(page, 'Hanako').textContent(), /Revoked/);
  await page.visit('#/keys/audit');
  const log = page.getByRole('region', { name: 'Audit log' });
  await log.getByRole('row').filter({ hasText: 'key.revoke' }).filter({ hasText: 'Hanako' }).waitFor();
  await log.getByRole('row').filter({ hasText: 'session.create' }).first().waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('a key is edited while it is in use: the page shows the new limits, and refused values stay in the form', async () => {
  const page = await signIn();
  page.watch.allow(400);
  const { key, dialog } = await create(page, 'Taro', async (form) => {
    await form.getByLabel('Requests per minute').fill('60');
    await form.getByLabel('Expires').selectOption('month');
    await form.getByLabel('Models', { exact: true }).fill('echo, other/model');
  });
  await dialog.getByRole('button', { name: 'Done' }).click();
  assert.match(await row(page, 'Taro').textContent(), /60 requests\/min, only echo, other\/model.*in 30 days/);
  await page.getByRole('button', { name: 'Edit Taro' }).click();
  const form = page.getByRole('dialog');
  assert.deepEqual(
    [
      await form.getByLabel('Name').inputValue(),
      await form.getByLabel('Requests per minute').inputValue(),
      await form.getByLabel('Models', { exact: true }).inputValue(),
    ],
    ['Taro', '60', 'echo, other/model'],
  );
  assert.equal(await form.getByText('Role').count(), 0, 'a role cannot be changed');
  await page.look('keys-edit', { fullPage: false });
  await form.getByLabel('Models', { exact: true }).fill('../no');
  await form.getByRole('button', { name: 'Save' }).click();
  await form.getByRole('alert').waitFor();
  assert.match(await form.getByRole('alert').textContent(), /"models"/);
  await form.getByLabel('Models', { exact: true }).fill('other/model');
  await form.getByLabel('Requests per minute').fill('');
  await form.getByLabel('Name').fill('Jiro');
  await form.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Taro was changed').waitFor();
  await until('the row tells it', async () =>
    /only other\/model.*in 30 days/.test(await row(page, 'Jiro').textContent()),
  );
  assert.doesNotMatch(await row(page, 'Jiro').textContent(), /requests/);
  assert.equal((await talk(key)).status, 404, 'it holds at once');
  await page.visit('#/keys/audit');
  await page
    .getByRole('region', { name: 'Audit log' })
    .getByRole('row')
    .filter({ hasText: 'key.change' })
    .filter({ hasText: '127.0.0.1' })
    .filter({ hasText: 'models: echo other/model → other/model' })
    .waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('owner, label, addresses and further limits are fields of the form; a new secret is shown once and overlaps the old one', async () => {
  const page = await signIn();
  const { key, dialog } = await create(page, 'Yuki', async (form) => {
    await form.getByLabel('Owner').fill('team-a');
    await form.getByLabel('Label').fill('nightly');
    await form.getByLabel('Addresses').fill('127.0.0.0/8, 10.1.2.3');
    await form.getByLabel('Requests at the same time').fill('4');
    await form.getByLabel('Largest request in bytes').fill('65536');
    await form.getByLabel('Tokens per month').fill('5000');
    await form.getByLabel('Warn at').fill('4000');
  });
  await dialog.getByRole('button', { name: 'Done' }).click();
  assert.match(
    await row(page, 'Yuki').textContent(),
    /team-a · nightly.*4 at the same time.*from 127\.0\.0\.0\/8, 10\.1\.2\.3/,
  );
  const mine = async () =>
    (await call(`${router.url}/v0/keys`, { key: router.adminKey })).json.keys.find((k) => k.name === 'Yuki');
  const stored = await mine();
  assert.deepEqual(
    [stored.request_bytes, stored.tokens_per_month, stored.tokens_per_month_soft, stored.concurrent_requests],
    [65536, 5000, 4000, 4],
  );
  await page.getByRole('button', { name: 'Edit Yuki' }).click();
  assert.equal(await dialog.getByLabel('Addresses').inputValue(), stored.addresses.join(', '));
  await dialog.getByLabel('Label').fill('');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Yuki was changed').waitFor();
  await page.getByRole('button', { name: 'Rotate Yuki' }).click();
  await dialog.getByLabel('The old secret stays valid').selectOption('hour');
  await dialog.getByRole('button', { name: 'Rotate', exact: true }).click();
  await dialog.getByText(/The old secret is valid until/).waitFor();
  const next = await dialog.locator('.made-key input').inputValue();
  await page.keyboard.press('Escape');
  assert.notEqual(await dialog.locator('.made-key input').inputValue(), key, 'Esc does not lose it');
  await dialog.getByRole('button', { name: 'Done' }).click();
  assert.deepEqual([(await talk(key)).status, (await talk(next)).status], [200, 200]);
  await row(page, 'Yuki')
    .getByText(/^Old secret ends in (60|59) minutes$/)
    .waitFor();
  const { label, owner, addresses } = await mine();
  assert.deepEqual([label, owner, addresses], [undefined, 'team-a', stored.addresses]);
  page.watch.assertClean();
  await page.context().close();
});

test('a key that is shown once stays until the operator is done: Esc does not close it', async () => {
  const page = await signIn();
  const { key, dialog } = await create(page, 'Keiko');
  for (let i = 0; i < 3; i++) await page.keyboard.press('Escape');
  assert.equal(await dialog.locator('.made-key input').inputValue(), key);
  assert.equal(await dialog.getByRole('button', { name: 'Close' }).count(), 0);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await dialog.waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'Create key' }).click();
  await dialog.getByLabel('Name').fill('not made');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  page.watch.assertClean();
  await page.context().close();
});

test('a limit to a model that does not exist is warned about before the key is made', async () => {
  const page = await signIn();
  await page.getByRole('button', { name: 'Create key' }).click();
  const dialog = page.getByRole('dialog');
  const models = dialog.getByLabel('Models', { exact: true });
  await models.fill('echo, ehco');
  await dialog.getByText('No registered model has the name ehco.').waitFor();
  await models.fill('ECHO');
  await dialog.getByText('No registered model').waitFor({ state: 'detached' });
  page.watch.assertClean();
  await page.context().close();
});

test('join tokens have a page of their own: made, counted and revoked there, and not among the keys of people', async () => {
  const page = await signIn(router.adminKey, { at: '#/keys/tokens' });
  const table = page.getByRole('region', { name: 'Join tokens' });
  await table.getByText('1 of 1').first().waitFor(); // of the node of this test
  await page.getByRole('button', { name: 'Create token' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Create a token' }).click();
  await page
    .getByRole('dialog')
    .getByText(/--token lr-/)
    .waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
  await table.getByText('0 of 1').waitFor();
  await table
    .getByRole('row')
    .filter({ hasText: '0 of 1' })
    .getByRole('button', { name: /^Revoke/ })
    .click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await table.getByRole('row').filter({ hasText: '0 of 1' }).getByText('Revoked').waitFor();
  await page.getByRole('link', { name: 'Keys', exact: true }).last().click();
  await page.getByRole('region', { name: 'Keys' }).waitFor();
  assert.equal(await page.getByRole('region', { name: 'Keys' }).getByText('join token').count(), 0);
  page.watch.assertClean();
  await page.context().close();
});

test('names are shown as text, never as HTML; an error of the API stays until it is dismissed', async () => {
  const page = await signIn();
  page.watch.allow(400);
  const { dialog } = await create(page, HOSTILE);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await row(page, HOSTILE).waitFor();
  await page.visit('#/keys/usage');
  await page.getByLabel('Usage of').selectOption({ label: HOSTILE });
  await page.visit('#/keys');
  await page.getByRole('button', { name: `Revoke ${HOSTILE}` }).click();
  await page.getByRole('heading', { name: `Revoke ${HOSTILE}?` }).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.visit('#/keys/audit');
  await page.getByRole('region', { name: 'Audit log' }).getByText(HOSTILE).first().waitFor();
  assert.deepEqual(await page.evaluate(() => [globalThis.broken, document.querySelectorAll('main img').length]), [
    undefined,
    0,
  ]);
  await page.visit('#/keys');
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('あ'.repeat(40)); // 120 bytes
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  const note = page.getByRole('dialog').getByRole('alert');
  await note.waitFor();
  assert.match(await note.textContent(), /"name" must be a string of up to 63 bytes/);
  await note.getByRole('button', { name: 'Dismiss' }).click();
  assert.equal(await note.count(), 0);
  page.watch.assertClean();
  await page.context().close();
});

test('a key of role api has a page of its own: limits, budget, usage of the month, models and code for clients', async () => {
  const body = { name: 'own', role: 'api', requests_per_minute: 30, tokens_per_month: 1000, tokens_per_month_soft: 10 };
  const made = (await call(`${router.url}/v0/keys`, { key: router.adminKey, body })).json;
  for (let i = 0; i < 2; i++) assert.equal((await talk(made.key)).status, 200);
  const page = await signIn(made.key, { at: '#/self' });
  await page.getByRole('heading', { level: 1, name: 'Your key' }).waitFor();
  await until('the usage is counted', async () => {
    await page.reload();
    await page.getByRole('heading', { level: 1, name: 'Your key' }).waitFor();
    await page.getByText(/\d requests, \d+ tokens/).waitFor();
    return page.getByText(/^2 requests, [1-9]\d* tokens$/).isVisible();
  });
  await page.getByText(/^30, \d+ left$/).waitFor();
  await page.getByText(/^\d+ of 1,000$/).waitFor();
  assert.equal(await page.locator('.meter.warn').count(), 1, 'beyond the soft limit');
  await page.getByRole('region', { name: 'Usage by model' }).getByRole('row', { name: /echo/ }).waitFor();
  await page.getByRole('link', { name: 'echo', exact: true }).waitFor();
  const codes = {
    curl: /Bearer \$LLM_ROUTER_KEY/,
    Python: /from openai/,
    JavaScript: /new OpenAI/,
    'Claude Code': /claude --model 'echo'/,
    Codex: /codex -m 'echo'/,
  };
  for (const [name, text] of Object.entries(codes)) {
    await page.getByRole('tab', { name }).click();
    assert.match(await page.getByRole('tabpanel', { name }).textContent(), text);
  }
  await page.look('self');
  page.watch.assertClean();
  await page.context().close();
  const admin = await signIn();
  await row(admin, 'own')
    .getByText(/^\d+ of 1,000$/)
    .waitFor();
  await admin.context().close();
});

test('a key of role api sees the playground and its own page only, and its session ends with it', async () => {
  const made = (await call(`${router.url}/v0/keys`, { key: router.adminKey, body: { name: 'guest', role: 'api' } }))
    .json;
  const page = await signIn(made.key, { at: '#/playground' });
  page.watch.allow(401);
  await page.getByRole('textbox', { name: 'Message' }).fill('hello');
  assert.deepEqual(await page.getByRole('navigation', { name: 'Main' }).getByRole('link').allTextContents(), [
    'Playground',
    'Your key',
  ]);
  await page.getByRole('textbox', { name: 'Message' }).press('Enter');
  await page.locator('.turn-tools').last().waitFor();
  // The command to copy works with the key in the environment, and holds no key itself.
  await page.getByRole('button', { name: 'Use in code' }).click();
  const command = await page.locator('.snippet pre').textContent();
  assert.doesNotMatch(command, /lr-[0-9A-Za-z]{10}/);
  const run = (key) =>
    promisify(execFile)('bash', ['-c', `${command} -sS --noproxy '*'`], {
      env: { ...process.env, LLM_ROUTER_KEY: key },
    });
  assert.match((await run(made.key)).stdout, /data: \[DONE\]/);
  assert.match((await run('lr-wrong')).stdout, /not issued here/);
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  await call(`${router.url}/v0/keys/${made.id}`, { method: 'DELETE', key: router.adminKey });
  await page.getByRole('textbox', { name: 'Message' }).fill('again');
  await page.getByRole('textbox', { name: 'Message' }).press('Enter');
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('a viewer sees every page and no button that changes something, with the reason', async () => {
  const make = (body) => call(`${router.url}/v0/keys`, { key: router.adminKey, body });
  const { key } = (await make({ name: 'auditor', role: 'viewer' })).json;
  const [{ id }] = (await call(`${router.url}/v0/nodes`, { key: router.adminKey })).json.nodes;
  const page = await signIn(key, { at: '#/keys' });
  await row(page, 'auditor').waitFor();
  const orders = /register|load|unload|drain|delete|remove|create|revoke|edit|rotate|silence|add|restart|chat/i;
  for (const at of [
    '#/keys',
    '#/keys/tokens',
    '#/models?register',
    '#/models/echo',
    '#/nodes',
    `#/nodes/${id}`,
    '#/overview',
  ]) {
    await page.visit(at);
    await page.locator('main .page').getByText('The role viewer sees everything and changes nothing.').waitFor();
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    const buttons = await page
      .locator('main')
      .locator('button, a.button')
      .evaluateAll((all) =>
        all
          .filter((b) => !b.classList.contains('sort'))
          .map((b) => b.getAttribute('aria-label') ?? b.textContent.trim()),
      );
    assert.deepEqual(
      buttons.filter((text) => orders.test(text)),
      [],
      at,
    );
    assert.equal(await page.getByRole('dialog').count(), 0, at);
  }
  assert.equal(
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Playground' }).count(),
    0,
  );
  await page.visit('#/playground');
  await page.getByRole('heading', { name: 'A viewer cannot send requests to models' }).waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('a page that sends no requests notices that its session has ended', async () => {
  const made = (await call(`${router.url}/v0/keys`, { key: router.adminKey, body: { name: 'watcher', role: 'admin' } }))
    .json;
  const page = await signIn(made.key, { at: '#/overview' });
  page.watch.allow(401);
  await page.getByText('Live', { exact: true }).waitFor();
  await call(`${router.url}/v0/keys/${made.id}`, { method: 'DELETE', key: router.adminKey });
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('keys and sign-in have no accessibility or layout fault in both themes and on a phone', async () => {
  const busy = (
    await call(`${router.url}/v0/keys`, {
      key: router.adminKey,
      body: { name: 'batch jobs', role: 'api', tokens_per_minute: 5000 },
    })
  ).json;
  for (let i = 0; i < 4; i++) await talk(i % 2 ? busy.key : router.adminKey);
  for (const [scheme, size] of [
    ['light', 'desktop'],
    ['dark', 'desktop'],
    ['dark', 'phone'],
  ]) {
    const page = await browser.open(`${router.url}/#/keys`, { scheme, size });
    if (scheme === 'dark') await page.look('signin');
    await signIn(router.adminKey, { page });
    await page.getByRole('region', { name: 'Keys' }).waitFor();
    await page.look('keys');
    for (const [part, region] of [
      ['tokens', 'Join tokens'],
      ['usage', 'Usage by key'],
      ['audit', 'Audit log'],
    ]) {
      await page.visit(`#/keys/${part}`);
      await page.getByRole('region', { name: region }).waitFor();
      await page.look(`keys-${part}`);
    }
    await page.visit('#/keys');
    if (size === 'phone') {
      await page.getByRole('button', { name: 'Create key' }).click();
      await page.look('keys-create', { fullPage: false });
    }
    page.watch.assertClean();
    await page.context().close();
  }
});
