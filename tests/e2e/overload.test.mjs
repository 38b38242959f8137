// Ten times more requests than the fleet can serve: the queue is limited, a refused request is told when
// to retry, an admitted request is answered.  Waiting times under overload: tenfold, fairness.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fleet, makeKey, metric } from './fleet.mjs';
import { call, makeEcho, say, stopwatch, stream, tempDir, until } from './support.mjs';

const SLOTS = 8,
  BEYOND = 2;

test('ten times the slots: the slots, two more requests and the queue are served in full, the rest gets 429 with Retry-After', async () => {
  const queue = 10;
  const { router } = await fleet(1, makeEcho('busy', { step_ms: 20 }), {
    args: ['--queue', `${queue}`],
    nodeArgs: ['--max-sequences', `${SLOTS}`],
  });
  const text = '0123456789'.repeat(3);
  let most = 0,
    ended = false;
  const look = (async () => {
    while (!ended) most = Math.max(most, (await call(`${router.url}/v0/explain?model=busy`)).json.queued);
  })();
  const out = await Promise.all(
    Array.from({ length: 10 * SLOTS }, () => stream(router.url, { model: 'busy', ...say(text) })),
  );
  ended = true;
  await look;
  const served = out.filter((o) => o.status === 200),
    refused = out.filter((o) => o.status === 429);
  assert.equal(
    served.length + refused.length,
    out.length,
    JSON.stringify(out.find((o) => ![200, 429].includes(o.status))),
  );
  assert.ok(served.length >= SLOTS + BEYOND + queue, `${served.length} served`);
  assert.ok(refused.length > 0);
  assert.ok(served.every((o) => o.done && !o.error && o.text === text));
  assert.ok(refused.every((o) => Number(o.headers.get('retry-after')) >= 1));
  assert.match(JSON.parse(refused[0].body).error.message, /wait for model "busy" already \(setting queue\)/);
  assert.ok(most <= queue, `${most} waited`);
  assert.equal(await metric(router, 'queue_full_total'), refused.length);
});

test('a request that would wait longer than queue-wait is told when the queue will have room, and then it has room', async () => {
  const { router } = await fleet(1, makeEcho('slow', { step_ms: 50 }), {
    args: ['--queue-wait', '2s'],
    nodeArgs: ['--max-sequences', `${SLOTS}`],
  });
  const explain = async () => (await call(`${router.url}/v0/explain?model=slow`)).json;
  const many = Array.from({ length: 70 }, (_, i) =>
    stream(router.url, { model: 'slow', ...say('x'.repeat(10 + (i % 20))) }),
  );
  // Not all of them: on a busy machine the first are served before the last are sent.
  await until('many wait', async () => (await explain()).queued > 40);
  await until('its speed is known', async () => (await explain()).queued < 40);
  const refused = await stream(router.url, { model: 'slow', ...say('hi') });
  const watch = stopwatch();
  assert.equal(refused.status, 429);
  assert.match(JSON.parse(refused.body).error.message, /wait for model "slow" already \(setting queue-wait\)/);
  const promised = Number(refused.headers.get('retry-after'));
  assert.ok(promised >= 2, `Retry-After: ${promised}`);
  await until('there is room', async () => (await explain()).queued < 12);
  const took = watch.real / 1000;
  assert.ok(
    watch.ms / 1000 <= promised + 1 && promised <= 2 * took + 1,
    `room after ${took} s, Retry-After was ${promised}`,
  );
  assert.ok(
    (await Promise.all(many)).every((o) => o.done),
    'whoever waited already is served',
  );
});

