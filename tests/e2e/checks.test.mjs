// `config check` and `doctor`: what is wrong with settings, TLS files, the database and the way to a router is found
// before something is started, and nothing is changed by looking.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { BIN, ENGINES, launch, tempDir } from './support.mjs';

const left = [];
let dir, router;
const file = (name) => path.join(dir, name);
const env = { LLM_ROUTER_URL: '', LLM_ROUTER_KEY: '', LLM_ROUTER_TLS_CA: '' };

// A certificate of its own for localhost; `when`: as if it were made at that time.
function certify(name, when) {
  const args = [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '60'],
    ...['-subj', '/CN=x', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
    ...['-keyout', `${name}.key`, '-out', `${name}.pem`],
  ];
  const [program, ...rest] = when ? ['faketime', when, 'openssl', ...args] : ['openssl', ...args];
  execFileSync(program, rest, { cwd: dir, stdio: 'ignore' });
}
const run = (args, more = {}) =>
  new Promise((done) => {
    execFile(BIN, args, { env: { ...process.env, ...env, ...more }, timeout: 60000 }, (error, stdout, stderr) =>
      done({ code: error ? error.code : 0, stdout, stderr }),
    );
  });
const check = (text, args = [], more) => {
  fs.writeFileSync(file('it.conf'), text);
  return run(['config', 'check', file('it.conf'), ...args], more);
};

before(async () => {
  dir = tempDir('checks');
  certify('good');
  certify('other');
  certify('old', '2020-01-01 00:00:00');
  const data = tempDir('router');
  const tls = ['--tls-cert', file('good.pem'), '--tls-key', file('good.key')];
  router = await launch(['router', '--listen', '127.0.0.1:0', '--data-dir', data, '--require-key', ...tls], {
    match: /listening on https:\/\/127\.0\.0\.1:(\d+)/,
  });
  left.push(router);
  Object.assign(router, {
    dir: data,
    url: `https://localhost:${router.found[1]}`,
    adminKey: router.out.match(/shown this once: (\S+)/)[1],
  });
});
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));

test('config check: good settings exit with 0, and nothing is created', async () => {
  const data = file('not/yet');
  const good = await check(`data-dir = ${data}\nlisten = 127.0.0.1:0\n`);
  assert.equal(good.code, 0, good.stdout + good.stderr);
  assert.match(good.stdout, /^ok {4}every setting is known[^]*ok {4}the data folder .*not\/yet can be written/);
  assert.match(good.stdout, /ok {4}listens on 127\.0\.0\.1:0\n[^]*ok {4}the settings are allowed together/);
  assert.ok(!fs.existsSync(file('not')));
  const running = await check(`data-dir = ${router.dir}\n`);
  assert.equal(running.code, 0, `a router runs with this folder: ${running.stdout}`);
  const flags = await run(['config', 'check', '--as', 'node', '--', '--data-dir', data, '--engines-dir', ENGINES]);
  assert.equal(flags.code, 0, flags.stdout + flags.stderr);
  assert.match(flags.stdout, /ok {4}engine echo/);
});

test('config check: an unknown setting or a value that is not allowed exits with 2 and names the line', async () => {
  const unknown = await check('# router\nlisten-port = 5\n');
  assert.deepEqual([unknown.code, unknown.stdout], [2, '']);
  assert.match(unknown.stderr, /it\.conf line 2: unknown setting listen-port/);
  assert.match((await check('threads = many\n')).stderr, /line 1: threads: "many" is not allowed/);
  assert.match((await check('', [], { LLM_ROUTER_QUEUE: 'x' })).stderr, /LLM_ROUTER_QUEUE: "x"/);
  assert.match((await run(['config', 'check', file('none.conf')])).stderr, /none\.conf/);
  assert.match((await check('', ['--', '--lisen', 'x'])).stderr, /did you mean --listen/);
});

