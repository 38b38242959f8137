// Clients that read their answers slowly, or not at all.
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { fleet, inflight, makeKey, metric, used } from './fleet.mjs';
import { call, makeEcho, say, stream, until } from './support.mjs';

// More than the systems of both sides hold for a connection, and 1 MB in the router.
const TEXT = '0123456789'.repeat(6000);
const PIECE = 64 << 10;
const ROOM = ['--max-context', String(3 * TEXT.length)];

const apis = {
  'chat completions': {
    path: '/v1/chat/completions',
    body: { ...say(TEXT), stream_options: { include_usage: true } },
    text: (e) => e.choices?.[0]?.delta.content ?? '',
    tokens: (all) => all.findLast((e) => e.usage).usage.completion_tokens,
    isEnd: (data) => data === '[DONE]',
  },
  responses: {
    path: '/v1/responses',
    body: { input: TEXT, store: false },
    text: (e) => (e.type === 'response.output_text.delta' ? e.delta : ''),
    tokens: (all) => all.at(-1).response.usage.output_tokens,
    isEnd: (data) => data.includes('"type":"response.completed"'),
  },
  messages: {
    path: '/v1/messages',
    body: { ...say(TEXT), max_tokens: 2 * TEXT.length },
    text: (e) => e.delta?.text ?? '',
    tokens: (all) => all.findLast((e) => e.usage?.output_tokens > 1).usage.output_tokens,
    isEnd: (data) => data === '{"type":"message_stop"}',
  },
};

// A client that reads when it is told to.
async function ask(url, api, model, key) {
  const { hostname, port } = new URL(url);
  const socket = net.connect({ host: hostname, port, highWaterMark: PIECE });
  const body = JSON.stringify({ model, stream: true, ...api.body });
  socket.pause();
  socket.write(
    `POST ${api.path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  const closed = new Promise((done) => socket.on('close', done).on('error', done));
  return {
    socket,
    // All of it, a piece at a time; resolves with the data of its events.
    async read() {
      const pieces = [];
      socket.on('data', (piece) => {
        pieces.push(piece);
        socket.pause();
        setImmediate(() => socket.resume());
      });
      socket.resume();
      await closed;
      const raw = Buffer.concat(pieces).toString('latin1');
      const text = raw.slice(raw.indexOf('\r\n\r\n') + 4).replace(/\r\n[0-9a-f]+\r\n|^[0-9a-f]+\r\n/g, '');
      assert.ok(raw.endsWith('\r\n0\r\n\r\n'), 'the stream has its end');
      return text
        .split('\n')
        .filter((l) => l.startsWith('data: '))
        .map((l) => l.slice(6));
    },
  };
}

const isPaused = async (router) => (await metric(router, 'paused_total')) > 0;

const recordOf = async (router, key) =>
  (await call(`${router.url}/v0/requests?limit=20`)).json.requests.find((r) => r.key === key.id);

for (const [name, api] of Object.entries(apis))
  test(`${name}: a client that reads slowly gets its whole answer, and waits in no slot meanwhile`, async () => {
    const { router } = await fleet(1, makeEcho('fast'), {
      nodeArgs: [...ROOM, '--max-sequences', '1'],
    });
    const key = await makeKey(router);
    const client = await ask(router.url, api, 'fast', key.key);
    await until('it is paused, or over', async () => (await isPaused(router)) || (await recordOf(router, key))?.status);
    await until('its slot is free', async () => (await inflight(router))[0] === 0);
    const other = await stream(router.url, { model: 'fast', ...say('somebody else') });
    assert.deepEqual([other.error, other.text], [null, 'somebody else']);
    const data = await client.read();
    const events = data.filter((d) => d !== '[DONE]').map((d) => JSON.parse(d));
    assert.equal(events.map(api.text).join(''), TEXT);
    assert.ok(api.isEnd(data.at(-1)), data.at(-1).slice(0, 300));
    assert.equal(api.tokens(events), TEXT.length + 1);
    assert.equal((await used(router, key)).completion_tokens, TEXT.length + 1);
    assert.equal((await recordOf(router, key)).status, 200);
  });

test('a client that leaves with a part of its answer unread: the log and the request log say so, and its tokens are counted', async () => {
  const { router } = await fleet(1, makeEcho('fast'), { nodeArgs: ROOM });
  const key = await makeKey(router);
  const client = await ask(router.url, apis['chat completions'], 'fast', key.key);
  await until('it is paused', () => isPaused(router));
  client.socket.destroy();
  const record = await until('it is logged', async () => {
    const r = await recordOf(router, key);
    return r.status && r;
  });
  assert.equal(record.status, 499);
  assert.match(router.log, /request\.unread request_id=\S+ bytes=\d+/);
  const { completion_tokens: counted } = await used(router, key);
  assert.ok(counted > 1000 && counted < TEXT.length, `${counted} tokens`);
});
