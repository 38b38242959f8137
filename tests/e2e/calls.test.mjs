// Tools with models that do not speak Harmony.  The echo engine answers with the user's message,
// so a test decides what the model says; GGUF models with random weights show that calls are
// enforced.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { BIN, call, makeEcho, say, startUp, tempDir } from './support.mjs';

const HERMES = `{%- if tools %}{{- '<|im_start|>system\\nTools:' }}{%- for t in tools %}{{- t | tojson }}{%- endfor %}
{{- 'Call with <tool_call>{"name": name, "arguments": object}</tool_call><|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{- '<tool_call>\\n' }}{{- {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}{{- '\\n</tool_call>' }}{%- endfor %}
{{- '<|im_end|>\\n' }}{%- endfor %}{{- '<|im_start|>assistant\\n' }}`;
const LLAMA3 = `{%- if tools %}{{- '<|start_header_id|>system<|end_header_id|>\\n\\nAnswer with {"name": name, "parameters": object} to call one of:' }}
{%- for t in tools %}{{- t | tojson }}{%- endfor %}{{- '<|eot_id|>' }}{%- endif %}
{%- for m in messages %}{%- if m.tool_calls and m.tool_calls | length > 1 %}{{- raise_exception('one call at a time') }}{%- endif %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + (m.content or '') + '<|eot_id|>' }}{%- endfor %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}`;
// Templates that cannot use the null content of a call: they fail on it, print it, or join text.
const THINKING = `{%- for m in messages %}{%- set content = m.content %}
{%- if m.role == 'assistant' and '</think>' in content %}{%- set content = content.split('</think>')[-1] %}{%- endif %}
{{- '<|im_start|>' + m.role + '\\n' + content }}
{%- for c in m.tool_calls or [] %}{{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}{{- c.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}
{{- '<|im_end|>\\n' }}{%- endfor %}{{- '<|im_start|>assistant\\n' }}`;
const PRINTING = THINKING.replace(/\{%- set content[^]*?endif %\}/, '').replace(' + content }}', ' ~ m.content }}');
// A template that takes null for a call, and the arguments of a call as text.
const TEXT = THINKING.replace(
  /\{%- if m.role[^]*?endif %\}/,
  '{%- if content is none %}{%- set content = m.tool_calls[0].function.name + m.tool_calls[0].function.arguments %}{%- endif %}',
).replace(/\{%- for c in[^]*?endfor %\}/, '{# "name" "arguments" <tool_call> #}');
const HARMONY = `{{- '<|start|>system<|message|>Channels: analysis, commentary, final.<|end|>' }}
{%- for t in tools or [] %}{{- '<|start|>developer<|message|>' + t | tojson + '<|end|>' }}{%- endfor %}
{%- for m in messages %}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- endfor %}{{- '<|start|>assistant' }}`;
const NO_FORM = `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{%- endfor %}{{- '<|im_start|>assistant\\n' }}`;
// What tags between calls look like is all that these say; their constraints follow it.
const QWEN = `{#- <tool_call> <function= <parameter= #}${NO_FORM}{{- '<think>\\n' }}`;
const GLM = `{#- <tool_call> <arg_key> <arg_value> #}${NO_FORM}`;
const NO_TOOLS = `{%- for m in messages %}{{- m.content }}{%- endfor %}`;

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
const fits = ({ name, arguments: text }) => {
  const value = JSON.parse(text);
  return name === 'get_time'
    ? Object.keys(value).length === 1 && Number.isInteger(value.zone) && value.zone >= -12 && value.zone <= 14
    : Object.keys(value).length === 2 && [...value.city].length <= 10 && ['c', 'f'].includes(value.unit);
};

const clientOf = (up) =>
  new OpenAI({ baseURL: `${up.url}/v1`, apiKey: 'unused', maxRetries: 0, defaultHeaders: { Authorization: null } });

function echo(id, template) {
  const dir = makeEcho(id);
  if (template) fs.writeFileSync(path.join(dir, 'chat_template.jinja'), template);
  return dir;
}

