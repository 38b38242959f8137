// Ollama's API with Ollama's own client: the promises of chat completions hold here, too.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { Ollama } from 'ollama';
import { readFolder, startHub } from '../support/hub.mjs';
import { fleet, keep, makeKey, metric, used } from './fleet.mjs';
import {
  call,
  DEMO,
  makeEcho,
  nodes,
  online,
  say,
  startNode,
  startRouter,
  startUp,
  tempDir,
  until,
} from './support.mjs';

let up, client;

const clientOf = ({ url }, key) =>
  new Ollama({ host: url, headers: key ? { Authorization: `Bearer ${key.key ?? key}` } : undefined });

before(async () => {
  up = await startUp({ args: ['--model', DEMO] });
  client = clientOf(up);
});
after(() => up?.stop());

const options = { temperature: 0, num_predict: 300 };
const body = (content, more = {}) => ({ model: 'demo', options, messages: [{ role: 'user', content }], ...more });

// A stream as the client gives it: the joined texts, and its last line.
async function read(stream, onLine = () => {}) {
  const out = { content: '', thinking: '', calls: [], lines: 0 };
  for await (const line of await stream) {
    out.content += line.message?.content ?? line.response ?? '';
    out.thinking += line.message?.thinking ?? line.thinking ?? '';
    out.calls.push(...(line.message?.tool_calls ?? []));
    out.last = line;
    out.lines++;
    onLine(out);
  }
  return out;
}
const refused = (promise, status, says) =>
  assert.rejects(promise, (e) => {
    assert.deepEqual([e.name, e.status_code], ['ResponseError', status], `${e}`);
    assert.match(e.message, says);
    return true;
  });

const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Weather of a city',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
];

test('an answer equals that of chat completions: text, thinking and counts; a stream gives the same in lines', async () => {
  const messages = [{ role: 'system', content: 'Be kind.' }, ...say('Hello there').messages];
  const chat = (await call(`${up.url}/v1/chat/completions`, { body: { model: 'demo', temperature: 0, messages } }))
    .json;
  const [{ message }] = chat.choices;
  const answer = await client.chat(body('', { messages }));
  assert.deepEqual(
    [answer.model, answer.message, answer.done, answer.done_reason],
    ['demo', { role: 'assistant', content: message.content, thinking: message.reasoning_content }, true, 'stop'],
  );
  assert.ok(Date.parse(answer.created_at) > Date.now() - 3600_000, answer.created_at);
  assert.deepEqual(
    [answer.prompt_eval_count, answer.eval_count],
    [chat.usage.prompt_tokens, chat.usage.completion_tokens],
  );
  assert.ok(answer.total_duration >= answer.prompt_eval_duration + answer.eval_duration);
  assert.ok(answer.eval_duration > 0 && answer.total_duration < 1e12, 'durations are nanoseconds');

  const streamed = await read(client.chat(body('', { messages, stream: true })));
  assert.deepEqual([streamed.content, streamed.thinking], [message.content, message.reasoning_content]);
  assert.ok(streamed.lines > 5, `${streamed.lines} lines`);
  assert.deepEqual(
    [streamed.last.done, streamed.last.done_reason, streamed.last.prompt_eval_count, streamed.last.eval_count],
    [true, 'stop', answer.prompt_eval_count, answer.eval_count],
  );
  const raw = await call(`${up.url}/api/chat`, { body: body('Hi') });
  assert.equal(raw.headers.get('content-type'), 'application/x-ndjson', 'a stream unless "stream" is false');
  const lines = raw.text.split('\n');
  assert.equal(lines.pop(), '');
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).done),
    lines.map((_, i) => i === lines.length - 1),
  );
});

test('think: false hides the thinking, a word sets the effort', async () => {
  const hidden = await client.chat(body('Hello there', { think: false }));
  assert.equal(hidden.message.thinking, undefined);
  assert.ok(hidden.message.content.length > 0);
  const chat = await call(`${up.url}/v1/chat/completions`, {
    body: { model: 'demo', temperature: 0, reasoning_effort: 'high', ...say('Hello there') },
  });
  const high = await client.chat(body('Hello there', { think: 'high' }));
  assert.equal(high.message.thinking, chat.json.choices[0].message.reasoning_content);
  assert.equal(high.prompt_eval_count, chat.json.usage.prompt_tokens);
});

