// What downloads promise, against a stand-in hub: a partial file is never taken for
// a whole one, nothing is fetched twice without need, and every end says why.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SHARD, demoFiles, setup, sha256, until } from './hub_harness.mjs';

const size = (file) => (fs.existsSync(file) ? fs.statSync(file).size : 0);

test('a model arrives complete, several files at once, and a second run downloads nothing', async (t) => {
  const world = await setup(t);
  await world.settle();
  const first = await world.fetch();
  assert.equal(first.code, 0, first.err);
  assert.equal(first.json.state, 'done');
  assert.equal(first.json.done_bytes, first.json.total_bytes);
  world.assertWhole();
  const served = world.hub.requests.length;
  const second = await world.fetch();
  assert.equal(second.code, 0, second.err);
  assert.equal(world.hub.requests.length, served);
});

test('files are fetched side by side', async (t) => {
  const world = await setup(t);
  await world.settle();
  let open;
  const gate = new Promise((done) => {
    open = done;
  });
  const waiting = new Set();
  for (const name of [SHARD, 'model-00002-of-00002.safetensors'])
    world.hub.script(name, [{ gate, after: 1000, reached: () => waiting.add(name) }]);
  const run = world.startFetch();
  await until('both shards are on their way', () => waiting.size === 2);
  open();
  assert.equal((await run.done).code, 0, run.err);
  world.assertWhole();
});

for (const [what, step] of [
  ['cut', { cut: 1_500_000 }],
  ['stalled', { stall: 1_500_000 }],
])
  test(`a ${what} connection is resumed where it ended`, async (t) => {
    const world = await setup(t);
    await world.settle();
    world.hub.script(SHARD, [step]);
    const run = await world.fetch(['--stall', '1s']);
    assert.equal(run.code, 0, run.err);
    world.assertWhole();
    const [first, second] = world.hub.served(SHARD);
    assert.equal(first.status, 200);
    assert.equal(second.status, 206);
    assert.ok(second.from > 0 && second.from <= 1_500_000, `resumed at ${second.from}`);
    assert.equal(second.headers['if-range'], world.hub.repos.get('openai/demo').tree().files.get(SHARD).etag);
    assert.equal(first.sent >= second.from, true);
  });

test('a connection that is cut again and again still arrives, as long as bytes come', async (t) => {
  const world = await setup(t);
  await world.settle();
  world.hub.script(
    SHARD,
    Array.from({ length: 12 }, () => ({ cut: 300_000 })),
  );
  const run = await world.fetch(['--attempts', '3']);
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
});

test('a download without a single byte fails after a limited number of attempts, with the reason', async (t) => {
  const world = await setup(t);
  await world.settle();
  world.hub.script(
    SHARD,
    Array.from({ length: 50 }, () => ({ status: 503 })),
  );
  const run = await world.fetch(['--attempts', '4']);
  assert.equal(run.code, 1);
  assert.equal(run.json.state, 'failed');
  assert.match(run.err, /UPSTREAM: .* answered 503 for openai\/demo\/model-00001-of-00002\.safetensors/);
  assert.equal(world.hub.requests.filter((r) => r.where === 'storage' && r.file === SHARD).length, 4);
  assert.equal(fs.existsSync(path.join(world.out, SHARD)), false);
});

test('Retry-After is honoured', async (t) => {
  const world = await setup(t);
  await world.settle();
  world.hub.script(SHARD, [{ status: 429, headers: { 'retry-after': '1' } }]);
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  const [first, second] = world.hub.requests.filter((r) => r.where === 'storage' && r.file === SHARD);
  assert.ok(second.at - first.at >= 1000, `asked again after ${second.at - first.at} ms`);
});

test('a file that changed mid-way is fetched again from the start', async (t) => {
  const world = await setup(t);
  await world.settle();
  // The bytes of another file first; its ETag does not fit the rest.
  const other = Buffer.from(world.files[SHARD]);
  other.fill(9, 0, 100);
  world.hub.script(SHARD, [{ bytes: other, cut: 1_000_000 }]);
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
  const served = world.hub.served(SHARD);
  assert.deepEqual(
    served.map((r) => r.status),
    [200, 200],
  ); // If-Range did not hold
  assert.match(served[1].headers.range, /^bytes=\d+-$/);
});

