// The main scenario: a repository on the hub becomes an endpoint.  Router,
// nodes and engine are real; the hub is a stand-in that behaves as the real one does.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { demoFiles, SHARD } from '../integration/hub_harness.mjs';
import { startHub } from '../support/hub.mjs';
import { keep } from './fleet.mjs';
import { call, LONG, makeEcho, say, startNode, startRouter, stream, tempDir, until } from './support.mjs';

const ID = 'openai/demo';

async function setup(t) {
  const hub = await startHub();
  t.after(() => hub.close());
  hub.add(ID, demoFiles());
  const env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  for (const name of ['http_proxy', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']) env[name] = '';
  const router = keep(await startRouter({ env, args: ['--allow-cpu-nodes', '--hub-host', hub.storage] }));
  const node = async (name, dir = tempDir('node')) =>
    keep(await startNode(router, { name, dir, env, args: ['--hub-host', hub.storage] }));
  return { hub, router, node };
}

const listed = async (router) => (await call(`${router.url}/v1/models`)).json.data.find((m) => m.id === ID);
const ready = (router) => until('the model is ready', async () => (await listed(router))?.ready, 30000);

async function chats(router) {
  const ask = { model: ID, temperature: 0, ...say('Hello there') };
  const plain = await call(`${router.url}/v1/chat/completions`, { body: ask });
  assert.equal(plain.status, 200, plain.text);
  const { content } = plain.json.choices[0].message;
  assert.ok(content.length > 0, 'non-empty content');
  const streamed = await stream(router.url, ask);
  assert.deepEqual([streamed.status, streamed.error, streamed.done, streamed.text], [200, null, true, content]);
  const escaped = await call(`${router.url}/v1/models/${encodeURIComponent(ID)}`);
  assert.equal(escaped.json.id, ID);
  return content;
}

test('register a gpt-oss repository as safetensors, nodes fetch it by manifest, it is listed as ready, chat answers plain and streaming', async (t) => {
  const { hub, router, node } = await setup(t);
  await node('n0');
  const registered = await call(`${router.url}/v0/models/register`, { body: { repo: ID, format: 'safetensors' } });
  assert.equal(registered.status, 201, registered.text);
  const manifest = (await call(`${router.url}/v0/models/registry/${ID}/manifest.json`)).json;
  assert.equal(manifest.format, 'safetensors');
  assert.deepEqual(manifest.runtimes, ['gptoss']);
  await ready(router);
  const said = await chats(router);
  // One that joins later fetches it as well, and says the same.
  await node('n1');
  await until(
    'both have it',
    async () => (await call(`${router.url}/v0/explain?model=${ID}`)).json.candidates.length === 2,
    30000,
  );
  await call(
    `${router.url}/v0/nodes/${(await call(`${router.url}/v0/nodes`)).json.nodes.find((n) => n.name === 'n0').id}/drain`,
    { method: 'POST' },
  );
  assert.equal(await chats(router), said);
  // A hub that has gone changes nothing for what is there.
  hub.down = true;
  assert.equal(await chats(router), said);
  assert.equal(hub.served(SHARD).length, 2, 'each node fetched the weights once');
});

test('a node that is restarted in the middle of a download resumes it, and the model is served', async (t) => {
  const { hub, router, node } = await setup(t);
  const restarts = LONG ? 3 : 1;
  let reached = 0;
  hub.script(
    SHARD,
    Array.from({ length: restarts }, (_, i) => ({
      gate: new Promise(() => {}),
      after: 1_000_000,
      reached: () => {
        reached = i + 1;
      },
    })),
  );
  assert.equal(
    (await call(`${router.url}/v0/models/register`, { body: { repo: ID, format: 'safetensors' } })).status,
    201,
  );
  const dir = tempDir('node');
  const part = path.join(dir, 'models', ID, '.download', `${SHARD}.part`);
  let running = await node('n0', dir);
  for (let i = 0; i < restarts; i++) {
    await until(
      'the weights are on their way',
      () => reached === i + 1 && fs.statSync(part, { throwIfNoEntry: false })?.size > 0,
    );
    await until('the router knows', async () =>
      /fetching/.test(JSON.stringify((await call(`${router.url}/v1/models?all=true`)).json)),
    );
    assert.notEqual((await listed(router))?.ready, true);
    const refused = await call(`${router.url}/v1/chat/completions`, { body: { model: ID, ...say('Hello') } });
    assert.equal(refused.status, 503);
    assert.match(refused.json.error.message, /n0: fetching/);
    await running.stop(i % 2 ? 'SIGTERM' : 'SIGKILL');
    running = await node('n0', dir);
  }
  await ready(router);
  await chats(router);
  assert.ok(hub.served(SHARD).at(-1).from > 0, 'it did not begin again');
});

test("prompts are rendered with the registration's own template, else chat_template.jinja, else that of tokenizer_config.json", async (t) => {
  const { hub, router, node } = await setup(t);
  await node('n0');
  const dir = makeEcho('echo');
  const files = Object.fromEntries(fs.readdirSync(dir).map((name) => [name, fs.readFileSync(path.join(dir, name))]));
  const mark = (filter) => `{% for m in messages %}{{ m.content | ${filter} }}{% endfor %}`;
  const config = { 'tokenizer_config.json': JSON.stringify({ chat_template: mark('upper') }) };
  hub.add('acme/config', { ...files, ...config });
  hub.add('acme/file', { ...files, ...config, 'chat_template.jinja': mark('title') });
  const say1 = async (model) =>
    (await call(`${router.url}/v1/chat/completions`, { body: { model, ...say('hello') } })).json.choices?.[0].message
      .content;
  const post = (body) => call(`${router.url}/v0/models/register`, { body });
  for (const [body, id, said] of [
    [{ repo: 'acme/config' }, 'acme/config', 'HELLO'],
    [{ repo: 'acme/file' }, 'acme/file', 'Hello'],
    [{ repo: 'acme/file', name: 'own', chat_template: mark('reverse') }, 'own', 'olleh'],
  ]) {
    const answer = await post(body);
    assert.equal(answer.status, 201, answer.text);
    await until(`${id} answers`, async () => (await say1(id)) === said, 30000);
  }
  const bad = await post({ repo: 'acme/file', name: 'bad', chat_template: '{% for %}' });
  assert.equal(bad.status, 400);
  assert.match(bad.json.error.message, /^"chat_template": .*line 1/);
});
