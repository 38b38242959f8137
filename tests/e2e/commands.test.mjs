// The operator's commands, as a person uses them: with a router, without one, with a wrong
// key.  Each command prints what it did, or how to fix the problem.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { BIN, call, cli, launch, makeEcho, nodes, ROOT, startRouter, startUp, tempDir, until } from './support.mjs';

const left = [];
let up, env, dir;

before(async () => {
  dir = tempDir('commands');
  up = await startUp({ dir, args: ['--model', makeEcho('parrot')] });
  left.push(up);
  env = { LLM_ROUTER_URL: up.url };
});
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));

const fails = async (args, more, message, code = 1) => {
  const error = await cli(args, { ...env, ...more }).then(
    () => assert.fail(`${args.join(' ')} worked`),
    (e) => e,
  );
  assert.equal(error.code, code, `${args.join(' ')}: ${error.stderr}`);
  assert.match(error.stderr, message, args.join(' '));
};
const says = async (args, message, more) => {
  const { stdout } = await cli(args, { ...env, ...more });
  assert.match(stdout, message, args.join(' '));
  return stdout;
};

const all = [
  ['models'],
  ['nodes'],
  ['keys'],
  ['memory'],
  ['chat', 'hi'],
  ['register', 'a/b'],
  ['models', 'remove', 'a/b'],
  ['nodes', 'token'],
  ['nodes', 'logs', 'x'],
  ['nodes', 'drain', 'x'],
  ['keys', 'create'],
  ['keys', 'set', 'x', '--name', 'y'],
  ['keys', 'revoke', 'x'],
  ['engines'],
  ['engines', 'reload', 'echo'],
  ['models', 'load', 'x'],
  ['models', 'pin', 'x'],
  ['models', 'alias', 'x', 'y'],
  ['list'],
  ['ps'],
  ['status'],
  ['stop', 'x'],
  ['pull', 'a/b'],
  ['usage'],
  ['logs'],
  ['logs', 'x'],
  ['top'],
];

test('without a router every command fails and says how to start a router or name its URL', async () => {
  for (const args of all)
    await fails(
      args,
      { LLM_ROUTER_URL: 'http://127.0.0.1:1' },
      /127\.0\.0\.1:1: cannot connect: .*llm-router up starts a router; --url names another/,
    );
  await fails(['models'], { LLM_ROUTER_URL: 'nonsense' }, /must begin with http/, 2);
});

test('without a key or with a wrong key every command says how to pass a key', async () => {
  let locked;
  for (const [i, args] of all.entries()) {
    if (i % 10 === 0) left.push((locked = await startRouter({ args: ['--require-key'] }))); // ten wrong keys a minute
    await fails(args, { LLM_ROUTER_URL: locked.url }, /send a key.*pass --key KEY or set LLM_ROUTER_KEY/);
    await fails(
      [...args, '--key', 'lr-wrong'],
      { LLM_ROUTER_URL: locked.url },
      /this key was not issued here.*pass --key KEY/,
    );
  }
  const api = (await cli(['keys', 'create', '--key', locked.adminKey], { LLM_ROUTER_URL: locked.url })).stdout.trim();
  await fails(
    ['models', '--key', api],
    { LLM_ROUTER_URL: locked.url },
    /needs the role admin; key-\w+ has the role api/,
  );
});

test('a command whose output is lost, on a full disk or in a closed pipe, fails and says so', () => {
  const lost = (args, script) =>
    spawnSync('bash', ['-c', script, BIN, ...args], { encoding: 'utf8', env: { ...process.env, ...env }, input: 'Hi' });
  const commands = [
    ['keys', 'create', '--name', 'lost'],
    ['keys', 'create', '--name', 'lost', '--json'],
    ['nodes', 'token'],
    ['models', 'load', 'parrot'],
    ['run', 'parrot', 'Hello'],
    ['chat'],
    ['status'],
  ];
  for (const args of commands) {
    const full = lost(args, '"$0" "$@" > /dev/full');
    assert.deepEqual([full.status, full.signal], [1, null], args.join(' '));
    assert.match(full.stderr, /^llm-router: cannot write to standard output/m, args.join(' '));
  }
  const closed = lost(['run', 'parrot', 'Hello'], 'exec > >(true); wait $!; exec "$0" "$@"');
  assert.equal(closed.status, 1);
  assert.match(closed.stderr, /cannot write to standard output/);
});

