// A GGUF model on another system, in an emulator or there (system.mjs): the llama_cpp engine opens the
// libraries of llama.cpp that lie beside it, and answers.
//   LR_BUILD     its build folder, or an archive of tools/dist, unpacked
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { isWindows, own, start } from './system.mjs';

const BUILD = process.env.LR_BUILD;
const PROGRAM = path.join(BUILD, 'bin', isWindows ? 'llm-router.exe' : 'llm-router');
const WAIT_MS = 240_000; // an emulator on a busy machine; the limit only ends a test that hangs

// The node copies the engine into its data folder, whose name has blanks and letters that are not ASCII.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lr gguf Jürgen 日本 '));
const file = path.join(folder, 'models/tiny/model.gguf');
let node, url;
let log = '';

const ended = (child) => new Promise((done) => child.on('exit', done));
const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, '127.0.0.1');
    server.on('listening', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
const ask = (body) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', max_tokens: 12, temperature: 0, ...body }),
  });

before(async () => {
  assert.equal(await ended(start(PROGRAM, ['debug', 'write-gguf', '--output', own(file)])), 0);
  const engines = ['engines', 'lib/llm-router/engines']
    .map((place) => path.join(BUILD, place))
    .find((place) => fs.existsSync(place));
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const places = { data: path.join(folder, 'data'), models: path.join(folder, 'models'), engines };
  node = start(PROGRAM, [
    'node',
    '--device=cpu',
    `--listen=127.0.0.1:${port}`,
    '--no-hf-cache',
    ...Object.entries(places).map(([name, place]) => `--${name}-dir=${own(place)}`),
  ]);
  for (const stream of [node.stdout, node.stderr])
    stream.on('data', (bytes) => {
      log += bytes;
    });
  for (const end = Date.now() + WAIT_MS; !(await fetch(`${url}/v1/models`).catch(() => undefined))?.ok; ) {
    assert.ok(node.exitCode === null && Date.now() < end, `the node does not serve:\n${log}`);
    await new Promise((done) => setTimeout(done, 200));
  }
});
after(async () => {
  node?.kill('SIGKILL');
  await new Promise((done) => setTimeout(done, 500));
  fs.rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
});

test('a GGUF model answers, and a stream has the same text', { timeout: WAIT_MS }, async () => {
  const messages = [{ role: 'user', content: 'Say hello.' }];
  const answer = await ask({ messages });
  const body = await answer.json();
  assert.equal(answer.status, 200, `${JSON.stringify(body)}\n${log.slice(-4000)}`);
  assert.ok(body.usage.completion_tokens > 0);
  const text = await (await ask({ messages, stream: true })).text();
  const joined = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)).choices[0]?.delta?.content ?? '')
    .join('');
  assert.equal(joined, body.choices[0].message.content ?? '');
});