test('a tools round trip: the call has an object as arguments, comes back without an id, and its result is used', async () => {
  const messages = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const ask = (more) => client.chat(body('', { messages, tools, ...more }));
  const forced = { tool_choice: { type: 'function', function: { name: 'get_weather' } } };
  const first = await ask(forced);
  const [made] = first.message.tool_calls;
  assert.deepEqual([first.done_reason, made.function.name], ['stop', 'get_weather']);
  assert.match(made.function.arguments.city, /Paris/);
  const streamed = await read(client.chat(body('', { messages, tools, stream: true, ...forced })));
  assert.deepEqual(
    streamed.calls.map((c) => c.function),
    [made.function],
  );
  messages.push(
    { ...first.message, tool_calls: [{ function: { name: 'get_weather', arguments: made.function.arguments } }] },
    { role: 'tool', tool_name: 'get_weather', content: '{"temperature": 21, "sky": "sunny"}' },
  );
  const second = await ask();
  assert.match(second.message.content, /21|sunny/i, 'the result is in the answer');
});

test('format: JSON, or JSON that fits a schema', async () => {
  const schema = {
    type: 'object',
    properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', minimum: 0, maximum: 150 } },
    required: ['name', 'age'],
    additionalProperties: false,
  };
  const fitted = await client.chat(body('Hello', { format: schema, think: 'low' }));
  assert.deepEqual(Object.keys(JSON.parse(fitted.message.content)).sort(), ['age', 'name']);
  const generated = await client.generate({ model: 'demo', prompt: 'Hello', format: schema, options });
  assert.deepEqual(Object.keys(JSON.parse(generated.response)).sort(), ['age', 'name']);
});

test('generate: a prompt is a message of the user, a raw prompt is used as it is', async () => {
  const system = 'Be kind.';
  const chat = await client.chat(
    body('', {
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: 'Hello there' },
      ],
    }),
  );
  const ask = { model: 'demo:latest', prompt: 'Hello there', system, options };
  const answer = await client.generate(ask);
  assert.deepEqual(
    [answer.response, answer.thinking, answer.done_reason, answer.eval_count],
    [chat.message.content, chat.message.thinking, 'stop', chat.eval_count],
  );
  const streamed = await read(client.generate({ ...ask, stream: true }));
  assert.deepEqual([streamed.content, streamed.thinking], [answer.response, answer.thinking]);

  const raw = await client.generate({
    model: 'demo',
    prompt: 'one two',
    raw: true,
    options: { ...options, num_predict: 8 },
  });
  const plain = (
    await call(`${up.url}/v1/completions`, {
      body: { model: 'demo', prompt: 'one two', temperature: 0, max_tokens: 8 },
    })
  ).json;
  assert.deepEqual(
    [raw.response, raw.done_reason, raw.eval_count],
    [plain.choices[0].text, 'length', plain.usage.completion_tokens],
  );
});

test('num_predict and stop strings end an answer; logprobs are given', async () => {
  const cut = await client.chat(body('Count from 1 to 100', { options: { ...options, num_predict: 20 } }));
  assert.deepEqual([cut.done_reason, cut.eval_count], ['length', 20]);
  const whole = (await client.chat(body('Hello there'))).message.content;
  const stop = whole.slice(3, 6);
  const stopped = await client.chat(body('Hello there', { options: { ...options, stop: [stop] }, logprobs: true }));
  assert.deepEqual([stopped.done_reason, stopped.message.content], ['stop', whole.slice(0, whole.indexOf(stop))]);
  assert.ok(stopped.logprobs.length > 0 && stopped.logprobs.every((l) => l.logprob <= 0 && l.token.length > 0));
});

