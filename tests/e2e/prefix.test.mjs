// Prefix cache: the computed part of a conversation is not computed again.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { fleet, makeKey, used } from './fleet.mjs';
import { call, nodes, until } from './support.mjs';

const DEMO = path.resolve('models/demo');
const system = { role: 'system', content: 'You are a calculator. '.repeat(12) };

// The answer and its usage, as the model gives it to this key.
async function ask(router, messages, key) {
  const { status, json } = await call(`${router.url}/v1/chat/completions`, {
    key,
    body: { model: 'demo', temperature: 0, messages },
  });
  assert.equal(status, 200, JSON.stringify(json));
  const { message } = json.choices[0];
  return {
    text: message.content,
    reasoning: message.reasoning_content,
    prompt: json.usage.prompt_tokens,
    cached: json.usage.prompt_tokens_details.cached_tokens,
  };
}

test('the next turn of a conversation computes only its new part, and reports the cached tokens', async () => {
  const { router } = await fleet(1, DEMO);
  const [mine, other] = [await makeKey(router), await makeKey(router, { name: 'other' })];
  const first = [system, { role: 'user', content: 'What is 3 + 4?' }];
  const one = await ask(router, first, mine.key);
  assert.deepEqual([one.text, one.cached], ['3 + 4 = 7', 0]);

  const again = await ask(router, first, mine.key);
  assert.deepEqual([again.text, again.reasoning], [one.text, one.reasoning]);
  assert.ok(again.cached > again.prompt * 0.7 && again.cached < again.prompt, `${again.cached} of ${again.prompt}`);

  const turn = [...first, { role: 'assistant', content: one.text }, { role: 'user', content: 'What is 5 + 6?' }];
  const two = await ask(router, turn, mine.key);
  const fresh = await ask(router, turn, other.key); // computes it all itself
  assert.ok(two.cached > one.prompt * 0.7, `${two.cached} of ${two.prompt}`);
  assert.deepEqual([two.text, two.reasoning, fresh.cached], [fresh.text, fresh.reasoning, 0]);

  await until('all three requests are in the usage records', async () => (await used(router, mine)).requests === 3);
  assert.equal((await used(router, mine)).cached_tokens, again.cached + two.cached);
});

test('an answer that a stop string ends tells the cached tokens as the usage record does, whatever the API', async () => {
  const { router } = await fleet(1, DEMO);
  const text = 'What is 3 + 4? '.repeat(30);
  const messages = [{ role: 'user', content: text }];
  const common = { model: 'demo', temperature: 0, max_tokens: 60 };
  const apis = {
    '/v1/chat/completions': {
      ask: { ...common, messages, stop: ['+'], stream_options: { include_usage: true } },
      cached: (u) => u.prompt_tokens_details.cached_tokens,
    },
    '/v1/completions': {
      ask: { ...common, prompt: text, stop: ['='], stream_options: { include_usage: true } },
      cached: (u) => u.prompt_tokens_details.cached_tokens,
    },
    '/v1/messages': {
      ask: { ...common, messages, stop_sequences: ['+'] },
      cached: (u) => u.cache_read_input_tokens,
    },
  };
  for (const [at, { ask, cached }] of Object.entries(apis)) {
    const mine = await makeKey(router, { name: at });
    const told = [];
    for (const stream of [false, false, true]) {
      const { stream_options, ...plain } = ask;
      const body = stream ? { ...ask, stream } : plain;
      const answer = await call(`${router.url}${at}`, { key: mine.key, body });
      assert.equal(answer.status, 200, answer.text);
      assert.match(answer.text, /"(finish|stop)_reason":"(stop|stop_sequence)"/, at);
      const [stop] = ask.stop ?? ask.stop_sequences;
      assert.doesNotMatch(answer.text, new RegExp(`"(content|text)":"[^"]*[${stop}]`), 'the stop string ended it');
      const events = stream
        ? [...answer.text.matchAll(/^data: (\{.*)$/gm)].map((m) => JSON.parse(m[1]))
        : [answer.json];
      told.push(cached(events.findLast((e) => e.usage).usage));
    }
    assert.equal(told[0], 0, at);
    assert.ok(told[1] > 50 && told[2] === told[1], `${at}: ${told}`);
    await until('all are recorded', async () => (await used(router, mine)).requests === 3);
    assert.equal((await used(router, mine)).cached_tokens, told[1] + told[2], at);
  }
});

test('the next turn goes to the node that computed the turns before', async () => {
  const { router } = await fleet(2, DEMO);
  const [n0, n1] = ['n0', 'n1'];
  const ids = Object.fromEntries((await nodes(router)).map((n) => [n.name, n.id]));
  const put = (name, verb) => call(`${router.url}/v0/nodes/${ids[name]}/${verb}`, { method: 'POST' });
  const long = [
    { role: 'system', content: 'You are a calculator. '.repeat(20) },
    { role: 'user', content: 'What is 3 + 4?' },
  ];
  const at = async (messages) => {
    const { status, json, headers } = await call(`${router.url}/v1/chat/completions`, {
      body: { model: 'demo', temperature: 0, messages },
    });
    assert.equal(status, 200, JSON.stringify(json));
    return {
      node: headers.get('x-llm-router-node'),
      why: headers.get('x-llm-router-reason'),
      cached: json.usage.prompt_tokens_details.cached_tokens,
    };
  };

  assert.equal((await put(n0, 'drain')).status, 200);
  await at(long);
  assert.ok((await at(long)).cached > 0); // now the router knows that this node's engine keeps beginnings
  assert.equal((await put(n0, 'undrain')).status, 200);
  const next = await at([
    ...long,
    { role: 'assistant', content: '3 + 4 = 7' },
    { role: 'user', content: 'What is 5 + 6?' },
  ]);
  assert.equal(next.node, ids[n1], next.why);
  assert.match(next.why, /cached=[1-9]\d*%/);
  assert.ok(next.cached > 0);
  const other = await at([{ role: 'system', content: 'Calculate. '.repeat(150) }, long[1]]);
  const [, share] = other.why.match(/cached=(\d+)%/); // what the template puts before every conversation
  assert.ok(Number(share) < 30, other.why);
});
