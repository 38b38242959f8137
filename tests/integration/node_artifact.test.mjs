// a publisher's artifact is run where it is wanted, and the safetensors where it
// is broken; and the real engine through the whole node.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ask, BIN, generate, startNode, tempDir } from './node_harness.mjs';

const demo = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../models/demo');
const question = ask('demo', '<|start|>user<|message|>Hello<|end|><|start|>assistant',
  { max_tokens: 12, temperature: 0,
    segments: [{ text: '<|start|>user<|message|>', control: true },
      { text: 'What is your name?', control: false },
      { text: '<|end|><|start|>assistant', control: true }] });

async function answerOf(args) {
  const node = await startNode({ args: ['--model', demo, ...args] });
  try {
    const answer = await generate(node, question);
    assert.equal(answer.error, null, answer.error?.message);
    return { ids: answer.ids, log: node.log };
  } finally {
    await node.stop();
  }
}

describe('the demo model on the gptoss engine', () => {
  it('answers, and from its artifact the same', async () => {
    const artifact = path.join(tempDir('artifact'), 'model.bin');
    execFileSync(BIN, ['debug', 'write-metal', '--model', demo, '--output', artifact]);
    const original = await answerOf([]);
    assert.ok(original.ids.length > 3);
    assert.match(original.log, /worker\.start .*weights="the model's own"/);
    const forced = await answerOf(['--artifact', artifact]);
    assert.match(forced.log, /worker\.start .*weights=\S*model\.bin/);
    assert.deepEqual(forced.ids, original.ids);

    fs.truncateSync(artifact, 1000);
    const broken = await answerOf(['--artifact', artifact]);
    // The engine itself may fall back, or the node after the engine refused.
    assert.match(broken.log, /warn (engine\.log|model\.artifact_refused) .*model\.bin/);
    assert.match(broken.log, /weights=safetensors/);
    assert.deepEqual(broken.ids, original.ids);
  });

  it('answers a chat completion with content', async () => {
    const node = await startNode({ args: ['--model', demo] });
    const response = await node.post('/v1/chat/completions', { model: 'demo', temperature: 0,
      max_tokens: 60, messages: [{ role: 'user', content: 'Hello' }] });
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    const { message } = body.choices[0];
    assert.ok((message.content ?? '') + (message.reasoning_content ?? ''), JSON.stringify(body));
    assert.doesNotMatch(JSON.stringify(message), /<\|/);
    await node.stop();
  });
});
