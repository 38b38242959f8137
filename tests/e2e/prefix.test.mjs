// A conversation goes on: what was computed of its beginning is not computed again.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { fleet, makeKey, used } from './fleet.mjs';
import { call, until } from './support.mjs';

const DEMO = path.resolve('models/demo');
const system = { role: 'system', content: 'You are a calculator. '.repeat(12) };

// The answer and its usage, as the model gives it to this key.
async function ask(router, messages, key) {
  const { status, json } = await call(`${router.url}/v1/chat/completions`, { key, body: { model: 'demo', temperature: 0, messages } });
  assert.equal(status, 200, JSON.stringify(json));
  const { message } = json.choices[0];
  return { text: message.content, reasoning: message.reasoning_content, prompt: json.usage.prompt_tokens, cached: json.usage.prompt_tokens_details.cached_tokens };
}

test('the next turn of a conversation computes its new part only, and says how much was cached', async () => {
  const { router } = await fleet(1, DEMO);
  const [mine, other] = [await makeKey(router), await makeKey(router, { name: 'other' })];
  const first = [system, { role: 'user', content: 'What is 3 + 4?' }];
  const one = await ask(router, first, mine.key);
  assert.deepEqual([one.text, one.cached], ['3 + 4 = 7', 0]);

  const again = await ask(router, first, mine.key);
  assert.deepEqual([again.text, again.reasoning], [one.text, one.reasoning]);
  assert.ok(again.cached > again.prompt * 0.7 && again.cached < again.prompt, `${again.cached} of ${again.prompt}`);

  const turn = [...first, { role: 'assistant', content: one.text }, { role: 'user', content: 'What is 5 + 6?' }];
  const two = await ask(router, turn, mine.key);
  const fresh = await ask(router, turn, other.key); // computes it all itself
  assert.ok(two.cached > one.prompt * 0.7, `${two.cached} of ${two.prompt}`);
  assert.deepEqual([two.text, two.reasoning, fresh.cached], [fresh.text, fresh.reasoning, 0]);

  await until('all three requests are in the books', async () => (await used(router, mine)).requests === 3);
  assert.equal((await used(router, mine)).cached_tokens, again.cached + two.cached);
});
