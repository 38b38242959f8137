// Clients of other authors, unmodified, with nothing but a base URL: docs/clients.md has the recipes.  Larger clients: agents.test.mjs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { DEMO, startUp } from './support.mjs';

let up;
before(async () => {
  up = await startUp({ args: ['--model', DEMO] });
});
after(() => up?.stop());

const weather = {
  get_weather: tool({
    description: 'Weather of a city',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => ({ city, temperature: 21, sky: 'sunny' }),
  }),
};

// Three questions in one conversation.  The SDK runs the tool and sends everything back that it has got.
async function converse(model, ask) {
  const messages = [],
    seen = [];
  for (const content of ['What is the weather in Paris?', 'What is 3 + 4?', 'What is the weather in Rome?']) {
    messages.push({ role: 'user', content });
    const answer = await ask({
      model,
      messages,
      tools: weather,
      temperature: 0,
      stopWhen: stepCountIs(4),
      maxRetries: 0,
      ...(/weather/.test(content)
        ? { prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'auto' }) }
        : {}),
    });
    const { steps, text, messages: made } = answer;
    messages.push(...made);
    seen.push({ text, calls: steps.flatMap((step) => step.toolCalls.map((c) => c.input.city)) });
  }
  return seen;
}

const whole = async (request) => {
  const { steps, text, response } = await generateText(request);
  return { steps, text, messages: response.messages };
};
const streamed = async (request) => {
  const result = streamText({
    ...request,
    onError: ({ error }) => {
      throw error;
    },
  });
  return { steps: await result.steps, text: await result.text, messages: (await result.response).messages };
};

test('ai with @ai-sdk/openai: three turns with tools, by its default API and by chat completions, whole and streamed', async () => {
  const openai = createOpenAI({ baseURL: `${up.url}/v1`, apiKey: 'none' });
  for (const [name, model] of Object.entries({ responses: openai('demo'), chat: openai.chat('demo') }))
    for (const ask of [whole, streamed]) {
      const turns = await converse(model, ask);
      assert.deepEqual(
        turns.map((turn) => turn.calls.length > 0),
        [true, false, true],
        name,
      );
      assert.match(turns[0].calls[0], /Paris/);
      assert.match(turns[2].calls[0], /Rome/);
      for (const turn of turns) assert.ok(turn.text.length > 0, name);
      assert.match(turns[0].text, /21|sunny/i, `${name}: the result is in the answer`);
    }
});