test('models, nodes, memory and doctor print the state', async () => {
  await says(['models'], /MODEL +STATE.*\nparrot +ready +local/);
  const [{ id, name }] = await nodes(up);
  await says(['nodes'], new RegExp(`${id} +${name} +online +cpu`));
  await says(['nodes', 'logs', id, '--lines', '2'], /^\S+Z \w+ .*\n\S+Z \w+ .*\n$/);
  for (const args of [['memory'], ['memory', '--node', id], ['memory', '--node', name]])
    await says(args, /RAM +total.*\n.*\n +parrot/);
  await says(['memory', '--model', 'parrot'], /loading parrot: loaded/);
  await fails(['memory', '--node', 'nobody'], {}, /no node "nobody": see llm-router nodes/);
  const before = fs.readdirSync(dir).length;
  const sick = await cli(['doctor', '--no-hub', '--data-dir', path.join(dir, 'not/yet/there')]).catch((e) => e);
  assert.match(sick.stdout, /engine gptoss[^]*free in .*not\/yet\/there[^]*port 11680/);
  assert.equal(fs.readdirSync(dir).length, before, 'looking makes nothing');
});

test('a model is registered by path, listed, and removed with its files', async () => {
  const models = path.join(dir, 'models/acme');
  fs.mkdirSync(models, { recursive: true });
  fs.cpSync(makeEcho('fresh'), path.join(models, 'fresh'), { recursive: true });
  await says(['register', 'acme/fresh', '--path'], /registered acme\/fresh .*llm-router models/);
  await fails(['register', 'acme/fresh', '--path'], {}, /registered already: delete it first/);
  await until('it is listed', async () => /acme\/fresh +present/.test((await cli(['models'], env)).stdout));
  assert.equal((await cli(['chat', '--model', 'acme/fresh', 'polly'], env)).stdout, 'polly\n');
  const done = await says(
    ['models', 'remove', 'acme/fresh', '--purge'],
    /removed acme\/fresh\n.*: files (deleted|stay)/,
  );
  if (/stay/.test(done))
    await until('it is purged', async () =>
      /files deleted/.test((await cli(['models', 'remove', 'acme/fresh', '--purge'], env)).stdout),
    );
  assert.ok(!fs.existsSync(path.join(models, 'fresh')));
  await fails(['models', 'remove', 'acme/fresh'], {}, /no model "acme\/fresh"/);
});

test('aliases of a model are listed, added and removed, and clients find the model by them', async () => {
  await says(['models', 'alias', 'parrot', 'claude-sonnet-4-5'], /^parrot: claude-sonnet-4-5\n$/);
  await says(['models', 'alias', 'claude-sonnet-4-5', 'gpt-5'], /^parrot: claude-sonnet-4-5, gpt-5\n$/);
  await says(['models', 'alias', 'parrot', 'gpt-5'], /^parrot: claude-sonnet-4-5, gpt-5\n$/);
  await says(['models'], /parrot +ready.*\n {2}alias: claude-sonnet-4-5, gpt-5\n/);
  assert.equal((await cli(['chat', '--model', 'gpt-5', 'polly'], env)).stdout, 'polly\n');
  await says(['models', 'unalias', 'parrot', 'Claude-Sonnet-4-5'], /^parrot: gpt-5\n$/);
  await says(['models', 'unalias', 'parrot', 'gpt-5'], /^parrot: no alias\n$/);
  assert.doesNotMatch((await cli(['models'], env)).stdout, /alias/);
  await fails(['models', 'alias', 'nobody', 'x'], {}, /no model "nobody": llm-router models lists them/);
  await fails(['models', 'alias', 'parrot'], {}, /alias MODEL NAME/, 2);
});

