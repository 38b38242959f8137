// DELETE /v0/generate/{request_id} when the worker dies before it has cancelled the request.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ask, children, events, generate, makeModel, startNode, tempDir, until } from './node_harness.mjs';

describe('a cancelled generation', () => {
  let node;
  const models = tempDir('models');
  const gate = path.join(models, 'gate');
  before(async () => {
    makeModel(models, 'gated', 'echo', { gate });
    node = await startNode({ models });
  });
  after(() => node.stop());

  it('ends as cancelled if its worker dies meanwhile, and is not tried again', async () => {
    fs.writeFileSync(gate, '...');
    const body = ask('gated', 'an answer that is long');
    const seen = { ids: [], done: null };
    const ended = (async () => {
      for await (const event of events(node, body)) {
        if (event.event === 'token') seen.ids.push(event.id);
        if (event.event === 'done') seen.done = event;
      }
    })();
    await until('three tokens', () => seen.ids.length === 3);
    const [worker] = children(node.pid);
    process.kill(worker, 'SIGSTOP'); // so that it does not obey
    const stopped = await fetch(`${node.url}/v0/generate/${body.request_id}`, { method: 'DELETE' });
    assert.equal(stopped.status, 200);
    fs.writeFileSync(gate, '.'.repeat(99)); // the next worker could make all of it
    process.kill(worker, 'SIGKILL');
    await ended;
    assert.equal(seen.done.reason, 'cancelled');
    assert.equal(seen.ids.length, 3, 'no token of an answer nobody wants');
    assert.equal(seen.done.usage.completion_tokens, 3);
    assert.equal((await generate(node, ask('gated', 'next'))).text, 'next');
  });
});
