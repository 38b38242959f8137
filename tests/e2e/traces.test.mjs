// Traces of requests at a collector of OpenTelemetry.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { attributes, checkSpans, startCollector } from '../support/collector.mjs';
import { fleet, keep } from './fleet.mjs';
import { call, makeEcho, say, startRouter, stream, until } from './support.mjs';

let collector, router;
const SECRETS = ['a prompt that no trace has', 'made-up-tool'];

before(async () => {
  collector = await startCollector();
  ({ router } = await fleet(1, makeEcho('m'), {
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20token,x-tenant=a',
      OTEL_SERVICE_NAME: 'fleet-1',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.name=other',
    },
  }));
});
after(() => collector.close());

const chat = (body, headers = {}, at = router) =>
  call(`${at.url}/v1/chat/completions`, { body: { model: 'm', ...body }, headers });
const idOf = (answer) => answer.headers.get('traceparent').split('-')[1];
const traceOf = (answer, at = collector) =>
  until('the trace', () => at.of(idOf(answer)).some((s) => s.kind === 2) && at.of(idOf(answer)));
const metric = async (name, at = router) =>
  Number((await call(`${at.url}/metrics`)).text.match(new RegExp(`^llm_router_${name} (\\d+)`, 'm'))[1]);

test('a request is a trace of request, queue, attempt, prefill and decode, with the attributes of GenAI and no text', async () => {
  const answer = await chat(say(SECRETS[0], { max_tokens: 5 }), { 'x-request-id': 'mine-1' });
  assert.equal(answer.status, 200, answer.text);
  const spans = await traceOf(answer);
  const byId = checkSpans(spans);
  const root = spans.find((s) => s.kind === 2);
  assert.deepEqual(
    [root.name, root.parentSpanId, root.spanId],
    ['chat m', undefined, answer.headers.get('traceparent').split('-')[2]],
  );
  const parentOf = (name) => byId.get(spans.find((s) => s.name === name).parentSpanId).name;
  assert.deepEqual(spans.map((s) => s.name).sort(), ['attempt', 'chat m', 'decode', 'prefill', 'queue']);
  assert.deepEqual(['queue', 'attempt', 'prefill', 'decode'].map(parentOf), ['chat m', 'chat m', 'attempt', 'attempt']);
  const seen = attributes(root.attributes);
  assert.deepEqual(
    [
      ...['gen_ai.operation.name', 'gen_ai.request.model', 'gen_ai.response.model', 'gen_ai.usage.output_tokens'],
      ...[
        'http.response.status_code',
        'http.route',
        'llm_router.request_id',
        'llm_router.stream',
        'gen_ai.provider.name',
      ],
    ].map((key) => seen[key]),
    ['chat', 'm', 'm', 5, 200, '/v1/chat/completions', 'mine-1', false, 'llm-router'],
  );
  assert.equal(seen['gen_ai.usage.input_tokens'], answer.json.usage.prompt_tokens);
  const attempt = spans.find((s) => s.name === 'attempt');
  assert.deepEqual([attempt.kind, attempt.status], [3, {}]);
  assert.match(attributes(attempt.attributes)['llm_router.node'], /^node-/);
  assert.equal(attributes(spans.find((s) => s.name === 'decode').attributes)['gen_ai.usage.output_tokens'], 5);
  const wall = Number(BigInt(root.startTimeUnixNano) / 1000000n);
  assert.ok(Math.abs(wall - Date.now()) < 60000, 'the time of day');
  const [{ path, headers, body }] = collector.requests;
  assert.deepEqual(
    [path, headers['content-type'], headers.authorization, headers['x-tenant']],
    ['/v1/traces', 'application/json', 'Bearer token', 'a'],
  );
  const resource = attributes(body.resourceSpans[0].resource.attributes);
  assert.deepEqual([resource['service.name'], resource['deployment.environment.name']], ['fleet-1', 'test']);
  assert.equal(body.resourceSpans[0].scopeSpans[0].scope.name, 'llm-router');
});

test("the client's traceparent is the parent, its decision counts, and tracestate is passed on", async () => {
  const id = '0af7651916cd43dd8448eb211c80319c';
  const ask = (flags, headers = {}) =>
    chat(say('hello'), { traceparent: `00-${id}-b7ad6b7169203331-${flags}`, tracestate: 'a=1,b=2', ...headers });
  const dropped = await ask('00');
  assert.match(dropped.headers.get('traceparent'), new RegExp(`^00-${id}-(?!b7ad6b7169203331)[0-9a-f]{16}-00$`));
  const kept = await ask('01');
  assert.match(kept.headers.get('traceparent'), new RegExp(`^00-${id}-[0-9a-f]{16}-01$`));
  assert.equal(kept.headers.get('tracestate'), 'a=1,b=2');
  const spans = await traceOf(kept);
  const roots = spans.filter((s) => s.kind === 2);
  assert.equal(roots.length, 1, 'the request that the client does not trace is not there');
  assert.deepEqual([roots[0].parentSpanId, roots[0].traceState], ['b7ad6b7169203331', 'a=1,b=2']);
  for (const bad of [
    '',
    'nonsense',
    `00-${id}-0000000000000000-01`,
    `00-${id.toUpperCase()}-b7ad6b7169203331-01`,
    `ff-${id}-b7ad6b7169203331-01`,
  ]) {
    const answer = await chat(say('hello'), { traceparent: bad });
    assert.equal(answer.status, 200);
    assert.notEqual(idOf(answer), id, bad);
  }
});

