// A router that runs for weeks: its memory, its files and its metrics
// do not grow, whatever clients send.  Short here; with LR_LONG=1 twenty times as long.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fleet } from './fleet.mjs';
import { call, descriptors, LONG, makeEcho, say, stream, until } from './support.mjs';

const ROUNDS = LONG ? 120 : 6;
const GROWTH = 2 << 20; // what an allocator keeps back; 1.2 KB a request lost would be more

test('mixed traffic, much of it faulty: memory, files and metrics are flat', async () => {
  const { router } = await fleet(2, makeEcho('m'), { args: ['--request-log', '64'] }); // a full request log has its size
  const key = (await call(`${router.url}/v0/keys`, { body: { name: 'soak' } })).json.key;
  const resident = () =>
    1024 * Number(fs.readFileSync(`/proc/${router.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]);
  // Those of clients are the clients' to close, and fetch keeps some; a request that lost one each would be 1800.
  const files = async () =>
    descriptors(router.pid).length -
    Number((await call(`${router.url}/metrics`)).text.match(/^llm_router_connections (\d+)/m)[1]);
  const series = async () => (await call(`${router.url}/metrics`)).text.split('\n').length;
  const random = () => Math.random().toString(36).slice(2);
  const chat = (body, more) =>
    call(`${router.url}/v1/chat/completions`, { body: { model: 'm', ...say('hello'), ...body }, key, ...more });
  const leave = async () => {
    const controller = new AbortController();
    await stream(
      router.url,
      { model: 'm', ...say('x'.repeat(500)) },
      { key, signal: controller.signal, onChunk: () => controller.abort() },
    ).catch(() => {});
  };
  const listen = async () => {
    const controller = new AbortController();
    await fetch(`${router.url}/v0/events`, { signal: controller.signal });
    controller.abort();
  };
  // Each gets what it should, or the memory would stay flat for the wrong reason.
  const kinds = [
    async () => assert.equal((await chat({})).status, 200),
    async () => assert.equal((await stream(router.url, { model: 'm', ...say('hello') }, { key })).text, 'hello'),
    async () => assert.equal((await chat({ n: 4 })).json.choices.length, 4),
    async () => assert.equal((await chat({ model: random() })).status, 404),
    async () => assert.equal((await chat({ [random()]: 1 })).status, 200), // ignored
    async () => assert.equal((await chat({ n: 0 })).status, 400),
    async () => assert.equal((await chat({}, { key: `lr-${random()}` })).status, 200), // counts as none
    async () => assert.equal((await call(`${router.url}/${random()}`)).status, 404),
    async () => assert.equal((await chat({}, { headers: { 'x-request-id': random() } })).status, 200),
    async () => assert.match(`${(await call(`${router.url}/v0/session`, { body: { key } })).status}`, /^(200|429)$/), // 30 a minute
    async () => assert.equal((await call(`${router.url}/v0/explain?model=m`)).status, 200),
    leave,
    listen,
  ];
  const round = async () => {
    for (let i = 0; i < 5; i++) await Promise.all(kinds.flatMap((kind) => Array.from({ length: 5 }, kind)));
    await until('nothing runs', async () =>
      /^llm_router_active_requests 1$/m.test((await call(`${router.url}/metrics`)).text),
    );
  };
  // Pools, tables, sessions and the database's cache fill up to their bounds: 3 MB in 36,000 requests, then no more.
  for (let i = 0; i < (LONG ? 130 : 3); i++) await round();
  const before = { bytes: resident(), files: await files(), series: await series() };
  for (let i = 0; i < ROUNDS; i++) await round();
  const after = { bytes: resident(), files: await files(), series: await series() };
  const told = `${JSON.stringify(before)} became ${JSON.stringify(after)}`;
  assert.ok(after.bytes <= before.bytes + GROWTH, told);
  assert.ok(after.files <= before.files + 100, told);
  assert.ok(after.series <= before.series + 2, told);
  console.log(`# ${ROUNDS} rounds: ${told}`);
});
