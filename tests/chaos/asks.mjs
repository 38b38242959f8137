// The requests of clients, and the parts of an answer that are compared: text, calls, finish
// reasons and usage, the same for every API and for streamed and whole answers.
import { DEMO, HUB, PARROT } from './fleet.mjs';

const person = {
  type: 'object',
  required: ['name', 'age', 'kind'],
  additionalProperties: false,
  properties: {
    name: { type: 'string', maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    kind: { enum: ['red', 'green', 7, null] },
  },
};
const weather = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 10 } },
  required: ['city'],
  additionalProperties: false,
};
const user = (content) => [{ role: 'user', content }];
const words = 'the quick brown fox jumps over the lazy dog and counts ';

// name, path, body; the model is part of the body.
function makeAsks() {
  const all = [];
  const add = (name, path, body) => all.push({ name, path, body, model: body.model });
  const chat = (name, body) => add(`chat ${name}`, '/v1/chat/completions', { model: DEMO, ...body });
  for (const text of [
    'Hello',
    'Count from 3 to 33',
    'What is the capital of France?',
    'Add 3 and 4',
    'Sort: pear apple fig',
  ])
    chat(text, { temperature: 0, max_tokens: 150, messages: user(text) });
  for (const seed of [1, 2, 3])
    chat(`seed ${seed}`, { temperature: 1, seed, max_tokens: 200, ignore_eos: true, messages: user('Say something') });
  chat('three answers', { temperature: 1, seed: 7, n: 3, max_tokens: 100, messages: user('Tell me a story') });
  chat('a conversation', {
    temperature: 0,
    max_tokens: 80,
    messages: [...user('Hello'), { role: 'assistant', content: 'Hello!' }, ...user('Count from 1 to 12')],
  });
  const tools = [{ type: 'function', function: { name: 'get_weather', parameters: weather } }];
  chat('a tool it may call', {
    temperature: 0,
    max_tokens: 120,
    tools,
    messages: user('What is the weather in Paris?'),
  });
  chat('a tool it must call', {
    temperature: 1,
    seed: 11,
    max_tokens: 200,
    tools,
    tool_choice: 'required',
    messages: user('Hello'),
  });
  chat('a schema', {
    temperature: 1,
    seed: 5,
    max_tokens: 200,
    messages: user('Hello'),
    response_format: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: person } },
  });
  chat('an object', {
    temperature: 0,
    max_tokens: 150,
    response_format: { type: 'json_object' },
    messages: user('Hello'),
  });
  const complete = (name, body) => add(`completion ${name}`, '/v1/completions', { model: DEMO, ...body });
  for (const seed of [21, 22])
    complete(`seed ${seed}`, {
      temperature: 1,
      seed,
      max_tokens: 400,
      ignore_eos: true,
      prompt: 'The quick brown fox',
    });
  complete('of two', { temperature: 1, seed: 23, n: 2, max_tokens: 150, ignore_eos: true, prompt: 'Once upon a time' });
  complete('long', { temperature: 0, max_tokens: 1200, ignore_eos: true, prompt: words.repeat(6) });
  // The Responses API takes no seed, so nothing at temperature 1 could be compared.
  const respond = (name, body) => add(`response ${name}`, '/v1/responses', { model: DEMO, temperature: 0, ...body });
  respond('text', { input: 'Hello there', max_output_tokens: 120 });
  respond('tool', {
    input: 'What is the weather in Paris?',
    max_output_tokens: 120,
    tools: [{ type: 'function', name: 'get_weather', strict: false, parameters: weather }],
  });
  respond('schema', {
    input: 'Hello',
    max_output_tokens: 200,
    text: { format: { type: 'json_schema', name: 'person', strict: true, schema: person } },
  });
  for (const [name, text] of [
    ['short', 'polly'],
    ['middle', words],
    ['long', words.repeat(3)],
  ])
    add(`parrot ${name}`, '/v1/chat/completions', { model: PARROT, messages: user(text.trim()) });
  add('parrot of two', '/v1/chat/completions', { model: PARROT, n: 2, messages: user('two birds') });
  add('parrot response', '/v1/responses', { model: PARROT, input: words.trim() });
  for (const text of ['from the hub', words])
    add(`hub ${text.length}`, '/v1/chat/completions', { model: HUB, messages: user(text.trim()) });
  return all;
}

export const ASKS = makeAsks();

