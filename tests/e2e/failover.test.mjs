// Nodes die, freeze and come back; nobody who asks notices.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { call, DEMO, LONG, makeEcho, nodes, online, register, say, sleep, startNode, startRouter, stream, until } from './support.mjs';

const STREAMS = LONG ? 64 : 16;
const left = [];
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));
const keep = (process) => { left.push(process); return process; };

async function fleet(count, model, args = []) {
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes', ...args] }));
  const all = [];
  for (let i = 0; i < count; i++) all.push(keep(await startNode(router, { name: `n${i}`, args: ['--model', model] })));
  await until('all nodes online', async () => (await online(router)) === count);
  await register(router, model.split('/').pop());
  await until('all loaded', async () => (await nodes(router)).every((n) => n.models[0].state === 'ready'));
  return { router, all };
}

test('kill -9 of one node of three: no client sees an error, texts equal an undisturbed run, greedy and sampled', async () => {
  const { router, all } = await fleet(3, DEMO);
  const asks = Array.from({ length: STREAMS }, (_, i) => ({ model: 'demo', temperature: i % 2, seed: i, max_tokens: 120, ...say(`Count from ${i} to ${i + 30}`) }));
  const calm = await Promise.all(asks.map((ask) => stream(router.url, ask)));
  let begun = 0;
  const disturbed = asks.map((ask) => stream(router.url, ask, { onChunk: (out) => { if (out.chunks === 3) begun++; } }));
  await until('streams run', () => begun >= Math.ceil(STREAMS / 4));
  const busiest = (await nodes(router)).sort((a, b) => b.models[0].inflight - a.models[0].inflight)[0];
  assert.ok(busiest.models[0].inflight > 0);
  all.find((n) => n.name === busiest.name).child.kill('SIGKILL');
  const out = await Promise.all(disturbed);
  for (let i = 0; i < STREAMS; i++) {
    assert.equal(out[i].status, 200);
    assert.equal(out[i].error, null);
    assert.ok(out[i].done);
    assert.equal(out[i].text, calm[i].text);
    assert.equal(out[i].reasoning, calm[i].reasoning);
  }
  const metrics = await call(`${router.url}/metrics`);
  const moved = Number(metrics.text.match(/continuations_total (\d+)/)[1]) + Number(metrics.text.match(/retries_total (\d+)/)[1]);
  assert.ok(moved > 0, 'somebody was moved');
});

test('a frozen node (SIGSTOP) holds nobody longer than its limit, and others are unaffected', async () => {
  const { router, all } = await fleet(2, makeEcho('slow', { step_ms: 30 }));
  const ask = { model: 'slow', ...say('x'.repeat(60)) };
  const running = Array.from({ length: 6 }, () => stream(router.url, ask));
  await until('both work', async () => (await nodes(router)).every((n) => n.models[0].inflight > 0));
  all[0].child.kill('SIGSTOP');
  const begun = Date.now();
  const out = await Promise.all(running);
  assert.ok(out.every((o) => o.done && !o.error && o.text === 'x'.repeat(60)));
  assert.ok(Date.now() - begun < 12000, 'five seconds of silence and the answer itself');
  await until('it is offline', async () => (await online(router)) === 1);
  all[0].child.kill('SIGCONT');
  await until('it is back', async () => (await online(router)) === 2);
});

test('router killed and restarted: registrations, keys and usage stay, nodes come back by themselves', async () => {
  const { router } = await fleet(1, makeEcho('kept'));
  const key = (await call(`${router.url}/v0/keys`, { body: { name: 'k' } })).json;
  for (let i = 0; i < 5; i++) assert.equal((await call(`${router.url}/v1/chat/completions`, { body: { model: 'kept', ...say('hi') }, key: key.key })).status, 200);
  await sleep(1000);
  const port = new URL(router.url).port;
  await router.stop('SIGKILL');
  const again = keep(await startRouter({ dir: router.dir, port, args: ['--allow-cpu-nodes'] }));
  const begun = Date.now();
  await until('the node is back', async () => (await online(again)) === 1, 5000);
  assert.ok(Date.now() - begun < 5000);
  assert.equal((await call(`${again.url}/v1/chat/completions`, { body: { model: 'kept', ...say('hi') }, key: key.key })).status, 200);
  const usage = (await call(`${again.url}/v0/usage`)).json.usage.filter((u) => u.key === key.id);
  assert.ok(usage.reduce((sum, u) => sum + u.requests, 0) >= 5);
});

