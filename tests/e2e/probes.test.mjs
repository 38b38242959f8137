// /livez and /readyz: for supervisors and load balancers, without a key, with reasons and what to do.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, test } from 'node:test';
import { call, makeEcho, nodes, online, register, startNode, startRouter, until } from './support.mjs';

const left = [];
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));
const keep = (process) => {
  left.push(process);
  return process;
};

const probe = async (url, query = '') => {
  const { status, json } = await call(`${url}/readyz${query}`);
  return { status, ...json, of: (name) => json.checks.find((c) => c.name === name) };
};

test('a router lives and is ready without a key; what it lacks is named with a reason and what to do, and fails the probe only if that is required', async () => {
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--require-key', '--drain-timeout', '30s'] }));
  assert.deepEqual(
    [(await call(`${router.url}/livez`)).status, (await call(`${router.url}/livez`)).json],
    [200, { status: 'ok' }],
  );
  const empty = await probe(router.url);
  assert.deepEqual(
    [empty.status, empty.checks.map((c) => `${c.name} ${c.ok} ${c.required}`)],
    ['ready', ['accepting true true', 'database true false', 'nodes false false', 'models false false']],
  );
  assert.equal((await call(`${router.url}/readyz`)).status, 200);
  assert.match(empty.of('nodes').reason, /no node is online/);
  assert.match(empty.of('nodes').advice, /nodes token/);
  const { status, json } = await call(`${router.url}/readyz?require=nodes,models`);
  assert.deepEqual([status, json.status], [503, 'not_ready']);
  const wrong = await call(`${router.url}/readyz?require=nodes,moon`);
  assert.deepEqual([wrong.status, /moon/.test(wrong.text)], [400, true]);

  const node = keep(await startNode(router, { name: 'cellar', args: ['--model', makeEcho('talk')] }));
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'talk');
  await until(
    'the router has all that may be required',
    async () => (await call(`${router.url}/readyz?require=nodes,models,database`)).status === 200,
  );
  assert.doesNotMatch((await call(`${router.url}/readyz`)).text, /cellar|talk|127\.0\.0\.1/);

  const at = `http://127.0.0.1:${node.port}`;
  assert.equal((await call(`${at}/v0/models`)).status, 401, 'the node asks for its secret');
  assert.equal((await call(`${at}/livez`)).status, 200);
  await until(
    'the node is ready with its model',
    async () => (await call(`${at}/readyz?require=models,workers`)).status === 200,
  );
  await router.stop('SIGKILL');
  const lost = await until('the node misses its router', async () => {
    const answer = await call(`${at}/readyz`);
    return answer.status === 503 && answer.json;
  });
  assert.deepEqual(
    lost.checks.filter((c) => !c.ok).map((c) => c.name),
    ['router'],
  );
  assert.match(lost.checks.find((c) => !c.ok).advice, /--router/);
  assert.equal((await call(`${at}/livez`)).status, 200);
});

// The status of a request as it is written here.
const raw = (url, text) =>
  new Promise((done, fail) => {
    let got = '';
    const socket = net.connect(Number(new URL(url).port), '127.0.0.1', () => socket.end(text));
    socket.setEncoding('latin1').on('data', (part) => {
      got += part;
    });
    socket.on('error', fail).on('close', () => done(Number(got.match(/^HTTP\/1\.[01] (\d+)/)?.[1])));
  });

test('a probe that speaks HTTP/1.0 without a Host is answered on loopback; other requests need a Host of this machine', async () => {
  const router = keep(await startRouter());
  for (const at of ['/livez', '/readyz', '/health'])
    assert.equal(await raw(router.url, `GET ${at} HTTP/1.0\r\n\r\n`), 200, at);
  assert.equal(await raw(router.url, 'GET /livez HTTP/1.0\r\nHost: evil.example\r\n\r\n'), 421);
  assert.equal(await raw(router.url, 'GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n'), 400);
  assert.equal(await raw(router.url, 'GET /v0/nodes HTTP/1.0\r\n\r\n'), 403);
});

test('a router and a node that are shutting down live, but are not ready', async () => {
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--drain-timeout', '60s'] }));
  const node = keep(await startNode(router, { name: 'n', args: ['--model', makeEcho('slow', { step_ms: 200 })] }));
  await until('the model is known', async () => (await nodes(router))[0]?.models.length === 1);
  await register(router, 'slow');
  const controller = new AbortController();
  const answer = fetch(`${router.url}/v1/chat/completions`, {
    method: 'POST',
    signal: controller.signal,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'slow', stream: true, messages: [{ role: 'user', content: 'word '.repeat(500) }] }),
  })
    .then((a) => a.text())
    .catch(() => {});
  await until('it runs', async () => (await nodes(router))[0].models[0].inflight === 1);
  for (const [process, url] of [
    [node, `http://127.0.0.1:${node.port}`],
    [router, router.url],
  ]) {
    process.child.kill('SIGTERM');
    const stopping = await until('it is not ready', async () => {
      const got = await call(`${url}/readyz`);
      return got.status === 503 && got.json;
    });
    const check = stopping.checks.find((c) => c.name === 'accepting');
    assert.deepEqual([check.ok, check.required, /shutting down/.test(check.reason)], [false, true, true]);
    assert.equal((await call(`${url}/livez`)).status, 200);
  }
  controller.abort();
  await answer;
});
