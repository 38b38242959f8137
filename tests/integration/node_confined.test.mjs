// What a confined engine can and cannot do: the engine `hostile` tries, and its answer reports the result.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { track } from '../support/scene.mjs';
import {
  BIN,
  ENGINES,
  TESTING,
  ask,
  copyEngine,
  generate,
  makeModel,
  startNode,
  tempDir,
  until,
} from './node_harness.mjs';

const hasSanitizer = /asan|tsan/.test(BIN);
const isRoot = process.getuid() === 0;
const NOBODY = 65534;
const REFUSED = /^(EACCES|EPERM|ENOSYS|EXDEV)$/;

// Starts a program that says when it is ready.
async function start(program, args, ready) {
  const child = track(spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] }));
  let said = '';
  await new Promise((done, fail) => {
    child.stdout.on('data', (bytes) => {
      said += bytes;
      if (ready.test(said)) done();
    });
    child.on('exit', () => fail(new Error(`${program} ended: ${said}`)));
  });
  for (const handle of [child, child.stdin, child.stdout]) handle.unref();
  return child;
}

// Everything that an engine could want, as the files and processes of one user: a router, another
// model with its worker, services with sockets, files.
async function makeScene(uid) {
  const all = tempDir('scene');
  const at = (...names) => path.join(all, ...names);
  const under = uid === undefined ? [] : ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'];
  const write = (file, text = 'geheim') => fs.writeFileSync(file, text, { mode: 0o600 });
  const bin = at('llm-router');
  fs.copyFileSync(BIN, bin); // where another user can start it
  for (const id of ['echo', 'hostile']) {
    const from = path.join(TESTING, id === 'echo' ? 'engines' : id, id);
    fs.cpSync(from, at('engines', id), { recursive: true });
  }
  for (const name of ['elsewhere', 'run', 'data']) fs.mkdirSync(at(name));
  for (const name of ['outside', 'spare', 'elsewhere/secret', 'run/file', 'data/secret']) write(at(name));
  makeModel(at('models'), 'victim', 'echo');
  makeModel(at('models'), 'm', 'hostile');
  write(at('models/m/readable'), 'needed by nobody');
  fs.symlinkSync(at('elsewhere'), at('models/m/to-folder'));
  fs.symlinkSync(at('run/file'), at('models/m/to-file'));
  const own = () => uid !== undefined && execFileSync('chown', ['-R', '-h', `${uid}:${uid}`, all]);
  own();
  const server = net.createServer((socket) => socket.destroy());
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const listen = ['--listen', '127.0.0.1:0', '--listen', `unix:${at('run/router')}`];
  const [program, ...words] = [...under, bin, 'router', ...listen, '--data-dir', at('router')];
  const router = await start(program, words, /listening on/);
  const bind =
    'import socket,sys; s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); s.bind(sys.argv[1]); print("bound",flush=True); sys.stdin.read()';
  const manager = await start('python3', ['-c', bind, at('run/notify')], /bound/);
  fs.writeFileSync(
    at('models/m/plan'),
    Object.entries({
      outside: at('outside'),
      spare: at('spare'),
      readable: at('models/m/readable'),
      model: at('models/m'),
      other: at('models/victim/config.json'),
      secret: at('data/secret'),
      to_folder: at('models/m/to-folder/secret'),
      to_file: at('models/m/to-file'),
      handover: at('router/router.sock'),
      listener: at('run/router'),
      datagram: at('run/notify'),
      port: server.address().port,
    })
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  );
  own();
  assert.ok(fs.existsSync(at('router/router.sock')), 'the router waits for a successor');
  const close = () => {
    server.close();
    for (const child of [router, manager]) child.kill('SIGKILL');
  };
  return { all, at, under, bin, close };
}

// Starts a node in a scene, lets its engine try everything, and gives {name: result}.
async function attack(scene, { args = [], hub, plan = scene.at('models/m/plan') } = {}) {
  const { at } = scene;
  const node = await startNode({
    dir: scene.all,
    models: at('models'),
    engines: at('engines'),
    bin: scene.bin,
    under: scene.under,
    args,
    hfCache: hub !== undefined,
    env: { HF_TOKEN: 'hf_geheim', LC_HOSTILE_PLAN: plan, HF_HUB_CACHE: hub ?? '' },
  });
  assert.equal((await generate(node, ask('victim', 'x'))).text, 'x');
  const answer = await generate(node, ask('m', 'x', { max_tokens: 20000 }));
  assert.equal(answer.error, null, node.log);
  const did = Object.fromEntries(
    answer.text
      .trim()
      .split('\n')
      .map((line) => line.split('=')),
  );
  return { node, did };
}

