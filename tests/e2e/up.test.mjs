// `llm-router up` with the demo model, used with OpenAI's own client.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import {
  BIN,
  call,
  cli,
  DEMO,
  descriptors,
  launch,
  makeEcho,
  say,
  startUp,
  stream,
  tempDir,
  until,
} from './support.mjs';

let up, client;

before(async () => {
  up = await startUp({ args: ['--model', DEMO] });
  client = new OpenAI({
    baseURL: `${up.url}/v1`,
    apiKey: 'unused',
    maxRetries: 0,
    defaultHeaders: { Authorization: null },
  });
});
after(() => up?.stop());

const weather = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Weather of a city',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
];

test('up prints the address, a command to copy, the data folder and how to stop', () => {
  assert.match(up.out, /curl http:\/\/127\.0\.0\.1:\d+\/v1\/chat\/completions/);
  assert.match(up.out, /The data folder is .*\. {2}Ctrl-C stops/);
});

// Every port that a process and its children listen on, as the kernel writes addresses.
function listening(pid) {
  const all = fs
    .readdirSync(`/proc/${pid}/task`)
    .flatMap((task) => fs.readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean))
    .flatMap(listening);
  const sockets = new Set(
    descriptors(pid)
      .map((fd) => {
        try {
          return fs.readlinkSync(`/proc/${pid}/fd/${fd}`).match(/^socket:\[(\d+)\]$/)?.[1];
        } catch {
          return undefined;
        }
      })
      .filter(Boolean),
  );
  for (const table of ['tcp', 'tcp6', 'udp', 'udp6'])
    for (const line of fs.readFileSync(`/proc/${pid}/net/${table}`, 'utf8').split('\n').slice(1)) {
      const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
      if (sockets.has(inode) && (state === '0A' || table.startsWith('udp'))) all.push(`${table} ${local}`);
    }
  return all;
}

test('up listens on loopback only: router, node and worker', () => {
  const open = listening(up.pid);
  assert.ok(open.length >= 2, `${open}: the router's port and the node's`);
  for (const address of open) assert.match(address, /^tcp 0100007F:/);
});

test('the openai client lists the model, ready', async () => {
  const list = await client.models.list();
  assert.deepEqual(
    list.data.map((m) => m.id),
    ['demo'],
  );
  assert.equal(list.data[0].ready, true);
  assert.equal((await client.models.retrieve('demo')).id, 'demo');
});

test('the openai client gets a chat completion with reasoning apart from content', async () => {
  const answer = await client.chat.completions.create({ model: 'demo', temperature: 0, ...say('Hello there') });
  assert.match(answer.choices[0].message.content, /Hello/);
  assert.ok(answer.choices[0].message.reasoning_content.length > 0);
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert.ok(answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens > 0);
});

test('the openai client streams the same text, with usage at the end', async () => {
  const whole = await client.chat.completions.create({ model: 'demo', temperature: 0, ...say('Hello there') });
  const stream = await client.chat.completions.create({
    model: 'demo',
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    ...say('Hello there'),
  });
  let text = '',
    usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(usage, whole.usage);
});

test('a tools round trip: the model calls get_weather and uses its result', async () => {
  const messages = [{ role: 'user', content: 'What is the weather in Paris?' }];
  const first = await client.chat.completions.create({ model: 'demo', temperature: 0, tools: weather, messages });
  const made = first.choices[0].message.tool_calls?.[0];
  assert.equal(first.choices[0].finish_reason, 'tool_calls');
  assert.equal(made.function.name, 'get_weather');
  assert.match(JSON.parse(made.function.arguments).city, /Paris/);
  messages.push(first.choices[0].message, {
    role: 'tool',
    tool_call_id: made.id,
    content: '{"temperature": 21, "sky": "sunny"}',
  });
  const second = await client.chat.completions.create({ model: 'demo', temperature: 0, tools: weather, messages });
  assert.equal(second.choices[0].finish_reason, 'stop');
  assert.match(second.choices[0].message.content, /21|sunny/i, 'the result is in the answer');
});

