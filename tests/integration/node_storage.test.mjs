// ModelStorage: which models are on this machine, in which format, and why a model
// is not usable.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ask, copyEngine, generate, makeModel, startNode, tempDir, until } from './node_harness.mjs';

describe('models that cannot be used say why', () => {
  let node;
  const models = tempDir('models');
  before(async () => {
    const sharded = makeModel(models, 'sharded');
    fs.rmSync(path.join(sharded, 'model.safetensors'));
    fs.writeFileSync(
      path.join(sharded, 'model.safetensors.index.json'),
      JSON.stringify({
        weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' },
      }),
    );
    fs.copyFileSync(
      path.join(makeModel(models, 'whole'), 'model.safetensors'),
      path.join(sharded, 'model-00001-of-00002.safetensors'),
    );
    fs.rmSync(path.join(makeModel(models, 'no-tokenizer'), 'tokenizer.json'));
    fs.rmSync(path.join(makeModel(models, 'no-config'), 'config.json'));
    makeModel(models, 'nemotron', 'nemotron');
    const other = makeModel(models, 'other');
    fs.writeFileSync(path.join(other, 'config.json'), '{"architectures":["OtherForCausalLM"],"model_type":"echo"}');
    const nameless = makeModel(models, 'nameless');
    fs.writeFileSync(path.join(nameless, 'config.json'), '{}');
    const half = makeModel(models, 'half');
    fs.truncateSync(path.join(half, 'model.safetensors'), 20);
    const broken = makeModel(models, 'broken');
    fs.writeFileSync(path.join(broken, 'config.json'), '{"architectures":');
    for (const [id, name] of [
      ['dml', 'model.dml.bin'],
      ['directml', 'model.directml.bin'],
    ]) {
      const dir = makeModel(models, id);
      fs.renameSync(path.join(dir, 'model.safetensors'), path.join(dir, name));
    }
    const beside = makeModel(models, 'beside-directml');
    fs.writeFileSync(path.join(beside, 'model.directml.bin'), 'DirectML');
    makeModel(models, 'org/nested');
    node = await startNode({ models });
  });
  after(() => node.stop());

  it('names the missing shard', async () => {
    assert.match((await node.model('sharded')).reason, /model-00002-of-00002\.safetensors/);
  });
  it('names the missing tokenizer.json', async () => {
    assert.match((await node.model('no-tokenizer')).reason, /tokenizer\.json/);
  });
  it('names the missing config.json', async () => {
    assert.match((await node.model('no-config')).reason, /config\.json/);
  });
  it('says which runtime no engine has', async () => {
    const model = await node.model('nemotron');
    assert.match(model.reason, /no engine for runtime "nemotron".*echo/);
    const answer = await node.post('/v0/generate', ask('nemotron', 'x'));
    assert.equal(answer.status, 400);
  });
  it('names the architecture no engine runs', async () => {
    const model = await node.model('other');
    assert.equal(model.state, 'absent');
    assert.match(model.reason, /engine "echo" does not run architecture "OtherForCausalLM".*EchoForTesting/);
    assert.equal((await node.post('/v0/generate', ask('other', 'x'))).status, 400);
    assert.match((await node.model('nameless')).reason, /config\.json.*architecture/);
  });
  it('names the file that is incomplete or no JSON', async () => {
    assert.match((await node.model('half')).reason, /model\.safetensors/);
    assert.match((await node.model('broken')).reason, /config\.json/);
  });
  it('recognises a DirectML artifact and says where to get its runtime', async () => {
    for (const [id, name] of [
      ['dml', 'model.dml.bin'],
      ['directml', 'model.directml.bin'],
    ]) {
      const model = await node.model(id);
      assert.equal(model.state, 'failed');
      assert.match(model.reason, new RegExp(`^${name} is a DirectML artifact .*Windows only.*https://`));
      const answer = await node.post('/v0/generate', ask(id, 'x'));
      assert.equal(answer.status, 400);
      assert.match((await answer.json()).error.message, /DirectML/);
      // Asking again changes nothing.
      assert.equal((await (await node.post(`/v0/models/${id}/load`)).json()).state, 'failed');
    }
    assert.equal((await generate(node, ask('beside-directml', 'hi'))).text, 'hi');
  });
  it('does not offer them', async () => {
    const ids = (await node.get('/v1/models')).data.map((m) => m.id).sort();
    assert.deepEqual(ids, ['beside-directml', 'org/nested', 'whole']);
  });
  it('rescans on SIGHUP: missing files may have arrived', async () => {
    const dir = path.join(models, 'dml');
    fs.renameSync(path.join(dir, 'model.dml.bin'), path.join(dir, 'model.safetensors'));
    fs.writeFileSync(path.join(models, 'no-tokenizer/tokenizer.json'), '{"version":"1.0"}');
    node.child.kill('SIGHUP');
    for (const id of ['dml', 'no-tokenizer'])
      await until(`${id} is there`, async () => (await node.model(id)).state === 'present');
    assert.equal((await generate(node, ask('dml', 'hi'))).text, 'hi');
  });
  it('runs the complete model, also by its name with a slash', async () => {
    assert.equal((await generate(node, ask('org/nested', 'hi'))).text, 'hi');
    assert.equal((await node.get('/v0/models/org%2Fnested')).state, 'ready');
    assert.equal((await fetch(`${node.url}/v0/models/org%252Fnested`)).status, 404); // decoded once
  });
});

