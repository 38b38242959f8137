// llm-router update: an installation by install.sh brings a running router to the next release.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, it } from 'node:test';
import { Releases } from '../support/release.mjs';
import { tempDir, track, until } from '../support/scene.mjs';

const work = tempDir('update');
const prefix = path.join(work, 'local');
const program = path.join(prefix, 'bin/llm-router');
const current = () => fs.readlinkSync(path.join(prefix, 'lib/llm-router-releases/current'));
let releases;

const run = (file, words) =>
  new Promise((done) => {
    execFile(file, words, { env: { ...process.env, HOME: work }, encoding: 'utf8' }, (error, stdout, stderr) =>
      done({ code: error ? error.code : 0, stdout, stderr }),
    );
  });

before(async () => {
  releases = await new Releases(work).listen();
  releases.publish('1.0.0', { isLatest: true });
  const { code, stderr } = await run('sh', [releases.script, '--prefix', prefix]);
  assert.equal(code, 0, stderr);
});
after(() => releases.close());

// Routers of one version: the numbers of their processes.
function routers(version) {
  return fs.readdirSync('/proc').filter((pid) => {
    try {
      return (
        fs.readlinkSync(`/proc/${pid}/exe`) ===
          path.join(prefix, 'lib/llm-router-releases', version, 'bin/llm-router') &&
        fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1] === 'router'
      );
    } catch {
      return false;
    }
  });
}

it('an update under 50 requests a second fails none, and a release that does not start is taken back', async () => {
  const log = path.join(work, 'router.log');
  const words = ['router', '--listen', '127.0.0.1:0', '--data-dir', path.join(work, 'data')];
  const out = fs.openSync(log, 'w');
  const child = track(spawn(program, words, { stdio: ['ignore', out, out], env: { ...process.env, HOME: work } }));
  const url = await until(
    'the router listens',
    () => fs.readFileSync(log, 'utf8').match(/http:\/\/127\.0\.0\.1:\d+/)?.[0],
  );
  assert.deepEqual(routers('1.0.0'), [String(child.pid)]);

  const answers = { good: 0, bad: [] };
  const load = setInterval(async () => {
    try {
      const { status } = await fetch(`${url}/v1/models`);
      if (status === 200) answers.good++;
      else answers.bad.push(status);
    } catch (error) {
      answers.bad.push(String(error.cause ?? error));
    }
  }, 20);
  try {
    const none = await run(program, ['update', '--check']);
    assert.match(none.stdout, /1\.0\.0 is installed; there is no newer version/);
    releases.publish('1.1.0', { isLatest: true });
    const some = await run(program, ['update', '--check']);
    assert.match(some.stdout, /1\.1\.0 can be installed; 1\.0\.0 is installed/);

    const updated = await run(program, ['update']);
    assert.equal(updated.code, 0, updated.stderr);
    assert.match(updated.stdout, /The router of process \d+ handed over to process \d+/);
    assert.equal(current(), '1.1.0');
    assert.equal(routers('1.0.0').length, 0);
    const [successor] = routers('1.1.0');
    assert.ok(successor, 'the new version serves');

    // It runs far enough to say its version, and ends when it is started.
    releases.publish('1.2.0', {
      isLatest: true,
      make(folder) {
        releases.program(folder);
        const file = path.join(folder, 'bin/llm-router');
        fs.writeFileSync(file, '#!/bin/sh\n[ "$1" = version ] && echo llm-router 1.2.0\n', { mode: 0o755 });
      },
    });
    const broken = await run(program, ['update']);
    assert.equal(broken.code, 1);
    assert.match(broken.stderr, /did not start version 1\.2\.0.*version 1\.1\.0 is in place again/);
    assert.equal(current(), '1.1.0');
    assert.deepEqual(routers('1.1.0'), [successor], 'the router goes on');
  } finally {
    clearInterval(load);
    for (const version of ['1.0.0', '1.1.0']) for (const pid of routers(version)) process.kill(Number(pid), 'SIGTERM');
  }
  assert.deepEqual(answers.bad, []);
  assert.ok(answers.good > 50, `${answers.good} requests`);
});

it('a program that install.sh did not install says how it is updated', async () => {
  const { code, stderr } = await run(process.env.LLM_ROUTER_BIN ?? 'build/release/bin/llm-router', ['update']);
  assert.equal(code, 1);
  assert.match(stderr, /was not installed by install\.sh/);
});
