// A model that cannot be loaded, as the router's clients and operators see it: reported at once, served
// by another node if possible, retried without help, and no alert longer than necessary.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import {
  call,
  cli,
  makeEcho,
  nodes,
  online,
  register,
  say,
  startRouter,
  stopwatch,
  tempDir,
  until,
} from './support.mjs';
import { addNode, fleet, keep, makeFaulty } from './fleet.mjs';

const chat = (router, id, text = 'hello') =>
  call(`${router.url}/v1/chat/completions`, { body: { model: id, ...say(text) } });
const model = async (router, id) => (await call(`${router.url}/v0/models?id=${id}`)).json.models[0];
const place = async (router, id, node = 0) => (await model(router, id)).nodes[node];
const ready = (router, id) => until(`${id} is ready`, async () => (await place(router, id)).state === 'ready');
const alertOf = async (router, kind) =>
  (await call(`${router.url}/v0/alerts`)).json.alerts.find((a) => a.kind === kind);
// What the node itself says of its workers.
const worker = async (router, id) => {
  const [node] = await nodes(router);
  const all = (await call(`${router.url}/v0/nodes/${node.id}/models`)).json.models;
  return all.find((m) => m.id === id).workers[0];
};

test('if the only node has too little memory for a model, the client is told at once, with both numbers', async () => {
  const { router } = await fleet(1, makeEcho('big', { weights_bytes: 2e9 }), {
    nodeArgs: ['--ram-limit', '1000MB', '--no-preload'],
    isLoaded: false,
  });
  const watch = stopwatch();
  const answer = await chat(router, 'big');
  assert.equal(answer.status, 503, answer.text);
  assert.match(answer.json.error.message, /needs 1\.9 GiB .* and RAM can give it/);
  assert.ok(Number(answer.headers.get('retry-after')) >= 1);
  assert.ok(watch.ms < 5000, `${watch.real} ms`);
  const { state, reason } = await until('the router knows', async () => {
    const m = await model(router, 'big');
    return m.state === 'waiting' && m;
  });
  assert.deepEqual([state, /RAM can give it/.test(reason)], ['waiting', true]);
  assert.equal((await chat(router, 'big')).status, 503, 'and the next one');
});

test('a model that one node cannot load is served by the other, and clients see no error', async () => {
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
  await addNode(router, makeFaulty('m', { fail: 'load' }), { name: 'ill' });
  await addNode(router, makeEcho('m', { step_ms: 5 }), { name: 'well', args: ['--max-sequences', '2'] });
  await until('both are there', async () => (await online(router)) === 2);
  await register(router, 'm');
  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => chat(router, 'm', `text ${i}`)));
  assert.deepEqual(
    answers.map((a) => a.status),
    Array(12).fill(200),
  );
  await until('the router knows why', async () => {
    const ill = (await model(router, 'm')).nodes.find((n) => n.name === 'ill');
    return ill.state === 'waiting' && /told to fail/.test(ill.reason);
  });
});

test('a waiting model answers at once with its number of failures; `models load` retries it, and so does the node without help', async () => {
  const once = path.join(tempDir('once'), 'x');
  const { router, all } = await fleet(1, makeFaulty('m', { fail: 'load', once }), {
    nodeArgs: ['--no-preload'],
    isLoaded: false,
  });
  const watch = stopwatch();
  const refused = await chat(router, 'm');
  assert.equal(refused.status, 503, refused.text);
  assert.match(refused.json.error.message, /cannot be loaded at the moment: .*told to fail/);
  assert.ok(watch.ms < 5000, `${watch.real} ms`);
  const waiting = await until('the router knows', async () => {
    const p = await place(router, 'm');
    return p.state === 'waiting' && p;
  });
  assert.match(waiting.reason, /told to fail/);
  assert.equal(waiting.failures, 1);
  const alert = await until('an alert', () => alertOf(router, 'model_waiting'));
  assert.match(`${alert.message} ${alert.advice}`, /told to fail.*retries automatically/);
  assert.match((await cli(['models', 'load', 'm', '--url', router.url])).stdout, /^m: (starting|loading|ready)\n$/);
  await ready(router, 'm');
  assert.equal((await chat(router, 'm')).status, 200);
  await until('it is forgotten', async () => (await place(router, 'm')).failures === 0);
  await until('the alert is over', async () => !(await alertOf(router, 'model_waiting')).open);
  // And without anybody's word: its time comes.
  await call(`${router.url}/v0/models/m/unload`, { method: 'POST', headers: { 'content-type': 'application/json' } });
  await until('unloaded', async () => (await place(router, 'm')).state === 'present');
  fs.rmSync(path.join(all[0].dir, 'engine-scratch/faulty/x')); // a confined engine writes nowhere else
  assert.equal((await chat(router, 'm')).status, 503);
  await ready(router, 'm');
});