test('a model is loaded, pinned and unloaded; engines are listed and reloaded', async () => {
  await says(['models', 'unload', 'parrot'], /^parrot: (present|draining)\n$/);
  await until('it is unloaded', async () => /parrot +present/.test((await cli(['models'], env)).stdout));
  const [{ id, name }] = await nodes(up);
  await says(['models', 'load', 'parrot', '--node', name], /^parrot: (starting|loading|ready)\n$/);
  await until('it is loaded', async () => /parrot +ready/.test((await cli(['models'], env)).stdout));
  await says(['models', 'pin', 'parrot'], /^parrot: ready, pinned\n$/);
  await says(['models', 'unpin', 'parrot'], /^parrot: ready\n$/);
  await fails(['models', 'load', 'nobody'], {}, /there is no model "nobody"/);
  await fails(['models', 'load', 'parrot', '--node', 'nobody'], {}, /there is no node "nobody"/);
  await says(['engines'], new RegExp(`NODE +ENGINE[^]*${name} +echo +\\d\\S+ +usable +cpu`));
  await says(['engines', '--node', id], /echo/);
  await says(['engines', 'reload', 'echo'], new RegExp(`reloading echo on ${id}`));
  await fails(['engines', 'reload', 'nothing'], {}, /nothing/);
  await fails(['engines', '--node', 'nobody'], {}, /no node "nobody": see llm-router nodes/);
  await fails(['engines', 'fly'], {}, /engines takes nothing, or: reload ENGINE/, 2);
});

test('another chat template is registered from a file', async () => {
  fs.cpSync(makeEcho('shouter'), path.join(dir, 'models/shouter'), { recursive: true });
  const file = path.join(dir, 'loud.jinja');
  fs.writeFileSync(file, '{% for m in messages %}{{ m.content | upper }}{% endfor %}');
  await fails(
    ['register', 'shouter', '--path', '--chat-template', '/no/such.jinja'],
    {},
    /\/no\/such\.jinja: No such file/,
  );
  fs.writeFileSync(`${file}.bad`, '{% for %}');
  await fails(['register', 'shouter', '--path', '--chat-template', `${file}.bad`], {}, /chat_template/);
  await says(['register', 'shouter', '--path', '--chat-template', file], /registered shouter/);
  await until(
    'it answers',
    async () => (await cli(['chat', '--model', 'shouter', 'hello'], env).catch(() => ({}))).stdout === 'HELLO\n',
  );
  await says(['models', 'remove', 'shouter'], /removed shouter/);
});

test('without models, nodes or keys the commands suggest the next step', async () => {
  const lonely = await startRouter();
  left.push(lonely);
  await fails(['register', 'nothing', '--path'], { LLM_ROUTER_URL: lonely.url }, /no node is online/);
  await says(['models'], /No model is registered: llm-router register/, { LLM_ROUTER_URL: lonely.url });
  await says(['nodes'], /No node has joined yet: llm-router nodes token/, { LLM_ROUTER_URL: lonely.url });
});

test('keys are made, listed and revoked; nodes drained, put back and removed', async () => {
  const key = (
    await says(['keys', 'create', '--name', 'me', '--role', 'api', '--expires', '1h'], /^lr-\w{43}\n$/)
  ).trim();
  const id = (await says(['keys'], /key-\w+ +api +good .* me\n/)).match(/(key-\w+) +api +good .* me\n/)[1];
  assert.equal((await call(`${up.url}/v0/whoami`, { key })).status, 200);
  await says(['keys', 'revoke', id], new RegExp(`revoked ${id}`));
  assert.equal((await call(`${up.url}/v0/whoami`, { key })).status, 401);
  await says(['nodes', 'token'], /^lr-\w{43}\n$/);
  const [node] = await nodes(up);
  await says(['nodes', 'drain', node.id], /drained node-/);
  await says(['nodes'], /drained +cpu/);
  await says(['nodes', 'undrain', node.id], /back in service: node-/);
  for (const args of [
    ['nodes', 'fly', 'x'],
    ['models', 'eat'],
    ['keys', 'make'],
    ['register'],
    ['register', 'a/b', '--format', 'onnx'],
  ])
    await fails(args, {}, /takes|needs|not allowed/, 2);
});

