// What a client is promised holds for models of engine native: with recurrent state, latent keys, windows and keys that
// layers share, experts.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { everyFamily, FAMILIES, makeFamilyModel } from '../support/family_model.mjs';
import { workersOf } from '../support/workers.mjs';
import { allIdle, fleet, makeKey, metric } from './fleet.mjs';
import { call, DEMO, LONG, nodes, register, say, stream, tempDir, until } from './support.mjs';

const STREAMS = LONG ? 16 : 2;
const folder = tempDir('families');
const families = Object.keys(FAMILIES);
const models = families.map((family) => makeFamilyModel(FAMILIES[family], DEMO, path.join(folder, family)));

// Every node has a model of each family.
async function familyFleet(count, nodeArgs = []) {
  const [first, ...others] = models;
  const more = others.flatMap((model) => ['--model', model]);
  const scene = await fleet(count, first, { nodeArgs: [...more, ...nodeArgs] });
  for (const name of families.slice(1)) await register(scene.router, name);
  return scene;
}

const text = (i) => `Number ${i}. ${'What comes after the last thing that was said? '.repeat(3 + (i % 5))}`;
const asks = (model, count, more = {}) =>
  Array.from({ length: count }, (_, i) => ({
    model,
    temperature: i % 2,
    seed: i,
    max_tokens: 300,
    ignore_eos: true,
    ...say(text(i)),
    ...more,
  }));

async function turn(router, model, key, messages) {
  const { status, json } = await call(`${router.url}/v1/chat/completions`, {
    key,
    body: { model, temperature: 0, max_tokens: 70, ignore_eos: true, messages },
  });
  assert.equal(status, 200, JSON.stringify(json));
  return {
    message: json.choices[0].message,
    prompt: json.usage.prompt_tokens,
    cached: json.usage.prompt_tokens_details.cached_tokens,
  };
}

// All asked at once; `disturb` is called at once when the first stream has some tokens: the answers are short.
async function askAll(router, all, disturb = () => {}) {
  let disturbed;
  const onChunk = (out) => {
    if (out.chunks === 3) disturbed ??= disturb() ?? true;
  };
  const outs = await Promise.all(all.map((ask) => stream(router.url, ask, { onChunk })));
  await disturbed;
  return outs.map((out) => {
    assert.deepEqual([out.status, out.error, out.done], [200, null, true], out.body);
    return out.text;
  });
}

// For tests that break nothing.
let calmScene;
const calmFleet = () => (calmScene ??= familyFleet(1));

const moves = async (router) => (await metric(router, 'continuations_total')) + (await metric(router, 'retries_total'));

async function kvInUse(node) {
  const { secret } = JSON.parse(fs.readFileSync(path.join(node.dir, 'node-identity.json')));
  const { json } = await call(`http://127.0.0.1:${node.port}/v0/memory`, { key: secret });
  return json.pools.flatMap((pool) => pool.claims).reduce((sum, claim) => sum + claim.kv_in_use, 0);
}

async function reload(router) {
  for (const { id } of await nodes(router)) {
    const at = `${router.url}/v0/nodes/${id}/engines/native/reload`;
    const answer = await call(at, { method: 'POST' });
    assert.ok(answer.status < 300, answer.text);
  }
}

test('a conversation continues from the prefix cache with the same text', async () => {
  const { router } = await calmFleet();
  for (const family of families) {
    const { key } = await makeKey(router);
    const messages = [{ role: 'system', content: text(4) }];
    let before = 0;
    for (let i = 0; i < 3; i++) {
      messages.push({ role: 'user', content: text(i) });
      const one = await turn(router, family, key, messages);
      const fresh = await turn(router, family, (await makeKey(router)).key, messages); // computes it all itself
      assert.ok(one.cached >= before * 0.7, `${family}: ${one.cached} of ${one.prompt} cached, ${before} were there`);
      assert.deepEqual([fresh.message, fresh.cached], [one.message, 0], family);
      messages.push({ role: 'assistant', content: one.message.content });
      before = one.prompt;
    }
  }
});

