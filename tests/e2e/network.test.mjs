// The network between router and node is faulty: bytes are lost, stall, trickle, come late.  No
// request waits longer than the limit, and requests on other nodes are not affected.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startProxy } from '../support/proxy.mjs';
import { addNode, allIdle, fleet, inflight, keep, metric } from './fleet.mjs';
import { call, makeEcho, nodes, online, register, say, startRouter, stopwatch, stream, until } from './support.mjs';

const LIMIT_MS = 5000; // of silence, looked at once a second
const SLACK_MS = 4500; // that second, the answer itself, which takes two, and a busy machine

const TEXT = '0123456789'.repeat(10);

// Streams on both nodes; `harm` then strikes the proxy of the first.
async function strikeRunning(harm) {
  const { router, all } = await fleet(2, makeEcho('m', { step_ms: 20 }), { proxied: true });
  const took = [];
  let begin = 0,
    watch;
  const running = Array.from({ length: 6 }, () =>
    stream(
      router.url,
      { model: 'm', ...say(TEXT) },
      {
        onChunk: (out) => {
          begin += out.chunks === 5;
        },
      },
    ).then((out) => {
      took.push(watch.ms);
      return out;
    }),
  );
  await until('all stream', () => begin === 6);
  assert.ok((await inflight(router)).every((n) => n > 0));
  watch = stopwatch();
  harm(all[0].proxy);
  const out = await Promise.all(running);
  for (const o of out) assert.deepEqual([o.error, o.text, o.done], [null, TEXT, true]);
  return { router, all, took };
}

