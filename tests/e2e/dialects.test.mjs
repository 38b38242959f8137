// Reasoning and calls of models of four dialects, as clients of the four APIs see them.  The echo
// engine answers with the user's message, so a test decides what the model writes.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { BIN, call, makeEcho, say, startUp, until } from './support.mjs';

const chatml = (form, end = '') => `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{- c.function.name }}{{- c.function.arguments | tojson }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endfor %}
{#- ${form} #}{{- '<|im_start|>assistant\\n' }}${end}`;
const OPENS = `{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}`;
const TEMPLATES = {
  qwen: chatml('<tool_call> <function= <parameter=', OPENS),
  glm: chatml('<tool_call> <arg_key> <arg_value> <think>'),
  mistral: chatml('[TOOL_CALLS] [ARGS] [THINK]'),
  hermes: chatml('<tool_call> {"name": , "arguments": } <think>'),
};
const THOUGHT = 'Let me think.\nThe sky is blue.';
const CALLS = {
  qwen: `${THOUGHT}\n</think>\n\n<tool_call>\n<function=look>\n<parameter=at>\n42\n</parameter>\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>`,
  glm: `<think>${THOUGHT}</think>\n<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>42</arg_value>\n<arg_key>n</arg_key>\n<arg_value>7</arg_value>\n</tool_call>`,
  mistral: `[THINK]${THOUGHT}[/THINK][TOOL_CALLS]look[ARGS]{"at": "42", "n": 7}`,
  hermes: `<think>\n${THOUGHT}\n</think>\n\n<tool_call>\n{"name": "look", "arguments": {"at": "42", "n": 7}}\n</tool_call>`,
};
const ANSWERS = {
  qwen: `${THOUGHT}\n</think>\n\nYes.`,
  glm: `<think>${THOUGHT}</think>\nYes.`,
  mistral: `[THINK]${THOUGHT}[/THINK]Yes.`,
  hermes: `<think>\n${THOUGHT}\n</think>\n\nYes.`,
};
const parameters = {
  type: 'object',
  properties: { at: { type: 'string' }, n: { type: 'integer' } },
  required: ['at', 'n'],
};
const tools = [{ type: 'function', function: { name: 'look', parameters } }];

// A model without a template: its vocabulary decides.
function makeBare(id, tokens, testing = {}) {
  const dir = makeEcho(id, testing);
  const added = tokens.map((content, i) => ({ id: 300 + i, content, special: true }));
  fs.writeFileSync(path.join(dir, 'tokenizer.json'), JSON.stringify({ version: '1.0', added_tokens: added }));
  return dir;
}

let up;
before(async () => {
  const models = Object.entries(TEMPLATES).map(([id, template]) => {
    const dir = makeEcho(id);
    fs.writeFileSync(path.join(dir, 'chat_template.jinja'), template);
    return dir;
  });
  models.push(
    makeBare('base', ['<|endoftext|>']),
    makeBare('chatml', ['<|im_start|>', '<|im_end|>'], { say_prompt: true }),
    makeBare('gemma', ['<start_of_turn>', '<end_of_turn>'], { say_prompt: true }),
  );
  // A token of the echo engine is a byte: the template ends answers by the token of "!".
  const ended = makeEcho('ended');
  fs.writeFileSync(path.join(ended, 'chat_template.jinja'), chatml('').replaceAll('<|im_end|>', '<|done|>'));
  fs.writeFileSync(
    path.join(ended, 'tokenizer_config.json'),
    JSON.stringify({ eos_token: '<|eos|>', added_tokens_decoder: { 33: { content: '<|done|>', special: true } } }),
  );
  models.push(ended, makeEcho('plain'));
  up = await startUp({ args: models.flatMap((m) => ['--model', m]) });
});
after(() => up?.stop());

const post = async (where, body) => {
  const answer = await call(`${up.url}${where}`, { body });
  assert.equal(answer.status, 200, answer.text);
  return answer;
};
const events = (text) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)));
const checkArguments = (text) => assert.deepEqual(JSON.parse(text), { at: '42', n: 7 });

test('Chat Completions have reasoning_content, content and calls, whole and streamed', async () => {
  for (const model of Object.keys(TEMPLATES)) {
    const { json } = await post('/v1/chat/completions', { model, ...say(ANSWERS[model]) });
    assert.equal(json.choices[0].message.reasoning_content, THOUGHT, model);
    assert.equal(json.choices[0].message.content, 'Yes.');
    assert.ok(json.usage.completion_tokens_details.reasoning_tokens > 0);
    const ask = { model, tools, ...say(CALLS[model]) };
    const { message, finish_reason: why } = (await post('/v1/chat/completions', ask)).json.choices[0];
    assert.equal(why, 'tool_calls', model);
    assert.equal(message.reasoning_content, THOUGHT);
    assert.equal(message.tool_calls[0].function.name, 'look');
    checkArguments(message.tool_calls[0].function.arguments);
    const deltas = events((await post('/v1/chat/completions', { ...ask, stream: true })).text).flatMap((e) =>
      e.choices.map((c) => c.delta),
    );
    assert.equal(deltas.map((d) => d.reasoning_content ?? '').join(''), THOUGHT);
    assert.equal(deltas.map((d) => d.content ?? '').join(''), '');
    const pieces = deltas.flatMap((d) => d.tool_calls ?? []);
    assert.equal(pieces.filter((p) => p.function.name === 'look').length, 1);
    checkArguments(pieces.map((p) => p.function.arguments ?? '').join(''));
  }
});

