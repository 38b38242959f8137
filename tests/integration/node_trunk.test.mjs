// A trunk: the events of many generations over one answer, as a router's loop has them.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ask, LONG, makeModel, startNode, tempDir, until } from './node_harness.mjs';

const TOKEN = 66, DONE = 67, TICK = 68, ERROR = 71, TRUNK = 72, RELAYED = 73;

// Opens a trunk; `heard` gives the events of one stream, in order.
async function openTrunk(node) {
  const request = http.request({ port: node.port, method: 'POST', path: '/v0/trunk',
    headers: { 'content-type': 'application/json', 'content-length': 2 } });
  request.end('{}');
  request.on('error', () => {});
  const answer = await new Promise((done, fail) => { request.on('response', done); request.on('error', fail); });
  assert.equal(answer.statusCode, 200);
  const trunk = { id: null, streams: new Map(), ticks: 0, reads: 0, ended: false };
  let rest = Buffer.alloc(0);
  const take = (frame) => {
    if (frame[5] === TRUNK) trunk.id = frame.readBigUInt64LE(8);
    if (frame[5] === TICK) trunk.ticks++;
    if (frame[5] !== RELAYED) return;
    const stream = Number(frame.readBigUInt64LE(8));
    const event = frame.subarray(16);
    if (!trunk.streams.has(stream)) trunk.streams.set(stream, []);
    trunk.streams.get(stream).push({ type: event[5], body: event.subarray(8) });
  };
  answer.on('data', (bytes) => {
    trunk.reads++;
    rest = Buffer.concat([rest, bytes]);
    for (let size; rest.length >= 8 && rest.length >= (size = 8 + rest.readUInt32LE(0)); rest = rest.subarray(size))
      take(rest.subarray(0, size));
  });
  answer.on('error', () => {});
  answer.on('close', () => { trunk.ended = true; });
  trunk.close = () => request.destroy();
  trunk.ask = (stream, body) => node.post('/v0/generate', body,
    { headers: { 'x-llm-router-trunk': `${trunk.id} ${stream}` } });
  trunk.heard = (stream) => trunk.streams.get(stream) ?? [];
  trunk.isOver = (stream) => trunk.heard(stream).some((e) => e.type === DONE || e.type === ERROR);
  // The text of a stream: request, id, flags, log probability, then a counted text.
  trunk.text = (stream) => trunk.heard(stream).filter((e) => e.type === TOKEN && e.body[12] === 0)
    .map((e) => String.fromCharCode(e.body.readUInt32LE(8))).join('');
  await until('the trunk has its number', () => trunk.id !== null);
  return trunk;
}

describe('a trunk', () => {
  let node;
  const models = tempDir('models');
  const count = LONG ? 500 : 50; // generations at one time: the node's queue holds them all
  const gate = path.join(models, 'gate');
  before(async () => {
    makeModel(models, 'fast');
    makeModel(models, 'slow', 'echo', { step_ms: 20 });
    makeModel(models, 'gated', 'echo', { gate });
    node = await startNode({ models, args: ['--max-sequences', '8', '--node-queue', `${count}`] });
  });
  after(() => node.stop());
  const live = async (id) => (await node.model(id)).workers.reduce((n, w) => n + w.live, 0);

  it('carries every generation whole, in order, and apart', async () => {
    const trunk = await openTrunk(node);
    const texts = Array.from({ length: count }, (_, i) => `answer number ${i}`);
    const answers = await Promise.all(texts.map((text, i) => trunk.ask(i + 1, ask('fast', text))));
    const others = answers.filter((a) => a.status !== 202);
    assert.deepEqual(await Promise.all(others.map(async (a) => `${a.status} ${await a.text()}`)), []);
    await until('all have ended', () => texts.every((_, i) => trunk.isOver(i + 1)));
    texts.forEach((text, i) => {
      assert.equal(trunk.text(i + 1), text);
      assert.equal(trunk.heard(i + 1).at(-1).type, DONE);
      assert.equal(trunk.heard(i + 1).filter((e) => e.type === DONE).length, 1);
    });
    trunk.close();
  });

  it('hands each token on when it is made', async () => {
    fs.writeFileSync(gate, '.');
    const trunk = await openTrunk(node);
    assert.equal((await trunk.ask(7, ask('gated', 'one by one'))).status, 202);
    for (let i = 1; i <= 'one by one'.length; i++) {
      await until(`token ${i}`, () => trunk.text(7).length >= i);
      fs.appendFileSync(gate, '.');
    }
    await until('its end', () => trunk.isOver(7));
    assert.equal(trunk.text(7), 'one by one');
    trunk.close();
  });

  it('that breaks takes its generations with it, running and queued, and no others', async () => {
    const first = await openTrunk(node);
    const second = await openTrunk(node);
    for (let i = 0; i < 12; i++) await first.ask(i, ask('slow', 'x'.repeat(5000)));
    assert.equal((await second.ask(1, ask('slow', 'stays'))).status, 202);
    await until('they run', async () => first.text(0).length > 2);
    first.close();
    await until('only the other one is left', async () => second.isOver(1));
    assert.equal(second.text(1), 'stays');
    await until('nothing runs', async () => (await live('slow')) === 0 && (await node.model('slow')).queued === 0);
    second.close();
  });

  it('loses one generation alone when its owner leaves', async () => {
    const trunk = await openTrunk(node);
    await trunk.ask(1, ask('slow', 'x'.repeat(5000)));
    await trunk.ask(2, ask('slow', 'goes on'));
    await until('both run', () => trunk.text(1).length > 0 && trunk.text(2).length > 0);
    const left = await fetch(`${node.url}/v0/trunk/${trunk.id}/1`, { method: 'DELETE' });
    assert.equal(left.status, 200);
    await until('the other has ended', () => trunk.isOver(2));
    assert.equal(trunk.text(2), 'goes on');
    assert.ok(!trunk.isOver(1), 'nothing is told to one who has left');
    await until('nothing runs', async () => (await live('slow')) === 0);
    assert.equal((await fetch(`${node.url}/v0/trunk/${trunk.id}/1`, { method: 'DELETE' })).status, 200);
    trunk.close();
  });

  it('gives a sign of life each second, and refusals where they belong', async () => {
    const trunk = await openTrunk(node);
    assert.equal((await trunk.ask(1, ask('nothing', 'x'))).status, 404);
    assert.equal((await trunk.ask(2, { protocol: 1 })).status, 400);
    const nowhere = await node.post('/v0/generate', ask('fast', 'x'), { headers: { 'x-llm-router-trunk': '1 1' } });
    assert.equal(nowhere.status, 503);
    await until('a tick', () => trunk.ticks > 0, 3000);
    assert.deepEqual(trunk.heard(1), []);
    trunk.close();
  });
});