test('a model that waits for its next try is a 503 whose Retry-After is no shorter than the pause', async () => {
  const { router } = await fleet(1, makeFaulty('m', { fail: 'load' }), { nodeArgs: ['--no-preload'], isLoaded: false });
  const answer = await until('a pause of more than a second', async () => {
    const refused = await chat(router, 'm');
    assert.equal(refused.status, 503, refused.text);
    const pause = Number(refused.json.error.message.match(/tried again in (\d+) s/)[1]);
    return pause > 1 && { pause, retry: Number(refused.headers.get('retry-after')) };
  });
  assert.equal(answer.retry, answer.pause);
});

test('a model that no registered node can ever run is a 404 in the shape of each API, online or not, and a 503 while one may', async () => {
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
  const alien = makeEcho('alien');
  fs.writeFileSync(
    path.join(alien, 'config.json'),
    '{"architectures":["NemotronForCausalLM"],"model_type":"nemotron"}',
  );
  const first = await addNode(router, alien, { name: 'first' });
  const second = await addNode(router, makeEcho('other'), { name: 'second' });
  await until('both are there', async () => (await online(router)) === 2);
  await register(router, 'alien');
  await until('the first says why', async () => /no engine for runtime/.test((await place(router, 'alien')).reason));
  const may = await chat(router, 'alien');
  assert.equal(may.status, 503, may.text);
  assert.ok(Number(may.headers.get('retry-after')) >= 1);
  // The second node may still get the model, also while it is away; a removed one never.
  await second.stop();
  await until('it is offline', async () => (await online(router)) === 1);
  assert.equal((await chat(router, 'alien')).status, 503);
  const gone = (await nodes(router)).find((n) => n.name === 'second').id;
  assert.equal((await call(`${router.url}/v0/nodes/${gone}`, { method: 'DELETE' })).status, 200);
  const check = async () => {
    const ask = (at, more) => call(`${router.url}${at}`, { body: { model: 'alien', ...more } });
    const said = say('hello');
    const openai = [
      await ask('/v1/chat/completions', said),
      await ask('/v1/completions', { prompt: 'hello' }),
      await ask('/v1/responses', { input: 'hello' }),
    ];
    for (const { status, json } of openai) {
      assert.equal(status, 404);
      assert.deepEqual([json.error.code, json.error.param], ['model_not_found', 'model']);
      assert.match(json.error.message, /^model "alien" cannot run on any node: no node has an engine for it; GET \/v0/);
    }
    const anthropic = await ask('/v1/messages', { max_tokens: 9, ...said });
    assert.deepEqual([anthropic.status, anthropic.json.error.type], [404, 'not_found_error']);
    for (const at of ['/api/chat', '/api/generate']) {
      const ollama = await ask(at, at === '/api/chat' ? said : { prompt: 'hello' });
      assert.equal(ollama.status, 404);
      assert.match(ollama.json.error, /model "alien" cannot run on any node/);
    }
  };
  await check();
  await first.stop();
  await until('it is offline', async () => (await online(router)) === 0);
  await check();
});

test('the alert of a dead worker of a pinned model is open until another worker is ready, also if no request comes', async () => {
  const { router } = await fleet(1, makeEcho('m'));
  await call(`${router.url}/v0/models/m/pin`, { method: 'POST', headers: { 'content-type': 'application/json' } });
  for (let i = 1; i <= 2; i++) {
    const { pid } = await until('a worker', async () => {
      const w = await worker(router, 'm');
      return w?.ready && w;
    });
    process.kill(pid, 'SIGKILL');
    const alert = await until('an alert', async () => {
      const a = await alertOf(router, 'worker_died');
      return a?.count === i && a;
    });
    assert.equal(alert.subject, 'm');
    assert.doesNotMatch(alert.advice, /requests continued/);
    await until('another worker', async () => {
      const w = await worker(router, 'm');
      return w?.ready && w.pid !== pid;
    });
    await ready(router, 'm');
    await until('it is over', async () => !(await alertOf(router, 'worker_died')).open);
  }
  assert.equal((await chat(router, 'm')).status, 200);
  await until('it is over', async () => !(await alertOf(router, 'worker_died')).open);
});