// Mostly waits, so several at a time.
describe('a faulty network', { concurrency: 3 }, () => {
  for (const [what, harm] of [
    [
      'swallows every byte',
      (proxy) => {
        proxy.mode = 'swallow';
      },
    ],
    [
      'stalls',
      (proxy) => {
        proxy.stall();
      },
    ],
    [
      'lets a byte pass each second',
      (proxy) => {
        proxy.mode = 'trickle';
      },
    ],
  ]) {
    test(`a network that ${what} in the middle of streams: they continue on another node within the limit, other requests are not delayed`, async () => {
      const { router, all, took } = await strikeRunning(harm);
      assert.ok(Math.max(...took) < LIMIT_MS + SLACK_MS, `${Math.max(...took)} ms`);
      assert.ok(took.filter((ms) => ms < LIMIT_MS).length >= 3, 'those of the other node did not wait');
      assert.ok((await metric(router, 'continuations_total')) > 0);
      await until('it is offline, though its heartbeats come', async () => (await online(router)) === 1);
      all[0].proxy.heal();
      all[0].proxy.reset();
      await allIdle(router, 10000);
      await until('it is back', async () => (await online(router)) === 2);
    });
  }

  test('a node that sends heartbeats but loses requests is tried with one request at a time', async () => {
    const { router, all } = await fleet(2, makeEcho('m'), { proxied: true, args: ['--node-timeout', '60s'] }); // nor does it go offline meanwhile
    const ask = async () => {
      const begun = Date.now();
      const answer = await call(`${router.url}/v1/chat/completions`, { body: { model: 'm', ...say('hi') } });
      assert.equal(answer.status, 200, answer.text);
      return Date.now() - begun;
    };
    all[0].proxy.mode = 'swallow';
    await Promise.all(Array.from({ length: 6 }, ask)); // some of these find out
    assert.equal(await online(router), 2);
    await until('it may be tried again', async () =>
      (await call(`${router.url}/v0/explain?model=m`)).json.candidates.every((c) => !c.avoided),
    );
    const times = await Promise.all(Array.from({ length: 6 }, ask));
    assert.equal(times.filter((ms) => ms > LIMIT_MS - 500).length, 1, `${times} ms`);
    all[0].proxy.heal();
    all[0].proxy.reset();
    await until('it is trusted again', async () => {
      await ask();
      return (await call(`${router.url}/v0/explain?model=m`)).json.candidates.every((c) => !c.avoided);
    });
    await allIdle(router);
  });

  test('connections reset in the middle of streams: they continue on another node at once', async () => {
    const { took } = await strikeRunning((proxy) => {
      proxy.reset();
    });
    assert.ok(Math.max(...took) < LIMIT_MS, `${Math.max(...took)} ms`);
  });

  test('a network that loses a request before its first token: the next node answers within the limit', async () => {
    const { router, all } = await fleet(2, makeEcho('m'), { proxied: true });
    all[0].proxy.mode = 'swallow';
    const watch = stopwatch();
    const answers = await Promise.all(
      Array.from({ length: 4 }, () =>
        call(`${router.url}/v1/chat/completions`, { body: { model: 'm', ...say('hi') } }),
      ),
    );
    assert.deepEqual(
      answers.map((a) => a.json?.choices[0].message.content),
      ['hi', 'hi', 'hi', 'hi'],
    );
    assert.ok(watch.ms < LIMIT_MS + SLACK_MS, `${watch.real} ms`);
    assert.ok((await metric(router, 'retries_total')) > 0);
  });

  test('a large prompt that a stalled node does not even read: the next node answers within the limit', async () => {
    const { router, all } = await fleet(2, makeEcho('m'), { proxied: true });
    all[0].proxy.stall();
    const text = 'x'.repeat(12 << 20); // more than the sockets' buffers hold
    const watch = stopwatch();
    const answers = await Promise.all(
      [1, 2].map(() =>
        call(`${router.url}/v1/chat/completions`, { body: { model: 'm', max_tokens: 3, ...say(text) } }),
      ),
    );
    for (const answer of answers)
      assert.match(
        answer.text,
        /maximum context length is 32768 tokens.*the prompt has 12\d+ tokens/,
        'a node read it',
      );
    assert.ok(watch.ms < LIMIT_MS + 2 * SLACK_MS, `${watch.real} ms`);
    assert.ok((await metric(router, 'retries_total')) > 0);
  });

  test('a node whose answers all come three seconds late is slow, not lost: requests are answered without a retry', async () => {
    const { router, all } = await fleet(1, makeEcho('m'), { proxied: true });
    Object.assign(all[0].proxy, { mode: 'delay', every: 3000 });
    const out = await stream(router.url, { model: 'm', ...say('hello') });
    assert.deepEqual([out.error, out.text], [null, 'hello']);
    assert.equal(await metric(router, 'retries_total'), 0);
  });

  test('the only node is lost for good: its streams and later requests end with the reason, and none waits for ever', async () => {
    const { router, all } = await fleet(1, makeEcho('m', { step_ms: 20 }), { args: ['--node-timeout', '2s'] });
    let begun = false;
    const running = stream(
      router.url,
      { model: 'm', ...say(TEXT) },
      {
        onChunk: (out) => {
          begun = out.text.length >= 5;
        },
      },
    );
    await until('it streams', () => begun);
    await all[0].stop('SIGKILL');
    const lost = stopwatch();
    const fresh = await call(`${router.url}/v1/chat/completions`, { body: { model: 'm', ...say('hi') } });
    assert.equal(fresh.status, 503, fresh.text);
    assert.match(fresh.json.error.message, /n0: offline/);
    const out = await running;
    assert.match(out.error.message, /no node can serve model "m": n0: offline/);
    assert.ok(lost.ms < 2000 + 10000 + SLACK_MS, `${lost.real} ms`);
  });

  test('only heartbeats are lost: running streams finish, new requests go to the other node, and the node comes back', async () => {
    const model = makeEcho('m', { step_ms: 30 });
    const router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--node-timeout', '2s'] }));
    const proxy = keep(await startProxy({ port: Number(new URL(router.url).port) }));
    await addNode({ ...router, url: proxy.url }, model, { name: 'n0' });
    await addNode(router, model, { name: 'n1' });
    await until('both online', async () => (await online(router)) === 2);
    await register(router, 'm');
    await until('both loaded', async () => (await nodes(router)).every((n) => n.models[0].state === 'ready'));
    const long = '0123456789'.repeat(10);
    const running = Array.from({ length: 4 }, () => stream(router.url, { model: 'm', ...say(long) }));
    await until('both stream', async () => (await inflight(router)).every((n) => n > 0));
    proxy.mode = 'swallow';
    await until('one is offline', async () => (await online(router)) === 1);
    const names = Object.fromEntries((await nodes(router)).map((n) => [n.id, n.name]));
    const answer = await call(`${router.url}/v1/chat/completions`, { body: { model: 'm', ...say('hi') } });
    assert.equal(names[answer.headers.get('x-llm-router-node')], 'n1');
    for (const out of await Promise.all(running)) assert.deepEqual([out.error, out.text], [null, long]);
    assert.equal(await metric(router, 'continuations_total'), 0, 'nobody was moved: the streams themselves were well');
    proxy.heal();
    proxy.reset();
    await until('it is back', async () => (await online(router)) === 2);
  });

  test('a link without an agreed protocol is given up at once and opened again', async () => {
    const { router, all } = await fleet(1, makeEcho('m'), { proxied: true });
    const { proxy } = all[0];
    let spoiled = 0;
    // The node agrees to the upgrade, but the header that names the protocol is lost.
    proxy.changeAnswer = (bytes) => {
      const text = bytes.toString('latin1');
      if (spoiled > 0 || !text.startsWith('HTTP/1.1 101 ')) return bytes;
      spoiled++;
      return Buffer.from(text.replace(/\r\nUpgrade: [^\r]*/, ''), 'latin1');
    };
    proxy.reset(); // links that the router has opened already
    const watch = stopwatch();
    const answer = await call(`${router.url}/v1/chat/completions`, { body: { model: 'm', ...say('hi') } });
    assert.deepEqual([answer.status, spoiled], [200, 1], answer.text);
    assert.ok(watch.ms < LIMIT_MS, `${watch.real} ms`);
    await allIdle(router);
    assert.equal(await online(router), 1);
  });
});