test('Responses have reasoning items and function calls', async () => {
  for (const model of Object.keys(TEMPLATES)) {
    const body = { model, input: CALLS[model], tools: [{ type: 'function', name: 'look', parameters }] };
    const { output } = (await post('/v1/responses', body)).json;
    assert.deepEqual(
      output.map((i) => i.type),
      ['reasoning', 'function_call'],
      model,
    );
    assert.match(JSON.stringify(output[0]), /The sky is blue/);
    checkArguments(output[1].arguments);
  }
});

test('Messages have thinking blocks and tool_use, and Ollama has thinking and tool_calls', async () => {
  for (const model of Object.keys(TEMPLATES)) {
    const body = {
      model,
      max_tokens: 2000,
      thinking: { type: 'enabled', budget_tokens: 1024 },
      tools: [{ name: 'look', input_schema: parameters }],
      ...say(CALLS[model]),
    };
    const { content } = (await post('/v1/messages', body)).json;
    assert.deepEqual(
      content.map((b) => b.type),
      ['thinking', 'tool_use'],
      model,
    );
    assert.equal(content[0].thinking, THOUGHT);
    assert.deepEqual(content[1].input, { at: '42', n: 7 });
    const { message } = (await post('/api/chat', { model, stream: false, tools, ...say(CALLS[model]) })).json;
    assert.equal(message.thinking, THOUGHT, model);
    assert.deepEqual(message.tool_calls[0].function.arguments, { at: '42', n: 7 });
  }
});

test('a second turn after a call, with null content and a developer message, is answered in every dialect', async () => {
  for (const model of Object.keys(TEMPLATES)) {
    const { message } = (await post('/v1/chat/completions', { model, tools, ...say(CALLS[model]) })).json.choices[0];
    const result = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'blue' };
    const messages = [{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: 'Look.' }, message, result];
    const ask = { model, tools, messages: [...messages, { role: 'user', content: ANSWERS[model] }] };
    const { message: second } = (await post('/v1/chat/completions', ask)).json.choices[0];
    assert.equal(second.content, 'Yes.', model);
    assert.equal(second.reasoning_content, THOUGHT);
  }
});

test('the id that a model gives a call is the id of the call, and reasoning_format none leaves the text as it is', async () => {
  const text = '[TOOL_CALLS]look[CALL_ID]abcdefgh1[ARGS]{"at": "x", "n": 1}';
  for (const more of [{}, { stream: true }]) {
    const { text: answer } = await post('/v1/chat/completions', { model: 'mistral', tools, ...say(text), ...more });
    assert.match(answer, /"id":"abcdefgh1"/);
  }
  const ask = { model: 'hermes', reasoning_format: 'none', ...say(ANSWERS.hermes) };
  const { message } = (await post('/v1/chat/completions', ask)).json.choices[0];
  assert.equal(message.content, ANSWERS.hermes);
  assert.ok(!message.reasoning_content);
});

test('a malformed call is put right, and counted by dialect and kind', async () => {
  const text =
    'Hm.\n</think>\n<function=look>\n<parameter=at>\nx\n</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>';
  const { message } = (await post('/v1/chat/completions', { model: 'qwen', tools, ...say(text) })).json.choices[0];
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { at: 'x', n: 1 });
  await until('it is counted', async () =>
    /llm_router_calls_repaired_total\{dialect="qwen_xml",kind="begin"\} 1/.test((await call(`${up.url}/metrics`)).text),
  );
});

test("reasoning that the request switches off is not opened, under each field's name", async () => {
  for (const off of [
    { enable_thinking: false },
    { reasoning_effort: 'none' },
    { thinking: { type: 'disabled' } },
    { think: false },
  ]) {
    const { message } = (await post('/v1/chat/completions', { model: 'qwen', ...off, ...say('Yes.') })).json.choices[0];
    assert.equal(message.content, 'Yes.', JSON.stringify(off));
    assert.ok(!message.reasoning_content);
  }
  const { message } = (await post('/v1/chat/completions', { model: 'qwen', ...say('Hm') })).json.choices[0];
  assert.equal(message.reasoning_content, 'Hm');
});

