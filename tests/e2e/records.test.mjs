// Usage and audit records: sums by day, model, key and owner, costs, files, and an end.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startPostgres } from '../support/postgres.mjs';
import { call, LONG, makeEcho, online, register, say, startNode, startRouter, tempDir, until } from './support.mjs';

const REQUESTS = LONG ? 5000 : 250; // more than a page
const left = [];
const routers = [];
let database;

before(async () => {
  database = startPostgres();
  const prices = ['--price', 'one=1/2', '--price', 'two=10/20/5', '--currency', 'EUR', '--allow-cpu-nodes'];
  for (const args of [prices, [...prices, '--database', database.url]]) {
    const router = await startRouter({ args });
    routers.push(router);
    left.push(router);
    left.push(await startNode(router, { args: ['one', 'two', 'free'].flatMap((id) => ['--model', makeEcho(id)]) }));
    await until('online', async () => (await online(router)) === 1);
    for (const id of ['one', 'two', 'free']) await register(router, id);
  }
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  database.stop();
});

const make = async (r, body) => (await call(`${r.url}/v0/keys`, { body })).json;
const ask = (r, key, model) =>
  call(`${r.url}/v1/chat/completions`, { key, body: { model, max_tokens: 2, ...say('a') } });
const usage = async (r, query) => {
  const answer = await call(`${r.url}/v0/usage?${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer;
};
const parseCsv = (text) => {
  const [head, ...rows] = text.trimEnd().split('\r\n');
  const names = head.split(',');
  return rows.map((row) => {
    const cells = [...row.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map((m) =>
      m[1].replace(/^"|"$/g, '').replaceAll('""', '"'),
    );
    return Object.fromEntries(names.map((name, i) => [name, cells[i]]));
  });
};
const lines = (text) =>
  text
    .trimEnd()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
const total = (rows, name) => rows.reduce((n, row) => n + Number(row[name] ?? 0), 0);

test('usage by day, model, key and owner has the same sums in every form, with costs', async () => {
  for (const r of routers) {
    const today = () => new Date().toISOString().slice(0, 10);
    const begun = today();
    const keys = [
      await make(r, { name: '=a', owner: 'red' }),
      await make(r, { name: 'b"c', owner: 'red' }),
      await make(r, { name: 'd', owner: 'blue' }),
    ];
    let sent = 0;
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        while (sent < REQUESTS) {
          const i = sent++;
          assert.equal((await ask(r, keys[i % 3].key, ['one', 'two', 'free'][i % 2 ? 1 : i % 4])).status, 200);
        }
      }),
    );
    await until('all is written', async () => total((await usage(r, 'by=model')).json.usage, 'requests') === REQUESTS);
    const single = lines((await usage(r, 'by=request&format=jsonl')).text);
    assert.equal(single.length, REQUESTS);
    assert.equal(new Set(single.map((row) => row.request_id)).size, REQUESTS);
    const cost = (row) =>
      row.model === 'one'
        ? (row.prompt_tokens + 2 * row.completion_tokens) / 1e6
        : row.model === 'two'
          ? (10 * (row.prompt_tokens - row.cached_tokens) + 5 * row.cached_tokens + 20 * row.completion_tokens) / 1e6
          : 0;
    const whole = single.reduce((n, row) => n + cost(row), 0);
    for (const by of ['day', 'model', 'key', 'owner', 'day,model,key,owner', 'owner,model']) {
      const { json } = await usage(r, `by=${by}`);
      const csv = await usage(r, `by=${by}&format=csv`);
      assert.match(csv.headers.get('content-disposition'), /attachment; filename="usage\.csv"/);
      const forms = [json.usage, parseCsv(csv.text), lines((await usage(r, `by=${by}&format=jsonl`)).text)];
      for (const rows of forms) {
        assert.equal(rows.length, forms[0].length);
        for (const name of ['requests', 'prompt_tokens', 'completion_tokens', 'cached_tokens'])
          assert.equal(total(rows, name), total(single, name) || (name === 'requests' ? REQUESTS : 0), `${by} ${name}`);
        assert.ok(Math.abs(total(rows, 'cost') - whole) < 1e-9, `${by}: ${total(rows, 'cost')} of ${whole}`);
      }
      assert.equal(json.currency, 'EUR');
    }
    const models = (await usage(r, 'by=model')).json.usage;
    assert.deepEqual(
      models.map((m) => m.model),
      ['free', 'one', 'two'],
    );
    assert.equal(models[0].cost, null);
    const owners = (await usage(r, 'by=owner')).json.usage;
    assert.deepEqual(
      owners.map((o) => o.owner),
      ['blue', 'red'],
    );
    assert.equal(total((await usage(r, 'by=key&owner=red')).json.usage, 'requests'), owners[1].requests);
    const named = parseCsv((await usage(r, 'by=key&format=csv')).text)
      .map((row) => row.key_name)
      .sort();
    assert.deepEqual(named, ["'=a", 'b"c', 'd']);
    const [{ day }] = (await usage(r, 'by=day')).json.usage;
    assert.ok([begun, today()].includes(day), `${day}; a day may have ended meanwhile`);
    for (const query of ['by=week', 'format=xml', 'by=request', 'by=request,key&format=csv', 'by=key&since=x'])
      assert.equal((await call(`${r.url}/v0/usage?${query}`)).status, 400, query);
  }
});

test('the audit log as CSV and lines of JSON has every line', async () => {
  for (const r of routers) {
    await until('lines', async () => (await call(`${r.url}/v0/audit?limit=1000`)).json.audit.length >= 6);
    const { audit } = (await call(`${r.url}/v0/audit?limit=1000`)).json;
    const csv = await call(`${r.url}/v0/audit?format=csv`);
    const rows = parseCsv(csv.text);
    const jsonl = lines((await call(`${r.url}/v0/audit?format=jsonl`)).text);
    assert.deepEqual([rows.length, jsonl.length], [audit.length, audit.length]);
    assert.equal(rows.filter((row) => row.action === 'key.create').length, 4); // three, and the node's token
    assert.equal((await call(`${r.url}/v0/audit?format=pdf`)).status, 400);
  }
});

test('the audit log names the actor, the address and the changed members before and after, in every form and by filter', async () => {
  for (const r of routers) {
    const admin = await make(r, { name: 'Ada', role: 'admin' });
    const { key } = admin;
    const made = await make(r, { name: 'old', requests_per_minute: 5, models: ['one'] });
    const change = { name: 'new', requests_per_minute: 5, models: ['one', 'two'], label: 'x'.repeat(63) };
    assert.equal((await call(`${r.url}/v0/keys/${made.id}`, { key, method: 'PATCH', body: change })).status, 200);
    const rotation = await call(`${r.url}/v0/keys/${made.id}/rotate`, { key, body: { overlap: 60 } });
    const [node] = (await call(`${r.url}/v0/nodes`)).json.nodes;
    for (const action of ['drain', 'undrain'])
      assert.equal((await call(`${r.url}/v0/nodes/${node.id}/${action}`, { key, method: 'POST' })).status, 200);
    const aliases = (names) => call(`${r.url}/v0/models/one`, { key, method: 'PATCH', body: { aliases: names } });
    assert.equal((await aliases(['uno'])).status, 200);
    // A list that has no room is cut with a mark, and the line stays whole.
    const many = Array.from({ length: 30 }, (_, i) => `alias-number-${i}`);
    assert.equal((await aliases(many)).status, 200);
    assert.equal((await aliases([])).status, 200);
    assert.equal((await call(`${r.url}/v0/keys/${made.id}`, { key, method: 'DELETE' })).status, 200);
    // The line keeps the name that the actor had.
    await call(`${r.url}/v0/keys/${admin.id}`, { method: 'PATCH', body: { name: 'Eve' } });

    const { audit } = (await call(`${r.url}/v0/audit?actor=Ada&limit=100`)).json;
    assert.ok(audit.every((a) => a.actor === admin.id && a.actor_name === 'Ada' && a.from === '127.0.0.1'));
    const of = (action) => audit.filter((a) => a.action === action).map((a) => [a.before, a.after]);
    const until = rotation.json.old_secret_until;
    const revoked = (await call(`${r.url}/v0/keys`)).json.keys.find((k) => k.id === made.id).revoked;
    assert.deepEqual(of('key.change'), [
      [
        { name: 'old', label: '', models: ['one'] },
        { name: 'new', label: change.label, models: ['one', 'two'] },
      ],
    ]);
    assert.deepEqual(of('key.rotate'), [[{ old_secret_until: 0 }, { old_secret_until: until }]]);
    assert.deepEqual(of('key.revoke'), [[{ revoked: 0 }, { revoked }]]);
    assert.deepEqual(of('node.drain'), [[{ drained: false }, { drained: true }]]);
    assert.deepEqual(of('node.undrain'), [[{ drained: true }, { drained: false }]]);
    const [, [, cut]] = of('model.change');
    assert.deepEqual([cut.aliases[0], cut.aliases.at(-1)], ['alias-number-0', '...']);
    assert.deepEqual(of('model.change').at(-1), [{ aliases: [] }, { aliases: ['uno'] }]);

    const filtered = async (query) => (await call(`${r.url}/v0/audit?${query}&limit=100`)).json.audit;
    const created = (await filtered('action=key.create')).find((a) => a.target === made.id);
    assert.deepEqual(created.before, null);
    assert.deepEqual(created.after, { role: 'api', name: 'old', requests_per_minute: 5, models: ['one'] });
    assert.deepEqual(new Set((await filtered('action=key')).map((a) => a.action.split('.')[0])), new Set(['key']));
    assert.deepEqual(await filtered(`actor=${admin.id}`), audit);
    assert.deepEqual([await filtered('actor=nobody'), await filtered('action=ke')], [[], []]);

    const query = 'actor=Ada&action=key.change&format';
    const csv = await call(`${r.url}/v0/audit?${query}=csv`);
    const jsonl = await call(`${r.url}/v0/audit?${query}=jsonl`);
    const want = audit.find((a) => a.action === 'key.change');
    for (const row of [
      ...parseCsv(csv.text).map((c) => ({ ...c, before: JSON.parse(c.before), after: JSON.parse(c.after) })),
      ...lines(jsonl.text),
    ])
      assert.deepEqual({ ...row, time_ms: 0, time: 0 }, { ...want, time_ms: 0, time: 0 });
    assert.equal(parseCsv(csv.text).length + lines(jsonl.text).length, 2);
    const whole = (await call(`${r.url}/v0/audit?format=jsonl`)).text;
    for (const secret of [key, made.key, rotation.json.key]) assert.ok(!whole.includes(secret));
  }
});

// Every server has the database template1, too.
const keeps = async (dir, database) => {
  const model = makeEcho('one');
  let r = await startRouter({ dir, args: ['--allow-cpu-nodes', ...database] });
  left.push(r, await startNode(r, { args: ['--model', model] }));
  await until('online', async () => (await online(r)) === 1);
  await register(r, 'one');
  const key = await make(r, { name: 'k' });
  for (let i = 0; i < 5; i++) assert.equal((await ask(r, key.key, 'one')).status, 200);
  const month = async () => (await call(`${r.url}/v0/self`, { key: key.key })).json.usage.requests;
  await until('written', async () => (await month()) === 5);
  await r.stop();
  r = await startRouter({ dir, args: ['--keep-usage', '1s', '--keep-audit', '1s', ...database] });
  left.push(r);
  await until(
    'removed',
    async () =>
      (await call(`${r.url}/v0/usage?by=key`)).json.usage.length === 0 &&
      (await call(`${r.url}/v0/audit`)).json.audit.length === 0,
  );
  assert.equal(await month(), 5);
};

test('records that are older than the operator keeps them are removed, the sums of the month stay, in either database', () =>
  Promise.all([keeps(tempDir('kept'), []), keeps(tempDir('kept'), ['--database', database.named('template1')])]));

test('a price that cannot be read stops the start', async () => {
  await assert.rejects(
    startRouter({ args: ['--price', 'one=cheap'] }),
    /price "one=cheap" must be MODEL=PROMPT\/COMPLETION/,
  );
});
