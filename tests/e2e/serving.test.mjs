// Promises to a client during a request, and actions of an operator meanwhile.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { addNode, allIdle, fleet, idOf, inflight, keep, makeFaulty, makeKey, metric, used } from './fleet.mjs';
import {
  call,
  makeEcho,
  nodes,
  online,
  register,
  say,
  startNode,
  startRouter,
  stream,
  tempDir,
  until,
} from './support.mjs';

// A model whose n-th token comes when open(n) was called.
function gated(id, more = {}) {
  const gate = path.join(tempDir('gate'), 'gate');
  fs.writeFileSync(gate, '');
  return { model: makeEcho(id, { gate, ...more }), open: (count) => fs.writeFileSync(gate, 'x'.repeat(count)) };
}

// How many generations the node's worker has, by the node itself; its secret opens it.  One
// that was cancelled counts until the worker has confirmed that its pages are free.
const live = async (node, id) => (await worker(node, id)).live;

async function worker(node, id) {
  const { secret } = JSON.parse(fs.readFileSync(path.join(node.dir, 'node-identity.json')));
  return (await call(`http://127.0.0.1:${node.port}/v0/models/${id}`, { key: secret })).json.workers[0];
}

const chat = (router, model, text, more = {}, options = {}) =>
  call(`${router.url}/v1/chat/completions`, { body: { model, ...say(text), ...more }, ...options });

test('comments keep a silent stream open: while the model loads, while the request waits, while the engine computes', async () => {
  const { model, open } = gated('quiet', { load_ms: 2200 });
  const { router } = await fleet(1, model, {
    args: ['--keep-alive', '500ms'],
    nodeArgs: ['--no-preload', '--max-sequences', '1'],
    isLoaded: false,
  });
  const running = Array.from({ length: 4 }, () => stream(router.url, { model: 'quiet', ...say('hello') })); // one slot, two beyond, one waits
  await until('it is loaded', async () => (await nodes(router))[0].models[0].state === 'ready');
  const begun = Date.now();
  await until('a while of computing has passed', () => Date.now() - begun > 1500);
  open(1000);
  for (const out of await Promise.all(running)) {
    assert.deepEqual([out.error, out.text, out.done], [null, 'hello', true]);
    assert.ok(out.comments >= 3, `${out.comments} comments in ${Date.now() - begun + 2200} ms`);
  }
});

test('a client disconnects: the worker is told at once, also before the first token', async () => {
  const { model, open } = gated('leave');
  const { router, all } = await fleet(1, model);
  for (const tokens of [0, 5]) {
    open(tokens);
    const controller = new AbortController();
    let got = 0;
    const running = stream(
      router.url,
      { model: 'leave', ...say('0123456789') },
      {
        signal: controller.signal,
        onChunk: (out) => {
          got = out.text.length;
        },
      },
    ).catch(() => 'left');
    await until('it runs', async () => (await live(all[0], 'leave')) === 1 && got >= tokens - 1);
    controller.abort();
    assert.equal(await running, 'left');
    await until('the worker has let go', async () => (await live(all[0], 'leave')) === 0, 3000);
    await allIdle(router, 3000);
  }
  assert.equal(await metric(router, 'cancelled_total'), 2);
});

test('an answer without streaming whose client has disconnected is cancelled, too', async () => {
  const { model } = gated('gone');
  const { router, all } = await fleet(1, model);
  const controller = new AbortController();
  const running = fetch(`${router.url}/v1/chat/completions`, {
    method: 'POST',
    signal: controller.signal,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'gone', ...say('hi') }),
  }).catch(() => 'left');
  await until('it runs', async () => (await live(all[0], 'gone')) === 1);
  controller.abort();
  assert.equal(await running, 'left');
  await until('the worker has let go', async () => (await live(all[0], 'gone')) === 0, 3000);
});

