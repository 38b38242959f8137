// Sessions with a browser's cookie: the cookie's properties, its rights, when it ends.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, startRouter, until } from './support.mjs';

let router, open;
const left = [];
before(async () => {
  router = await startRouter({ args: ['--require-key'] });
  open = await startRouter();
  left.push(router, open);
});
after(() => Promise.all(left.map((p) => p.stop())));

const signIn = (key, { to = router, headers } = {}) => call(`${to.url}/v0/session`, { body: { key }, headers });

async function session(key, to = router) {
  const answer = await signIn(key, { to });
  assert.equal(answer.status, 200, answer.text);
  return { cookie: answer.headers.get('set-cookie').split(';')[0], csrf: answer.json.csrf, answer };
}

const makeKey = async (body) => (await call(`${router.url}/v0/keys`, { body, key: router.adminKey })).json;

test('the cookie cannot be read by scripts or sent by other sites, and is Secure under TLS', async () => {
  const { answer } = await session(router.adminKey);
  const cookie = answer.headers.get('set-cookie');
  assert.match(cookie, /^llm-router-\d+=[0-9A-Za-z]{43}; Path=\/; Max-Age=86400; HttpOnly; SameSite=Strict$/);
  assert.equal(answer.headers.get('cache-control'), 'no-store');
  assert.doesNotMatch(answer.text, new RegExp(cookie.match(/=([^;]+)/)[1]));
  const behindTls = await signIn(router.adminKey, { headers: { 'x-forwarded-proto': 'https' } });
  assert.match(behindTls.headers.get('set-cookie'), /; Secure$/);
});

test('whoami tells every client its identity and rights', async () => {
  const ask = async (options) => await call(`${router.url}/v0/whoami`, options);
  assert.deepEqual((await ask()).json, {
    id: '',
    name: '',
    role: 'public',
    needs_key: true,
    signed_in: false,
    csrf: '',
  });
  const { cookie, csrf } = await session(router.adminKey);
  const me = (await ask({ headers: { cookie } })).json;
  assert.deepEqual([me.role, me.name, me.signed_in, me.csrf], ['admin', 'first admin', true, csrf]);
  assert.equal((await ask({ key: router.adminKey })).json.signed_in, false);
  assert.equal((await ask({ key: 'lr-wrong' })).status, 401);
  assert.equal((await ask({ headers: { cookie: `${cookie}x` } })).json.role, 'public');
  assert.deepEqual((await call(`${open.url}/v0/whoami`)).json, {
    id: 'local',
    name: 'local',
    role: 'admin',
    needs_key: false,
    signed_in: false,
    csrf: '',
  });
});

test('a session has the rights of its key: it reads with the cookie, and changes things only with its own CSRF token', async () => {
  const admin = await session(router.adminKey),
    other = await session(router.adminKey);
  const make = (headers) =>
    call(`${router.url}/v0/keys`, { body: { name: 'made' }, headers: { cookie: admin.cookie, ...headers } });
  assert.equal((await call(`${router.url}/v0/keys`, { headers: { cookie: admin.cookie } })).status, 200);
  assert.equal((await make({})).status, 403);
  assert.equal((await make({ 'x-csrf-token': '' })).status, 403);
  assert.equal((await make({ 'x-csrf-token': other.csrf })).status, 403);
  assert.equal((await make({ 'x-csrf-token': admin.csrf.slice(0, -1) })).status, 403);
  const made = await make({ 'x-csrf-token': admin.csrf });
  assert.equal(made.status, 201);
  const api = await session(made.json.key);
  assert.equal((await call(`${router.url}/v1/models`, { headers: { cookie: api.cookie } })).status, 200);
  assert.equal((await call(`${router.url}/v0/keys`, { headers: { cookie: api.cookie } })).status, 403);
});

test('signing out ends the session and deletes the cookie', async () => {
  const { cookie, csrf } = await session(router.adminKey);
  const out = (headers) => call(`${router.url}/v0/session`, { method: 'DELETE', headers: { cookie, ...headers } });
  assert.equal((await out({})).status, 403);
  const answer = await out({ 'x-csrf-token': csrf });
  assert.equal(answer.status, 200);
  assert.match(answer.headers.get('set-cookie'), /^llm-router-\d+=; Path=\/; Max-Age=0;/);
  const after = await call(`${router.url}/v0/keys`, { headers: { cookie } });
  assert.equal(after.status, 401);
  assert.match(after.json.error.message, /sign in/);
});

test('signing in again ends the earlier session', async () => {
  const first = await session(router.adminKey);
  const second = await signIn(router.adminKey, { headers: { cookie: first.cookie } });
  assert.equal(second.status, 200);
  assert.equal((await call(`${router.url}/v0/keys`, { headers: { cookie: first.cookie } })).status, 401);
  assert.equal(
    (await call(`${router.url}/v0/keys`, { headers: { cookie: second.headers.get('set-cookie').split(';')[0] } }))
      .status,
    200,
  );
});

