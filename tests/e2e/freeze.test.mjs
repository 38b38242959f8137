// The work for a request is proportional to its size: no schema stops a router or a worker, and a request that its key does not allow is refused before any work.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fleet, makeKey } from './fleet.mjs';
import { call, LONG, makeEcho, nodes, say, sleep, stopwatch, stream, until } from './support.mjs';

// Two alternatives whose constants overlap in one value, in each of 120 properties: 49 KB.
function schema() {
  const list = (letter) => [...Array.from({ length: 3000 }, (_, i) => letter + i.toString(16).padStart(3, '0')), 'zz'];
  const names = Array.from({ length: 120 }, (_, i) => `p${i.toString(16)}`);
  const alternative = (def) => ({
    type: 'object',
    properties: Object.fromEntries(names.map((n) => [n, { $ref: `#/$defs/${def}` }])),
    required: names,
    additionalProperties: false,
  });
  return { $defs: { A: { enum: list('a') }, B: { enum: list('b') } }, oneOf: [alternative('A'), alternative('B')] };
}
const asFormat = {
  response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema: schema() } },
};
const asTool = { tools: [{ type: 'function', function: { name: 'f', strict: true, parameters: schema() } }] };
const ask = (router, more, key) =>
  call(`${router.url}/v1/chat/completions`, { key, body: { model: 'm', ...say('x'), ...more } });

// Milliseconds of CPU a process has used.
function cpu(pid) {
  const fields = fs
    .readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

test('a schema of 49 KB, ten times a second, costs the router little and does not delay other streams', async () => {
  const { router } = await fleet(1, makeEcho('m', { step_ms: 10 }));
  const seconds = LONG ? 10 : 2;
  let last = stopwatch(),
    gap = 0,
    isRunning = false;
  const running = stream(
    router.url,
    { model: 'm', ...say('x'.repeat(seconds * 100)) },
    {
      onChunk: () => {
        isRunning = true;
        gap = Math.max(gap, last.ms);
        last = stopwatch();
      },
    },
  );
  await until('the stream runs', () => isRunning);
  gap = 0;
  const before = cpu(router.pid),
    answers = [];
  for (let i = 0; i < seconds * 10; i++) {
    answers.push(ask(router, i % 2 ? asFormat : asTool));
    await sleep(100);
  }
  for (const answer of await Promise.all(answers)) {
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.json.error.message, /need more than \d+ steps of work together/);
  }
  const each = (cpu(router.pid) - before) / answers.length;
  assert.ok(each < 60, `${each} ms of CPU for each schema`);
  const out = await running;
  assert.ok(out.done && out.text.length === seconds * 100, JSON.stringify(out).slice(0, 200));
  assert.ok(gap < 500, `the stream stood for ${gap} ms`);
  assert.equal((await nodes(router))[0].models[0].state, 'ready');
  assert.equal((await nodes(router))[0].online, true);
});

test('a request of a key that may not use the model, or is over its rate, is refused before it is parsed', async () => {
  const { router } = await fleet(1, makeEcho('m'));
  const other = await makeKey(router, { models: ['another'] });
  assert.equal((await ask(router, asFormat, other.key)).status, 404);
  assert.equal((await ask(router, { no_such_field: 1 }, other.key)).status, 404);
  const slow = await makeKey(router, { requests_per_minute: 1 });
  assert.equal((await ask(router, asFormat, slow.key)).status, 400, 'what is refused counts');
  const over = await call(`${router.url}/v1/chat/completions`, { key: slow.key, raw: 'no JSON at all' });
  assert.equal(over.status, 429, over.text);
  assert.ok(Number(over.headers.get('retry-after')) > 0);
  assert.equal((await ask(router, {})).status, 200);
});
