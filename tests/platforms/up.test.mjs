// `llm-router up --device cpu` of another system, in an emulator or there (system.mjs): chat, streams, tools,
// schemas, cancelled requests, a killed worker, a reloaded engine, the end.
//   LR_BUILD     its build folder, or an archive of tools/dist, unpacked
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { isWindows, own, processes as processesWith, start as startProgram } from './system.mjs';

const BUILD = process.env.LR_BUILD;
const ROOT = path.resolve(import.meta.dirname, '../..');
const WAIT_MS = 240_000; // an emulator on a busy machine; the limit only ends a test that hangs

// Blanks and letters that are not ASCII, as in the names of users.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lr platform Jürgen 日本 '));
const engines = path.join(folder, 'engines');
let up, url, model;

async function until(what, probe) {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const value = await probe();
    if (value) return value;
    assert.ok(Date.now() < end, `${what} did not happen; the end of the log:\n${up?.log.slice(-4000)}`);
    await new Promise((done) => setTimeout(done, 200));
  }
}

const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

function start(args) {
  const program = path.join(BUILD, 'bin', isWindows ? 'llm-router.exe' : 'llm-router');
  const child = startProgram(program, args);
  const it = { child, log: '', exit: undefined };
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes) => {
      it.log += bytes;
    });
  child.on('exit', (code, signal) => {
    it.exit = signal ?? code;
  });
  return it;
}

const post = (body, options = {}) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, max_tokens: 24, temperature: 0, ...body }),
    ...options,
  });
const user = (content) => [{ role: 'user', content }];

// Nodes and workers have the name of the test's folder in their command line.
const mark = path.basename(folder).slice(-6);
const processes = (word) => processesWith(word, mark);

before(async () => {
  const places = ['engines', 'lib/llm-router/engines'].map((place) => path.join(BUILD, place));
  fs.cpSync(
    places.find((place) => fs.existsSync(place)),
    engines,
    { recursive: true },
  );
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  up = start([
    'up',
    '--device',
    'cpu',
    '--listen',
    `127.0.0.1:${port}`,
    '--data-dir',
    own(path.join(folder, 'data')),
    '--engines-dir',
    own(engines),
    '--model',
    own(path.join(ROOT, 'models/demo')),
    '--no-hf-cache',
  ]);
  model = await until('the model is served', async () => {
    assert.equal(up.exit, undefined, `it has ended:\n${up.log}`);
    const answer = await fetch(`${url}/v1/models`).catch(() => undefined);
    return answer?.ok && (await answer.json()).data[0]?.id;
  });
});
after(async () => {
  if (up?.exit === undefined) up?.child.kill('SIGKILL');
  await new Promise((done) => setTimeout(done, 500));
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
});

test('a chat is answered', async () => {
  const answer = await post({ messages: user('Say hello.') });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  assert.ok(body.usage.completion_tokens > 0);
});

test('a stream has the tokens of the whole answer', async () => {
  const ask = { messages: user('What is the capital of Japan?'), max_tokens: 400 };
  const whole = (await (await post(ask)).json()).choices[0];
  const text = await (await post({ ...ask, stream: true })).text();
  const parts = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)).choices[0])
    .filter(Boolean);
  const joined = (name) => parts.map((part) => part.delta?.[name] ?? '').join('');
  for (const name of ['reasoning_content', 'content']) {
    assert.notEqual(whole.message[name] ?? '', '', name);
    assert.equal(joined(name), whole.message[name], name);
  }
  assert.equal(whole.finish_reason, 'stop');
  assert.equal(parts.at(-1).finish_reason, 'stop');
  assert.match(text, /data: \[DONE\]/);
});

test('an answer keeps to a schema', async () => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer' } },
    required: ['n'],
    additionalProperties: false,
  };
  const answer = await post({
    messages: user('A number.'),
    max_tokens: 400,
    reasoning_effort: 'low',
    response_format: { type: 'json_schema', json_schema: { name: 'number', schema, strict: true } },
  });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  assert.equal(body.choices[0].finish_reason, 'stop', JSON.stringify(body));
  assert.equal(typeof JSON.parse(body.choices[0].message.content).n, 'number');
});

test('a required tool is called', async () => {
  const tool = {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', maxLength: 20 } },
      required: ['city'],
      additionalProperties: false, // the demo model would not come to an end
    },
  };
  const answer = await post({
    messages: user('Weather?'),
    max_tokens: 400,
    tools: [{ type: 'function', function: tool }],
    tool_choice: 'required',
  });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  assert.equal(body.choices[0].finish_reason, 'tool_calls', JSON.stringify(body));
  const [call] = body.choices[0].message.tool_calls;
  assert.equal(call.function.name, 'get_weather');
  assert.equal(typeof JSON.parse(call.function.arguments).city, 'string');
});

test('a client that leaves frees its slot', async () => {
  const control = new AbortController();
  const answer = await post(
    { messages: user('Count.'), stream: true, max_tokens: 4000, ignore_eos: true },
    { signal: control.signal },
  );
  await answer.body.getReader().read();
  control.abort();
  await until('the slot is free', async () => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return !/^llm_router_running\S* [1-9]/m.test(metrics);
  });
  assert.equal((await post({ messages: user('Still there?') })).status, 200);
});

test('a killed worker is replaced', async () => {
  const [worker] = await until('there is a worker', () => {
    const found = processes('worker');
    return found.length > 0 && found;
  });
  process.kill(Number(worker), 'SIGKILL');
  await until('the next request is answered', async () => (await post({ messages: user('Again.') })).status === 200);
  assert.notDeepEqual(processes('worker'), [worker]);
});

test('an engine that is replaced is loaded', async () => {
  const [file] = fs.readdirSync(path.join(engines, 'gptoss')).filter((name) => name.startsWith('gptoss.'));
  const library = path.join(engines, 'gptoss', file);
  const before = processes('worker');
  fs.writeFileSync(`${library}.new`, Buffer.concat([fs.readFileSync(library), Buffer.from('another build')]));
  fs.renameSync(`${library}.new`, library);
  await until('another worker serves', () => processes('worker').some((pid) => !before.includes(pid)));
  await until('it answers', async () => (await post({ messages: user('New?') })).status === 200);
});

test('after the end no process is left', async () => {
  assert.ok(processes('worker').length > 0);
  assert.equal(processes('node').length, 1);
  if (isWindows) {
    process.kill(up.child.pid, 'SIGKILL'); // no signal of Linux is a Ctrl-C for Wine
  } else {
    up.child.kill('SIGINT');
    await until('the program ends', () => up.exit !== undefined);
    assert.equal(up.exit, 0);
  }
  await until('no worker is left', () => processes('worker').length === 0 && processes('node').length === 0);
});
