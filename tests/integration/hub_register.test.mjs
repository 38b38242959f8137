// What a registration reads from the hub, and which hosts it never contacts: the real program against a local hub.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';
import { SHARD, setup, sha256 } from './hub_harness.mjs';

test('a repository becomes a manifest that pins commit, sizes and hashes', async (t) => {
  const world = await setup(t);
  const { sha } = world.hub.repos.get('openai/demo');
  for (const name of ['openai/demo', `${world.hub.url}/openai/demo`, `${world.hub.url}/openai/demo/tree/main`]) {
    const { code, json, err } = await world.register(name);
    assert.equal(code, 0, err);
    assert.deepEqual(
      [json.version, json.id, json.format, json.revision, json.runtimes],
      [1, 'openai/demo', 'safetensors', sha, ['gptoss']],
    );
    assert.deepEqual(json.files.map((f) => f.name).sort(), Object.keys(world.files).sort());
    for (const file of json.files) {
      assert.equal(file.size, world.files[file.name].length);
      assert.equal(file.sha256, sha256(world.files[file.name])); // small ones too: the router saw them
      assert.equal(file.url, `${world.hub.url}/openai/demo/resolve/${sha}/${file.name}`);
    }
  }
  const bytes = world.hub.requests.filter((r) => /\.safetensors$/.test(r.file ?? ''));
  assert.deepEqual(bytes, [], 'weights were not asked for');
});

test('a listing in pages is read to its end', async (t) => {
  const world = await setup(t, { hub: { pageSize: 2 } });
  const { code, json, err } = await world.register();
  assert.equal(code, 0, err);
  assert.equal(json.files.length, Object.keys(world.files).length);
});

test('an endpoint may have a path of its own', async (t) => {
  const world = await setup(t, { hub: { prefix: '/mirror/hf' } });
  const { code, json, err } = await world.register();
  assert.equal(code, 0, err);
  assert.ok(json.files[0].url.startsWith(`${world.hub.url}/openai/demo/resolve/`));
});

test('a revision is resolved to its commit, and stays there when main moves on', async (t) => {
  const world = await setup(t);
  const repo = world.hub.repos.get('openai/demo');
  const old = repo.sha;
  repo.refs['refs/pr/1'] = old;
  await world.settle();
  const next = repo.commit({ ...world.files, 'config.json': '{"model_type":"other"}' });
  assert.notEqual(next, old);
  const byRef = await world.register('openai/demo', ['--revision', 'refs/pr/1']);
  assert.equal(byRef.json.revision, old);
  assert.equal((await world.register('openai/demo')).json.revision, next);
  const run = await world.fetch(); // the manifest of before
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
  const missing = await world.register('openai/demo', ['--revision', 'nowhere']);
  assert.match(missing.err, /NOT_FOUND: openai\/demo: .* has no such revision/);
});

test('missing files are named', async (t) => {
  const world = await setup(t);
  const { 'config.json': config, 'tokenizer.json': tokenizer, ...weights } = world.files;
  const { [SHARD]: _, ...oneLess } = world.files;
  const { 'model.safetensors.index.json': __, ...noIndex } = world.files;
  for (const [name, files, message] of [
    ['a/no-config', { ...weights, 'tokenizer.json': tokenizer }, 'a/no-config lacks config.json, which'],
    [
      'a/no-tokenizer',
      { ...weights, 'config.json': config },
      'a/no-tokenizer lacks a tokenizer (tokenizer.json, tokenizer.model, tekken.json, vocab.json with merges.txt, or vocab.txt), which',
    ],
    ['a/neither', weights, 'a/neither lacks config.json and a tokenizer (tokenizer.json, tokenizer.model, '],
    ['a/shard', oneLess, `a/shard lacks shards that its index names: ${SHARD}`],
    [
      'a/no-index',
      noIndex,
      `ambiguous: a/no-index holds several .safetensors files and no index: ${SHARD}, ` +
        'model-00002-of-00002.safetensors',
    ],
    ['a/both', { ...world.files, 'x.gguf': 'GGUF' }, 'a/both holds both formats'],
    ['a/ggufs', { 'q4.gguf': 'GGUF', 'q8.gguf': 'GGUF' }, 'set "filename" to one of: q4.gguf, q8.gguf'],
  ]) {
    world.hub.add(name, files);
    const { code, err } = await world.register(name);
    assert.equal(code, 2, name);
    assert.ok(err.includes(`INVALID_ARGUMENT: `) && err.includes(message), err);
  }
});