test('a server that ignores If-Range and sends other bytes is found by the hash', async (t) => {
  const world = await setup(t);
  await world.settle();
  const file = world.hub.repos.get('openai/demo').tree().files.get(SHARD);
  world.hub.script(SHARD, [{ flip: 10, cut: 1_000_000 }]); // same ETag, wrong byte in the first part
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
  assert.deepEqual(
    world.hub.served(SHARD).map((r) => r.status),
    [200, 206, 200],
  );
  assert.match(run.err, /another sha256/);
  assert.ok(file.etag);
});

test('wrong bytes never get the final name, and are not fetched for ever', async (t) => {
  const world = await setup(t);
  await world.settle();
  world.hub.script(
    SHARD,
    Array.from({ length: 50 }, () => ({ flip: 2_000_000 })),
  );
  const run = await world.fetch();
  assert.equal(run.code, 1);
  assert.match(run.err, /MODEL_CORRUPT: model-00001-of-00002\.safetensors arrived with another sha256/);
  assert.equal(world.hub.served(SHARD).length, 3);
  assert.equal(fs.existsSync(path.join(world.out, SHARD)), false);
});

test("a size other than the manifest's is refused before its bytes are stored", async (t) => {
  const world = await setup(t);
  await world.settle();
  const longer = Buffer.concat([world.files[SHARD], Buffer.alloc(10)]);
  world.hub.script(
    SHARD,
    Array.from({ length: 50 }, () => ({ bytes: longer })),
  );
  const run = await world.fetch();
  assert.equal(run.code, 1);
  assert.match(run.err, /has 4074282 bytes at the hub, the manifest says 4074272/);
});

test('a weak ETag is not used in If-Range; the hash verifies the file', async (t) => {
  const world = await setup(t);
  await world.settle();
  world.hub.script(SHARD, [{ weak: true, cut: 1_000_000 }]);
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
  const second = world.hub.served(SHARD)[1];
  assert.equal(second.headers['if-range'], undefined);
  assert.equal(second.status, 206);
});

test('a server without ranges sends all of it again', async (t) => {
  const world = await setup(t);
  await world.settle();
  world.hub.script(SHARD, [{ cut: 1_000_000 }, { noRange: true }]);
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
  assert.deepEqual(
    world.hub.served(SHARD).map((r) => r.status),
    [200, 200],
  );
});

test('an expired download address is requested again', async (t) => {
  const world = await setup(t);
  await world.settle();
  world.hub.addressLife = -1;
  const run = world.startFetch();
  await until('an expired address was used', () => world.hub.requests.some((r) => r.where === 'storage'));
  world.hub.addressLife = 3600000;
  assert.equal((await run.done).code, 0, run.err);
  world.assertWhole();
});

test('an optional file that fails does not fail the model', async (t) => {
  const world = await setup(t);
  await world.settle();
  world.hub.script(
    'generation_config.json',
    Array.from({ length: 50 }, () => ({ status: 404 })),
  );
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  assert.equal(run.json.state, 'done');
  const file = run.json.files.find((f) => f.name === 'generation_config.json');
  assert.equal(file.state, 'skipped');
  assert.match(file.reason, /generation_config\.json/);
  const { 'generation_config.json': _, ...rest } = world.files;
  world.assertWhole(Object.keys(rest));
});

test('artifacts of other backends and models of other runtimes are not fetched', async (t) => {
  const artifact = Buffer.alloc(100_000, 5);
  const files = { ...demoFiles(), 'metal/model.bin': artifact };
  const world = await setup(t, { files });
  const manifest = await world.settle();
  const entry = manifest.files.find((f) => f.name === 'metal/model.bin');
  assert.deepEqual(
    [entry.kind, entry.optional, entry.backends, entry.sha256],
    ['artifact', true, ['metal'], sha256(artifact)],
  );
  assert.equal((await world.fetch(['--backends', 'cuda'])).code, 0);
  assert.equal(fs.existsSync(path.join(world.out, 'metal')), false);
  assert.equal((await world.fetch(['--backends', 'metal'])).code, 0);
  world.assertWhole();
  const asked = world.hub.requests.length;
  const alien = await world.fetch(['--runtimes', 'llama_cpp']);
  assert.equal(alien.code, 1);
  assert.match(alien.err, /no engine here for runtime gptoss/);
  assert.equal(world.hub.requests.length, asked);
});

