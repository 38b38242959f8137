// Stored responses with OpenAI's own client: continue, refer to items, retrieve, list, delete,
// run in the background, cancel.
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { makeKey } from './fleet.mjs';
import { call, DEMO, makeEcho, startUp, tempDir, until } from './support.mjs';

const clientOf = (url, key) =>
  new OpenAI({
    baseURL: `${url}/v1`,
    apiKey: key ?? 'unused',
    maxRetries: 0,
    ...(key ? {} : { defaultHeaders: { Authorization: null } }),
  });

const model = makeEcho('m');
const left = [];
const start = async (more = {}) => {
  const up = await startUp({ dir: tempDir('stored'), ...more, args: ['--model', model, ...(more.args ?? [])] });
  left.push(up);
  return { up, client: clientOf(up.url) };
};
let dir, up, client;
before(async () => {
  dir = tempDir('stored');
  ({ up, client } = await start({ dir, args: ['--model', DEMO] }));
});
after(() => Promise.all(left.map((u) => u.stop())));

const create = (more, c = client) => c.responses.create({ model: 'm', temperature: 0, ...more });
const absent = (promise, says) =>
  assert.rejects(promise, (e) => {
    const isField = /Previous response/.test(e.message); // a field of the request, not its address
    assert.ok(e instanceof (isField ? OpenAI.BadRequestError : OpenAI.NotFoundError), `${e}`);
    assert.match(e.message, says);
    return true;
  });
const isGone = async (id, c = client) =>
  c.responses.retrieve(id).then(
    () => false,
    (e) => e.status === 404,
  );

