// Budgets and limits of keys: exact over a restart, a kill, and across two routers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeClock } from '../support/clock.mjs';
import { startPostgres } from '../support/postgres.mjs';
import { makeGated } from './fleet.mjs';
import {
  call,
  cli,
  LONG,
  makeEcho,
  online,
  register,
  say,
  startNode,
  startRouter,
  tempDir,
  until,
} from './support.mjs';

const left = [];
let alone; // a router for limits that need no other
let slow; // its model that answers when a test lets it
const REQUESTS = LONG ? 1000 : 100;
let database, model;

const router = async (more = {}) => {
  const r = await startRouter({ ...more, args: ['--allow-cpu-nodes', ...(more.args ?? [])] });
  left.push(r);
  return r;
};
const serve = async (r) => {
  left.push(await startNode(r, { args: ['--model', model] }));
  await until('the node is online', async () => (await online(r)) === 1);
  await register(r, 'paid');
  await until('it serves', async () => (await ask(r)).status === 200);
};
const ask = (r, key, body = {}) =>
  call(`${r.url}/v1/chat/completions`, { key, body: { model: 'paid', ...say('a b c'), ...body } });
const make = async (r, body = {}) => (await call(`${r.url}/v0/keys`, { body: { name: 'k', ...body } })).json;
const self = async (r, key) => (await call(`${r.url}/v0/self`, { key })).json;
const tokensOf = (answer) => answer.json.usage.total_tokens;
// What the records say, and what the sums say.
const recorded = async (r, key) =>
  (await call(`${r.url}/v0/usage?key=${key.id}&step=100000000000`)).json.usage.reduce(
    (n, u) => n + u.prompt_tokens + u.completion_tokens,
    0,
  );
const month = async (r, key) => {
  const { usage } = await self(r, key.key);
  return usage.prompt_tokens + usage.completion_tokens;
};
const used = async (r, key) => (await self(r, key.key)).limits.tokens_per_month.used;

// `many` requests, eight at a time, until `stop` says so; gives the tokens that clients have seen.
async function spend(routers, key, many, stop = () => false) {
  let sent = 0;
  let tokens = 0;
  const one = async () => {
    while (sent < many && !stop(sent)) {
      const r = routers[sent++ % routers.length];
      const answer = await ask(r, key.key).catch(() => undefined);
      if (answer?.status === 200) tokens += tokensOf(answer);
    }
  };
  await Promise.all(Array.from({ length: 8 }, one));
  return tokens;
}

before(async () => {
  database = startPostgres();
  model = makeEcho('paid');
  slow = makeGated('slow');
  alone = await router();
  left.push(await startNode(alone, { args: ['--model', model, '--model', slow.model] }));
  await until('online', async () => (await online(alone)) === 1);
  for (const id of ['paid', 'slow']) await register(alone, id);
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  database.stop();
});

test('the tokens of a key are exact across two routers and over a restart', async () => {
  const args = ['--database', database.url];
  const two = [await router({ args }), await router({ args })];
  await serve(two[0]);
  await until('the other serves', async () => (await ask(two[1])).status === 200);
  const key = await make(two[0], { tokens_per_month: 100000000 });
  await until('both know the key', async () => (await self(two[1], key.key)).id === key.id);
  let seen = await spend(two, key, REQUESTS / 2);
  await two[1].stop();
  two[1] = await router({ args, port: Number(new URL(two[1].url).port) });
  await until('it serves again', async () => (await ask(two[1])).status === 200);
  seen += await spend(two, key, REQUESTS / 2);
  assert.ok(seen > REQUESTS);
  for (const r of two)
    await until(
      'both routers have all tokens',
      async () => (await used(r, key)) === seen && (await month(r, key)) === seen,
    );
  assert.equal(await recorded(two[0], key), seen);
});