test('a full queue accepts a request of a key with fewer waiting requests and serves it next; the newest request of another key is refused instead', async () => {
  const gate = path.join(tempDir('gate'), 'gate');
  fs.writeFileSync(gate, '');
  const queue = 20;
  const { router } = await fleet(1, makeEcho('turns', { gate, step_ms: 20 }), {
    args: ['--queue', `${queue}`],
    nodeArgs: ['--max-sequences', `${SLOTS}`],
  });
  const [flood, small] = await Promise.all([makeKey(router), makeKey(router)]);
  const order = [];
  const ask = async (key, name) => {
    const out = await stream(router.url, { model: 'turns', ...say('hello') }, { key: key.key });
    order.push(name);
    return out;
  };
  const queued = async () => (await call(`${router.url}/v0/explain?model=turns`)).json.queued;
  const many = Array.from({ length: SLOTS + BEYOND + queue }, () => ask(flood, 'flood'));
  await until('the queue is full', async () => (await queued()) === queue);
  assert.equal((await ask(flood, 'refused')).status, 429, 'its own key gets no more');
  const one = ask(small, 'small');
  await until('one of the flood made room', () => order.length === 2);
  // As many answers of the flood are preempted as there are tickets beyond the slots, with this one.  They were admitted, so they wait in addition to the queue's limit.
  const waiting = await queued();
  assert.ok(waiting >= queue && waiting <= queue + BEYOND + 1, `${waiting} wait`);
  fs.writeFileSync(gate, 'x'.repeat(100));
  assert.equal((await one).text, 'hello');
  const out = await Promise.all(many);
  assert.equal(out.filter((o) => o.status === 429).length, 1);
  assert.ok(out.every((o) => o.status === 429 || o.text === 'hello'));
  const place = order.slice(2).indexOf('small');
  assert.ok(place < 2 * SLOTS, `it was served after ${place} of the flood, not after all ${SLOTS + BEYOND + queue}`);
});

test('with --no-preempt no answer is preempted', async () => {
  const { router } = await fleet(1, makeEcho('stays', { step_ms: 10 }), {
    args: ['--no-preempt'],
    nodeArgs: ['--max-sequences', '2'],
  });
  const [flood, small] = await Promise.all([makeKey(router), makeKey(router)]);
  const many = Array.from({ length: 8 }, () =>
    stream(router.url, { model: 'stays', ...say('0123456789'.repeat(5)) }, { key: flood.key }),
  );
  await until('all slots are taken', async () => (await call(`${router.url}/v0/explain?model=stays`)).json.queued > 0);
  assert.equal((await stream(router.url, { model: 'stays', ...say('hi') }, { key: small.key })).text, 'hi');
  assert.ok((await Promise.all(many)).every((o) => o.text === '0123456789'.repeat(5)));
  assert.equal(await metric(router, 'preempted_total'), 0);
});

test('a node that is full of requests of other clients answers busy: the request waits at the router and is answered', async () => {
  const gate = path.join(tempDir('gate'), 'gate');
  fs.writeFileSync(gate, '');
  const { router, all } = await fleet(1, makeEcho('shared', { gate }), { nodeArgs: ['--max-sequences', '1'] });
  const { secret } = JSON.parse(fs.readFileSync(path.join(all[0].dir, 'node-identity.json')));
  const others = Array.from({ length: 1 + BEYOND }, (_, i) =>
    call(`http://127.0.0.1:${all[0].port}/v0/generate`, {
      key: secret,
      body: {
        protocol: 1,
        request_id: `other-${i}`,
        model: 'shared',
        seed: 1,
        segments: [{ text: 'other', control: false }],
        no_queue: true,
      },
    }),
  );
  await until(
    'they fill the node',
    async () =>
      (await call(`http://127.0.0.1:${all[0].port}/v0/models/shared`, { key: secret })).json.workers[0].live ===
      1 + BEYOND,
  );
  const running = call(`${router.url}/v1/chat/completions`, { body: { model: 'shared', ...say('hello') } });
  await until('it was refused and waits', async () => (await metric(router, 'busy_total')) > 0);
  fs.writeFileSync(gate, 'x'.repeat(100));
  const answer = await running;
  assert.equal(answer.json?.choices?.[0].message.content, 'hello', answer.text);
  assert.equal(await metric(router, 'retries_total'), 0, 'a full node is not an ill one');
  assert.ok((await Promise.all(others)).every((o) => o.status === 200));
});

