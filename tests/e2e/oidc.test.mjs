// Signing in to the dashboard with a real OpenID provider.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { Browser, makeKey, SECRET, startProvider } from '../support/oidc.mjs';
import { startBrowser } from './browser.mjs';
import { fleet, keep } from './fleet.mjs';
import { call, makeEcho, startRouter, tempDir, until } from './support.mjs';

const people = {
  ada: { email: 'ada@example.com', email_verified: true, groups: ['staff', 'router admins'] },
  vic: { email: 'vic@example.com', groups: ['auditors'] },
  una: { email: 'ada@example.com', email_verified: false, groups: ['users'] },
  nob: { email: 'nob@example.com', groups: ['guests'] },
};
let provider, router, args;

before(async () => {
  provider = await startProvider({ people });
  const file = path.join(tempDir('oidc'), 'secret');
  fs.writeFileSync(file, `${SECRET}\n`, { mode: 0o600 });
  args = [
    ...['--require-key', '--oidc-issuer', provider.issuer, '--oidc-client-id', 'router'],
    ...['--oidc-client-secret-file', file, '--oidc-scopes', 'openid email groups', '--oidc-name', 'Acme'],
    ...['--oidc-admin-group', 'router admins', '--oidc-viewer-group', 'auditors', '--oidc-api-group', 'users'],
  ];
  router = keep(await startRouter({ args }));
  provider.open([router.url]);
});
after(() => provider.close());

const me = async (browser, at = router) => (await browser.api(at, '/v0/whoami')).json;
const signedIn = async (login, at = router) => {
  const browser = new Browser();
  const { answer } = await browser.signIn(at, login);
  assert.equal(answer.status, 302, await answer.text());
  return browser;
};
const audit = async () => (await call(`${router.url}/v0/audit`, { key: router.adminKey })).json.audit;

test('whoami offers the provider, a person signs in with code and PKCE, and the groups decide about the role', async () => {
  const before = (await call(`${router.url}/v0/whoami`)).json;
  assert.deepEqual(before.sign_in, { name: 'Acme', path: '/v0/oidc/start' });
  const browser = new Browser();
  const start = await browser.fetch(`${router.url}/v0/oidc/start`);
  const asked = new URL(start.headers.get('location')).searchParams;
  assert.deepEqual(
    [asked.get('response_type'), asked.get('code_challenge_method'), asked.get('redirect_uri')],
    ['code', 'S256', `${router.url}/v0/oidc/callback`],
  );
  for (const name of ['state', 'nonce', 'code_challenge']) assert.match(asked.get(name), /^[\w-]{43}$/, name);
  const { answer } = await browser.signIn(router, 'ada');
  assert.deepEqual([answer.status, answer.headers.get('location')], [302, '/']);
  const cookie = answer.headers.getSetCookie().find((c) => !/-in=/.test(c));
  assert.match(cookie, /=[0-9A-Za-z]{43}; Path=\/; Max-Age=86400; HttpOnly; SameSite=Strict$/);
  const ada = await me(browser);
  assert.deepEqual([ada.name, ada.role, ada.signed_in], ['ada@example.com', 'admin', true]);
  const vic = await me(await signedIn('vic'));
  assert.deepEqual([vic.name, vic.role], ['vic@example.com', 'viewer']);
  const una = await me(await signedIn('una'));
  assert.deepEqual([una.name, una.role], ['una', 'api'], 'an address that was not verified is not used');
  assert.notEqual(una.id, ada.id);
  assert.equal((await me(await signedIn('ada'))).id, ada.id, 'the same person has the same id');
});

test('the audit log names the person, also in what the person changes', async () => {
  const ada = await signedIn('ada');
  const { csrf, id } = await me(ada);
  const made = await ada.api(router, '/v0/keys', { method: 'POST', body: { name: 'by ada' }, csrf });
  assert.equal(made.status, 201, made.text);
  const lines = await until('the lines', async () => {
    const all = await audit();
    return all.some((l) => l.target === made.json.id) && all.some((l) => l.action === 'session.create') && all;
  });
  const actor = `ada@example.com (${id})`;
  assert.equal(lines.find((l) => l.target === made.json.id).actor, actor);
  assert.ok(lines.some((l) => l.action === 'session.create' && l.actor === actor && l.detail === 'admin'));
});

