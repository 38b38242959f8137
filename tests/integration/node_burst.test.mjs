// An engine produces the tokens of all its sequences in one step, and two threads send them.  Every
// stream still gets its own bytes, all of them, in order, and its end, whatever its neighbours do.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ask, BIN, makeModel, startNode, tempDir, until } from './node_harness.mjs';

const STREAMS = 64;

// Different for each stream and at each place, so that nothing lost, doubled, swapped or of
// another stream goes unseen.
const textOf = (stream, length) => {
  let text = '';
  for (let at = 0; text.length < length; at++) text += `${stream}.${at} `;
  return text.slice(0, length);
};

// One stream; `text` grows as it arrives.  done resolves at its end, rejects when it breaks.
function open(node, where, body) {
  const stream = { text: '', finish: undefined, isDone: false };
  stream.done = new Promise((resolve, reject) => {
    const lib = node.ca ? https : http;
    stream.request = lib.request(
      {
        host: '127.0.0.1',
        port: node.port,
        path: where,
        method: 'POST',
        agent: false,
        ca: node.ca,
        headers: { 'content-type': 'application/json' },
      },
      (response) => {
        stream.response = response;
        let rest = '';
        response.setEncoding('utf8');
        response.on('data', (more) => {
          rest += more;
          const lines = rest.split('\n');
          rest = lines.pop();
          for (const line of lines) take(stream, line);
        });
        response.on('end', () => resolve(stream));
        response.on('aborted', () => reject(new Error('cut off')));
        response.on('error', reject);
      },
    );
    stream.request.on('error', reject);
    stream.request.end(JSON.stringify(body));
  });
  return stream;
}

function take(stream, line) {
  if (line === '' || line.startsWith(':')) return; // a comment: the load or the queue takes its time
  assert.equal(stream.isDone, false, `after the end: ${line}`);
  if (line === 'data: [DONE]') {
    stream.isDone = true;
    return;
  }
  const event = JSON.parse(line.replace(/^data: /, ''));
  if (event.event === 'token' && !event.special) stream.text += event.text; // /v0/generate
  if (event.event === 'done') [stream.finish, stream.isDone] = [event.reason, true];
  for (const choice of event.choices ?? []) {
    stream.text += choice.text ?? choice.delta?.content ?? '';
    stream.finish = choice.finish_reason ?? stream.finish;
  }
}

const completion = (node, model, text, extra = {}) =>
  open(node, '/v1/completions', { model, prompt: text, stream: true, max_tokens: 5000, ...extra });

function assertWhole(stream, text, finish = 'stop') {
  assert.equal(stream.text, text);
  assert.equal(stream.finish, finish);
  assert.equal(stream.isDone, true);
}

// Names of a process's threads.
function threads(pid) {
  return fs
    .readdirSync(`/proc/${pid}/task`)
    .map((tid) => fs.readFileSync(`/proc/${pid}/task/${tid}/comm`, 'utf8').trim());
}

