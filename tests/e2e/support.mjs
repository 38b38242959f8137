// Helpers for end-to-end tests: a fleet of real processes (router, nodes, `up`), each
// with its own folder and a free port.
import { execFile, spawn } from 'node:child_process';
import http from 'node:http';
import path from 'node:path';
import { promisify } from 'node:util';
import { writeEchoModel } from '../support/echo_model.mjs';
import { BIN, ENGINES, ROOT } from '../support/program.mjs';
import { descriptors, sleep, stopwatch, tempDir, track, until } from '../support/scene.mjs';

export { BIN, descriptors, ENGINES, ROOT, sleep, stopwatch, tempDir, until };

export const DEMO = path.join(ROOT, 'models/demo');
export const LONG = process.env.LR_LONG === '1';

// A model of its own folder for the testing engine.
export const makeEcho = (id, testing = {}) => writeEchoModel(path.join(tempDir('model'), id), 'echo', testing);

// Starts the program and resolves with `match` of what it prints.
export function launch(args, { match, env = {}, ms = 60000, bin = BIN } = {}) {
  const child = track(spawn(bin, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] }));
  const self = { child, pid: child.pid, log: '', out: '' };
  self.ended = new Promise((done) => child.on('exit', (code, signal) => done({ code, signal })));
  self.stop = async (signal = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    return self.ended;
  };
  child.stderr.on('data', (data) => {
    self.log += data;
  });
  // A sanitizer's report fails whatever test runs, also where its process was stopped.
  child.on('close', () => {
    const report = self.log.match(/(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:)[^]{0,2000}/);
    if (report) throw new Error(report[0]);
  });
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`not up in ${ms} ms: ${self.log}`));
    }, ms);
    child.stdout.on('data', (data) => {
      self.out += data;
      const found = self.out.match(match);
      if (found) {
        clearTimeout(timer);
        self.found = found;
        resolve(self);
      }
    });
    self.ended.then((how) => {
      clearTimeout(timer);
      reject(new Error(`ended with ${JSON.stringify(how)}: ${self.log}`));
    });
  });
}

export async function startRouter({ args = [], dir = tempDir('router'), env = {}, port = 0, bin } = {}) {
  const router = await launch(['router', '--listen', `127.0.0.1:${port}`, '--data-dir', dir, ...args], {
    match: /listening on (http:\/\/\S+)/,
    env,
    bin,
  });
  router.url = router.found[1];
  router.dir = dir;
  router.adminKey = router.out.match(/shown this once: (\S+)/)?.[1];
  return router;
}

export async function startNode(
  router,
  { args = [], dir = tempDir('node'), token, name = 'n', port = 0, env = {}, bin } = {},
) {
  token ??= await makeToken(router);
  const node = await launch(
    [
      'node',
      '--listen',
      `127.0.0.1:${port}`,
      '--device',
      'cpu',
      '--no-hf-cache',
      '--data-dir',
      dir,
      '--router',
      router.url,
      '--node-name',
      name,
      ...args,
    ],
    { match: /listening on port (\d+)/, env: { LLM_ROUTER_TOKEN: token, ...env }, bin },
  );
  node.dir = dir;
  node.name = name;
  node.port = Number(node.found[1]);
  return node;
}

export async function startUp({ args = [], dir = tempDir('up'), ms = 60000, env } = {}) {
  const up = await launch(
    ['up', '--listen', '127.0.0.1:0', '--device', 'cpu', '--no-hf-cache', '--data-dir', dir, ...args],
    { match: /is ready at (http:\/\/\S+)/, ms, env },
  );
  up.url = up.found[1];
  return up;
}

// Answers where a node says it is, so that the router lets it join; a test speaks for it.  A join that names an
// epoch needs an answer that does.
export async function startStandIn(health = {}) {
  const server = http.createServer((req, res) => res.end(JSON.stringify(health)));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  server.unref();
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

// fetch with JSON in and out; `key` is sent as a bearer token.
export async function call(url, { method, body, key, headers = {}, raw } = {}) {
  const answer = await fetch(url, {
    method: method ?? (body !== undefined || raw !== undefined ? 'POST' : 'GET'),
    headers: {
      ...(body !== undefined || raw !== undefined ? { 'content-type': 'application/json' } : {}),
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      ...headers,
    },
    body: raw ?? (body !== undefined ? JSON.stringify(body) : undefined),
  });
  const text = await answer.text();
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status: answer.status, headers: answer.headers, text, json };
}

export async function makeToken(router, body = {}) {
  const answer = await call(`${router.url}/v0/nodes/tokens`, { body, key: router.adminKey });
  if (answer.status !== 201) throw new Error(`no token: ${answer.text}`);
  return answer.json.key;
}

export async function register(router, id) {
  const answer = await call(`${router.url}/v0/models/register`, { body: { path: id }, key: router.adminKey });
  if (answer.status !== 201) throw new Error(`not registered: ${answer.text}`);
}

export const nodes = async (router) => (await call(`${router.url}/v0/nodes`, { key: router.adminKey })).json.nodes;

export const online = async (router) => (await nodes(router)).filter((n) => n.online).length;

export const say = (content, more = {}) => ({ messages: [{ role: 'user', content }], ...more });

// Reads a stream of chunks: their text, and what else came.
export async function stream(url, body, { key, signal, onChunk } = {}) {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const out = {
    status: answer.status,
    headers: answer.headers,
    text: '',
    reasoning: '',
    chunks: 0,
    done: false,
    error: null,
    comments: 0,
  };
  if (answer.status !== 200) {
    out.body = await answer.text();
    return out;
  }
  let rest = '';
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    rest += piece;
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      const line = rest.slice(0, end);
      if (line.startsWith(':')) {
        out.comments++;
        continue;
      }
      const data = line.replace(/^data: /, '');
      if (data === '[DONE]') {
        out.done = true;
        continue;
      }
      const event = JSON.parse(data);
      if (event.error) {
        out.error = event.error;
        continue;
      }
      out.chunks++;
      if (event.usage) out.usage = event.usage;
      out.text += event.choices[0]?.delta?.content ?? '';
      out.reasoning += event.choices[0]?.delta?.reasoning_content ?? '';
      onChunk?.(out);
    }
  }
  return out;
}

export const cli = async (args, env = {}) =>
  promisify(execFile)(BIN, args, { env: { ...process.env, ...env }, timeout: 60000 });
