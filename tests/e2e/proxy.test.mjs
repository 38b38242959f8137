// A reverse proxy in front: a real nginx on the same machine.  Its clients are not local, and the
// router distinguishes them if --trusted-proxy names the proxy.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { after, test } from 'node:test';
import { call, startRouter, tempDir, until } from './support.mjs';

const left = [];
after(() => Promise.all(left.map((p) => p.stop())));
const keep = (process) => {
  left.push(process);
  return process;
};

let NGINX;
try {
  NGINX = execFileSync('sh', ['-c', 'command -v nginx'], { env: { PATH: `${process.env.PATH}:/usr/sbin` } })
    .toString()
    .trim();
} catch {
  /* the tests say so */
}
const withNginx = { skip: NGINX ? false : 'nginx is not installed' };

const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

// `lines` stand in the location that passes everything on to the router.
async function startNginx(router, lines = '') {
  const dir = tempDir('nginx'),
    port = await freePort(),
    config = path.join(dir, 'nginx.conf');
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${dir}/${name};`)
    .join(' ');
  fs.writeFileSync(
    config,
    `${process.getuid() === 0 ? 'user root; ' : ''}daemon off; worker_processes 1; pid ${dir}/pid; error_log ${dir}/error.log;
    events { } http { access_log off; ${temp} server { listen 127.0.0.1:${port}; location / { proxy_pass ${router.url}; ${lines} } } }`,
  );
  const child = spawn(NGINX, ['-p', dir, '-c', config], { stdio: 'ignore' });
  const ended = new Promise((done) => child.on('exit', done));
  keep({
    stop: () => {
      child.kill('SIGTERM');
      return ended;
    },
  });
  await until(
    'nginx listens',
    () =>
      new Promise((done) => {
        const socket = net
          .connect(port, '127.0.0.1', () => {
            socket.destroy();
            done(true);
          })
          .on('error', () => done(false));
      }),
  );
  return { url: `http://127.0.0.1:${port}`, port };
}

// A request from another address of this machine, with headers as the client writes them.
const ask = ({ port }, at, { from = '127.0.0.1', method = 'GET', headers = {}, body } = {}) =>
  new Promise((done, fail) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const req = http.request(
      {
        host: '127.0.0.1',
        port,
        path: at,
        method,
        localAddress: from,
        headers: {
          ...(text ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } : {}),
          ...headers,
        },
      },
      (res) => {
        let all = '';
        res.on('data', (d) => {
          all += d;
        });
        res.on('end', () => done({ status: res.statusCode, text: all }));
      },
    );
    req.on('error', fail);
    req.end(text);
  });

const HEADERS = {
  'as nginx does by default': '',
  'with HTTP/1.1 and X-Forwarded-For':
    'proxy_http_version 1.1; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;',
  'with X-Real-IP': 'proxy_http_version 1.1; proxy_set_header X-Real-IP $remote_addr;',
  'with Forwarded': 'proxy_http_version 1.1; proxy_set_header Forwarded "for=$remote_addr";',
  'with Via': 'proxy_http_version 1.1; proxy_set_header Via "1.1 front";',
  'with X-Forwarded-Proto': 'proxy_http_version 1.1; proxy_set_header X-Forwarded-Proto $scheme;',
};

test(
  'without keys nobody becomes admin through a reverse proxy on the same machine, and 403 says what to do',
  withNginx,
  async () => {
    const router = keep(await startRouter());
    for (const [how, lines] of Object.entries(HEADERS)) {
      const front = await startNginx(router, lines);
      const made = await ask(front, '/v0/keys', { method: 'POST', body: { role: 'admin' } });
      assert.equal(made.status, 403, `${how}: ${made.text}`);
      assert.match(made.text, /--require-key.*--trusted-proxy/, how);
      assert.equal((await ask(front, '/metrics')).status, 403, how);
      if (lines !== '') assert.equal((await ask(front, '/v1/models')).status, 403, how);
    }
    assert.deepEqual((await call(`${router.url}/v0/keys`)).json.keys, [], 'and nobody got a key');
  },
);

