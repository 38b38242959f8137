// POST /v1/responses with OpenAI's own client: the promises of chat completions hold here, too.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { makeParseableTextFormat } from 'openai/lib/parser';
import { makeRandomModel } from '../support/random_model.mjs';
import { allIdle, fleet, makeFaulty, makeKey, metric, used } from './fleet.mjs';
import { call, DEMO, makeEcho, nodes, say, startUp, tempDir, until } from './support.mjs';

let up, client;

const clientOf = (url, key) =>
  new OpenAI({
    baseURL: `${url}/v1`,
    apiKey: key ?? 'unused',
    maxRetries: 0,
    ...(key ? {} : { defaultHeaders: { Authorization: null } }),
  });

before(async () => {
  up = await startUp({ args: ['--model', DEMO] });
  client = clientOf(up.url);
});
after(() => up?.stop());

const create = (more) => client.responses.create({ model: 'demo', temperature: 0, ...more });

// Every event of a stream; the numbers are checked on the way.
async function events(stream, onEvent = () => {}) {
  const all = [];
  for await (const event of stream) {
    assert.equal(event.sequence_number, all.length);
    all.push(event);
    onEvent(event);
  }
  return all;
}

const textOf = (all, type = 'output_text') =>
  all
    .filter((e) => e.type === `response.${type}.delta`)
    .map((e) => e.delta)
    .join('');

const weather = [
  {
    type: 'function',
    name: 'get_weather',
    description: 'Weather of a city',
    strict: false,
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
];

test('an answer equals that of chat completions: text, reasoning and usage', async () => {
  const chat = await client.chat.completions.create({
    model: 'demo',
    temperature: 0,
    messages: [{ role: 'system', content: 'Be kind.' }, ...say('Hello there').messages],
  });
  const answer = await create({
    instructions: 'Be kind.',
    input: 'Hello there',
    metadata: { ticket: '7' },
    store: true,
  });
  assert.deepEqual(
    [answer.object, answer.status, answer.error, answer.incomplete_details, answer.model],
    ['response', 'completed', null, null, 'demo'],
  );
  assert.match(answer.id, /^resp_[A-Za-z0-9]{24}$/);
  assert.ok(Math.abs(answer.created_at - Date.now() / 1000) < 60);
  assert.equal(answer.output_text, chat.choices[0].message.content);
  const [reasoning, message] = answer.output;
  assert.deepEqual(
    [reasoning.type, reasoning.summary, reasoning.content],
    ['reasoning', [], [{ type: 'reasoning_text', text: chat.choices[0].message.reasoning_content }]],
  );
  assert.deepEqual(
    [message.type, message.role, message.status, message.content],
    [
      'message',
      'assistant',
      'completed',
      [{ type: 'output_text', annotations: [], logprobs: [], text: answer.output_text }],
    ],
  );
  const { usage } = answer;
  assert.deepEqual(
    [usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.output_tokens_details.reasoning_tokens],
    [
      chat.usage.prompt_tokens,
      chat.usage.completion_tokens,
      chat.usage.total_tokens,
      chat.usage.completion_tokens_details.reasoning_tokens,
    ],
  );
  assert.deepEqual(
    [
      answer.instructions,
      answer.metadata,
      answer.store,
      answer.temperature,
      answer.tools,
      answer.tool_choice,
      answer.parallel_tool_calls,
    ],
    ['Be kind.', { ticket: '7' }, true, 0, [], 'auto', true],
  );
});

test('a stream gives the same answer in named events, numbered from 0, and no [DONE]', async () => {
  const whole = await create({ input: 'Hello there' });
  const all = await events(await create({ input: 'Hello there', stream: true }));
  const types = all.map((e) => e.type.replace('response.', '')).filter((type, i, list) => type !== list[i - 1]);
  assert.deepEqual(types, [
    'created',
    'in_progress',
    'output_item.added',
    'content_part.added',
    'reasoning_text.delta',
    'reasoning_text.done',
    'content_part.done',
    'output_item.done',
    'output_item.added',
    'content_part.added',
    'output_text.delta',
    'output_text.done',
    'content_part.done',
    'output_item.done',
    'completed',
  ]);
  assert.equal(textOf(all), whole.output_text);
  assert.equal(textOf(all, 'reasoning_text'), whole.output[0].content[0].text);
  const last = all.at(-1).response;
  assert.deepEqual(
    last.output.map((item) => item.content),
    whole.output.map((item) => item.content),
  );
  assert.equal(last.usage.total_tokens, whole.usage.total_tokens);
  assert.deepEqual(
    all.filter((e) => e.type === 'response.output_item.done').map((e) => e.item),
    last.output,
  );
  const raw = await call(`${up.url}/v1/responses`, { body: { model: 'demo', input: 'Hello there', stream: true } });
  assert.match(raw.headers.get('content-type'), /^text\/event-stream/);
  assert.match(raw.headers.get('x-llm-router-node'), /^node-/);
  assert.doesNotMatch(raw.text, /\[DONE\]/);
  for (const [, name, data] of raw.text.matchAll(/^event: (\S+)\ndata: (.*)$/gm))
    assert.equal(JSON.parse(data).type, name);
});

test('the stream helper of the client accumulates the stream', async () => {
  const seen = [];
  const stream = client.responses
    .stream({ model: 'demo', temperature: 0, input: 'Hello there' })
    .on('response.output_text.delta', (e) => seen.push(e.delta));
  const final = await stream.finalResponse();
  assert.equal(final.status, 'completed');
  assert.equal(seen.join(''), final.output_text);
  assert.match(final.output_text, /Hello/);
});

test('structured output: the object that the client parses fits the schema', async () => {
  const schema = {
    type: 'object',
    properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 0, maximum: 150 } },
    required: ['name', 'age'],
    additionalProperties: false,
  };
  const format = makeParseableTextFormat({ type: 'json_schema', name: 'person', strict: true, schema }, JSON.parse);
  const parsed = (
    await client.responses.parse({
      model: 'demo',
      temperature: 0,
      input: 'Hello',
      text: { format },
      max_output_tokens: 300,
    })
  ).output_parsed;
  assert.deepEqual(Object.keys(parsed).sort(), ['age', 'name']);
  assert.ok(Number.isInteger(parsed.age) && typeof parsed.name === 'string');
  const object = await create({ input: 'Hello', text: { format: { type: 'json_object' } }, max_output_tokens: 300 });
  if (object.status === 'completed') assert.equal(typeof JSON.parse(object.output_text), 'object');
});

