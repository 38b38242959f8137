// docs/openapi.yaml against the route table and against what the server answers.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { call, makeEcho, ROOT, say, startUp } from './support.mjs';

// The page keeps to a plain form, so that reading it needs no library.
const lines = fs.readFileSync(path.join(ROOT, 'docs/openapi.yaml'), 'utf8').split('\n');
const operations = [],
  schemas = {};
for (let i = 0, at = '', schema = ''; i < lines.length; i++) {
  const line = lines[i];
  if (/^ {2}\//.test(line)) at = line.trim().slice(0, -1);
  const method = line.match(/^ {4}(get|post|patch|delete):$/)?.[1];
  if (method) operations.push({ method: method.toUpperCase(), path: at });
  const id = line.match(/^ {6}operationId: (\w+)$/)?.[1];
  if (id) operations.at(-1).id = id;
  const role = line.match(/^ {6}x-role: (\w+)$/)?.[1];
  if (role) operations.at(-1).role = role;
  const code = line.match(/^ {8}"(\d+)":$/)?.[1];
  if (code) (operations.at(-1).codes ??= []).push(code);
  const answer = line.match(/schemas\/(\w+)'/)?.[1];
  if (answer && !/Error$/.test(answer) && !answer.endsWith('Request')) operations.at(-1).schema ??= answer;
  schema = line.match(/^ {4}([A-Z]\w+):$/)?.[1] ?? schema;
  const member = line.match(/^ {8}(\w+): \{type: (\w+)/);
  if (member && schema) (schemas[schema] ??= {})[member[1]] = member[2];
}

test('a change by an admin can fail without a database or node: every such route lists 503', () => {
  const changes = operations.filter((o) => o.role === 'admin' && o.method !== 'GET');
  assert.ok(changes.length >= 14);
  assert.deepEqual(
    changes.filter((o) => !o.codes.includes('503')).map((o) => `${o.method} ${o.path}`),
    [],
  );
});

test('every operation has an operationId of its own, from which generators make names', () => {
  assert.deepEqual(
    operations.filter((o) => !/^[a-z][A-Za-z]+$/.test(o.id)).map((o) => `${o.method} ${o.path}`),
    [],
  );
  assert.equal(new Set(operations.map((o) => o.id)).size, operations.length);
});

test("redocly's recommended rules have neither an error nor a warning for the page", async () => {
  const lint = path.join(ROOT, 'tests/node_modules/@redocly/cli/bin/cli.js');
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [lint, 'lint', '--extends=recommended', '--format=json', path.join(ROOT, 'docs/openapi.yaml')],
    { env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' } },
  ).catch((failed) => failed);
  const { totals, problems } = JSON.parse(stdout);
  assert.deepEqual([totals, problems], [{ errors: 0, warnings: 0, ignored: 0 }, []]);
});

test('the page lists every route of the table with its role, and no other route', () => {
  const table = fs.readFileSync(path.join(ROOT, 'src/router/http/routes.c'), 'utf8');
  const codecs = fs.readFileSync(path.join(ROOT, 'src/chat/codec.h'), 'utf8');
  const routes = [...table.matchAll(/^ {4}\{\{"(\w+)", "([^"]*)"\}, ROUTER_(\w+),/gm)]
    .map(([, method, pattern, role]) => `${method} /${pattern.replace('**', '*')} ${role.toLowerCase()}`)
    .concat([...codecs.matchAll(/^ {4}X\("([^"]+)",/gm)].map(([, pattern]) => `POST /${pattern} api`))
    .sort();
  const listed = operations.map((o) => `${o.method} ${o.path.replace(/\{\w+\}/g, '*')} ${o.role}`).sort();
  assert.deepEqual(listed, routes);
});

let up;
before(async () => {
  up = await startUp({ args: ['--model', makeEcho('doc')] });
});
after(() => up?.stop());

test('the answers of the server have the members that the page lists', async () => {
  const [node] = (await call(`${up.url}/v0/nodes`)).json.nodes;
  const seen = [];
  const check = async (method, template, url, options) => {
    const operation = operations.find((o) => o.method === method && o.path === template);
    const answer = await call(`${up.url}${url}`, { method, ...options });
    assert.ok(answer.status < 300, `${method} ${url}: ${answer.text}`);
    for (const [name, type] of Object.entries(schemas[operation.schema] ?? {})) {
      const value = answer.json[name];
      const kind = Array.isArray(value) ? 'array' : Number.isInteger(value) ? 'integer' : typeof value;
      assert.equal(kind, type, `${name} of ${method} ${url}`);
    }
    seen.push(template);
    return answer.json;
  };
  await check('POST', '/v1/chat/completions', '/v1/chat/completions', { body: { model: 'doc', ...say('hi') } });
  const { id } = await check('POST', '/v1/responses', '/v1/responses', { body: { model: 'doc', input: 'hi' } });
  await check('GET', '/v1/responses/{id}', `/v1/responses/${id}`);
  await check('GET', '/v1/responses/{id}/input_items', `/v1/responses/${id}/input_items`);
  await check('DELETE', '/v1/responses/{id}', `/v1/responses/${id}`);
  await check('POST', '/v1/responses/input_tokens', '/v1/responses/input_tokens', {
    body: { model: 'doc', input: 'hi' },
  });
  await check('POST', '/v1/messages', '/v1/messages', { body: { model: 'doc', ...say('hi') } });
  await check('POST', '/v1/messages/count_tokens', '/v1/messages/count_tokens', {
    body: { model: 'doc', ...say('hi') },
  });
  const whole = { model: 'doc', stream: false };
  await check('POST', '/api/chat', '/api/chat', { body: { ...whole, ...say('hi') } });
  await check('POST', '/api/generate', '/api/generate', { body: { ...whole, prompt: 'hi' } });
  await check('POST', '/api/embed', '/api/embed', { body: { model: 'doc', input: 'hi' } });
  await check('POST', '/api/embeddings', '/api/embeddings', { body: { model: 'doc', prompt: 'hi' } });
  await check('POST', '/api/show', '/api/show', { body: { model: 'doc' } });
  await check('POST', '/api/pull', '/api/pull', { body: whole });
  await check('POST', '/v1/completions', '/v1/completions', { body: { model: 'doc', prompt: 'hi', max_tokens: 2 } });
  for (const [template, url] of [
    ['/v1/models', '/v1/models'],
    ['/v1/models/{id}', '/v1/models/doc'],
    ['/api/tags', '/api/tags'],
    ['/api/ps', '/api/ps'],
    ['/api/version', '/api/version'],
    ['/v0/explain', '/v0/explain?model=doc'],
    ['/v0/whoami', '/v0/whoami'],
    ['/v0/self', '/v0/self'],
    ['/v0/models', '/v0/models'],
    ['/v0/models/registry', '/v0/models/registry'],
    ['/v0/nodes', '/v0/nodes'],
    ['/v0/routers', '/v0/routers'],
    ['/v0/nodes/{node}/models', `/v0/nodes/${node.id}/models`],
    ['/v0/nodes/{node}/engines', `/v0/nodes/${node.id}/engines`],
    ['/v0/nodes/{node}/memory', `/v0/nodes/${node.id}/memory`],
    ['/v0/nodes/{node}/logs', `/v0/nodes/${node.id}/logs?lines=3`],
    ['/v0/keys', '/v0/keys'],
    ['/v0/usage', '/v0/usage'],
    ['/v0/audit', '/v0/audit'],
    ['/v0/requests', '/v0/requests'],
    ['/v0/requests/{id}', `/v0/requests/${(await call(`${up.url}/v0/requests`)).json.requests[0].id}`],
    ['/v0/logs', '/v0/logs?lines=3'],
    ['/v0/stats', '/v0/stats'],
    ['/v0/history', '/v0/history?range=24h'],
    ['/v0/alerts', '/v0/alerts'],
    ['/health', '/health'],
    ['/livez', '/livez'],
    ['/readyz', '/readyz'],
  ])
    await check('GET', template, url);
  const key = await check('POST', '/v0/keys', '/v0/keys', { body: { name: 'x' } });
  await check('PATCH', '/v0/models/{id}', '/v0/models/doc', { body: { aliases: ['x'] } });
  await check('PATCH', '/v0/keys/{key}', `/v0/keys/${key.id}`, { body: { name: 'y', requests_per_minute: 7 } });
  await check('POST', '/v0/keys/{key}/rotate', `/v0/keys/${key.id}/rotate`, { body: { overlap: 60 } });
  await check('DELETE', '/v0/keys/{key}', `/v0/keys/${key.id}`);
  await check('POST', '/v0/nodes/tokens', '/v0/nodes/tokens', { body: {} });
  await check('POST', '/v0/models/{id}/pin', '/v0/models/doc/pin', { body: {} });
  await check('POST', '/v0/models/{id}/unpin', '/v0/models/doc/unpin', { body: {} });
  await check('POST', '/v0/nodes/{node}/drain', `/v0/nodes/${node.id}/drain`, { body: {} });
  assert.equal((await call(`${up.url}/v1/chat/completions`, { body: { model: 'doc', ...say('hi') } })).status, 503);
  await check('POST', '/v0/nodes/{node}/undrain', `/v0/nodes/${node.id}/undrain`, { body: {} });
  await check('DELETE', '/v0/models/{id}', '/v0/models/doc');
  assert.ok(seen.length >= 22);
});

test('a request with too many headers gets the 431 that the page lists', async () => {
  const headers = Object.fromEntries(Array.from({ length: 201 }, (_, i) => [`x-${i}`, 'y']));
  for (const url of ['/', '/health']) {
    const answer = await call(`${up.url}${url}`, { headers });
    assert.deepEqual([answer.status, typeof answer.json.error], [431, 'object']);
  }
});

test('/v0/events is a stream of events, /metrics is Prometheus text', async () => {
  const controller = new AbortController();
  const events = await fetch(`${up.url}/v0/events`, { signal: controller.signal });
  assert.equal(events.headers.get('content-type'), 'text/event-stream');
  let text = '';
  for await (const piece of events.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (/model\.deleted/.test(text)) break;
  }
  controller.abort();
  assert.match(text, /node\.joined/);
  const metrics = (await call(`${up.url}/metrics`)).text;
  assert.match(metrics, /^llm_router_generations_total [1-9]/m);
  assert.match(metrics, /^llm_router_first_token_seconds_bucket\{le="\+Inf"\} [1-9]/m);
});
