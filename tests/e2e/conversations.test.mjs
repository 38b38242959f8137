// What clients of the four APIs send reaches the model: an agent's conversation of two rounds, with each chat template.  The engine answers with the
// prompt that it got.
//
// LR_TEMPLATES=FOLDER tries the published templates of a folder instead of ours.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { call, makeEcho, ROOT, startUp } from './support.mjs';

const FOLDER = process.env.LR_TEMPLATES ?? path.join(ROOT, 'tests/fixtures/templates-own');
// Of ours, those that write conversations; the others show a feature of Jinja.
const OURS =
  'calls_with_caller commandr_types deepseek_ns exaone_index gemma_schema generation glm_visible granite_docs hermes_json kimi_queue ' +
  'llama_dates minimax_invoke mistral_inst nemotron_xml phi_tools qwen_think role_map system_merge';
const TEMPLATES = process.env.LR_TEMPLATES
  ? fs.readdirSync(FOLDER).filter((name) => name.endsWith('.jinja'))
  : OURS.split(' ').map((name) => `${name}.jinja`);
const modelOf = (template) => template.replace('.jinja', '').toLowerCase();

let up;
before(async () => {
  const models = TEMPLATES.map((template) => {
    const dir = makeEcho(modelOf(template), { say_prompt: true });
    fs.copyFileSync(path.join(FOLDER, template), path.join(dir, 'chat_template.jinja'));
    fs.writeFileSync(path.join(dir, 'tokenizer_config.json'), '{"bos_token": "<s>", "eos_token": "</s>"}');
    return dir;
  });
  up = await startUp({ args: models.flatMap((m) => ['--model', m]) });
});
after(() => up?.stop());

const schema = { type: 'object', properties: { at: { type: 'string' } }, required: ['at'] };
const ID = (n) => `call_00000000000000000000000${n}`;
const args = (n) => JSON.stringify({ at: `argument${n}` });
const rounds = (one) => [1, 2].flatMap(one);
// Texts that must be in the prompt, with the name of the part in the header.
const TEXTS = [
  ['tools', 'descriptiontext'],
  ['messages.system', 'systemtext'],
  ...rounds((n) => [
    ['messages.user', `usertext${n}`],
    ['messages.tool_calls', `argument${n}`],
    ['messages.tool', `resulttext${n}`],
  ]),
  ['messages.user', 'lasttext'],
];
const DEVELOPER = ['messages.developer', 'developertext'];
const APIS = {
  '/v1/chat/completions': {
    texts: [...TEXTS, DEVELOPER],
    body: {
      messages: [
        { role: 'system', content: 'systemtext' },
        { role: 'developer', content: 'developertext' },
        ...rounds((n) => [
          { role: 'user', content: `usertext${n}` },
          {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: ID(n), type: 'function', function: { name: 'look', arguments: args(n) } }],
          },
          { role: 'tool', tool_call_id: ID(n), content: `resulttext${n}` },
        ]),
        { role: 'user', content: 'lasttext' },
      ],
      tools: [{ type: 'function', function: { name: 'look', description: 'descriptiontext', parameters: schema } }],
    },
  },
  '/v1/responses': {
    texts: [...TEXTS, DEVELOPER],
    body: {
      instructions: 'systemtext',
      input: [
        { role: 'developer', content: 'developertext' },
        ...rounds((n) => [
          { role: 'user', content: `usertext${n}` },
          { type: 'function_call', call_id: ID(n), name: 'look', arguments: args(n) },
          { type: 'function_call_output', call_id: ID(n), output: `resulttext${n}` },
        ]),
        { role: 'user', content: 'lasttext' },
      ],
      tools: [{ type: 'function', name: 'look', description: 'descriptiontext', parameters: schema }],
    },
  },
  '/v1/messages': {
    texts: TEXTS,
    body: {
      max_tokens: 100000,
      thinking: { type: 'adaptive' },
      system: 'systemtext',
      messages: [
        ...rounds((n) => [
          ...(n === 1 ? [{ role: 'user', content: 'usertext1' }] : []),
          {
            role: 'assistant',
            content: [{ type: 'tool_use', id: ID(n), name: 'look', input: { at: `argument${n}` } }],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: ID(n), content: `resulttext${n}` },
              { type: 'text', text: n === 1 ? 'usertext2' : 'lasttext' },
            ],
          },
        ]),
      ],
      tools: [{ name: 'look', description: 'descriptiontext', input_schema: schema }],
    },
  },
  '/api/chat': {
    texts: TEXTS,
    body: {
      stream: false,
      messages: [
        { role: 'system', content: 'systemtext' },
        ...rounds((n) => [
          { role: 'user', content: `usertext${n}` },
          {
            role: 'assistant',
            content: '',
            tool_calls: [{ function: { name: 'look', arguments: { at: `argument${n}` } } }],
          },
          { role: 'tool', tool_name: 'look', content: `resulttext${n}` },
        ]),
        { role: 'user', content: 'lasttext' },
      ],
      tools: [{ type: 'function', function: { name: 'look', description: 'descriptiontext', parameters: schema } }],
    },
  },
};
const promptOf = (answer) => Buffer.from(answer.match(/[0-9a-f]{60,}/)[0], 'hex').toString();

for (const [api, { texts, body }] of Object.entries(APIS))
  test(`${api}: each text of two rounds with a tool is in the prompt of every template, or named in the header`, async () => {
    for (const template of TEMPLATES) {
      const answer = await call(up.url + api, { body: { model: modelOf(template), ...body } });
      assert.equal(answer.status, 200, `${template}: ${answer.text}`);
      const prompt = promptOf(answer.text);
      const named = (answer.headers.get('x-llm-router-ignored') ?? '').split(', ');
      for (const [part, text] of texts)
        assert.equal(
          prompt.includes(text),
          !named.includes(part),
          `${template}: ${part} ${text}; named: ${named}\n${prompt}`,
        );
    }
  });