test('a key for a model that is not there is refused, with the model that was meant; keys are listed by name, owner and role', async () => {
  await fails(
    ['keys', 'create', '--models', 'parrot,parrat'],
    {},
    /"parrat".*parrot.*--anyway allows a model that will come later/s,
  );
  await says(['keys', 'create', '--name', 'early', '--models', 'parrat', '--anyway'], /^lr-/);
  await says(['keys', 'create', '--name', 'mine', '--owner', 'ann', '--models', 'parrot'], /^lr-/);
  const rows = async (...words) => (await says(['keys', 'list', ...words], /^KEY/)).trim().split('\n').slice(1);
  assert.equal((await rows('--name', 'mine')).length, 1);
  assert.equal((await rows('--name', 'nobody')).length, 0);
  assert.match((await rows('--owner', 'ann'))[0], / mine .*owner ann/);
  for (const row of await rows('--role', 'node')) assert.match(row, / node /);
  await says(['keys', 'show', 'mine'], /^KEY.*\n\S+ +api .* mine .*\n$/);
});

test('an online node is removed only after a question', async () => {
  const [{ id }] = await nodes(up);
  await fails(['nodes', 'remove', id], {}, /is online: --yes removes it, and nodes drain takes it out of service/, 2);
  assert.equal((await nodes(up)).length, 1);
});

test('requests, audit, sessions, whoami and explain show what the router has recorded', async () => {
  const messages = [{ role: 'user', content: 'one question' }];
  assert.equal((await call(`${up.url}/v1/chat/completions`, { body: { model: 'parrot', messages } })).status, 200);
  await says(['requests'], /^TIME +STATUS +MODEL .*\n.* 200 parrot .*req-\S+\n$/s);
  await says(['requests', '--model', 'nothing'], /REQUEST\n$/);
  await says(['requests', '--status', '200', '--limit', '1'], /^.*\n.* 200 .*\n$/);
  await says(['audit'], /^TIME +WHO .*\n.* key\.create .*\n$/s);
  await says(['audit', '--action', 'node.join'], /node\.join/);
  await says(['sessions'], /Nobody is signed in/);
  await says(['whoami'], /role admin/);
  await says(
    ['explain', 'parrot'],
    /A prompt of \d+ tokens for parrot: sent to the node with the least cost\n.*\n\* +\S/,
  );
  await fails(['explain', 'parrat'], {}, /parrot/);
});

test('with --json the commands that change something print the answer of the router', async () => {
  const json = async (args) => JSON.parse((await cli([...args, '--json'], env)).stdout);
  const key = await json(['keys', 'create', '--name', 'machine']);
  assert.match(`${key.id} ${key.key}`, /^key-\w+ lr-\w{43}$/);
  const rotated = await json(['keys', 'rotate', key.id]);
  assert.ok(rotated.id === key.id && rotated.key !== key.key, JSON.stringify(rotated));
  assert.equal((await json(['keys', 'revoke', key.id])).revoked, true);
  const token = await json(['nodes', 'token']);
  assert.ok(/^lr-\w{43}$/.test(token.key) && token.expires > 0, JSON.stringify(token));
  assert.deepEqual((await json(['models', 'alias', 'parrot', 'robot'])).aliases, ['robot']);
  assert.deepEqual((await json(['models', 'unalias', 'parrot', 'robot'])).aliases, []);
  assert.equal((await json(['models', 'pin', 'parrot'])).pinned, true);
  assert.equal((await json(['models', 'unpin', 'parrot'])).pinned, false);
  assert.equal((await json(['models', 'load', 'parrot', '--wait'])).models[0].id, 'parrot');
  const [{ id }] = await nodes(up);
  for (const action of ['drain', 'undrain']) assert.equal(typeof (await json(['nodes', action, id])), 'object');
});