const weather = [
  {
    type: 'function',
    name: 'get_weather',
    description: 'Weather of a city',
    strict: false,
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
];
const question = { role: 'user', content: 'What is the weather in Paris?' };
const resultOf = (answer) => ({
  type: 'function_call_output',
  call_id: answer.output.find((item) => item.type === 'function_call').call_id,
  output: '{"temperature": 21, "sky": "sunny"}',
});
const demo = { model: 'demo', tools: weather };
const seen = (answer) => [answer.output_text, answer.usage.input_tokens, answer.usage.output_tokens];

test('a conversation with tools goes on by previous_response_id, with the prompt of the whole conversation', async () => {
  const first = await create({ ...demo, input: [question] });
  assert.equal(first.store, true);
  const second = await create({ ...demo, previous_response_id: first.id, input: [resultOf(first)] });
  assert.equal(second.previous_response_id, first.id);
  const whole = [question, ...first.output, resultOf(first)];
  assert.deepEqual(seen(second), seen(await create({ ...demo, store: false, input: whole })));
  assert.match(second.output_text, /21|sunny/i);
  const third = await create({ ...demo, previous_response_id: second.id, input: 'Hello', stream: true });
  let last;
  for await (const event of third) last = event.response ?? last;
  assert.deepEqual([last.status, last.store], ['completed', true]);
  const fourth = await create({ ...demo, previous_response_id: last.id, input: 'Hello' });
  const rest = [...whole, ...second.output, { role: 'user', content: 'Hello' }, ...last.output];
  assert.deepEqual(
    seen(fourth),
    seen(await create({ ...demo, store: false, input: [...rest, { role: 'user', content: 'Hello' }] })),
  );
});

test('instructions of earlier responses are not carried over', async () => {
  const first = await create({ input: 'one', instructions: 'Speak of '.repeat(20) });
  const second = await create({ input: 'two', previous_response_id: first.id });
  const input = [{ role: 'user', content: 'one' }, ...first.output, { role: 'user', content: 'two' }];
  assert.equal(second.instructions, null);
  assert.equal(second.usage.input_tokens, (await create({ input, store: false })).usage.input_tokens);
});

test('an item_reference stands for the item, with or without its type', async () => {
  const first = await create({ ...demo, input: [question] });
  const references = first.output.map(({ id }, i) => (i % 2 ? { id } : { type: 'item_reference', id }));
  const second = await create({ ...demo, input: [question, ...references, resultOf(first)] });
  const whole = { ...demo, store: false, input: [question, ...first.output, resultOf(first)] };
  assert.deepEqual(seen(second), seen(await create(whole)));
  const listed = await client.responses.inputItems.list(second.id, { order: 'asc' });
  assert.deepEqual(
    listed.data.slice(1, -1),
    first.output.map((item) => ({ ...item })),
    'input_items has the items themselves',
  );
});

test('what is not stored is a 404, as the response before it a 400, in the words of OpenAI', async () => {
  const first = await create({ input: 'one', store: false });
  assert.equal(first.store, false);
  await absent(client.responses.retrieve(first.id), /Response with id 'resp_\w+' not found\./);
  await absent(
    create({ input: 'two', previous_response_id: first.id }),
    /Previous response with id 'resp_\w+' not found\./,
  );
  const [{ id }] = first.output;
  await absent(create({ input: [{ type: 'item_reference', id }] }), /Item with id 'msg_\w+' not found\. Items are not/);
  for (const odd of ['x', 'msg_', `msg_${'a'.repeat(500)}`, "msg_' OR '1'='1"])
    await absent(create({ input: [{ type: 'item_reference', id: odd }] }), /Item with id '/);
  const error = await create({ input: 'x', previous_response_id: 'resp_1' }).catch((e) => e);
  assert.deepEqual(
    [error.status, error.code, error.param],
    [400, 'previous_response_not_found', 'previous_response_id'],
  );
  await assert.rejects(create({ input: [{ type: 'item_reference' }] }), /'item_reference' needs the 'id'/);
  await absent(client.responses.delete('resp_1'), /not found/);
  await absent(client.responses.cancel('resp_1'), /not found/);
  await absent(client.responses.inputItems.list('resp_1'), /not found/);
});

test('a stored response is retrieved as it was answered, streamed or whole, and deleted', async () => {
  const whole = await create({ input: 'Hello "there" \u{1F600}', metadata: { a: 'b' }, instructions: 'Be kind.' });
  assert.deepEqual({ ...(await client.responses.retrieve(whole.id)) }, { ...whole });
  let last;
  for await (const event of await create({ input: 'Hello', stream: true })) last = event;
  const { response } = last;
  const again = await client.responses.retrieve(response.id);
  assert.deepEqual([again.output, again.usage, again.store], [response.output, response.usage, true]);
  const next = await create({ input: 'two', previous_response_id: whole.id });
  assert.deepEqual((await call(`${up.url}/v1/responses/${whole.id}`, { method: 'DELETE' })).json, {
    id: whole.id,
    object: 'response',
    deleted: true,
  });
  await absent(client.responses.retrieve(whole.id), /not found/);
  // The conversation after it has lost its beginning; an answer without it would be a wrong one.
  await absent(create({ input: 'x', previous_response_id: next.id }), new RegExp(`'${whole.id}' not found`));
  await assert.rejects(client.responses.cancel(next.id), /Cannot cancel a synchronous response\./);
});

test('the items of a request are listed in pages, in both orders', async () => {
  const texts = ['a', 'b', 'c', 'd', 'e'];
  const answer = await create({
    input: texts.map((content, i) => ({ role: i % 2 ? 'assistant' : 'user', content })),
  });
  const of = (page) => page.data.map((item) => item.content[0].text).join('');
  const list = (query) => client.responses.inputItems.list(answer.id, query);
  const all = await list({});
  assert.equal(of(all), 'edcba', 'the newest first');
  assert.deepEqual(
    [all.data[0].type, all.data[0].role, all.data[0].content[0].type, all.data[1].content[0].type],
    ['message', 'user', 'input_text', 'output_text'],
  );
  assert.match(all.data[0].id, /^msg_\w+$/);
  const first = await list({ order: 'asc', limit: 2 });
  assert.deepEqual([of(first), first.has_more], ['ab', true]);
  const second = await list({ order: 'asc', limit: 3, after: first.data[1].id });
  assert.deepEqual([of(second), second.has_more], ['cde', false]);
  const walked = [];
  for await (const item of client.responses.inputItems.list(answer.id, { limit: 2 })) walked.push(item.content[0].text);
  assert.equal(walked.join(''), 'edcba', 'the client walks over the pages');
  for (const query of ['limit=0', 'limit=101', 'limit=x', 'order=up'])
    assert.equal((await call(`${up.url}/v1/responses/${answer.id}/input_items?${query}`)).status, 400, query);
  assert.equal((await call(`${up.url}/v1/responses/${answer.id}/input_items?after=msg_1`)).status, 404);
  const text = await create({ input: 'plain' });
  assert.equal(of(await client.responses.inputItems.list(text.id)), 'plain');
});

test('a response belongs to its key: another key gets 404, and a revoked key takes its responses with it', async () => {
  const [mine, other] = [await makeKey(up), await makeKey(up)];
  const [a, b] = [clientOf(up.url, mine.key), clientOf(up.url, other.key)];
  const answer = await create({ input: 'mine' }, a);
  assert.equal((await a.responses.retrieve(answer.id)).id, answer.id);
  for (const c of [b, client]) {
    await absent(c.responses.retrieve(answer.id), /not found/);
    await absent(c.responses.delete(answer.id), /not found/);
    await absent(c.responses.inputItems.list(answer.id), /not found/);
    await absent(create({ input: 'x', previous_response_id: answer.id }, c), /not found/);
    await absent(create({ input: [{ type: 'item_reference', id: answer.output[0].id }] }, c), /not found/);
  }
  assert.equal((await a.responses.retrieve(answer.id)).id, answer.id, 'it is still there');
  assert.equal((await call(`${up.url}/v0/keys/${mine.id}`, { method: 'DELETE' })).status, 200);
  const database = new DatabaseSync(path.join(dir, 'router.db'), { readOnly: true });
  const rows = (table, id) => database.prepare(`SELECT COUNT(*) AS n FROM ${table} WHERE id = ?`).get(id).n;
  await until(
    'its rows are removed',
    () => rows('responses', answer.id) + rows('response_texts', answer.id) === 0,
    20000,
  );
  database.close();
});

test('a stored response survives a restart of the router', async () => {
  const at = tempDir('restart');
  const one = await start({ dir: at });
  const answer = await create({ input: 'Hello' }, one.client);
  await one.up.stop();
  const two = await start({ dir: at });
  assert.deepEqual({ ...(await two.client.responses.retrieve(answer.id)) }, { ...answer });
  const next = await create({ input: 'two', previous_response_id: answer.id }, two.client);
  assert.equal(next.previous_response_id, answer.id);
});

test('a response that is unused for the set time is gone, and so are its rows', async () => {
  const at = tempDir('short');
  const short = await start({ dir: at, args: ['--keep-responses', '1s'] });
  const answer = await create({ input: 'Hello' }, short.client);
  assert.equal(answer.store, true);
  await until('it is gone', () => isGone(answer.id, short.client), 20000);
  await absent(create({ input: 'x', previous_response_id: answer.id }, short.client), /not found/);
  const database = new DatabaseSync(path.join(at, 'router.db'), { readOnly: true });
  const count = (table) => database.prepare(`SELECT COUNT(*) AS n FROM ${table}`).get().n;
  await until('its rows are gone', () => count('responses') + count('response_texts') === 0, 30000);
  database.close();
});

test('beyond the set size the oldest responses of the key with the most bytes are removed', async () => {
  const { up: small, client: c } = await start({ args: ['--keep-responses-bytes', '24KiB'] });
  const other = clientOf(small.url, (await makeKey(small)).key);
  const kept = await create({ input: 'small' }, other);
  const many = [];
  for (let i = 0; i < 12; i++)
    many.push(await create({ input: `${i} ${'word '.repeat(1500)}`, max_output_tokens: 1 }, c));
  await until('the oldest is gone', () => isGone(many[0].id, c), 20000);
  await until(
    'what is left fits',
    async () => {
      const gone = []; // asked from the newest on: what is removed meanwhile is older than what was seen
      for (const { id } of [...many].reverse()) gone.unshift(await isGone(id, c));
      assert.deepEqual(gone, [...gone].sort().reverse(), 'the oldest ones go first');
      return gone.filter((g) => !g).length <= 3;
    },
    20000,
  );
  assert.equal((await c.responses.retrieve(many.at(-1).id)).id, many.at(-1).id, 'the newest stays');
  assert.equal((await other.responses.retrieve(kept.id)).id, kept.id, 'and so does that of another key');
  const large = await create({ input: 'word '.repeat(6000), max_output_tokens: 1 }, c);
  assert.equal(large.store, false, 'a response that is larger than all is answered and not stored');
});

test('0 turns it off: nothing is stored, and a reference is a 400 that says so', async () => {
  const off = await start({ args: ['--keep-responses', '0'] });
  const answer = await off.client.responses.create({ model: 'm', input: 'Hello', store: true }).withResponse();
  assert.equal(answer.data.store, false);
  assert.equal(answer.response.headers.get('x-llm-router-ignored'), 'store');
  await absent(off.client.responses.retrieve(answer.data.id), /not found/);
  for (const more of [{ previous_response_id: answer.data.id }, { input: [{ type: 'item_reference', id: 'msg_1' }] }])
    await assert.rejects(create({ input: 'x', ...more }, off.client), (e) => {
      assert.equal(e.status, 400);
      assert.match(e.message, /stores no responses/);
      return true;
    });
});

const slow = makeEcho('slow', { step_ms: 20 });
const ended = (id, c) =>
  until(
    'it has ended',
    async () => {
      const answer = await c.responses.retrieve(id);
      return !['queued', 'in_progress'].includes(answer.status) && answer;
    },
    60000,
  );

test('a background request is answered at once, and its response is there in the end', async () => {
  const first = await create({ input: 'Hello', background: true });
  assert.deepEqual(
    [first.status, first.background, first.output, first.usage, first.store],
    ['queued', true, [], null, true],
  );
  const last = await ended(first.id, client);
  assert.deepEqual([last.id, last.status, last.background], [first.id, 'completed', true]);
  assert.deepEqual(seen(last), seen(await create({ input: 'Hello' })));
  const next = await create({ input: 'two', previous_response_id: first.id, background: true });
  const input = [{ role: 'user', content: 'Hello' }, ...last.output, { role: 'user', content: 'two' }];
  assert.deepEqual(seen(await ended(next.id, client)), seen(await create({ input, store: false })));
  assert.equal((await client.responses.cancel(first.id)).status, 'completed', 'it stays as it is');
  const long = await create({ input: 'word '.repeat(8000), background: true });
  const failed = await ended(long.id, client);
  assert.deepEqual([failed.status, failed.error.code], ['failed', 'context_length_exceeded']);
  await assert.rejects(create({ input: 'x', background: true, store: false }), /needs 'store': true/);
});

test('a background request runs on without its client, and cancel stops it', async () => {
  const { up: server, client: c } = await start({ args: ['--model', slow] });
  const busy = async () => (await call(`${server.url}/v0/models`)).json.models.some((m) => m.nodes[0]?.inflight > 0);
  const ask = (more) => create({ model: 'slow', input: 'word '.repeat(1000), background: true, ...more }, c);
  const few = 'some words to be said';
  const stream = await ask({ input: few, stream: true });
  let left;
  for await (const event of stream) {
    left = event.response ?? left;
    if (event.type === 'response.output_text.delta') break; // and leaves
  }
  assert.equal((await ended(left.id, c)).output_text, few);

  const first = await ask({});
  await until('it runs', busy, 20000);
  await until('its state says so', async () => (await c.responses.retrieve(first.id)).status === 'in_progress', 20000);
  assert.equal((await c.responses.cancel(first.id)).status, 'cancelled');
  await until('nothing runs', async () => !(await busy()), 20000);
  assert.equal((await c.responses.retrieve(first.id)).status, 'cancelled');
  assert.equal((await c.responses.cancel(first.id)).status, 'cancelled', 'a second time, too');

  const second = await ask({});
  await until('it runs', busy, 20000);
  await c.responses.delete(second.id);
  await until('a deleted one does not run', async () => !(await busy()), 20000);
});
