// TLS with a private CA: clients to the router, router and nodes to each other, and
// refused connections.  openssl creates the certificates here.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import tls from 'node:tls';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { BIN, cli, launch, makeEcho, ROOT, tempDir, until } from './support.mjs';

const run = promisify(execFile);
const left = [];
let dir, router, node, admin;

const file = (name) => path.join(dir, name);
const openssl = (...args) => execFileSync('openssl', args, { cwd: dir, stdio: ['ignore', 'pipe', 'pipe'] });

// A certificate of the CA for these names, good for `days` (negative: it has expired).
function certify(name, names, days = 2, ca = 'ca') {
  openssl(
    'req',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    `${name}.key`,
    '-out',
    `${name}.csr`,
    '-subj',
    `/CN=${name}`,
  );
  fs.writeFileSync(file(`${name}.ext`), `subjectAltName=${names}\n`);
  const when = (d) => new Date(Date.now() + d * 86400e3).toISOString().replace(/[-:T]/g, '').slice(0, 14) + 'Z';
  openssl(
    'ca',
    '-batch',
    '-notext',
    '-config',
    'ca.conf',
    '-cert',
    `${ca}.pem`,
    '-keyfile',
    `${ca}.key`,
    '-in',
    `${name}.csr`,
    '-out',
    `${name}.pem`,
    '-extfile',
    `${name}.ext`,
    '-startdate',
    when(-3),
    '-enddate',
    when(days),
  );
}

function makeCa(name) {
  openssl(
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    `${name}.key`,
    '-out',
    `${name}.pem`,
    '-subj',
    `/CN=${name}`,
    '-days',
    '3',
  );
}

before(async () => {
  dir = tempDir('tls');
  fs.writeFileSync(
    file('ca.conf'),
    `[ca]\ndefault_ca=c\n[c]\ndatabase=${file('index')}\nnew_certs_dir=${dir}\nrand_serial=yes\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n`,
  );
  fs.writeFileSync(file('index'), '');
  makeCa('ca');
  makeCa('stranger');
  certify('good', 'IP:127.0.0.1,DNS:localhost');
  certify('other', 'DNS:elsewhere.example');
  certify('old', 'IP:127.0.0.1', -1);
  certify('foreign', 'IP:127.0.0.1', 2, 'stranger');
  const sealed = ['--tls-cert', file('good.pem'), '--tls-key', file('good.key'), '--tls-ca', file('ca.pem')];
  router = await launch(
    [
      'router',
      '--listen',
      '127.0.0.1:0',
      '--data-dir',
      tempDir('router'),
      '--require-key',
      '--allow-cpu-nodes',
      '--node-timeout',
      '2s',
      ...sealed,
    ],
    { match: /listening on (https:\/\/\S+)/ },
  );
  router.url = router.found[1];
  left.push(router);
  admin = router.out.match(/shown this once: (\S+)/)[1];
  const token = (await cli(['nodes', 'token'], env())).stdout.match(/lr-\w+/)[0];
  node = await launch(
    [
      'node',
      '--listen',
      '127.0.0.1:0',
      '--device',
      'cpu',
      '--no-hf-cache',
      '--data-dir',
      tempDir('node'),
      '--router',
      router.url,
      '--node-name',
      'sealed',
      '--model',
      makeEcho('sealed'),
      ...sealed,
    ],
    { match: /listening on port (\d+)/, env: { LLM_ROUTER_TOKEN: token } },
  );
  left.push(node);
});
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));

const env = (more = {}) => ({
  LLM_ROUTER_URL: router.url,
  LLM_ROUTER_KEY: admin,
  LLM_ROUTER_TLS_CA: file('ca.pem'),
  ...more,
});
const curl = async (target, ...args) =>
  JSON.parse(
    (
      await run('curl', [
        '-sS',
        '--cacert',
        file('ca.pem'),
        '-H',
        `Authorization: Bearer ${admin}`,
        ...args,
        `${router.url}${target}`,
      ])
    ).stdout,
  );

test('router and node use TLS in both directions, each trusting the named CA', async () => {
  const joined = await until('the node is online', async () => (await curl('/v0/nodes')).nodes.find((n) => n.online));
  assert.match(joined.url, /^https:\/\/127\.0\.0\.1:/);
  await curl('/v0/models/register', '-H', 'Content-Type: application/json', '-d', '{"path":"sealed"}');
  const chat = await until('it serves', async () => {
    const got = await curl(
      '/v1/chat/completions',
      '-H',
      'Content-Type: application/json',
      '-d',
      JSON.stringify({ model: 'sealed', messages: [{ role: 'user', content: 'through two tunnels' }] }),
    );
    return got.choices && got;
  });
  assert.equal(chat.choices[0].message.content, 'through two tunnels');
});

