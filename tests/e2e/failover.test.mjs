// Nodes die, freeze and come back; workers crash; clients see no error.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { makeRandomModel } from '../support/random_model.mjs';
import { addNode, allIdle, fleet, inflight, keep, makeFaulty, makeGated, makeKey, metric, used } from './fleet.mjs';
import {
  call,
  DEMO,
  LONG,
  makeEcho,
  nodes,
  online,
  say,
  sleep,
  startRouter,
  stopwatch,
  stream,
  tempDir,
  until,
} from './support.mjs';

const STREAMS = LONG ? 64 : 16;

const moves = async (router) => (await metric(router, 'continuations_total')) + (await metric(router, 'retries_total'));

// Asks everything calmly, then again while the node with the most to do is killed.
async function killOneOfThree(model, asks) {
  const { router, all } = await fleet(3, model);
  const calm = await Promise.all(asks.map((ask) => stream(router.url, ask)));
  const names = Object.fromEntries((await nodes(router)).map((n) => [n.id, n.name]));
  let begun = 0; // streams that have some tokens
  const disturbed = asks.map((ask) =>
    stream(router.url, ask, {
      onChunk: (out) => {
        if (out.chunks !== 3 || ++begun !== Math.ceil(asks.length / 4)) return;
        const name = names[out.headers.get('x-llm-router-node')];
        all.find((n) => n.name === name).child.kill('SIGKILL'); // at once: its answers are short
      },
    }),
  );
  const out = await Promise.all(disturbed);
  out.forEach((o, i) => {
    assert.equal(o.status, 200);
    assert.equal(o.error, null);
    assert.ok(o.done);
    assert.equal(o.text, calm[i].text);
    assert.equal(o.reasoning, calm[i].reasoning);
    for (const word of ['prompt_tokens', 'completion_tokens', 'total_tokens'])
      assert.equal(o.usage[word], calm[i].usage[word], `and every token was counted once: ${word}`);
  });
  assert.ok((await moves(router)) > 0, 'somebody was moved');
  assert.ok((await metric(router, 'continuations_total')) > 0, 'some in the middle of their answer');
  return calm;
}

test('kill -9 of one node of three, demo model, temperature 0: no error, the texts of an undisturbed run', async () => {
  await killOneOfThree(
    DEMO,
    Array.from({ length: STREAMS }, (_, i) => ({
      model: 'demo',
      temperature: 0,
      max_tokens: 120,
      stream_options: { include_usage: true },
      ...say(`Count from ${i} to ${i + 30}`),
    })),
  );
});

test('kill -9 of one node of three, random weights, temperature 1 with a seed: no error, the texts of an undisturbed run', async () => {
  const model = makeRandomModel(DEMO, path.join(tempDir('model'), 'noise'));
  const texts = await killOneOfThree(
    model,
    Array.from({ length: STREAMS }, (_, i) => ({
      model: 'noise',
      temperature: 1,
      seed: i,
      max_tokens: 150,
      ignore_eos: true,
      stream_options: { include_usage: true },
      ...say('Say something'),
    })),
  );
  assert.equal(new Set(texts.map((o) => o.text + o.reasoning)).size, STREAMS, 'each seed says something else');
});

test('a frozen node (SIGSTOP) delays no request longer than the limit, and requests on other nodes are unaffected', async () => {
  const { model, open } = makeGated('slow', { step_ms: 30 });
  const { router, all } = await fleet(2, model);
  open(5);
  const ask = { model: 'slow', ...say('x'.repeat(60)) };
  const running = Array.from({ length: 6 }, () => stream(router.url, ask));
  await until('both work', async () => (await inflight(router)).every((n) => n > 0));
  all[0].child.kill('SIGSTOP');
  const watch = stopwatch();
  open(1000);
  const out = await Promise.all(running);
  assert.ok(out.every((o) => o.done && !o.error && o.text === 'x'.repeat(60)));
  assert.ok(watch.ms < 12000, 'five seconds of silence and the answer itself');
  await until('it is offline', async () => (await online(router)) === 1);
  all[0].child.kill('SIGCONT');
  await until('it is back', async () => (await online(router)) === 2);
});

