// A request that gives no temperature gets the one that the model's generation_config.json recommends.
// The demo model answers this text the same at temperature 1, whatever the seed, and not at 2 or 20.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { call, DEMO, say, startUp, tempDir } from './support.mjs';

const TEXT = 'zqx 17 blue vrr %%';

// A copy of the demo model whose publisher recommends these values.
function modelWith(name, values) {
  const dir = path.join(tempDir('sampling'), name);
  fs.cpSync(DEMO, dir, { recursive: true, filter: (file) => !file.endsWith('training') });
  const file = path.join(dir, 'generation_config.json');
  fs.writeFileSync(file, JSON.stringify({ ...JSON.parse(fs.readFileSync(file)), ...values }));
  return dir;
}

let up, off;
before(async () => {
  const lively = modelWith('lively', { temperature: 20, top_k: 200 });
  const greedy = modelWith('greedy', { do_sample: false, temperature: 20 });
  [up, off] = await Promise.all([
    startUp({ args: ['--model', lively, '--model', greedy, '--model', DEMO] }),
    startUp({ args: ['--model', lively, '--no-model-sampling'] }),
  ]);
});
after(() => Promise.all([up?.stop(), off?.stop()]));

// How many different answers eight seeds give.
async function variety(server, where, bodyOf, textOf) {
  const seeds = Array.from({ length: 8 }, (_, seed) => seed);
  const answers = await Promise.all(seeds.map((seed) => call(`${server.url}${where}`, { body: bodyOf(seed) })));
  for (const answer of answers) assert.equal(answer.status, 200, answer.text);
  return new Set(answers.map((answer) => JSON.stringify(textOf(answer.json)))).size;
}
const chat = (server, model, more) =>
  variety(
    server,
    '/v1/chat/completions',
    (seed) => ({ model, seed, max_tokens: 24, ...say(TEXT), ...more }),
    (a) => a.choices[0].message,
  );

test("the model's own temperature holds where a request gives none, in each API", async () => {
  assert.ok((await chat(up, 'lively')) > 1);
  const model = 'lively',
    { messages } = say(TEXT);
  const completion = (seed) => ({ model, seed, max_tokens: 24, prompt: TEXT });
  assert.ok((await variety(up, '/v1/completions', completion, (a) => a.choices[0].text)) > 1);
  // These two have no seed: enough tokens that no two answers at temperature 20 are the same.
  const message = () => ({ model, max_tokens: 100, messages });
  const count = await variety(up, '/v1/messages', message, (a) => [a.content, a.usage.output_tokens]);
  assert.ok(count > 1);
  const response = () => ({ model, max_output_tokens: 100, input: TEXT, store: false });
  assert.ok((await variety(up, '/v1/responses', response, (a) => [a.output.map((o) => o.content ?? o.summary)])) > 1);
  const ollama = (seed) => ({ model, stream: false, messages, options: { seed, num_predict: 24 } });
  assert.ok((await variety(up, '/api/chat', ollama, (a) => [a.message.content, a.message.thinking])) > 1);
});

test('"do_sample": false means temperature 0, and a model without recommendations keeps temperature 1', async () => {
  assert.equal(await chat(up, 'greedy'), 1);
  assert.equal(await chat(up, 'demo'), 1);
  assert.ok((await chat(up, 'greedy', { temperature: 2 })) > 1);
});

test('a temperature in the request is used instead of the recommended one', async () => {
  assert.equal(await chat(up, 'lively', { temperature: 0 }), 1);
});

test('--no-model-sampling: the values of the file are not used', async () => {
  assert.equal(await chat(off, 'lively'), 1);
});

test('the values are shown for the model, and a response says which temperature was used', async () => {
  const { models } = (await call(`${up.url}/v0/models?id=lively`)).json;
  assert.deepEqual(models[0].nodes[0].sampling, { temperature: 20, top_k: 200 });
  const body = { model: 'lively', max_output_tokens: 4, input: 'x', store: false };
  assert.equal((await call(`${up.url}/v1/responses`, { body })).json.temperature, 20);
  assert.equal((await call(`${up.url}/v1/responses`, { body: { ...body, temperature: 0.25 } })).json.temperature, 0.25);
});