// As clients ask for a stream, with its usage.
export const streamed = (one) => ({
  ...one.body,
  stream: true,
  ...(one.path === '/v1/responses' ? {} : { stream_options: { include_usage: true } }),
});

const usageOf = (u) =>
  u && [
    u.prompt_tokens ?? u.input_tokens,
    u.completion_tokens ?? u.output_tokens,
    u.total_tokens,
    (u.completion_tokens_details ?? u.output_tokens_details)?.reasoning_tokens ?? 0,
  ];

const callsOf = (calls) => (calls ?? []).map((c) => [c.function.name, c.function.arguments]);

const itemOf = (item) => [item.type, item.name ?? '', item.arguments ?? '', ...(item.content ?? []).map((c) => c.text)];

const choiceOf = (c) => ({
  index: c.index,
  text: c.text ?? c.message?.content ?? '',
  reasoning: c.message?.reasoning_content ?? '',
  calls: callsOf(c.message?.tool_calls),
  finish: c.finish_reason,
});

// An answer that came whole.
export function essence(path, json) {
  if (path === '/v1/responses')
    return { status: json.status, items: json.output.map(itemOf), usage: usageOf(json.usage) };
  return { choices: json.choices.map(choiceOf).sort((a, b) => a.index - b.index), usage: usageOf(json.usage) };
}

// The events of a stream as far as it came.
export function* eventsOf(text) {
  for (const block of text.split('\n\n').slice(0, -1)) {
    const data = block
      .split('\n')
      .find((line) => line.startsWith('data: '))
      ?.slice(6);
    if (data !== undefined) yield data === '[DONE]' ? { done: true } : JSON.parse(data);
  }
}

function addDelta(choice, c) {
  choice.text += c.text ?? c.delta?.content ?? '';
  choice.reasoning += c.delta?.reasoning_content ?? '';
  for (const call of c.delta?.tool_calls ?? []) {
    const known = (choice.calls[call.index] ??= ['', '']);
    known[0] += call.function?.name ?? '';
    known[1] += call.function?.arguments ?? '';
  }
  choice.finish = c.finish_reason ?? choice.finish;
}

function gatherChat(text) {
  const choices = [];
  const out = { choices, usage: undefined, isWhole: false, error: undefined };
  for (const event of eventsOf(text)) {
    if (event.done) out.isWhole = true;
    if (event.error) out.error = event.error;
    if (event.usage) out.usage = usageOf(event.usage);
    for (const c of event.choices ?? [])
      addDelta((choices[c.index] ??= { index: c.index, text: '', reasoning: '', calls: [], finish: null }), c);
  }
  return out;
}

function gatherResponse(text) {
  const out = { said: '', isWhole: false, error: undefined };
  for (const event of eventsOf(text)) {
    if (event.type === 'response.output_text.delta') out.said += event.delta;
    if (event.type === 'response.failed') out.error = event.response.error;
    if (event.type === 'error' || event.error) out.error = event.error ?? event;
    if (event.type === 'response.completed' || event.type === 'response.incomplete') {
      Object.assign(out, essence('/v1/responses', event.response), { isWhole: true });
      const whole = event.response.output
        .flatMap((i) => (i.type === 'message' ? i.content.map((c) => c.text) : []))
        .join('');
      if (whole !== out.said)
        out.error = { message: `the events said ${JSON.stringify(out.said)}, the whole says ${JSON.stringify(whole)}` };
    }
  }
  return out;
}

// An answer that came as a stream: { essence, isWhole, error, isBeginning(expected) }.
export function gather(path, text) {
  if (path === '/v1/responses') {
    const got = gatherResponse(text);
    const { said, isWhole, error, ...rest } = got;
    return {
      isWhole,
      error,
      essence: rest,
      isBeginning: (e) =>
        e.items
          .filter((i) => i[0] === 'message')
          .map((i) => i.slice(3).join(''))
          .join('')
          .startsWith(said),
    };
  }
  const { isWhole, error, ...rest } = gatherChat(text);
  rest.choices = rest.choices.filter(Boolean);
  return {
    isWhole,
    error,
    essence: rest,
    isBeginning: (e) =>
      rest.choices.every((c) => {
        const whole = e.choices.find((x) => x.index === c.index);
        return whole?.text.startsWith(c.text) && whole.reasoning.startsWith(c.reasoning);
      }),
  };
}

// The text of an answer in capitals: what the other revision of the hub's model says.
export const shout = (e) => ({ ...e, choices: e.choices.map((c) => ({ ...c, text: c.text.toUpperCase() })) });