test('errors have the form {"error": text}, before and after authentication and for unknown routes', async () => {
  await refused(client.chat(body('x', { model: 'nobody' })), 404, /model not found: .*nobody/);
  await refused(client.generate({ model: 'nobody', prompt: 'x', stream: true }), 404, /not found/);
  await refused(client.show({ model: 'nobody' }), 404, /not found/);
  await refused(client.chat(body('x', { options: { temperature: 'hot' } })), 400, /temperature/);
  await refused(client.chat(body('x', { messages: [{ role: 'nurse', content: 'x' }] })), 400, /messages\[0\]\.role/);
  const image = { role: 'user', content: 'What is it?', images: ['AAAA'] };
  await refused(client.chat(body('', { messages: [image] })), 400, /cannot see images/);
  await refused(client.generate({ model: 'demo', prompt: 'x', suffix: 'y' }), 400, /suffix/);
  await refused(client.chat(body('word '.repeat(200000))), 400, /input length exceeds the context length/);
  await refused(
    client.pull({ model: 'llama3.2' }),
    404,
    /there is no model "llama3.2", and the hub cannot be searched/,
  );
  await refused(client.delete({ model: 'nobody' }), 404, /nobody/);
  assert.equal(typeof (await call(`${up.url}/api/nothing`)).json.error, 'string');
  const history = await call(`${up.url}/api/chat`, {
    body: body('', {
      stream: false,
      keep_alive: '5m',
      messages: [
        { ...image, images: ['AAAA'] },
        { role: 'assistant', content: 'ok' },
        { role: 'user', content: 'Hi' },
      ],
    }),
  });
  assert.equal(history.status, 200, history.text);
  assert.deepEqual(history.headers.get('x-llm-router-ignored').split(', ').sort(), [
    'keep_alive',
    'messages[0].images',
  ]);
});

test('a line of curl as it is pasted from the internet, without a content type, is answered', async () => {
  const line = JSON.stringify(body('What is the capital of Japan?', { stream: false }));
  const { stdout } = await promisify(execFile)('curl', ['-sS', `${up.url}/api/chat`, '-d', line]);
  assert.match(JSON.parse(stdout).message?.content ?? stdout, /Tokyo/);
});

test('a request without messages or prompt loads the model; tags, ps and show tell of it', async () => {
  const { router } = await fleet(1, DEMO, { nodeArgs: ['--no-preload'], isLoaded: false });
  const own = clientOf(router);
  await until('the files are there', async () => (await own.list()).models.length === 1);
  assert.deepEqual((await own.ps()).models, []);
  const loaded = await own.chat({ model: 'demo', messages: [] });
  assert.deepEqual(
    [loaded.message, loaded.done, loaded.done_reason, loaded.eval_count],
    [{ role: 'assistant', content: '' }, true, 'load', undefined],
  );
  assert.deepEqual((await read(own.generate({ model: 'demo', prompt: '', stream: true }))).last.done_reason, 'load');
  await refused(own.chat({ model: 'demo', keep_alive: 0 }), 400, /keep_alive/);
  const [running] = await until('it is loaded', async () => {
    const { models } = await own.ps();
    return models.length === 1 && models;
  });
  assert.deepEqual([running.name, running.size_vram], ['demo', 0]);
  assert.ok(Date.parse(running.expires_at) > Date.now() && running.context_length > 0);

  await call(`${router.url}/v0/models/demo`, { method: 'PATCH', body: { aliases: ['gpt-oss:20b'] } });
  const { models } = await own.list();
  assert.deepEqual(
    models.map((m) => [m.name, m.model]),
    [
      ['demo', 'demo'],
      ['gpt-oss:20b', 'gpt-oss:20b'],
    ],
  );
  assert.match(models[0].digest, /^[0-9a-f]{64}$/);
  assert.ok(models[0].size > 0 && models[0].details.family.length > 0 && Date.parse(models[0].modified_at) > 0);
  const shown = await own.show({ model: 'gpt-oss:20b' });
  assert.deepEqual(shown.capabilities, ['completion', 'tools', 'thinking']);
  const architecture = shown.model_info['general.architecture'];
  assert.equal(shown.model_info[`${architecture}.context_length`], running.context_length);
  assert.equal(shown.details.family, architecture);
  const [major, minor] = (await own.version()).version.split('.').map(Number);
  assert.ok(major > 0 || minor > 13, 'Codex asks for 0.13.4 or later');
  const limited = await makeKey(router, { models: ['other'] });
  assert.deepEqual((await clientOf(router, limited).list()).models, [], 'a key sees the models that it may use');
});