test('the openai client works over TLS with that CA, and not without it', async () => {
  const script = `import OpenAI from 'openai';
    const client = new OpenAI({ baseURL: process.argv[1] + '/v1', apiKey: process.argv[2], maxRetries: 0 });
    const stream = await client.chat.completions.create({ model: 'sealed', stream: true, messages: [{ role: 'user', content: 'sealed words' }] });
    for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '');`;
  const ask = (extra) =>
    run(process.execPath, ['--input-type=module', '-e', script, router.url, admin], {
      cwd: path.dirname(fileURLToPath(import.meta.url)),
      env: { ...process.env, ...extra },
    });
  assert.equal((await ask({ NODE_EXTRA_CA_CERTS: file('ca.pem') })).stdout, 'sealed words');
  await assert.rejects(ask({}), /certificate|CERT/i);
});

test('of TLS 1.2 only suites with ECDHE and AEAD are taken, and a key that everybody can read is named', async (t) => {
  const { hostname, port } = new URL(router.url);
  const shake = (options) =>
    new Promise((done, fail) => {
      const socket = tls.connect({ host: hostname, port, ca: fs.readFileSync(file('ca.pem')), ...options }, () => {
        done(`${socket.getProtocol()} ${socket.getCipher().name}`);
        socket.destroy();
      });
      socket.on('error', fail);
    });
  const old = { maxVersion: 'TLSv1.2' };
  for (const ciphers of ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES256-GCM-SHA384', 'ECDHE-RSA-CHACHA20-POLY1305'])
    assert.equal(await shake({ ...old, ciphers }), `TLSv1.2 ${ciphers}`);
  for (const ciphers of ['AES128-GCM-SHA256', 'AES256-SHA', 'ECDHE-RSA-AES128-SHA256', 'ECDHE-RSA-AES256-SHA'])
    await assert.rejects(shake({ ...old, ciphers }), /handshake failure/, ciphers);
  assert.match(await shake({}), /^TLSv1\.3 /);
  const open = file('open.key');
  fs.copyFileSync(file('good.key'), open);
  fs.chmodSync(open, 0o644);
  const args = ['router', '--listen', '127.0.0.1:0', '--data-dir', tempDir('open'), '--tls-cert', file('good.pem')];
  const other = await launch([...args, '--tls-key', open], { match: /listening on/ });
  t.after(() => other.stop());
  await until('the log names it', () => /tls\.key_readable file=\S*open\.key mode=0644/.test(other.log));
  assert.doesNotMatch(router.log, /tls\.key_readable/);
});

test('plain HTTP to the TLS port is refused', async () => {
  await assert.rejects(run('curl', ['-sS', '--fail', router.url.replace('https', 'http') + '/health']));
});

test('the command line names what is wrong with a certificate: not trusted, another name, expired', async () => {
  await assert.rejects(
    cli(['models'], env({ LLM_ROUTER_TLS_CA: '' })),
    /signed by "ca", which is not trusted here.*tls-ca/,
  );
  await assert.rejects(cli(['models', '--tls-ca', file('stranger.pem')], env()), ({ message }) => {
    assert.match(message, /not trusted/);
    assert.doesNotMatch(message, /llm-router up/, 'a router is there');
    return true;
  });
  await assert.rejects(cli(['models', '--tls-ca', file('nothing.pem')], env()), /nothing\.pem/);
  for (const [name, message] of [
    ['other', /certificate is for "elsewhere\.example", not "127\.0\.0\.1"/],
    ['old', /certificate for "[^"]+" expired on \d{4}-/],
    ['foreign', /signed by "stranger", which is not trusted/],
  ]) {
    const server = https.createServer(
      { cert: fs.readFileSync(file(`${name}.pem`)), key: fs.readFileSync(file(`${name}.key`)) },
      (q, a) => a.end('{}'),
    );
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    await assert.rejects(
      cli(['models'], env({ LLM_ROUTER_URL: `https://127.0.0.1:${server.address().port}` })),
      message,
    );
    server.close();
  }
});

test('the certificates of docs/tls.md are trusted by router, node and clients, and are renewed without a restart', async () => {
  const page = fs.readFileSync(path.join(ROOT, 'docs/tls.md'), 'utf8');
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, text]) =>
    text.replaceAll(/(router|node-1)\.example/g, '127.0.0.1 localhost ::1'),
  );
  assert.equal(blocks.length, 2, 'how to make them, and how to renew them');
  const folder = tempDir('recipe');
  const make = (text) => execFileSync('sh', ['-eu', '-c', text], { cwd: folder, stdio: 'pipe' });
  make(blocks[0]);
  const at = (name) => path.join(folder, name);
  assert.equal((fs.statSync(at('ca.key')).mode & 0o77).toString(8), '0', 'the key of the CA is private');
  const flags = (name) => ['--tls-cert', at(`${name}.pem`), '--tls-key', at(`${name}.key`), '--tls-ca', at('ca.pem')];
  const words = ['--data-dir', tempDir('router'), '--require-key', '--allow-cpu-nodes', ...flags('router')];
  const server = await launch(['router', '--listen', '127.0.0.1:0', ...words], {
    match: /listening on (https:\/\/\S+)/,
  });
  left.push(server);
  const own = {
    LLM_ROUTER_URL: server.found[1].replace('127.0.0.1', 'localhost'),
    LLM_ROUTER_KEY: server.out.match(/shown this once: (\S+)/)[1],
    LLM_ROUTER_TLS_CA: at('ca.pem'),
  };
  const token = (await cli(['nodes', 'token'], own)).stdout.match(/lr-\w+/)[0];
  const to = ['--device', 'cpu', '--no-hf-cache', '--data-dir', tempDir('node'), '--router', server.found[1]];
  const member = await launch(
    ['node', '--listen', '127.0.0.1:0', ...to, '--model', makeEcho('recipe'), ...flags('node-1')],
    {
      match: /listening on port (\d+)/,
      env: { LLM_ROUTER_TOKEN: token },
    },
  );
  left.push(member);
  await until('the node is online', async () => /online/.test((await cli(['nodes'], own)).stdout));
  const serialOf = async () => {
    const { port } = new URL(server.found[1]);
    const shown = await run('sh', [
      '-c',
      `openssl s_client -connect 127.0.0.1:${port} -CAfile ${at('ca.pem')} < /dev/null 2> /dev/null | openssl x509 -noout -serial`,
    ]);
    return shown.stdout;
  };
  const old = await serialOf();
  make(blocks[1]);
  server.child.kill('SIGHUP');
  await until('the new certificate is shown', async () => (await serialOf()) !== old);
  assert.match((await cli(['nodes'], own)).stdout, /online/);
});

