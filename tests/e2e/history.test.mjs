// The history of figures: one router with SQLite, and two routers that share PostgreSQL.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startPostgres } from '../support/postgres.mjs';
import { idOf } from './fleet.mjs';
import { call, makeEcho, nodes, online, register, say, startNode, startRouter, until } from './support.mjs';

const left = [];
const shared = [];
let database, alone, model, args;

before(async () => {
  database = startPostgres();
  model = makeEcho('told', { step_ms: 40 });
  args = ['--database', database.url, '--allow-cpu-nodes'];
  alone = await startRouter({ args: ['--allow-cpu-nodes'] });
  for (let i = 0; i < 2; i++) shared.push(await startRouter({ args }));
  left.push(alone, ...shared);
  for (const router of [alone, shared[0]])
    left.push(await startNode(router, { name: 'box', args: ['--model', model] }));
  await until('nodes', async () => (await online(alone)) + (await online(shared[0])) + (await online(shared[1])) === 3);
  for (const router of [alone, shared[0]]) await register(router, idOf(model));
  await until('both know it', async () => (await call(`${shared[1].url}/v1/models/told`)).status === 200);
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  database.stop();
});

const ask = async (router, query) => {
  const answer = await call(`${router.url}/v0/history?${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
};
const sum = (column) => column.reduce((n, v) => n + v, 0);
const talk = async (router, count) => {
  const answers = await Promise.all(
    Array.from({ length: count }, () =>
      call(`${router.url}/v1/chat/completions`, {
        body: { model: 'told', max_tokens: 40, ...say('hello '.repeat(60)) },
      }),
    ),
  );
  for (const a of answers) assert.equal(a.status, 200, a.text);
  return answers.reduce((n, a) => n + a.json.usage.completion_tokens, 0);
};

test('every range of the history has the requests, tokens and latencies of all routers, before and after a restart', async () => {
  const [a, b, c] = await Promise.all([talk(alone, 4), talk(shared[0], 4), talk(shared[1], 6)]);
  const refused = await call(`${alone.url}/v1/chat/completions`, {
    body: { model: 'told', max_tokens: 0, ...say('x') },
  });
  assert.equal(refused.status, 400);
  await shared[1].stop(); // its last slot is written at once
  shared[1] = await startRouter({ args });
  left.push(shared[1]);
  for (const [router, requests, tokens] of [
    [alone, 4, a],
    [shared[0], 10, b + c],
    [shared[1], 10, b + c],
  ]) {
    await until('the slot is written', async () => sum((await ask(router, 'range=15m')).requests) >= requests, 60000);
    for (const [range, points, step] of [
      ['15m', 90, 10],
      ['1h', 360, 10],
      ['24h', 288, 300],
      ['7d', 336, 1800],
    ]) {
      const told = await ask(router, `range=${range}`);
      assert.deepEqual([told.time.length, told.step, told.range], [points, step, range]);
      assert.deepEqual(
        [sum(told.requests), sum(told.completion_tokens), sum(told.errors)],
        [requests, tokens, 0],
        range,
      );
      const at = told.requests.findIndex((n) => n > 0);
      for (const name of ['wait_ms', 'first_token_ms', 'inter_token_ms']) {
        assert.ok(told[name].p50[at] <= told[name].p99[at], `${name} of ${range}`);
        assert.equal(told[name].p50[0], null);
      }
      if (step === 10) assert.ok(sum(told.running) > 0);
      assert.deepEqual(told.models, ['told']);
    }
  }
});

test('the history can be asked for a model, a node and a device; another range is refused', async () => {
  const [node] = await nodes(alone);
  assert.equal(sum((await ask(alone, 'model=TOLD')).requests), 4);
  assert.equal(sum((await ask(alone, 'model=nobody')).requests), 0);
  assert.equal(sum((await ask(alone, `node=${node.id}&range=24h`)).requests), 4);
  assert.equal(sum((await ask(alone, 'node=nobody')).requests), 0);
  const { gpus, nodes: named } = await ask(alone, 'range=15m');
  assert.deepEqual(named, [{ id: node.id, name: 'box' }]);
  assert.equal(gpus.length, node.memory.length);
  const used = gpus[0].memory_used_bytes.filter((v) => v !== null);
  assert.ok(used.length >= 1 && used.every((v) => v > 0), JSON.stringify(gpus[0]));
  assert.equal((await ask(alone, 'node=nobody')).gpus.length, 0);
  for (const range of ['2h', '', '15']) {
    const answer = await call(`${alone.url}/v0/history?range=${range}`);
    assert.equal(answer.status, 400);
    assert.match(answer.json.error.message, /15m, 1h, 24h or 7d/);
  }
});