test('a tools round trip: the model calls get_weather, its items are sent back unchanged, and it uses the result', async () => {
  const input = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const first = await create({ tools: weather, input });
  const made = first.output.find((item) => item.type === 'function_call');
  assert.deepEqual([made.name, made.status], ['get_weather', 'completed']);
  assert.match(JSON.parse(made.arguments).city, /Paris/);
  input.push(...first.output, {
    type: 'function_call_output',
    call_id: made.call_id,
    output: '{"temperature": 21, "sky": "sunny"}',
  });
  const second = await create({ tools: weather, input });
  assert.equal(second.status, 'completed');
  assert.match(second.output_text, /21|sunny/i, 'the result is in the answer');

  const all = await events(await create({ tools: weather, input: input.slice(0, 1), stream: true }));
  assert.equal(textOf(all, 'function_call_arguments'), made.arguments);
  assert.equal(all.find((e) => e.type === 'response.function_call_arguments.done').arguments, made.arguments);
  // Without its tool the model talks on until it is cut off.
  const none = await create({ tools: weather, tool_choice: 'none', input: input.slice(0, 1), max_output_tokens: 200 });
  assert.equal(
    none.output.find((item) => item.type === 'function_call'),
    undefined,
  );
  const named = await create({
    tools: weather,
    tool_choice: { type: 'function', name: 'get_weather' },
    input: 'Hello',
    max_output_tokens: 200, // the city may have any length
  });
  assert.equal(named.output.at(-1).name, 'get_weather');
});

test('a custom tool gets free text, streamed or whole, and its output goes back', async () => {
  const tools = [{ type: 'custom', name: 'run_code', description: 'Runs code', format: { type: 'text' } }];
  const input = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const first = await create({ tools, tool_choice: 'required', input, max_output_tokens: 300 });
  const made = first.output.at(-1);
  assert.deepEqual([made.type, made.name, made.input], ['custom_tool_call', 'run_code', 'Paris']);
  const all = await events(
    await create({
      tools,
      tool_choice: { type: 'custom', name: 'run_code' },
      input,
      stream: true,
      max_output_tokens: 300,
    }),
  );
  assert.equal(textOf(all, 'custom_tool_call_input'), made.input);
  assert.equal(all.find((e) => e.type === 'response.custom_tool_call_input.done').input, made.input);
  const second = await create({
    tools,
    input: [
      ...input,
      ...first.output,
      { type: 'custom_tool_call_output', call_id: made.call_id, output: 'sunny, 21 degrees' },
    ],
  });
  assert.equal(second.status, 'completed');
  assert.ok(second.output.length > 0);
});

