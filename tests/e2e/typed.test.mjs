// The commands that people type: list, ps, status, run, stop, pull, usage, logs, top.  With the real program against a
// real router and nodes; what a terminal shows is read from a pseudo terminal.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { readFolder, startHub } from '../support/hub.mjs';
import { Terminal } from '../support/terminal.mjs';
import { BIN, call, cli, launch, makeEcho, nodes, online, startNode, tempDir, until } from './support.mjs';
import { requests, words } from './typed_words.mjs';

const left = [];
let up, hub, env, root;

const keep = (thing) => {
  left.push(thing);
  return thing;
};
const own = { LLM_ROUTER_URL: '', LLM_ROUTER_KEY: '', LLM_ROUTER_TLS_CA: '' };

before(async () => {
  hub = await startHub();
  root = tempDir('typed-models');
  const hosts = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  for (const name of ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'])
    hosts[name] = '';
  const model = (id, testing) => ['--model', makeEcho(id, testing)];
  up = keep(
    await launch(
      [
        ...['up', '--listen', '127.0.0.1:0', '--device', 'cpu', '--no-hf-cache', '--data-dir', tempDir('typed')],
        ...['--models-dir', root, '--node-name', 'n0', '--hub-host', hub.storage],
        ...[...model('parrot'), ...model('slow', { step_ms: 30, load_ms: 300 })],
      ],
      { match: /is ready at (http:\/\/\S+)/, env: hosts },
    ),
  );
  up.url = up.found[1];
  env = { ...own, LLM_ROUTER_URL: up.url };
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  await hub?.close();
});

// What a command prints; `input` is its standard input, which is closed in any case.
const run = (args, { input = '', more = {} } = {}) =>
  new Promise((done) => {
    const child = spawn(BIN, args, { env: { ...process.env, ...env, ...more }, timeout: 60000 });
    const result = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'])
      child[name].on('data', (data) => {
        result[name] += data;
      });
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    child.on('close', (code) => done({ code, ...result }));
  });
const says = async (args, message, options) => {
  const result = await run(args, options);
  assert.equal(result.code, 0, `${args.join(' ')}: ${result.stderr}`);
  assert.match(result.stdout, message, args.join(' '));
  return result.stdout;
};
const fails = async (args, message, code = 1, options = {}) => {
  const result = await run(args, options);
  assert.equal(result.code, code, `${args.join(' ')}: ${result.stdout}${result.stderr}`);
  assert.match(result.stderr, message, args.join(' '));
  return result;
};
const terminal = (args, options = {}) => {
  const t = new Terminal([BIN, ...args], { ...options, env: { ...env, ...options.env } });
  keep({ stop: () => t.child.kill('SIGKILL') });
  return t;
};
const stateOf = async (id) =>
  (await call(`${up.url}/v0/models?id=${id}`)).json.models[0].nodes.map((n) => n.state).find((s) => s);
const place = (name, testing) =>
  fs.cpSync(makeEcho(path.basename(name), testing), path.join(root, name), { recursive: true });

test('up loads every model that --model names', () =>
  until('both are loaded', async () => (await stateOf('parrot')) === 'ready' && (await stateOf('slow')) === 'ready'));

test('list, ps and status print the models, the loaded models and the state of the fleet', async () => {
  await says(['list'], /^MODEL +STATE +CONTEXT +NOTES\n(.*\n)*parrot +ready +\d+/);
  await says(['ps'], /^MODEL +NODE +STATE .*\n(.*\n)*parrot +n0 +ready +0 +\d+ +0 /);
  await says(
    ['status'],
    /^router {3}http:\S+ {2}ok, version \S+, up .*\nnodes {4}1 of 1 online\nmodels {3}2 of 2 can be used, 2 loaded\nwork .* tokens\/s\nalerts {3}0 open\n$/,
  );
  const key = (await cli(['keys', 'create', '--name', 'a client'], env)).stdout.trim();
  await says(['list', '--key', key], /parrot/);
  await says(['status', '--key', key], /^router .*\n +a key of role admin shows nodes, models and alerts\n$/);
});

test('stop unloads a model where it is loaded; ps no longer lists it, and the next request loads it', async () => {
  await says(['stop', 'parrot'], /^parrot on n0: stop/);
  await until('it is unloaded', async () => (await stateOf('parrot')) === 'present');
  assert.doesNotMatch(await says(['ps'], /slow/), /parrot/);
  await says(['stop', 'parrot'], /^parrot is not loaded\n$/);
  await says(['stop', 'parrot', '--node', 'n0'], /^parrot is not loaded there\n$/);
  await says(['run', 'parrot', 'again'], /^again\n$/);
});

test('usage sums requests and tokens by key and model', async () => {
  const created = (await call(`${up.url}/v0/keys`, { body: { name: 'billed' } })).json;
  await says(['run', 'parrot', 'count me', '--key', created.key], /count me/);
  await until('it is written', async () => /billed/.test((await run(['usage'])).stdout));
  const line = (await says(['usage', '--of', 'billed'], /TOTAL/)).split('\n')[1];
  assert.match(line, new RegExp(`^${created.id} billed +parrot +1 +0 +\\d+ +\\d+ +\\d+$`));
  await says(['usage', '--since', '1s', '--of', created.id, '--json'], /^\{"since":\d+/);
  // By day, model, key and owner, as a table and as CSV.
  await says(['keys', 'set', 'billed', '--owner', 'team, "A"', '--keep-texts', 'on'], /prompts and answers are kept/);
  await says(['usage', '--by', 'owner'], /^OWNER +REQUESTS .*\n[^]*team, "A" +1 +0 /);
  await says(
    ['usage', '--by', 'day,model', '--of', 'billed'],
    /^DAY +MODEL .*\n\d{4}-\d\d-\d\d parrot +1 [^]*TOTAL +1 /,
  );
  const csv = await says(['usage', '--by', 'owner,model', '--of', 'billed', '--csv'], /^time,owner,model,requests,/);
  assert.match(csv.split('\r\n')[1], /^\d+,"team, ""A""","parrot",1,0,/);
  await fails(['usage', '--by', 'week'], /"by" is a list of day, model, key and owner/);
  await fails(['usage', '--csv', '--json'], /choose one/, 2);
});

test('models, nodes and keys are found by name; a name that several have is an error with their ids', async () => {
  place('acme/fresh');
  await says(['register', 'acme/fresh', '--path', '--wait'], /registered acme\/fresh\n[^]*acme\/fresh can be used\n/);
  await says(['run', 'fresh', 'short name'], /^short name\n$/);
  await says(['models', 'pin', 'FRESH'], /^acme\/fresh: .*pinned\n$/);
  await says(['models', 'unpin', 'fresh', '--node', 'n0'], /^acme\/fresh: /);
  place('other/fresh');
  await says(['register', 'other/fresh', '--path'], /registered/);
  await fails(['stop', 'fresh'], /2 models are called "fresh": say which by its id: \S+\/fresh, \S+\/fresh/, 2);
  await says(['models', 'remove', 'other/fresh'], /removed other\/fresh/);

  await says(['nodes', 'drain', 'n0'], /^drained node-/);
  await says(['nodes', 'undrain', 'N0'], /^back in service: node-/);
  await says(['nodes', 'logs', 'n0', '--lines', '1'], /\n$/);
  const [{ id: first }] = await nodes(up);
  const twin = keep(await startNode(up, { name: 'n0' }));
  await until('it has joined', async () => (await online(up)) === 2);
  const ids = (await nodes(up)).map((n) => n.id);
  const { stderr } = await fails(['nodes', 'drain', 'n0'], /2 nodes are called "n0": say which by its id: /, 2);
  for (const id of ids) assert.ok(stderr.includes(id), stderr);
  await twin.stop();
  await says(['nodes', 'remove', '--yes', ids.find((id) => id !== first)], /removed node-/);

  for (const name of ['one', 'same', 'same']) await cli(['keys', 'create', '--name', name], env);
  await says(['keys', 'set', 'one', '--requests-per-minute', '5'], / one {2}5 requests\/min\n$/);
  await says(['keys', 'revoke', 'one'], /^revoked key-/);
  await fails(['keys', 'revoke', 'one'], /there is no key "one"/);
  await fails(['keys', 'revoke', 'same'], /2 keys are called "same": say which by its id: key-\w+, key-\w+/, 2);
});

test('a misspelled command, option, model or node gets a suggestion', async () => {
  await fails(['statu'], /did you mean "llm-router status"/, 2);
  await fails(['logs', '--folow'], /did you mean --follow/, 2);
  await fails(['help', 'statu'], /did you mean "llm-router status"/, 2);
  await fails(['models', 'lod', 'parrot'], /"lod": did you mean "load"\? models takes/, 2);
  await fails(['nodes', 'drian', 'n0'], /did you mean "drain"/, 2);
  await fails(['keys', 'revok', 'x'], /did you mean "revoke"/, 2);
  await fails(['run', 'parot', 'x'], /there is no model "parot"; did you mean "parrot"/);
  await fails(['stop', 'slwo'], /did you mean "slow"/);
  await fails(['chat', '--model', 'parrott', 'x'], /did you mean "parrot"/);
  await fails(['nodes', 'drain', 'n1'], /there is no node "n1"; did you mean "n0"/);
  await fails(['memory', '--node', 'nn0'], /did you mean "n0"/);
  await fails(['run', 'zzzzzz', 'x'], /there is no model "zzzzzz": llm-router list shows the models/);
});

test('register explains --path: a folder without it is refused with the reason', async () => {
  for (const folder of ['./here', '/srv/models/x', '~/x'])
    await fails(['register', folder], /looks like a folder: add --path/, 2);
  assert.match(
    (await cli(['register', '--help'])).stdout,
    /models-dir\/acme\/parrot on the node: {2}llm-router register/,
  );
});

test('run takes its prompt from the arguments, from standard input, or from both', async () => {
  await says(['run', 'parrot', 'from', 'arguments'], /^from arguments\n$/);
  await says(['run', 'parrot'], /^from input\n$/, { input: 'from input\n' });
  await says(['run', 'parrot', 'look at'], /^look at\n\nthis\n$/, { input: 'this\n' });
  await fails(['run', 'parrot'], /there is no prompt: give it after MODEL, or on standard input/, 2);
});

test('run loads a model first: progress in plain lines on standard error, the answer alone on standard output', async () => {
  await until('it is idle', async () => /slow/.test((await run(['stop', 'slow'])).stdout));
  await until('it is unloaded', async () => (await stateOf('slow')) === 'present');
  const result = await run(['run', 'slow', 'hi']);
  assert.deepEqual([result.code, result.stdout], [0, 'hi\n'], result.stderr);
  assert.match(result.stderr, /^slow {2}(loading|waiting)/m);
  assert.doesNotMatch(result.stderr, /[^\P{Cc}\n]/u);
});

test('in a terminal run chats: Ctrl-C ends an answer and not the chat, Ctrl-D ends the chat', async () => {
  const t = terminal(['run', 'slow']);
  await t.shows('Talking to slow; Ctrl-C ends an answer');
  t.type(`${'z'.repeat(400)}\r`);
  await t.shows(/> z{400}\s+z{5}/);
  t.type('\x03');
  await t.shows(/\s> $/);
  await until('the node has ended the answer', async () =>
    (await call(`${up.url}/v0/models?id=slow`)).json.models[0].nodes.every((n) => (n.inflight ?? 0) === 0),
  );
  t.type('yes\r');
  await t.shows(/> yes\s+yes\s+> $/);
  t.type('\x04');
  assert.deepEqual(await t.ended(), { code: 0, isRestored: true });
});

test('Ctrl-C ends run with a prompt, with exit code 130', async () => {
  const t = terminal(['run', 'slow', 'y'.repeat(500)]);
  await t.shows('yyyyy');
  t.type('\x03');
  assert.equal((await t.ended()).code, 130);
});

test('a load shows a bar in a terminal, with percent, rate and the time left', async () => {
  place('acme/heavy', { load_ms: 3000 });
  await says(['register', 'acme/heavy', '--path', '--wait'], /can be used/);
  const t = terminal(['models', 'load', 'heavy', '--wait'], { columns: 90 });
  await t.shows(/acme\/heavy: ready/);
  assert.equal((await t.ended()).code, 0);
  const bars = t.marked.split('\r').filter((line) => line.includes('[#') || line.includes('[-'));
  assert.ok(bars.length > 2, t.out);
  assert.ok(
    bars.some((bar) => /\[#+-+\] +\d+ % +[\d.]+ %\/s +\d+ s left/.test(bar)),
    bars.join('\n'),
  );
  for (const bar of bars) assert.ok(bar.replace('␛[K', '').length < 90, bar);
});

test('pull registers a repository and shows the download: a bar in a terminal, plain lines elsewhere', async () => {
  const weights = Buffer.alloc(3 << 20);
  const files = readFolder(makeEcho('big'));
  const header = JSON.stringify({ w: { dtype: 'U8', shape: [weights.length], data_offsets: [0, weights.length] } });
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  files['model.safetensors'] = Buffer.concat([size, Buffer.from(header), weights]);
  hub.add('acme/plain', files);
  hub.add('acme/barred', files);
  hub.script('model.safetensors', [{ rate: 3 << 20 }, { rate: 1 << 20 }]); // a rate needs two looks on the way

  const plain = await run(['pull', 'acme/plain']);
  assert.equal(plain.code, 0, plain.stderr);
  assert.match(plain.stdout, /^acme\/plain {2}downloading( +\d+ % .*)?$/m);
  assert.match(plain.stdout, /acme\/plain can be used\n$/);
  assert.doesNotMatch(plain.stdout, /[^\P{Cc}\n]|\[/u);
  assert.ok(plain.stdout.split('\n').length < 40, plain.stdout);
  await says(['pull', 'acme/plain'], /^acme\/plain can be used\n$/);

  const t = terminal(['pull', 'acme/barred']);
  await t.shows('acme/barred can be used');
  assert.equal((await t.ended()).code, 0);
  assert.match(t.marked, /\r␛\[Kacme\/barred {2}downloading {2}\[#*-*\] +\d+ % {2}[\d.]+ \S+ of 3\.0 MiB/);
  assert.match(t.out, /[KM]iB\/s {2}\d+ s left/);

  await fails(['pull', 'acme/missing'], /acme\/missing/);
  await fails(['pull', 'parot'], /did you mean "parrot"/);
  const stray = await run(['run', 'acme/plain', 'pulled']);
  assert.equal(stray.stdout, 'pulled\n', stray.stderr);
});

test('top prints the figures once where standard output is no terminal, and with --once', async () => {
  const page = await says(['top'], /^llm-router http:.*\n.* tokens\/s .*\n\nNODE +STATE .*\nn0 +online +cpu/);
  assert.match(page, /\nMODEL +NODE +STATE +ACTIVE .*TOKENS\/S\n(.*\n)*parrot +n0 +ready/);
  const t = terminal(['top', '--once']);
  assert.equal((await t.ended()).code, 0);
  assert.ok(!t.out.includes('\x1b[?1049h'));
});

test('top fills a terminal, follows its size, and gives it back after q, Ctrl-C and SIGTERM', async () => {
  const ends = [
    ['q', (t) => t.type('q'), 0],
    ['Ctrl-C', (t) => t.type('\x03'), 130],
    ['SIGTERM', (t) => process.kill(t.pid, 'SIGTERM'), 143],
  ];
  await Promise.all(
    ends.map(async ([name, end, code]) => {
      const t = terminal(['top', '--interval', '200ms'], { columns: 100, rows: 20 });
      await until('it is open', () => t.out.includes('\x1b[?1049h\x1b[?25l'));
      await t.shows(/parrot +n0 +ready/);
      const before = t.out.length;
      t.resize(30, 8);
      const pages = () =>
        t.marked
          .slice(before)
          .split('␛[H')
          .slice(1)
          .map((page) => page.replaceAll(/␛\[[KJ]/g, '').split('\r\n'));
      await until('a page of the new size', () =>
        pages().some((lines) => lines.length <= 8 && lines.length > 2 && lines.every((line) => line.length <= 30)),
      );
      end(t);
      assert.deepEqual(await t.ended(), { code, isRestored: true }, name);
      assert.ok(t.out.includes('\x1b[?25h\x1b[?1049l'), name);
    }),
  );
});

test('top keeps the figures and says so while the router does not answer; without a router it is an error', async () => {
  await fails(['top'], /cannot connect/, 1, { more: { LLM_ROUTER_URL: 'http://127.0.0.1:1' } });
  let isUp = true;
  const fake = http.createServer((req, res) => {
    if (!isUp) return void req.socket.destroy();
    res.setHeader('content-type', 'application/json');
    res.end(req.url.startsWith('/v0/nodes') ? '{"nodes":[{"name":"calm","online":true}]}' : '{}');
  });
  await new Promise((done) => fake.listen(0, '127.0.0.1', done));
  fake.unref();
  keep({ stop: () => fake.closeAllConnections() });
  const t = terminal(['top', '--interval', '200ms', '--url', `http://127.0.0.1:${fake.address().port}`]);
  await t.shows(/calm +online/);
  isUp = false;
  await t.shows(/NO ANSWER: /);
  t.type('q');
  assert.deepEqual(await t.ended(), { code: 0, isRestored: true });
});

test('logs prints the log of the router or of a node, and -f goes on with new lines', async () => {
  await says(['logs', '--lines', '2000'], /\S+Z info {2}http\.request .* path=\/v0\/models /);
  await says(['logs', 'n0', '--lines', '2000'], /\S+Z info {2}worker\.ready model=parrot/);
  await fails(['logs', 'n9'], /did you mean "n0"/);
  const key = (await cli(['keys', 'create', '--name', 'reader'], env)).stdout.trim();
  await fails(['logs', '--key', key], /needs the role admin/);

  const child = keep(await launch(['logs', 'n0', '-f', '--lines', '1', '--url', up.url], { match: /\n/, env }));
  assert.equal(child.out.split('\n').length, 2, 'one line, and the end of it');
  await says(['stop', 'parrot'], /parrot/);
  await says(['run', 'parrot', 'awake'], /awake/);
  await until('the new lines are there', () => /worker\.ready model=parrot/.test(child.out));
  const lines = child.out.trimEnd().split('\n');
  assert.equal(new Set(lines).size, lines.length, 'no line comes twice');
  await child.stop('SIGINT');
});

// A hub as docs/names.md describes it.
async function fillHub() {
  const file = path.join(tempDir('gguf'), 'x.gguf');
  await cli(['debug', 'write-gguf', '--output', file, '--context', '40960'], env);
  const model = fs.readFileSync(file);
  const half = model.length >> 1;
  const gguf = (name, ...labels) => Object.fromEntries(labels.map((label) => [`${name}-${label}.gguf`, model]));
  hub.add('acme/quant-GGUF', {
    ...gguf('quant', 'Q2_K', 'Q4_K_M', 'Q8_0', 'BF16'),
    'mmproj-quant-F16.gguf': model,
    'quant.imatrix.gguf': model,
  });
  hub.add('acme/split-GGUF', {
    'split-Q4_K_M-00001-of-00002.gguf': model.subarray(0, half),
    'split-Q4_K_M-00002-of-00002.gguf': model.subarray(half),
  });
  for (const name of ['tensors-8b', 'more-8b']) hub.add(`acme/${name}`, readFolder(makeEcho(name)));
  hub.add('acme/odd-8b', {
    'config.json': '{"architectures":["OddForCausalLM"],"model_type":"odd"}',
    'tokenizer.json': '{}',
    'model.safetensors': Buffer.alloc(100),
  });
  hub.add('acme/odd-8b-GGUF', gguf('odd-8b', 'Q4_K_M'), { downloads: 500 });
  hub.add('acme/gated', gguf('gated', 'Q4_K_M'), { gated: true });
}

test('what users of other servers type works, or one sentence names the command that does', async () => {
  await fillHub();
  const sections = words(hub.url);
  const count = [...Object.values(sections), ...Object.values(requests)].map((rows) => {
    assert.ok(rows.length >= 10);
    return rows.length;
  });
  assert.ok(count.reduce((a, b) => a + b) >= 110);
  const wrong = [];
  for (const rows of Object.values(sections))
    for (const [args, code, says] of rows) {
      const result = await run(args);
      const text = result.stdout + result.stderr;
      if (result.code !== code || !says.test(text)) wrong.push(`${args.join(' ')}: ${result.code} ${text}`);
    }
  assert.deepEqual(wrong, []);
  const left = (await call(`${up.url}/v0/models`)).json.models.map((m) => m.id);
  for (const refused of ['acme/odd-8b', 'acme/gated', 'acme/missing', 'acme/quant-GGUF'])
    assert.ok(!left.includes(refused), `${refused} is registered`);
  for (const rows of Object.values(requests))
    for (const [method, at, body, status, says] of rows) {
      const answer = await call(up.url + at, { method, body });
      assert.equal(answer.status, status, `${at}: ${answer.text}`);
      assert.match(answer.text, says, at);
    }
  const headers = { 'anthropic-version': '2023-06-01' };
  const { json } = await call(`${up.url}/v1/models`, { headers });
  assert.deepEqual([json.data[0].type, json.has_more], ['model', false]);
  assert.equal(json.first_id, json.data[0].id);
  assert.equal((await call(`${up.url}/v1/models/parrot`, { headers })).json.type, 'model');
});

test('run takes the best quantization that fits, and fit agrees with the memory that is reserved after the load', async () => {
  const fit = JSON.parse((await run(['fit', 'acme/quant-GGUF', '--json'])).stdout);
  const answer = await run(['run', 'acme/quant-GGUF', 'hello', '--max-tokens', '2']);
  assert.equal(answer.code, 0, answer.stderr);
  assert.match(answer.stderr, /^acme\/quant-GGUF: quant-Q8_0\.gguf .*the best quantization that fits here/);
  const [{ id }] = await nodes(up);
  const memory = (await call(`${up.url}/v0/nodes/${id}/memory`)).json;
  const claim = memory.pools.flatMap((pool) => pool.claims).find((c) => c.model === 'acme/quant-GGUF');
  const off = Math.abs(fit.chosen.total_bytes - claim.reserved) / claim.reserved;
  assert.ok(off < 0.05, `fit says ${fit.chosen.total_bytes}, the ledger ${claim.reserved}`);
  // The quantization that was chosen is a name of the model, and its second run answers.
  const again = await run(['run', 'hf.co/acme/quant-GGUF:q8_0', 'hello', '--max-tokens', '2']);
  assert.deepEqual([again.code, again.stderr], [0, '']);
});

test('at a terminal Enter runs the first of the repositories that words propose', async () => {
  const t = terminal(['run', 'odd:8b', '--max-tokens', '2']);
  await t.shows(/1 {2}acme\/odd-8b-GGUF .*500 downloads[^]*Enter runs the first/);
  t.type('\r');
  await t.shows('Talking to acme/odd-8b-GGUF');
  t.type('\x04');
  assert.equal((await t.ended()).code, 0);
});

// A server that tries to take over the terminal.
const EVIL = '\x1b]0;owned\x07\x1b[2J\u009b31m\u202egone\r\nforged line';

async function startEvil() {
  const server = http.createServer((req, res) => {
    const send = (status, body) => {
      res.writeHead(status, { 'content-type': 'application/json' });
      res.end(JSON.stringify(body));
    };
    if (req.url.startsWith('/v1/chat')) {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      const chunk = { choices: [{ delta: { content: EVIL } }] };
      return res.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
    }
    if (req.url === '/v1/models/m') return send(200, { id: 'm', state: 'ready' });
    if (req.url.startsWith('/v1/models'))
      return send(200, {
        data: [
          { id: 'm', state: 'ready' },
          { id: EVIL, state: EVIL, reason: EVIL },
        ],
      });
    if (req.url.startsWith('/v0/models'))
      return send(200, { models: [{ id: EVIL, state: EVIL, aliases: [EVIL], nodes: [{ name: EVIL, loaded: true }] }] });
    if (req.url.startsWith('/v0/nodes'))
      return send(200, { nodes: [{ id: EVIL, name: EVIL, online: true, device: EVIL }] });
    if (req.url.startsWith('/v0/logs'))
      return send(200, { lines: [{ time: EVIL, level: EVIL, text: EVIL }], next: EVIL });
    if (req.url.startsWith('/v0/keys')) return send(403, { error: { message: EVIL } });
    return send(200, { models: {}, alerts: { a: { b: 1 } }, usage: 'x', status: EVIL, version: EVIL });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  server.unref();
  keep({ stop: () => server.closeAllConnections() });
  return `http://127.0.0.1:${server.address().port}`;
}

test('control characters of a server are made visible: in names, errors, logs and answers', async () => {
  const url = await startEvil();
  const commands = [
    ['list'],
    ['list', '--json'],
    ['models'],
    ['nodes'],
    ['ps'],
    ['status'],
    ['keys'],
    ['logs'],
    ['run', 'm', 'hello'],
    ['top', '--once'],
    ['stop', 'nothing like that'],
  ];
  await Promise.all(
    commands.map(async (args) => {
      const t = terminal([...args, '--url', url], { columns: 200 });
      await t.ended();
      const shown = t.out.slice(0, t.out.indexOf('[ended'));
      assert.doesNotMatch(shown, /[^\P{Cc}\r\n]|\u202e/u, args.join(' '));
      if (!['status', 'stop'].includes(args[0])) assert.match(shown, /\\x1b|\\u001b/, args.join(' '));
      if (!['run', 'list'].includes(args[0])) assert.doesNotMatch(shown, /\nforged line/, args.join(' '));
    }),
  );
  // A file gets the answer as it is.
  assert.equal((await run(['run', 'm', 'x', '--url', url])).stdout, `${EVIL}\n`);
});