test('the only node is killed in the middle of a stream and started again: the stream continues', async () => {
  const model = makeEcho('one', { step_ms: 30 });
  const { router, all } = await fleet(1, model);
  const key = await makeKey(router);
  const text = '0123456789'.repeat(6);
  let killed;
  const running = stream(
    router.url,
    { model: 'one', stream_options: { include_usage: true }, ...say(text) },
    {
      key: key.key,
      onChunk: (out) => {
        if (out.text.length >= 10) killed ??= all[0].stop('SIGKILL');
      },
    },
  );
  await until('it was killed', () => killed);
  await killed;
  const fresh = call(`${router.url}/v1/chat/completions`, { body: { model: 'one', ...say('hi') } });
  await addNode(router, model, { name: 'n0', dir: all[0].dir, port: all[0].port });
  const out = await running;
  assert.equal(out.error, null);
  assert.equal(out.text, text);
  assert.equal((await fresh).json?.choices[0].message.content, 'hi', 'one that came meanwhile waited');
  const row = await used(router, key);
  assert.equal(row.completion_tokens, out.usage.completion_tokens);
  assert.equal(row.prompt_tokens, out.usage.prompt_tokens);
  assert.equal(out.usage.completion_tokens, text.length + 1, 'the tokens of both halves, once each');
});

test('n answers of which some were moved to another node: each is complete, and the usage is the sum', async () => {
  const { model, open } = makeGated('many', { step_ms: 30 });
  const { router, all } = await fleet(2, model);
  open(5);
  const key = await makeKey(router);
  const body = { model: 'many', n: 4, ...say('abcdefghij'.repeat(4)) };
  const running = call(`${router.url}/v1/chat/completions`, { body, key: key.key });
  await until('both work', async () => (await inflight(router)).every((n) => n > 0));
  all[1].child.kill('SIGKILL');
  open(1000);
  const answer = await running;
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(
    answer.json.choices.map((c) => [c.index, c.message.content]),
    [0, 1, 2, 3].map((i) => [i, 'abcdefghij'.repeat(4)]),
  );
  const row = await used(router, key);
  assert.equal(answer.json.usage.completion_tokens, 4 * 41);
  assert.equal(row.completion_tokens, 4 * 41);
  assert.equal(row.prompt_tokens % 4, 0);
  assert.ok((await moves(router)) > 0);
});

test('a node dies before the first token: the next node answers, and the headers name that node', async () => {
  const model = makeEcho('early');
  const { router, all } = await fleet(2, model, { proxied: true });
  const names = Object.fromEntries((await nodes(router)).map((n) => [n.id, n.name]));
  for (const bad of [0, 1]) {
    all[bad].proxy.mode = 'refuse';
    all[bad].proxy.reset();
    for (let i = 0; i < 4; i++) {
      const answer = await call(`${router.url}/v1/chat/completions`, { body: { model: 'early', ...say('hello') } });
      assert.equal(answer.json?.choices[0].message.content, 'hello', answer.text);
      assert.equal(names[answer.headers.get('x-llm-router-node')], `n${1 - bad}`);
      assert.match(answer.headers.get('x-llm-router-reason'), /cost=/);
    }
    all[bad].proxy.mode = 'pass';
    await until('it is trusted again', async () => {
      await call(`${router.url}/v1/chat/completions`, { body: { model: 'early', ...say('hello') } });
      return (await call(`${router.url}/v0/explain?model=early`)).json.candidates.every((c) => !c.avoided);
    });
  }
  assert.ok((await metric(router, 'retries_total')) >= 1);
});

test('a worker crashes in the middle of an answer: the answer continues; a prompt that kills every worker gets one clear error', async () => {
  const once = path.join(tempDir('once'), 'struck');
  const { router } = await fleet(
    2,
    makeFaulty('frail', { step_ms: 5, crash: 'step', after_tokens: 5, once, poison: 'deadly' }),
  );
  const key = await makeKey(router);
  const text = 'a text that is long enough';
  const out = await stream(
    router.url,
    { model: 'frail', stream_options: { include_usage: true }, ...say(text) },
    { key: key.key },
  );
  assert.equal(out.text, text);
  assert.equal(out.usage.completion_tokens, text.length + 1);
  assert.equal((await used(router, key)).completion_tokens, text.length + 1);

  const deadly = await call(`${router.url}/v1/chat/completions`, { body: { model: 'frail', ...say('a deadly one') } });
  assert.equal(deadly.status, 500);
  assert.match(deadly.json.error.message, /died twice/);
  const well = await call(`${router.url}/v1/chat/completions`, { body: { model: 'frail', ...say('well') } });
  assert.equal(well.json?.choices[0].message.content, 'well', well.text);
});