test('kill -9 loses no token of an answer that a client has', async () => {
  const pg = ['--database', database.named('template1')];
  for (const args of [[], pg]) {
    const dir = tempDir('killed');
    let r = await router({ dir, args });
    const port = Number(new URL(r.url).port);
    await serve(r);
    const key = await make(r, { tokens_per_month: 100000000 });
    let seen = 0;
    for (let round = 0; round < (LONG ? 10 : 1); round++) {
      let isKilled = false;
      const spent = spend([r], key, 1e6, () => isKilled);
      await until('some were answered', async () => (await used(r, key)) > 0);
      r.child.kill('SIGKILL'); // with requests in flight and records in memory
      isKilled = true;
      seen += await spent;
      await r.ended;
      r = await router({ dir, args, port });
      await until('it serves again', async () => (await ask(r)).status === 200);
      // A request whose answer was cut by the kill may be counted; no more than the eight in flight.
      const sum = await used(r, key);
      assert.ok(sum >= seen && sum - seen <= 8 * 40, `${sum} of ${seen}`);
      assert.equal(await recorded(r, key), sum);
      assert.equal(await month(r, key), sum);
      seen = sum;
    }
    await r.stop();
  }
});

test('a hard budget refuses with 429 and the date of the next month, a soft one raises an alert', async () => {
  const r = alone;
  await until('it serves', async () => (await ask(r)).status === 200);
  const cost = tokensOf(await ask(r));
  const key = await make(r, { owner: 'team a', tokens_per_month: 3 * cost, tokens_per_month_soft: 2 * cost });
  const alerts = async () =>
    (await call(`${r.url}/v0/alerts`)).json.alerts.filter((a) => a.open && a.subject === key.id).map((a) => a.kind);
  assert.equal((await ask(r, key.key)).status, 200);
  assert.deepEqual(await alerts(), []);
  assert.equal((await ask(r, key.key)).status, 200);
  await until('the soft alert', async () => (await alerts()).join() === 'budget_soft');
  assert.equal((await ask(r, key.key)).status, 200);
  const refused = await ask(r, key.key);
  assert.equal(refused.status, 429);
  const now = new Date();
  const next = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1));
  assert.match(refused.json.error.message, new RegExp(`${next.toISOString().slice(0, 10)} 00:00 UTC`));
  assert.equal(refused.json.error.code, 'insufficient_quota');
  assert.ok(Math.abs(Number(refused.headers.get('retry-after')) - (next - now) / 1000) < 60);
  await until('both alerts', async () => (await alerts()).length === 2);
  const limits = (await self(r, key.key)).limits.tokens_per_month;
  assert.deepEqual(limits, { limit: 3 * cost, remaining: 0, soft: 2 * cost, used: 3 * cost, resets: next / 1000 });
  await call(`${r.url}/v0/keys/${key.id}`, {
    method: 'PATCH',
    body: { tokens_per_month: 0, tokens_per_month_soft: 0 },
  });
  assert.equal((await ask(r, key.key)).status, 200);
  await until('the alerts end', async () => (await alerts()).length === 0);
});

test('a hard budget holds within 2 s after the clock came back from another month, without a restart', async () => {
  const clock = makeClock();
  const r = await router({ env: clock.env });
  await serve(r);
  const cost = tokensOf(await ask(r));
  // Two months are known to a router; with three it has to read the one to which its clock comes back.
  for (const looks of [['+40d'], ['+40d', '+80d'], ['-40d']]) {
    const key = await make(r, { tokens_per_month: 2 * cost });
    for (const status of [200, 200, 429]) assert.equal((await ask(r, key.key)).status, status, `before ${looks}`);
    for (const at of looks) {
      clock.set(at);
      await until(`${at} has its own budget`, async () => (await used(r, key)) === 0);
      assert.equal((await ask(r, key.key)).status, 200);
    }
    clock.set('+0');
    await until('the budget holds', async () => (await used(r, key)) === 2 * cost, 2000);
    assert.equal((await ask(r, key.key)).status, 429);
    clock.set(looks[0]);
    await until('the other month is as it was', async () => (await used(r, key)) === cost);
    clock.set('+0');
    await until('the clock is right', async () => (await used(r, key)) === 2 * cost);
  }
});

