// The errors of every API, byte for byte: tests/fixtures/errors/answers.json has what clients got before errors had
// ids, and each request is made again of real processes.  LR_RECORD=1 writes the table anew: read its difference.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { addNode, makeFaulty } from './fleet.mjs';
import { call, DEMO, makeEcho, ROOT, register, startRouter, startUp, until } from './support.mjs';

const TABLE = path.join(ROOT, 'tests/fixtures/errors/answers.json');
const text = (content) => [{ role: 'user', content }];
const long = 'word '.repeat(400);
const tool = { type: 'function', function: { name: 'f' } };
const image = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }];
const bodies = {
  '/v1/chat/completions': { model: 'm', messages: text('hi'), max_tokens: 2 },
  '/v1/completions': { model: 'm', prompt: 'hi', max_tokens: 2 },
  '/v1/responses': { model: 'm', input: 'hi', max_output_tokens: 2 },
  '/v1/messages': { model: 'm', messages: text('hi'), max_tokens: 2 },
  '/v1/embeddings': { model: 'm', input: 'hi' },
  '/v1/rerank': { model: 'm', query: 'hi', documents: ['a', 'b'] },
  '/api/chat': { model: 'm', stream: false, messages: text('hi'), options: { num_predict: 2 } },
  '/api/generate': { model: 'm', stream: false, prompt: 'hi', options: { num_predict: 2 } },
  '/api/embed': { model: 'm', input: 'hi' },
};
const [CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS, RERANK, OLLAMA_CHAT, OLLAMA_GENERATE, OLLAMA_EMBED] =
  Object.keys(bodies);

// [server, method and path, body as an object or as text, { key, headers }]
const rows = [];
const row = (server, at, body, more = {}) => rows.push([server, at, body, more]);
const ask = (at, members, more = {}, server = 'up') => row(server, `POST ${at}`, { ...bodies[at], ...members }, more);

for (const at of Object.keys(bodies)) {
  row('up', `POST ${at}`, '');
  row('up', `POST ${at}`, '{"model":');
  row('up', `POST ${at}`, '[]');
  row('up', `POST ${at}`, '{"model":"m","model":"m"}');
  row('up', `POST ${at}`, {});
  row('up', `POST ${at}`, bodies[at], { headers: { 'content-type': 'text/plain' } });
  row('up', `GET ${at}`);
  ask(at, { model: 7 });
  ask(at, { model: 'nothing' });
  ask(at, { no_such_field: 1 }, { headers: { Prefer: 'handling=strict' } });
  ask(at, {}, {}, 'locked');
  ask(at, {}, { key: 'lr-nobodysKey00000000000000000000000000' }, 'locked');
  ask(at, { model: 'other' }, { key: 'one' }, 'locked');
  ask(at, {}, { key: 'metrics' }, 'locked');
  ask(at, {}, { key: 'revoked' }, 'locked');
  ask(at, {}, { key: 'small' }, 'locked');
  ask(at, {}, { key: 'spent' }, 'locked');
  ask(at, {}, { key: 'counted' }, 'locked');
  ask(at, {}, { key: 'api' }, 'locked'); // no node is there
  ask(at, { model: 'absent' }, {}, 'empty');
}
for (const [at, member] of [
  [CHAT, 'messages'],
  [COMPLETIONS, 'prompt'],
  [RESPONSES, 'input'],
  [MESSAGES, 'messages'],
  [EMBEDDINGS, 'input'],
  [OLLAMA_CHAT, 'messages'],
  [OLLAMA_GENERATE, 'prompt'],
  [OLLAMA_EMBED, 'input'],
]) {
  const words = member === 'messages' ? text(long) : long;
  ask(at, { [member]: words }, {}, 'short');
  ask(at, { [member]: 7 });
  ask(at, { [member]: null });
  ask(at, { [member]: [] });
  ask(at, { [member]: [{ role: 7 }] });
}
ask(RERANK, { documents: [long] }, {}, 'short');
for (const at of [CHAT, COMPLETIONS, RESPONSES, MESSAGES, OLLAMA_CHAT, OLLAMA_GENERATE]) {
  ask(at, { model: 'submit' }, {}, 'short');
  ask(at, { stream: 'yes' });
  ask(at, { tools: 7 });
  ask(at, { tools: [7] });
}
ask(CHAT, { model: 'step' }, {}, 'short'); // for others it rests after that
for (const at of [CHAT, RESPONSES, MESSAGES, OLLAMA_CHAT]) ask(at, { model: 'submit', stream: true }, {}, 'short');
for (const members of [
  { messages: [{ role: 'nobody', content: 'x' }] },
  { messages: text([{ type: 'audio' }]) },
  { messages: text(image) },
  { messages: [{ role: 'tool', content: 'x' }] },
  { temperature: 'hot' },
  { temperature: 9 },
  { top_p: -1 },
  { max_tokens: 0 },
  { n: 0 },
  { n: 1000 },
  { seed: 'x' },
  { stop: [7] },
  { logprobs: true },
  { top_logprobs: 99 },
  { logit_bias: { x: 1 } },
  { tools: [tool], tool_choice: 'required' },
  { tools: [tool], tool_choice: { type: 'function', function: { name: 'g' } } },
  { tool_choice: 'sometimes' },
  { reasoning_effort: 'extreme' },
  { response_format: { type: 'xml' } },
  { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'integer' } } } },
  { model: 'demo', response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'thing' } } } },
  { model: 'demo', response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { $ref: '#/a' } } } },
  { model: 'demo', guided_regex: '(' },
  { model: 'demo', guided_grammar: 'root ::= x' },
  { model: 'demo', guided_choice: [] },
  { modalities: ['audio'] },
  { stream_options: { include_usage: 1 } },
  { functions: [] },
])
  ask(CHAT, members);
