// Structured output: an answer in JSON is valid JSON, whatever the model prefers.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import OpenAI from 'openai';
import { makeParseableResponseFormat } from 'openai/lib/parser';
import { makeRandomModel } from '../support/random_model.mjs';
import { fleet, makeKey, metric } from './fleet.mjs';
import { call, DEMO, LONG, makeEcho, nodes, say, stream, tempDir, until } from './support.mjs';

const ANSWERS = LONG ? 200 : 50;

const person = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    score: { type: 'number', minimum: -1, maximum: 1 },
    kind: { enum: ['red', 'green', 7, null] },
    tags: { type: 'array', items: { type: 'string', maxLength: 6 }, minItems: 1, maxItems: 3 },
    home: { anyOf: [{ $ref: '#/$defs/place' }, { type: 'null' }] },
    note: { type: ['boolean', 'null'] },
  },
  required: ['name', 'age', 'score', 'kind', 'tags', 'home'],
  additionalProperties: false,
  $defs: {
    place: {
      type: 'object',
      properties: { city: { const: 'Oslo' }, inside: { anyOf: [{ $ref: '#/$defs/place' }, { type: 'null' }] } },
      required: ['city', 'inside'],
      additionalProperties: false,
    },
  },
};

// The part of JSON Schema that these tests use, written apart from the program's.
function fits(schema, value, root = schema) {
  if (schema.$ref)
    return fits(
      schema.$ref
        .slice(2)
        .split('/')
        .reduce((at, key) => at[key], root),
      value,
      root,
    );
  if (schema.anyOf) return schema.anyOf.some((s) => fits(s, value, root));
  if (schema.oneOf) return schema.oneOf.filter((s) => fits(s, value, root)).length === 1;
  if ('const' in schema) return value === schema.const;
  if (schema.enum) return schema.enum.includes(value);
  const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const types = [schema.type].flat();
  if (!types.includes(type) && !(type === 'number' && types.includes('integer') && Number.isInteger(value)))
    return false;
  if (type === 'number') return value >= (schema.minimum ?? -Infinity) && value <= (schema.maximum ?? Infinity);
  if (type === 'string') return [...value].length <= (schema.maxLength ?? Infinity);
  if (type === 'array')
    return (
      value.length >= (schema.minItems ?? 0) &&
      value.length <= (schema.maxItems ?? Infinity) &&
      value.every((v) => fits(schema.items, v, root))
    );
  if (type !== 'object' || !schema.properties) return true;
  return (
    schema.required.every((key) => key in value) &&
    Object.entries(value).every(([key, v]) => schema.properties[key] && fits(schema.properties[key], v, root))
  );
}

const asSchema = (schema, name = 'answer') => ({ type: 'json_schema', json_schema: { name, strict: true, schema } });

const tool = (name, properties, more = {}) => ({
  type: 'function',
  function: {
    name,
    parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
    ...more,
  },
});

const tools = [
  tool('get_weather', { city: { type: 'string', maxLength: 10 }, unit: { enum: ['c', 'f'] } }),
  tool('get_time', { zone: { type: 'integer', minimum: -12, maximum: 14 } }),
];

const chat = async (url, model, more, key) => {
  const answer = await call(`${url}/v1/chat/completions`, { key, body: { model, ...say('Hello'), ...more } });
  assert.equal(answer.status, 200, answer.text);
  return answer.json.choices;
};

const noise = () => makeRandomModel(DEMO, path.join(tempDir('model'), 'noise'));

const served = async (model) => {
  const { router, all } = await fleet(1, model);
  const { secret } = JSON.parse(fs.readFileSync(path.join(all[0].dir, 'node-identity.json')));
  return { router, url: router.url, node: `http://127.0.0.1:${all[0].port}`, secret };
};

// Those that came to an end; one that max_tokens cut is as far as it goes.
function ended(choices, schema = { type: 'object' }) {
  const whole = choices.filter((c) => c.finish_reason !== 'length');
  for (const { message, finish_reason: why } of whole) {
    assert.equal(why, 'stop');
    assert.ok(fits(schema, JSON.parse(message.content)), message.content);
  }
  return whole.map((c) => c.message);
}

test('the demo model, which was not trained on JSON, answers with an object, with a value that fits a schema, and with calls', async () => {
  const { url } = await served(DEMO);
  const seen = [
    ...ended(await chat(url, 'demo', { n: 8, max_tokens: 400, response_format: { type: 'json_object' } })),
    ...ended(await chat(url, 'demo', { n: 8, max_tokens: 800, response_format: asSchema(person) }), person),
  ];
  assert.ok(seen.length >= 8, `${seen.length} of 16 came to an end`);
  assert.ok(
    seen.every((m) => m.reasoning_content.length > 0),
    'and each could reason first',
  );
  for (const choice of ['required', { type: 'function', function: { name: 'get_time' } }]) {
    const calls = (await chat(url, 'demo', { n: 8, max_tokens: 400, tools, tool_choice: choice })).filter(
      (c) => c.finish_reason !== 'length',
    );
    assert.ok(calls.length >= 4, `${calls.length} calls`);
    for (const { message, finish_reason: why } of calls) {
      assert.equal(why, 'tool_calls');
      assert.equal(message.content, null);
      const { name, arguments: text } = message.tool_calls[0].function;
      assert.ok(choice === 'required' || name === 'get_time');
      assert.ok(fits(tools.find((t) => t.function.name === name).function.parameters, JSON.parse(text)), text);
    }
  }
});