test('a node whose router has a wrong certificate does not join and says why', async () => {
  const lost = await launch(
    [
      'node',
      '--listen',
      '127.0.0.1:0',
      '--device',
      'cpu',
      '--no-hf-cache',
      '--data-dir',
      tempDir('lost'),
      '--router',
      router.url,
      '--tls-ca',
      file('stranger.pem'),
    ],
    { match: /listening/, env: { LLM_ROUTER_TOKEN: 'lr-x' } },
  );
  left.push(lost);
  await until('it says so', () => /router\.trouble .*signed by \\?"ca\\?", which is not trusted/.test(lost.log));
  await lost.stop('SIGKILL');
});

test('a node with a certificate the router does not trust does not join, and the refusal names it', async () => {
  const token = (await cli(['nodes', 'token'], env())).stdout.match(/lr-\w+/)[0];
  const odd = await launch(
    [
      'node',
      '--listen',
      '127.0.0.1:0',
      '--device',
      'cpu',
      '--no-hf-cache',
      '--data-dir',
      tempDir('odd'),
      '--router',
      router.url,
      '--node-name',
      'odd',
      '--tls-ca',
      file('ca.pem'),
      '--tls-cert',
      file('foreign.pem'),
      '--tls-key',
      file('foreign.key'),
    ],
    { match: /listening/, env: { LLM_ROUTER_TOKEN: token } },
  );
  left.push(odd);
  await until('it is told', () =>
    /router\.trouble .*cannot reach this node at .*signed by \\?"stranger\\?", which is not trusted/.test(odd.log),
  );
  assert.ok(!(await curl('/v0/nodes')).nodes.some((n) => n.name === 'odd'));
  await odd.stop('SIGKILL');
});