test('chat reads lines, answers each, and keeps the conversation', async () => {
  const out = execFileSync(BIN, ['chat', '--model', 'parrot'], {
    input: 'one\ntwo\n',
    env: { ...process.env, ...env },
    encoding: 'utf8',
  });
  assert.match(out, /one\n[^]*two\n/);
  await fails(['chat', '--model', 'nobody', 'hi'], {}, /no model "nobody"/);
});

test('models of up that cannot run are listed with the reason, but not offered to clients', async () => {
  const broken = path.join(tempDir('broken'), 'broken');
  fs.mkdirSync(broken);
  fs.writeFileSync(path.join(broken, 'config.json'), '{}');
  const args = ['--engine', 'nope', '--model', makeEcho('sad'), '--model', broken];
  const other = await startUp({ args });
  left.push(other);
  const more = { LLM_ROUTER_URL: other.url };
  await until('they are listed', async () => (await call(`${other.url}/v0/models`)).json.models.length === 2);
  await says(['models'], /^sad +\w+ +local +.*engine.*nope/m, more);
  await says(['models'], /^broken +\w+ +local +.*incomplete, missing/m, more);
  await says(['status'], /^models +0 of 2 can be used/m, more);
  const listed = await call(`${other.url}/v1/models`);
  assert.deepEqual(listed.json.data, []);
  await other.stop();
});

test('a model of up that was removed stays removed when its node joins again', async () => {
  await says(['models', 'remove', 'parrot'], /removed parrot/);
  fs.cpSync(makeEcho('later'), path.join(dir, 'models/later'), { recursive: true });
  await says(['register', 'later', '--path'], /registered later/); // a new model makes the node join again
  await until('it is listed', async () => /later +present/.test((await cli(['models'], env)).stdout));
  assert.doesNotMatch((await cli(['models'], env)).stdout, /parrot/);
});

test('up without any model serves the demo model and prints lines to copy that work', async () => {
  const demo = await launch(
    ['up', '--device', 'cpu', '--listen', '127.0.0.1:0', '--no-hf-cache', '--data-dir', tempDir('empty')],
    { match: /Ctrl-C stops everything/ },
  );
  left.push(demo);
  const url = demo.out.match(/ready at (\S+) \(OpenAI-compatible, model "demo"\)/)[1];
  assert.match(demo.out, new RegExp(`curl ${url}/v1/chat/completions -H 'Content-Type: application/json'`));
  assert.match(demo.out, new RegExp(`llm-router chat --url ${url}\n`));
  assert.match(demo.out, new RegExp(`ANTHROPIC_BASE_URL=${url} ANTHROPIC_AUTH_TOKEN=none claude --model 'demo'\n`));
  assert.match(demo.out, new RegExp(`Codex: codex -m 'demo' .*base_url="${url}/v1"`));
  const line = demo.out.match(/openai: (export OPENAI_BASE_URL=.*)/)[1];
  const script = `import OpenAI from 'openai';
    const messages = [{ role: 'user', content: 'Hello there' }];
    const answer = await new OpenAI().chat.completions.create({ model: 'demo', messages, temperature: 0 });
    console.log(answer.choices[0].message.content);`;
  const openai = await promisify(execFile)(
    'bash',
    ['-c', `${line}; exec "$0" --input-type=module -e "$1"`, process.execPath, script],
    { cwd: path.join(ROOT, 'tests') },
  );
  assert.match(openai.stdout, /Hello/);
  const [shown] = (await call(`${url}/v1/models`)).json.data;
  assert.deepEqual([shown.max_model_len, shown.context_length], [32768, 32768]);
  assert.match(demo.out, new RegExp(`Dashboard: ${url}/\n`));
  assert.match((await cli(['chat', '--temperature', '0', 'Hello there'], { LLM_ROUTER_URL: url })).stdout, /Hello/);
});
