// KV memory that grows into free memory and is given back when another model needs it, on the CPU.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { keep } from './fleet.mjs';
import { call, DEMO, launch, tempDir, until } from './support.mjs';

// One token of the demo model: long texts, few tokens.
const TOKEN = '、とても小さなデモ用モデルです';

const models = tempDir('models');
for (const name of ['one', 'two']) fs.cpSync(DEMO, path.join(models, name), { recursive: true });

async function startNode(...args) {
  const node = keep(
    await launch(
      [
        'node',
        '--listen',
        '127.0.0.1:0',
        '--device',
        'cpu',
        '--no-hf-cache',
        '--no-preload',
        '--data-dir',
        tempDir('data'),
        ...['one', 'two'].flatMap((name) => ['--model', path.join(models, name)]),
        '--memory-interval',
        '100ms',
        ...args,
      ],
      { match: /listening on port (\d+)/ },
    ),
  );
  const url = `http://127.0.0.1:${node.found[1]}`;
  const get = async (where) => (await call(url + where)).json;
  return {
    node,
    url,
    get,
    metrics: () => call(`${url}/metrics`),
    ask: (model, body, signal) =>
      fetch(`${url}/v1/completions`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ model, temperature: 0, ignore_eos: true, ...body }),
        signal,
      }),
    ram: async () => (await get('/v0/memory')).pools.find((pool) => pool.pool === 'ram'),
  };
}

const answerOf = async (response) => {
  const json = await response.json();
  assert.equal(response.status, 200, JSON.stringify(json));
  return json.choices[0].text;
};

function addsUp(pool, needs) {
  const sum = (key) => pool.claims.reduce((all, claim) => all + claim[key], 0);
  assert.equal(pool.reserved, sum('reserved'));
  assert.equal(pool.reclaimable, sum('reclaimable'));
  assert.equal(pool.free, pool.capacity - pool.reserved);
  for (const claim of pool.claims) {
    assert.equal(claim.reserved, needs.total - needs.kv + claim.kv_limit);
    assert.ok(claim.kv <= claim.kv_limit, `${claim.kv} of ${claim.kv_limit}`);
    assert.ok(claim.kv_in_use + claim.kv_cached <= claim.kv && claim.reclaimable <= claim.kv_limit);
  }
}

test('a pool that has grown to the threshold gives memory back when a second model loads, both answer, and /v0/memory adds up', async () => {
  let scene = await startNode();
  const greeting = { prompt: `${TOKEN.repeat(3)} What is 3 + 4?`, max_tokens: 12 };
  const expected = await answerOf(await scene.ask('one', greeting));
  const { need } = await scene.get('/v0/models/one');
  await scene.node.stop();

  // Room for both models as they start, and a little more.
  scene = await startNode('--ram-limit', String(Math.ceil((2 * need.total + (4 << 20)) / 0.9)));
  // What "two" needs is known from its first load, so that the plan for the next one is.
  assert.equal(await answerOf(await scene.ask('two', greeting)), expected);
  await call(`${scene.url}/v0/models/two/unload`, { method: 'POST', body: {} });
  await until('two has left', async () => (await scene.ram()).claims.length === 0);
  assert.equal(await answerOf(await scene.ask('one', greeting)), expected);
  const client = new AbortController();
  // Prompts take their pages at once: together more than the pool has at first.
  const texts = Array.from({ length: 14 }, (_, i) => `${i} ${TOKEN.repeat(5200)}`);
  const left = texts
    .slice(1)
    .map((prompt) => scene.ask('one', { prompt, max_tokens: 4 }, client.signal).catch(() => {}));
  const long = scene.ask('one', { prompt: texts[0], max_tokens: 4 });
  const grown = await until('the pool has grown to the threshold', async () => {
    const pool = await scene.ram();
    return pool.claims[0].kv > need.kv && pool.free <= pool.total / 100 + (1 << 20) && pool;
  });
  addsUp(grown, need);
  client.abort();
  await Promise.all(left);
  await until('their memory is reclaimable', async () => (await scene.ram()).claims[0].reclaimable >= need.kv / 2);

  const { load } = await scene.get('/v0/memory?model=two');
  assert.equal(load.plan, 'reclaim');
  assert.equal(await answerOf(await scene.ask('two', greeting)), expected);
  await answerOf(await long); // it ran on while its pages moved
  assert.equal(await answerOf(await scene.ask('one', greeting)), expected);
  const both = await scene.ram();
  assert.equal(both.claims.length, 2);
  addsUp(both, need);
  assert.ok(both.reserved <= both.capacity);
  for (const name of ['one', 'two']) assert.equal((await scene.get(`/v0/models/${name}`)).state, 'ready');
  assert.match((await scene.metrics()).text, /evictions_total 0\n/);
});