for (const members of [
  { best_of: 3 },
  { echo: true },
  { prompt: [[]] },
  { prompt: [-1] },
  { suffix: 'x' },
  { logprobs: 99 },
])
  ask(COMPLETIONS, members);
for (const members of [
  { previous_response_id: 'resp_none' },
  { conversation: 'c' },
  { background: true, stream: true, store: false },
  { truncation: 'auto' },
  { include: ['x'] },
  { input: [{ type: 'thing' }] },
  { text: { format: { type: 'xml' } } },
  { tools: [{ type: 'web_search' }], tool_choice: { type: 'thing' } },
  { reasoning: { effort: 7 } },
])
  ask(RESPONSES, members);
for (const members of [
  { max_tokens: undefined },
  { system: 7 },
  { messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] },
  { stop_sequences: 7 },
  { thinking: { type: 'sometimes' } },
  { tool_choice: { type: 'tool', name: 'g' } },
])
  ask(MESSAGES, members);
for (const members of [
  { encoding_format: 'hex' },
  { dimensions: 0 },
  { dimensions: 99 },
  { input: [''] },
  { input: [1, 2] },
])
  ask(EMBEDDINGS, members);
for (const members of [{ query: 7 }, { documents: [] }, { documents: [{}] }, { top_n: 0 }]) ask(RERANK, members);
for (const members of [{ options: 7 }, { options: { temperature: 'x' } }, { format: 'xml' }, { think: 7 }])
  ask(OLLAMA_CHAT, members);
for (const members of [{ images: ['x'] }, { suffix: 'x' }, { template: 'x' }, { context: [1] }])
  ask(OLLAMA_GENERATE, members);
ask(EMBEDDINGS, { model: 'demo' });
ask(RERANK, { model: 'demo' });
row('up', 'POST /api/pull', {});
row('up', 'POST /api/show', {});
row('up', 'POST /api/show', { model: 'nothing' });
row('up', 'DELETE /api/delete', { model: 'nothing' });
row('up', 'GET /api/thing');
for (const at of [
  '/v1/models/nothing',
  '/v1/responses/resp_none',
  '/v1/responses/resp_none/input_items?limit=0',
  '/v1/thing',
])
  row('up', `GET ${at}`);
for (const at of [
  '/v1/responses/resp_none/cancel',
  '/v1/responses/compact',
  '/v1/messages/count_tokens',
  '/v1/responses/input_tokens',
])
  row('up', `POST ${at}`, {});
row('up', 'DELETE /v1/responses/resp_none');
row('up', 'POST /v1/messages/count_tokens', { model: 'nothing', messages: text('x') });

