// A link: all generations of one loop of a router over one connection.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { frame, openLink, submitFrame, TYPE, upgradeHeaders } from '../support/link.mjs';
import { ask, LONG, makeModel, startNode, tempDir, until } from './node_harness.mjs';

describe('a link', () => {
  let node;
  const models = tempDir('models');
  const count = LONG ? 500 : 50; // generations at one time: the node's queue holds them all
  const gate = path.join(models, 'gate');
  before(async () => {
    makeModel(models, 'fast');
    makeModel(models, 'slow', 'echo', { step_ms: 20 });
    makeModel(models, 'gated', 'echo', { gate });
    makeModel(models, 'loads', 'echo', { load_ms: 60000 });
    node = await startNode({ models, args: ['--max-sequences', '8', '--node-queue', `${count}`] });
  });
  after(() => node.stop());
  const live = async (id) => (await node.model(id)).workers.reduce((n, w) => n + w.live, 0);

  it('carries every generation complete, in order, numbered, and separate', async () => {
    const link = await openLink(node.port);
    const texts = Array.from({ length: count }, (_, i) => `answer number ${i}`);
    texts.forEach((text, i) => link.submit(i + 1, ask('fast', text)));
    await until('all have ended', () => texts.every((_, i) => link.isOver(i + 1)));
    texts.forEach((text, i) => {
      const heard = link.heard(i + 1);
      assert.equal(link.text(i + 1), text);
      assert.equal(heard[0].type, TYPE.ACCEPTED);
      assert.equal(heard.at(-1).type, TYPE.DONE);
      assert.equal(heard.filter((e) => e.type === TYPE.DONE).length, 1);
      assert.deepEqual(
        heard.map((e) => e.index),
        heard.map((_, at) => at),
        'without a gap',
      );
      assert.equal(heard.at(-1).more, false);
    });
    link.close();
  });

  it('passes each token on as soon as it is computed', async () => {
    fs.writeFileSync(gate, '.');
    const link = await openLink(node.port);
    link.submit(7, ask('gated', 'one by one'));
    for (let i = 1; i <= 'one by one'.length; i++) {
      await until(`token ${i}`, () => link.text(7).length >= i);
      fs.appendFileSync(gate, '.');
    }
    await until('its end', () => link.isOver(7));
    assert.equal(link.text(7), 'one by one');
    link.close();
  });

  it('that breaks ends its generations, running and queued, and no others', async () => {
    const first = await openLink(node.port);
    const second = await openLink(node.port);
    for (let i = 0; i < 12; i++) first.submit(i, ask('slow', 'x'.repeat(5000)));
    await until('they run', async () => first.text(0).length > 2);
    second.submit(1, ask('slow', 'stays'));
    assert.equal((await second.answer(1)).type, TYPE.ACCEPTED);
    first.close();
    await until('only the other one is left', async () => second.isOver(1));
    assert.equal(second.text(1), 'stays');
    await until('nothing runs', async () => (await live('slow')) === 0 && (await node.model('slow')).queued === 0);
    second.close();
  });

  it('ends only the cancelled generation, reports its usage, and its number is free at once', async () => {
    const link = await openLink(node.port);
    link.submit(1, ask('slow', 'x'.repeat(5000)));
    link.submit(2, ask('slow', 'goes on'));
    await until('both run', () => link.text(1).length > 0 && link.text(2).length > 0);
    link.cancel(1);
    link.submit(2n ** 32n + 1n, ask('slow', 'next'));
    await until(
      'all have ended',
      () => link.isOver(2) && link.heard(1).filter((e) => e.type === TYPE.DONE).length === 2,
    );
    assert.equal(link.text(2), 'goes on');
    const [cancelled, next] = link.heard(1).filter((e) => e.type === TYPE.DONE);
    assert.equal(cancelled.reason, 'cancelled');
    assert.ok(cancelled.completion_tokens > 0, 'with its usage');
    assert.equal(next.reason, 'stop');
    link.cancel(1); // has ended: no mistake
    link.cancel(99);
    await until('nothing runs', async () => (await live('slow')) === 0);
    assert.equal(link.ended, false);
    link.close();
  });

  it('ends a generation that waits for its model at once when it is cancelled', async () => {
    const link = await openLink(node.port);
    link.submit(3, ask('loads', 'never'));
    assert.equal((await link.answer(3)).type, TYPE.ACCEPTED);
    link.cancel(3);
    await until('its end', () => link.isOver(3));
    assert.deepEqual([link.last(3).reason, link.last(3).completion_tokens], ['cancelled', 0]);
    assert.equal((await node.model('loads')).queued, 0);
    link.close();
  });

  it('sends a PING each second, and each refusal to its generation', async () => {
    const link = await openLink(node.port);
    link.submit(1, ask('nothing', 'x'));
    const refused = await link.answer(1);
    assert.equal(refused.type, TYPE.REFUSED);
    assert.match(refused.message, /there is no model "nothing" on this node/);
    const before = link.pings;
    await until('two signs', () => link.pings >= before + 2, 4000);
    assert.equal(link.heard(1).length, 1);
    link.close();
  });

  it('a prompt that arrives in pieces, with other frames behind it, is one generation', async () => {
    const link = await openLink(node.port);
    const bytes = Buffer.concat([submitFrame(1, ask('fast', 'in pieces')), submitFrame(2, ask('fast', 'behind'))]);
    for (let at = 0; at < bytes.length; at += 7) {
      link.send(bytes.subarray(at, at + 7));
      await new Promise(setImmediate);
    }
    await until('both have ended', () => link.isOver(1) && link.isOver(2));
    assert.deepEqual([link.text(1), link.text(2)], ['in pieces', 'behind']);
    link.close();
  });

  it('a malformed frame ends only that link; frames of a later version are ignored', async () => {
    const good = await openLink(node.port);
    for (const bad of [Buffer.alloc(64, 0x41), frame(TYPE.SUBMIT, Buffer.alloc(20, 0xff)), frame(TYPE.CANCEL)]) {
      const link = await openLink(node.port);
      link.send(bad);
      await until('it is closed', () => link.ended);
    }
    good.send(frame(31, Buffer.from('whatever this is')));
    good.submit(1, ask('fast', 'fine'));
    await until('it serves', () => good.isOver(1));
    assert.equal(good.text(1), 'fine');
    good.close();
  });

  it('accepts routers whose protocol differs by at most one; others are told what to upgrade', async () => {
    for (const [theirs, common] of [
      [2, '2'],
      [3, '3+sums'],
      [4, '3+sums'],
    ]) {
      const link = await openLink(node.port, { protocol: theirs });
      assert.equal(link.protocol, `llm-router-link/${common}`, 'the lower one is spoken');
      link.close();
    }
    await assert.rejects(
      openLink(node.port, { protocol: 1 }),
      /400: .*the router speaks protocol 1, this node protocol 3: upgrade the router/,
    );
    await assert.rejects(
      openLink(node.port, { protocol: 5 }),
      /400: .*protocol 5, this node protocol 3: upgrade the node/,
    );
    const plain = await fetch(`${node.url}/v0/link`);
    assert.equal(plain.status, 400);
    assert.match(await plain.text(), /this is for routers/);
  });

  it("needs the node's secret", async () => {
    const secret = 'a-secret-of-some-length-0123456789';
    const guarded = await startNode({ models, args: ['--node-secret', secret] });
    await assert.rejects(openLink(guarded.port), /^Error: 401/);
    await assert.rejects(openLink(guarded.port, { secret: 'wrong' }), /^Error: 401/);
    const link = await openLink(guarded.port, { secret });
    link.submit(1, ask('fast', 'mine'));
    await until('it serves', () => link.isOver(1));
    link.close();
    await guarded.stop();
  });

  it('of a router that does not read does not delay others', async () => {
    const deaf = http.request({ port: node.port, path: '/v0/link', headers: upgradeHeaders() });
    deaf.end();
    const socket = await new Promise((done) => deaf.on('upgrade', (_, s) => done(s)));
    socket.pause();
    socket.write(submitFrame(1, ask('fast', 'x'.repeat(LONG ? 200000 : 20000))));
    const link = await openLink(node.port);
    link.submit(1, ask('fast', 'others'));
    await until('it serves', () => link.isOver(1));
    assert.equal(link.text(1), 'others');
    link.close();
    socket.destroy();
    await until('nothing runs', async () => (await live('fast')) === 0);
  });
});