test('a viewer reads what an admin reads, and changes nothing', async () => {
  const vic = await signedIn('vic');
  const { csrf } = await me(vic);
  for (const at of [
    '/v0/keys',
    '/v0/nodes',
    '/v0/models',
    '/v0/audit',
    '/v0/usage',
    '/v0/stats',
    '/v0/sessions',
    '/v1/models',
    '/metrics',
  ]) {
    const seen = await vic.api(router, at);
    assert.equal(seen.status, 200, `${at}: ${seen.text}`);
    assert.ok(!seen.text.includes(router.adminKey) && !seen.text.includes(SECRET));
  }
  for (const [method, at, body] of [
    ['POST', '/v0/keys', { name: 'x' }],
    ['POST', '/v0/nodes/tokens', {}],
    ['POST', '/v0/models/register', { path: 'x' }],
    ['DELETE', '/v0/models/x'],
    ['POST', '/v1/chat/completions', { model: 'x', messages: [] }],
    ['GET', '/v0/models/registry'],
  ])
    assert.equal((await vic.api(router, at, { method, body, csrf })).status, 403, `${method} ${at}`);
  const made = await call(`${router.url}/v0/keys`, { body: { role: 'viewer' }, key: router.adminKey });
  assert.equal(made.status, 201);
  assert.equal((await call(`${router.url}/v0/nodes`, { key: made.json.key })).status, 200);
  assert.equal((await call(`${router.url}/v0/keys`, { key: made.json.key, body: {} })).status, 403);
  assert.equal((await vic.api(router, '/v0/session', { method: 'DELETE', csrf })).status, 200, 'and may sign out');
});

test('a person without a group that has a role is refused, with what an operator can do', async () => {
  const { answer } = await new Browser().signIn(router, 'nob');
  assert.equal(answer.status, 403);
  assert.match(await answer.text(), /nob@example.com is in no group.*oidc-admin-group/s);
  assert.ok(!answer.headers.getSetCookie().some((c) => /=[0-9A-Za-z]{43};/.test(c)));
});

test('the answer of the provider is taken once, by the browser that began, with its own state', async () => {
  const browser = new Browser();
  const { callback, answer } = await browser.signIn(router, 'ada');
  assert.equal(answer.status, 302);
  assert.equal((await browser.fetch(callback)).status, 401, 'the cookie of the sign-in is gone');
  const other = new Browser();
  assert.equal((await other.fetch(callback)).status, 401);
  await other.fetch(`${router.url}/v0/oidc/start`);
  const stolen = await other.fetch(callback);
  assert.equal(stolen.status, 401);
  assert.match(await stolen.text(), /belongs to another sign-in/);
  const again = new Browser();
  const start = await again.fetch(`${router.url}/v0/oidc/start`);
  const state = new URL(start.headers.get('location')).searchParams.get('state');
  const wrong = await again.fetch(`${router.url}/v0/oidc/callback?code=made-up&state=${state}`);
  assert.equal(wrong.status, 401);
  assert.match(await wrong.text(), /invalid_grant/);
  for (const query of ['', '?state=x&code=y', `?state=${state}&error=access_denied&error_description=%3Cb%3Eno`]) {
    const refused = await again.fetch(`${router.url}/v0/oidc/callback${query}`);
    assert.ok([400, 401].includes(refused.status), `${query}: ${refused.status}`);
    assert.doesNotMatch(await refused.text(), /<b>/);
  }
});

// A router with a provider of its own, so that its counters are this test's.
const startOwn = async (t, more = [], from = []) => {
  const own = await startProvider({ people });
  t.after(() => own.close());
  const settings = [...args.map((a) => (a === provider.issuer ? own.issuer : a)), ...more];
  const it = from.length
    ? (await fleet(...from, { args: settings })).router
    : keep(await startRouter({ args: settings }));
  own.open([it.url]);
  return { own, it };
};