for (const at of [
  'thing',
  'explain',
  'explain?model=nothing',
  'history?range=1y',
  'stats?step=0',
  'usage?by=colour',
  'usage?by=request,day',
  'usage?since=x',
  'usage?since=9&until=3',
  'usage?format=xml',
  'audit?format=xml',
  'requests?limit=0',
  'requests?before=x',
  'requests?status=x',
  'requests/none',
  'logs?lines=0',
  'nodes/none/models',
  'models/registry/nothing/manifest.json',
  'oidc/start',
  'oidc/callback',
])
  row('up', `GET /v0/${at}`);
for (const at of ['keys', 'nodes', 'models', 'whoami', 'self', 'alerts']) {
  row('locked', `GET /v0/${at}`);
  row('locked', `GET /v0/${at}`, undefined, { key: 'metrics' });
  row('locked', `GET /v0/${at}`, undefined, { key: 'revoked' });
}
for (const [at, body] of [
  ['POST keys', '{'],
  ['POST keys', []],
  ['POST keys', { thing: 1 }],
  ['POST keys', { name: 7 }],
  ['POST keys', { role: 'king' }],
  ['POST keys', { models: 7 }],
  ['POST keys', { models: [7] }],
  ['POST keys', { models: ['a/b/c'] }],
  ['POST keys', { addresses: ['x'] }],
  ['POST keys', { addresses: 'x' }],
  ['POST keys', { uses: 2 }],
  ['POST keys', { expires_in: -1 }],
  ['POST keys', { keep_texts: 7 }],
  ['PATCH keys/none', { name: 'x' }],
  ['PATCH keys/none', {}],
  ['POST keys/none/rotate', {}],
  ['POST keys/none/rotate', { overlap: -1 }],
  ['POST keys/none/rotate', { thing: 1 }],
  ['DELETE keys/none', undefined],
  ['POST models/register', {}],
  ['POST models/register', { thing: 1 }],
  ['POST models/register', { repo: 7 }],
  ['POST models/register', { repo: 'a/b', path: 'c' }],
  ['POST models/register', { path: 'x', revision: 'main' }],
  ['POST models/register', { path: 'x', format: 'zip' }],
  ['POST models/register', { path: 'nothing' }],
  ['POST models/register', { path: 'm', aliases: 7 }],
  ['POST models/register', { path: 'm', aliases: ['a', 'a'] }],
  ['POST models/register', { path: 'm', chat_template: '{{' }],
  ['POST models/nothing/load', {}],
  ['POST models/m/replicas', { replicas: 'many' }],
  ['POST models/m/dance', {}],
  ['PATCH models/nothing', { aliases: [] }],
  ['PATCH models/m', {}],
  ['PATCH models/m', { aliases: ['m'] }],
  ['DELETE models/nothing', undefined],
  ['DELETE models/m?purge=maybe', undefined],
  ['POST nodes/join', {}],
  ['POST nodes/tokens', { role: 'admin' }],
  ['POST nodes/none/heartbeat', {}],
  ['POST nodes/none/drain', {}],
  ['DELETE nodes/none', undefined],
  ['POST nodes/none/engines/echo/reload', {}],
  ['POST alerts/x/silence', {}],
  ['POST alerts/9999/silence', { seconds: 60 }],
  ['POST alerts/9999/silence', { seconds: 0 }],
  ['POST alerts/9999/silence', { seconds: 60, comment: 7 }],
  ['POST session', {}],
  ['POST session', { key: 'lr-nobodysKey00000000000000000000000000' }],
  ['POST session', { key: 7 }],
  ['DELETE sessions/none', undefined],
  ['PUT keys', {}],
])
  row('up', at.replace(' ', ' /v0/'), body);