const FACTS = ['uid', 'sibling', 'dumpable', 'token'];
const isAttempt = (name) => !name.startsWith('needs_') && !FACTS.includes(name);

for (const uid of isRoot ? [undefined, NOBODY] : [undefined])
  describe(`a hostile engine in a confined worker of user ${uid ?? process.getuid()}`, {
    skip: hasSanitizer && 'sanitizers need rights that workers give up',
  }, () => {
    let scene, run;
    before(async () => {
      scene = await makeScene(uid);
      fs.mkdirSync(scene.at('models/m/.download')); // the mark of a folder that was downloaded
      run = await attack(scene);
    });
    after(async () => {
      scene?.close();
      await run?.node.stop();
    });

    it('tries more than 45 things, and each is refused', () => {
      const tried = Object.entries(run.did).filter(([name]) => isAttempt(name));
      assert.ok(tried.length >= 45, `${tried.length} attempts`);
      assert.deepEqual(
        tried.filter(([, result]) => !REFUSED.test(result)),
        [],
      );
      assert.equal(run.did.sibling, 'found', 'another worker ran');
      assert.equal(run.did.uid, String(uid ?? process.getuid()));
    });
    it('reads its model, keeps files in its scratch folder, and has threads, pipes of sockets and its own limits', () => {
      const needs = Object.entries(run.did).filter(([name]) => name.startsWith('needs_'));
      assert.ok(needs.length >= 8);
      assert.deepEqual(
        needs.filter(([, result]) => result !== 'ok'),
        [],
      );
      assert.ok(fs.existsSync(scene.at('data/engine-scratch/hostile/cached')));
    });
    it('changes no file', () => {
      assert.deepEqual(fs.readdirSync(scene.at('models/m')).sort(), [
        '.download',
        'config.json',
        'model.safetensors',
        'plan',
        'readable',
        'to-file',
        'to-folder',
        'tokenizer.json',
      ]);
      assert.equal(fs.readFileSync(scene.at('models/m/readable'), 'utf8'), 'needed by nobody');
      for (const name of ['outside', 'spare', 'models/m/readable'])
        assert.equal(fs.statSync(scene.at(name)).mode & 0o777, 0o600, name);
    });
    it('has no secret, is not dumpable, and neither worker nor node writes core files', async () => {
      assert.deepEqual([run.did.token, run.did.dumpable], ['absent', 'no']);
      for (const pid of [run.node.pid, (await run.node.worker('m')).pid])
        assert.match(fs.readFileSync(`/proc/${pid}/limits`, 'utf8'), /Max core file size\s+0\s+0/);
    });
    it('is measured as before', () =>
      until('its memory is read', async () => (await run.node.worker('m')).measured_bytes > 0));
    it('is reported once in the log', () => {
      assert.equal(run.node.log.match(/node\.confinement workers=confined/g)?.length, 1);
    });
  });

it('doctor says whether workers are confined, and what older kernels leave open', {
  skip: hasSanitizer && 'as above',
}, () => {
  let said;
  try {
    said = execFileSync(BIN, ['doctor', '--no-hub', '--as', 'node'], { encoding: 'utf8' });
  } catch (failed) {
    said = failed.stdout;
  }
  assert.match(said, /^ok {4}workers are confined \(Landlock \d+, seccomp yes\)$/m);
  assert.match(said, /^note {2}what older kernels leave open/m);
  for (const [linux, what] of [
    ['5.13', 'all files of this user'],
    ['6.2', 'emptying files'],
    ['6.7', 'TCP'],
    ['6.12', 'signals'],
  ])
    assert.match(said, new RegExp(`before Linux ${linux}.*${what}`));
});