test('a refused request and a stream are traces, too', async () => {
  const absent = await chat({ model: 'absent', ...say('x') });
  assert.equal(absent.status, 404);
  const [root] = await traceOf(absent);
  assert.deepEqual(
    [
      attributes(root.attributes)['http.response.status_code'],
      attributes(root.attributes)['gen_ai.request.model'],
      root.status,
    ],
    [404, 'absent', {}],
  );
  const streamed = await stream(router.url, { model: 'm', ...say('one two three') });
  const spans = await traceOf(streamed);
  const seen = attributes(spans.find((s) => s.kind === 2).attributes);
  assert.equal(seen['llm_router.stream'], true);
  assert.ok(seen['llm_router.time_to_first_token_us'] > 0);
});

test('a tool call in the answer is an event of the request, with the name of a tool of the request and no arguments', async () => {
  const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }];
  const text = '<tool_call>{"name": "look", "arguments": {"secret": "made-up-tool"}}</tool_call>';
  const answer = await chat({ ...say(text, { max_tokens: 400 }), tools });
  const spans = await traceOf(answer);
  const root = spans.find((s) => s.kind === 2);
  const calls = answer.json.choices[0].message.tool_calls ?? [];
  const events = (root.events ?? []).map((e) => [e.name, attributes(e.attributes)['gen_ai.tool.name']]);
  assert.ok(calls.length > 0, answer.text);
  assert.deepEqual(
    events,
    calls.map((c) => ['gen_ai.tool.call', c.function.name === 'look' ? 'look' : '_other']),
  );
});

test('no text of a prompt or an answer was sent', () => {
  const all = JSON.stringify(collector.requests.map((r) => r.body));
  for (const secret of SECRETS) assert.ok(!all.includes(secret), secret);
});

test('a collector that is away, slow or busy costs no request: batches are repeated after Retry-After, spans beyond the buffer are counted', async () => {
  const own = await startCollector();
  const it = keep(
    await startRouter({ args: ['--trace-endpoint', `${own.url}/custom`], env: { OTEL_BSP_MAX_QUEUE_SIZE: '200' } }),
  );
  let release;
  const gate = new Promise((done) => {
    release = done;
  });
  own.answer = (n) =>
    n === 1
      ? { status: 429, headers: { 'retry-after': '2' } }
      : n === 2
        ? { status: 200, wait: gate }
        : { status: 200 };
  const ask = () => chat({ model: 'absent', ...say('x') }, {}, it);
  assert.equal((await ask()).status, 404);
  await until('the first try', () => own.requests.length === 1);
  await until('the second try', () => own.requests.length === 2);
  assert.ok(own.requests[1].at - own.requests[0].at >= 1900, 'after Retry-After');
  assert.deepEqual(own.requests[1].body, own.requests[0].body);
  assert.equal(own.requests[0].path, '/custom');
  // The collector hangs: requests go on, and the buffer has an end.
  const many = 500;
  for (let i = 0; i < many; i += 100) await Promise.all(Array.from({ length: 100 }, ask));
  const dropped = await metric('trace_spans_dropped_total', it);
  assert.ok(dropped >= many - 200 - 128 && dropped <= many - 200, `${dropped} dropped`);
  release();
  await until('all others are there', async () => (await metric('trace_spans_sent_total', it)) === 1 + many - dropped);
  own.answer = () => ({ status: 400 });
  await ask();
  await until('it is counted', async () => (await metric('trace_spans_refused_total', it)) === 1);
  await until('the log has it', () => /trace\.not_sent.*answered 400/.test(it.log));
  own.close();
  await ask();
  const stopping = Date.now();
  await it.stop();
  assert.ok(Date.now() - stopping < 15000, 'a collector that is gone does not hold up the end');
});

test('sampling: a ratio takes its part, always_off none, and OTEL_SDK_DISABLED turns traces off', async () => {
  const own = await startCollector();
  const start = async (env) =>
    keep(await startRouter({ env: { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: own.url, ...env } }));
  const flags = async (at, n, headers = {}) => {
    const all = await Promise.all(Array.from({ length: n }, () => chat({ model: 'absent', ...say('x') }, headers, at)));
    return all.map((a) => a.headers.get('traceparent')?.slice(-2));
  };
  const some = await start({ OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' });
  const taken = (await flags(some, 400)).filter((f) => f === '01').length;
  assert.ok(taken > 55 && taken < 145, `${taken} of 400`); // 100, and five times the deviation
  const parent = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
  assert.deepEqual(new Set(await flags(some, 20, parent)), new Set(['01']));
  const none = await start({ OTEL_TRACES_SAMPLER: 'always_off' });
  assert.deepEqual(new Set(await flags(none, 20, parent)), new Set(['00']));
  const off = await start({ OTEL_SDK_DISABLED: 'true' });
  assert.deepEqual(new Set(await flags(off, 3)), new Set([undefined]));
  await assert.rejects(
    startRouter({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: own.url, OTEL_TRACES_SAMPLER: 'sometimes' } }),
    /parentbased_/,
  );
  await assert.rejects(startRouter({ args: ['--trace-endpoint', 'nowhere'] }), /trace-endpoint/);
  await assert.rejects(startRouter({ args: ['--trace-endpoint', own.url, '--trace-sample', '2'] }), /0 to 1/);
  own.close();
});
