// Unusual calls and inputs: signals in bad moments, operators who change their minds, malformed
// bodies.  No request is lost, no process crashes.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ask, children, generate, isAlive, makeModel, sleep, startNode, tempDir, until } from './node_harness.mjs';

const models = tempDir('models');
makeModel(models, 'fast');
makeModel(models, 'slow', 'echo', { step_ms: 10 });
makeModel(models, 'loading', 'echo', { load_ms: 800 });

describe('a node in unusual moments', () => {
  let node;
  before(async () => {
    node = await startNode({ models, args: ['--max-sequences', '4'] });
  });
  after(() => node.stop());

  it('refuses malformed bodies and continues', async () => {
    const base = ask('fast', 'x');
    const bodies = [
      '',
      '{',
      'null',
      '[]',
      '"x"',
      '['.repeat(100000),
      '{"a":'.repeat(100000),
      '{"model":{}}',
      '{"model":"fast","segments":[{"text":5}]}',
      '{"model":"fast","segments":[{"text":"\\ud800"}]}',
      ...[
        { max_tokens: -1 },
        { max_tokens: 1e300 },
        { seed: 1.5 },
        { deadline_ms: -5 },
        { protocol: 99 },
        { generated: [-1] },
        { sampling: { temperature: 'hot' } },
        { model: '../../etc/passwd' },
        { model: 'fast\u0000' },
        { priority: 1e30 },
      ].map((extra) => JSON.stringify({ ...base, ...extra })),
    ];
    for (const where of ['/v0/generate', '/v1/chat/completions', '/v1/completions'])
      for (const body of bodies) {
        const answer = await fetch(node.url + where, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json' },
        });
        const text = await answer.text();
        assert.ok(
          answer.status >= 400 && answer.status < 500,
          `${where} ${body.slice(0, 80)}: ${answer.status} ${text.slice(0, 200)}`,
        );
        assert.ok(JSON.parse(text).error.message.length > 0);
      }
    assert.equal((await generate(node, ask('fast', 'still here'))).text, 'still here');
  });

  it('rescans on each of many SIGHUPs, and loses nothing', async () => {
    const answers = Array.from({ length: 8 }, () => generate(node, ask('slow', 'w'.repeat(30))));
    for (let i = 0; i < 30; i++) {
      node.child.kill('SIGHUP');
      await sleep(5); // apart, so that they are not one signal
    }
    for (const answer of await Promise.all(answers)) assert.equal(answer.text, 'w'.repeat(30));
  });

  it('serves all requests while a model is loaded, unloaded and pinned again and again', async () => {
    const words = ['load', 'unload', 'pin', 'unpin', 'load', 'unload'];
    const all = Array.from({ length: 60 }, async (_, i) => {
      const [said, answer] = await Promise.all([
        node.post(`/v0/models/fast/${words[i % words.length]}`),
        generate(node, ask('fast', `n${i}`)),
      ]);
      assert.ok([200, 202, 409].includes(said.status), `${words[i % words.length]}: ${said.status}`);
      assert.equal(answer.text, `n${i}`);
    });
    await Promise.all(all);
  });

  it('loads again for waiting requests when the worker is killed during a load', async () => {
    const answer = generate(node, ask('loading', 'x'));
    const pid = await until('loading', async () => {
      const model = await node.model('loading');
      return model.state === 'loading' && model.workers[0]?.pid;
    });
    process.kill(pid, 'SIGKILL');
    assert.equal((await answer).text, 'x');
  });
});

describe('a node that is told to stop', () => {
  it('while it loads, first serves the requests that wait for the load', async () => {
    const node = await startNode({ models });
    const answer = generate(node, ask('loading', 'x'));
    await until('loading', async () => (await node.model('loading')).state === 'loading');
    node.child.kill('SIGTERM');
    assert.equal((await answer).text, 'x');
    assert.equal((await node.stop()).code, 0);
  });

  for (const [first, second] of [
    ['SIGINT', 'SIGTERM'],
    ['SIGTERM', 'SIGINT'],
  ])
    it(`by ${first} and at once by ${second}, ends its workers and tells its clients`, async () => {
      const node = await startNode({ models });
      const answer = generate(node, ask('slow', 'e'.repeat(400))); // four seconds
      await until('it runs', async () => (await node.worker('slow'))?.live === 1);
      const workers = children(node.pid);
      node.child.kill(first);
      node.child.kill(second);
      assert.equal((await answer).error.code, 'UNAVAILABLE');
      assert.equal((await node.stop()).code, 0);
      await until('no worker is left', () => workers.every((pid) => !isAlive(pid)));
    });
});
