// The HTTP server with independent clients: Node's fetch and http modules.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { until } from '../support/scene.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const program = process.env.LR_NET_SERVER ?? path.join(root, 'build/release/tests/net_server');
let server;
let base;

before(async () => {
  server = spawn(program, ['--loops', '2', '--max-body-bytes', '1000000', '--linger-ms', '1000']);
  const line = await new Promise((resolve, reject) => {
    server.stdout.once('data', (data) => resolve(String(data)));
    server.once('error', reject);
    server.once('exit', (code) => reject(new Error(`exit ${code}`)));
  });
  base = `http://127.0.0.1:${line.match(/listening (\d+)/)[1]}`;
});

after(async () => {
  server.kill('SIGTERM');
  const code = server.exitCode ?? (await new Promise((resolve) => server.once('exit', resolve)));
  assert.equal(code, 0);
});

async function number(target) {
  return Number(await (await fetch(base + target)).text());
}

test('a hundred parallel fetches are answered', async () => {
  const answers = await Promise.all(Array.from({ length: 100 }, () => fetch(`${base}/json`)));
  for (const answer of answers) {
    assert.equal(answer.status, 200);
    assert.equal((await answer.json()).object, 'list');
  }
});

test('an agent that keeps connections uses one for many requests', async () => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const sockets = new Set();
  for (let i = 0; i < 10; i++) {
    await new Promise((resolve, reject) => {
      const request = http.get(`${base}/json`, { agent }, (answer) => answer.resume().on('end', resolve));
      request.on('socket', (socket) => sockets.add(socket)).on('error', reject);
    });
  }
  assert.equal(sockets.size, 1);
  agent.destroy();
});

test('bodies of every size come back complete', async () => {
  for (const size of [0, 1, 1000, 65536, 999999]) {
    const body = 'x'.repeat(size);
    const answer = await fetch(`${base}/echo`, { method: 'POST', body });
    assert.equal(await answer.text(), body);
  }
});

test('an upload in chunks is read as a stream', async () => {
  const body = new ReadableStream({
    start(controller) {
      for (let i = 0; i < 50; i++) controller.enqueue(new Uint8Array(40000));
      controller.close();
    },
  });
  const answer = await fetch(`${base}/count`, { method: 'POST', body, duplex: 'half' });
  assert.equal(await answer.text(), '2000000\n');
});

test('a body over the limit gets 413 and the reason', async () => {
  const answer = await fetch(`${base}/echo`, { method: 'POST', body: 'x'.repeat(1000001) });
  assert.equal(answer.status, 413);
  assert.match((await answer.json()).error.message, /1000001 bytes; the limit is 1000000/);
});

test('events arrive one by one, as soon as they are sent', async () => {
  // Where events are held back, no try is good; a busy client may read several at once, and needs some tries.
  let times;
  for (let i = 0; i < 20 && !(times?.length >= 4 && times.at(-1) - times[0] > 100); i++) {
    const answer = await fetch(`${base}/sse?events=5&gap_ms=40&size=3`);
    assert.equal(answer.headers.get('content-type'), 'text/event-stream');
    times = [];
    let text = '';
    for await (const piece of answer.body) {
      times.push(performance.now());
      text += Buffer.from(piece);
    }
    assert.equal(text, 'data: xxx\n\n'.repeat(5));
  }
  assert.ok(times.length >= 4, 'events were held back');
  assert.ok(times.at(-1) - times[0] > 100, 'events came all at once');
});

test('an aborted fetch of a silent stream is noticed', async () => {
  const before = await number('/left');
  const controller = new AbortController();
  const answer = await fetch(`${base}/idle`, { signal: controller.signal });
  assert.equal(answer.status, 200);
  controller.abort();
  await until('it is noticed', async () => (await number('/left')) !== before);
  assert.equal(await number('/left'), before + 1);
});