test(`${ANSWERS} answers of random weights at temperature 1: every one that ends fits its schema, at the router and at the node`, async (t) => {
  const { url, node, secret } = await served(noise());
  let whole = 0;
  for (let i = 0; i < ANSWERS; i += 10) {
    const body = { n: 10, seed: i, temperature: 1, max_tokens: 500, response_format: asSchema(person) };
    whole += ended(
      i % 20 === 0 ? await chat(url, 'noise', body) : await chat(node, 'noise', body, secret),
      person,
    ).length;
  }
  t.diagnostic(`${whole} of ${ANSWERS} came to an end`);
  assert.ok(whole >= ANSWERS / 4, `${whole} of ${ANSWERS} came to an end`);
});

test('a tagged union with the demo model at high temperature: exactly one of its schemas fits every answer', async () => {
  const { url } = await served(DEMO);
  const animal = (kind, more) => ({
    type: 'object',
    properties: { kind: { const: kind }, ...more },
    required: ['kind', ...Object.keys(more)],
    additionalProperties: false,
  });
  const schema = {
    oneOf: [{ $ref: '#/$defs/fish' }, animal('bird', { ring: { type: 'string', maxLength: 4 } }), { type: 'null' }],
    $defs: { fish: animal('fish', { fins: { type: 'integer', minimum: 0, maximum: 9 } }) },
  };
  const seen = ended(
    await chat(url, 'demo', { n: 16, seed: 1, temperature: 1.5, max_tokens: 300, response_format: asSchema(schema) }),
    schema,
  );
  assert.ok(seen.length >= 8, `${seen.length} of 16 came to an end`);
});

test('random weights with a strict tool, tool_choice auto: calls name a declared tool, and their arguments fit', async () => {
  const { url } = await served(noise());
  const strict = [tool('get_time', tools[1].function.parameters.properties, { strict: true })];
  let calls = 0;
  for (let i = 0; i < 30 && calls === 0; i += 10) {
    for (const { message, finish_reason: why } of await chat(url, 'noise', {
      n: 10,
      seed: i,
      temperature: 1,
      max_tokens: 300,
      tools: strict,
    })) {
      if (why !== 'tool_calls') continue;
      calls++;
      assert.equal(message.tool_calls[0].function.name, 'get_time');
      assert.ok(fits(strict[0].function.parameters, JSON.parse(message.tool_calls[0].function.arguments)));
    }
  }
  assert.ok(calls > 0, 'somebody called');
});

test('the openai client: parse, stream with its helper, and an unsupported schema as its BadRequestError', async () => {
  const { router, url } = await served(DEMO);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: (await makeKey(router)).key, maxRetries: 0 });
  const format = makeParseableResponseFormat(asSchema(person), (text) => {
    const value = JSON.parse(text);
    assert.ok(fits(person, value));
    return value;
  });
  const ask = { model: 'demo', seed: 3, max_tokens: 2000, ...say('Hello'), response_format: format };
  const parsed = (await client.chat.completions.parse(ask)).choices[0].message.parsed;
  assert.ok(Number.isInteger(parsed.age));
  const streamed = await client.chat.completions.stream(ask).finalChatCompletion();
  assert.deepEqual(streamed.choices[0].message.parsed, parsed, 'the same seed says the same');
  const bad = asSchema({ type: 'object', properties: { a: { type: 'string', pattern: '\\bx' } } });
  await assert.rejects(client.chat.completions.create({ ...ask, response_format: bad }), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.equal(e.param, 'response_format.json_schema.schema');
    assert.match(e.message, /properties\.a: "pattern": the word boundary/);
    return true;
  });
});

test('a node dies in the middle: the answer continues like an undisturbed one, and is complete', async () => {
  const { router, all } = await fleet(2, noise());
  const longest = 600; // a kill that comes late on a busy machine still hits the middle
  const asks = Array.from({ length: 8 }, (_, i) => ({
    model: 'noise',
    seed: i,
    temperature: 1,
    max_tokens: longest,
    response_format: asSchema(person),
    stream_options: { include_usage: true },
    ...say('Hello'),
  }));
  const calm = await Promise.all(asks.map((ask) => stream(router.url, ask)));
  let begun = 0;
  const disturbed = asks.map((ask) =>
    stream(router.url, ask, {
      onChunk: (out) => {
        if (out.chunks === 5) begun++;
      },
    }),
  );
  await until('streams run', () => begun >= 3);
  const busiest = (await nodes(router)).sort((a, b) => b.models[0].inflight - a.models[0].inflight)[0];
  all.find((n) => n.name === busiest.name).child.kill('SIGKILL');
  (await Promise.all(disturbed)).forEach((o, i) => {
    assert.deepEqual(
      [o.status, o.error, o.done, o.text, o.reasoning],
      [200, null, true, calm[i].text, calm[i].reasoning],
    );
    if (o.usage.completion_tokens < longest) assert.ok(fits(person, JSON.parse(o.text)), o.text);
  });
  assert.ok((await metric(router, 'continuations_total')) > 0, 'somebody was moved');
});

test('an engine without constrained output: 400 with the reason, for JSON and for a required call', async () => {
  const { url } = await served(makeEcho('echo'));
  const ask = (more) => call(`${url}/v1/chat/completions`, { body: { model: 'echo', ...say('Hello'), ...more } });
  const json = await ask({ response_format: { type: 'json_object' } });
  assert.equal(json.status, 400, json.text);
  assert.match(json.json.error.message, /cannot be constrained/);
  const required = await ask({ tools, tool_choice: 'required' });
  assert.equal(required.status, 400, required.text);
  assert.match(required.json.error.message, /cannot be constrained/);
  assert.equal((await ask({})).json.choices[0].message.content, 'Hello');
});
