// What a confined engine can and cannot do: the testing engine tries, and its answer reports the result.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { BIN, ENGINES, ask, copyEngine, generate, makeModel, startNode, tempDir, until } from './node_harness.mjs';

const hasSanitizer = /asan|tsan/.test(BIN);
const env = { HF_TOKEN: 'hf_geheim' };

// Starts a node, lets its engine try everything, and gives {name: result}.
async function pry(args = []) {
  const models = tempDir('models'),
    outside = path.join(tempDir('outside'), 'secret');
  const server = net.createServer((socket) => socket.destroy());
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  fs.writeFileSync(outside, 'geheim', { mode: 0o600 });
  makeModel(models, 'm', 'faulty', {
    pry: true,
    pry_port: server.address().port,
    pry_file: outside,
    pry_model: path.join(models, 'm'),
  });
  const node = await startNode({ models, args, env });
  const answer = await generate(node, ask('m', 'x', { max_tokens: 2000 }));
  const pid = (await node.worker('m')).pid;
  const limits = [node.pid, pid].map(
    (p) => fs.readFileSync(`/proc/${p}/limits`, 'utf8').match(/Max core file size\s+(\d+)/)?.[1],
  );
  server.close();
  return {
    node,
    outside,
    models,
    limits,
    did: Object.fromEntries(
      answer.text
        .trim()
        .split('\n')
        .map((line) => line.split('=')),
    ),
  };
}

describe('a confined worker', { skip: hasSanitizer && 'sanitizers need rights that workers give up' }, () => {
  let run;
  before(async () => {
    run = await pry();
  });
  after(() => run?.node.stop());
  const refused = (...names) => {
    for (const name of names) assert.match(run.did[name] ?? 'not tried', /^(EACCES|EPERM)$/, name);
  };
  const works = (...names) => {
    for (const name of names) assert.equal(run.did[name], 'ok', name);
  };

  it('has no network, but local sockets', () => {
    refused('connect', 'udp6', 'netlink');
    works('unix');
  });
  it('reads the model and nothing of the user or the system that it does not need', () => {
    works('read_model');
    refused('shadow', 'read_outside');
  });
  it('writes into its scratch folder alone', () => {
    works('write_scratch');
    refused('write_outside', 'chmod_outside', 'write_model', 'make_in_model');
    assert.ok(fs.existsSync(path.join(run.node.dir, 'data/engine-scratch/faulty/kept')));
    assert.deepEqual(fs.readdirSync(path.join(run.models, 'm')).sort(), [
      'config.json',
      'model.safetensors',
      'tokenizer.json',
    ]);
    assert.equal(fs.statSync(run.outside).mode & 0o777, 0o600);
  });
  it('starts threads, but no process and no program', () => {
    works('thread');
    refused('fork', 'exec');
  });
  it('neither traces nor signals its node, nor reads the secrets in its environment', () => {
    refused('ptrace', 'read_memory', 'signal', 'node_environ');
    assert.equal(run.did.token, 'absent');
  });
  it('is not dumpable, and neither worker nor node writes core files', () => {
    assert.equal(run.did.dumpable, 'no');
    assert.deepEqual(run.limits, ['0', '0']);
  });
  it('is measured as before', () =>
    until('its memory is read', async () => (await run.node.worker('m')).measured_bytes > 0));
  it('is reported once in the log, and by doctor', () => {
    assert.equal(run.node.log.match(/node\.confinement workers=confined/g)?.length, 1);
    let said;
    try {
      said = execFileSync(BIN, ['doctor', '--no-hub'], { encoding: 'utf8' });
    } catch (failed) {
      said = failed.stdout;
    }
    assert.match(said, /workers are confined \(Landlock \d+, seccomp yes\)/);
  });
});

it('--no-confine-workers turns confinement off, and the log says so', async () => {
  const { node, did } = await pry(['--no-confine-workers']);
  for (const name of [
    'connect',
    'udp6',
    'netlink',
    'unix',
    'read_outside',
    'write_outside',
    'write_model',
    'make_in_model',
    'fork',
    'exec',
    'thread',
    'signal',
    'read_memory',
    'node_environ',
    'dumpable',
  ])
    assert.equal(did[name], 'ok', name);
  assert.equal(did.token, 'absent', 'secrets are nothing to an engine all the same');
  assert.match(node.log, /node\.confinement workers=free/);
  assert.equal(fs.existsSync(path.join(node.dir, 'data/engine-scratch')), false);
  await node.stop();
});

it('a model folder of links, as in the Hugging Face cache, loads in a confined worker', async () => {
  const models = tempDir('models'),
    blobs = tempDir('blobs');
  makeModel(models, 'm', 'echo');
  for (const name of fs.readdirSync(path.join(models, 'm'))) {
    fs.renameSync(path.join(models, 'm', name), path.join(blobs, name));
    fs.symlinkSync(path.join(blobs, name), path.join(models, 'm', name));
  }
  const node = await startNode({ models });
  const answer = await generate(node, ask('m', 'hallo'));
  assert.equal(answer.text, 'hallo');
  await node.stop();
});

it('a confined worker runs where every path of the settings is relative', async () => {
  const cwd = tempDir('relative');
  makeModel(path.join(cwd, 'models'), 'm', 'echo', { say_weights: true });
  fs.symlinkSync(ENGINES, path.join(cwd, 'engines'));
  fs.writeFileSync(path.join(cwd, 'model.bin'), 'ARTIFACT');
  const paths = { dir: '', engines: 'engines', models: 'models', args: ['--artifact', 'model.bin'] };
  const node = await startNode({ cwd, ...paths });
  const answer = await generate(node, ask('m', 'x'));
  assert.equal(answer.text, 'artifact', answer.error?.message);
  assert.deepEqual(fs.readdirSync(path.join(cwd, 'data/engine-scratch')), ['echo']);
  await node.stop();
});

describe('an engine that others may replace is refused, and the reason says what to change', () => {
  const cases = {
    'a library that its group may write': {
      act: (e) => fs.chmodSync(path.join(e, 'echo/echo.so'), 0o775),
      says: /echo\.so may be written by group \d+ \(mode 0775\): chmod g-w/,
    },
    'a folder that its group may write': {
      act: (e) => fs.chmodSync(path.join(e, 'echo'), 0o775),
      says: /echo may be written by group \d+/,
    },
    'a folder above that everybody may write': {
      act: (e) => fs.chmodSync(e, 0o777),
      says: /a folder above the engine: .* may be written by everybody/,
    },
    'a folder above that its group may write': {
      act: (e) => fs.chmodSync(e, 0o775),
      says: /a folder above the engine: .* may be written by group/,
    },
  };
  for (const [what, { act, says }] of Object.entries(cases))
    it(what, {
      skip: process.getuid() !== 0 && /group/.test(what) && 'a group of this user alone is as good as the user',
    }, async () => {
      const engines = path.join(tempDir('engines'), 'all');
      copyEngine(engines, 'echo');
      act(engines);
      const node = await startNode({ engines });
      const { engines: list } = await node.get('/v0/engines');
      assert.match(list[0].reason, says);
      fs.chmodSync(engines, 0o755);
      await node.stop();
    });
});