// Everything below a folder: names, links, sizes and times.
function picture(dir) {
  return fs
    .readdirSync(dir, { recursive: true })
    .sort()
    .map((name) => {
      const stat = fs.lstatSync(path.join(dir, name));
      return `${name} ${stat.ino} ${stat.size} ${stat.mtimeMs}`;
    });
}

describe('a Hugging Face cache', () => {
  const home = tempDir('hf');
  const commit = 'a'.repeat(40);
  const entry = (id) => path.join(home, 'hub', `models--${id.replaceAll('/', '--')}`);
  // As huggingface_hub leaves it: blobs by hash, snapshots of relative links.
  function cache(id, { ref = commit, snapshots = [commit], without = [] } = {}) {
    const files = makeModel(tempDir('snapshot'), 'files', 'echo');
    fs.mkdirSync(path.join(entry(id), 'blobs'), { recursive: true });
    for (const snapshot of snapshots) {
      const dir = path.join(entry(id), 'snapshots', snapshot);
      fs.mkdirSync(dir, { recursive: true });
      for (const name of fs.readdirSync(files)) {
        const blob = `${name}-blob`;
        if (!without.includes(name)) fs.copyFileSync(path.join(files, name), path.join(entry(id), 'blobs', blob));
        fs.symlinkSync(path.join('../../blobs', blob), path.join(dir, name));
      }
    }
    if (!ref) return;
    fs.mkdirSync(path.join(entry(id), 'refs'));
    fs.writeFileSync(path.join(entry(id), 'refs/main'), ref);
  }

  let node;
  let before_;
  const models = tempDir('models');
  before(async () => {
    cache('org/name');
    cache('plain');
    cache('org/no--ref', { ref: null });
    cache('org/two', { ref: null, snapshots: [commit, 'b'.repeat(40)] });
    cache('org/dangling', { ref: 'c'.repeat(40) });
    cache('org/escapes', { ref: '../../../etc' });
    cache('org/half', { without: ['model.safetensors'] });
    fs.mkdirSync(path.join(home, 'hub/datasets--org--data'));
    makeModel(models, 'org/plain');
    before_ = picture(home);
    node = await startNode({ models, hfCache: true, env: { HF_HOME: home, HF_HUB_CACHE: '' } });
  });
  after(() => node.stop());

  it('is used in place: the snapshot that refs/main names is what runs', async () => {
    for (const id of ['org/name', 'plain', 'org/no--ref']) {
      assert.equal((await generate(node, ask(id, 'hi'))).text, 'hi');
      assert.equal((await node.model(id)).dir, path.join(entry(id), 'snapshots', commit));
    }
    assert.deepEqual(fs.readdirSync(models), ['org']); // nothing was copied
    assert.deepEqual(fs.readdirSync(path.join(models, 'org')), ['plain']);
  });

  it('says what is wrong with an entry', async () => {
    assert.match((await node.model('org/two')).reason, /2 snapshots and no refs\/main/);
    assert.match((await node.model('org/dangling')).reason, /no snapshot c{40}, which refs\/main names/);
    assert.match((await node.model('org/escapes')).reason, /refs\/main names no commit/);
    assert.match((await node.model('org/half')).reason, /missing: model\.safetensors/);
    const ids = (await node.get('/v0/models')).models.map((m) => m.id);
    assert.ok(!ids.some((id) => id.includes('data')));
  });

  it('is never deleted from, and never written to', async () => {
    await node.post('/v0/models/plain/unload');
    const answer = await fetch(`${node.url}/v0/models/plain?purge=true`, { method: 'DELETE' });
    assert.equal(answer.status, 403);
    assert.match((await answer.json()).error.message, /not this node's to delete/);
    assert.equal((await fetch(`${node.url}/v0/models/org%2Fhalf?purge=true`, { method: 'DELETE' })).status, 404);
    assert.deepEqual(picture(home), before_);
  });

  it('is ignored with --no-hf-cache, and found through HF_HUB_CACHE', async () => {
    const without = await startNode({ models, env: { HF_HOME: home } });
    assert.deepEqual(
      (await without.get('/v0/models')).models.map((m) => m.id),
      ['org/plain'],
    );
    await without.stop();
    const moved = await startNode({
      models,
      hfCache: true,
      env: { HF_HOME: '/nowhere', HF_HUB_CACHE: path.join(home, 'hub') },
    });
    assert.equal((await moved.model('org/name')).state, 'present');
    await moved.stop();
  });
});

describe('both formats in one folder', () => {
  // The least a GGUF is: a header that names its architecture.
  function writeGguf(file) {
    const text = (s) => {
      const n = Buffer.alloc(8);
      n.writeBigUInt64LE(BigInt(s.length));
      return Buffer.concat([n, Buffer.from(s)]);
    };
    const number = (value, bytes) => {
      const b = Buffer.alloc(bytes);
      b.writeUIntLE(value, 0, Math.min(bytes, 6));
      return b;
    };
    fs.writeFileSync(
      file,
      Buffer.concat([
        Buffer.from('GGUF'),
        number(3, 4),
        number(0, 8),
        number(1, 8),
        text('general.architecture'),
        number(8, 4),
        text('llama'),
        Buffer.alloc(64),
      ]),
    );
  }

  it('the registered format is described and run, also if the other format runs already', async () => {
    const engines = tempDir('engines');
    const models = tempDir('models');
    copyEngine(engines, 'echo');
    const folder = copyEngine(engines, 'faulty'); // plays llama.cpp
    const manifest = JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')));
    fs.writeFileSync(
      path.join(folder, 'manifest.json'),
      JSON.stringify({ ...manifest, runtimes: ['llama_cpp'], formats: ['gguf'] }),
    );
    const ids = ['idle', 'busy', 'same', 'lacks'];
    for (const id of ids) {
      const dir = makeModel(models, id, 'echo', { step_ms: 20 });
      if (id !== 'lacks') writeGguf(path.join(dir, 'weights.gguf'));
    }
    let version = 0;
    const list = () => ({
      version,
      models: ids.map((id) => ({ id, source: 'local', format: version > 1 && id !== 'same' ? 'gguf' : 'safetensors' })),
    });
    const router = http.createServer((req, res) =>
      res.end(JSON.stringify(req.url === '/v0/models/registry' ? list() : { registry_version: version })),
    );
    await new Promise((done) => router.listen(0, '127.0.0.1', done));
    version = 1;
    const node = await startNode({ engines, models, args: ['--router', `http://127.0.0.1:${router.address().port}`] });
    const { secret } = JSON.parse(fs.readFileSync(path.join(node.dir, 'data/node-identity.json')));
    const headers = { authorization: `Bearer ${secret}` };
    const model = async (id) => (await fetch(`${node.url}/v0/models/${id}`, { headers })).json();
    for (const id of ids) assert.equal((await model(id)).format, 'safetensors');
    const running = generate(node, ask('busy', 'b'.repeat(60)), { headers });
    await until('it runs', async () => (await model('busy')).workers[0]?.live === 1);
    version = 2;
    await until('the idle one changed', async () => (await model('idle')).format === 'gguf');
    assert.equal((await model('idle')).engine, 'faulty');
    assert.equal((await running).text, 'b'.repeat(60)); // what ran was not cut
    await until('the busy one changed', async () => (await model('busy')).format === 'gguf');
    await generate(node, ask('busy', 'x'), { headers });
    assert.deepEqual([(await model('busy')).format, (await model('busy')).engine], ['gguf', 'faulty']);
    assert.equal((await model('same')).format, 'safetensors');
    // The other format is never run because it works.
    await until('it is not usable', async () => (await model('lacks')).state === 'absent');
    assert.match((await model('lacks')).reason, /missing: a \.gguf file/);
    await node.stop();
    router.closeAllConnections();
    router.close();
  });
});

describe('purging a model', () => {
  let node;
  const models = tempDir('models');
  const gate = path.join(tempDir('gate'), 'gate');
  const outside = makeModel(tempDir('outside'), 'outside');
  const linked = makeModel(tempDir('linked'), 'linked');
  const purge = async (id, query = '?purge=true') => {
    const response = await fetch(`${node.url}/v0/models/${id}${query}`, { method: 'DELETE' });
    return { status: response.status, text: await response.text() };
  };
  before(async () => {
    fs.writeFileSync(gate, '');
    makeModel(models, 'mine', 'echo', { gate });
    makeModel(models, 'pinned');
    makeModel(models, 'org/one');
    makeModel(models, 'slow', 'echo', { load_ms: 1000 });
    fs.symlinkSync(linked, path.join(models, 'linked'));
    node = await startNode({ models, args: ['--model', outside] });
  });
  after(() => node.stop());

  it('needs ?purge=true and an existing model', async () => {
    assert.equal((await purge('mine', '')).status, 400);
    assert.equal((await purge('mine', '?purge=false')).status, 400);
    assert.equal((await purge('nobody')).status, 404);
    assert.equal((await purge('..%2Fmine')).status, 404);
  });

  it('is refused while the model is in use, loading or pinned', async () => {
    const running = generate(node, ask('mine', 'a long answer'));
    await until('it runs', async () => (await node.worker('mine'))?.live === 1);
    const refused = await purge('mine');
    assert.equal(refused.status, 409);
    assert.match(refused.text, /in use \(ready, 1 requests\): unload it first/);
    fs.writeFileSync(gate, '.'.repeat(99));
    assert.equal((await running).text, 'a long answer');
    await node.post('/v0/models/slow/load');
    await until('loading', async () => (await node.model('slow')).state === 'loading');
    assert.equal((await purge('slow')).status, 409);
    await node.post('/v0/models/pinned/pin');
    assert.equal((await purge('pinned')).status, 409);
    assert.equal((await generate(node, ask('slow', 'well'))).text, 'well');
  });

  it('touches nothing outside the models root, not even through a link', async () => {
    for (const [id, dir] of [
      ['outside', outside],
      ['linked', linked],
    ]) {
      const refused = await purge(id);
      assert.equal(refused.status, 403);
      assert.match(refused.text, /not this node's to delete/);
      assert.equal((await generate(node, ask(id, 'hi'))).text, 'hi');
      assert.equal(fs.readdirSync(dir).length, 3);
    }
  });

  it('spares a folder that holds other models', async () => {
    makeModel(models, 'org'); // a model of that name among them
    node.child.kill('SIGHUP');
    await until('found', async () => (await node.model('org')).state === 'present');
    const refused = await purge('org');
    assert.equal(refused.status, 409);
    assert.match(refused.text, /folder of model \\"org\\" holds model \\"org\/one\\"/);
    assert.equal((await purge('org%2Fone')).status, 200);
    assert.equal((await purge('org')).status, 200);
  });

  it('ends the idle worker and deletes the folder, once', async () => {
    const { pid } = await node.worker('mine');
    const answers = await Promise.all([purge('mine'), purge('mine')]);
    const [first, second] = answers.map((a) => a.status).sort();
    assert.ok(first === 200 && [404, 409].includes(second), `${first} ${second}`); // 404 where the first had ended
    assert.equal(fs.existsSync(path.join(models, 'mine')), false);
    assert.equal(fs.existsSync(`/proc/${pid}`), false);
    assert.equal((await purge('mine')).status, 404);
    assert.deepEqual((await node.get('/v0/models')).models.map((m) => m.id).sort(), [
      'linked',
      'outside',
      'pinned',
      'slow',
    ]);
  });
});