test('max_output_tokens: the answer is incomplete and says why, streamed or whole', async () => {
  const whole = await create({ input: 'Count from 1 to 100', max_output_tokens: 40 });
  assert.deepEqual(
    [whole.status, whole.incomplete_details, whole.output.at(-1).status],
    ['incomplete', { reason: 'max_output_tokens' }, 'incomplete'],
  );
  assert.equal(whole.usage.output_tokens, 40);
  const all = await events(await create({ input: 'Count from 1 to 100', max_output_tokens: 40, stream: true }));
  assert.equal(all.at(-1).type, 'response.incomplete');
  assert.deepEqual(
    all.at(-1).response.output.map((item) => item.content),
    whole.output.map((item) => item.content),
  );
});

test('log probabilities, if they are included', async () => {
  const answer = await create({
    input: 'Hello there',
    include: ['message.output_text.logprobs', 'reasoning.encrypted_content'],
    top_logprobs: 2,
  });
  const { logprobs, text } = answer.output.at(-1).content[0];
  assert.equal(logprobs.map((l) => l.token).join(''), text);
  assert.ok(logprobs.every((l) => l.logprob <= 0 && l.top_logprobs.length === 2));
});

// The shape of what Codex 0.166 sends by default, with an MCP server that offers `tools`.
const codex = (tools, input) => ({
  model: 'demo',
  stream: true,
  temperature: 0,
  tool_choice: 'auto',
  parallel_tool_calls: true,
  store: false,
  reasoning: { summary: 'auto' },
  include: ['reasoning.encrypted_content'],
  prompt_cache_key: 'a-b-c',
  client_metadata: { session_id: 'a-b-c', 'x-turn': '{"n":1}' },
  tools: [...tools, { type: 'web_search', external_web_access: false }],
  input: [
    { type: 'message', id: 'msg_1', role: 'developer', content: [{ type: 'input_text', text: 'You work on code.' }] },
    {
      type: 'message',
      id: 'msg_2',
      role: 'developer',
      content: [
        { type: 'input_text', text: 'No skills.' },
        { type: 'input_text', text: 'Sandbox: none' },
      ],
    },
    ...input,
  ],
});
const ask = [
  {
    type: 'message',
    id: 'msg_3',
    role: 'user',
    content: [{ type: 'input_text', text: 'What is the weather in Paris?' }],
  },
];
const group = (name, tools) => ({ type: 'namespace', name, description: `Tools of ${name}.`, tools });
const itemsOf = (all) => all.filter((e) => e.type === 'response.output_item.done').map((e) => e.item);

test('requests of Codex are accepted, and a call of a namespace makes a round trip', async () => {
  const tools = [group('mcp__weather', weather)];
  const first = await events(await client.responses.create(codex(tools, ask)));
  const [reasoning, made] = itemsOf(first);
  assert.deepEqual(
    [reasoning.type, made.type, made.name, made.namespace],
    ['reasoning', 'function_call', 'get_weather', 'mcp__weather'],
  );
  const added = first.find((e) => e.type === 'response.output_item.added' && e.item.type === 'function_call').item;
  assert.deepEqual([added.name, added.namespace], ['get_weather', 'mcp__weather']);
  assert.deepEqual([first.at(-1).type, first.at(-1).response.tools[0].name], ['response.completed', 'mcp__weather']);
  const back = [
    { ...reasoning, status: undefined, encrypted_content: null },
    made,
    {
      type: 'function_call_output',
      id: 'fco_1',
      call_id: made.call_id,
      output: [
        { type: 'input_text', text: 'Took 1 ms.' },
        { type: 'input_text', text: '{"temperature": 21, "sky": "sunny"}' },
      ],
    },
  ];
  const second = await events(await client.responses.create(codex(tools, [...ask, ...back])));
  assert.equal(second.at(-1).type, 'response.completed');
  assert.match(textOf(second), /21|sunny/i, 'the result is in the answer');
});

test('a required tool is called by its name with namespace, among functions and custom tools', async () => {
  const tools = [
    ...weather,
    {
      type: 'custom',
      name: 'apply_patch',
      description: 'Edits files',
      format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
    },
    group('agents', [
      {
        type: 'function',
        name: 'close',
        strict: true,
        parameters: {
          type: 'object',
          properties: { target: { type: 'string', maxLength: 8 } },
          required: ['target'],
          additionalProperties: false,
        },
      },
    ]),
  ];
  const answer = await create({
    ...codex(tools, ask),
    stream: false,
    tool_choice: { type: 'function', name: 'agents.close' },
    max_output_tokens: 300,
  });
  const made = answer.output.at(-1);
  assert.deepEqual([made.type, made.name, made.namespace], ['function_call', 'close', 'agents']);
  assert.deepEqual(Object.keys(JSON.parse(made.arguments)), ['target']);
});

