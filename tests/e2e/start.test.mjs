// A router with a long history starts at once.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
import { call, launch, startRouter } from './support.mjs';

const MODELS = 1000,
  ROWS = 100000,
  LIMIT_MS = 100;
const left = [];
let dir;

before(async () => {
  const first = await startRouter();
  await first.stop();
  dir = first.dir;
  const db = new DatabaseSync(path.join(dir, 'router.db'));
  const files = Array.from({ length: 20 }, (_, i) => ({
    name: `model-${i}.safetensors`,
    url: `https://huggingface.co/acme/x/resolve/${'c'.repeat(40)}/model-${i}.safetensors`,
    size: 5e9,
    sha256: 'a'.repeat(64),
    priority: 0,
    optional: false,
  }));
  db.exec('BEGIN');
  const model = db.prepare(
    'INSERT INTO models (folded_id, id, source, format, manifest, chat_template, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  for (let i = 0; i < MODELS; i++)
    model.run(
      `acme/m${i}`,
      `Acme/M${i}`,
      'hub',
      'safetensors',
      JSON.stringify({
        version: 1,
        id: `Acme/M${i}`,
        format: 'safetensors',
        revision: 'c'.repeat(40),
        runtimes: ['gptoss'],
        files,
      }),
      '',
      i,
    );
  const usage = db.prepare(
    'INSERT INTO usage (time_ms, key_id, model, node, request_id, status, prompt_tokens, completion_tokens, cached_tokens, wait_ms, total_ms) VALUES (?, ?, ?, ?, ?, 200, 100, 200, 0, 1, 900)',
  );
  for (let i = 0; i < ROWS; i++)
    usage.run(Date.now() - i * 1000, `key-${i % 50}`, `Acme/M${i % MODELS}`, 'node-1', `req-${i}`);
  db.exec('COMMIT');
  db.close();
});
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));

// The best of five: others on this machine can only make it slower.
test(`a router with ${MODELS} models and ${ROWS} usage rows listens within ${LIMIT_MS} ms`, async () => {
  const times = [];
  for (let i = 0; i < 5; i++) {
    const begun = performance.now();
    const router = await launch(['router', '--listen', '127.0.0.1:0', '--data-dir', dir], {
      match: /listening on (http:\/\/\S+)/,
    });
    times.push(performance.now() - begun);
    left.push(router);
    if (i === 0) {
      assert.equal((await call(`${router.found[1]}/v0/models`)).json.models.length, MODELS);
      const { usage } = (await call(`${router.found[1]}/v0/usage?since=0&step=1000000000`)).json;
      assert.equal(
        usage.reduce((n, u) => n + u.requests, 0),
        ROWS,
      );
    }
    await router.stop('SIGKILL');
  }
  assert.ok(Math.min(...times) <= LIMIT_MS, `${times.map((t) => Math.round(t))} ms`);
});
