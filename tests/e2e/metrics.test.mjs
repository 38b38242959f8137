// GET /metrics: well formed, complete, true; and the Grafana dashboard uses only exported metrics.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { startHub } from '../support/hub.mjs';
import {
  call,
  makeEcho,
  online,
  register,
  ROOT,
  say,
  startNode,
  startRouter,
  stream,
  tempDir,
  until,
} from './support.mjs';

const left = [];
let router, hub;

before(async () => {
  hub = await startHub();
  const env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  router = await startRouter({ args: ['--allow-cpu-nodes', '--hub-host', hub.storage], env });
  left.push(
    router,
    await startNode(router, {
      name: 'left "one"',
      args: ['--model', makeEcho('talk', { step_ms: 5 }), '--hub-host', hub.storage],
      env,
    }),
  );
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'talk');
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  await hub?.close();
});

// Samples by name; throws where a line is not what the format allows.
async function scrape() {
  const { text } = await call(`${router.url}/metrics`);
  const types = new Map(),
    samples = new Map(),
    seen = new Set();
  for (const line of text.trimEnd().split('\n')) {
    const type = line.match(/^# TYPE (\w+) (counter|gauge|histogram|summary)$/);
    if (type) {
      assert.ok(!types.has(type[1]), `${type[1]} twice`);
      types.set(type[1], type[2]);
      continue;
    }
    if (/^# HELP \w+ \S/.test(line)) continue;
    const [, name, labels = '', value] =
      line.match(/^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? ([0-9.e+-]+|\+Inf)$/) ?? assert.fail(line);
    const base = types.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '');
    assert.ok(types.has(base), `${name} has no type`);
    if (types.get(base) === 'counter') assert.match(name, /_total$/);
    assert.ok(!seen.has(`${name}{${labels}}`), `twice: ${line}`);
    seen.add(`${name}{${labels}}`);
    const of = Object.fromEntries(
      [...labels.matchAll(/([a-z]+)="((?:[^"\\]|\\.)*)"/g)].map(([, k, v]) => [k, v.replace(/\\(.)/g, '$1')]),
    );
    if (!samples.has(name)) samples.set(name, []);
    samples.get(name).push({ ...of, value: Number(value) });
  }
  return {
    types,
    samples,
    sum: (name, where = {}) =>
      (samples.get(`llm_router_${name}`) ?? [])
        .filter((s) => Object.entries(where).every(([k, v]) => s[k] === v))
        .reduce((n, s) => n + s.value, 0),
  };
}

const here = { node: 'left "one"', model: 'talk' };

test('requests, tokens and times are counted per node and model, and add up', async () => {
  const used = { prompt: 0, completion: 0 };
  for (let i = 0; i < 5; i++) {
    const { usage } = await stream(router.url, {
      model: 'talk',
      stream_options: { include_usage: true },
      ...say('twenty letters long..'),
    });
    used.prompt += usage.prompt_tokens;
    used.completion += usage.completion_tokens;
  }
  const m = await until('all are counted', async () => {
    const got = await scrape();
    return got.sum('model_requests_total', here) === 5 && got;
  });
  assert.equal(m.sum('model_prompt_tokens_total', here), used.prompt);
  assert.equal(m.sum('model_completion_tokens_total', here), used.completion);
  assert.equal(m.sum('prompt_tokens_total'), used.prompt);
  assert.equal(m.sum('completion_tokens_total'), used.completion);
  assert.equal(m.sum('first_token_seconds_count'), 5);
  assert.equal(m.sum('model_first_token_seconds_count', here), 5);
  assert.ok(m.sum('model_first_token_seconds_sum', here) > 0);
  const each = m.sum('model_inter_token_seconds_sum', here) / m.sum('model_inter_token_seconds_count', here);
  assert.ok(each > 0.003 && each < 1, `${each} s between tokens of an engine that takes 5 ms`);
  assert.equal(m.sum('model_loaded', here), 1);
  assert.equal(m.sum('node_up'), 1);
  assert.ok(m.sum('node_memory_total_bytes') >= m.sum('node_memory_used_bytes') && m.sum('node_memory_used_bytes') > 0);
});

test('histograms only grow from bucket to bucket and end in their count', async () => {
  const { types, samples } = await scrape();
  for (const [name, type] of types) {
    if (type !== 'histogram') continue;
    const values = samples.get(`${name}_bucket`).map((s) => s.value);
    assert.deepEqual(
      [...values].sort((a, b) => a - b),
      values,
      name,
    );
    assert.equal(samples.get(`${name}_bucket`).at(-1).le, '+Inf');
    assert.equal(values.at(-1), samples.get(`${name}_count`)[0].value, name);
  }
});

test('a client that disconnects counts as cancelled, for the router and for the model', async () => {
  const before = await scrape();
  const controller = new AbortController();
  await stream(
    router.url,
    { model: 'talk', ...say('x'.repeat(400)) },
    { signal: controller.signal, onChunk: () => controller.abort() },
  ).catch(() => {});
  const now = await until('it is counted', async () => {
    const got = await scrape();
    const isCounted = (name, where) => got.sum(name, where) > before.sum(name, where);
    return isCounted('model_cancelled_total', here) && isCounted('cancelled_total') && got;
  });
  assert.equal(now.sum('model_cancelled_total', here), before.sum('model_cancelled_total', here) + 1);
  assert.equal(now.sum('cancelled_total'), before.sum('cancelled_total') + 1);
});

test('a running download has its size and speed in the metrics, and the Grafana dashboard uses only exported metrics', async () => {
  const weights = Buffer.alloc(4 << 20);
  hub.add('acme/slow', {
    'config.json': '{"architectures":["EchoForTesting"],"model_type":"echo"}',
    'tokenizer.json': '{}',
    'model.safetensors': weights,
  });
  hub.script(
    'model.safetensors',
    Array.from({ length: 8 }, () => ({ rate: 512 << 10 })),
  );
  assert.equal((await call(`${router.url}/v0/models/register`, { body: { repo: 'acme/slow' } })).status, 201);
  const m = await until('bytes arrive', async () => {
    const got = await scrape();
    return got.sum('model_fetched_bytes', { model: 'acme/slow' }) > 0 && got;
  });
  assert.ok(m.sum('model_fetch_size_bytes', { model: 'acme/slow' }) >= weights.length);
  assert.equal(m.sum('node_downloads'), 1);
  const page = JSON.parse(fs.readFileSync(path.join(ROOT, 'docs/grafana.json'), 'utf8'));
  const named = new Set(page.panels.flatMap((p) => p.targets).flatMap((t) => t.expr.match(/llm_router_\w+/g)));
  for (const name of named) assert.ok(m.samples.has(name), `${name} is not exported`);
  for (const word of [
    'answers',
    'queued',
    'first_token',
    'inter_token',
    'completion_tokens',
    'cancelled',
    'retries',
    'continuations',
    'preempted',
    'download',
    'memory',
  ])
    assert.ok(
      [...named].some((name) => name.includes(word)),
      `the dashboard shows ${word}`,
    );
});