test('no node left: 503 with the reason per node; a node that comes back serves again', async () => {
  const { router, all } = await fleet(1, makeEcho('alone'), ['--node-timeout', '1s']);
  await all[0].stop('SIGKILL');
  await until('it is offline', async () => (await online(router)) === 0);
  const refused = await call(`${router.url}/v1/chat/completions`, { body: { model: 'alone', ...say('hi') } });
  assert.equal(refused.status, 503);
  assert.match(refused.json.error.message, /n0: offline/);
  assert.deepEqual((await call(`${router.url}/v1/models`)).json.data, []);
  assert.equal((await call(`${router.url}/v1/models?all=true`)).json.data.length, 1);
});

test('a full queue answers 429 with Retry-After, and keys take turns', async () => {
  const { router } = await fleet(1, makeEcho('busy', { step_ms: 20 }), ['--queue', '8']);
  const [a, b] = await Promise.all(['a', 'b'].map(async (name) => (await call(`${router.url}/v0/keys`, { body: { name } })).json.key));
  const ask = (key) => stream(router.url, { model: 'busy', ...say('0123456789'.repeat(8)) }, { key });
  // 64 slots and 2 beyond, then the queue.
  const flood = Array.from({ length: 90 }, () => ask(a));
  const refused = (await Promise.all(flood)).filter((o) => o.status === 429);
  assert.ok(refused.length > 0);
  assert.ok(refused.every((o) => Number(o.headers.get('retry-after')) >= 1));
  const again = Array.from({ length: 72 }, () => ask(a));
  await sleep(50);
  const other = await ask(b);
  assert.equal(other.status, 200);
  await Promise.all(again);
});

test('a key over its requests or tokens per minute gets 429 with Retry-After', async () => {
  const { router } = await fleet(1, makeEcho('paid'));
  const limited = async (limits) => (await call(`${router.url}/v0/keys`, { body: { name: 'l', ...limits } })).json.key;
  const ask = (key) => call(`${router.url}/v1/chat/completions`, { body: { model: 'paid', ...say('hi') }, key });
  for (const limits of [{ requests_per_minute: 2 }, { tokens_per_minute: 40 }]) {
    const key = await limited(limits);
    const answers = [await ask(key), await ask(key), await ask(key)];
    assert.deepEqual(answers.map((a) => a.status), [200, 200, 429], JSON.stringify(limits));
    assert.ok(Number(answers[2].headers.get('retry-after')) >= 1);
  }
});

test('usage is booked exactly when a stop string cuts the answer and when the client leaves', async () => {
  const { router } = await fleet(1, makeEcho('left', { step_ms: 20 }));
  const make = async () => (await call(`${router.url}/v0/keys`, { body: { name: 'u' } })).json;
  const used = async (key) => until('usage is written', async () => (await call(`${router.url}/v0/usage`)).json.usage.find((u) => u.key === key.id));
  const body = { model: 'left', ...say('0123456789'.repeat(10)) };
  const whole = await make(), cut = await make(), gone = await make(), early = await make();
  const calm = await stream(router.url, { ...body, stream_options: { include_usage: true } }, { key: whole.key });
  assert.equal((await used(whole)).completion_tokens, calm.usage.completion_tokens);

  const stopped = await stream(router.url, { ...body, stop: ['34'] }, { key: cut.key });
  assert.equal(stopped.text, '012');
  const afterStop = await used(cut);
  assert.equal(afterStop.prompt_tokens, calm.usage.prompt_tokens);
  assert.ok(afterStop.completion_tokens >= 5 && afterStop.completion_tokens < 20, `${afterStop.completion_tokens}`);

  for (const [key, chunks] of [[gone, 10], [early, 1]]) {
    const controller = new AbortController();
    let got = 0;
    await stream(router.url, body, { key: key.key, signal: controller.signal, onChunk: (out) => { got = out.text.length; if (out.chunks === chunks) controller.abort(); } }).catch(() => {});
    const afterAbort = await used(key);
    assert.equal(afterAbort.prompt_tokens, calm.usage.prompt_tokens);
    assert.ok(afterAbort.completion_tokens >= got && afterAbort.completion_tokens < got + 20, `${afterAbort.completion_tokens} for ${got}`);
  }
  await until('no slot is taken', async () => (await nodes(router))[0].models[0].inflight === 0, 2000);
});
