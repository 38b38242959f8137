// POST /v1/messages with Anthropic's own client: the promises of chat completions hold here, too.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { fleet, keep, makeKey, metric, used } from './fleet.mjs';
import { call, DEMO, makeEcho, nodes, online, say, startRouter, startUp, until } from './support.mjs';

let up, client;

// The client sends its key in x-api-key.
const clientOf = ({ url }, { key }) => new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });

before(async () => {
  up = await startUp({ args: ['--model', DEMO] });
  client = clientOf(up, await makeKey(up));
});
after(() => up?.stop());

const body = (content, more = {}) => ({
  model: 'demo',
  max_tokens: 300,
  temperature: 0,
  messages: [{ role: 'user', content }],
  ...more,
});
const thinking = { type: 'adaptive' };
const textOf = (message) =>
  message.content
    .filter((block) => block.type === 'text')
    .map((block) => block.text)
    .join('');

const tools = [
  {
    name: 'get_weather',
    description: 'Weather of a city',
    input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
];

test('an answer equals that of chat completions: text, thinking and usage', async () => {
  const chat = (
    await call(`${up.url}/v1/chat/completions`, {
      body: {
        model: 'demo',
        temperature: 0,
        messages: [{ role: 'system', content: 'Be kind.' }, ...say('Hello there').messages],
      },
    })
  ).json;
  const answer = await client.messages.create(body('Hello there', { system: 'Be kind.', thinking }));
  assert.match(answer.id, /^msg_[A-Za-z0-9]{24}$/);
  assert.match(answer._request_id, /^req-/);
  assert.deepEqual(
    [answer.type, answer.role, answer.model, answer.stop_reason, answer.stop_sequence],
    ['message', 'assistant', 'demo', 'end_turn', null],
  );
  assert.deepEqual(answer.content, [
    { type: 'thinking', thinking: chat.choices[0].message.reasoning_content, signature: answer.content[0].signature },
    { type: 'text', text: chat.choices[0].message.content },
  ]);
  const { input_tokens, cache_read_input_tokens, output_tokens } = answer.usage;
  assert.deepEqual(
    [input_tokens + cache_read_input_tokens, output_tokens],
    [chat.usage.prompt_tokens, chat.usage.completion_tokens],
  );
  const plain = await client.messages.create(body('Hello there', { system: 'Be kind.' }));
  assert.deepEqual(
    plain.content.map((block) => block.type),
    ['text'],
    'thinking is shown where it is asked for',
  );
});

test('a stream gives the same answer in named events, and the client accumulates it', async () => {
  const whole = await client.messages.create(body('Hello there', { thinking }));
  const stream = client.messages.stream(body('Hello there', { thinking }));
  const types = [];
  let start;
  stream.on('streamEvent', (event) => {
    types.push(event.type);
    if (event.type === 'message_start') start = { ...event.message.usage };
  });
  const final = await stream.finalMessage();
  assert.deepEqual(
    types.filter((type, i) => type !== types[i - 1]),
    [
      'message_start',
      ...['content_block_start', 'content_block_delta', 'content_block_stop'],
      ...['content_block_start', 'content_block_delta', 'content_block_stop'],
      'message_delta',
      'message_stop',
    ],
  );
  assert.deepEqual([final.content, final.stop_reason], [whole.content, whole.stop_reason]);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  const { input_tokens, cache_read_input_tokens } = final.usage;
  assert.ok(input_tokens > 0);
  assert.equal(
    start.input_tokens,
    input_tokens + cache_read_input_tokens,
    'the first event has the size of the prompt',
  );
  const raw = await call(`${up.url}/v1/messages?beta=true`, { body: body('Hello there', { stream: true }) });
  assert.match(raw.headers.get('content-type'), /^text\/event-stream/);
  for (const [, name, data] of raw.text.matchAll(/^event: (\S+)\ndata: (.*)$/gm))
    assert.equal(JSON.parse(data).type, name);
});

test('a tools round trip: the model calls get_weather, its blocks are sent back unchanged, and it uses the result', async () => {
  const messages = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const ask = (more) => client.messages.create(body('', { messages, tools, thinking, ...more }));
  const first = await ask({ tool_choice: { type: 'tool', name: 'get_weather' } });
  const made = first.content.at(-1);
  assert.deepEqual([first.stop_reason, made.type, made.name], ['tool_use', 'tool_use', 'get_weather']);
  assert.match(made.id, /^toolu_[A-Za-z0-9]{24}$/);
  assert.match(made.input.city, /Paris/);
  const streamed = await client.messages
    .stream(body('', { messages, tools, thinking, tool_choice: { type: 'any' } }))
    .finalMessage();
  assert.deepEqual(streamed.content.at(-1).input, made.input);
  messages.push(
    { role: 'assistant', content: first.content },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: made.id,
          content: [{ type: 'text', text: '{"temperature": 21, "sky": "sunny"}' }],
        },
      ],
    },
  );
  const second = await ask();
  assert.equal(second.stop_reason, 'end_turn');
  assert.match(textOf(second), /21|sunny/i, 'the result is in the answer');
});

