// windows-x64 in Wine: a node of a fleet whose router runs on Linux, Ctrl-C, a Windows service, and what is Linux's only.
//   LR_BUILD  the build folder of windows-x64; build/release has the Linux programs
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { fleet, metric } from '../e2e/fleet.mjs';
import { call, DEMO, makeEcho, makeToken, nodes, online, say, stream } from '../e2e/support.mjs';
import { own, processes, start, wine } from './system.mjs';

const PROGRAM = path.join(process.env.LR_BUILD, 'bin/llm-router.exe');
const ENGINES = path.join(process.env.LR_BUILD, 'testing/engines');
const CTRL_C = path.join(process.env.LR_BUILD, 'testing/ctrl_c.exe'); // presses it in a console (ctrl_c.c)
const WAIT_MS = 240_000; // an emulator on a busy machine; the limit only ends a test that hangs

async function until(what, probe, log = () => '') {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const value = await probe();
    if (value) return value;
    assert.ok(Date.now() < end, `${what} did not happen\n${log()}`);
    await new Promise((done) => setTimeout(done, 200));
  }
}

// A folder whose name has blanks and letters that are not ASCII, as names of users have.
const home = fs.mkdtempSync(path.join(os.tmpdir(), 'lr Jürgen 日本 '));
const mark = path.basename(home).slice(-6);
function killAll() {
  for (const word of ['node', 'up'])
    for (const pid of processes(word, mark))
      try {
        process.kill(Number(pid), 'SIGKILL');
      } catch {
        // it has ended
      }
}
after(() => {
  killAll();
  fs.rmSync(home, { recursive: true, force: true, maxRetries: 20 });
});

async function windowsNode(router, model) {
  const token = await makeToken(router);
  const args = ['node', '--listen', '127.0.0.1:0', '--device', 'cpu', '--no-hf-cache', '--node-name', 'windows'];
  args.push('--data-dir', own(path.join(home, 'node')), '--engines-dir', own(ENGINES), '--model', own(model));
  args.push('--router', router.url);
  const child = start(PROGRAM, args, { LLM_ROUTER_TOKEN: token });
  let log = '';
  for (const pipe of [child.stdout, child.stderr])
    pipe.on('data', (bytes) => {
      log += bytes;
    });
  const isReady = async () => {
    const found = (await nodes(router)).find((node) => node.name === 'windows');
    return found?.online && found.models[0]?.state === 'ready' && found;
  };
  return until('the node of Windows serves the model', isReady, () => log.slice(-4000));
}

test('a stream of a Linux node goes on in its middle on a node of Windows', async (t) => {
  t.after(killAll); // the next test looks for processes that are left
  const model = makeEcho('slow', { step_ms: 100 });
  const { router, all } = await fleet(1, model);
  const windows = await windowsNode(router, model);
  assert.equal(await online(router), 2);
  const text = Array.from({ length: 150 }, (_, i) => `word ${i}`).join(' ');
  // Streams until one of them is on the Linux node.
  const begun = [];
  const asks = Array.from({ length: 4 }, (_, i) =>
    stream(
      router.url,
      { model: 'slow', ...say(`${i} ${text}`) },
      {
        onChunk: (out) => {
          if (out.chunks === 3) begun.push(out.headers.get('x-llm-router-node'));
        },
      },
    ),
  );
  await until('all streams have begun', () => begun.length === asks.length);
  const onLinux = begun.filter((id) => id !== windows.id).length;
  assert.ok(onLinux > 0, 'a stream is on the node of Linux');
  all[0].child.kill('SIGKILL');
  const answers = await Promise.all(asks);
  answers.forEach((answer, i) => {
    assert.equal(answer.status, 200);
    assert.equal(answer.error, null);
    assert.ok(answer.done);
    assert.ok(answer.text.includes(`${i} ${text}`), 'nothing is missing, and nothing comes twice');
  });
  assert.ok((await metric(router, 'continuations_total')) > 0, 'a stream went on in its middle');
});

