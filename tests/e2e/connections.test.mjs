// One address cannot take all connections, idle connections are closed for new ones, and the server uses all descriptors that the system allows.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { test } from 'node:test';
import { keep } from './fleet.mjs';
import { BIN, call, launch, LONG, startRouter, stopwatch, tempDir, until } from './support.mjs';

const COUNT = LONG ? 1000 : 300;
const rss = (pid) => Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

// Open sockets that send part of a request; resolves when all are connected.
async function hold(count, port, connect, text = 'GET /v1/models HTTP/1.1\r\nHost: ') {
  const sockets = Array.from({ length: count }, () => connect(port));
  await Promise.all(
    sockets.map(
      (s) =>
        new Promise((done) => {
          s.once('secureConnect', done);
          s.once('connect', () => connect !== secure && done());
          s.once('error', done);
          s.once('close', done);
        }),
    ),
  );
  for (const s of sockets) if (!s.destroyed) s.write(text);
  return sockets;
}
const plain = (port) => net.connect(port, '127.0.0.1');
const secure = (port) => tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
const letGo = (sockets) =>
  sockets.forEach((s) => {
    s.on('error', () => {});
    s.destroy();
  });

const health = (port, localAddress) =>
  new Promise((done, fail) => {
    const socket = net.connect({ port, host: '127.0.0.1', localAddress }),
      watch = stopwatch();
    let text = '';
    socket.on('data', (data) => {
      text += data;
    });
    socket.on('error', fail);
    socket.on('close', () => done({ status: Number(text.match(/^HTTP\/1\.1 (\d+)/)?.[1]), ms: watch.ms }));
    socket.write('GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n');
  });

test('idle connections of one address are closed for new ones, and another address is served meanwhile', async () => {
  const router = keep(await startRouter({ args: ['--max-connections', '200', '--connections-per-address', '100'] }));
  const port = Number(new URL(router.url).port);
  const silent = await hold(COUNT, port, plain);
  assert.ok(silent.filter((s) => !s.destroyed).length >= 1);
  for (const address of ['127.0.0.2', '127.0.0.3', '127.0.0.1'])
    assert.equal((await health(port, address)).status, 200, address);
  letGo(silent);
  assert.equal((await call(`${router.url}/health`)).status, 200);
});

test('a trusted proxy may use all connections, and another address is served meanwhile', async () => {
  const router = keep(
    await startRouter({
      args: ['--max-connections', '200', '--connections-per-address', '20', '--trusted-proxy', '127.0.0.1'],
    }),
  );
  const port = Number(new URL(router.url).port);
  const proxied = await hold(150, port, plain);
  await health(port, '127.0.0.2');
  assert.equal(proxied.filter((s) => !s.destroyed).length, 150);
  letGo(proxied);
  const others = await hold(150, port, (at) => net.connect({ port: at, host: '127.0.0.1', localAddress: '127.0.0.2' }));
  await until(
    'the others share their bound',
    () => others.filter((s) => !s.destroyed && !s.readableEnded).length <= 20,
  );
  letGo(others);
});

// A client without a key: what it can make each connection hold.
const HEAD = `GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Long: ${'a'.repeat(15500)}`;
const body = (route) =>
  `POST ${route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 16000\r\n\r\n${'['.repeat(15000)}`;

for (const [role, args, route] of [
  ['router', ['--require-key'], '/v0/session'],
  ['node', ['--device', 'cpu', '--no-hf-cache'], '/v0/generate'],
]) {
  test(`the ${role}: many TLS connections without a key, each with a long head or body, cost little memory, and another address is served`, async () => {
    const dir = tempDir('tls');
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-keyout',
        'k.pem',
        '-out',
        'c.pem',
        '-subj',
        '/CN=r',
        '-addext',
        'subjectAltName=IP:127.0.0.1',
        '-days',
        '3',
      ],
      { cwd: dir, stdio: 'ignore' },
    );
    const server = keep(
      await launch(
        [
          role,
          '--listen',
          '127.0.0.1:0',
          '--data-dir',
          dir,
          '--tls-cert',
          path.join(dir, 'c.pem'),
          '--tls-key',
          path.join(dir, 'k.pem'),
          ...args,
        ],
        { match: /listening on \D*(?:127\.0\.0\.1:)?(\d+)/, env: { LLM_ROUTER_NODE_SECRET: 's'.repeat(40) } },
      ),
    );
    const port = Number(server.found[1]);
    for (const text of [HEAD, body(route)]) {
      const before = rss(server.pid);
      const sockets = await hold(COUNT, port, secure, text);
      const status = await new Promise((done, fail) => {
        https
          .get(
            {
              port,
              host: '127.0.0.1',
              localAddress: '127.0.0.2',
              path: '/health',
              headers: { authorization: `Bearer ${'s'.repeat(40)}` },
              rejectUnauthorized: false,
              agent: false,
            },
            (a) => {
              a.resume();
              done(a.statusCode);
            },
          )
          .on('error', fail);
      });
      assert.equal(status, 200);
      assert.ok(
        rss(server.pid) - before < (LONG ? 64 : (64 * COUNT) / 1000 + 8),
        `${COUNT} connections: ${before} MB became ${rss(server.pid)}`,
      );
      letGo(sockets);
    }
  });
}

const limited = (soft, hard) =>
  launch(
    [
      '-c',
      `ulimit -Sn ${soft}; ulimit -Hn ${hard}; exec "$@"`,
      'bash',
      BIN,
      'router',
      '--listen',
      '127.0.0.1:0',
      '--data-dir',
      tempDir('router'),
    ],
    { bin: 'bash', match: /listening on (http:\/\/\S+)/ },
  );

test('the soft limit of descriptors is raised to the hard one', async () => {
  const router = keep(await limited(256, 12000));
  assert.match(fs.readFileSync(`/proc/${router.pid}/limits`, 'utf8'), /Max open files\s+12000\s+12000/);
  assert.doesNotMatch(router.log, /few_descriptors/);
});

test('too few descriptors are logged at the start, and clients that use all of them do not lock out others', async () => {
  const router = keep(await limited(200, 600));
  assert.match(router.log, /net\.few_descriptors limit=600 connections=344 max-connections=10000/);
  const port = Number(new URL(router.found[1]).port);
  const silent = await hold(700, port, plain);
  for (let i = 0; i < 3; i++) {
    const { status, ms } = await health(port, '127.0.0.2');
    assert.equal(status, 200);
    assert.ok(ms < 2000, `${ms} ms`);
  }
  letGo(silent);
});
