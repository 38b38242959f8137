// A node without a router: its answers, its refusals, and how it stops.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  ask,
  BIN,
  children,
  copyEngine,
  events,
  generate,
  isAlive,
  makeModel,
  startNode,
  stopwatch,
  tempDir,
  TESTING,
  until,
} from './node_harness.mjs';

describe('a node with the echo engine', () => {
  let node;
  before(async () => {
    node = await startNode({ args: ['--engine', 'echo'] });
  });
  after(() => node.stop());

  it('returns the prompt, counts tokens, and ends once', async () => {
    const answer = await generate(node, ask('echo', 'hello, wörld'));
    assert.equal(answer.done.reason, 'stop');
    assert.deepEqual(answer.done.usage, { prompt_tokens: 13, completion_tokens: 14, cached_tokens: 0 });
    assert.deepEqual(
      answer.events.filter((e) => e !== 'prefill' && e !== 'token'),
      ['accepted', 'done'],
    );
    assert.equal(Buffer.from(answer.ids.slice(0, -1)).toString(), 'hello, wörld');
  });

  it('gives the same events as binary frames', async () => {
    const response = await node.post('/v0/generate', ask('echo', 'ab'), {
      headers: { accept: 'application/vnd.llm-router.frames' },
    });
    assert.equal(response.headers.get('content-type'), 'application/vnd.llm-router.frames');
    const bytes = Buffer.from(await response.arrayBuffer());
    const types = [];
    for (let at = 0; at < bytes.length; at += 8 + bytes.readUInt32LE(at)) types.push(bytes[at + 5]);
    assert.deepEqual(types, [69, 65, 66, 66, 66, 67]);
  });

  it('answers /v1/chat/completions, plain', async () => {
    const response = await node.post('/v1/chat/completions', {
      model: 'echo',
      messages: [{ role: 'user', content: 'héllo' }],
    });
    const body = await response.json();
    assert.equal(response.status, 200);
    assert.equal(body.choices[0].message.content, 'héllo');
    assert.equal(body.choices[0].finish_reason, 'stop');
    assert.equal(body.usage.completion_tokens, 7);
  });

  it('answers /v1/chat/completions, streaming, with two choices', async () => {
    const response = await node.post('/v1/chat/completions', {
      model: 'echo',
      messages: [{ role: 'user', content: 'abc' }],
      stream: true,
      n: 2,
    });
    assert.match(response.headers.get('content-type'), /^text\/event-stream/);
    const text = ['', ''];
    const lines = (await response.text()).split('\n').filter((l) => l.startsWith('data: '));
    assert.equal(lines.at(-1), 'data: [DONE]');
    for (const line of lines.slice(0, -1))
      for (const choice of JSON.parse(line.slice(6)).choices) text[choice.index] += choice.delta.content ?? '';
    assert.deepEqual(text, ['abc', 'abc']);
  });

  it('stops at a stop string and counts what was really generated', async () => {
    const response = await node.post('/v1/completions', { model: 'echo', prompt: 'one two three', stop: [' two'] });
    const body = await response.json();
    assert.equal(body.choices[0].text, 'one');
    assert.equal(body.choices[0].finish_reason, 'stop');
  });

  it('ignores an unknown field of a completion and names it in a header, or refuses it if the request is strict', async () => {
    const body = { model: 'echo', prompt: 'one', wishes: 3 };
    const taken = await node.post('/v1/completions', body);
    assert.deepEqual([taken.status, taken.headers.get('x-llm-router-ignored')], [200, 'wishes']);
    await taken.text();
    const strict = await node.post('/v1/completions', body, { headers: { Prefer: 'handling=strict' } });
    assert.deepEqual([strict.status, (await strict.json()).error.param], [400, 'wishes']);
  });

  it('names an unknown model and an unknown field in the error', async () => {
    const missing = await node.post('/v0/generate', ask('nobody', 'x'));
    assert.equal(missing.status, 404);
    assert.match((await missing.json()).error.message, /no model "nobody".*echo/);
    const unknown = await node.post('/v0/generate', ask('echo', 'x', { wishes: 3 }));
    assert.equal(unknown.status, 400);
    assert.match((await unknown.json()).error.message, /"wishes"/);
    assert.equal((await fetch(`${node.url}/v0/generate`)).status, 405);
    assert.equal((await fetch(`${node.url}/v0/nothing`)).status, 404);
  });

  it('refuses requests of web pages', async () => {
    const form = await fetch(`${node.url}/v0/generate`, {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': 'text/plain' },
    });
    assert.equal(form.status, 415);
    const page = await node.post('/v0/models/echo/unload', {}, { headers: { origin: 'https://evil.example' } });
    assert.equal(page.status, 403);
  });

  it('refuses a prompt beyond the context with both numbers', async () => {
    const answer = await generate(node, ask('echo', 'x'.repeat(40000)));
    assert.equal(answer.error.code, 'INVALID_ARGUMENT');
    assert.match(answer.error.message, /40000.*32768/);
  });

  it('lists models, health and metrics', async () => {
    const models = await node.get('/v1/models');
    assert.deepEqual(
      models.data.map((m) => m.id),
      ['echo'],
    );
    assert.equal((await node.get('/health')).status, 'ok');
    const metrics = await (await fetch(`${node.url}/metrics`)).text();
    assert.match(metrics, /^llm_router_node_requests_total \d+$/m);
    assert.match(metrics, /^llm_router_node_model_ready\{model="echo"\} 1$/m);
    for (const line of metrics.split('\n'))
      assert.match(line, /^(# (HELP|TYPE) \S+ .+|[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? \d+(\.\d+)?|)$/);
  });

  it('loads, unloads and pins on request, and tells subscribers', async () => {
    const stream = await fetch(`${node.url}/v0/events`);
    const reader = stream.body.getReader();
    await node.post('/v0/models/echo/unload');
    await until('unloaded', async () => (await node.model('echo')).state === 'present');
    await node.post('/v0/models/echo/load');
    await until('ready', async () => (await node.model('echo')).state === 'ready');
    assert.equal((await (await node.post('/v0/models/echo/pin')).json()).pinned, true);
    assert.equal((await (await node.post('/v0/models/echo/unpin')).json()).pinned, false);
    let seen = '';
    while (!/"state":"ready"[^]*"state":"draining"[^]*"state":"ready"/.test(seen))
      seen += new TextDecoder().decode((await reader.read()).value);
    await reader.cancel();
  });
});

describe('a node with a secret', () => {
  it('requires it on every path of its API that docs/node.md lists', async () => {
    const docs = fs.readFileSync(new URL('../../docs/node.md', import.meta.url), 'utf8');
    const routes = [...docs.matchAll(/`(GET|POST|DELETE) (\/[^`? ]*)/g)].map(([, method, where]) => ({
      method,
      where: where.replace(/\{\w+\}/g, 'echo'),
    }));
    assert.ok(routes.length > 15);
    const node = await startNode({ args: ['--engine', 'echo', '--node-secret', 'sesame'] });
    for (const { method, where } of routes) {
      if (['/livez', '/readyz'].includes(where)) continue; // probes have no key
      const ask_ = (token) =>
        fetch(node.url + where, {
          method,
          headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
          body: method === 'POST' ? '{}' : undefined,
        });
      for (const wrong of ['', 'sesam', 'sesame2']) {
        const refused = await ask_(wrong);
        assert.equal(refused.status, 401, `${method} ${where}`);
        await refused.text();
      }
      const answer = await ask_('sesame');
      if (!answer.headers.has('content-length'))
        await answer.body.cancel(); // it has no end
      else assert.doesNotMatch(await answer.text(), /there is no \/|is not offered for/, `${method} ${where}`);
    }
    await node.stop();
  });
});