describe('what a model says', () => {
  let up, client;
  before(async () => {
    const models = [echo('default'), echo('hermes', HERMES), echo('llama3', LLAMA3), echo('bare', NO_TOOLS)];
    models.push(echo('thinking', THINKING), echo('printing', PRINTING), echo('text', TEXT));
    up = await startUp({ args: models.flatMap((m) => ['--model', m]) });
    client = clientOf(up);
  });
  after(() => up?.stop());

  const calls = {
    default: '<tool_call>\n{"name": "get_time", "arguments": {"zone": 1}}\n</tool_call>',
    hermes: '<tool_call>\n{"name": "get_time", "arguments": {"zone": 1}}\n</tool_call>',
    llama3: '{"name": "get_time", "parameters": {"zone": 1}}',
  };

  test('a call comes back as tool_calls, whole and streamed, and as function_call of a response', async () => {
    for (const [model, text] of Object.entries(calls)) {
      const ask = { model, tools, ...say(text) };
      const { message, finish_reason: why } = (await client.chat.completions.create(ask)).choices[0];
      assert.equal(why, 'tool_calls', model);
      assert.equal(message.content, null);
      assert.deepEqual(
        message.tool_calls.map((c) => [c.type, c.function]),
        [['function', { name: 'get_time', arguments: '{"zone": 1}' }]],
      );
      assert.match(message.tool_calls[0].id, /^call_\w{24}$/);
      const streamed = await client.chat.completions.stream({ ...ask, stream: true }).finalChatCompletion();
      assert.equal(streamed.choices[0].finish_reason, 'tool_calls');
      assert.deepEqual(
        streamed.choices[0].message.tool_calls.map((c) => [c.function.name, c.function.arguments]),
        [['get_time', '{"zone": 1}']],
      );
      const body = { model, input: text, tools: tools.map((t) => ({ type: 'function', ...t.function })) };
      const { output } = await client.responses.create(body);
      assert.deepEqual(
        output.map((i) => [i.type, i.name, i.arguments]),
        [['function_call', 'get_time', '{"zone": 1}']],
      );
      const types = [];
      for await (const event of await client.responses.create({ ...body, stream: true })) types.push(event.type);
      for (const type of ['delta', 'done']) assert.ok(types.includes(`response.function_call_arguments.${type}`));
    }
  });

  test('text, unknown tools, broken JSON and calls that nobody asked for are content', async () => {
    const said = async (model, content, more = { tools }) =>
      (await client.chat.completions.create({ model, ...more, ...say(content) })).choices[0];
    for (const text of [
      'Hello <tool_call',
      '<tool_call>\n{"name": "drop", "arguments": {}}\n</tool_call>',
      '<tool_call>\n{"name": "get_time", "arguments": {"zone": }}\n</tool_call>',
    ]) {
      const { message, finish_reason: why } = await said('hermes', text);
      assert.deepEqual([message.content, message.tool_calls, why], [text, undefined, 'stop']);
    }
    for (const more of [{}, { tools, tool_choice: 'none' }])
      assert.equal((await said('hermes', calls.hermes, more)).message.content, calls.hermes);
    assert.equal((await said('bare', calls.hermes)).message.content, calls.hermes);
  });

  test('calls and results of earlier messages reach the template, also several with Llama 3', async () => {
    const made = (id, name) => ({ id, type: 'function', function: { name, arguments: '{"zone":1}' } });
    for (const model of Object.keys(calls)) {
      const answer = await client.chat.completions.create({
        model,
        tools,
        messages: [
          { role: 'user', content: 'x' },
          { role: 'assistant', content: null, tool_calls: [made('a', 'get_time'), made('b', 'get_time')] },
          { role: 'tool', tool_call_id: 'a', content: 'one' },
          { role: 'tool', tool_call_id: 'b', content: 'two' },
        ],
      });
      assert.equal(answer.choices[0].message.content, 'two');
    }
  });

  // Each API's own conversation: what the server answered goes back to it as it came.
  const secondTurns = {
    'chat completions': async (model, said) => {
      const messages = say(said).messages;
      const first = (await client.chat.completions.create({ model, tools, messages })).choices[0].message;
      assert.equal(first.content, null);
      const result = { role: 'tool', tool_call_id: first.tool_calls[0].id, content: 'noon' };
      const second = await client.chat.completions.create({ model, tools, messages: [...messages, first, result] });
      return second.choices[0].message.content;
    },
    responses: async (model, said) => {
      const flat = tools.map((t) => ({ type: 'function', ...t.function }));
      const input = [{ role: 'user', content: said }];
      const first = await client.responses.create({ model, tools: flat, input });
      const result = { type: 'function_call_output', call_id: first.output[0].call_id, output: 'noon' };
      const stored = await client.responses.create({
        model,
        tools: flat,
        previous_response_id: first.id,
        input: [result],
      });
      const sent = await client.responses.create({ model, tools: flat, input: [...input, ...first.output, result] });
      assert.equal(stored.output_text, sent.output_text);
      return sent.output_text;
    },
    messages: async (model, said) => {
      const of = tools.map(({ function: f }) => ({ name: f.name, input_schema: f.parameters }));
      const ask = async (messages) => {
        const answer = await call(`${up.url}/v1/messages`, { body: { model, max_tokens: 99, tools: of, messages } });
        assert.equal(answer.status, 200, answer.text);
        return answer.json.content;
      };
      const messages = say(said).messages;
      const content = await ask(messages);
      const result = { type: 'tool_result', tool_use_id: content[0].id, content: 'noon' };
      messages.push({ role: 'assistant', content }, { role: 'user', content: [result] });
      return (await ask(messages))[0].text;
    },
    ollama: async (model, said) => {
      const ask = async (messages) => {
        const answer = await call(`${up.url}/api/chat`, { body: { model, stream: false, tools, messages } });
        assert.equal(answer.status, 200, answer.text);
        return answer.json.message;
      };
      const messages = say(said).messages;
      const first = await ask(messages);
      assert.equal(first.tool_calls.length, 1);
      return (await ask([...messages, first, { role: 'tool', tool_name: 'get_time', content: 'noon' }])).content;
    },
  };
  for (const [api, secondTurn] of Object.entries(secondTurns))
    test(`the turn after a call is answered with every kind of template: ${api}`, async () => {
      for (const model of ['default', 'hermes', 'llama3', 'thinking', 'printing', 'text'])
        assert.equal(await secondTurn(model, calls[model] ?? calls.hermes), 'noon', model);
    });

  test('a required call of a model whose template shows no calls is refused, with the reason', async () => {
    for (const choice of ['required', { type: 'function', function: { name: 'get_time' } }]) {
      const answer = await call(`${up.url}/v1/chat/completions`, {
        body: { model: 'bare', tools, tool_choice: choice, ...say('x') },
      });
      assert.equal(answer.status, 400, answer.text);
      assert.match(answer.json.error.message, /chat template shows how it calls tools/);
    }
  });
});

