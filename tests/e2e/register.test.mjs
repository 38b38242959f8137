// Registration over HTTP against a stand-in hub: requirements A, with their exact answers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { readFolder, startHub } from '../support/hub.mjs';
import { call, cli, DEMO, startRouter, tempDir } from './support.mjs';

const SHARD = 'model-00001-of-00002.safetensors';
let hub, router, files;

before(async () => {
  hub = await startHub();
  files = readFolder(DEMO);
  for (const name of Object.keys(files)) if (name.includes('/') || name === 'README.md') delete files[name];
  hub.add('openai/demo', files);
  const env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  for (const name of ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']) env[name] = '';
  router = await startRouter({ env, args: ['--hub-host', hub.storage] });
});
after(async () => { await router?.stop(); await hub?.close(); });

const post = (body) => call(`${router.url}/v0/models/register`, { body });
const without = (...names) => Object.fromEntries(Object.entries(files).filter(([name]) => !names.includes(name)));

test('a repository is registered: 201, the manifest is pinned and served, no weight was read', async () => {
  const answer = await post({ repo: 'openai/demo', format: 'safetensors' });
  assert.equal(answer.status, 201, answer.text);
  assert.equal(answer.json.id, 'openai/demo');
  assert.equal(answer.json.warnings.length, 1);
  assert.match(answer.json.warnings[0], /no node is online/);
  for (const id of ['openai/demo', 'openai%2Fdemo', 'OpenAI/Demo']) {
    const manifest = await call(`${router.url}/v0/models/registry/${id}/manifest.json`);
    assert.equal(manifest.status, 200);
    assert.deepEqual(manifest.json.runtimes, ['gptoss']);
    assert.equal(manifest.json.revision, hub.repos.get('openai/demo').sha);
    assert.deepEqual(manifest.json, answer.json.manifest);
  }
  assert.deepEqual(hub.requests.filter((r) => /\.safetensors$/.test(r.file ?? '')), []);
  assert.ok((await call(`${router.url}/v0/models/registry`)).json.models.some((m) => m.id === 'openai/demo'));
});

test('a model no node can run is not in /v1/models, and /v0/models says why', async () => {
  assert.deepEqual((await call(`${router.url}/v1/models`)).json.data, []);
  const all = (await call(`${router.url}/v1/models?all=true`)).json.data;
  assert.deepEqual(all.map((m) => [m.id, m.ready]), [['openai/demo', false]]);
  assert.match((await call(`${router.url}/v0/models`)).json.models[0].reason, /no online node has it/);
  const chat = await call(`${router.url}/v1/chat/completions`, { body: { model: 'openai/demo', messages: [{ role: 'user', content: 'x' }] } });
  assert.equal(chat.status, 503);
  assert.match(chat.json.error.message, /no node has joined/);
});

test('the same model twice, in any case: 409, and the first stays untouched', async () => {
  const before = (await call(`${router.url}/v0/models/registry/openai/demo/manifest.json`)).text;
  for (const body of [{ repo: 'openai/demo' }, { repo: 'OpenAI/Demo' }, { repo: `${hub.url}/openai/demo` }]) {
    const answer = await post(body);
    assert.equal(answer.status, 409, answer.text);
    assert.match(answer.json.error.message, /registered already/);
  }
  assert.equal((await call(`${router.url}/v0/models/registry/openai/demo/manifest.json`)).text, before);
});

test('what is missing is named, with 400', async () => {
  const cases = [
    ['a/no-config', without('config.json'), /config\.json/],
    ['a/no-tokenizer', without('tokenizer.json'), /tokenizer\.json/],
    ['a/shard', without(SHARD), new RegExp(SHARD.replaceAll('.', '\\.'))],
    ['a/no-index', without('model.safetensors.index.json'), /ambiguous/],
  ];
  for (const [repo, content, message] of cases) {
    hub.add(repo, content);
    const answer = await post({ repo, format: 'safetensors' });
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.json.error.message, message);
    assert.equal((await call(`${router.url}/v0/models/registry/${repo}/manifest.json`)).status, 404);
  }
});

test('bad words are 400: an unknown member, a bad format, neither repo nor path, a bad name', async () => {
  for (const body of [{ repo: 'a/b', colour: 'red' }, { repo: 'a/b', format: 'onnx' }, {}, { repo: 'a/b', path: '/x' },
    { repo: 7 }, { repo: 'openai/demo', name: '../../etc' }, { repo: 'file:///etc/passwd' }, { repo: 'http://169.254.169.254/a/b' }])
    assert.equal((await post(body)).status, 400, JSON.stringify(body));
});

test('an unknown repository is 404', async () => {
  assert.equal((await post({ repo: 'nobody/nothing' })).status, 404);
});

test('register and models from the command line; a deleted model can be registered again', async () => {
  const env = { LLM_ROUTER_URL: router.url };
  const done = await cli(['register', 'openai/demo', '--name', 'mine'], env);
  assert.match(done.stdout, /registered mine/);
  assert.match(done.stderr, /^warning: no node is online/);
  assert.match((await cli(['models'], env)).stdout, /mine\s+absent\s+hub/);
  await cli(['models', 'remove', 'openai/demo'], env);
  assert.equal((await call(`${router.url}/v1/models/openai/demo`)).status, 404);
  assert.equal((await post({ repo: 'openai/demo' })).status, 201);
});

test('an unreachable hub is 502', async () => {
  await hub.close();
  const answer = await post({ repo: 'openai/other' });
  assert.equal(answer.status, 502, answer.text);
  hub = undefined;
});
