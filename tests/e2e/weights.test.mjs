// One name, other weights: a folder that is replaced under a running model, and two nodes whose files differ.  No answer
// is made of two models, and the operator is told.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { writeEchoModel } from '../support/echo_model.mjs';
import { killWorkers } from '../support/workers.mjs';
import { addNode, fleet, idOf, makeGated, makeKey, metric } from './fleet.mjs';
import { call, nodes, online, say, stream, tempDir, until } from './support.mjs';

const TEXT = 'the quick brown fox jumps over the lazy dog';
const FIRST = 5; // tokens that the client has before anything breaks

const differs = async (router) =>
  (await call(`${router.url}/v0/alerts`)).json.alerts.filter((a) => a.kind === 'model_differs' && a.open);

// The same model as `gated`, whose answers are in capital letters: in another folder, with the same id.
function makeOther(gated) {
  const config = JSON.parse(fs.readFileSync(path.join(gated.model, 'config.json')));
  return writeEchoModel(path.join(tempDir('other'), idOf(gated.model)), 'echo', { ...config.testing, shout: true });
}

function replace(folder, by) {
  fs.renameSync(folder, `${folder}.before`);
  fs.renameSync(by, folder);
}

// Answers that stand still after their first tokens.
async function begun(router, id, count, { key } = {}) {
  const ready = new Set();
  const onChunk = (i) => (o) => o.text.length === FIRST && ready.add(i);
  const running = Array.from({ length: count }, (_, i) =>
    stream(router.url, { model: id, ...say(TEXT) }, { key, onChunk: onChunk(i) }),
  );
  await until('all have their first tokens', () => ready.size === count);
  return running;
}

test('a folder is replaced under a running model, and its worker dies: begun answers end with the reason, none goes on in the other model', async () => {
  const gated = makeGated('swapped');
  const { router, all } = await fleet(1, gated.model);
  gated.open(FIRST);
  const running = await begun(router, 'swapped', 3, await makeKey(router)); // an api key is told as much
  replace(gated.model, makeOther(gated));
  await killWorkers(all[0]);
  gated.open(1000);
  for (const out of await Promise.all(running)) {
    assert.equal(out.text, TEXT.slice(0, FIRST));
    assert.match(out.error?.message ?? '', /files of model "swapped" were replaced while it was made/);
  }
  const anew = await stream(router.url, { model: 'swapped', ...say(TEXT) });
  assert.deepEqual([anew.error, anew.text], [null, TEXT.toUpperCase()]);
});

test('what was not begun when the folder was replaced begins anew, in one model from its first to its last token', async () => {
  const gated = makeGated('fresh');
  const { router, all } = await fleet(1, gated.model);
  const running = [1, 2, 3].map(() => stream(router.url, { model: 'fresh', ...say(TEXT) }));
  await until('they run', async () => (await nodes(router))[0].models[0].inflight === 3);
  replace(gated.model, makeOther(gated));
  await killWorkers(all[0]);
  gated.open(1000);
  for (const out of await Promise.all(running)) assert.deepEqual([out.error, out.text], [null, TEXT.toUpperCase()]);
});

test('two nodes have other weights under one name: an answer waits for its own node, an alert names both, and it ends', async () => {
  const gated = makeGated('twofold');
  const { router, all } = await fleet(1, gated.model);
  assert.deepEqual(await differs(router), []);
  gated.open(FIRST);
  const running = await begun(router, 'twofold', 4);
  const other = await addNode(router, makeOther(gated), { name: 'other' });
  await until('both are online', async () => (await online(router)) === 2);
  const [alert] = await until('an alert', async () => {
    const found = await differs(router);
    return found.length > 0 && found;
  });
  assert.match(alert.message, /one name, two models: the files of "twofold" on node (n0|other) .*on node (n0|other) /);

  await all[0].stop('SIGKILL');
  gated.open(1000);
  // Others are answered meanwhile, by the other node.
  const meanwhile = await stream(router.url, { model: 'twofold', ...say(TEXT) });
  assert.deepEqual([meanwhile.error, meanwhile.text], [null, TEXT.toUpperCase()]);
  await addNode(router, gated.model, { name: 'n0', dir: all[0].dir });
  for (const out of await Promise.all(running)) assert.deepEqual([out.error, out.text], [null, TEXT]);
  assert.ok((await metric(router, 'continuations_total')) >= 4);

  await other.stop();
  await until('the alert ends', async () => (await differs(router)).length === 0);
});

test('two nodes with copies of the same files go on for each other, and nobody is alerted', async () => {
  const gated = makeGated('copied');
  const { router, all } = await fleet(1, gated.model);
  const copy = path.join(tempDir('copy'), 'copied');
  fs.cpSync(gated.model, copy, { recursive: true });
  fs.writeFileSync(path.join(copy, 'README.md'), 'not a part of the model');
  gated.open(FIRST);
  const running = await begun(router, 'copied', 4);
  await addNode(router, copy, { name: 'copy' });
  await until('both are online', async () => (await online(router)) === 2);
  await all[0].stop('SIGKILL');
  gated.open(1000);
  for (const out of await Promise.all(running)) assert.deepEqual([out.error, out.text], [null, TEXT]);
  assert.deepEqual(await differs(router), []);
});