test('a revoked key ends its sessions at once, an expired one too, and their streams', async () => {
  const key = await makeKey({ name: 'short', role: 'admin' });
  const { cookie } = await session(key.key);
  const stream = await fetch(`${router.url}/v0/events`, { headers: { cookie } });
  assert.equal(stream.status, 200);
  let isOpen = true;
  (async () => {
    for await (const _ of stream.body);
    isOpen = false;
  })().catch(() => {});
  await call(`${router.url}/v0/keys/${key.id}`, { method: 'DELETE', key: router.adminKey });
  assert.equal((await call(`${router.url}/v0/keys`, { headers: { cookie } })).status, 401);
  await until('its stream has ended', () => !isOpen, 5000);
  const brief = await makeKey({ name: 'brief', role: 'admin', expires_in: 3 });
  const second = await session(brief.key);
  await until(
    'the key expires',
    async () => (await call(`${router.url}/v0/keys`, { headers: { cookie: second.cookie } })).status === 401,
  );
});

test('an unused session ends after session-idle, a used one after session-life', async () => {
  const quick = await startRouter({ args: ['--require-key', '--session-idle', '1s', '--session-life', '2500ms'] });
  left.push(quick);
  const unused = await session(quick.adminKey, quick);
  const begun = Date.now(); // its life begins later, and not only when the answer has arrived
  const used = await session(quick.adminKey, quick);
  const alive = async ({ cookie }) => (await call(`${quick.url}/v0/keys`, { headers: { cookie } })).status === 200;
  await until('the life of a used session is over', async () => !(await alive(used)), 5000);
  assert.ok(Date.now() - begun >= 2400, `${Date.now() - begun} ms`);
  assert.equal(await alive(unused), false);
});

test('a wrong key is refused with the reason; a key of role node, a form and another page are refused', async () => {
  const wrong = await signIn('lr-wrong');
  assert.equal(wrong.status, 401);
  assert.match(wrong.json.error.message, /not issued here/);
  assert.equal(wrong.headers.get('set-cookie'), null);
  assert.equal((await signIn((await makeKey({ name: 'n', role: 'node' })).key)).status, 403);
  assert.equal((await call(`${router.url}/v0/session`, { raw: '{"key":1}' })).status, 400);
  assert.equal(
    (
      await call(`${router.url}/v0/session`, {
        raw: `key=${router.adminKey}`,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      })
    ).status,
    415,
  );
  assert.equal((await signIn(router.adminKey, { headers: { 'sec-fetch-site': 'cross-site' } })).status, 403);
  assert.equal((await signIn(router.adminKey, { headers: { 'sec-fetch-site': 'same-site' } })).status, 403);
});

test('wrong keys are limited per address, and the answer says how long to wait; a valid key signs in from there all the same', async () => {
  const guarded = await startRouter({ args: ['--require-key'] });
  left.push(guarded);
  const statuses = [];
  let late;
  for (let i = 0; i < 12; i++) {
    late = await signIn(`lr-guess-${i}`, { to: guarded });
    statuses.push(late.status);
  }
  assert.deepEqual(statuses, [...Array(10).fill(401), 429, 429]);
  assert.ok(Number(late.headers.get('retry-after')) >= 1);
  assert.equal((await signIn(guarded.adminKey, { to: guarded })).status, 200);
});

test('a key that signs in again and again signs out nobody else, and is slowed before it fills the audit log', async () => {
  const greedy = await makeKey({ name: 'greedy' });
  const others = [await session(router.adminKey), await session((await makeKey({ name: 'other' })).key)];
  const answers = await Promise.all(Array.from({ length: 300 }, () => signIn(greedy.key)));
  const refused = answers.filter((a) => a.status !== 200);
  assert.ok(refused.length >= 260, `${refused.length} of ${answers.length} sign-ins were refused`);
  for (const answer of refused) {
    assert.equal(answer.status, 429, answer.text);
    assert.match(answer.json.error.message, /may sign in 30 times a minute/);
    assert.ok(Number(answer.headers.get('retry-after')) >= 1);
  }
  for (const { cookie } of others)
    assert.equal((await call(`${router.url}/v0/whoami`, { headers: { cookie } })).json.signed_in, true);
  const { audit } = (await call(`${router.url}/v0/audit?limit=10000`, { key: router.adminKey })).json;
  assert.ok(audit.filter((a) => a.actor === greedy.id).length <= answers.length - refused.length);
});

test('a key restricted to addresses signs in from those only', async () => {
  const here = await makeKey({ name: 'here', addresses: ['127.0.0.0/8'] });
  const elsewhere = await makeKey({ name: 'elsewhere', addresses: ['10.0.0.0/8'] });
  assert.equal((await signIn(here.key)).status, 200);
  const refused = await signIn(elsewhere.key);
  assert.equal(refused.status, 403, refused.text);
  assert.match(refused.json.error.message, /may not be used from 127\.0\.0\.1/);
  assert.equal(refused.headers.get('set-cookie'), null);
});

test('sign-ins and sign-outs are in the audit log, page by page', async () => {
  await until('the log is written', async () =>
    (await call(`${router.url}/v0/audit`, { key: router.adminKey })).json.audit.some((a) => a.action === 'session.end'),
  );
  const seen = [];
  for (let offset = 0, until = '', more = true; more; offset += 3) {
    const page = (await call(`${router.url}/v0/audit?limit=3&offset=${offset}${until}`, { key: router.adminKey })).json;
    assert.ok(page.audit.length <= 3);
    seen.push(...page.audit);
    until = `&until=${page.until}`;
    more = page.more;
  }
  assert.ok(seen.filter((a) => a.action === 'session.create').length >= 5);
  assert.ok(seen.every((a, i) => i === 0 || a.time <= seen[i - 1].time));
  const { length } = (await call(`${router.url}/v0/audit?limit=10000`, { key: router.adminKey })).json.audit;
  assert.equal(seen.length, length);
});