test('config check: settings that do not go together, folders, files and secrets are found', async () => {
  const cases = [
    ['listen = 0.0.0.0:11680\n', [], /0\.0\.0\.0 is beyond this machine/],
    ['listen = nonsense\n', [], /MISS {2}listens on nonsense\n +listen: "nonsense" is not ADDRESS:PORT/],
    ['database = mysql://x/y\n', [], /MISS {2}the database answers\n +database: it is neither postgres/],
    ['tls-cert = a.pem\n', [], /MISS {2}tls-cert and tls-key\n +they go together/],
    ['tls-ca = /none/ca.pem\n', [], /MISS {2}the CAs of \/none\/ca\.pem\n.*\/none\/ca\.pem/],
    [`model = ${file('none')}\n`, ['--as', 'node'], /MISS {2}the model .*\n +there is no such folder/],
    ['router = http://192.0.2.1:1\n', ['--as', 'node'], /the router at \S+ is beyond this machine and not encrypted/],
    ['router = http://127.0.0.1:1\ntoken-file = /none/t\n', ['--as', 'node'], /MISS {2}the secret token\n.*\/none\/t/],
  ];
  const asNode = ['--as', 'node'];
  cases.push(
    ['engine-options = {bad\n', asNode, /MISS.*\n +engine-options: "\{bad" must be a JSON object: .*column/],
    ['engine-options = [1]\n', ['--as', 'up'], /engine-options: "\[1\]" must be a JSON object: it is not an object/],
    ['proc-root = /none/proc\n', asNode, /MISS.*\n +proc-root: there is no folder \/none\/proc/],
    ['node-name = a\u0007b\n', asNode, /MISS.*\n +node-name: it holds a control character, at byte 2/],
    ['supported-models = /none/list\n', [], /MISS.*\n +supported-models: .*\/none\/list/],
  );
  const base = `data-dir = ${dir}\n`;
  for (const [text, args, expected] of cases) {
    const result = await check(base + text, args);
    assert.equal(result.code, 1, `${text}${result.stdout}${result.stderr}`);
    assert.match(result.stdout, expected);
    assert.match(result.stderr, /of these needs? attention/);
  }
  fs.writeFileSync(
    file('broken.db'),
    'this is no database, but a text that is long enough to be taken for one'.repeat(9),
  );
  assert.match(
    (await check(`${base}database = ${file('broken.db')}\n`)).stdout,
    /cannot be read: file is not a database/,
  );
  const gone = await check(`${base}database = postgres://u:secret-word@127.0.0.1:1/x\n`);
  assert.equal(gone.code, 1);
  assert.match(gone.stdout, /MISS {2}the database answers\n +\S+/);
  assert.doesNotMatch(gone.stdout + gone.stderr, /secret-word/);
});

test('a setting that cannot work ends the start and is named', async () => {
  fs.writeFileSync(file('list'), '{"not": "a list"}');
  for (const [command, flag, value] of [
    ['node', 'engine-options', '{bad'],
    ['up', 'engine-options', '{bad'],
    ['node', 'proc-root', '/none/proc'],
    ['node', 'node-name', 'a\nb'],
    ['router', 'supported-models', '/none/list'],
    ['router', 'supported-models', file('list')],
  ]) {
    const device = command === 'router' ? [] : ['--device', 'cpu', '--no-hf-cache'];
    const listen = ['--listen', '127.0.0.1:0', '--data-dir', tempDir('no-start')];
    const result = await run([command, ...listen, ...device, `--${flag}`, value]);
    assert.equal(result.code, 2, `${command} --${flag}: ${result.stderr}`);
    assert.match(result.stderr, new RegExp(`^llm-router: ${flag}: `, 'm'));
  }
});