describe('64 streams in one step each', () => {
  let node;
  const models = tempDir('models');
  before(async () => {
    makeModel(models, 'steps', 'echo', { step_ms: 4 });
    makeModel(models, 'fast');
    node = await startNode({ models, args: ['--max-sequences', String(STREAMS), '--max-context', '100000'] });
  });
  after(() => node.stop());

  for (const [name, begin, finish] of [
    ['/v1/completions', (i, text) => completion(node, 'steps', text), 'stop'],
    [
      '/v1/chat/completions',
      (i, text) =>
        open(node, '/v1/chat/completions', {
          model: 'steps',
          messages: [{ role: 'user', content: text }],
          stream: true,
        }),
      'stop',
    ],
    ['/v0/generate', (i, text) => open(node, '/v0/generate', ask('steps', text)), 'stop'],
  ])
    it(`${name}: each has all its tokens in order, its reason and its end`, async () => {
      const texts = Array.from({ length: STREAMS }, (_, i) => textOf(i, 100 + (i % 3)));
      const streams = texts.map((text, i) => begin(i, text));
      await Promise.all(streams.map((s) => s.done));
      streams.forEach((s, i) => assertWhole(s, texts[i], finish));
    });

  it('streams that end by their length in the same step all report it', async () => {
    const streams = Array.from({ length: STREAMS }, (_, i) =>
      completion(node, 'steps', textOf(i, 200), { max_tokens: 50 }),
    );
    await Promise.all(streams.map((s) => s.done));
    streams.forEach((s, i) => assertWhole(s, textOf(i, 50), 'length'));
  });

  it('some clients read slowly: they get everything later, and the others do not wait for them', async () => {
    const length = 3000; // some 700 kB: more than sockets hold, less than the node drops a client for
    const streams = Array.from({ length: 24 }, (_, i) => completion(node, 'fast', textOf(i, length)));
    const slow = streams.filter((_, i) => i % 4 === 0);
    for (const s of slow) {
      await until('it has begun', () => s.response !== undefined);
      s.response.pause();
    }
    await Promise.all(streams.filter((_, i) => i % 4 !== 0).map((s) => s.done));
    for (const s of slow) s.response.resume();
    await Promise.all(slow.map((s) => s.done));
    streams.forEach((s, i) => assertWhole(s, textOf(i, length)));
  });

  it('some clients disconnect in the middle: the others get all their tokens, and the slots are free', async () => {
    const streams = Array.from({ length: STREAMS }, (_, i) => completion(node, 'steps', textOf(i, 150)));
    const leaving = streams.filter((_, i) => i % 5 === 0);
    for (const s of leaving) s.done.catch(() => {});
    await until('all have begun', () => streams.every((s) => s.text.length > 10));
    for (const s of leaving) s.request.destroy();
    await Promise.all(streams.filter((_, i) => i % 5 !== 0).map((s) => s.done));
    streams.forEach((s, i) => i % 5 !== 0 && assertWhole(s, textOf(i, 150)));
    await until('nothing is left', async () => {
      const { live, stats } = await node.worker('steps');
      return live === 0 && stats.sequences === 0;
    });
  });

  it('several answers after each other on one connection stay separate', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
    const answers = await Promise.all(
      Array.from(
        { length: 48 },
        (_, i) =>
          new Promise((done, fail) => {
            const request = http.request(
              {
                host: '127.0.0.1',
                port: node.port,
                path: '/v1/completions',
                method: 'POST',
                agent,
                headers: { 'content-type': 'application/json' },
              },
              (response) => {
                let bytes = '';
                response.on('data', (more) => {
                  bytes += more;
                });
                response.on('end', () => done(bytes));
              },
            );
            request.on('error', fail);
            request.end(JSON.stringify({ model: 'steps', prompt: textOf(i, 30), stream: true, max_tokens: 100 }));
          }),
      ),
    );
    agent.destroy();
    answers.forEach((bytes, i) => {
      const stream = { text: '', isDone: false };
      for (const line of bytes.split('\n')) take(stream, line);
      assertWhole(stream, textOf(i, 30));
    });
  });
});

describe('with a thread or without', () => {
  const models = tempDir('models');
  before(() => makeModel(models, 'steps', 'echo', { step_ms: 4 }));

  it('a node that may use only one processor has no sending thread and still serves', async () => {
    const wrapper = path.join(tempDir('bin'), 'one-processor');
    fs.writeFileSync(wrapper, `#!/bin/sh\nexec taskset -c 0 ${BIN} "$@"\n`, { mode: 0o755 });
    const node = await startNode({ models, bin: wrapper, args: ['--max-sequences', '64'] });
    try {
      assert.equal(threads(node.pid).includes('sender'), false);
      const streams = Array.from({ length: STREAMS }, (_, i) => completion(node, 'steps', textOf(i, 40)));
      await Promise.all(streams.map((s) => s.done));
      streams.forEach((s, i) => assertWhole(s, textOf(i, 40)));
    } finally {
      await node.stop();
    }
  });

  it('a node that gets SIGTERM in the middle lets every stream finish and exits', async () => {
    const node = await startNode({ models, args: ['--max-sequences', '64'] });
    const streams = Array.from({ length: STREAMS }, (_, i) => completion(node, 'steps', textOf(i, 120)));
    await until('all have begun', () => streams.every((s) => s.text.length > 5));
    const left = node.stop();
    await Promise.all(streams.map((s) => s.done));
    streams.forEach((s, i) => assertWhole(s, textOf(i, 120)));
    assert.equal((await left).code, 0);
  });

  it('over TLS, which the thread does not send, the same holds', async () => {
    const dir = tempDir('tls');
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-keyout',
        'key.pem',
        '-out',
        'cert.pem',
        '-days',
        '2',
        '-subj',
        '/CN=localhost',
        '-addext',
        'subjectAltName=IP:127.0.0.1',
      ],
      { cwd: dir, stdio: 'ignore' },
    );
    const cert = path.join(dir, 'cert.pem');
    const node = await startNode({
      models,
      args: ['--max-sequences', '64', '--tls-cert', cert, '--tls-key', path.join(dir, 'key.pem'), '--tls-ca', cert],
    });
    node.ca = fs.readFileSync(cert);
    try {
      const streams = Array.from({ length: 32 }, (_, i) => completion(node, 'steps', textOf(i, 80)));
      await Promise.all(streams.map((s) => s.done));
      streams.forEach((s, i) => assertWhole(s, textOf(i, 80)));
    } finally {
      await node.stop();
    }
  });
});
