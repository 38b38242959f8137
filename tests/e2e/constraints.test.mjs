// Constraints on the answer under the names of vLLM and llama.cpp: what each lets through, and what is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleet } from './fleet.mjs';
import { call, DEMO, say } from './support.mjs';

const NAME = '[A-Z][a-z]{2,9}';
const LIST = 'root ::= item "," root | item\nitem ::= [a-c]{1,2} | "(" root ")"';
const CHOICES = ['north', 'south', 'not sure'];
const SCHEMA = {
  type: 'object',
  properties: { n: { type: 'integer', minimum: 0, maximum: 99 } },
  required: ['n'],
  additionalProperties: false,
};

const isName = (text) => new RegExp(`^${NAME}$`).test(text);
const isChoice = (text) => CHOICES.includes(text);
const isNumber = (text) => /^\{\s*"n":\s*\d{1,2}\s*\}$/.test(text);
const isObject = (text) => JSON.parse(text).constructor === Object;
const isList = (text) => {
  let at = 0;
  const item = () => {
    if (text[at] === '(') {
      at++;
      return list() && text[at++] === ')';
    }
    const [word] = /^[a-c]{0,2}/.exec(text.slice(at));
    at += word.length;
    return word.length > 0;
  };
  const list = () => {
    if (!item()) return false;
    while (text[at] === ',') {
      at++;
      if (!item()) return false;
    }
    return true;
  };
  return list() && at === text.length;
};

const constraints = [
  [{ guided_json: SCHEMA }, isNumber],
  [{ guided_json: JSON.stringify(SCHEMA), guided_regex: null }, isNumber],
  [{ guided_regex: NAME, guided_decoding_backend: 'outlines' }, isName],
  [{ guided_choice: CHOICES }, isChoice],
  [{ guided_grammar: LIST }, isList],
  [{ structured_outputs: { json: SCHEMA } }, isNumber],
  [{ structured_outputs: { regex: NAME } }, isName],
  [{ structured_outputs: { choice: CHOICES } }, isChoice],
  [{ structured_outputs: { grammar: LIST } }, isList],
  [{ structured_outputs: { json_object: true } }, isObject],
  [{ grammar: LIST }, isList],
  [{ json_schema: SCHEMA }, isNumber],
];

const server = fleet(1, DEMO);
const post = async (path, body) => call(`${(await server).router.url}${path}`, { body: { model: 'demo', ...body } });

// The texts that came to an end by themselves fit; most do.
function check(what, texts, fits, least) {
  const whole = texts.filter(([, why]) => why === 'stop');
  for (const [text] of whole) assert.ok(fits(text), `${JSON.stringify(what)}: ${text}`);
  assert.ok(whole.length >= least, `${JSON.stringify(what)}: ${whole.length} of ${texts.length} came to an end`);
}

test('a completion is what its constraint says, under every name', async () => {
  for (const [what, fits] of constraints) {
    const answer = await post('/v1/completions', { prompt: 'Hello', n: 4, seed: 1, max_tokens: 150, ...what });
    assert.equal(answer.status, 200, answer.text);
    check(
      what,
      answer.json.choices.map((c) => [c.text, c.finish_reason]),
      fits,
      1,
    );
  }
});

test('of a chat the final message is what the constraint says, and the model can reason first', async () => {
  const chats = [constraints[2], constraints[3], constraints[10]];
  chats.push([{ response_format: { type: 'json_object', schema: SCHEMA } }, isNumber]);
  for (const [what, fits] of chats) {
    const answer = await post('/v1/chat/completions', { ...say('Hello'), n: 4, seed: 1, max_tokens: 300, ...what });
    assert.equal(answer.status, 200, answer.text);
    const { choices } = answer.json;
    check(
      what,
      choices.map((c) => [c.message.content, c.finish_reason]),
      fits,
      1,
    );
    assert.ok(choices.some((c) => c.message.reasoning_content));
  }
});

test('a response takes the same names', async () => {
  const answer = await post('/v1/responses', { input: 'Hello', seed: 1, guided_choice: CHOICES });
  assert.equal(answer.status, 200, answer.text);
  const message = answer.json.output.find((item) => item.type === 'message');
  assert.ok(isChoice(message.content[0].text), message.content[0].text);
});

test('a constraint that cannot be followed is refused by its name and place', async () => {
  const refused = [
    [{ guided_regex: '(a' }, 'guided_regex', /\( without a \)/],
    [{ guided_regex: '(a)\\1' }, 'guided_regex', /reference to a group/],
    [{ guided_choice: [] }, 'guided_choice', /empty/],
    [{ guided_choice: ['a', 7] }, 'guided_choice[1]', /string/],
    [{ guided_json: '{"type"' }, 'guided_json', /not JSON/],
    [{ guided_json: { type: 'nothing' } }, 'guided_json', /"type"/],
    [{ grammar: 'root ::= "a"\n  | b' }, 'grammar', /line 2, column 5: rule 'b' is not defined/],
    [{ guided_grammar: 'root ::= root "a"' }, 'guided_grammar', /left recursion/],
    [{ grammar: 'root ::= "a" root' }, 'grammar', /no value fits/],
    [{ structured_outputs: { grammar: 'a ::= "x"' } }, 'structured_outputs.grammar', /no rule 'root'/],
    [{ structured_outputs: {} }, 'structured_outputs', /no constraint/],
    [
      { structured_outputs: { json: {}, whitespace_pattern: ' ' } },
      'structured_outputs.whitespace_pattern',
      /Unsupported/,
    ],
    [{ guided_whitespace_pattern: ' ' }, 'guided_whitespace_pattern', /Unsupported/],
    [{ guided_regex: 'a', grammar: LIST }, 'grammar', /'guided_regex' and 'grammar' both/],
    [
      { json_schema: {}, structured_outputs: { json: {} } },
      'structured_outputs.json',
      /'json_schema' and 'structured_outputs.json' both/,
    ],
  ];
  for (const [what, param, message] of refused)
    for (const [path, ask] of [
      ['/v1/completions', { prompt: 'Hello' }],
      ['/v1/chat/completions', say('Hello')],
      ['/v1/responses', { input: 'Hello' }],
    ]) {
      const answer = await post(path, { ...ask, ...what });
      assert.equal(answer.status, 400, `${path} ${JSON.stringify(what)}: ${answer.text}`);
      assert.equal(answer.json.error.param, param);
      assert.match(answer.json.error.message, message);
    }
});