test('input_tokens is what the response reports, and compact is a 404 that says what to do', async () => {
  const tools = [
    { type: 'function', name: 'f', parameters: { type: 'object', properties: { a: { type: 'string' } } } },
  ];
  const conversation = [
    { role: 'user', content: 'Wie spät ist es? <|end|> 東京' },
    { type: 'function_call', call_id: 'c', name: 'f', arguments: '{"a":"b"}' },
    { type: 'function_call_output', call_id: 'c', output: 'noon' },
  ];
  for (const ask of [{ input: 'Hello there' }, { input: conversation, tools, instructions: 'Be brief.' }]) {
    const counted = await client.responses.inputTokens.count({ model: 'demo', ...ask });
    const { usage } = await create({ ...ask, max_output_tokens: 16 });
    assert.deepEqual(counted, { object: 'response.input_tokens', input_tokens: usage.input_tokens });
  }
  await assert.rejects(client.responses.inputTokens.count({ model: 'nobody', input: 'x' }), OpenAI.NotFoundError);
  await assert.rejects(client.responses.inputTokens.count({ model: 'demo', input: [{ type: 'x' }] }), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.match(e.message, /input\[0\]\.type/);
    return true;
  });
  await assert.rejects(client.responses.compact({ model: 'demo', input: 'x' }), (e) => {
    assert.ok(e instanceof OpenAI.NotFoundError);
    assert.equal(e.code, 'not_found');
    assert.match(e.message, /does not compact conversations: send as `input`/);
    return true;
  });
});

test('a web search is left out, and the answer names it; strict fields refuse it', async () => {
  const ask = (headers) =>
    call(`${up.url}/v1/responses`, {
      body: { model: 'demo', input: 'Hello there', tools: [{ type: 'web_search' }] },
      headers,
    });
  const answer = await ask({});
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.headers.get('x-llm-router-ignored'), 'tools[0].web_search');
  const refused = await ask({ prefer: 'handling=strict' });
  assert.deepEqual([refused.status, refused.json.error.param], [400, 'tools[0].type'], refused.text);
});

test('an unsupported field arrives as a typed exception that names it', async () => {
  const refused = (more, param, says) =>
    assert.rejects(create({ input: 'x', ...more }), (e) => {
      assert.ok(e instanceof OpenAI.BadRequestError);
      assert.equal(e.param, param);
      assert.match(e.message, says);
      return true;
    });
  for (const type of ['file_search', 'local_shell', 'mcp'])
    await refused({ tools: [{ type }] }, 'tools[0].type', new RegExp(`'${type}'`));
  await refused({ conversation: 'c' }, 'conversation', /send the whole conversation/);
  await refused({ background: true, store: false }, 'background', /needs 'store'/);
  await refused({ stop: ['x'] }, 'stop', /chat\/completions/);
  await assert.rejects(client.responses.create({ model: 'nobody/knows', input: 'x' }), OpenAI.NotFoundError);
  await assert.rejects(
    create({ input: 'word '.repeat(200000) }),
    (e) =>
      e instanceof OpenAI.BadRequestError &&
      e.code === 'context_length_exceeded' &&
      e.param === 'input' &&
      e.error.message.startsWith("This model's maximum context length is 32768 tokens"),
  );
});

test('an aborted stream ends on the node too', async () => {
  const stream = await client.responses.create({
    model: 'demo',
    stream: true,
    max_output_tokens: 20000,
    input: 'Count from 1 to 1000',
  });
  for await (const _ of stream) {
    stream.controller.abort();
    break;
  }
  await until(
    'the generation has ended',
    async () => (await call(`${up.url}/v0/models`)).json.models[0].nodes[0].inflight === 0,
    5000,
  );
});