test('embed and embeddings give the numbers of /v1/embeddings', async () => {
  const own = await startUp({ args: ['--model', makeEcho('e')] });
  try {
    const input = ['first', 'second text'];
    const plain = (await call(`${own.url}/v1/embeddings`, { body: { model: 'e', input } })).json;
    const wanted = plain.data.map((d) => d.embedding);
    const answer = await clientOf(own).embed({ model: 'e:latest', input, truncate: true });
    assert.deepEqual(
      [answer.model, answer.embeddings, answer.prompt_eval_count],
      ['e', wanted, plain.usage.prompt_tokens],
    );
    assert.ok(answer.total_duration > 0);
    assert.deepEqual(await clientOf(own).embeddings({ model: 'e', prompt: 'first' }), { embedding: wanted[0] });
    const cut = await clientOf(own).embed({ model: 'e', input: 'first', dimensions: 4 });
    assert.equal(cut.embeddings[0].length, 4);
    await refused(clientOf(own).embed({ model: 'e' }), 400, /input/);
    await refused(client.embed({ model: 'demo', input: 'x' }), 400, /gives no embeddings/);
    assert.ok((await clientOf(own).show({ model: 'e' })).capabilities.includes('embedding'));
  } finally {
    await own.stop();
  }
});

test('kill -9 of a node in the middle of streams: they continue with the text of an undisturbed run, and the key pays', async () => {
  const { router, all } = await fleet(2, DEMO);
  const key = await makeKey(router);
  const [open, paid] = [clientOf(router), clientOf(router, key)];
  // Long answers: a kill that comes late on a busy machine still hits the middle of them.
  const ask = (i) =>
    body(`Count from ${i} to ${i + 900}`, { stream: true, options: { temperature: 0, num_predict: 600 } });
  const asks = Array.from({ length: 6 }, (_, i) => i);
  const calm = await Promise.all(asks.map((i) => read(open.chat(ask(i)))));
  let begun = 0;
  const disturbed = asks.map((i) =>
    read(paid.chat(ask(i)), ({ lines }) => {
      if (lines === 8) begun++;
    }),
  );
  await until('streams run', () => begun >= 2);
  const busiest = (await nodes(router)).sort((a, b) => b.models[0].inflight - a.models[0].inflight)[0];
  all.find((n) => n.name === busiest.name).child.kill('SIGKILL');
  const counts = ({ last }) => [last.prompt_eval_count, last.eval_count, last.done_reason];
  (await Promise.all(disturbed)).forEach((out, i) => {
    assert.deepEqual([out.content, out.thinking], [calm[i].content, calm[i].thinking]);
    assert.deepEqual(counts(out), counts(calm[i]));
  });
  assert.ok((await metric(router, 'continuations_total')) > 0, 'some in the middle of their answer');
  await until('usage is written', async () => (await used(router, key)).requests === asks.length);
  const row = await used(router, key);
  const sum = (at) => calm.reduce((n, out) => n + counts(out)[at], 0);
  assert.deepEqual([row.prompt_tokens, row.completion_tokens], [sum(0), sum(1)]);

  await call(`${router.url}/v0/keys/${key.id}`, { method: 'DELETE' });
  await refused(paid.chat(body('x')), 401, /revoked|key/);
});

test('the node itself answers as the router does', async () => {
  const { router, all } = await fleet(1, DEMO);
  const { secret } = JSON.parse(fs.readFileSync(path.join(all[0].dir, 'node-identity.json')));
  const node = clientOf({ url: `http://127.0.0.1:${all[0].port}` }, secret);
  const [a, b] = [
    await clientOf(router).chat(body('Hello there')),
    await node.chat(body('Hello there', { model: 'demo:latest' })),
  ];
  assert.deepEqual([a.message, a.done_reason], [b.message, b.done_reason]);
  assert.equal((await read(node.chat(body('Hello there', { stream: true })))).content, a.message.content);
  await refused(node.chat(body('x', { model: 'nobody' })), 404, /not found/);
});

