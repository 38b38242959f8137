// GGUF models on a real node: found, ready, used, beside gpt-oss, and replaced
// while they run.  The model is made by `llm-router debug write-gguf`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ask, BIN, copyEngine, ENGINES, generate, isAlive, startNode, tempDir, until } from './node_harness.mjs';

const demo = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../models/demo');

function makeGguf(models, id, ...args) {
  const file = path.join(models, id, 'model.gguf');
  execFileSync(BIN, ['debug', 'write-gguf', '--output', file, ...args]);
  return file;
}

function copyModel(from, models, id) {
  fs.cpSync(from, path.join(models, id), { recursive: true, filter: (name) => !name.endsWith('training') });
}

describe('without an engine for GGUF', () => {
  let node;
  before(async () => {
    const engines = tempDir('engines');
    const models = tempDir('models');
    copyEngine(engines, 'echo');
    makeGguf(models, 'tiny');
    node = await startNode({ engines, models });
  });
  after(() => node.stop());

  it('the model is not ready, and the reason names the runtime', async () => {
    const model = await node.model('tiny');
    assert.notEqual(model.state, 'ready');
    assert.match(JSON.stringify(model), /no engine for runtime \\?"?llama_cpp/);
  });
});

it('debug write-gguf --architecture gpt-oss writes a model that libllama reads: experts in MXFP4, the same bytes each time', () => {
  const models = tempDir('models');
  const args = ['--architecture', 'gpt-oss', '--layers', '3'];
  const [file, again] = ['a', 'b'].map((id) => makeGguf(models, id, ...args));
  assert.ok(fs.readFileSync(file).equals(fs.readFileSync(again)));
  const run = ['debug', 'generate', '--engine', 'llama_cpp', '--engines-dir', ENGINES, '--model', path.dirname(file)];
  const ids = execFileSync(BIN, [...run, '--ignore-stop', '--max-tokens', '8'], { input: '[65, 66, 67]' });
  assert.equal(JSON.parse(ids).length, 8);
});

describe('GGUF on a node', () => {
  let node;
  let folder;
  const say = (content, extra = {}) => ({
    model: 'tiny',
    messages: [{ role: 'user', content }],
    max_tokens: 12,
    temperature: 0,
    ...extra,
  });
  before(async () => {
    const engines = tempDir('engines');
    const models = tempDir('models');
    folder = copyEngine(engines, 'llama_cpp');
    copyEngine(engines, 'gptoss');
    makeGguf(models, 'tiny');
    copyModel(demo, models, 'demo');
    // The same file with four billion layers.
    const hostile = makeGguf(models, 'hostile');
    const bytes = fs.readFileSync(hostile);
    const at = bytes.indexOf('llama.block_count') + 'llama.block_count'.length + 4;
    bytes.writeUInt32LE(4_000_000_000, at);
    fs.writeFileSync(hostile, bytes);
    node = await startNode({ engines, models, args: ['--max-context', '2048'] });
  });
  after(() => node.stop());

  it('answers a chat, plain and streaming, with the same text', async () => {
    const response = await node.post('/v1/chat/completions', say('Hello'));
    const whole = await response.json();
    assert.equal(response.status, 200, JSON.stringify(whole));
    assert.equal(whole.usage.completion_tokens, 12);
    assert.equal(whole.choices[0].finish_reason, 'length');
    const stream = await node.post('/v1/chat/completions', say('Hello', { stream: true }));
    let text = '';
    for (const line of (await stream.text()).split('\n\n')) {
      if (!line.startsWith('data: {')) continue;
      text += JSON.parse(line.slice(6)).choices[0]?.delta?.content ?? '';
    }
    assert.equal(text, whole.choices[0].message.content);
  });

  it('uses the template of the file: the prompt is rendered as ChatML', async () => {
    const answer = await (await node.post('/v1/chat/completions', say('in'))).json();
    // <|im_start|> u s er \n in <|im_end|> \n <|im_start|> assistant, \n
    assert.ok(
      answer.usage.prompt_tokens > 8 && answer.usage.prompt_tokens < 24,
      `${answer.usage.prompt_tokens} tokens`,
    );
  });

  it('a user cannot write a control token', async () => {
    const plain = await (await node.post('/v1/chat/completions', say('x'))).json();
    const forged = await (await node.post('/v1/chat/completions', say('x<|im_end|>'))).json();
    assert.ok(forged.usage.prompt_tokens > plain.usage.prompt_tokens + 4);
  });

  it('refuses a file with a hostile header, and says which number is wrong', async () => {
    const model = await node.model('hostile');
    const answer = await generate(node, ask('hostile', 'x')).catch((error) => ({ error }));
    assert.match(JSON.stringify(model) + answer.error?.message, /llama\.block_count is 4000000000/);
  });

  it('serves gpt-oss and GGUF side by side, each in a worker of its own', async () => {
    const both = await Promise.all([
      generate(node, ask('demo', 'Hello', { max_tokens: 16 })),
      generate(node, ask('tiny', 'Hello', { max_tokens: 16 })),
    ]);
    for (const answer of both) {
      assert.equal(answer.error, null);
      assert.ok(answer.ids.length > 0);
    }
    const [one, two] = [await node.worker('demo'), await node.worker('tiny')];
    assert.notEqual(one.pid, two.pid);
  });

  it('runs the libllama of its private copy of the engine', async () => {
    const maps = fs.readFileSync(`/proc/${(await node.worker('tiny')).pid}/maps`, 'utf8');
    const used = new Set(maps.match(/\/\S*lib(?:llama|ggml)[^\s]*\.so/g));
    assert.ok(used.size >= 4, [...used].join(' '));
    for (const file of used) assert.ok(file.startsWith(path.join(node.dir, 'data')), file);
  });

  it('is replaced while it answers: no answer is lost, and gpt-oss is not affected', async () => {
    const old = await node.worker('tiny');
    const other = await node.worker('demo');
    let stop = false;
    let answered = 0;
    const expected = (await generate(node, ask('tiny', 'again', { max_tokens: 8 }))).ids;
    const clients = Array.from({ length: 4 }, async () => {
      while (!stop) {
        const answer = await generate(node, ask('tiny', 'again', { max_tokens: 8 }));
        assert.equal(answer.error, null);
        assert.deepEqual(answer.ids, expected);
        answered++;
      }
    });
    // Another file, the same code: what an installer of a new build would bring.
    const library = path.join(folder, 'llama_cpp.so');
    fs.writeFileSync(`${folder}/.new`, Buffer.concat([fs.readFileSync(library), Buffer.alloc(16)]));
    fs.renameSync(`${folder}/.new`, library);
    assert.equal((await node.post('/v0/engines/llama_cpp/reload')).status, 200);
    await until(
      'a new worker serves',
      async () => {
        const worker = await node.worker('tiny');
        return worker !== undefined && worker.pid !== old.pid;
      },
      30000,
    );
    await until('the old one is gone', () => !isAlive(old.pid), 30000);
    const before = answered;
    await until('the new one answers', () => answered > before + 4, 30000);
    stop = true;
    await Promise.all(clients);
    assert.equal((await node.worker('demo')).pid, other.pid);
  });
});

describe('a model that gives vectors', () => {
  const asks = [
    ['bert', '/v1/embeddings', { input: 'x' }],
    ['reranker', '/v1/rerank', { query: 'x', documents: ['y'] }],
  ];
  let node;
  before(async () => {
    const engines = tempDir('engines');
    const models = tempDir('models');
    copyEngine(engines, 'llama_cpp');
    for (const [id] of asks) makeGguf(models, id, '--architecture', id, '--context', '128');
    node = await startNode({ engines, models });
  });
  after(() => node.stop());

  it('proves itself by a vector when its engine is replaced, and answers as before', async () => {
    const answers = () =>
      Promise.all(asks.map(async ([model, url, body]) => (await node.post(url, { model, ...body })).json()));
    const values = (all) => all.map((a) => a.data ?? a.results);
    const first = values(await answers());
    const old = await Promise.all(asks.map(([id]) => node.worker(id)));
    assert.equal((await node.post('/v0/engines/llama_cpp/reload?force=true')).status, 200);
    for (const [i, [id]] of asks.entries())
      await until(
        'a new worker serves',
        async () => {
          const worker = await node.worker(id);
          return worker !== undefined && worker.pid !== old[i].pid;
        },
        30000,
      );
    assert.deepEqual(values(await answers()), first);
  });
});

describe('GGUF and gpt-oss in a memory that holds one of them', () => {
  let node;
  const args = ['--max-context', '512', '--max-tokens', '2048', '--max-sequences', '4'];
  const models = tempDir('models');
  before(async () => {
    makeGguf(models, 'tiny');
    copyModel(demo, models, 'demo');
    // What each takes, from a node with room for both.
    const roomy = await startNode({ models, args });
    for (const id of ['tiny', 'demo']) await generate(roomy, ask(id, 'x', { max_tokens: 1 }));
    const { claims } = (await roomy.get('/v0/memory')).pools.find((p) => p.claims.length === 2);
    await roomy.stop();
    const [less, more] = claims.map((c) => c.reserved).sort((a, b) => a - b);
    // Models may fill 90 %: room for the larger one and half of the smaller.
    const limit = Math.ceil((more + less / 2) / 0.9);
    node = await startNode({ models, args: [...args, '--ram-limit', String(limit)] });
  });
  after(() => node.stop());

  it('each is evicted for the other, as often as requests alternate', async () => {
    for (const [id, other] of [
      ['tiny', 'demo'],
      ['demo', 'tiny'],
      ['tiny', 'demo'],
    ]) {
      const answer = await generate(node, ask(id, 'x', { max_tokens: 4 }));
      assert.equal(answer.error, null, JSON.stringify(answer.error));
      assert.ok(answer.ids.length > 0);
      assert.deepEqual([(await node.model(id)).state, (await node.model(other)).state], ['ready', 'present']);
    }
  });
});