test('TLS files are checked by config check and doctor: expired, another key, names', async () => {
  const conf = (cert, key, more = '') => `data-dir = ${dir}\ntls-cert = ${file(cert)}\ntls-key = ${file(key)}\n${more}`;
  const cases = [
    ['good.pem', 'good.key', 'localhost', 0, /ok {4}the certificate is good until .*, for (59|60) days/],
    ['good.pem', 'other.key', 'localhost', 1, /MISS {2}the certificate .*\n.*good\.pem/],
    ['old.pem', 'old.key', 'localhost', 1, /expired/],
    ['good.pem', 'good.key', 'ai.example', 1, /subjectAltName\) lack ai\.example/],
    ['none.pem', 'good.key', 'localhost', 1, /none\.pem/],
  ];
  for (const [cert, key, name, code, expected] of cases) {
    const checked = await check(conf(cert, key, `advertise = https://${name}:11680\n`));
    assert.equal(checked.code, code, `${cert} ${key} ${name}: ${checked.stdout}`);
    assert.match(checked.stdout, expected);
    const looked = await run(
      ['doctor', '--no-hub', '--as', 'router', '--data-dir', dir].concat(
        ...[
          ['--tls-cert', file(cert)],
          ['--tls-key', file(key)],
          ['--tls-name', name],
        ],
      ),
    );
    assert.match(looked.stdout, expected);
  }
  const soon = await check(conf('good.pem', 'good.key', 'tls-warn-days = 90\n'));
  assert.match(soon.stdout, /MISS {2}the certificate is good until .*\n +renew it/);
});

test('doctor does not look for GPUs and engines on a machine that is a router only', async () => {
  const seen = await run(['doctor', '--no-hub', '--data-dir', router.dir]);
  assert.match(seen.stdout, /^The data folder is that of a router without a node/);
  for (const args of [
    ['--data-dir', router.dir],
    ['--as', 'router', '--data-dir', dir],
  ]) {
    const { stdout } = await run(['doctor', '--no-hub', ...args]);
    assert.doesNotMatch(stdout, /GPU device|NVIDIA|engine |confined|11681/);
    assert.match(stdout, /free in .*\n.*port 11680 for the router/);
  }
  assert.match((await run(['doctor', '--no-hub', '--data-dir', dir])).stdout, /NVIDIA GPU[^]*engine gptoss[^]*11681/);
});

test('doctor follows the way to the router: name, connection, TLS, key, version', async () => {
  const way = async (args, more) =>
    (await run(['doctor', '--no-hub', '--as', 'router', '--data-dir', dir, ...args], more)).stdout;
  const ca = ['--tls-ca', file('good.pem')];
  const well = await way(['--url', router.url, '--key', router.adminKey, ...ca]);
  assert.match(
    well,
    /ok {4}the name localhost has the address \S+\nok {4}port \d+ of localhost takes connections\nok {4}TLS: .*\nok {4}the router has version \S+\nok {4}the key: role admin\n/,
  );
  assert.match(await way(['--url', 'http://no-such-name.invalid']), /MISS {2}the name no-such-name\.invalid\n.*DNS/);
  const closed = await way([], { LLM_ROUTER_URL: 'http://127.0.0.1:1' });
  assert.match(closed, /MISS {2}port 1 of 127\.0\.0\.1 takes connections\n +Connection refused: is the router running/);
  assert.match(await way(['--url', router.url]), /MISS {2}TLS: .*\n.*certificate/);
  assert.match(await way(['--url', router.url, '--key', 'lr-wrong', ...ca]), /MISS {2}the key\n.*pass --key KEY/);

  const other = http.createServer((req, res) => {
    res.setHeader('content-type', 'application/json');
    res.end(req.url === '/health' ? '{"status":"ok","version":"9.9.9","uptime_ms":1}' : '{"role":"admin"}');
  });
  await new Promise((done) => other.listen(0, '127.0.0.1', done));
  other.unref();
  const url = `http://127.0.0.1:${other.address().port}`;
  assert.match(await way(['--url', url]), /MISS {2}the router has version 9\.9\.9\n +this program has \d/);
  other.removeAllListeners('request').on('request', (_, res) => res.end('<html>'));
  assert.match(await way(['--url', url]), /MISS {2}the router answers\n +another program answers there/);
  other.close();
  other.closeAllConnections();
});