test('artifacts come from another repository of the publisher, pinned to its own commit', async (t) => {
  const world = await setup(t);
  const artifact = Buffer.alloc(50_000, 3);
  const other = world.hub.add('openai/demo-metal', { 'm.bin': artifact });
  const list = path.join(world.dir, 'supported_models.json');
  fs.writeFileSync(
    list,
    JSON.stringify([
      {
        repo: 'openai/demo',
        artifacts: [
          { name: 'metal/model.bin', repo: 'openai/demo-metal', path: 'm.bin', backends: ['metal'] },
          { name: 'evil.bin', repo: 'nvidia/evil', path: 'm.bin' },
        ],
      },
    ]),
  );
  world.hub.add('nvidia/evil', { 'm.bin': artifact });
  const { code, json, err } = await world.register('openai/demo', ['--supported-models', list]);
  assert.equal(code, 0, err);
  const entry = json.files.find((f) => f.name === 'metal/model.bin');
  assert.deepEqual(
    [entry.repo, entry.revision, entry.sha256, entry.optional, entry.kind],
    ['openai/demo-metal', other.sha, sha256(artifact), true, 'artifact'],
  );
  assert.equal(
    json.files.some((f) => f.name === 'evil.bin'),
    false,
  );
  assert.match(err, /hub\.artifact_ignored .*nvidia\/evil/);
  world.hub.repos.delete('openai/demo-metal'); // gone: the registration stands without it
  const without = await world.register('openai/demo', ['--supported-models', list]);
  assert.equal(without.code, 0, without.err);
  assert.equal(
    without.json.files.some((f) => f.kind === 'artifact'),
    false,
  );
});

// ---- errors told apart ----

test('unknown, gated, private, rate-limited and unreachable have different errors', async (t) => {
  const world = await setup(t);
  const { hub } = world;
  hub.add('a/gated', world.files, { gated: true });
  hub.add('a/private', world.files, { private: true });
  const withToken = { env: { HF_TOKEN: hub.token } };
  const says = async (name, pattern, extra) => {
    const { code, err } = await world.register(name, [], extra);
    assert.notEqual(code, 0);
    assert.match(err, pattern);
  };
  await says('a/unknown', /NOT_FOUND: a\/unknown does not exist at .*or is private \(then set HF_TOKEN\)/);
  await says('a/unknown', /NOT_FOUND: a\/unknown does not exist at http[^,]*$/m, withToken);
  await says('a/gated', /PERMISSION_DENIED: a\/gated\/.* is gated or private .*set HF_TOKEN/);
  await says('a/gated', /PERMISSION_DENIED: .*the token in use has no access: set HF_TOKEN/, withToken);
  hub.hidesCode = true; // as older hubs: 401 and nothing else
  await says('a/private', /PERMISSION_DENIED: a\/private is gated, private or unknown .*set HF_TOKEN/);
  await says('openai/demo', /PERMISSION_DENIED: .*the token in use has no access/, { env: { HF_TOKEN: 'hf_wrong' } });
  hub.repos.get('a/gated').granted = true;
  assert.equal((await world.register('a/gated', [], withToken)).code, 0);
  assert.equal((await world.register('a/private', [], withToken)).code, 0);
  hub.rateLimit = 17;
  await says('openai/demo', /RATE_LIMITED: .* limits the rate of requests; try again in 17 s/);
  hub.rateLimit = undefined;
  hub.down = true;
  await says('openai/demo', /UPSTREAM: cannot fetch from 127\.0\.0\.1:\d+/);
  hub.down = false;
  await says('openai/demo', /UPSTREAM: cannot fetch from 127\.0\.0\.1:1: /, {
    env: { HF_ENDPOINT: 'http://127.0.0.1:1' },
  });
});

test('the token is read from the file the Hugging Face tools write', async (t) => {
  const world = await setup(t, { options: { private: true } });
  fs.mkdirSync(path.join(world.dir, 'none'));
  fs.writeFileSync(path.join(world.dir, 'none/token'), `${world.hub.token}\n`);
  assert.equal((await world.register()).code, 0);
});

// ---- the token stays home ----

test('the token goes to the endpoint and to no other host', async (t) => {
  const world = await setup(t, { options: { private: true } });
  const env = { HF_TOKEN: world.hub.token };
  await world.settle(undefined, { env });
  const run = await world.fetch([], { env });
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
  const seen = (where) => world.hub.requests.filter((r) => r.where === where);
  assert.ok(seen('hub').every((r) => r.headers.authorization === `Bearer ${world.hub.token}`));
  assert.ok(seen('storage').length >= 3);
  assert.ok(seen('storage').every((r) => r.headers.authorization === undefined));
  assert.doesNotMatch(run.err + run.out, new RegExp(world.hub.token));
});