describe('engines are refused by name and reason', () => {
  const fields = [
    'engine_id',
    'engine_version',
    'abi_version',
    'runtimes',
    'formats',
    'architectures',
    'backends',
    'library',
    'license',
  ];
  let node;
  let list;
  before(async () => {
    const engines = tempDir('engines');
    const change = (name, edit) => {
      const folder = copyEngine(tempDir('one'), 'echo');
      const file = path.join(folder, 'manifest.json');
      const manifest = JSON.parse(fs.readFileSync(file));
      edit(manifest, folder);
      fs.writeFileSync(file, JSON.stringify(manifest));
      fs.renameSync(folder, path.join(engines, name));
    };
    for (const field of fields)
      change(`lacks-${field}`, (m) => {
        m.engine_id = `lacks-${field}`;
        delete m[field];
      });
    change('other-abi', (m) => {
      m.engine_id = 'other-abi';
      m.abi_version = 999;
    });
    change('a-first', () => {});
    change('b-second', () => {});
    change('writable', (m, folder) => {
      m.engine_id = 'writable';
      fs.chmodSync(path.join(folder, 'echo.so'), 0o777);
    });
    change('outside', (m, folder) => {
      m.engine_id = 'outside';
      fs.rmSync(path.join(folder, 'echo.so'));
      fs.symlinkSync('/bin/sh', path.join(folder, 'echo.so'));
    });
    change('companion', (m, folder) => {
      m.engine_id = 'companion';
      fs.writeFileSync(path.join(folder, 'libbeside.so'), 'code');
      fs.chmodSync(path.join(folder, 'libbeside.so'), 0o666);
    });
    change('companion-outside', (m, folder) => {
      m.engine_id = 'companion-outside';
      fs.symlinkSync('/bin/sh', path.join(folder, 'libbeside.so'));
    });
    change('foreign', (m, folder) => {
      m.engine_id = 'foreign';
      if (process.getuid() === 0) fs.chownSync(path.join(folder, 'echo.so'), 12345, 12345);
      else fs.chmodSync(path.join(folder, 'echo.so'), 0o757);
    });
    change('hash', (m) => {
      m.engine_id = 'hash';
      m.library_sha256 = '0'.repeat(64);
    });
    change('alien', (m, folder) => {
      m.engine_id = 'alien';
      m.runtimes = ['alien'];
      fs.copyFileSync(path.join(TESTING, 'echo_alien.so'), path.join(folder, 'echo.so'));
    });
    const models = tempDir('models');
    makeModel(models, 'alien-model', 'alien');
    node = await startNode({ engines, models });
    list = (await node.get('/v0/engines')).engines;
  });
  after(() => node.stop());
  const engine = (folder) => list.find((e) => e.folder.endsWith(`/${folder}`));

  for (const field of fields)
    it(`without ${field}`, () => {
      assert.equal(engine(`lacks-${field}`).usable, false);
      assert.match(engine(`lacks-${field}`).reason, new RegExp(`"${field}" is missing`));
    });
  it('with another ABI in the manifest, before its code runs', () => {
    assert.match(engine('other-abi').reason, /engine ABI 999, this program for 1/);
  });
  it('with an id that is taken', () => {
    assert.equal(engine('a-first').usable, true);
    assert.match(engine('b-second').reason, /"echo" is already taken by .*a-first/);
  });
  it('with a library that every user may write', () => {
    assert.match(engine('writable').reason, /chmod o-w/);
  });
  it('with a library outside its folder', () => {
    assert.match(engine('outside').reason, /outside its engine folder/);
  });
  it('with a library beside it that every user may write, or that is in another folder', () => {
    assert.match(engine('companion').reason, /libbeside\.so may be written by everybody.*chmod o-w/);
    assert.match(engine('companion-outside').reason, /libbeside\.so is really .*outside its engine folder/);
  });
  // Only root can give a file away; for others the permissions are all there is to break.
  it('with a library of another user', () => {
    assert.match(
      engine('foreign').reason,
      process.getuid() === 0 ? /echo\.so belongs to user 12345: it must belong to root or to user 0/ : /chmod o-w/,
    );
  });
  it('with a library that does not match its manifest', () => {
    assert.match(engine('hash').reason, /sha256/);
  });
  it('with a table of another ABI than its manifest: the worker refuses it, the node continues', async () => {
    const answer = await generate(node, ask('alien-model', 'x'));
    assert.equal(answer.error.code, 'ABI_MISMATCH');
    assert.match((await node.model('alien-model')).reason, /999/);
  });
  it('and says so in the log', () => {
    assert.match(node.log, /engine\.refused .*lacks-license/);
  });
});

