// Where a router listens: a port alone, all interfaces, Unix sockets.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import { keep } from './fleet.mjs';
import { call, cli, launch, startRouter, startUp, tempDir, makeEcho, until } from './support.mjs';

const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

const start = (args, match) => launch(['router', '--data-dir', tempDir('r'), ...args], { match });

// A request over a Unix socket; without `host` the Host header is the one that curl sends.
const ask = (socketPath, at, { method = 'GET', body, host = 'localhost' } = {}) =>
  new Promise((done, fail) => {
    const req = http.request(
      { socketPath, path: at, method, agent: false, headers: { host, 'content-type': 'application/json' } },
      async (res) => {
        let text = '';
        for await (const part of res.setEncoding('utf8')) text += part;
        done({ status: res.statusCode, text });
      },
    );
    req.on('error', fail);
    req.end(body);
  });

test('a port alone is this machine only; :PORT is all interfaces and asks for TLS and a key', async () => {
  const near = await freePort();
  const router = keep(await start(['--listen', String(near)], /listening on (http:\/\/\S+)/));
  assert.equal(router.found[1], `http://127.0.0.1:${near}`);
  assert.equal((await call(`${router.found[1]}/v0/nodes`)).status, 200, 'no key is needed');
  const far = await freePort();
  await assert.rejects(start(['--listen', `:${far}`], /listening/), /beyond this machine.*--insecure-http/);
  const open = keep(await start(['--listen', `:${far}`, '--insecure-http'], /listening on (http:\/\/\S+)/));
  assert.match(open.out, /Admin key, shown this once/);
  assert.equal((await call(`http://127.0.0.1:${far}/v0/nodes`)).status, 401);
});

test('a Unix socket serves beside TCP, without TLS; its file goes with the router', async () => {
  const socket = path.join(tempDir('s'), 'router.sock');
  const router = keep(await startRouter({ args: ['--listen', `unix:${socket}`] }));
  assert.equal((await call(`${router.url}/health`)).status, 200);
  assert.equal(fs.statSync(socket).mode & 0o777, 0o660);
  assert.equal((await ask(socket, '/v0/nodes')).status, 200);
  assert.equal((await ask(socket, '/v0/nodes', { host: 'evil.example' })).status, 421, 'the same guard as on loopback');
  const made = await ask(socket, '/v0/keys', { method: 'POST', body: '{"name": "by socket"}' });
  assert.equal(made.status, 201, made.text);
  await until('it is logged', () => /path=\/v0\/keys status=201 .*from=127\.0\.0\.1/.test(router.log));
  assert.deepEqual(await router.stop(), { code: 0, signal: null });
  assert.equal(fs.existsSync(socket), false);
});

test('a router alone on a Unix socket serves; what kill -9 left behind does not stop the next one', async () => {
  const dir = tempDir('s');
  const socket = path.join(dir, 'only.sock');
  const args = ['router', '--data-dir', dir, '--listen', `unix:${socket}`];
  const first = keep(await launch(args, { match: /listening on unix:(\S+)/ }));
  assert.equal(first.found[1], socket);
  await assert.rejects(
    cli(['router', '--data-dir', tempDir('r'), '--listen', `unix:${socket}`]),
    /only\.sock: the path is in use/,
  );
  assert.equal((await ask(socket, '/health')).status, 200, 'the first router still serves');
  await first.stop('SIGKILL');
  assert.equal(fs.existsSync(socket), true);
  const second = keep(await launch(args, { match: /listening on unix:\S+/ }));
  assert.equal((await ask(socket, '/health')).status, 200);
  await second.stop();
});

test('up serves on a Unix socket, too, and needs TCP for its node', async () => {
  const socket = path.join(tempDir('s'), 'up.sock');
  await assert.rejects(cli(['up', '--data-dir', tempDir('u'), '--listen', `unix:${socket}`]), /joins over TCP/);
  const up = keep(await startUp({ args: ['--listen', `unix:${socket}`, '--model', makeEcho('beside')] }));
  assert.equal((await ask(socket, '/v1/models')).status, 200);
  assert.equal((await up.stop()).code, 0);
  assert.equal(fs.existsSync(socket), false);
});

test('up serves on the loopback address of IPv6 alone', async () => {
  const args = ['--listen', '[::1]:0', '--device', 'cpu', '--no-hf-cache', '--data-dir', tempDir('six')];
  const up = keep(
    await launch(['up', ...args, '--model', makeEcho('six')], { match: /is ready at (http:\/\/\[::1\]:\d+)/ }),
  );
  const body = { model: 'six', messages: [{ role: 'user', content: 'hi' }] };
  const answer = await call(`${up.found[1]}/v1/chat/completions`, { body });
  assert.equal(answer.json.choices[0].message.content, 'hi');
});