test('workers are killed, the engine is reloaded and a node is killed in mid-stream: the texts are the same', async () => {
  const { router, all } = await familyFleet(2);
  const questions = families.flatMap((family) => asks(family, STREAMS));
  const calm = await askAll(router, questions);
  assert.ok(new Set(calm).size === calm.length && calm.every((t) => t.length > 100));
  // On a busy machine the answers may have ended before the kill.
  for (let tries = 0; tries < 5 && !((await moves(router)) > 0); tries++) {
    const workers = await until('a worker runs', () => all.flatMap(workersOf).length > 0 && all.flatMap(workersOf));
    const kill = () => workers.forEach((pid) => process.kill(pid, 'SIGKILL'));
    assert.deepEqual(await askAll(router, questions, kill), calm);
  }
  assert.ok((await moves(router)) > 0);
  assert.deepEqual(await askAll(router, questions, () => reload(router)), calm);
  assert.deepEqual(await askAll(router, questions, () => void all[0].child.kill('SIGKILL')), calm);
});

test('requests that lose their memory to others have the same text, and cancelled ones give all of it back', async () => {
  const { router, all } = await familyFleet(1, ['--max-tokens', '1024', '--max-context', '512']);
  for (const family of families) {
    const questions = asks(family, 6, { max_tokens: 280 });
    const calm = [];
    for (const ask of questions) calm.push(...(await askAll(router, [ask])));
    assert.deepEqual(await askAll(router, questions), calm, family);
    const leaving = new AbortController();
    let begun = 0;
    const onChunk = (out) => (begun += out.chunks === 3 ? 1 : 0);
    const gone = questions.map((ask) => stream(router.url, ask, { signal: leaving.signal, onChunk }));
    gone.forEach((one) => one.catch(() => {}));
    await until('some run', () => begun >= 2);
    assert.ok((await kvInUse(all[0])) > 0);
    leaving.abort();
    await allIdle(router);
    await until('no memory is in use', async () => (await kvInUse(all[0])) === 0);
  }
});

test('an answer with a schema matches it, alone as beside others', async () => {
  const { router } = await calmFleet();
  const schema = {
    type: 'object',
    properties: { kind: { enum: ['a', 'b'] }, flags: { type: 'array', items: { type: 'boolean' }, maxItems: 4 } },
    required: ['kind', 'flags'],
    additionalProperties: false,
  };
  const format = { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } };
  for (const family of families) {
    const constrained = asks(family, 3, { response_format: format, ignore_eos: false });
    const texts = (await askAll(router, [...constrained, ...asks(family, 3)])).slice(0, 3);
    for (const answer of texts) {
      const { kind, flags, ...rest } = JSON.parse(answer);
      assert.ok(['a', 'b'].includes(kind) && flags.every((f) => typeof f === 'boolean'), answer);
      assert.deepEqual(rest, {});
    }
    assert.deepEqual(await askAll(router, constrained), texts, family);
  }
});

const everyFamilyKeepsItsPromises = async () => {
  const all = everyFamily();
  const names = Object.keys(all);
  for (let i = 0; i < names.length; i += 8) {
    const some = names.slice(i, i + 8);
    const paths = some.map((name) => makeFamilyModel(all[name], DEMO, path.join(folder, 'every', name)));
    const scene = await fleet(1, paths[0], { nodeArgs: paths.slice(1).flatMap((model) => ['--model', model]) });
    for (const name of some.slice(1)) await register(scene.router, name);
    const questions = some.flatMap((name) => asks(name, 2, { max_tokens: 120 }));
    const calm = await askAll(scene.router, questions);
    assert.deepEqual(await askAll(scene.router, questions, () => reload(scene.router)), calm, some.join());
    const kill = () => workersOf(scene.all[0]).forEach((pid) => process.kill(pid, 'SIGKILL'));
    assert.deepEqual(await askAll(scene.router, questions, kill), calm, some.join());
  }
};
if (LONG) test('a reload and the death of all workers change no answer of any family', everyFamilyKeepsItsPromises);