test('output_config.format: the text is JSON that fits the schema', async () => {
  const schema = {
    type: 'object',
    properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 0, maximum: 150 } },
    required: ['name', 'age'],
    additionalProperties: false,
  };
  const answer = await client.messages.create(
    body('Hello', { output_config: { format: { type: 'json_schema', schema }, effort: 'low' } }),
  );
  assert.deepEqual(Object.keys(JSON.parse(textOf(answer))).sort(), ['age', 'name']);
});

test('max_tokens and stop sequences end an answer and are told', async () => {
  const cut = await client.messages.create(body('Count from 1 to 100', { max_tokens: 40 }));
  assert.deepEqual([cut.stop_reason, cut.usage.output_tokens], ['max_tokens', 40]);
  const whole = textOf(await client.messages.create(body('Hello there')));
  const stop = whole.slice(3, 6);
  const stopped = await client.messages.create(body('Hello there', { stop_sequences: ['never said', stop] }));
  assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ['stop_sequence', stop]);
  assert.equal(textOf(stopped), whole.slice(0, whole.indexOf(stop)));
});

test('a tool that only Anthropic could run is left out, and the header names it', async () => {
  const search = { type: 'web_search_20250305', name: 'web_search', max_uses: 8 };
  const { response } = await client.messages
    .create(body('Hello', { max_tokens: 5, tools: [...tools, search] }))
    .withResponse();
  assert.equal(response.headers.get('x-llm-router-ignored'), 'tools.1.web_search_20250305');
});

test('errors arrive as the typed exceptions of the client', async () => {
  const refused = (more, kind, type, says) =>
    assert.rejects(client.messages.create(body('x', more)), (e) => {
      assert.ok(e instanceof kind, `${e}`);
      assert.deepEqual([e.error.type, e.error.error.type], ['error', type]);
      assert.match(e.message, says);
      assert.match(e.requestID, /^req-/);
      return true;
    });
  await refused({ model: 'claude-nobody' }, Anthropic.NotFoundError, 'not_found_error', /claude-nobody/);
  const invalid = [Anthropic.BadRequestError, 'invalid_request_error'];
  await refused({ messages: [] }, ...invalid, /at least one message/);
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } };
  await refused({ messages: [{ role: 'user', content: [image] }] }, ...invalid, /cannot see the image/);
  await refused(
    { messages: [{ role: 'user', content: 'word '.repeat(200000) }] },
    ...invalid,
    /prompt is too long: \d+ tokens > \d+ maximum/,
  );
});

test('an image in the history and a scanned document become notes, and a header names their blocks', async () => {
  const source = { type: 'base64', media_type: 'image/png', data: 'AA==' };
  const image = { type: 'image', source };
  const messages = [
    { role: 'user', content: [{ type: 'text', text: 'Look.' }, image] },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [image] }] },
    { role: 'assistant', content: 'Seen.' },
    {
      role: 'user',
      content: [
        { type: 'document', source: { ...source, media_type: 'application/pdf' } },
        { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'A text.' } },
        { type: 'text', text: 'Hello' },
      ],
    },
  ];
  const ask = (headers = {}) => call(`${up.url}/v1/messages`, { body: body('', { max_tokens: 2, messages }), headers });
  const answer = await ask();
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(answer.headers.get('x-llm-router-ignored')?.split(', '), [
    'messages[0].content[1]',
    'messages[2].content[0]',
    'messages[4].content[0]',
  ]);
  const strict = await ask({ Prefer: 'handling=strict' });
  assert.deepEqual([strict.status, strict.json.error.type], [400, 'invalid_request_error']);
  assert.match(strict.json.error.message, /messages\.0\.content\.1/);
});