test('nobody makes a sign-in up: 80 answers with a cookie and a state of their own reach the provider never', async (t) => {
  const { own, it } = await startOwn(t);
  const one = new Browser();
  await one.fetch(`${it.url}/v0/oidc/start`);
  const name = one.cookie(it.url).split('=')[0];
  for (let i = 0; i < 80; i++) {
    const value = `${i}`.padStart(43, 'x');
    const made = [value, `${value}.${Math.floor(Date.now() / 1000)}.${value}`][i % 2];
    const state = createHmac('sha256', made).update('state').digest('base64url');
    const answer = await fetch(`${it.url}/v0/oidc/callback?code=made-up&state=${state}`, {
      headers: { cookie: `${name}=${made}` },
      redirect: 'manual',
    });
    assert.equal(answer.status, 401, await answer.text());
  }
  assert.equal(own.counts['/token'] ?? 0, 0);
  assert.equal((await me(await signedIn('ada', it), it)).role, 'admin');
});

test('an answer of the provider is used once, also when it comes twice at the same time', async (t) => {
  const { own, it } = await startOwn(t);
  const browser = new Browser();
  const callback = await browser.follow(`${it.url}/v0/oidc/start`, 'ada', (url) =>
    url.startsWith(`${it.url}/v0/oidc/callback`),
  );
  const headers = { cookie: browser.cookie(it.url) };
  const answers = await Promise.all(Array.from({ length: 8 }, () => fetch(callback, { headers, redirect: 'manual' })));
  assert.deepEqual(answers.map((a) => a.status).sort(), [302, ...Array(7).fill(401)]);
  assert.match(await answers.find((a) => a.status === 401).text(), /was used already/);
  assert.equal(own.counts['/token'], 1);
});

test('an address signs in thirty times a minute, and another address does not wait for it', async (t) => {
  const { own, it } = await startOwn(t, ['--trusted-proxy', '127.0.0.0/8']);
  const from = (address) => ({ headers: { 'x-forwarded-for': address, 'x-forwarded-proto': 'http' } });
  let refused;
  for (let i = 0; i < 61 && !refused; i++) {
    const browser = new Browser();
    const start = await browser.fetch(`${it.url}/v0/oidc/start`, from('198.51.100.7'));
    if (start.status === 429) refused = start;
    else {
      const state = new URL(start.headers.get('location')).searchParams.get('state');
      const at = `${it.url}/v0/oidc/callback?code=made-up&state=${state}`;
      const answer = await browser.fetch(at, from('198.51.100.7'));
      if (answer.status === 429) refused = answer;
    }
  }
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
  assert.match(await refused.text(), /60 requests to sign in a minute came from 198\.51\.100\.7/);
  assert.ok(own.counts['/token'] >= 30 && own.counts['/token'] < 61, `${own.counts['/token']}`);
  assert.equal((await new Browser().fetch(`${it.url}/v0/oidc/start`, from('198.51.100.8'))).status, 302);
});

test('without its database a router refuses an answer of the provider and says why', async (t) => {
  const dir = tempDir('router');
  const own = await startProvider({ people });
  t.after(() => own.close());
  const settings = [...args.map((a) => (a === provider.issuer ? own.issuer : a)), '--database-timeout', '1s'];
  const it = keep(await startRouter({ args: settings, dir }));
  own.open([it.url]);
  const browser = new Browser();
  const callback = await browser.follow(`${it.url}/v0/oidc/start`, 'ada', (url) =>
    url.startsWith(`${it.url}/v0/oidc/callback`),
  );
  const headers = { cookie: browser.cookie(it.url) };
  const other = new DatabaseSync(path.join(dir, 'router.db'));
  other.exec('BEGIN IMMEDIATE');
  const refused = await fetch(callback, { headers, redirect: 'manual' });
  other.exec('ROLLBACK');
  other.close();
  assert.equal(refused.status, 503);
  assert.match(await refused.text(), /signing in needs the database/);
  assert.equal(own.counts['/token'] ?? 0, 0);
  const later = await until('the database is back', async () => {
    const answer = await fetch(callback, { headers, redirect: 'manual' });
    return answer.status !== 503 && answer;
  });
  assert.equal(later.status, 302, 'the answer was not used up');
});