test(
  'behind a trusted proxy wrong keys are counted for the address that they came from, and for no other',
  withNginx,
  async () => {
    const router = keep(await startRouter({ args: ['--require-key', '--trusted-proxy', '127.0.0.1'] }));
    const front = await startNginx(router, 'proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;');
    const signIn = (from, key, headers) => ask(front, '/v0/session', { from, method: 'POST', body: { key }, headers });
    for (
      let i = 0;
      i < 12;
      i++ // each time under another name, which nginx passes on
    )
      assert.equal(
        (
          await signIn('127.0.0.2', `lr-guess-${i}`, {
            'x-forwarded-for': `203.0.113.${i}`,
            forwarded: `for=198.51.100.${i}`,
          })
        ).status,
        i < 10 ? 401 : 429,
      );
    assert.equal((await signIn('127.0.0.3', 'lr-guess')).status, 401, 'another client is told that its key is wrong');
    assert.equal((await signIn('127.0.0.3', router.adminKey)).status, 200);
    await until('the refusal is logged', () => /session\.refused from=127\.0\.0\.2 /.test(router.log));
    await until('the log names the client', () =>
      /http\.request .*path=\/v0\/session status=200 .*from=127\.0\.0\.3 /.test(router.log),
    );
    assert.doesNotMatch(router.log, /from=203\.0\.113|from=198\.51\.100/);
    const audit = await until('the sign-in is in the audit log', async () => {
      const rows = (await call(`${router.url}/v0/audit`, { key: router.adminKey })).json.audit;
      return rows.some((a) => a.action === 'session.create') && rows;
    });
    assert.deepEqual(
      audit.map((a) => [a.action, a.target, a.from]),
      [['session.create', '127.0.0.3', '127.0.0.3']],
      'and there is no row per wrong sign-in',
    );
  },
);

test('a client that is no trusted proxy cannot claim another address', async () => {
  const router = keep(await startRouter({ args: ['--require-key', '--trusted-proxy', '10.0.0.0/8'] }));
  await call(`${router.url}/v0/session`, { body: { key: 'lr-x' }, headers: { 'x-forwarded-for': '203.0.113.1' } });
  await until('the refusal is logged', () => /session\.refused from=127\.0\.0\.1 /.test(router.log));
});

test('a malformed trusted-proxy or node-network ends the start with the right format', async () => {
  for (const flag of ['--trusted-proxy', '--node-network'])
    for (const bad of ['localhost', '10.0.0.0/33', '10.0.0', 'fd00::/129'])
      await assert.rejects(
        startRouter({ args: [flag, bad] }),
        new RegExp(`${flag.slice(2)}.*is no network: write ADDRESS/BITS`),
      );
});

test('/v0 answers only pages of its own origin, not every page of this machine', async () => {
  const router = keep(await startRouter());
  const { port, host } = new URL(router.url);
  const status = (headers, at = '/v0/keys') => ask({ port }, at, { headers }).then((a) => a.status);
  const make = (headers) =>
    ask({ port }, '/v0/keys', { method: 'POST', body: { role: 'admin' }, headers }).then((a) => a.status);
  assert.equal(await status({ origin: `http://${host}` }), 200);
  assert.equal(await status({ host: `localhost:${port}`, origin: `http://localhost:${port}` }), 200);
  assert.equal(await make({ origin: `http://${host}`, 'sec-fetch-site': 'same-origin' }), 201);
  for (const origin of [
    'http://localhost:3000',
    'http://127.0.0.1:3000',
    `https://${host}`,
    `http://localhost:${port}`,
    'null',
  ]) {
    assert.equal(await status({ origin }), 403, origin);
    assert.equal(await make({ origin }), 403, origin);
  }
  assert.equal(await status({ 'sec-fetch-site': 'same-site' }), 403, 'a page of another port');
  assert.equal(await status({ origin: 'http://localhost:3000' }, '/v1/models'), 200, 'the API is for local pages, too');
});
