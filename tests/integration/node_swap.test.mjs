// SWAP: the node stops the named running generation and starts the
// new one before the worker's next step.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { openLink, TYPE } from '../support/link.mjs';
import { ask, generate, makeModel, startNode, tempDir, until } from './node_harness.mjs';

const SLOTS = 2,
  BEYOND = 2;
const short = (model, text) => ask(model, text, { no_queue: true });

let number = 0;
// A generation over the link.
function follow(link, body, leaves) {
  const at = ++number;
  link.submit(at, body, leaves);
  return {
    at,
    body,
    get ids() {
      return link.tokens(at).map((t) => t.id);
    },
    get text() {
      return link.text(at);
    },
    get done() {
      return link.last(at);
    },
    taken: () => link.answer(at),
    ended: () => until('its end', () => link.last(at)),
    stop: () => link.cancel(at),
  };
}

describe('a generation that replaces another (SWAP)', () => {
  let node, link;
  const models = tempDir('models');
  const gate = path.join(models, 'gate');
  before(async () => {
    makeModel(models, 'fast');
    makeModel(models, 'slow', 'echo', { step_ms: 200 });
    makeModel(models, 'gated', 'echo', { gate });
    node = await startNode({ models, args: ['--max-sequences', `${SLOTS}`] });
    link = await openLink(node.port);
  });
  after(async () => {
    link.close();
    await node.stop();
  });
  const live = async (id) => (await node.model(id)).workers.reduce((n, w) => n + w.live, 0);
  const idle = (id) => until('nothing runs', async () => (await live(id)) === 0);

  it('is accepted if the node is full, and the replaced one ends as cancelled with all its tokens', async () => {
    fs.writeFileSync(gate, '...');
    const all = [];
    for (let i = 0; i < SLOTS + BEYOND; i++) {
      all.push(follow(link, short('gated', `answer ${i} is long`)));
      await until('it is there', async () => (await live('gated')) === i + 1);
    }
    await until('those in the slots have three tokens', () => all.slice(0, SLOTS).every((a) => a.ids.length === 3));
    await assert.rejects(generate(node, short('gated', 'no room')), /429/);
    const [victim] = all;
    const next = follow(link, short('gated', 'new'), victim.body.request_id);
    const answer = await next.taken();
    assert.deepEqual([answer.type, answer.swapped], [TYPE.ACCEPTED, true]);
    const done = await victim.ended();
    assert.equal(done.reason, 'cancelled');
    assert.equal(done.completion_tokens, 3, 'the engine counts what was sent');
    await assert.rejects(generate(node, short('gated', 'no room')), /429/, 'its place is taken');
    fs.writeFileSync(gate, '.'.repeat(99));
    assert.equal((await next.ended()).reason, 'stop');
    for (const a of all.slice(1)) assert.equal((await a.ended()).reason, 'stop');
    // What it has and what it still owes make one answer: nothing lost, nothing twice.
    const rest = follow(link, { ...victim.body, generated: victim.ids });
    assert.equal((await rest.ended()).completion_tokens, 'answer 0 is long'.length + 1);
    assert.equal(victim.text + rest.text, 'answer 0 is long');
    await idle('gated');
  });

  it('begins in the next step: the replaced one gets at most the token of the running step', async () => {
    // Where it waits for more, no try is good; a busy machine may need some tries.
    let more, steps;
    for (let i = 0; i < 5 && !(more <= 1 && steps <= 3); i++) {
      const all = Array.from({ length: SLOTS }, () => follow(link, short('slow', 'x'.repeat(500))));
      await until('they run', () => all.every((a) => a.ids.length > 1));
      const [victim, other] = all;
      const had = victim.ids.length,
        stood = other.ids.length;
      const next = follow(link, short('slow', 'y'.repeat(500)), victim.body.request_id);
      await until('its first token', () => next.ids.length > 0);
      [more, steps] = [victim.ids.length - had, other.ids.length - stood];
      assert.equal((await victim.ended()).reason, 'cancelled');
      for (const a of [other, next]) a.stop();
      await idle('slow');
    }
    assert.ok(more <= 1, `${more} more tokens`);
    assert.ok(steps <= 3, `it waited ${steps} steps`);
  });

  it('can replace all running generations in one step, and no more than there are slots', async () => {
    const all = Array.from({ length: SLOTS + BEYOND }, () => follow(link, short('slow', 'x'.repeat(500))));
    await until('they run', async () => (await live('slow')) === SLOTS + BEYOND);
    const nexts = all.map((a) => follow(link, short('slow', 'abc'), a.body.request_id));
    const answers = await Promise.all(nexts.map((n) => n.taken()));
    assert.ok(answers.filter((a) => a.type === TYPE.ACCEPTED).length >= SLOTS);
    for (const a of answers) if (a.type === TYPE.REFUSED) assert.match(a.message, /busy: all 2 slots/);
    for (const a of all) a.stop();
    for (const [i, n] of nexts.entries())
      if (answers[i].type === TYPE.ACCEPTED) assert.equal((await n.ended()).reason, 'stop');
    await Promise.all(all.map((a) => a.ended()));
    await idle('slow');
  });

  it('is served if the other is unknown, has ended, was cancelled or is of another model; no generation is stopped', async () => {
    const ended = await generate(node, ask('fast', 'over'));
    assert.equal(ended.text, 'over');
    const leaving = new AbortController();
    const left = ask('slow', 'x'.repeat(500));
    const gone = generate(node, left, { signal: leaving.signal }).catch(() => 'left');
    const foreign = follow(link, ask('slow', 'x'.repeat(20)));
    await until('both run', async () => (await live('slow')) === 2 && foreign.ids.length > 0);
    leaving.abort();
    assert.equal(await gone, 'left');
    for (const [model, name] of [
      ['fast', 'nobody'],
      ['fast', foreign.body.request_id],
      ['fast', 'x'.repeat(128)],
      ['slow', left.request_id],
    ]) {
      const next = follow(link, ask(model, 'hi'), name);
      const answer = await next.taken();
      assert.equal(answer.type, TYPE.ACCEPTED);
      if (name !== left.request_id) assert.equal(answer.swapped, false, `instead of "${name.slice(0, 20)}"`);
      assert.equal((await next.ended()).reason, 'stop');
    }
    assert.equal((await foreign.ended()).reason, 'stop');
    assert.equal(foreign.text, 'x'.repeat(20));
    await idle('slow');
  });

  it('that is refused stops no generation', async () => {
    const runs = follow(link, ask('slow', 'x'.repeat(10)));
    await until('it runs', () => runs.ids.length > 0);
    const bad = follow(link, ask('nothing', 'hi'), runs.body.request_id);
    assert.equal((await bad.taken()).type, TYPE.REFUSED);
    assert.equal((await runs.ended()).reason, 'stop');
    assert.equal(runs.text, 'x'.repeat(10));
  });
});