test('a person who signed in reads, cancels and deletes the own stored responses, and nobody else does', async (t) => {
  const model = makeEcho('m');
  const { it } = await startOwn(t, [], [1, model]);
  const ada = await signedIn('ada', it);
  const una = await signedIn('una', it);
  const { csrf } = await me(ada, it);
  const ask = (more) =>
    ada.api(it, '/v1/responses', { method: 'POST', csrf, body: { model: 'm', input: 'Hello', ...more } });
  const made = await ask({});
  assert.equal(made.status, 200, made.text);
  const at = `/v1/responses/${made.json.id}`;
  assert.equal((await una.api(it, at)).status, 404);
  const read = await until('it is stored', async () => {
    const seen = await ada.api(it, at);
    return seen.status === 200 && seen;
  });
  assert.equal(read.json.id, made.json.id);
  assert.equal((await ada.api(it, `${at}/input_items`)).json.data.length, 1);
  const long = await ask({ background: true });
  const cancelled = await ada.api(it, `/v1/responses/${long.json.id}/cancel`, { method: 'POST', csrf });
  assert.equal(cancelled.status, 200, cancelled.text);
  assert.equal((await ada.api(it, at, { method: 'DELETE', csrf })).status, 200);
  assert.equal((await ada.api(it, at)).status, 404);
});

test('signing out ends the session here and leads to the provider, which ends its own', async () => {
  const ada = await signedIn('ada');
  const { csrf } = await me(ada);
  const out = await ada.api(router, '/v0/session', { method: 'DELETE', csrf });
  assert.equal(out.status, 200);
  assert.equal((await ada.api(router, '/v0/keys')).status, 401);
  const end = await ada.follow(out.json.redirect, 'ada', (url) => url.startsWith(router.url));
  assert.equal(end.split('?')[0], `${router.url}/`);
  // The provider asks for the name again: its session is over.
  const start = await ada.fetch(`${router.url}/v0/oidc/start`);
  const login = await ada.fetch(start.headers.get('location'));
  const page = await ada.fetch(new URL(login.headers.get('location'), provider.issuer).href);
  assert.match(await page.text(), /name="login"/);
});

test('an admin sees the sessions and ends the session of another person', async () => {
  const vic = await signedIn('vic');
  const list = (await call(`${router.url}/v0/sessions`, { key: router.adminKey })).json.sessions;
  const own = (await vic.api(router, '/v0/sessions')).json.sessions.find((s) => s.own);
  assert.deepEqual([own.name, own.role, own.person], ['vic@example.com', 'viewer', true]);
  assert.ok(list.some((s) => s.id === own.id && !s.own));
  const end = (id) => call(`${router.url}/v0/sessions/${id}`, { method: 'DELETE', key: router.adminKey });
  assert.equal((await end(own.id)).status, 200);
  assert.equal((await vic.api(router, '/v0/sessions')).status, 401);
  assert.equal((await end(own.id)).status, 404);
});