it('--no-confine-workers turns confinement off, and the log says so', async () => {
  const scene = await makeScene();
  const { node, did } = await attack(scene, { args: ['--no-confine-workers'] });
  // Some attempts need rights of root, or a kernel that has more than this one.
  const asRoot = ['packets', 'read_shadow', 'write_setting_of_kernel', 'mount', 'change_root', 'swap'];
  const expected = [
    'tcp_connect',
    'udp',
    'netlink',
    'router_handover',
    'router_listener',
    'pair_datagram',
    'signal_node',
  ]
    .concat(['signal_sibling', 'signal_queue', 'signal_descriptor', 'limit_node', 'place_node', 'schedule_node'])
    .concat([
      'slow_node',
      'slow_disk_of_node',
      'fork',
      'run_program',
      'read_outside',
      'write_outside',
      'remove_outside',
    ])
    .concat(['link_outside', 'read_other_model', 'read_secret', 'read_through_link', 'read_linked_file', 'write_model'])
    .concat(['mode_by_path', 'mode_by_descriptor', 'times_by_descriptor', 'empty_by_path', 'empty_by_opening'])
    .concat(isRoot ? asRoot : []);
  for (const name of expected)
    assert.doesNotMatch(did[name] ?? 'EPERM', REFUSED, `${name} is refused by something else than confinement`);
  assert.equal(did.token, 'absent', 'secrets are nothing to an engine all the same');
  assert.match(node.log, /node\.confinement workers=free/);
  assert.equal(fs.existsSync(scene.at('data/engine-scratch')), false);
  scene.close();
  await node.stop();
});

describe('a link in the folder of a model', {
  skip: hasSanitizer && 'sanitizers need rights that workers give up',
}, () => {
  let scene, run;
  beforeEach(async () => {
    scene = await makeScene();
  });
  afterEach(async () => {
    scene?.close();
    await run?.node.stop();
    run = undefined;
  });

  it('opens a regular file anywhere if the operator made the folder, and never a folder', async () => {
    const { at } = scene;
    fs.mkdirSync(at('models/m/sub'));
    fs.symlinkSync(at('elsewhere'), at('models/m/sub/deep'));
    // The files themselves lie elsewhere, as those of a folder that was made to save space.
    for (const name of ['config.json', 'model.safetensors', 'tokenizer.json']) {
      fs.renameSync(at('models/m', name), at('elsewhere', name));
      fs.symlinkSync(at('elsewhere', name), at('models/m', name));
    }
    run = await attack(scene);
    assert.equal(run.did.read_linked_file, 'ok');
    assert.match(run.did.read_through_link, REFUSED);
    assert.match(
      run.node.log,
      /sandbox\.links_refused folder=\S*models\/m count=2 first=\S+ reason=.*regular files only/,
    );
  });

  it('opens nothing outside of a folder that this node downloaded', async () => {
    fs.mkdirSync(scene.at('models/m/.download'));
    run = await attack(scene);
    assert.match(run.did.read_linked_file, REFUSED);
    assert.match(run.did.read_through_link, REFUSED);
    assert.match(run.node.log, /sandbox\.links_refused .*count=2 .*download the model again/);
  });

  it('opens the blobs of its entry in the Hugging Face cache, and nothing else', async () => {
    const { at } = scene;
    const entry = (...names) => at('hub/models--m', ...names);
    fs.mkdirSync(entry('snapshots'), { recursive: true });
    fs.mkdirSync(entry('blobs'));
    fs.renameSync(at('models/m'), entry('snapshots/abc'));
    for (const file of fs.readdirSync(entry('snapshots/abc'), { withFileTypes: true }))
      if (file.isFile()) {
        fs.renameSync(entry('snapshots/abc', file.name), entry('blobs', `of-${file.name}`));
        fs.symlinkSync(`../../blobs/of-${file.name}`, entry('snapshots/abc', file.name));
      }
    const plan = entry('snapshots/abc/plan');
    fs.writeFileSync(plan, fs.readFileSync(plan, 'utf8').replaceAll(at('models/m'), entry('snapshots/abc')));
    run = await attack(scene, { hub: at('hub'), plan });
    assert.equal(run.did.needs_model, 'ok');
    assert.match(run.did.read_linked_file, REFUSED);
    assert.match(run.did.read_through_link, REFUSED);
    assert.match(run.node.log, /sandbox\.links_refused .*count=2 /);
  });
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
