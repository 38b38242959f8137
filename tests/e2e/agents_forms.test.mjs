// Agents and models of four dialects: the agent gets reasoning and a call, runs its tool, and goes on with the result.  The same with coding
// agents: agents.test.mjs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { FORMS } from './forms.mjs';
import { makeEcho, startUp } from './support.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false; // its chat API has no summaries
let up;
before(async () => {
  const models = Object.entries(FORMS).map(([form, { template, testing }]) => {
    const dir = makeEcho(form, testing);
    fs.writeFileSync(path.join(dir, 'chat_template.jinja'), template);
    return dir;
  });
  up = await startUp({ args: models.flatMap((m) => ['--model', m]) });
});
after(() => up?.stop());

const CITY = 'Saint-Étienne <b>"42"</b>';
const THOUGHT = 'I look at the weather.';
const report = ({ city, days }) => `${days} sunny days in ${city}`;
const RESULT = report({ city: CITY, days: 3 });
const ask = (form) => FORMS[form].call('get_weather', { city: CITY, days: 3 }, THOUGHT);

test('the AI SDK by both APIs, whole and streamed, in four dialects: reasoning, a call, its result', async () => {
  const bodies = [];
  const keeping = (url, request) => {
    bodies.push(request.body);
    return fetch(url, request);
  };
  const openai = createOpenAI({ baseURL: `${up.url}/v1`, apiKey: 'none', fetch: keeping });
  const tools = {
    get_weather: tool({
      description: 'Weather of a city',
      inputSchema: z.object({ city: z.string(), days: z.number() }),
      execute: async (input) => report(input),
    }),
  };
  for (const form of Object.keys(FORMS))
    for (const [api, model] of Object.entries({ chat: openai.chat(form), responses: openai.responses(form) })) {
      const request = {
        model,
        tools,
        prompt: ask(form),
        stopWhen: stepCountIs(3),
        maxRetries: 0,
        providerOptions: { openai: { reasoningSummary: 'auto', forceReasoning: true, store: false } },
      };
      for (const answer of [await generateText(request), streamText(request)]) {
        const [first] = await answer.steps;
        assert.deepEqual(
          first.toolCalls.map((c) => c.input),
          [{ city: CITY, days: 3 }],
          `${form} ${api}`,
        );
        assert.equal(await answer.text, RESULT, `${form} ${api}`);
        if (api === 'responses') {
          assert.equal(first.reasoningText, THOUGHT, form);
          assert.match(bodies.at(-1), /"type":"reasoning"/, form); // it goes back to the model
        }
      }
    }
});

test("Anthropic's SDK, streamed, in four dialects: thinking with a signature, a call, its result", async () => {
  const client = new Anthropic({ baseURL: up.url, apiKey: 'none', maxRetries: 0 });
  const about = {
    name: 'get_weather',
    description: 'Weather of a city',
    input_schema: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
      required: ['city', 'days'],
    },
  };
  for (const form of Object.keys(FORMS)) {
    const messages = [{ role: 'user', content: ask(form) }];
    const go = () =>
      client.messages
        .stream({ model: form, max_tokens: 4000, thinking: { type: 'adaptive' }, messages, tools: [about] })
        .finalMessage();
    const first = await go();
    const [thinking, call] = first.content;
    assert.deepEqual([thinking.thinking, call.input], [THOUGHT, { city: CITY, days: 3 }], form);
    assert.ok(thinking.signature);
    const result = { type: 'tool_result', tool_use_id: call.id, content: report(call.input) };
    messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: [result] });
    assert.deepEqual(
      (await go()).content.map((b) => b.text),
      [RESULT],
      form,
    );
  }
});
