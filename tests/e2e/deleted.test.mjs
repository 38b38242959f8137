// A model is deleted while it answers: its requests continue, or end with an error; none hangs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addNode, allIdle, fleet, makeGated } from './fleet.mjs';
import { call, nodes, online, register, say, stopwatch, stream, until } from './support.mjs';

const TEXT = '0123456789'.repeat(6);

// A stream whose model is deleted, and whose only node is then killed.
async function deletedAndKilled(id, args = []) {
  const { model, open } = makeGated(id);
  const { router, all } = await fleet(1, model, { args });
  open(10);
  let begun;
  const running = stream(
    router.url,
    { model: id, ...say(TEXT) },
    {
      onChunk: (out) => {
        begun ||= out.text.length >= 5;
      },
    },
  );
  await until('the stream runs', () => begun);
  const gone = await call(`${router.url}/v0/models/${id}`, { method: 'DELETE' });
  assert.equal(gone.status, 200, gone.text);
  await all[0].stop('SIGKILL');
  open(1000);
  return { model, router, node: all[0], running };
}

test('a stream of a deleted model continues when its node is back', async () => {
  const { model, router, node, running } = await deletedAndKilled('gone-on');
  await allIdle(router); // its place is given back: it waits
  const fresh = await call(`${router.url}/v1/chat/completions`, { body: { model: 'gone-on', ...say('hi') } });
  assert.equal(fresh.status, 404, 'a new request finds no such model');
  await addNode(router, model, { name: 'n0', dir: node.dir, port: node.port });
  const out = await running;
  assert.equal(out.error, null);
  assert.equal(out.text, TEXT);
  assert.equal(await online(router), 1);
  await register(router, 'gone-on');
  assert.equal(
    (await call(`${router.url}/v1/chat/completions`, { body: { model: 'gone-on', ...say('hi') } })).status,
    200,
  );
  await until('the model is ready', async () => (await nodes(router))[0].models[0].state === 'ready');
  await allIdle(router);
});

test('queue-timeout ends a stream of a deleted model whose node does not come back, with a retryable error', async () => {
  const { router, running } = await deletedAndKilled('gone-off', ['--queue-timeout', '2s']);
  const watch = stopwatch();
  const out = await running;
  assert.ok(watch.ms < 10000, 'two seconds and what finding out takes');
  assert.match(out.error.message, /gone-off.*queue-timeout/);
  assert.equal(out.error.type, 'server_error');
  await allIdle(router);
});