test('a worker that hangs is killed by its node: its answers continue on another node, whether they have tokens or not', async () => {
  const once = path.join(tempDir('once'), 'struck');
  const { router } = await fleet(2, makeFaulty('stuck', { step_ms: 50, hang: 'step', after_tokens: 5, once }), {
    args: ['--keep-alive', '500ms'],
    nodeArgs: ['--step-timeout', '2s', '--max-sequences', '1'],
  });
  // One slot: of those sent to the node that hangs, the others have no token yet.  An answer takes half a second, and all
  // four arrive before the first one has ended.
  const all = await Promise.all(
    Array.from({ length: 4 }, () => stream(router.url, { model: 'stuck', ...say('0123456789') })),
  );
  for (const o of all) assert.deepEqual([o.error, o.text], [null, '0123456789']);
  assert.ok(
    all.some((o) => o.comments >= 1),
    'the silence was filled',
  );
  assert.ok((await metric(router, 'continuations_total')) >= 1, 'one in the middle of its answer');
  assert.ok((await metric(router, 'retries_total')) >= 1, 'one before its first token');
});

test('a request that makes two workers hang ends with 504 and is not tried again', async () => {
  const { router } = await fleet(3, makeFaulty('hangs', { hang: 'step', after_tokens: 5 }), {
    nodeArgs: ['--step-timeout', '1s'],
  });
  const out = await call(`${router.url}/v1/chat/completions`, {
    body: { model: 'hangs', ...say('0123456789'.repeat(3)) },
  });
  assert.equal(out.status, 504);
  assert.match(
    out.json.error.message,
    /died twice over this request.*no progress for \d+ ms .* \(setting step-timeout\)/,
  );
  assert.equal(await moves(router), 2, 'the first death is blamed on nobody');
  assert.equal(
    (await call(`${router.url}/v1/chat/completions`, { body: { model: 'hangs', ...say('0123') } })).json?.choices[0]
      .message.content,
    '0123',
  );
});

test('router killed and restarted: registrations, keys and usage stay, and nodes come back without help', async () => {
  const { router } = await fleet(1, makeEcho('kept'));
  const key = await makeKey(router);
  for (let i = 0; i < 5; i++)
    assert.equal(
      (await call(`${router.url}/v1/chat/completions`, { body: { model: 'kept', ...say('hi') }, key: key.key })).status,
      200,
    );
  await sleep(1000); // what the promise leaves out: the last second
  const port = new URL(router.url).port;
  await router.stop('SIGKILL');
  const again = keep(await startRouter({ dir: router.dir, port, args: ['--allow-cpu-nodes'] }));
  await until('the node is back', async () => (await online(again)) === 1, 20000);
  assert.equal(
    (await call(`${again.url}/v1/chat/completions`, { body: { model: 'kept', ...say('hi') }, key: key.key })).status,
    200,
  );
  await until(
    'usage',
    async () =>
      (await call(`${again.url}/v0/usage`)).json.usage
        .filter((u) => u.key === key.id)
        .reduce((sum, u) => sum + u.requests, 0) === 6,
  );
});

test('no node left: 503 with the reason per node; a node that comes back serves again', async () => {
  const model = makeEcho('alone');
  const { router, all } = await fleet(1, model, { args: ['--node-timeout', '2s'] });
  await all[0].stop('SIGKILL');
  await until('it is offline', async () => (await online(router)) === 0);
  const { key } = await makeKey(router, { requests_per_minute: 1 });
  const refused = await call(`${router.url}/v1/chat/completions`, { body: { model: 'alone', ...say('hi') }, key });
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
  assert.match(
    refused.json.error.message,
    /cannot be served at the moment/,
    'a key of role api learns nothing of nodes',
  );
  const told = await call(`${router.url}/v1/chat/completions`, { body: { model: 'alone', ...say('hi') } });
  assert.match(told.json.error.message, /n0: offline/, 'an operator does');
  assert.deepEqual((await call(`${router.url}/v1/models`)).json.data, []);
  assert.equal((await call(`${router.url}/v1/models?all=true`)).json.data.length, 1);
  await addNode(router, model, { name: 'n0', dir: all[0].dir });
  await until(
    'it serves',
    async () =>
      (await call(`${router.url}/v1/chat/completions`, { body: { model: 'alone', ...say('hi') } })).status === 200,
  );
  assert.equal(
    (await call(`${router.url}/v1/chat/completions`, { body: { model: 'alone', ...say('hi') }, key })).status,
    200,
    'the refusal cost the key nothing',
  );
  await allIdle(router);
});
