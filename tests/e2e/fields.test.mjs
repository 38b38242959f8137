// Every field of every API, as the tables of fields say: docs/ has the tables (a unit test
// compares them with the code), and here each row is sent to a real server.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { call, DEMO, makeEcho, ROOT, startUp } from './support.mjs';

let up, strictUp, stored;
before(async () => {
  [up, strictUp] = await Promise.all([
    startUp({ args: ['--model', makeEcho('m'), '--model', DEMO] }),
    startUp({ args: ['--model', makeEcho('m'), '--strict-fields'] }),
  ]);
  stored = (await ask(RESPONSES, {})).json.id;
});
after(() => Promise.all([up?.stop(), strictUp?.stop()]));

const text = (content) => [{ role: 'user', content }];
const CHAT = { url: '/v1/chat/completions', body: { model: 'm', messages: text('hi'), max_tokens: 2 } };
const COMPLETIONS = { url: '/v1/completions', body: { model: 'm', prompt: 'hi', max_tokens: 2 } };
const RESPONSES = { url: '/v1/responses', body: { model: 'm', input: 'hi', max_output_tokens: 2 } };
const MESSAGES = { url: '/v1/messages', body: { model: 'm', messages: text('hi'), max_tokens: 2 } };
const EMBEDDINGS = { url: '/v1/embeddings', body: { model: 'm', input: 'hi' } };
const RERANK = { url: '/v1/rerank', body: { model: 'm', query: 'hi', documents: ['a', 'b'] } };
const short = { model: 'm', stream: false, options: { num_predict: 2 } };
const OLLAMA_CHAT = { url: '/api/chat', body: { ...short, messages: text('hi') } };
const OLLAMA_EMBED = { url: '/api/embed', body: { model: 'm', input: 'hi' } };
const OLLAMA_EMBEDDINGS = { url: '/api/embeddings', body: { model: 'm', prompt: 'hi' } };
const OLLAMA_GENERATE = { url: '/api/generate', body: { ...short, prompt: 'hi' } };
const ask = ({ url, body }, more, { strict, server = up } = {}) =>
  call(`${server.url}${url}`, { body: { ...body, ...more }, headers: strict ? { Prefer: 'handling=strict' } : {} });
const ignored = (answer) => (answer.headers.get('x-llm-router-ignored') ?? '').split(', ').filter(Boolean);