describe('what a GGUF model may say', () => {
  let up, client;
  before(async () => {
    const root = tempDir('gguf');
    const args = Object.entries({ hermes: HERMES, llama3: LLAMA3, qwen: QWEN, glm: GLM, harmony: HARMONY }).flatMap(
      ([id, template]) => {
        const file = path.join(root, `${id}.jinja`);
        fs.writeFileSync(file, template);
        const output = path.join(root, id, 'model.gguf');
        const architecture = id === 'harmony' ? 'gpt-oss' : 'llama';
        const more = ['--chat-template', file, '--architecture', architecture];
        execFileSync(BIN, ['debug', 'write-gguf', '--output', output, ...more]);
        return ['--model', path.join(root, id)];
      },
    );
    up = await startUp({ args: [...args, '--max-context', '2048'] });
    client = clientOf(up);
  });
  after(() => up?.stop());

  // A schema that is not supported, in a tool without `strict`.
  const odd = tool('odd', { a: { type: 'string', pattern: '\\bx' } });

  test('a required call and a named one are calls whose arguments fit, and only one if parallel_tool_calls is false', async () => {
    let ended = 0;
    for (const model of ['hermes', 'llama3', 'qwen', 'glm'])
      for (const choice of ['required', { type: 'function', function: { name: 'get_time' } }])
        for (let seed = 0; seed < 2; seed++) {
          const { message, finish_reason: why } = (
            await client.chat.completions.create({
              model,
              seed,
              tools: seed % 2 ? tools : [...tools, odd],
              tool_choice: choice,
              parallel_tool_calls: false,
              max_tokens: 200,
              ...say('Hello there'),
            })
          ).choices[0];
          if (why === 'length') continue;
          ended++;
          assert.equal(why, 'tool_calls');
          assert.equal(message.content, null);
          assert.equal(message.tool_calls.length, 1);
          const { function: made } = message.tool_calls[0];
          if (choice !== 'required') assert.equal(made.name, 'get_time');
          if (made.name !== 'odd') assert.ok(fits(made), made.arguments);
          else assert.equal(typeof JSON.parse(made.arguments).a, 'string');
        }
    assert.ok(ended >= 4, `${ended} of 16 came to an end`);
  });

  test('a gpt-oss GGUF, whose template is Harmony, answers in reasoning, content and calls', async () => {
    let ended = 0;
    const schema = {
      type: 'object',
      properties: { n: { enum: [1, 2] } },
      required: ['n'],
      additionalProperties: false,
    };
    const format = { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } };
    for (const more of [{ tools, tool_choice: 'required' }, { response_format: format }])
      for (let seed = 0; seed < 4; seed++) {
        const ask = { model: 'harmony', seed, max_tokens: 400, ...say('Hello there'), ...more };
        const { message, finish_reason: why } = (await client.chat.completions.create(ask)).choices[0];
        assert.doesNotMatch(JSON.stringify(message), /<\|\w+\|>/);
        if (why === 'length') continue;
        ended++;
        if (more.tools) assert.ok(message.tool_calls.length > 0 && message.tool_calls.every((c) => fits(c.function)));
        else assert.ok([1, 2].includes(JSON.parse(message.content).n), message.content);
      }
    assert.ok(ended >= 2, `${ended} of 8 came to an end`);
    const { json } = await call(`${up.url}/api/show`, { body: { model: 'harmony' } });
    assert.ok(json.capabilities.includes('thinking'), JSON.stringify(json.capabilities));
  });

  test('a budget of tokens ends the reasoning that a prompt has opened, with and without a schema', async () => {
    const schema = { type: 'object', properties: { n: { enum: [1, 2] } }, required: ['n'] };
    const format = { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } };
    for (const more of [
      { thinking_budget: 12 },
      { thinking: { type: 'enabled', budget_tokens: 12 } },
      { reasoning: { max_tokens: 12 }, response_format: format },
    ]) {
      const { json, text } = await call(`${up.url}/v1/chat/completions`, {
        body: { model: 'qwen', seed: 3, max_tokens: 120, ...say('Hello there'), ...more },
      });
      const { message } = json.choices[0];
      const { reasoning_tokens: thought } = json.usage.completion_tokens_details;
      assert.ok(thought >= 1 && thought <= 12 + '</think>'.length, text);
      assert.ok(message.content.length > 0, text);
      assert.doesNotMatch(message.content, /think>/);
      if (more.response_format) assert.ok([1, 2].includes(JSON.parse(message.content).n), text);
    }
  });

  test('JSON with tools: the answer is JSON or a call', async () => {
    for (const model of ['hermes', 'llama3'])
      for (let seed = 0; seed < 2; seed++) {
        const schema = { type: 'object', properties: { n: { enum: [1, 2] } }, required: ['n'] };
        const { message, finish_reason: why } = (
          await client.chat.completions.create({
            model,
            seed,
            tools,
            max_tokens: 300,
            response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } },
            ...say('Hello there'),
          })
        ).choices[0];
        if (why === 'stop') assert.ok([1, 2].includes(JSON.parse(message.content).n));
        if (why === 'tool_calls') assert.ok(message.tool_calls.every((c) => fits(c.function)));
      }
  });

  test('with tool_choice auto text is free, and a call of a strict tool fits', async () => {
    const strict = [tool('get_time', tools[1].function.parameters.properties, { strict: true })];
    const ask = async (model, more) =>
      (
        await client.chat.completions.create({
          model,
          seed: 1,
          max_tokens: 60,
          parallel_tool_calls: false,
          ...say('Hello there'),
          ...more,
        })
      ).choices[0];
    for (const model of ['hermes', 'llama3'])
      assert.ok((await ask(model, { tools: strict })).message.content.length > 20);
    // A brace, which begins a call of Llama 3, is by far the most likely token.
    const brace = { logit_bias: { [Buffer.from('{')[0]]: 100 } };
    assert.match((await ask('llama3', { ...brace, tools })).message.content, /^\{{60}$/);
    const { message, finish_reason: why } = await ask('llama3', { ...brace, tools: strict });
    assert.equal(why, 'tool_calls', JSON.stringify(message));
    assert.ok(fits(message.tool_calls[0].function));
  });
});
