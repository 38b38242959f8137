// A publisher's artifact is run if it fits the backend, and the safetensors if it
// is broken; and the real engine through the whole node.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ask, BIN, copyEngine, generate, makeModel, startNode, tempDir } from './node_harness.mjs';

const demo = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../models/demo');
const question = ask('demo', '<|start|>user<|message|>Hello<|end|><|start|>assistant', {
  max_tokens: 12,
  temperature: 0,
  segments: [
    { text: '<|start|>user<|message|>', control: true },
    { text: 'What is your name?', control: false },
    { text: '<|end|><|start|>assistant', control: true },
  ],
});

async function answerOf(args) {
  const node = await startNode({ args: ['--model', demo, ...args] });
  try {
    const answer = await generate(node, question);
    assert.equal(answer.error, null, answer.error?.message);
    return { ids: answer.ids, node }; // its log is whole when it has stopped
  } finally {
    await node.stop();
  }
}

// A Metal machine, played by the echo engine, which says what it has loaded.
describe('an artifact of this backend', () => {
  const engines = tempDir('engines');
  const folder = copyEngine(engines, 'echo');
  const manifest = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')));
  fs.writeFileSync(path.join(folder, 'manifest.json'), JSON.stringify({ ...manifest, backends: ['cpu', 'metal'] }));

  async function loaded({ bytes = 'ARTIFACT', device = 'metal', args = [] }) {
    const models = tempDir('models');
    const dir = makeModel(models, 'm', 'echo', { say_weights: true });
    fs.mkdirSync(path.join(dir, 'metal'));
    fs.writeFileSync(path.join(dir, 'metal/model.bin'), bytes);
    const env = { LR_METAL_LIBRARY: '/played/by/the/echo/engine' };
    const node = await startNode({ engines, models, device, args, env });
    try {
      const answer = await generate(node, ask('m', 'x'));
      return { text: answer.text, node, model: await node.model('m') };
    } finally {
      await node.stop();
    }
  }

  it('is preferred, and the log says so', async () => {
    const { text, node } = await loaded({});
    assert.equal(text, 'artifact');
    assert.match(node.log, /worker\.start model=m .*weights=\S*\/metal\/model\.bin/);
  });
  it('is not, with --no-artifacts or on another backend', async () => {
    assert.equal((await loaded({ args: ['--no-artifacts'] })).text, 'safetensors');
    assert.equal((await loaded({ device: 'cpu' })).text, 'safetensors');
  });
  // Found broken when it is probed, and only when it is loaded.
  for (const bytes of ['broken', 'ART, but broken further on'])
    it(`that is corrupt ("${bytes}") is replaced by the safetensors, with a warning`, async () => {
      const { text, node, model } = await loaded({ bytes });
      assert.equal(text, 'safetensors');
      assert.match(node.log, /warn model\.artifact_refused model=m artifact=\S*model\.bin reason=".*no artifact/);
      assert.equal(model.state, 'ready');
    });
  it('of DirectML that is forced fails the load and says where to get the runtime', async () => {
    const models = tempDir('models');
    const dir = makeModel(models, 'm', 'echo');
    const artifact = path.join(dir, 'model.directml.bin');
    fs.writeFileSync(artifact, 'DirectML');
    const node = await startNode({ models, args: ['--artifact', artifact] });
    const answer = await generate(node, ask('m', 'x'));
    assert.equal(answer.error.code, 'UNSUPPORTED');
    const model = await node.model('m');
    assert.equal(model.state, 'failed');
    assert.match(
      model.reason,
      /^model\.directml\.bin is a DirectML artifact .*DirectML\.dll from https:.*--device vulkan/,
    );
    await node.stop();
  });
});

describe('the demo model on the gptoss engine', () => {
  it('answers, and from its artifact the same', async () => {
    const artifact = path.join(tempDir('artifact'), 'model.bin');
    execFileSync(BIN, ['debug', 'write-metal', '--model', demo, '--output', artifact]);
    const original = await answerOf([]);
    assert.ok(original.ids.length > 3);
    assert.match(original.node.log, /worker\.start .*weights="the model's own"/);
    const forced = await answerOf(['--artifact', artifact]);
    assert.match(forced.node.log, /worker\.start .*weights=\S*model\.bin/);
    assert.deepEqual(forced.ids, original.ids);

    fs.truncateSync(artifact, 1000);
    const broken = await answerOf(['--artifact', artifact]);
    // The engine itself may fall back, or the node after the engine refused.
    assert.match(broken.node.log, /warn (engine\.log|model\.artifact_refused) .*model\.bin/);
    assert.match(broken.node.log, /weights=safetensors/);
    assert.deepEqual(broken.ids, original.ids);
  });

  it('answers a chat completion with content', async () => {
    const node = await startNode({ args: ['--model', demo] });
    const response = await node.post('/v1/chat/completions', {
      model: 'demo',
      temperature: 0,
      max_tokens: 60,
      messages: [{ role: 'user', content: 'Hello' }],
    });
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    const { message } = body.choices[0];
    assert.ok((message.content ?? '') + (message.reasoning_content ?? ''), JSON.stringify(body));
    assert.doesNotMatch(JSON.stringify(message), /<\|/);
    await node.stop();
  });
});