// ---- kill -9, then again ----

const stages = [
  'download.note=kill',
  'download.write=kill:1',
  'download.write=kill:9',
  'download.received=kill',
  'download.rename=kill',
  'download.renamed=kill',
  'download.sealed=kill',
];
for (const stage of stages)
  test(`killed at ${stage}, the next run completes`, async (t) => {
    const world = await setup(t);
    await world.settle((manifest) => {
      // one file: the stage is that file's
      manifest.files = manifest.files.filter((f) => f.name === SHARD);
    });
    const killed = await world.fetch([], { failpoint: stage });
    assert.equal(killed.signal, 'SIGKILL', `${killed.code} ${killed.err}`);
    const whole = path.join(world.out, SHARD);
    if (fs.existsSync(whole)) assert.equal(sha256(fs.readFileSync(whole)), sha256(world.files[SHARD]));
    const had = size(world.part(SHARD));
    const before = world.hub.served(SHARD).length;
    const run = await world.fetch();
    assert.equal(run.code, 0, run.err);
    world.assertWhole([SHARD]);
    const again = world.hub.served(SHARD).slice(before);
    if (had > 0 && had < world.files[SHARD].length)
      assert.deepEqual(
        again.map((r) => r.from),
        [had],
      );
    if (/received|rename|sealed/.test(stage)) assert.equal(again.length, 0, 'all bytes were there');
  });

test('killed at any moment, over and over, the model still arrives', async (t) => {
  const world = await setup(t);
  await world.settle();
  for (let i = 0; i < 12; i++) {
    world.hub.script(SHARD, [{ rate: 3_000_000 }]);
    const run = world.startFetch();
    await until(
      'some bytes more',
      () => world.hub.served(SHARD).at(-1)?.sent > 100_000 * (i % 4) || run.code !== undefined,
    );
    run.child.kill('SIGKILL');
    await run.done;
    const whole = path.join(world.out, SHARD);
    if (fs.existsSync(whole)) assert.equal(sha256(fs.readFileSync(whole)), sha256(world.files[SHARD]));
  }
  world.hub.script(SHARD, []);
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
});

test('a corrupt byte in a partial file is detected and the file downloaded again', async (t) => {
  const world = await setup(t);
  await world.settle((manifest) => {
    manifest.files = manifest.files.filter((f) => f.name === SHARD);
  });
  assert.equal((await world.fetch([], { failpoint: 'download.write=kill:9' })).signal, 'SIGKILL');
  assert.ok(size(world.part(SHARD)) > 100_000);
  const fd = fs.openSync(world.part(SHARD), 'r+');
  fs.writeSync(fd, Buffer.from([0xee, 0xee]), 0, 2, 50_000);
  fs.closeSync(fd);
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  assert.match(run.err, /another sha256/);
  world.assertWhole([SHARD]);
});

test('a corrupt byte in a finished file is detected if the time of the file changed', async (t) => {
  const world = await setup(t);
  await world.settle();
  assert.equal((await world.fetch()).code, 0);
  const fd = fs.openSync(path.join(world.out, SHARD), 'r+');
  fs.writeSync(fd, Buffer.from([0xee, 0xee]), 0, 2, 500_000);
  fs.closeSync(fd);
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  assert.match(run.err, /download\.discard/);
  world.assertWhole();
});

test('partial files without a record are not resumed', async (t) => {
  const world = await setup(t);
  await world.settle();
  fs.mkdirSync(path.join(world.out, '.download'), { recursive: true });
  fs.writeFileSync(world.part(SHARD), Buffer.alloc(1_000_000, 1));
  fs.writeFileSync(path.join(world.out, SHARD), Buffer.alloc(1000, 1)); // and a truncated whole one
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  world.assertWhole();
  assert.equal(world.hub.served(SHARD)[0].headers.range, undefined);
});