test('in a browser: the button, the way over the provider and back to the page, the name, and the way out', async (t) => {
  const browser = await startBrowser();
  t.after(() => browser.close());
  const page = await browser.open(`${router.url}/#/nodes`);
  await page.look('signin-provider');
  page.watch.assertClean();
  await page.getByRole('link', { name: 'Sign in with Acme' }).click();
  await page.locator('input[name=login]').fill('vic');
  await page.locator('input[name=password]').fill('any');
  await page.locator('button[type=submit]').click();
  await page.locator('form[action*="interaction"] button[type=submit]').click(); // consent
  await page.getByText('vic@example.com · viewer').waitFor();
  assert.match(page.url(), /#\/nodes$/);
  await page.getByRole('button', { name: /^Sign out/ }).click();
  await page.locator('button[value=yes]').click(); // at the provider
  await page.getByRole('link', { name: 'Sign in with Acme' }).waitFor();
});

// Afterwards this router knows no key of the provider for a minute.
test('tokens signed by every supported algorithm are taken, and changed keys are fetched at once, within bounds', async () => {
  await signedIn('ada');
  const before = provider.counts['/jwks'];
  for (const alg of ['ES256', 'EdDSA', 'PS256', 'RS512', 'ES384']) {
    provider.change({ keys: [makeKey(alg, `key-${alg}`), makeKey('RS256', `other-${alg}`)] });
    const vic = await me(await signedIn('vic'));
    assert.equal(vic.role, 'viewer', alg);
  }
  assert.equal(provider.counts['/jwks'], before + 5, 'one fetch for each change');
  // The router remembers a bounded number of fetches a minute: keys that never fit are refused.
  let refused;
  for (let i = 0; i < 4 && !refused; i++) {
    provider.change({ keys: [makeKey('ES256', `again-${i}`), makeKey('RS256', `rest-${i}`)] });
    const { answer } = await new Browser().signIn(router, 'vic');
    if (answer.status !== 302) refused = await answer.text();
  }
  assert.match(refused, /none of the \d+ keys has the id/);
  assert.ok(provider.counts['/jwks'] <= before + 7, `${provider.counts['/jwks'] - before} fetches`);
});

test('a session survives a restart of the router; a provider that is away is told, and key sign-in still works', async () => {
  const own = await startProvider({ people });
  const dir = tempDir('router');
  const settings = args.map((a) => (a === provider.issuer ? own.issuer : a));
  let it = await startRouter({ args: settings, dir });
  const { url, adminKey } = it;
  own.open([url]);
  const ada = await signedIn('ada', it);
  await it.stop();
  it = keep(await startRouter({ args: settings, dir, port: Number(new URL(url).port) }));
  assert.equal((await me(ada, it)).name, 'ada@example.com');
  const { csrf } = await me(ada, it);
  assert.equal((await ada.api(it, '/v0/keys', { method: 'POST', body: { name: 'after' }, csrf })).status, 201);
  own.isDown = true;
  const again = await startRouter({ args: settings });
  const failed = await fetch(`${again.url}/v0/oidc/start`, { redirect: 'manual' });
  assert.equal(failed.status, 502);
  assert.match(await failed.text(), /answered 503 for the discovery document/);
  assert.equal((await call(`${again.url}/v0/session`, { body: { key: again.adminKey } })).status, 200);
  assert.ok(adminKey);
  await again.stop();
  own.close();
});

test('a session survives a handover to a new router', async () => {
  const dir = tempDir('router');
  const old = await startRouter({ args: ['--require-key'], dir });
  const signIn = await call(`${old.url}/v0/session`, { body: { key: old.adminKey } });
  const cookie = signIn.headers.get('set-cookie').split(';')[0];
  const next = keep(await startRouter({ args: ['--require-key', '--takeover'], dir }));
  await old.ended;
  const seen = await call(`${next.url}/v0/whoami`, { headers: { cookie } });
  assert.deepEqual([seen.json.name, seen.json.csrf], ['first admin', signIn.json.csrf]);
});

test('settings that cannot work are refused at the start, with what to do', async () => {
  const refused = async (...more) => {
    const failure = await startRouter({ args: more }).then(
      (r) => r.stop().then(() => 'it started'),
      (error) => error.message,
    );
    return failure;
  };
  const base = ['--require-key', '--oidc-issuer', provider.issuer, '--oidc-client-id', 'x'];
  assert.match(await refused(...base), /name groups with oidc-admin-group/);
  assert.match(await refused(...base.slice(1), '--oidc-default-role', 'viewer'), /add --require-key/);
  assert.match(await refused('--require-key', '--oidc-issuer', 'http://id.example.com'), /oidc-client-id/);
  assert.match(
    await refused('--require-key', '--oidc-issuer', 'http://id.example.com', '--oidc-client-id', 'x'),
    /must be an https URL/,
  );
});
