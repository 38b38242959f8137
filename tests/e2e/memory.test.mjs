// Memory of unauthenticated and waiting requests: no large body is read before its sender is known, and a queue is limited in bytes.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { fleet, keep, makeKey } from './fleet.mjs';
import { call, makeEcho, nodes, online, say, startRouter, stream, tempDir, until } from './support.mjs';

const MB = 1 << 20,
  BEYOND = 2;
// Megabytes of a process that are in memory.
const rss = (pid) => Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

// Announces a body and sends it as fast as it is taken; resolves with the status that came, however much was sent.
function send(port, route, bytes) {
  return new Promise((done) => {
    const socket = net.connect(port, '127.0.0.1'),
      piece = Buffer.alloc(MB, 'x');
    let left = bytes,
      heard = '';
    const more = () => {
      while (left > 0 && !socket.destroyed) {
        left -= piece.length;
        if (!socket.write(piece)) {
          socket.once('drain', more);
          return;
        }
      }
    };
    socket.write(
      `POST ${route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`,
    );
    socket.on('data', (data) => {
      heard += data;
    });
    socket.on('error', () => {});
    socket.on('close', () => done(Number(heard.match(/^HTTP\/1\.1 (\d+)/)?.[1])));
    more();
  });
}

test('a node reads no body of a sender without its secret', async () => {
  const { router, all } = await fleet(1, makeEcho('m'));
  const before = rss(all[0].pid);
  let most = before;
  const look = setInterval(() => {
    most = Math.max(most, rss(all[0].pid));
  }, 20);
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, i) => send(all[0].port, i % 2 ? '/v0/generate' : '/v1/chat/completions', 30 * MB)),
  );
  clearInterval(look);
  assert.deepEqual(
    answers,
    answers.map(() => 401),
  );
  assert.ok(most - before < 64, `${Math.round(before)} MB became ${Math.round(most)}`);
  assert.equal((await call(`${router.url}/v1/chat/completions`, { body: { model: 'm', ...say('hi') } })).status, 200);
  assert.ok((await nodes(router)).every((n) => n.online && n.models[0].state === 'ready'));
});

test('a public route of the router accepts small bodies only', async () => {
  const router = keep(await startRouter({ args: ['--require-key'] }));
  const array = `{"key":[${'1,'.repeat(3 * MB)}1]}`;
  const before = rss(router.pid);
  const large = await call(`${router.url}/v0/session`, { raw: array }).catch((e) => ({ status: e.cause?.code }));
  assert.ok([413, 'ECONNRESET', 'EPIPE'].includes(large.status), `${large.status}`);
  assert.equal(await send(Number(new URL(router.url).port), '/v0/session', 17 << 10), 413);
  assert.ok(rss(router.pid) - before < 16, `${before} MB became ${rss(router.pid)}`);
  assert.equal((await call(`${router.url}/v0/session`, { body: { key: router.adminKey } })).status, 200);
});

test('waiting requests use no more memory than queue-bytes, and those of one key no more than half of it', async () => {
  const gate = path.join(tempDir('gate'), 'gate');
  fs.writeFileSync(gate, '');
  const { router } = await fleet(1, makeEcho('m', { gate }), {
    args: ['--queue-bytes', '400KiB'],
    nodeArgs: ['--max-sequences', '1'],
  });
  const [large, small] = await Promise.all([makeKey(router), makeKey(router)]);
  const queued = async () => (await call(`${router.url}/v0/explain?model=m`)).json.queued;
  const ask = (key, text) => stream(router.url, { model: 'm', ...say(text), max_tokens: 4 }, { key: key.key });
  const running = Array.from({ length: 1 + BEYOND + 1 }, () => ask(large, 'hi'));
  await until('one waits', async () => (await queued()) >= 1);
  const waiting = [],
    refused = [];
  for (let i = 0; i < 8; i++) {
    const size = await queued(),
      one = ask(large, 'x'.repeat(24 << 10));
    let answer;
    one.then((a) => {
      answer = a;
    });
    await until('it waits or is refused', async () => answer || (await queued()) > size);
    if (answer) refused.push(answer);
    else waiting.push(one);
  }
  assert.ok(waiting.length >= 1 && refused.length >= 4, `${waiting.length} wait, ${refused.length} refused`);
  assert.match(JSON.parse(refused[0].body).error.message, /setting queue-bytes/);
  assert.ok(Number(refused[0].headers.get('retry-after')) >= 1);
  const size = await queued(),
    other = ask(small, 'hello');
  await until('another key may wait', async () => (await queued()) > size);
  fs.writeFileSync(gate, 'x'.repeat(1000));
  for (const out of await Promise.all([...running, ...waiting, other]))
    assert.ok(out.done && !out.error, JSON.stringify(out).slice(0, 300));
  assert.equal(await online(router), 1);
});