// The rows of a page, or of its part between two headings: { list: 'Honoured' | 'Ignored' | 'Refused fields', field, apis }.
function rowsOf(page, apis, part = 0) {
  const rows = [];
  let list = '';
  const text = fs.readFileSync(path.join(ROOT, 'docs', page), 'utf8');
  for (const line of (part ? text.split('\n## ')[part] : text).split('\n')) {
    const title = line.match(/^##+ (.*)/)?.[1];
    if (title) list = ['Honoured', 'Ignored', 'Refused fields'].includes(title) ? title : '';
    const cells = line.match(/^\| `(\w+)` \|(.*)\|$/);
    if (!list || !cells) continue;
    const marks = cells[2].split('|').map((cell) => cell.trim());
    rows.push({ list, field: cells[1], apis: apis.filter((_, i) => apis.length === 1 || marks[i] === 'yes') });
  }
  return rows;
}
const rows = [
  ...rowsOf('api-fields.md', [CHAT, COMPLETIONS]),
  ...rowsOf('responses.md', [RESPONSES]),
  ...rowsOf('messages.md', [MESSAGES]),
  ...rowsOf('embeddings.md', [EMBEDDINGS], 1),
  ...rowsOf('embeddings.md', [RERANK], 2),
  ...rowsOf('ollama.md', [OLLAMA_CHAT, OLLAMA_GENERATE], 1),
  ...rowsOf('ollama.md', [OLLAMA_EMBED, OLLAMA_EMBEDDINGS], 4),
];

const tool = { type: 'function', name: 'f', function: { name: 'f' } };
const onDemo = { model: 'demo' }; // the echo engine has no constraints and no log probabilities
// A value that is honoured, with the members it needs.
const samples = {
  model: {},
  messages: {},
  prompt: {},
  input: {},
  encoding_format: { encoding_format: 'base64' },
  dimensions: { dimensions: 4 },
  query: {},
  documents: {},
  top_n: { top_n: 1 },
  return_documents: { return_documents: true },
  instructions: { instructions: 'x' },
  stream: { stream: true },
  stream_options: { stream: true, stream_options: { include_obfuscation: false } },
  max_completion_tokens: { max_completion_tokens: 3 },
  max_tokens: { max_tokens: 3 },
  max_output_tokens: { max_output_tokens: 3 },
  temperature: { temperature: 0.5 },
  top_p: { top_p: 0.5 },
  presence_penalty: { presence_penalty: 1 },
  frequency_penalty: { frequency_penalty: 1 },
  repetition_penalty: { repetition_penalty: 1.1 },
  repeat_penalty: { repeat_penalty: 1.1 },
  logit_bias: { logit_bias: { 5: 1 } },
  seed: { seed: 1 },
  n: { n: 2 },
  stop: { stop: ['a', 'b', 'c', 'd', 'e'] },
  logprobs: (api) => ({ ...onDemo, logprobs: api === COMPLETIONS ? 1 : true }),
  top_logprobs: (api) => ({
    ...onDemo,
    top_logprobs: 1,
    ...(api === RESPONSES ? { include: ['message.output_text.logprobs'] } : { logprobs: true }),
  }),
  tools: (api) => ({ tools: [api === MESSAGES ? { name: 'f', input_schema: { type: 'object' } } : tool] }),
  tool_choice: (api) => ({
    ...samples.tools(api),
    tool_choice: api === MESSAGES ? { type: 'auto' } : 'auto',
  }),
  system: { system: 'x' },
  stop_sequences: { stop_sequences: ['a', 'b'] },
  output_config: { output_config: { effort: 'low' } },
  output_format: { ...onDemo, output_format: { type: 'json_schema', schema: { type: 'integer' } } },
  parallel_tool_calls: { parallel_tool_calls: false },
  reasoning_effort: { reasoning_effort: 'low' },
  response_format: { response_format: { type: 'text' } },
  text: { text: { format: { type: 'text' } } },
  include: { include: ['reasoning.encrypted_content'] },
  metadata: { metadata: { a: 'b' } },
  chat_template_kwargs: { chat_template_kwargs: { x: 1 } },
  top_k: { top_k: -1 },
  min_p: { min_p: 0.1 },
  reasoning_format: { reasoning_format: 'both' },
  include_reasoning: { include_reasoning: false },
  ignore_eos: { ignore_eos: true },
  enable_thinking: { enable_thinking: false },
  think: { think: 'high' },
  thinking_budget: { thinking_budget: 100 },
  thinking: { thinking: { type: 'disabled' } },
  reasoning: { reasoning: { effort: 'low' } },
  options: { options: { temperature: 0.5, num_predict: 3 } },
  usage: { usage: { include: true } },
  min_tokens: { min_tokens: 0 },
  add_generation_prompt: { add_generation_prompt: true },
  continue_final_message: { continue_final_message: false },
  modalities: { modalities: ['text'] },
  echo: { echo: false },
  best_of: { best_of: 1 },
  background: { background: true },
  previous_response_id: () => ({ previous_response_id: stored }),
  truncation: { truncation: 'disabled' },
  structured_outputs: { ...onDemo, structured_outputs: { choice: ['a', 'b'] } },
  guided_json: { ...onDemo, guided_json: { type: 'integer' } },
  guided_regex: { ...onDemo, guided_regex: '[a-z]+' },
  guided_choice: { ...onDemo, guided_choice: ['a', 'b'] },
  guided_grammar: { ...onDemo, guided_grammar: 'root ::= "a"' },
  grammar: { ...onDemo, grammar: 'root ::= "a"' },
  json_schema: { ...onDemo, json_schema: { type: 'integer' } },
  format: { ...onDemo, format: { type: 'integer' } },
  raw: { raw: true },
  images: { images: [] },
  suffix: { suffix: '' },
  template: { template: '' },
  context: { context: [] },
  // ignored
  user: { user: 'u' },
  store: { store: true },
  verbosity: { verbosity: 'low' },
  max_tool_calls: { max_tool_calls: 1 },
  truncate: { truncate: true },
  shift: { shift: true },
};

test('every honoured field is taken, every ignored one is named in the header, every refused one is a 400', async () => {
  assert.ok(rows.length > 100, `${rows.length} rows were read`);
  for (const { list, field, apis } of rows)
    for (const api of apis) {
      const where = `${field} of ${api.url} (${list})`;
      const sample = samples[field] ?? (list === 'Honoured' ? assert.fail(`no sample for ${where}`) : { [field]: 'x' });
      const more = list === 'Refused fields' ? { [field]: {} } : typeof sample === 'function' ? sample(api) : sample;
      const answer = await ask(api, more);
      if (list === 'Refused fields') {
        assert.deepEqual([answer.status, answer.json.error.param], [400, field], `${where}: ${answer.text}`);
        continue;
      }
      assert.equal(answer.status, 200, `${where}: ${answer.text}`);
      assert.deepEqual(ignored(answer), list === 'Ignored' ? [field] : [], where);
    }
});

test('a field that is in no table is ignored and named; a strict request gets a 400 that names it', async () => {
  const ollama = [OLLAMA_CHAT, OLLAMA_GENERATE, OLLAMA_EMBED, OLLAMA_EMBEDDINGS];
  for (const api of [CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS, RERANK, ...ollama]) {
    const answer = await ask(api, { no_such_field: 1, 'x\r\nSet-Cookie: a': 1 });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(ignored(answer), ['no_such_field', 'x??Set-Cookie??a']);
    assert.equal(answer.headers.get('set-cookie'), null);
    for (const how of [{ strict: true }, { server: strictUp }]) {
      const refused = await ask(api, { no_such_field: 1 }, how);
      assert.equal(refused.status, 400);
      const { error } = refused.json;
      assert.match(error.message ?? error, /no_such_field/);
      if ([CHAT, COMPLETIONS, RESPONSES].includes(api)) assert.equal(error.param, 'no_such_field');
      assert.equal((await ask(api, {}, how)).status, 200);
    }
  }
  const streamed = await ask(CHAT, { stream: true, no_such_field: 1 });
  assert.deepEqual(ignored(streamed), ['no_such_field'], 'also where the answer is a stream');
});

const long = 'a'.repeat(100);
const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
const said = { role: 'assistant', content: 'ok' };
const made = {
  role: 'assistant',
  tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
};
const result = (content) => ({ role: 'tool', tool_call_id: 'c', content });

test('values with an obvious meaning are understood; strict requests refuse them', async () => {
  for (const [more, strictly = 400] of [
    [{ max_tokens: -1 }],
    [{ max_tokens: 5, max_completion_tokens: 1 }],
    [{ stop: ['1', '2', '3', '4', '5', '6'] }],
    [{ tools: [{ type: 'function', function: { name: long } }] }],
    [{ messages: [...text('x'), made, result(null), ...text('y')] }],
    [{ messages: [{ role: 'user', content: [{ type: 'input_text', text: 'x' }] }] }],
    [
      {
        messages: [
          ...text('x'),
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: 'hm' },
              { type: 'refusal', refusal: 'no' },
            ],
          },
          ...text('y'),
        ],
      },
    ],
    [{ messages: [...text([image]), said, ...text('y')] }],
    [{ messages: [...text('x'), made, result([image])] }],
    [{ store: true, min_tokens: 0, enable_thinking: true }, 200],
  ]) {
    const answer = await ask(CHAT, more);
    assert.equal(answer.status, 200, `${JSON.stringify(more)}: ${answer.text}`);
    assert.equal((await ask(CHAT, more, { strict: true })).status, strictly, JSON.stringify(more));
  }
  const smaller = await ask(CHAT, { ...say3, max_tokens: 5, max_completion_tokens: 1 });
  assert.equal(smaller.json.usage.completion_tokens, 1, 'the smaller of two limits');
  const whole = await ask(CHAT, { ...say3, max_tokens: -1 });
  assert.equal(whole.json.choices[0].message.content, 'one two three', '-1 is no limit');
});
const say3 = { messages: text('one two three') };

test('an image in the history is a note for the model; in the last user message it is a 400', async () => {
  const history = await ask(CHAT, {
    messages: [...text([{ type: 'text', text: 'see' }, image]), said, ...text('why?')],
  });
  assert.equal(history.status, 200, history.text);
  assert.deepEqual(ignored(history), ['messages[0].content[1]']);
  const asked = await ask(CHAT, { messages: text([{ type: 'text', text: 'see' }, image]) });
  assert.equal(asked.status, 400);
  assert.match(asked.json.error.message, /cannot see images/);
  const items = (last) => [
    { role: 'user', content: [{ type: 'input_image', image_url: 'data:,' }] },
    { role: 'assistant', content: 'ok' },
    { role: 'user', content: last },
  ];
  const past = await ask(RESPONSES, { input: items('why?') });
  assert.equal(past.status, 200, past.text);
  assert.deepEqual(ignored(past), ['input[0].content[0]']);
  const now = await ask(RESPONSES, { input: items([{ type: 'input_image', image_url: 'data:,' }]) });
  assert.equal(now.status, 400);
  assert.match(now.json.error.message, /cannot see images/);
});