test('an aborted stream ends on the node too', async () => {
  const stream = await client.chat(body('Count from 1 to 1000', { stream: true, options: { num_predict: 20000 } }));
  await assert.rejects(
    read(stream, () => stream.abort()),
    /abort/i,
  );
  await until(
    'the generation has ended',
    async () => (await call(`${up.url}/v0/models`)).json.models[0].nodes[0].inflight === 0,
  );
});

test('pull registers a model and tells of the download until a node is ready; delete removes it and its files, and a pull fetches them again', async () => {
  const hub = keep(await startHub());
  const env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  for (const name of ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'])
    env[name] = '';
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--hub-host', hub.storage], env }));
  const root = tempDir('models');
  const own = clientOf(router);
  const files = readFolder(makeEcho('small'));
  hub.add('acme/small', files);
  hub.add('acme/alone', files);
  await refused(own.pull({ model: 'acme/alone' }), 503, /no node is online/);
  await own.delete({ model: 'acme/alone' });
  keep(await startNode(router, { name: 'n0', args: ['--models-dir', root, '--hub-host', hub.storage], env }));
  await until('the node is online', async () => (await online(router)) === 1);

  const fails = (model, says) =>
    assert.rejects(async () => {
      for await (const _ of await own.pull({ model, stream: true }));
    }, says);
  hub.add('acme/odd', {
    'config.json': '{"architectures":["NobodyRunsThis"]}',
    'tokenizer.json': '{}',
    'model.safetensors': Buffer.alloc(16),
  });
  const odd = fails('acme/odd', /no node can run acme\/odd: no engine for runtime "NobodyRunsThis"/);

  let open;
  const gate = new Promise((done) => {
    open = done;
  });
  hub.script('model.safetensors', [{ gate, after: 10 }]);
  const lines = [];
  for await (const line of await own.pull({ model: 'hf.co/acme/small:latest', stream: true })) {
    lines.push(line);
    if (line.completed !== undefined) open();
  }
  assert.deepEqual([lines[0], lines.at(-1)], [{ status: 'pulling manifest' }, { status: 'success' }]);
  const loading = lines.find((line) => line.completed !== undefined);
  assert.match(loading.status, /^pulling [0-9a-f]{12}$/);
  assert.match(loading.digest, /^sha256:[0-9a-f]{64}$/);
  assert.ok(loading.total > loading.completed, JSON.stringify(loading));
  const answer = await own.chat({ model: 'hf.co/acme/small', messages: [{ role: 'user', content: 'echo this' }] });
  assert.match(answer.message.content, /echo this/);
  assert.deepEqual(await own.pull({ model: 'acme/small' }), { status: 'success' }, 'it is there already');

  await fails('acme/missing', /acme\/missing/);
  await odd;

  const user = clientOf(router, await makeKey(router, { role: 'api' }));
  await refused(user.pull({ model: 'acme/small' }), 403, /role admin/);
  await refused(user.delete({ model: 'acme/small' }), 403, /role admin/);
  await own.delete({ model: 'acme/small:latest' });
  assert.equal(fs.existsSync(path.join(root, 'acme/small')), false, 'the files are gone');
  await refused(own.chat({ model: 'acme/small', messages: [] }), 404, /not found/);

  // Before the node has reported that the model is gone, and after that.
  for (const waits of [false, true]) {
    const isGone = async () => (await nodes(router))[0].models.find((m) => m.id === 'acme/small').state === 'absent';
    if (waits) await until('the node has reported', isGone);
    assert.deepEqual(await own.pull({ model: 'acme/small' }), { status: 'success' });
    const again = await own.chat({ model: 'acme/small', messages: [{ role: 'user', content: 'echo this' }] });
    assert.match(again.message.content, /echo this/);
    const { source } = (await call(`${router.url}/v0/models`)).json.models.find((m) => m.id === 'acme/small');
    assert.equal(source, 'hub', 'every node fetches it');
    await own.delete({ model: 'acme/small' });
  }
});
