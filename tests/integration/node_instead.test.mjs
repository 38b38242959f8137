// One generation instead of another: the node stops the one that is named and starts the new
// one before the worker's next step.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ask, events, generate, makeModel, startNode, tempDir, until } from './node_harness.mjs';

const SLOTS = 2, BEYOND = 2, HEADER = 'x-llm-router-instead-of';
const instead = (id) => ({ headers: { [HEADER]: id } });
const short = (model, text) => ask(model, text, { no_queue: true });

// Reads a generation in the background.
function follow(node, body, extra) {
  const self = { text: '', ids: [], done: null, error: null, body };
  self.ended = (async () => {
    for await (const event of events(node, body, extra)) {
      if (event.event === 'token') { self.ids.push(event.id); if (!event.special) self.text += event.text; }
      if (event.event === 'done') self.done = event;
      if (event.event === 'error') self.error = event;
    }
    return self;
  })();
  return self;
}

describe('a generation instead of another', () => {
  let node;
  const models = tempDir('models');
  const gate = path.join(models, 'gate');
  before(async () => {
    makeModel(models, 'fast');
    makeModel(models, 'slow', 'echo', { step_ms: 200 });
    makeModel(models, 'gated', 'echo', { gate });
    node = await startNode({ models, args: ['--max-sequences', `${SLOTS}`] });
  });
  after(() => node.stop());
  const live = async (id) => (await node.model(id)).workers.reduce((n, w) => n + w.live, 0);
  const idle = (id) => until('nothing runs', async () => (await live(id)) === 0);

  it('is taken where the node is full, and the other ends as cancelled with every token it made', async () => {
    fs.writeFileSync(gate, '...');
    const all = [];
    for (let i = 0; i < SLOTS + BEYOND; i++) {
      all.push(follow(node, short('gated', `answer ${i} is long`)));
      await until('it is there', async () => (await live('gated')) === i + 1);
    }
    await until('those in the slots have three tokens', () => all.slice(0, SLOTS).every((a) => a.ids.length === 3));
    await assert.rejects(generate(node, short('gated', 'no room')), /429/);
    const [victim] = all;
    const answer = await node.post('/v0/generate', short('gated', 'new'), instead(victim.body.request_id));
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get(HEADER), victim.body.request_id);
    const done = await until('the other has ended', () => victim.done);
    assert.equal(done.reason, 'cancelled');
    assert.equal(done.usage.completion_tokens, 3, 'the engine counts what was sent');
    await assert.rejects(generate(node, short('gated', 'no room')), /429/, 'its place is taken');
    fs.writeFileSync(gate, '.'.repeat(99));
    assert.match(await answer.text(), /"event":"done"/);
    for (const a of all.slice(1)) assert.equal((await a.ended).done.reason, 'stop');
    // What it has and what it still owes make one answer: nothing lost, nothing twice.
    const rest = await generate(node, { ...victim.body, generated: victim.ids });
    assert.equal(victim.text + rest.text, 'answer 0 is long');
    assert.equal(rest.done.usage.completion_tokens, 'answer 0 is long'.length + 1);
    await idle('gated');
  });

  it('begins in the next step: the other gets at most the token under way', async () => {
    const all = Array.from({ length: SLOTS }, () => follow(node, short('slow', 'x'.repeat(500))));
    await until('they run', () => all.every((a) => a.ids.length > 1));
    const [victim, other] = all;
    const had = victim.ids.length, stood = other.ids.length;
    const next = follow(node, short('slow', 'y'.repeat(500)), instead(victim.body.request_id));
    await until('its first token', () => next.ids.length > 0);
    assert.ok(victim.ids.length <= had + 1, `${victim.ids.length - had} more tokens`);
    assert.ok(other.ids.length - stood <= 3, `it waited ${other.ids.length - stood} steps`);
    assert.equal((await until('the other has ended', () => victim.done)).reason, 'cancelled');
    for (const a of [other, next]) await fetch(`${node.url}/v0/generate/${a.body.request_id}`, { method: 'DELETE' });
    await idle('slow');
  });

  it('all slots may change hands in one step, and no more than them', async () => {
    const all = Array.from({ length: SLOTS + BEYOND }, () => follow(node, short('slow', 'x'.repeat(500))));
    await until('they run', async () => (await live('slow')) === SLOTS + BEYOND);
    const names = all.map((a) => a.body.request_id);
    const answers = await Promise.all(names.map((name) => node.post('/v0/generate', short('slow', 'abc'), instead(name))));
    assert.ok(answers.filter((a) => a.status === 200).length >= SLOTS);
    assert.ok(answers.every((a) => [200, 429].includes(a.status)));
    for (const name of names) await fetch(`${node.url}/v0/generate/${name}`, { method: 'DELETE' });
    for (const a of answers) if (a.status === 200) assert.match(await a.text(), /"reason":"stop"/);
    await Promise.all(all.map((a) => a.ended));
    await idle('slow');
  });

  it('is served where the other is unknown, has ended, has been left by its client or is of another model; nobody is stopped', async () => {
    const ended = await generate(node, ask('fast', 'over'));
    assert.equal(ended.text, 'over');
    const leaving = new AbortController();
    const left = ask('slow', 'x'.repeat(500));
    const gone = generate(node, left, { signal: leaving.signal }).catch(() => 'left');
    const foreign = follow(node, ask('slow', 'x'.repeat(20)));
    await until('both run', async () => (await live('slow')) === 2 && foreign.ids.length > 0);
    leaving.abort();
    assert.equal(await gone, 'left');
    for (const [model, name] of [['fast', 'nobody'], ['fast', ''], ['fast', foreign.body.request_id], ['fast', 'x'.repeat(5000)], ['slow', left.request_id]]) {
      const answer = await node.post('/v0/generate', ask(model, 'hi'), instead(name));
      assert.equal(answer.status, 200);
      if (name !== left.request_id) assert.equal(answer.headers.get(HEADER), null, `instead of "${name.slice(0, 20)}"`);
      assert.match(await answer.text(), /"reason":"stop"/);
    }
    assert.equal((await foreign.ended).done.reason, 'stop');
    assert.equal(foreign.text, 'x'.repeat(20));
    await idle('slow');
  });

  it('that is refused stops nobody', async () => {
    const runs = follow(node, ask('slow', 'x'.repeat(10)));
    await until('it runs', () => runs.ids.length > 0);
    const bad = await node.post('/v0/generate', { protocol: 1, request_id: 'bad' }, instead(runs.body.request_id));
    assert.equal(bad.status, 400);
    assert.equal((await runs.ended).text, 'x'.repeat(10));
  });

  it('without the node\'s secret stops nobody', async () => {
    const secret = 'a-secret-of-some-length-0123456789';
    const guarded = await startNode({ models, args: ['--node-secret', secret] });
    const mine = { headers: { authorization: `Bearer ${secret}` } };
    const runs = follow(guarded, ask('slow', 'x'.repeat(10)), mine);
    await until('it runs', () => runs.ids.length > 0);
    for (const authorization of ['', 'Bearer wrong'])
      assert.equal((await guarded.post('/v0/generate', ask('slow', 'hi'), { headers: { authorization, [HEADER]: runs.body.request_id } })).status, 401);
    assert.equal((await runs.ended).text, 'x'.repeat(10));
    await guarded.stop();
  });
});
