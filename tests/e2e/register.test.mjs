// Registration over HTTP against a local hub: every case with its exact answer.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { readFolder, startHub } from '../support/hub.mjs';
import { call, cli, DEMO, startRouter, tempDir, until } from './support.mjs';

const SHARD = 'model-00001-of-00002.safetensors';
let hub, router, files, environment;

before(async () => {
  hub = await startHub();
  files = readFolder(DEMO);
  for (const name of Object.keys(files)) if (name.includes('/') || name === 'README.md') delete files[name];
  hub.add('openai/demo', files);
  const env = (environment = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') });
  for (const name of ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'])
    env[name] = '';
  router = await startRouter({ env, args: ['--hub-host', hub.storage] });
});
after(async () => {
  await router?.stop();
  await hub?.close();
});

const post = (body) => call(`${router.url}/v0/models/register`, { body });
const without = (...names) => Object.fromEntries(Object.entries(files).filter(([name]) => !names.includes(name)));

test('a repository is registered: 201, the manifest is pinned and served, no weight file was read', async () => {
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
  assert.deepEqual(
    hub.requests.filter((r) => /\.safetensors$/.test(r.file ?? '')),
    [],
  );
  assert.ok((await call(`${router.url}/v0/models/registry`)).json.models.some((m) => m.id === 'openai/demo'));
});

test('a model no node can run is not in /v1/models, and /v0/models says why', async () => {
  assert.deepEqual((await call(`${router.url}/v1/models`)).json.data, []);
  const all = (await call(`${router.url}/v1/models?all=true`)).json.data;
  assert.deepEqual(
    all.map((m) => [m.id, m.ready]),
    [['openai/demo', false]],
  );
  assert.match((await call(`${router.url}/v0/models`)).json.models[0].reason, /no online node has it/);
  const chat = await call(`${router.url}/v1/chat/completions`, {
    body: { model: 'openai/demo', messages: [{ role: 'user', content: 'x' }] },
  });
  assert.equal(chat.status, 503);
  assert.match(chat.json.error.message, /no node has joined/);
});

test('the same model twice, in upper or lower case: 409, and the first registration does not change', async () => {
  const before = (await call(`${router.url}/v0/models/registry/openai/demo/manifest.json`)).text;
  for (const body of [{ repo: 'openai/demo' }, { repo: 'OpenAI/Demo' }, { repo: `${hub.url}/openai/demo` }]) {
    const answer = await post(body);
    assert.equal(answer.status, 409, answer.text);
    assert.match(answer.json.error.message, /registered already/);
  }
  assert.equal((await call(`${router.url}/v0/models/registry/openai/demo/manifest.json`)).text, before);
});

// [what, files, what is asked beside repo and format, what the message names, what it does not]
const INDEX = 'model.safetensors.index.json',
  SHARD2 = 'model-00002-of-00002.safetensors',
  MODEL = 'model.safetensors';
const gguf = { 'a-q4.gguf': 'GGUF', 'a-q8.gguf': 'GGUF' };
const index = (...shards) =>
  JSON.stringify({ metadata: {}, weight_map: Object.fromEntries(shards.map((s, i) => [`w${i}`, s])) });
const refusals = () => [
  ['config.json is missing', without('config.json'), {}, [/config\.json/], [/tokenizer\.json/]],
  ['tokenizer.json is missing', without('tokenizer.json'), {}, [/tokenizer\.json/], [/[^_]config\.json/]],
  ['both are missing', without('config.json', 'tokenizer.json'), {}, [/config\.json/, /tokenizer\.json/], []],
  ['one shard is missing', without(SHARD), {}, [SHARD], [SHARD2]],
  ['every shard is missing', without(SHARD, SHARD2), {}, [SHARD, SHARD2], []],
  ['there is no index', without(INDEX), {}, [/ambiguous/, SHARD, SHARD2], []],
  [
    'there are two indexes',
    { ...files, 'other.safetensors.index.json': files[INDEX] },
    {},
    [/ambiguous/, INDEX, 'other.safetensors.index.json'],
    [],
  ],
  ['one shard of many is named and there is no index', without(INDEX), { filename: SHARD }, [/ambiguous/, SHARD], []],
  ['there are no weights at all', without(INDEX, SHARD, SHARD2), {}, [/safetensors/], []],
  [
    'the weights lie in another folder only',
    { ...without(INDEX, SHARD, SHARD2), [`original/${MODEL}`]: 'x' },
    {},
    [/safetensors/],
    [],
  ],
  [
    'both formats and none is chosen',
    { ...files, ...gguf },
    { format: undefined },
    [/format/, /safetensors/, /gguf/],
    [],
  ],
  ['several GGUF files and none is chosen', gguf, { format: 'gguf' }, [/filename/, /a-q4\.gguf/, /a-q8\.gguf/], []],
  ['a GGUF file that is not there', gguf, { format: 'gguf', filename: 'b.gguf' }, [/b\.gguf/], []],
  ['no GGUF file', files, { format: 'gguf' }, [/gguf/], []],
  [
    'config.json names no architecture',
    { ...files, 'config.json': '{"hidden_size":1}' },
    {},
    [/architectures/, /model_type/],
    [],
  ],
  ['config.json is no JSON', { ...files, 'config.json': '{' }, {}, [/config\.json/], []],
  ['the index is no JSON', { ...files, [INDEX]: '{' }, {}, [INDEX], []],
  ['the index leads outside', { ...files, [INDEX]: index('../../etc/passwd') }, {}, [INDEX], []],
];

test('missing or ambiguous files are named, with 400, and nothing is registered', async () => {
  for (const [i, [what, content, asked, names, spares]] of refusals().entries()) {
    const repo = `acme/bad-${i}`;
    hub.add(repo, content);
    const answer = await post({ repo, format: 'safetensors', ...asked });
    assert.equal(answer.status, 400, `${what}: ${answer.text}`);
    for (const name of names)
      assert.ok(
        name instanceof RegExp ? name.test(answer.json.error.message) : answer.json.error.message.includes(name),
        `${what}, ${name}: ${answer.json.error.message}`,
      );
    for (const name of spares)
      assert.ok(
        !(name instanceof RegExp ? name.test(answer.json.error.message) : answer.json.error.message.includes(name)),
        `${what}, not ${name}: ${answer.json.error.message}`,
      );
    assert.equal((await call(`${router.url}/v0/models/registry/${repo}/manifest.json`)).status, 404);
  }
  assert.deepEqual(
    (await call(`${router.url}/v0/models`)).json.models.map((m) => m.id),
    ['openai/demo'],
  );
});

test('the manifest lists the files that a node must download, pinned; files in other folders are no shards', async () => {
  hub.add('acme/whole', {
    ...files,
    [`original/${MODEL}`]: 'x',
    'README.md': '#',
    'metadata.json': '{"runtime":"other"}',
  });
  const { manifest } = (await post({ repo: `${hub.url}/acme/whole`, name: 'Whole' })).json;
  const { sha } = hub.repos.get('acme/whole');
  assert.deepEqual(
    [manifest.version, manifest.id, manifest.format, manifest.revision, manifest.runtimes],
    [1, 'Whole', 'safetensors', sha, ['gptoss']],
  );
  const named = new Map(manifest.files.map((f) => [f.name, f]));
  for (const name of ['config.json', 'tokenizer.json', INDEX, SHARD, SHARD2]) {
    const file = named.get(name);
    assert.equal(file.optional, false, name);
    assert.equal(file.size, files[name].length);
    assert.ok(file.url.includes(`/acme/whole/resolve/${sha}/`), file.url);
    assert.equal(typeof file.priority, 'number');
  }
  assert.match(named.get(SHARD).sha256, /^[0-9a-f]{64}$/);
  assert.ok(!named.has(`original/${MODEL}`) && !named.has('README.md') && !named.has('metadata.json'));
  if (named.has('generation_config.json')) assert.equal(named.get('generation_config.json').optional, true);
});

test('an official artifact is an optional member for its backend; an artifact of a publisher that is not on the list is ignored, with a log line', async () => {
  for (const repo of ['openai/fast', 'acme/fast']) hub.add(repo, { ...files, 'metal/model.bin': Buffer.alloc(64) });
  const { manifest } = (await post({ repo: 'openai/fast' })).json;
  const artifact = manifest.files.find((f) => f.name === 'metal/model.bin');
  assert.deepEqual([artifact.optional, artifact.kind, artifact.backends], [true, 'artifact', ['metal']]);
  assert.equal(manifest.format, 'safetensors');
  const other = (await post({ repo: 'acme/fast' })).json;
  assert.ok(!other.manifest.files.some((f) => f.name === 'metal/model.bin'));
  await until('it is logged', () => /metal\/model\.bin[^\n]*acme|acme[^\n]*metal\/model\.bin/.test(router.log));
});

test('an operator may name other publishers and another supported_models.json', async () => {
  hub.add('acme/big', files);
  hub.add('acme/big-metal', { 'out/model.bin': Buffer.alloc(64) });
  const list = path.join(tempDir('list'), 'supported_models.json');
  fs.writeFileSync(
    list,
    JSON.stringify([
      {
        repo: 'acme/big',
        artifacts: [
          {
            name: 'metal/model.bin',
            repo: 'acme/big-metal',
            path: 'out/model.bin',
            runtimes: ['gptoss'],
            backends: ['metal'],
            priority: 5,
          },
        ],
      },
    ]),
  );
  const own = await startRouter({
    env: environment,
    args: ['--hub-host', hub.storage, '--artifact-publisher', 'acme/*', '--supported-models', list],
  });
  const ask = (repo) => call(`${own.url}/v0/models/register`, { body: { repo } });
  const artifact = (await ask('acme/big')).json.manifest.files.find((f) => f.name === 'metal/model.bin');
  assert.deepEqual([artifact.repo, artifact.optional, artifact.size], ['acme/big-metal', true, 64]);
  assert.ok(artifact.url.includes(`/acme/big-metal/resolve/${hub.repos.get('acme/big-metal').sha}/out/model.bin`));
  fs.writeFileSync(list, '[{"repo": 7}]');
  const broken = await ask('openai/fast');
  assert.equal(broken.status, 503, 'no mistake of the client');
  assert.match(broken.json.error.message, /supported-models: .*supported_models\.json.*repo/);
  fs.rmSync(list);
  const missing = await ask('openai/fast');
  assert.deepEqual([missing.status, /supported-models: .*No such file/.test(missing.text)], [503, true], missing.text);
  await own.stop();
});

test('an architecture without an engine keeps its own name as the runtime', async () => {
  hub.add('nvidia/nemotron', {
    ...files,
    'config.json': '{"architectures":["NemotronForCausalLM"],"model_type":"nemotron"}',
  });
  hub.add('acme/typed', { ...files, 'config.json': '{"model_type":"gpt_oss"}' });
  assert.match((await post({ repo: 'nvidia/nemotron' })).json.manifest.runtimes.join(), /nemotron/i);
  assert.deepEqual((await post({ repo: 'acme/typed' })).json.manifest.runtimes, ['gptoss']);
});

test('hub errors have different statuses: gated and private 403 with HF_TOKEN, rate limit 429 with Retry-After', async () => {
  hub.add('acme/gated', files, { gated: true });
  hub.add('acme/private', files, { private: true });
  const gated = await post({ repo: 'acme/gated' });
  assert.equal(gated.status, 403, gated.text);
  assert.match(gated.json.error.message, /acme\/gated.*set HF_TOKEN/);
  const hidden = await post({ repo: 'acme/private' });
  assert.ok([403, 404].includes(hidden.status), hidden.text);
  assert.match(hidden.json.error.message, /HF_TOKEN/);
  hub.rateLimit = 7;
  const slow = await post({ repo: 'acme/any' });
  hub.rateLimit = undefined;
  assert.equal(slow.status, 429, slow.text);
  assert.equal(slow.headers.get('retry-after'), '7');
});

test('bad requests are 400: an unknown member, a bad format, neither repo nor path, a bad name', async () => {
  for (const body of [
    { repo: 'a/b', colour: 'red' },
    { repo: 'a/b', format: 'onnx' },
    {},
    { repo: 'a/b', path: '/x' },
    { repo: 7 },
    { repo: 'openai/demo', name: '../../etc' },
    { repo: 'file:///etc/passwd' },
    { repo: 'http://169.254.169.254/a/b' },
  ])
    assert.equal((await post(body)).status, 400, JSON.stringify(body));
});

test('a chat template over 1 MB is 400 with the limit, and nothing is registered', async () => {
  const answer = await post({ repo: 'openai/demo', name: 'long-template', chat_template: 'x'.repeat((1 << 20) + 1) });
  assert.equal(answer.status, 400, answer.text);
  assert.match(answer.json.error.message, /"chat_template" has 1048577 bytes; the limit is 1048576/);
  assert.doesNotMatch((await call(`${router.url}/v0/models`)).text, /long-template/);
});

test('an unknown repository is 404', async () => {
  assert.equal((await post({ repo: 'nobody/nothing' })).status, 404);
});

test('register and models from the command line; a deleted model can be registered again', async () => {
  const env = { LLM_ROUTER_URL: router.url };
  const done = await cli(
    ['register', 'openai/demo', '--name', 'mine', '--alias', 'claude-a', '--alias', 'Claude-B'],
    env,
  );
  assert.match(done.stdout, /registered mine/);
  assert.match(done.stderr, /^warning: no node is online/);
  assert.match((await cli(['models'], env)).stdout, /mine\s+absent\s+hub/);
  const { aliases } = (await call(`${router.url}/v0/models?id=claude-b`)).json.models[0];
  assert.deepEqual(aliases, ['claude-a', 'Claude-B']);
  await cli(['models', 'remove', 'openai/demo'], env);
  assert.equal((await call(`${router.url}/v1/models/openai/demo`)).status, 404);
  assert.equal((await post({ repo: 'openai/demo' })).status, 201);
});

test('an unreachable hub is 502', async () => {
  await hub.close();
  const answer = await post({ repo: 'openai/other' });
  assert.equal(answer.status, 502, answer.text);
  assert.match(answer.json.error.message, /127\.0\.0\.1/, 'it names the hub');
  // What was registered needs the hub no more, also after a restart.
  const manifest = async (r) => (await call(`${r.url}/v0/models/registry/openai/demo/manifest.json`)).text;
  const before = await manifest(router);
  assert.match(before, /"revision"/);
  await router.stop('SIGKILL');
  const again = await startRouter({ env: environment, dir: router.dir });
  assert.equal(await manifest(again), before);
  await again.stop();
  hub = undefined;
});