test('an aborted stream ends on the node too', async () => {
  const stream = await client.chat.completions.create({
    model: 'demo',
    stream: true,
    max_tokens: 20000,
    ...say('Count from 1 to 1000'),
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

test('the prefix cache of one key does not speed up requests of another key', async () => {
  const make = async () => (await call(`${up.url}/v0/keys`, { body: {} })).json.key;
  const [ann, bob] = [await make(), await make()];
  const cached = async (key) =>
    (
      await call(`${up.url}/v1/chat/completions`, {
        key,
        body: {
          model: 'demo',
          max_tokens: 1,
          temperature: 0,
          ...say('A secret of Ann, told at some length. '.repeat(20)),
        },
      })
    ).json.usage.prompt_tokens_details.cached_tokens;
  assert.equal(await cached(ann), 0);
  assert.ok((await cached(ann)) > 100, 'her own prompt is kept');
  assert.equal(await cached(bob), 0, 'nobody else can tell that she sent it');
  assert.ok((await cached(undefined)) < 100, 'without a key: what others without one have sent, the system message');
});

test('errors arrive as the typed exceptions of the openai client', async () => {
  await assert.rejects(client.chat.completions.create({ model: 'nobody/knows', ...say('x') }), OpenAI.NotFoundError);
  await assert.rejects(
    client.chat.completions.create({ model: 'demo', temperature: 9, ...say('x') }),
    OpenAI.BadRequestError,
  );
  const { id, key } = (await call(`${up.url}/v0/keys`, { body: { name: 'revoked' } })).json;
  assert.equal((await call(`${up.url}/v0/keys/${id}`, { method: 'DELETE' })).status, 200);
  const revoked = new OpenAI({ baseURL: `${up.url}/v1`, apiKey: key, maxRetries: 0 });
  await assert.rejects(revoked.models.list(), OpenAI.AuthenticationError);
});

test('curl -N streams, and the last line is [DONE]', async () => {
  const { stdout } = await promisify(execFile)('curl', [
    '-sN',
    `${up.url}/v1/chat/completions`,
    '-H',
    'Content-Type: application/json',
    '-d',
    JSON.stringify({ model: 'demo', stream: true, ...say('Hello') }),
  ]);
  assert.ok(stdout.trimEnd().endsWith('data: [DONE]'));
});

test('/v1/completions and stop strings work through the router', async () => {
  const raw = await call(`${up.url}/v1/completions`, {
    body: { model: 'demo', prompt: 'Hello', max_tokens: 4, temperature: 0 },
  });
  assert.equal(raw.status, 200);
  assert.ok(raw.json.usage.completion_tokens >= 1 && raw.json.usage.completion_tokens <= 4);
  const cut = await call(`${up.url}/v1/chat/completions`, {
    body: { model: 'demo', temperature: 0, stop: ['help'], ...say('Hello there') },
  });
  assert.equal(cut.json.choices[0].finish_reason, 'stop');
  assert.doesNotMatch(cut.json.choices[0].message.content, /help/);
  assert.ok(cut.json.usage.prompt_tokens > 0, 'the prompt is counted though the answer was cut');
});

test('headers say which node served and why, and pass the request id through', async () => {
  const answer = await call(`${up.url}/v1/chat/completions`, {
    body: { model: 'demo', max_tokens: 2, ...say('Hi') },
    headers: { 'x-request-id': 'mine-1' },
  });
  assert.equal(answer.headers.get('x-request-id'), 'mine-1');
  assert.match(answer.headers.get('x-llm-router-node'), /^node-/);
  assert.match(answer.headers.get('x-llm-router-reason'), /cost=/);
  const why = await call(`${up.url}/v0/explain?model=demo`);
  assert.equal(why.json.choice, answer.headers.get('x-llm-router-node'));
});

test('chat, models, nodes and keys work from the command line', async () => {
  const env = { LLM_ROUTER_URL: up.url };
  assert.match((await cli(['chat', '--temperature', '0', 'Hello', 'there'], env)).stdout, /Hello/);
  assert.match((await cli(['models'], env)).stdout, /demo\s+ready\s+local/);
  assert.match((await cli(['nodes'], env)).stdout, /online\s+cpu/);
  assert.match((await cli(['keys', 'create', '--name', 'x'], env)).stdout, /^lr-[A-Za-z0-9]{43}\n$/);
  assert.match((await cli(['keys'], env)).stdout, /api\s+good/);
});

test('up without a GPU and without --device cpu ends with the reason', async () => {
  await assert.rejects(
    launch(['up', '--listen', '127.0.0.1:0', '--data-dir', tempDir('nogpu'), '--nvml-library', '/nonexistent'], {
      match: /is ready/,
    }),
    /pass --device cpu/,
  );
});

test('a data folder belongs to one process', async () => {
  const dir = up.out.match(/The data folder is (.*)\. {2}Ctrl/)[1];
  await assert.rejects(
    launch(['router', '--listen', '127.0.0.1:0', '--data-dir', dir], { match: /listening/ }),
    /lock|process/,
  );
});

test('SIGHUP: up and its node open the log again, reload, and a running stream continues', async () => {
  const log = path.join(tempDir('log'), 'up.log');
  const other = await startUp({ args: ['--model', makeEcho('slow', { step_ms: 30 }), '--log-file', log] });
  const text = 'abcdefghij'.repeat(5);
  let asked = false;
  const out = await stream(
    other.url,
    { model: 'slow', ...say(text) },
    {
      onChunk: () => {
        if (!asked) {
          fs.renameSync(log, `${log}.1`);
          other.child.kill('SIGHUP');
        }
        asked = true;
      },
    },
  );
  assert.equal(out.text, text);
  await until(
    'both have reloaded',
    () => fs.existsSync(log) && fs.readFileSync(log, 'utf8').match(/process\.reload/g)?.length === 2,
  );
  assert.equal(
    (await call(`${other.url}/v1/chat/completions`, { body: { model: 'slow', ...say('hi') } })).json.choices[0].message
      .content,
    'hi',
  );
  assert.deepEqual(await other.stop(), { code: 0, signal: null });
  assert.match(fs.readFileSync(log, 'utf8'), /worker\.left/);
});

test('up is ready although its worker died before the node had joined, and the first request loads the model', async () => {
  const log = path.join(tempDir('log'), 'up.log');
  const starts = startUp({ args: ['--model', makeEcho('early'), '--log-file', log] });
  const pid = await until(
    'the worker is ready',
    () => fs.existsSync(log) && fs.readFileSync(log, 'utf8').match(/worker\.ready .*?pid=(\d+)/)?.[1],
  );
  process.kill(Number(pid), 'SIGKILL');
  const other = await starts;
  assert.equal(
    (await call(`${other.url}/v1/chat/completions`, { body: { model: 'early', ...say('hi') } })).json.choices[0].message
      .content,
    'hi',
  );
  await other.stop();
});

test('up without standard input and standard error serves, and SIGTERM ends it', async () => {
  const script = 'exec "$0" "$@" <&- 2>&-';
  const args = ['--listen', '127.0.0.1:0', '--device', 'cpu', '--no-hf-cache', '--data-dir', tempDir('streams')];
  const other = await launch(['-c', script, BIN, 'up', ...args, '--model', makeEcho('plain')], {
    bin: 'sh',
    match: /is ready at (http:\/\/\S+)/,
  });
  const answer = await call(`${other.found[1]}/v1/chat/completions`, { body: { model: 'plain', ...say('hi') } });
  assert.equal(answer.json.choices[0].message.content, 'hi');
  assert.deepEqual(await other.stop(), { code: 0, signal: null });
});

test('closing the terminal that up was started in still ends everything', async () => {
  const command = [
    BIN,
    'up',
    '--listen',
    '127.0.0.1:0',
    '--device',
    'cpu',
    '--no-hf-cache',
    '--data-dir',
    tempDir('window'),
    '--model',
    makeEcho('window'),
  ].join(' ');
  const terminal = await launch(['-qfc', `exec ${command}`, '/dev/null'], {
    bin: 'script',
    match: /is ready at (http:\/\/\S+)/,
  });
  const [pid] = fs.readFileSync(`/proc/${terminal.pid}/task/${terminal.pid}/children`, 'utf8').split(' ').map(Number);
  try {
    await terminal.stop('SIGKILL');
    await until('up is gone', () => !fs.existsSync(`/proc/${pid}`));
  } finally {
    if (fs.existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL');
  }
  await assert.rejects(fetch(terminal.found[1]));
});

test('SIGTERM: a running stream is finished, then router, node and worker are gone', async () => {
  const other = await startUp({ args: ['--model', makeEcho('slow', { step_ms: 30 })] });
  const text = 'abcdefghij'.repeat(5);
  let asked = false;
  const out = await stream(
    other.url,
    { model: 'slow', ...say(text) },
    {
      onChunk: () => {
        if (!asked) other.child.kill('SIGTERM');
        asked = true;
      },
    },
  );
  assert.equal(out.text, text);
  assert.ok(out.done);
  assert.deepEqual(await other.ended, { code: 0, signal: null });
  const order = () => [...other.log.matchAll(/(node\.drain|worker\.left)/g)].map((m) => m[1]);
  await until('the log is whole', () => order().length === 2);
  assert.deepEqual(order(), ['node.drain', 'worker.left']);
});