test('a key has limits on concurrency, bytes and addresses, and its client reads x-ratelimit headers', async () => {
  const r = alone;
  slow.open(1000);
  await until('it serves', async () => (await ask(r, undefined, { model: 'slow' })).status === 200);
  const key = await make(r, {
    concurrent_requests: 2,
    request_bytes: 1000,
    requests_per_minute: 60,
    tokens_per_minute: 6000,
  });
  const long = { model: 'slow', ...say('x '.repeat(100)), max_tokens: 20 };
  slow.open(0);
  const running = [ask(r, key.key, long), ask(r, key.key, long)];
  await until('two run', async () => (await self(r, key.key)).limits.concurrent_requests.used === 2);
  const third = await ask(r, key.key, long);
  assert.equal(third.status, 429);
  assert.match(third.json.error.message, /runs 2 requests, and may have 2 at once/);
  slow.open(1000);
  for (const answer of await Promise.all(running)) assert.equal(answer.status, 200);
  const free = await ask(r, key.key, { model: 'slow' });
  assert.equal(free.status, 200);
  const header = (name) => free.headers.get(`x-ratelimit-${name}`);
  assert.equal(header('limit-requests'), '60');
  assert.ok(Number(header('remaining-requests')) < 60 && Number(header('remaining-requests')) > 50);
  assert.match(header('reset-requests'), /^(\d+m)?\d+(ms|s)$/);
  assert.equal(header('limit-tokens'), '6000');
  assert.ok(Number(header('remaining-tokens')) < 6000);
  const large = await ask(r, key.key, { model: 'slow', ...say('x'.repeat(2000)) });
  assert.equal(large.status, 413);
  assert.match(large.json.error.message, /may send 1000 \("request_bytes"\)/);
  const change = (body) => call(`${r.url}/v0/keys/${key.id}`, { method: 'PATCH', body });
  assert.equal((await change({ addresses: ['10.0.0.0/8', 'fd00::/8'] })).status, 200);
  const away = await ask(r, key.key, { model: 'slow' });
  assert.equal(away.status, 403);
  assert.match(away.json.error.message, /may not be used from 127\.0\.0\.1/);
  assert.equal((await change({ addresses: ['127.0.0.0/8'] })).status, 200);
  assert.equal((await ask(r, key.key, { model: 'slow' })).status, 200);
  for (const body of [{ addresses: ['nowhere'] }, { addresses: 'x' }, { owner: 'x'.repeat(64) }, { request_bytes: -1 }])
    assert.equal((await change(body)).status, 400, JSON.stringify(body));
  assert.deepEqual((await self(r, key.key)).addresses, ['127.0.0.0/8']);
});

test('a rotated key has a new secret, and the old one for the overlap, also after a restart and by the CLI', async () => {
  const dir = tempDir('rotated');
  let r = await router({ dir });
  const key = await make(r, { owner: 'ops', label: 'nightly' });
  const works = async (secret) => (await call(`${r.url}/v0/self`, { key: secret, headers: {} })).json.id === key.id;
  const rotate = (body) => call(`${r.url}/v0/keys/${key.id}/rotate`, { body });
  const second = await rotate({ overlap: 3600 });
  assert.equal(second.status, 200, second.text);
  assert.notEqual(second.json.key, key.key);
  assert.ok(second.json.old_secret_until > Date.now() / 1000 + 3500);
  assert.ok((await works(key.key)) && (await works(second.json.key)));
  await r.stop();
  r = await router({ dir });
  assert.ok((await works(key.key)) && (await works(second.json.key)));
  const { stdout } = await cli(['keys', 'rotate', key.id, '--overlap', '0', '--url', r.url]);
  const third = stdout.trim();
  assert.ok(await works(third));
  for (const old of [key.key, second.json.key]) {
    const refused = await call(`${r.url}/v0/self`, { key: old });
    assert.equal(refused.status, 401);
    assert.match(refused.json.error.message, /was replaced|not issued/);
  }
  for (const body of [{ overlap: -1 }, { overlap: 'x' }, { more: 1 }]) assert.equal((await rotate(body)).status, 400);
  await call(`${r.url}/v0/keys/${key.id}`, { method: 'DELETE' });
  assert.equal((await rotate({})).status, 409);
  const node = await make(r, { role: 'node' });
  assert.ok(node.expires > Date.now() / 1000 + 80000 && node.expires < Date.now() / 1000 + 90000);
});