const servers = {};
const keys = {};
before(async () => {
  const faults = [makeFaulty('submit', { fail: 'submit' }), makeFaulty('step', { fail: 'step' })];
  const models = (...dirs) => dirs.flatMap((dir) => ['--model', dir]);
  const [up, short, locked, empty] = await Promise.all([
    startUp({ args: models(makeEcho('m'), DEMO) }),
    startUp({ args: [...models(makeEcho('m'), ...faults), '--max-context', '128'] }),
    startRouter({ args: ['--allow-cpu-nodes', '--require-key'] }),
    startRouter(),
  ]);
  Object.assign(servers, { up, short, locked, empty });
  const makeKey = async (name, more) => {
    const made = await call(`${locked.url}/v0/keys`, { body: { name, ...more }, key: locked.adminKey });
    keys[name] = made.json;
  };
  for (const [name, more] of Object.entries({
    api: {},
    one: { models: ['m'] },
    metrics: { role: 'metrics' },
    revoked: {},
    small: { request_bytes: 10 },
    spent: { tokens_per_month: 1 },
    counted: { requests_per_minute: 1 },
  }))
    await makeKey(name, more);
  await call(`${locked.url}/v0/keys/${keys.revoked.id}`, { method: 'DELETE', key: locked.adminKey });
  const node = await addNode(locked, makeEcho('m'), { name: 'n' });
  const online = async () =>
    (await call(`${locked.url}/v0/nodes`, { key: locked.adminKey })).json.nodes.filter((n) => n.online).length;
  await until('the node is online', async () => (await online()) === 1);
  await register(locked, 'm');
  for (const name of ['spent', 'counted'])
    await until(
      `key ${name} is spent`,
      async () => (await send(['locked', `POST ${CHAT}`, bodies[CHAT], { key: name }])).status === 429,
    );
  await node.stop();
  await until('the node is away', async () => (await online()) === 0);
});
after(() => Promise.all(Object.values(servers).map((server) => server.stop())));

function send([server, at, body, { key, headers }]) {
  const [method, where] = at.split(' ');
  const raw = typeof body === 'string' ? { raw: body } : body === undefined ? {} : { body };
  return call(servers[server].url + where, {
    method,
    ...raw,
    key: keys[key]?.key ?? key,
    headers: { 'x-request-id': 'the-request', ...headers },
  });
}

// What differs from run to run: keys, addresses, folders, ids that the server makes, times to wait.
function steady(answer) {
  let out = answer;
  for (const [name, key] of Object.entries(keys)) out = out.replaceAll(key.id, `KEY-${name}`);
  for (const [name, server] of Object.entries(servers))
    out = out.replaceAll(server.url, `URL-${name}`).replaceAll(server.dir ?? '\0', `DIR-${name}`);
  return out
    .replace(/127\.0\.0\.1:\d+/g, 'ADDRESS')
    .replace(/(resp|chatcmpl|cmpl|msg|rs|fc|embd|rerank)[-_][0-9A-Za-z]{10,}/g, '$1_ID')
    .replace(/(try again|wait|again) (in )?\d+ s/g, '$1 $2N s')
    .replace(/"(created|created_at|completed_at)":\d+/g, '"$1":N')
    .replace(/begins on \d{4}-\d\d-\d\d/g, 'begins on DATE')
    .replaceAll(process.cwd(), 'CWD')
    .replaceAll(`node ${os.hostname()}:`, 'node HOST:')
    .replaceAll(os.tmpdir(), 'TEMP')
    .replace(/TEMP\/lr-(\w+)-\w+/g, 'TEMP-$1');
}

test('every API answers its errors as it did before errors had ids, byte for byte', async () => {
  const made = [];
  const answers = [];
  for (let i = 0; i < rows.length; i += 16) answers.push(...(await Promise.all(rows.slice(i, i + 16).map(send))));
  for (const [i, answer] of answers.entries()) {
    const [server, at, body, more] = rows[i];
    const who = `${server}${more.key ? ` as ${more.key}` : ''}`;
    const sent = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
    const shown = sent.length > 300 ? `${sent.length} bytes` : sent;
    const isError = answer.status >= 400;
    const id = answer.headers.get('x-llm-router-error') ?? '';
    const added = at.includes(' /v0/') && isError ? `,"id":"${id}"` : ''; // new in the bodies of /v0
    assert.ok(answer.text.includes(added), `${at}: ${answer.text} has no id ${id}`);
    const said = isError ? steady(answer.text.replace(added, '')) : '';
    made.push({ server: who, at, sent: shown, status: answer.status, id, body: said });
  }
  if (process.env.LR_RECORD === '1') {
    fs.writeFileSync(TABLE, `[\n${made.map((one) => JSON.stringify(one)).join(',\n')}\n]\n`);
    return;
  }
  const wanted = JSON.parse(fs.readFileSync(TABLE, 'utf8'));
  assert.equal(wanted.length, made.length);
  for (const [i, one] of made.entries()) assert.deepEqual(one, wanted[i], `row ${i}`);
});