describe('a node starts and stops', () => {
  it('does not start without a GPU unless the CPU was asked for', async () => {
    const child = spawn(
      BIN,
      ['node', '--listen', '127.0.0.1:0', '--data-dir', tempDir('node'), '--nvml-library', '/nowhere.so'],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    let text = '';
    child.stderr.on('data', (bytes) => {
      text += bytes;
    });
    const code = await new Promise((done) => child.on('close', done));
    assert.equal(code, 1);
    assert.match(text, /no NVIDIA GPU.*--device cpu/);
  });

  it('drains on SIGTERM: running requests finish, new requests get 503, then it exits', async () => {
    const gate = path.join(tempDir('gate'), 'gate');
    fs.writeFileSync(gate, '....');
    const node = await startNode({ args: ['--engine', 'echo', '--engine-options', JSON.stringify({ gate })] });
    const stream = events(node, ask('echo', 'a long answer that takes a while'));
    let text = '';
    for (let i = 0; i < 4; i++) await stream.next();
    node.child.kill('SIGTERM');
    await until('draining', async () => (await fetch(`${node.url}/health`)).status === 503);
    const refused = await node.post('/v0/generate', ask('echo', 'x'));
    assert.equal(refused.status, 503);
    assert.ok(refused.headers.get('retry-after'));
    fs.writeFileSync(gate, '.'.repeat(99));
    let last;
    for await (const event of stream) {
      last = event;
      text += event.text ?? '';
    }
    assert.equal(last.event, 'done');
    assert.match(text, /answer that takes a while/);
    assert.deepEqual(await node.stop(), { code: 0, signal: null });
  });

  it('exits at once on a second SIGTERM', async () => {
    const node = await startNode({ args: ['--engine', 'echo', '--engine-options', '{"step_ms":1000}'] });
    const running = generate(node, ask('echo', 'very slow')).catch((e) => e);
    await until('live', async () => (await node.worker('echo'))?.live === 1);
    const watch = stopwatch();
    node.child.kill('SIGTERM');
    await until('draining', () => /node\.drain /.test(node.log));
    node.child.kill('SIGTERM');
    await node.wait();
    assert.ok(watch.ms < 5000, `${watch.real} ms`);
    await running;
    await node.stop();
  });

  it('ends its workers, even when it is killed', async () => {
    const node = await startNode({ args: ['--engine', 'echo'] });
    const { pid } = await until('a worker', () => node.worker('echo'));
    await generate(node, ask('echo', 'x'));
    node.child.kill('SIGKILL');
    await until('the worker is gone', () => !isAlive(pid), 2000);
    await node.stop();
  });

  it('leaves no zombie and owns its data folder alone', async () => {
    const node = await startNode({ args: ['--engine', 'echo'] });
    await generate(node, ask('echo', 'x'));
    assert.equal(children(node.pid).length, 1);
    await assert.rejects(startNode({ args: ['--engine', 'echo'], dir: node.dir }), /node\.lock/);
    await node.stop();
  });
});