test('a server refuses to start with an expired certificate, a key of another certificate, only one of the two files, or a missing file', async () => {
  const start = (...args) =>
    run(BIN, ['router', '--listen', '127.0.0.1:0', '--data-dir', tempDir('bad'), ...args], { timeout: 10000 });
  await assert.rejects(
    start('--tls-cert', file('old.pem'), '--tls-key', file('old.key')),
    /old\.pem expired on \d{4}-/,
  );
  await assert.rejects(
    start('--tls-cert', file('good.pem'), '--tls-key', file('other.key')),
    /belongs to another certificate/,
  );
  await assert.rejects(start('--tls-cert', file('good.pem')), /go together/);
  await assert.rejects(start('--tls-cert', file('none.pem'), '--tls-key', file('good.key')), /none\.pem/);
  await assert.rejects(start('--tls-ca', file('good.key')), /good\.key holds no PEM certificates/);
});

// ---- certificates are renewed while their server runs ----

const SECRET = 's'.repeat(40);

// The serial number that a new connection is shown.
const shown = (port) =>
  new Promise((done, failed) => {
    const socket = tls.connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      done(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.on('error', failed);
  });
const serial = (name) => openssl('x509', '-in', `${name}.pem`, '-noout', '-serial').toString().trim().split('=')[1];
const put = (name, part) => {
  fs.copyFileSync(file(`${name}.${part}`), file(`live.new.${part}`));
  fs.renameSync(file(`live.new.${part}`), file(`live.${part}`));
};
const get = (port, target, key) =>
  new Promise((done, failed) =>
    https
      .get(
        {
          host: '127.0.0.1',
          port,
          path: target,
          ca: fs.readFileSync(file('ca.pem')),
          agent: false,
          headers: key ? { authorization: `Bearer ${key}` } : {},
        },
        async (answer) => {
          let text = '';
          for await (const piece of answer) text += piece;
          done(text);
        },
      )
      .on('error', failed),
  );
const days = async (port, prefix, key) => {
  const name = `${prefix}tls_certificate_expiry_timestamp_seconds`;
  const until = Number((await get(port, '/metrics', key)).match(new RegExp(`^${name} (\\S+)`, 'm'))[1]);
  return (until - Date.now() / 1000) / 86400;
};

test('SIGHUP: router and node use a new certificate for new connections, keep the old one if the new one cannot be read, and open the log again; alerts and metrics show the days left', async () => {
  certify('short', 'IP:127.0.0.1', 3);
  certify('long', 'IP:127.0.0.1', 60);
  put('short', 'pem');
  put('short', 'key');
  const live = [
    '--tls-cert',
    file('live.pem'),
    '--tls-key',
    file('live.key'),
    '--tls-ca',
    file('ca.pem'),
    '--log-file',
  ];
  const door = await launch(
    [
      'router',
      '--listen',
      '127.0.0.1:0',
      '--data-dir',
      tempDir('door'),
      '--allow-cpu-nodes',
      ...live,
      file('door.log'),
    ],
    { match: /listening on https:\/\/127.0.0.1:(\d+)/ },
  );
  left.push(door);
  const at = door.found[1];
  const here = env({ LLM_ROUTER_URL: `https://127.0.0.1:${at}`, LLM_ROUTER_KEY: '' });
  const token = (await cli(['nodes', 'token'], here)).stdout.match(/lr-\w+/)[0];
  const inner = await launch(
    [
      'node',
      '--listen',
      '127.0.0.1:0',
      '--device',
      'cpu',
      '--no-hf-cache',
      '--data-dir',
      tempDir('inner'),
      '--router',
      `https://127.0.0.1:${at}`,
      '--node-name',
      'inner',
      '--node-secret',
      SECRET,
      '--model',
      makeEcho('renewed', { step_ms: 30 }),
      ...live,
      file('inner.log'),
    ],
    { match: /listening on port (\d+)/, env: { LLM_ROUTER_TOKEN: token } },
  );
  left.push(inner);
  const ports = [at, inner.found[1]];
  const alerts = async () =>
    JSON.parse(await get(at, '/v0/alerts')).alerts.filter((a) => a.kind === 'certificate_ends');
  await until('both certificates have an alert', async () => (await alerts()).filter((a) => a.open).length === 2);
  assert.match((await alerts())[0].message, /live\.pem is good until \d{4}-/);
  assert.ok(Math.abs((await days(at, 'llm_router_')) - 3) < 0.1);
  assert.ok(Math.abs((await days(ports[1], 'llm_router_node_', SECRET)) - 3) < 0.1);
  for (const port of ports) assert.equal(await shown(port), serial('short'));
  const before = (
    await run('curl', [
      '-sS',
      '--cacert',
      file('ca.pem'),
      '-H',
      'Content-Type: application/json',
      '-d',
      '{"path":"renewed"}',
      `https://127.0.0.1:${at}/v0/models/register`,
    ])
  ).stdout;
  assert.match(before, /renewed/);
  // A stream that began before goes on over the connection it has.
  const running = run('curl', [
    '-sS',
    '--cacert',
    file('ca.pem'),
    '-H',
    'Content-Type: application/json',
    '-d',
    JSON.stringify({ model: 'renewed', messages: [{ role: 'user', content: 'z'.repeat(60) }] }),
    `https://127.0.0.1:${at}/v1/chat/completions`,
  ]);
  await until('it runs', async () => (await get(at, '/v0/nodes')).includes('"inflight":1'));

  // Half a pair: the old one stays, and both say why.
  put('long', 'pem');
  for (const p of [door, inner]) p.child.kill('SIGHUP');
  for (const log of ['door.log', 'inner.log'])
    await until('it says so', () =>
      /tls\.kept .*live\.key belongs to another certificate than/.test(fs.readFileSync(file(log), 'utf8')),
    );
  for (const port of ports) assert.equal(await shown(port), serial('short'));

  // The whole pair, and a log that logrotate has moved away.
  put('long', 'key');
  for (const log of ['door.log', 'inner.log']) fs.renameSync(file(log), file(`${log}.1`));
  for (const p of [door, inner]) p.child.kill('SIGHUP');
  for (const log of ['door.log', 'inner.log'])
    await until(
      'it is read',
      () =>
        fs.existsSync(file(log)) &&
        /tls\.reloaded file=\S*live\.pem until=\d{4}-/.test(fs.readFileSync(file(log), 'utf8')),
    );
  for (const port of ports) assert.equal(await shown(port), serial('long'));
  assert.ok(Math.abs((await days(at, 'llm_router_')) - 60) < 0.1);
  await until(
    'the alerts are over',
    async () => (await alerts()).length === 2 && (await alerts()).every((a) => !a.open),
  );
  assert.equal(JSON.parse((await running).stdout).choices[0].message.content, 'z'.repeat(60));
  assert.equal(JSON.parse(await get(at, '/v0/nodes')).nodes[0].online, true);

  // Without a signal: the files are looked at now and then.
  put('short', 'pem');
  put('short', 'key');
  for (const port of ports) await until('it is noticed', async () => (await shown(port)) === serial('short'), 20000);
  await Promise.all([door.stop(), inner.stop()]);
});

test('without TLS neither side connects beyond this machine unless --insecure-http is set', async () => {
  const start = (...args) =>
    run(BIN, [...args, '--data-dir', tempDir('open')], {
      timeout: 10000,
      env: { ...process.env, LLM_ROUTER_TOKEN: 'lr-x' },
    });
  await assert.rejects(start('router', '--listen', '0.0.0.0:0'), /beyond this machine.*--insecure-http/);
  const bare = ['node', '--device', 'cpu', '--no-hf-cache'];
  await assert.rejects(
    start(...bare, '--listen', '0.0.0.0:0', '--node-secret', 'x'.repeat(40)),
    /beyond this machine.*--insecure-http/,
  );
  await assert.rejects(
    start(...bare, '--listen', '127.0.0.1:0', '--router', 'http://192.0.2.1:11680'),
    /router at http:\/\/192\.0\.2\.1:11680 is beyond this machine.*--insecure-http/,
  );
  await assert.rejects(
    start(...bare, '--listen', '127.0.0.1:0', '--router', 'https://192.0.2.1:11680'),
    /cannot reach a node that listens on 127\.0\.0\.1/,
  );
  const token = (await cli(['nodes', 'token'], env())).stdout.match(/lr-\w+/)[0];
  const join = JSON.parse(
    (
      await run('curl', [
        '-sS',
        '--cacert',
        file('ca.pem'),
        '-H',
        `Authorization: Bearer ${token}`,
        '-H',
        'Content-Type: application/json',
        '-d',
        JSON.stringify({
          protocol: 2,
          version: '0',
          node_id: 'node-0123456789',
          name: 'n',
          device: 'cpu',
          secret: 's'.repeat(40),
          port: 1,
          url: 'http://192.0.2.7:11681',
        }),
        `${router.url}/v0/nodes/join`,
      ])
    ).stdout,
  );
  assert.match(join.error.message, /node at http:\/\/192\.0\.2\.7:11681 is beyond this machine/);
  const allowed = await launch(
    [
      'node',
      '--listen',
      '0.0.0.0:0',
      '--device',
      'cpu',
      '--no-hf-cache',
      '--insecure-http',
      '--node-secret',
      'x'.repeat(40),
      '--data-dir',
      tempDir('said'),
    ],
    { match: /listening/ },
  );
  await allowed.stop('SIGKILL');
});