// ---- where it never goes ----

async function victim(t) {
  const hits = [];
  const server = http.createServer((req, res) => {
    hits.push(req.url);
    res.end('secret');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  t.after(() => server.close());
  return { hits, port: server.address().port };
}

test('a redirect to a host that was not named is refused, in every spelling', async (t) => {
  const world = await setup(t);
  const { hits, port } = await victim(t);
  await world.settle((manifest) => {
    manifest.files = manifest.files.filter((f) => f.name === SHARD);
  });
  for (const target of [
    `http://127.0.0.1:${port}/x`,
    `http://localhost:${port}/x`,
    `http://2130706433:${port}/x`,
    `http://0x7f.1:${port}/x`,
    `http://0177.0.0.1:${port}/x`,
    `http://127.1:${port}/x`,
    `http://[::1]:${port}/x`,
    `http://[::ffff:127.0.0.1]:${port}/x`,
    'http://169.254.169.254/latest/meta-data/',
    'http://0.0.0.0:80/',
    'file:///etc/passwd',
    'gopher://127.0.0.1:70/x',
    'https://huggingface.co.evil.example/x',
    'http://huggingface.co/x',
    `http://user@127.0.0.1:${port}/x`,
    `http://huggingface.co@127.0.0.1:${port}/x`,
  ]) {
    world.hub.script(SHARD, [{ redirect: target }]);
    const run = await world.fetch();
    assert.equal(run.code, 1, target);
    assert.match(run.err, /PERMISSION_DENIED: refused|UPSTREAM: .* answered 302/, target);
  }
  assert.deepEqual(hits, []);
});

test('an allowed name that resolves to a private address is refused', async (t) => {
  const world = await setup(t);
  await world.settle((manifest) => {
    manifest.files = manifest.files.filter((f) => f.name === SHARD);
  });
  // Our own resolver answer for a host of the hub's domain: a hosts file of this process.
  const hosts = path.join(world.dir, 'hosts');
  fs.writeFileSync(hosts, '127.0.0.1 rebind.hf.co localhost\n10.0.0.1 private.hf.co\n');
  for (const name of ['rebind.hf.co', 'private.hf.co']) {
    world.hub.script(SHARD, [{ redirect: `https://${name}/x` }]);
    const run = await world.fetch([], {
      sandbox: [
        'unshare',
        ...(process.getuid() === 0 ? [] : ['--map-root-user']),
        '--mount',
        'bash',
        '-c',
        `mount --bind ${hosts} /etc/hosts && exec "$@"`,
        'bash',
      ],
    });
    assert.equal(run.code, 1);
    assert.match(
      run.err,
      new RegExp(`PERMISSION_DENIED: refused to connect to ${name}: its name resolves to a private`),
    );
  }
});

test("a manifest with another host is refused by the node's own list of hosts", async (t) => {
  const world = await setup(t);
  const { hits, port } = await victim(t);
  await world.settle((manifest) => {
    manifest.files[0].url = `http://127.0.0.1:${port}/x`;
  });
  const run = await world.fetch();
  assert.equal(run.code, 1);
  assert.match(run.err, new RegExp(`refused to follow the hub to http://127\\.0\\.0\\.1:${port}.*--hub-host`));
  assert.deepEqual(hits, []);
});

test('redirects in a circle end', async (t) => {
  const world = await setup(t);
  const manifest = await world.settle((m) => {
    m.files = m.files.filter((f) => f.name === SHARD);
  });
  world.hub.script(
    SHARD,
    Array.from({ length: 100 }, () => ({ redirect: manifest.files[0].url })),
  );
  const run = await world.fetch(['--attempts', '2']);
  assert.equal(run.code, 1);
  assert.match(run.err, /redirects in a circle/);
});

test('a hub that answers nonsense is UPSTREAM, not a crash', async (t) => {
  const world = await setup(t);
  for (const body of ['', '<html>', '{}', '[', '{"sha":"x","siblings":[]}', `{"a":${'['.repeat(10000)}`]) {
    const server = http.createServer((req, res) => res.end(body));
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const run = await world.register('a/b', [], { env: { HF_ENDPOINT: `http://127.0.0.1:${server.address().port}` } });
    server.closeAllConnections();
    server.close();
    assert.equal(run.code, 1, run.err);
    assert.match(run.err, /UPSTREAM: the hub's answer about a\/b/);
  }
});