test('kill -9 of a node in the middle of streams: they continue with the text of an undisturbed run, and every token is counted once', async () => {
  const { router, all } = await fleet(2, DEMO);
  const key = await makeKey(router);
  const [open, paid] = [clientOf(router.url), clientOf(router.url, key.key)];
  // Long answers: a kill that comes late on a busy machine still hits the middle of them.
  const asks = Array.from({ length: 6 }, (_, i) => ({
    model: 'demo',
    temperature: 0,
    stream: true,
    max_output_tokens: 600,
    input: `Count from ${i} to ${i + 900}`,
  }));
  const calm = await Promise.all(asks.map(async (ask) => events(await open.responses.create(ask))));
  let begun = 0;
  const disturbed = asks.map(async (ask) => {
    let count = 0;
    return events(await paid.responses.create(ask), () => {
      if (++count === 8) begun++;
    });
  });
  await until('streams run', () => begun >= 2);
  const busiest = (await nodes(router)).sort((a, b) => b.models[0].inflight - a.models[0].inflight)[0];
  all.find((n) => n.name === busiest.name).child.kill('SIGKILL');
  (await Promise.all(disturbed)).forEach((out, i) => {
    assert.equal(textOf(out), textOf(calm[i]));
    assert.equal(textOf(out, 'reasoning_text'), textOf(calm[i], 'reasoning_text'));
    const [a, b] = [out.at(-1), calm[i].at(-1)];
    assert.deepEqual([a.type, a.response.usage.total_tokens], [b.type, b.response.usage.total_tokens]);
    assert.deepEqual(
      a.response.output.map((item) => item.content),
      b.response.output.map((item) => item.content),
    );
  });
  assert.ok((await metric(router, 'continuations_total')) > 0, 'some in the middle of their answer');
  const sum = (kind) => calm.reduce((n, out) => n + out.at(-1).response.usage[kind], 0);
  await until('usage is written', async () => (await used(router, key)).requests === asks.length);
  const row = await used(router, key);
  assert.deepEqual([row.prompt_tokens, row.completion_tokens], [sum('input_tokens'), sum('output_tokens')]);
});

test('comments keep a silent stream open, and a key without tokens left is told when to retry', async () => {
  const { router } = await fleet(1, makeEcho('cold', { load_ms: 2500 }), {
    args: ['--keep-alive', '300ms'],
    nodeArgs: ['--no-preload'],
    isLoaded: false,
  });
  const key = await makeKey(router, { requests_per_minute: 1 });
  const ask = () =>
    call(`${router.url}/v1/responses`, { key: key.key, body: { model: 'cold', input: 'hello', stream: true } });
  const first = await ask();
  assert.ok(first.text.match(/^:/gm).length >= 2, first.text);
  assert.match(first.text, /event: response\.completed\n.*"text":"hello"/);
  const second = await ask();
  assert.equal(second.status, 429);
  assert.ok(Number(second.headers.get('retry-after')) > 0);
});

test('an answer that fails in the middle: the client raises the error, and response.failed has the part that was generated', async () => {
  const { router } = await fleet(1, makeFaulty('breaks', { fail: 'step', after_tokens: 5 }));
  await assert.rejects(
    async () =>
      events(
        await clientOf(router.url).responses.create({ model: 'breaks', input: '0123456789'.repeat(3), stream: true }),
      ),
    (e) => e instanceof OpenAI.APIError && /died twice/.test(e.message),
  );
  const raw = await call(`${router.url}/v1/responses`, {
    body: { model: 'breaks', input: '0123456789'.repeat(3), stream: true },
  });
  const last = JSON.parse(raw.text.match(/^event: response\.failed\ndata: (.*)$/m)[1]).response;
  assert.deepEqual([last.status, last.error.code, last.output[0].status], ['failed', 'server_error', 'incomplete']);
  assert.match(last.output[0].content[0].text, /^01234/);
  await allIdle(router);
});

test('malformed output of a model is never an error, an empty message or control text; the node itself answers as the router does', async () => {
  const { router, all } = await fleet(1, makeRandomModel(DEMO, path.join(tempDir('model'), 'noise')));
  const { secret } = JSON.parse(fs.readFileSync(path.join(all[0].dir, 'node-identity.json')));
  const node = clientOf(`http://127.0.0.1:${all[0].port}`, secret);
  for (let seed = 0; seed < 8; seed++) {
    const ask = {
      model: 'noise',
      seed,
      temperature: 1,
      max_output_tokens: 60,
      input: 'Say something',
      tools: seed % 2 ? weather : [],
    };
    const [a, b] = [await clientOf(router.url).responses.create(ask), await node.responses.create(ask)];
    assert.deepEqual(
      a.output.map((item) => item.content ?? item.arguments),
      b.output.map((item) => item.content ?? item.arguments),
    );
    assert.doesNotMatch(JSON.stringify(a.output), /<\|/);
    for (const item of a.output) if (item.content) assert.ok(item.content[0].text.length > 0);
  }
});