test('a partial file of another commit is not resumed, even if there is no hash', async (t) => {
  const world = await setup(t);
  const only = (manifest) => {
    manifest.files = manifest.files.filter((f) => f.name === 'tokenizer.json');
    delete manifest.files[0].sha256;
  };
  await world.settle(only);
  assert.equal((await world.fetch([], { failpoint: 'download.received=kill' })).signal, 'SIGKILL');
  assert.ok(size(world.part('tokenizer.json')) > 0);
  const other = Buffer.from(world.files['tokenizer.json']);
  other[0] ^= 1; // as long as before
  world.files['tokenizer.json'] = other;
  world.hub.repos.get('openai/demo').commit(world.files);
  await world.settle(only);
  const run = await world.fetch();
  assert.equal(run.code, 0, run.err);
  world.assertWhole(['tokenizer.json']);
});

// ---- disk ----

test('too little disk space is reported before the first byte, with both numbers', async (t) => {
  const world = await setup(t);
  await world.settle();
  const asked = world.hub.requests.length;
  const run = await world.fetch(['--disk-reserve', '1000000GiB']);
  assert.equal(run.code, 1);
  assert.match(run.err, /needs 7\.\d MiB more \(\d+ bytes\) in .*, where .* are free \(\d+ bytes/);
  assert.equal(world.hub.requests.length, asked);
});

test('a disk becomes full: a clear error, the partial file is kept, and the next run resumes it', async (t) => {
  const world = await setup(t);
  await world.settle();
  const run = await world.fetch([], { ulimit: '-f 2000' }); // 2,000 KiB a file
  assert.equal(run.code, 1, run.err);
  assert.match(run.err, /UNAVAILABLE: disk full: model-0000\d-of-00002\.safetensors still needs .* make room/);
  const name = [SHARD, 'model-00002-of-00002.safetensors'].find((n) => size(world.part(n)) > 0);
  const had = size(world.part(name));
  assert.ok(had > 0 && had <= 2000 * 1024);
  // Files are downloaded side by side: a small one may have been on its way when a large one ended the run.
  const config = path.join(world.out, 'config.json');
  if (fs.existsSync(config)) assert.equal(sha256(fs.readFileSync(config)), sha256(world.files['config.json']));
  const before = world.hub.served(name).length;
  const again = await world.fetch();
  assert.equal(again.code, 0, again.err);
  world.assertWhole();
  assert.equal(world.hub.served(name)[before].from, had);
});

test('a simulated full disk keeps the downloaded bytes', async (t) => {
  const world = await setup(t);
  await world.settle((manifest) => {
    manifest.files = manifest.files.filter((f) => f.name === SHARD);
  });
  const run = await world.fetch([], { failpoint: 'download.write=error:5' });
  assert.equal(run.code, 1);
  assert.match(run.err, /disk full/);
  assert.ok(size(world.part(SHARD)) > 0);
  assert.equal((await world.fetch()).code, 0);
  world.assertWhole([SHARD]);
});

test('two processes do not download into one folder', async (t) => {
  const world = await setup(t);
  await world.settle();
  let open;
  const reached = new Promise((done) => {
    world.hub.script(SHARD, [
      {
        gate: new Promise((go) => {
          open = go;
        }),
        after: 1000,
        reached: done,
      },
    ]);
  });
  const first = world.startFetch();
  await reached;
  const second = await world.fetch();
  assert.equal(second.code, 1);
  assert.match(second.err, /is held by process/);
  open();
  assert.equal((await first.done).code, 0, first.err);
  world.assertWhole();
});

test('nothing outside the manifest is touched', async (t) => {
  const world = await setup(t);
  await world.settle();
  fs.mkdirSync(path.join(world.out, 'notes'), { recursive: true });
  fs.writeFileSync(path.join(world.out, 'notes/mine.txt'), 'mine');
  fs.writeFileSync(path.join(world.out, 'other.safetensors'), 'mine too');
  assert.equal((await world.fetch()).code, 0);
  assert.equal(fs.readFileSync(path.join(world.out, 'notes/mine.txt'), 'utf8'), 'mine');
  assert.equal(fs.readFileSync(path.join(world.out, 'other.safetensors'), 'utf8'), 'mine too');
});