test("a key's rate limit arrives as the exception that tells when to retry", async () => {
  const limited = clientOf(up, await makeKey(up, { requests_per_minute: 1 }));
  await limited.messages.create(body('Hello', { max_tokens: 2 }));
  await assert.rejects(limited.messages.create(body('Hello')), (e) => {
    assert.ok(e instanceof Anthropic.RateLimitError, `${e}`);
    assert.deepEqual([e.error.type, e.error.error.type], ['error', 'rate_limit_error']);
    assert.ok(Number(e.headers.get('retry-after')) >= 1);
    return true;
  });
});

test('count_tokens equals what the answer reports, without loading the model', async () => {
  const { router } = await fleet(1, DEMO, { nodeArgs: ['--no-preload'], isLoaded: false });
  const own = clientOf(router, await makeKey(router));
  await until('the files are there', async () => (await call(`${router.url}/v1/models`)).json.data[0]?.ready);
  const full = claudeCode('5f01a', [
    { role: 'user', content: 'Wie spät ist es? <|end|> 東京 😀' },
    {
      role: 'assistant',
      content: [{ type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Paris' } }],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'sunny' }] },
  ]);
  const { stream, max_tokens, temperature, metadata, ...ask } = full;
  const counted = await Promise.all([ask, body('Hello')].map((b) => own.messages.countTokens(b)));
  const states = async () => (await nodes(router))[0].models.map((m) => m.state);
  assert.deepEqual(await states(), ['present'], 'no weights were loaded');
  for (const [i, b] of [full, body('Hello')].entries()) {
    const { usage } = await own.messages.create({ ...b, stream: false, max_tokens: 5 });
    assert.equal(counted[i].input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
  }
  assert.equal((await own.messages.countTokens(body('Hello'))).input_tokens, counted[1].input_tokens, 'loaded, too');
  await assert.rejects(own.messages.countTokens(body('x', { model: 'nobody' })), Anthropic.NotFoundError);
  await assert.rejects(own.messages.countTokens(body('x', { messages: [] })), (e) => {
    assert.deepEqual([e.status, e.error.error.type], [400, 'invalid_request_error']);
    return true;
  });
});

const countTokens = (router, key, content) =>
  call(`${router.url}/v1/messages/count_tokens`, { key, body: { model: 'c', messages: [{ role: 'user', content }] } });

test('count_tokens counts against the rate and the budget of its key, before anything is read', async () => {
  const { router } = await fleet(1, makeEcho('c'));
  const limited = await makeKey(router, { requests_per_minute: 3 });
  const answers = [];
  for (let i = 0; i < 20; i++) answers.push(await countTokens(router, limited.key, 'Hello'));
  assert.deepEqual(
    answers.slice(0, 4).map((a) => a.status),
    [200, 200, 200, 429],
  );
  const refused = answers.filter((a) => a.status === 429);
  assert.ok(refused.length >= 16, `${refused.length} of 20`);
  assert.ok(refused.every((a) => Number(a.headers.get('retry-after')) >= 1));
  assert.equal(refused[0].json.error.type, 'rate_limit_error');
  const input = await call(`${router.url}/v1/responses/input_tokens`, {
    key: limited.key,
    body: { model: 'c', input: 'Hello' },
  });
  assert.equal(input.status, 429, 'the same limit for the other API');
  const spent = await makeKey(router, { tokens_per_month: 1 });
  await call(`${router.url}/v1/chat/completions`, {
    key: spent.key,
    body: { model: 'c', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 3 },
  });
  await until('the budget is used', async () => (await countTokens(router, spent.key, 'Hello')).status === 429);
});

test('all questions for the tokens of prompts of a model go to one process, which starts again after its death', async () => {
  const { router, all } = await fleet(1, makeEcho('c'), { nodeArgs: ['--log-level', 'info'] });
  const { key } = await makeKey(router);
  const pids = () => [...all[0].log.matchAll(/counter\.start model=c pid=(\d+)/g)].map((m) => Number(m[1]));
  const expected = (await countTokens(router, key, 'word '.repeat(50))).json.input_tokens;
  const many = await Promise.all(Array.from({ length: 40 }, () => countTokens(router, key, 'word '.repeat(50))));
  assert.ok(many.every((a) => a.status === 200 && a.json.input_tokens === expected));
  assert.equal(pids().length, 1);
  process.kill(pids()[0], 'SIGKILL');
  const after = await Promise.all(Array.from({ length: 4 }, () => countTokens(router, key, 'word '.repeat(50))));
  assert.ok(after.every((a) => a.status === 200 && a.json.input_tokens === expected));
  assert.equal(pids().length, 2);
});

// The shape of what Claude Code 2.1 sends: fields of many versions, a billing line that differs
// between sessions, and system messages behind those of the user.
const claudeCode = (cch, messages) => ({
  model: 'demo',
  max_tokens: 32000,
  stream: true,
  temperature: 0,
  metadata: { user_id: '{"session_id":"a-b-c"}' },
  thinking,
  context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  output_config: { effort: 'low' },
  safeguards: { a: 1 },
  tools: [
    { ...tools[0], eager_input_streaming: true, defer_loading: true },
    { type: 'web_search_20250305', name: 'web_search', max_uses: 8 },
  ],
  system: [
    { type: 'text', text: `x-anthropic-billing-header: cc_version=2.1.325.${cch}; cc_entrypoint=cli; cch=${cch};` },
    { type: 'text', text: 'You are a calculator. '.repeat(20), cache_control: { type: 'ephemeral' } },
  ],
  messages,
});

test('the second turn in the form of Claude Code is read from the prefix cache, though the billing line changed', async () => {
  const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'claude-code-20250219,context-1m-2025-08-07' };
  const turn = (cch, messages) =>
    client.beta.messages.stream(claudeCode(cch, messages), { headers, query: { beta: 'true' } }).finalMessage();
  const messages = [
    { role: 'user', content: [{ type: 'text', text: 'What is 3 + 4?', cache_control: { type: 'ephemeral' } }] },
    { role: 'system', content: [{ type: 'text', text: 'Today is Monday.' }] },
  ];
  const one = await turn('5f01a', messages);
  const first = one.usage.input_tokens + one.usage.cache_read_input_tokens;
  messages.push(
    { role: 'assistant', content: one.content },
    { role: 'user', content: 'What is 5 + 6?' },
    { role: 'system', content: 'Still Monday.' },
  );
  const two = await turn('00b7e', messages);
  const cached = two.usage.cache_read_input_tokens;
  assert.ok(cached > first * 0.7, `${cached} of ${first}`);
});

test('kill -9 of a node in the middle of streams: they continue with the text of an undisturbed run, and the key of x-api-key pays', async () => {
  const { router, all } = await fleet(2, DEMO);
  const key = await makeKey(router);
  const [open, paid] = [clientOf(router, await makeKey(router)), clientOf(router, key)];
  // Long answers: a kill that comes late on a busy machine still hits the middle of them.
  const asks = Array.from({ length: 6 }, (_, i) =>
    body(`Count from ${i} to ${i + 900}`, { max_tokens: 600, thinking }),
  );
  const calm = await Promise.all(asks.map((ask) => open.messages.stream(ask).finalMessage()));
  let begun = 0;
  const disturbed = asks.map((ask) => {
    let count = 0;
    return paid.messages
      .stream(ask)
      .on('streamEvent', () => {
        if (++count === 8) begun++;
      })
      .finalMessage();
  });
  await until('streams run', () => begun >= 2);
  const busiest = (await nodes(router)).sort((a, b) => b.models[0].inflight - a.models[0].inflight)[0];
  all.find((n) => n.name === busiest.name).child.kill('SIGKILL');
  const total = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;
  (await Promise.all(disturbed)).forEach((out, i) => {
    assert.deepEqual([out.content, out.stop_reason], [calm[i].content, calm[i].stop_reason]);
    assert.deepEqual([total(out), out.usage.output_tokens], [total(calm[i]), calm[i].usage.output_tokens]);
  });
  assert.ok((await metric(router, 'continuations_total')) > 0, 'some in the middle of their answer');
  await until('usage is written', async () => (await used(router, key)).requests === asks.length);
  const row = await used(router, key);
  const sum = (of) => calm.reduce((n, out) => n + of(out), 0);
  assert.deepEqual([row.prompt_tokens, row.completion_tokens], [sum(total), sum((out) => out.usage.output_tokens)]);

  await call(`${router.url}/v0/keys/${key.id}`, { method: 'DELETE' });
  await assert.rejects(paid.messages.create(body('x')), (e) => {
    assert.ok(e instanceof Anthropic.AuthenticationError, `${e}`);
    assert.deepEqual([e.error.type, e.error.error.type], ['error', 'authentication_error']);
    return true;
  });
});

test('the node itself answers as the router does, with its secret in x-api-key', async () => {
  const { router, all } = await fleet(1, DEMO);
  const { secret } = JSON.parse(fs.readFileSync(path.join(all[0].dir, 'node-identity.json')));
  const node = clientOf({ url: `http://127.0.0.1:${all[0].port}` }, { key: secret });
  const ask = body('Hello there', { thinking });
  const [a, b] = [await clientOf(router, await makeKey(router)).messages.create(ask), await node.messages.create(ask)];
  assert.deepEqual([a.content, a.stop_reason], [b.content, b.stop_reason]);
  await assert.rejects(node.messages.create(body('x', { model: 'nobody' })), (e) => {
    assert.deepEqual([e.status, e.error.type, e.error.error?.type], [404, 'error', 'not_found_error']);
    return true;
  });
});

test('an aborted stream ends on the node too', async () => {
  const stream = client.messages.stream(body('Count from 1 to 1000', { max_tokens: 20000 }));
  stream.on('text', () => stream.abort());
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  await until(
    'the generation has ended',
    async () => (await call(`${up.url}/v0/models`)).json.models[0].nodes[0].inflight === 0,
    5000,
  );
});

test('a model answers under its aliases, which no other model can take and which a restart keeps', async () => {
  let { router } = await fleet(1, DEMO);
  const key = await makeKey(router, { models: ['demo'] });
  const patch = (id, aliases) => call(`${router.url}/v0/models/${id}`, { method: 'PATCH', body: { aliases } });
  const ask = async (model) => (await clientOf(router, key).messages.create(body('Hello', { model }))).model;
  const done = await patch('demo', ['claude-sonnet-4-5', 'claude-haiku-4-5']);
  assert.deepEqual([done.status, done.json.aliases], [200, ['claude-sonnet-4-5', 'claude-haiku-4-5']]);
  assert.equal(await ask('Claude-Sonnet-4-5'), 'demo');
  const listed = (await call(`${router.url}/v1/models`)).json.data;
  assert.deepEqual(
    listed.map((m) => [m.id, m.alias_of, m.aliases]),
    [
      ['demo', undefined, ['claude-sonnet-4-5', 'claude-haiku-4-5']],
      ['claude-sonnet-4-5', 'demo', undefined],
      ['claude-haiku-4-5', 'demo', undefined],
    ],
  );
  for (const [aliases, status] of [
    [['demo'], 409],
    [['a b'], 400],
    [['x', 'X'], 400],
    ['x', 400],
  ])
    assert.equal((await patch('demo', aliases)).status, status, JSON.stringify(aliases));
  assert.equal((await patch('nobody', ['x'])).status, 404);
  const taken = await call(`${router.url}/v0/models/register`, {
    body: { path: 'demo', name: 'other', aliases: ['claude-haiku-4-5'] },
  });
  assert.equal(taken.status, 409, taken.text);

  await router.stop();
  router = keep(await startRouter({ args: ['--allow-cpu-nodes'], dir: router.dir, port: new URL(router.url).port }));
  await until('the node is back', async () => (await online(router)) === 1);
  await until('it serves', async () => (await call(`${router.url}/v1/models`)).json.data.length === 3);
  assert.equal(await ask('claude-haiku-4-5'), 'demo');
  assert.equal((await patch('demo', [])).status, 200);
  await assert.rejects(ask('claude-haiku-4-5'), Anthropic.NotFoundError);
});