test('Ctrl-C drains: a running stream comes to its end, the program exits with 0 and leaves no process', async (t) => {
  t.after(killAll);
  const port = 20000 + ((process.pid + 7) % 20000);
  const url = `http://127.0.0.1:${port}`;
  const args = ['up', '--device', 'cpu', '--listen', `127.0.0.1:${port}`, '--no-hf-cache'];
  args.push('--data-dir', own(path.join(home, 'ctrl-c')), '--engines-dir', own(ENGINES));
  args.push('--model', own(makeEcho('slow', { step_ms: 100 })));
  const child = start(CTRL_C, [own(PROGRAM), ...args], {}, 'pipe');
  let log = '';
  let status;
  for (const pipe of [child.stdout, child.stderr])
    pipe.on('data', (bytes) => {
      log += bytes;
    });
  child.on('exit', (code, signal) => {
    status = signal ?? code;
  });
  const tail = () => log.slice(-4000);
  const ready = async () => {
    const answer = await fetch(`${url}/readyz?require=models`).catch(() => undefined);
    return answer?.ok;
  };
  await until('the server serves', ready, tail);
  const text = Array.from({ length: 15 }, (_, i) => `word ${i}`).join(' ');
  let chunks = 0;
  const running = stream(url, { model: 'slow', ...say(text) }, { onChunk: (out) => (chunks = out.chunks) });
  await until('the stream has begun', () => chunks > 0, tail);
  child.stdin.write('c');
  const refuses = async () =>
    (await call(`${url}/v1/chat/completions`, { body: { model: 'slow', max_tokens: 1, ...say('x') } })).status === 503;
  await until('new requests are refused', refuses, tail);
  const before = chunks;
  const answer = await running;
  assert.equal(answer.error, null);
  assert.ok(answer.done && answer.text.includes(text), 'the stream came to its end');
  assert.ok(answer.chunks > before, 'and was running when Ctrl-C arrived');
  await until('the program ends', () => status !== undefined, tail);
  assert.equal(status, 0, tail());
  assert.doesNotMatch(log, /worker\.died/, 'Ctrl-C is for the program alone, and not for its children');
  await until('no process is left', () => ['up', 'node', 'worker'].every((word) => processes(word, mark).length === 0));
});

test('a PostgreSQL database is refused with the reason', () => {
  const database = ['--database', 'postgres://x/y', '--listen', '127.0.0.1:0'];
  const done = wine(PROGRAM, 'router', ...database, '--data-dir', own(path.join(home, 'router')));
  assert.notEqual(done.status, 0);
  assert.match(done.text, /a PostgreSQL database can be used on Linux only: leave --database out/);
});

test('as a service of Windows it serves, and a stop of the service drains', async (t) => {
  const name = `lr-test-${process.pid}`;
  const port = 20000 + (process.pid % 20000);
  const url = `http://127.0.0.1:${port}`;
  const data = path.join(home, 'service');
  const command = [
    own(PROGRAM).replaceAll('/', '\\'),
    ...['up', '--device', 'cpu', '--listen', `127.0.0.1:${port}`, '--no-hf-cache', '--model', own(DEMO)],
    ...['--data-dir', own(data), '--engines-dir', own(ENGINES)],
  ];
  const made = wine(
    'sc',
    'create',
    name,
    'binPath=',
    command.map((word) => (word.includes(' ') ? `"${word}"` : word)).join(' '),
  );
  assert.equal(made.status, 0, made.text);
  t.after(() => wine('sc', 'delete', name));
  const started = wine('net', 'start', name);
  assert.equal(started.status, 0, started.text);
  const model = await until('the service serves', async () => {
    const answer = await fetch(`${url}/v1/models`).catch(() => undefined);
    return answer?.ok && (await answer.json()).data[0]?.id;
  });
  // A stream that runs when the service is stopped gets its end.
  let hasBegun = false;
  const running = stream(
    url,
    { model, max_tokens: 60, ignore_eos: true, ...say('Count.') },
    {
      onChunk: () => {
        hasBegun = true;
      },
    },
  );
  await until('the stream has begun', () => hasBegun);
  const stopped = wine('net', 'stop', name);
  assert.equal(stopped.status, 0, stopped.text);
  const answer = await running;
  assert.equal(answer.error, null);
  assert.ok(answer.done, 'the stream came to its end');
  await until('no process is left', () => ['up', 'node', 'worker'].every((word) => processes(word, mark).length === 0));
});
