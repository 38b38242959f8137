// GET /v0/logs: the last log lines of the node and its engines.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { ask, generate, makeModel, startNode, tempDir, until } from './node_harness.mjs';

describe('the log of a node', () => {
  let node;
  const secret = 'a-secret-of-this-test';
  const headers = { authorization: `Bearer ${secret}` };
  const logs = async (query = '') => {
    const response = await fetch(`${node.url}/v0/logs${query}`, { headers });
    return { status: response.status, ...(await response.json()) };
  };
  before(async () => {
    const models = tempDir('models');
    makeModel(models, 'noisy', 'faulty', { noise: true });
    node = await startNode({ models, args: ['--node-secret', secret] });
  });
  after(() => node.stop());

  it('needs the secret of the node', async () => {
    assert.equal((await fetch(`${node.url}/v0/logs`)).status, 401);
    assert.equal((await logs()).status, 200);
  });

  it('ends with the newest line, engine output included', async () => {
    await generate(node, ask('noisy', 'ok'), { headers });
    const { lines } = await until('the output', async () => {
      const all = await logs();
      const has = (words) => all.lines.some((l) => words.test(l.text));
      return has(/writes to stderr/) && has(/a plugin writes to stdout/) && all;
    });
    const out = lines.find((l) => /a plugin writes to stdout/.test(l.text));
    assert.match(out.text, /^engine\.output engine=faulty model=noisy pid=\d+ /);
    assert.equal(out.level, 'warn');
    assert.ok(lines.some((l) => l.level === 'info' && l.text.startsWith('worker.ready model=noisy')));
    for (const [i, line] of lines.entries()) {
      assert.match(line.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.ok(i === 0 || lines[i - 1].time <= line.time);
    }
    // Lines may still come between the two questions.
    await until('one line is the newest one', async () => {
      const [one, all] = [await logs('?lines=1'), await logs()];
      return one.lines.length === 1 && isDeepStrictEqual(one.lines[0], all.lines.at(-1));
    });
  });

  it('has a limited size, and so has the number of requested lines', async () => {
    assert.equal((await generate(node, ask('noisy', 'n'.repeat(1100)), { headers })).done.reason, 'stop'); // two lines a token
    await until('a full ring', async () => (await logs('?lines=2000')).lines.length === 2000);
    assert.equal((await logs()).lines.length, 200);
    for (const bad of ['0', '2001', '-1', 'all', '']) {
      const answer = await logs(`?lines=${bad}`);
      assert.equal(answer.status, 400, bad);
      assert.match(answer.error.message, /1 to 2000/);
    }
  });
});
