// Helpers for tests of the node: a real node process with its own engines, models and
// folder, and a client that reads its event stream.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { writeEchoModel } from '../support/echo_model.mjs';
import { BIN, BUILD, ENGINES } from '../support/program.mjs';
import { descriptors, sleep, stopwatch, tempDir, track, until } from '../support/scene.mjs';

export { BIN, BUILD, ENGINES, sleep, stopwatch, tempDir, until };

export const TESTING = path.join(BUILD, 'testing'); // echo_next.so, echo_alien.so, fake_nvml.so
export const LONG = process.env.LR_LONG === '1';

// engines/<id> as the build made it, copied so that a test may change it.
export function copyEngine(to, id) {
  const folder = path.join(to, id);
  fs.mkdirSync(folder, { recursive: true });
  for (const file of fs.readdirSync(path.join(ENGINES, id)))
    fs.copyFileSync(path.join(ENGINES, id, file), path.join(folder, file));
  return folder;
}

// A model below `models` for the testing engines.
export const makeModel = (models, id, runtime = 'echo', testing = {}) =>
  writeEchoModel(path.join(models, id), runtime, testing);

// Resolves once the node listens; rejects with its log when it ends instead.
export async function startNode({
  args = [],
  env = {},
  engines,
  models,
  dir = tempDir('node'),
  device = 'cpu',
  hfCache = false,
  bin = BIN,
  under = [], // a program and its arguments that start the node
  cwd,
} = {}) {
  const all = [
    'node',
    '--listen',
    '127.0.0.1:0',
    '--device',
    device,
    '--data-dir',
    path.join(dir, 'data'),
    '--engines-dir',
    engines ?? ENGINES,
  ];
  if (!hfCache) all.push('--no-hf-cache');
  if (models) all.push('--models-dir', models);
  const [program, ...words] = [...under, bin, ...all, ...args];
  const child = spawn(program, words, {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const node = { child, pid: child.pid, dir, log: '', exit: undefined };
  track(child);
  child.stderr.on('data', (bytes) => {
    node.log += bytes;
  });
  let out = '';
  const ended = new Promise((done) =>
    child.on('close', (code, signal) => {
      node.exit = { code, signal };
      done(node.exit);
    }),
  );
  await new Promise((done, fail) => {
    child.stdout.on('data', (bytes) => {
      out += bytes;
      const match = out.match(/listening on port (\d+)/);
      if (match) {
        node.port = Number(match[1]);
        done();
      }
    });
    ended.then(() => fail(Object.assign(new Error(`the node ended: ${node.log}`), { node })));
  });
  // A test that fails before it stops its node must not hang the run.
  for (const handle of [child, child.stdout, child.stderr]) handle.unref();
  node.url = `http://127.0.0.1:${node.port}`;
  node.wait = () => {
    child.ref();
    return ended;
  };
  node.get = async (where) => (await fetch(node.url + where)).json();
  node.post = (where, body = {}, extra = {}) =>
    fetch(node.url + where, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...extra.headers },
      body: JSON.stringify(body),
      signal: extra.signal,
    });
  node.model = async (id) => node.get(`/v0/models/${encodeURIComponent(id)}`);
  node.worker = async (id) => (await node.model(id)).workers.find((w) => w.role === 'serving');
  node.stop = async () => {
    child.ref();
    if (node.exit === undefined) child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 20000);
    await ended;
    clearTimeout(timer);
    fs.rmSync(dir, { recursive: true, force: true });
    if (/ERROR: AddressSanitizer|LeakSanitizer|WARNING: ThreadSanitizer|runtime error:/.test(node.log))
      throw new Error(node.log.slice(node.log.search(/ERROR: |LeakSan|WARNING: Thread|runtime error:/)));
    return node.exit;
  };
  return node;
}

let counter = 0;
export function ask(model, text, extra = {}) {
  return { protocol: 1, request_id: `t${counter++}`, model, seed: 1, segments: [{ text, control: false }], ...extra };
}

// The events of one generation, as they come.
export async function* events(node, body, extra = {}) {
  const response = await node.post('/v0/generate', body, extra);
  if (response.status !== 200)
    throw Object.assign(new Error(`${response.status}: ${await response.text()}`), {
      status: response.status,
      headers: response.headers,
    });
  let rest = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body) {
    rest += decoder.decode(bytes, { stream: true });
    let at;
    while ((at = rest.indexOf('\n')) >= 0) {
      yield JSON.parse(rest.slice(0, at));
      rest = rest.slice(at + 1);
    }
  }
}

// The whole answer: its text, how it ended, and every event.
export async function generate(node, body, extra = {}) {
  const result = { text: '', ids: [], events: [], done: null, error: null };
  for await (const event of events(node, body, extra)) {
    result.events.push(event.event);
    if (event.event === 'token') {
      result.ids.push(event.id);
      if (!event.special) result.text += event.text;
    }
    if (event.event === 'done') result.done = event;
    if (event.event === 'error') result.error = event;
  }
  return result;
}

export const isAlive = (pid) => {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};

// Bytes of memory a process has; 0 when it is gone.
export function rss(pid) {
  try {
    return 1024 * Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m)?.[1] ?? 0);
  } catch {
    return 0;
  }
}

// Children of a process, zombies included.
export function children(pid) {
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const stat = fs.readFileSync(`/proc/${name}/stat`, 'utf8');
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid;
      } catch {
        return false;
      }
    })
    .map(Number);
}

// Descriptors of a node beside its clients' connections.
export function countFds(node) {
  const port = node.port.toString(16).toUpperCase().padStart(4, '0');
  const clients = fs
    .readFileSync(`/proc/${node.pid}/net/tcp`, 'utf8')
    .split('\n')
    .filter((line) => new RegExp(`^ *\\d+: [0-9A-F]{8}:${port} [0-9A-F]{8}:[0-9A-F]{4} 01 `).test(line)).length;
  return descriptors(node.pid).length - clients;
}

// A raw connection, for clients that misbehave.
export function rawPost(port, where, body) {
  const text = JSON.stringify(body);
  const socket = net.connect(port, '127.0.0.1');
  socket.write(
    `POST ${where} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
  socket.on('error', () => {});
  return socket;
}