test('a model without a template chats only in a form that its vocabulary has, and says what to do', async () => {
  const refused = await call(`${up.url}/v1/chat/completions`, { body: { model: 'base', ...say('Hi') } });
  assert.equal(refused.status, 400, refused.text);
  assert.match(refused.json.error.message, /\/v1\/completions.*--chat-template/);
  assert.equal((await post('/v1/completions', { model: 'base', prompt: 'Hi' })).json.choices[0].text, 'Hi');
  for (const [model, begin] of Object.entries({ chatml: '<|im_start|>user\nHi', gemma: '<start_of_turn>user\nHi' })) {
    const { message } = (await post('/v1/chat/completions', { model, ...say('Hi') })).json.choices[0];
    assert.ok(Buffer.from(message.content, 'hex').toString().startsWith(begin), model);
  }
});

test('the control token that a template writes behind an answer ends answers, and is shown', async () => {
  const { choices } = (await post('/v1/chat/completions', { model: 'ended', ...say('ab!cd') })).json;
  assert.equal(choices[0].message.content.replace('!', ''), 'ab');
  assert.equal(choices[0].finish_reason, 'stop');
  const { models } = (await call(`${up.url}/v0/models?id=ended`)).json;
  assert.deepEqual(models[0].nodes[0].stop_tokens, ['<|eos|>', '<|done|>']);
});

test('a registration chooses dialect and template, which /v0/models and the command show', async () => {
  const cli = (args) => execFileSync(BIN, ['models', ...args, '--url', up.url], { encoding: 'utf8' });
  const register = `${up.url}/v0/models/register`;
  const body = { path: 'plain', dialect: 'mistral_args', chat_template: chatml('') };
  const ask = { model: 'plain', tools, ...say('[TOOL_CALLS]look[ARGS]{"at": "42", "n": 7}') };
  const answer = async () => (await post('/v1/chat/completions', ask)).json.choices[0].message;
  assert.equal((await answer()).tool_calls, undefined);
  cli(['remove', 'plain']);
  const wrong = await call(register, { body: { ...body, dialect: 'mistral' } });
  assert.equal(wrong.status, 400);
  assert.match(wrong.json.error.message, /no dialect "mistral".*mistral_args/);
  assert.equal((await call(register, { body })).status, 201);
  const shown = async () => (await call(`${up.url}/v0/models?id=plain`)).json.models[0];
  await until('it can run', async () => (await shown()).nodes[0]?.can_run);
  const { dialect, dialect_from: from, template_from: template } = await shown();
  assert.deepEqual([dialect, from, template], ['mistral_args', 'registration', 'registration']);
  assert.match(cli([]), /plain [^]*dialect: mistral_args\n {2}chat template: of the registration/);
  checkArguments((await answer()).tool_calls[0].function.arguments);
});

test('reasoning that is asked for as a summary is one, in Responses, whole and streamed', async () => {
  const ask = { model: 'glm', input: ANSWERS.glm, reasoning: { summary: 'auto' } };
  const { output } = (await post('/v1/responses', ask)).json;
  assert.deepEqual(output[0].summary, [{ type: 'summary_text', text: THOUGHT }]);
  const seen = events((await post('/v1/responses', { ...ask, stream: true })).text);
  const deltas = seen.filter((e) => e.type === 'response.reasoning_summary_text.delta');
  assert.equal(deltas.map((e) => e.delta).join(''), THOUGHT);
  assert.deepEqual(
    seen.filter((e) => /reasoning_(summary|text)/.test(e.type) && !e.type.endsWith('.delta')).map((e) => e.type),
    [
      'response.reasoning_summary_part.added',
      'response.reasoning_summary_text.done',
      'response.reasoning_summary_part.done',
    ],
  );
  const plain = (await post('/v1/responses', { ...ask, reasoning: {} })).json.output[0];
  assert.deepEqual([plain.summary, plain.content[0].text], [[], THOUGHT]);
});

test('thinking blocks of Messages have a signature, whole and streamed, and are taken back with it', async () => {
  const ask = { model: 'glm', max_tokens: 2000, thinking: { type: 'adaptive' } };
  const { content } = (await post('/v1/messages', { ...ask, ...say(ANSWERS.glm) })).json;
  assert.match(content[0].signature, /^[0-9a-f]{64}$/);
  const seen = events((await post('/v1/messages', { ...ask, ...say(ANSWERS.glm), stream: true })).text);
  assert.deepEqual(
    seen.filter((e) => e.delta?.type === 'signature_delta').map((e) => e.delta.signature),
    [content[0].signature],
  );
  const messages = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content },
    { role: 'user', content: 'Yes?' },
  ];
  assert.equal((await post('/v1/messages', { ...ask, messages })).json.content[0].text, 'Yes?');
});

test('run shows reasoning if it is asked for, and --think=false switches it off', async () => {
  const run = (args, text) =>
    execFileSync(BIN, ['run', '--url', up.url, ...args, 'qwen', text], { encoding: 'utf8', input: '' });
  assert.equal(run(['--reasoning'], ANSWERS.qwen).trim(), `${THOUGHT}\n\nYes.`);
  assert.equal(run(['--no-reasoning'], ANSWERS.qwen).trim(), 'Yes.');
  assert.equal(run(['--think=false'], 'Yes.').trim(), 'Yes.');
});