test('a request that waited longer than queue-timeout gets 503 and the setting is named', async () => {
  const gate = path.join(tempDir('gate'), 'gate');
  fs.writeFileSync(gate, '');
  const { router } = await fleet(1, makeEcho('stuck', { gate }), {
    args: ['--queue-timeout', '500ms'],
    nodeArgs: ['--max-sequences', '1'],
  });
  const long = Array.from({ length: 3 }, () => stream(router.url, { model: 'stuck', ...say('x'.repeat(16)) }));
  await until(
    'all slots are taken',
    async () => !(await call(`${router.url}/v0/explain?model=stuck`)).json.candidates[0].has_room,
  );
  const refused = await call(`${router.url}/v1/chat/completions`, { body: { model: 'stuck', ...say('hi') } });
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
  assert.match(refused.json.error.message, /setting queue-timeout/);
  fs.writeFileSync(gate, 'x'.repeat(100));
  for (const out of await Promise.all(long)) assert.equal(out.text, 'x'.repeat(16));
});

test('a request that waits at a node for its model is dropped there when queue-timeout is over; one that has begun is not', async () => {
  const { router } = await fleet(1, makeEcho('late', { load_ms: 4000, step_ms: 100 }), {
    args: ['--queue-timeout', '1500ms'],
    nodeArgs: ['--no-preload'],
    isLoaded: false,
  });
  const ask = (text) => call(`${router.url}/v1/chat/completions`, { body: { model: 'late', ...say(text) } });
  const early = await ask('early');
  assert.equal(early.status, 504);
  assert.match(
    early.json.error.message,
    /was not there to begin within \d+ ms, the request's deadline \(setting queue-timeout of the router\)/,
  );
  const isLoaded = async () => (await call(`${router.url}/v0/explain?model=late`)).json.candidates[0].loaded;
  assert.equal(await isLoaded(), false, 'the request did not wait for the model');
  await until('it is loaded', isLoaded);
  assert.equal(
    (await ask('an answer that takes longer')).json?.choices[0].message.content,
    'an answer that takes longer',
  );
});

test('a client that disconnects while it waits leaves the queue', async () => {
  const gate = path.join(tempDir('gate'), 'gate');
  fs.writeFileSync(gate, '');
  const { router } = await fleet(1, makeEcho('wait', { gate }), {
    args: ['--queue', '1'],
    nodeArgs: ['--max-sequences', '1'],
  });
  const long = Array.from({ length: 3 }, () => stream(router.url, { model: 'wait', ...say('x'.repeat(14)) }));
  await until(
    'all slots are taken',
    async () => !(await call(`${router.url}/v0/explain?model=wait`)).json.candidates[0].has_room,
  );
  const controller = new AbortController();
  const leaves = stream(router.url, { model: 'wait', ...say('hi') }, { signal: controller.signal }).catch(() => 'left');
  const queued = async () => (await call(`${router.url}/v0/explain?model=wait`)).json.queued;
  await until('it waits', async () => (await queued()) === 1);
  controller.abort();
  assert.equal(await leaves, 'left');
  await until('its place is free', async () => (await queued()) === 0, 3000);
  const next = stream(router.url, { model: 'wait', ...say('hi') });
  await until('the next one waits', async () => (await queued()) === 1);
  fs.writeFileSync(gate, 'x'.repeat(100));
  assert.equal((await next).text, 'hi');
  await Promise.all(long);
});

test('a key over its requests or tokens per minute gets 429 with Retry-After', async () => {
  const { router } = await fleet(1, makeEcho('paid'));
  const ask = (key) => call(`${router.url}/v1/chat/completions`, { body: { model: 'paid', ...say('hi') }, key });
  for (const limits of [{ requests_per_minute: 2 }, { tokens_per_minute: 40 }]) {
    const { key } = await makeKey(router, limits);
    const answers = [await ask(key), await ask(key), await ask(key)];
    assert.deepEqual(
      answers.map((a) => a.status),
      [200, 200, 429],
      JSON.stringify(limits),
    );
    assert.ok(Number(answers[2].headers.get('retry-after')) >= 1);
  }
});