test('X-Request-Id and traceparent reach the node; malformed values do not', async () => {
  const { router, all } = await fleet(1, makeEcho('trace'), { proxied: true });
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const good = await chat(router, 'trace', 'hi', {}, { headers: { 'x-request-id': 'mine-7', traceparent: trace } });
  assert.equal(good.headers.get('x-request-id'), 'mine-7');
  assert.ok(all[0].proxy.asked.includes(trace));
  assert.match(all[0].proxy.asked, /mine-7\./);
  all[0].proxy.asked = '';
  for (const bad of [
    { traceparent: 'not one at all' },
    { traceparent: `${trace.slice(0, -3)}zzz` },
    { 'x-request-id': 'no spaces "or" quotes' },
    { 'x-request-id': 'x'.repeat(65) },
  ]) {
    const answer = await chat(router, 'trace', 'hi', {}, { headers: bad });
    assert.match(answer.headers.get('x-request-id'), /^req-[A-Za-z0-9]{20}$/);
  }
  assert.doesNotMatch(all[0].proxy.asked, /not one at all|0af7651916cd43dd/i);
});

test('two clients with the same X-Request-Id: when one disconnects the other continues', async () => {
  const { model, open } = gated('twice');
  const { router, all } = await fleet(1, model);
  const headers = { 'content-type': 'application/json', 'x-request-id': 'same' };
  const body = JSON.stringify({ model: 'twice', ...say('hello') });
  const controller = new AbortController();
  const leaves = fetch(`${router.url}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body,
    signal: controller.signal,
  }).catch(() => 'left');
  const stays = fetch(`${router.url}/v1/chat/completions`, { method: 'POST', headers, body });
  await until('both run', async () => (await live(all[0], 'twice')) === 2);
  controller.abort();
  assert.equal(await leaves, 'left');
  await until('one has left', async () => (await live(all[0], 'twice')) === 1);
  open(100);
  assert.equal((await (await stays).json()).choices[0].message.content, 'hello');
  assert.equal(await metric(router, 'continuations_total'), 0);
  assert.equal(await metric(router, 'retries_total'), 0);
});

test('headers and /v0/explain name the node, why it was chosen, and why not the others', async () => {
  const model = makeEcho('why');
  const { router } = await fleet(3, model);
  const [n0, n1, n2] = (await nodes(router)).map((n) => n.id);
  const explain = async () => (await call(`${router.url}/v0/explain?model=why`)).json;
  assert.deepEqual(
    (await explain()).candidates.map((c) => [c.node, c.loaded, c.has_room, c.avoided]),
    [n0, n1, n2].map((id) => [id, true, true, false]),
  );
  await call(`${router.url}/v0/nodes/${n0}/drain`, { method: 'POST' });
  const answer = await chat(router, 'why', 'hi');
  assert.ok([n1, n2].includes(answer.headers.get('x-llm-router-node')));
  assert.match(answer.headers.get('x-llm-router-reason'), /^cost=\d+ms loaded active=0 nodes=2 cached=0%$/);
  const told = await explain();
  assert.deepEqual(
    told.candidates.map((c) => c.node),
    [n1, n2],
  );
  assert.ok(
    told.candidates.some((c) => c.step_ms > 0 || c.prefill_ms_per_token > 0),
    'what was measured is told',
  );
  assert.match(JSON.stringify(told.nodes.find((n) => n.node === n0 || n.id === n0)), /taken out of service/);
  assert.equal((await call(`${router.url}/v0/explain`)).status, 400);
  assert.equal((await call(`${router.url}/v0/explain?model=nobody`)).status, 404);
});

test('a model that has to be loaded first: requests wait for it and are answered', async () => {
  const { router } = await fleet(1, makeEcho('cold', { load_ms: 1500 }), {
    nodeArgs: ['--no-preload'],
    isLoaded: false,
  });
  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => chat(router, 'cold', `hello ${i}`)));
  assert.deepEqual(
    answers.map((a) => a.json?.choices?.[0].message.content ?? a.text),
    answers.map((_, i) => `hello ${i}`),
  );
  const [c] = (await call(`${router.url}/v0/explain?model=cold`)).json.candidates;
  assert.ok(c.prefill_ms_per_token < 50, `loading is not mistaken for computing: ${c.prefill_ms_per_token} ms a token`);
});

test('two models that alternate in one memory: no request gets an error', async () => {
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
  const models = ['left', 'right'].map((id) => makeEcho(id, { weights_bytes: 60_000_000, step_ms: 5 }));
  const node = keep(
    await startNode(router, {
      args: [
        '--model',
        models[0],
        '--model',
        models[1],
        '--ram-limit',
        '100MB',
        '--min-resident',
        '0s',
        '--memory-threshold',
        '100',
      ],
    }),
  );
  await until('online', async () => (await online(router)) === 1);
  for (const model of models) await register(router, idOf(model));
  const client = async (i) => {
    for (let turn = 0; turn < 4; turn++) {
      const answer = await chat(router, idOf(models[(i + turn) % 2]), `turn ${turn} of ${i}`);
      assert.equal(answer.json?.choices?.[0].message.content, `turn ${turn} of ${i}`, answer.text);
    }
  };
  await Promise.all(Array.from({ length: 6 }, (_, i) => client(i)));
  assert.ok(node.log.match(/worker\.left/g)?.length >= 2, 'they did take turns');
});

test('a node that joins late serves waiting requests', async () => {
  const { model, open } = gated('late');
  const { router } = await fleet(1, model, { nodeArgs: ['--max-sequences', '1'] });
  const running = Array.from({ length: 6 }, () => stream(router.url, { model: 'late', ...say('hello') })); // three wait
  await until('some wait', async () => (await call(`${router.url}/v0/explain?model=late`)).json.queued === 3);
  await addNode(router, model, { name: 'n1', args: ['--max-sequences', '1'] });
  await until('nobody waits', async () => (await call(`${router.url}/v0/explain?model=late`)).json.queued === 0);
  assert.deepEqual(await inflight(router), [3, 3]);
  open(100);
  for (const out of await Promise.all(running)) assert.deepEqual([out.error, out.text], [null, 'hello']);
});

test('a node with streams is taken out of service: no stream is lost, none is added, and the node comes back', async () => {
  const { router } = await fleet(2, makeEcho('drain', { step_ms: 20 }));
  const text = '0123456789'.repeat(5);
  const running = Array.from({ length: 8 }, () => stream(router.url, { model: 'drain', ...say(text) }));
  await until('both work', async () => (await inflight(router)).every((n) => n > 0));
  const [first] = await nodes(router);
  await call(`${router.url}/v0/nodes/${first.id}/drain`, { method: 'POST' });
  for (let i = 0; i < 3; i++)
    assert.notEqual((await chat(router, 'drain', 'hi')).headers.get('x-llm-router-node'), first.id);
  for (const out of await Promise.all(running)) assert.deepEqual([out.error, out.text], [null, text]);
  assert.equal(await metric(router, 'continuations_total'), 0, 'its streams ended where they were');
  await call(`${router.url}/v0/nodes/${first.id}/undrain`, { method: 'POST' });
  const seen = new Set();
  await until(
    'it works again',
    async () =>
      seen.add((await chat(router, 'drain', 'hi')).headers.get('x-llm-router-node')).has(first.id) ||
      (await Promise.all([1, 2].map(() => chat(router, 'drain', 'hello')))).some(
        (a) => a.headers.get('x-llm-router-node') === first.id,
      ),
  );
});

test('a node that gets SIGTERM finishes its streams; new requests go to other nodes without an error', async () => {
  const { router, all } = await fleet(2, makeEcho('leave', { step_ms: 20 }));
  const text = '0123456789'.repeat(5);
  const running = Array.from({ length: 8 }, () => stream(router.url, { model: 'leave', ...say(text) }));
  await until('both work', async () => (await inflight(router)).every((n) => n > 0));
  all[0].child.kill('SIGTERM');
  const more = await Promise.all(Array.from({ length: 8 }, () => chat(router, 'leave', 'hi')));
  assert.deepEqual(
    more.map((a) => a.json?.choices?.[0].message.content ?? a.text),
    more.map(() => 'hi'),
  );
  for (const out of await Promise.all(running)) assert.deepEqual([out.error, out.text], [null, text]);
  assert.equal((await all[0].ended).code, 0);
});

test('a model is deleted while streams run: they finish, waiting and new requests get 404', async () => {
  const { model, open } = gated('doomed');
  const { router } = await fleet(1, model, { nodeArgs: ['--max-sequences', '1'] });
  const running = Array.from({ length: 3 }, () => stream(router.url, { model: 'doomed', ...say('hello') }));
  await until('they run', async () => (await inflight(router))[0] === 3);
  const waits = chat(router, 'doomed', 'hi');
  await until('one waits', async () => (await call(`${router.url}/v0/explain?model=doomed`)).json.queued === 1);
  assert.equal((await call(`${router.url}/v0/models/doomed`, { method: 'DELETE' })).status, 200);
  const refused = await waits;
  assert.equal(refused.status, 404);
  assert.match(refused.json.error.message, /was deleted/);
  assert.equal((await chat(router, 'doomed', 'hi')).status, 404);
  open(100);
  for (const out of await Promise.all(running)) assert.deepEqual([out.error, out.text], [null, 'hello']);
});

test('usage is exact: whole answers, n answers, a stop string, clients that disconnect early and late', async () => {
  const { model, open } = gated('paid');
  const { router, all } = await fleet(1, model);
  const text = '0123456789'.repeat(2);
  const body = { model: 'paid', ...say(text) };
  const [whole, many, cut, gone, early] = await Promise.all(Array.from({ length: 5 }, () => makeKey(router)));
  const counted = async (key) => {
    const row = await used(router, key);
    return [row.prompt_tokens, row.completion_tokens, row.requests];
  };
  open(1000);
  const calm = await stream(router.url, { ...body, stream_options: { include_usage: true } }, { key: whole.key });
  const prompt = calm.usage.prompt_tokens;
  assert.equal(calm.usage.completion_tokens, text.length + 1);
  assert.deepEqual(await counted(whole), [prompt, text.length + 1, 1]);

  const three = await call(`${router.url}/v1/chat/completions`, { body: { ...body, n: 3 }, key: many.key });
  assert.equal(three.json.usage.completion_tokens, 3 * (text.length + 1));
  assert.deepEqual(await counted(many), [3 * prompt, 3 * (text.length + 1), 1]);

  open(5); // the engine makes five tokens and no more: the fifth completes the stop string
  const stopped = await stream(router.url, { ...body, stop: ['34'] }, { key: cut.key });
  assert.equal(stopped.text, '012');
  assert.deepEqual(await counted(cut), [prompt, 5, 1]);

  for (const [key, tokens] of [
    [gone, 7],
    [early, 0],
  ]) {
    open(tokens);
    const controller = new AbortController();
    let got = 0;
    const running = stream(router.url, body, {
      key: key.key,
      signal: controller.signal,
      onChunk: (out) => {
        got = out.text.length;
      },
    }).catch(() => 'left');
    await until('all that may come has come', async () => got === tokens && (await live(all[0], 'paid')) === 1);
    controller.abort();
    assert.equal(await running, 'left');
    assert.deepEqual(await counted(key), [prompt, tokens, 1]);
  }
  await allIdle(router, 3000);
});

test('tokens that the engine computed before the cancel arrived are counted, too', async () => {
  const { router, all } = await fleet(1, makeEcho('ahead', { step_ms: 1 }), { proxied: true });
  const key = await makeKey(router);
  Object.assign(all[0].proxy, { mode: 'delay', every: 1000 }); // so that it is well ahead, on a busy machine too
  const out = await stream(
    router.url,
    { model: 'ahead', stop: ['34'], ...say('0123456789'.repeat(300)) },
    { key: key.key },
  );
  assert.equal(out.text, '012');
  const row = await used(router, key);
  assert.ok(row.completion_tokens > 50, `${row.completion_tokens}`);
  await until(
    'the engine says the same',
    async () => (await worker(all[0], 'ahead')).stats.generated_tokens === row.completion_tokens,
    3000,
  );
});

test('a client that leaves before the node has accepted: the prompt and the tokens made meanwhile are counted', async () => {
  const { router, all } = await fleet(1, makeEcho('hasty', { step_ms: 1 }), { proxied: true });
  const body = { model: 'hasty', ...say('0123456789'.repeat(100)) };
  const key = await makeKey(router);
  const before = (await chat(router, 'hasty', 'hi')).json.usage.completion_tokens; // opens the link, too
  const made = async () => (await worker(all[0], 'hasty')).stats.generated_tokens - before;
  Object.assign(all[0].proxy, { mode: 'delay', every: 1000 }); // the node's "accepted" is late
  const controller = new AbortController();
  const running = stream(router.url, body, { key: key.key, signal: controller.signal }).catch(() => 'left');
  await until('the engine has made a token', async () => (await made()) > 0);
  controller.abort();
  assert.equal(await running, 'left');
  const row = await used(router, key);
  await until('the engine says the same', async () => (await made()) === row.completion_tokens, 3000);
  assert.ok(row.completion_tokens > 0 && row.prompt_tokens > 1000, JSON.stringify(row));
  await allIdle(router, 3000);
});

test('an error in the middle of a stream is an event of the stream, and its tokens are counted once', async () => {
  const { router } = await fleet(1, makeFaulty('breaks', { step_ms: 5, crash: 'step', after_tokens: 4 }));
  const key = await makeKey(router);
  const out = await stream(router.url, { model: 'breaks', ...say('0123456789abcdef') }, { key: key.key });
  assert.equal(out.status, 200);
  assert.match(out.error.message, /could not answer this request; operators find the reason in the log under req-/);
  await until('the log says why', () => /request\.poison .*died twice/.test(router.log));
  assert.equal(out.text, '0123456789abcdef'.slice(0, out.text.length));
  assert.ok(out.text.length >= 4);
  const row = await used(router, key);
  assert.deepEqual([row.completion_tokens, row.requests], [out.text.length, 1]);
  assert.ok(row.prompt_tokens > 0);
});

test('a client that does not read is disconnected at a limit and costs the router no memory; others are served', async () => {
  const { router } = await fleet(1, makeEcho('fast'));
  const resident = () => Number(fs.readFileSync(`/proc/${router.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]);
  await chat(router, 'fast', 'warm up');
  const before = resident();
  const body = JSON.stringify({
    model: 'fast',
    stream: true,
    ignore_eos: true,
    max_tokens: 32000,
    logprobs: true,
    ...say('x'),
  });
  const sockets = Array.from({ length: 6 }, () => {
    const socket = net.connect(Number(new URL(router.url).port), '127.0.0.1');
    socket.pause();
    socket.on('error', () => {});
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    return socket;
  });
  await until('they are dropped', async () => (await metric(router, 'cancelled_total')) === sockets.length, 60000);
  assert.equal((await chat(router, 'fast', 'hello')).json.choices[0].message.content, 'hello');
  const grown = (resident() - before) / 1024;
  assert.ok(grown < 6 * 2 + 8, `${grown.toFixed(1)} MiB more for ${sockets.length} clients of at most 1 MiB each`);
  sockets.forEach((socket) => socket.destroy());
  await allIdle(router);
});
