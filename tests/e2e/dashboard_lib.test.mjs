// The dashboard's parts without a view: streams, quoting for a shell, requests, usage.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { EventParser, speed } from '../../dashboard/lib/chat.js';
import { shellQuote, snippets, toCurl } from '../../dashboard/lib/chat_snippets.js';
import { noSettings, openChats, toolsProblem, toRequest } from '../../dashboard/lib/chats.js';
import en from '../../dashboard/i18n/en.js';
import ja from '../../dashboard/i18n/ja.js';
import { reasons } from '../../dashboard/i18n/reasons.js';
import { stackedBy, sumsBy } from '../../dashboard/pages/usage.js';
import { ROOT } from './support.mjs';

test('events are parsed the same for any chunking of the stream and any line ends', () => {
  for (const end of ['\n', '\r\n', '\r']) {
    const text = [
      ': hello',
      '',
      'data: {"a":1}',
      '',
      'event: x',
      'data: one',
      'data:two',
      'id: 3',
      '',
      ': ping',
      '',
      'data: [DONE]',
      '',
      'data: cut',
    ].join(end);
    const want = ['{"a":1}', 'one\ntwo', '[DONE]'];
    for (let size = 1; size <= text.length; size++) {
      const parser = new EventParser(),
        got = [];
      for (let at = 0; at < text.length; at += size) got.push(...parser.feed(text.slice(at, at + size)));
      assert.deepEqual(got, want, `${JSON.stringify(end)} in pieces of ${size}`);
    }
  }
});

test('a quoted word reaches the program unchanged, with any shell character in it', () => {
  const words = [
    "it's",
    "''",
    '',
    '$HOME `id` $(id) \\ " ! * ~ # ; & | < > \n\t',
    '-n',
    '日本',
    "'; rm -rf /; '",
    "\\'\\",
    '%s%n',
  ];
  for (const word of words)
    assert.equal(execFileSync('sh', ['-c', `printf %s ${shellQuote(word)}`], { encoding: 'utf8' }), word);
});

test('the curl command contains the request and never a key', () => {
  const command = toCurl({ model: "m'1", messages: [] }, { origin: 'https://host:1', needsKey: true });
  assert.match(command, /-H "Authorization: Bearer \$LLM_ROUTER_KEY"/);
  assert.doesNotMatch(toCurl({ model: 'm' }, { origin: 'https://host:1', needsKey: false }), /Authorization/);
  assert.match(command, /"stream":true/);
  for (const { id, text } of snippets({ model: 'm', messages: [] }, { origin: 'https://host:1', needsKey: true }))
    assert.match(text, /LLM_ROUTER_KEY/, id);
});

test('a request contains the fields that were set and no others; tool calls are sent back with their results', () => {
  const messages = [
    { role: 'user', content: 'hi' },
    {
      role: 'assistant',
      content: '',
      reasoning: 'I need a tool',
      toolCalls: [{ id: 'c1', name: 'f', arguments: '{}' }],
    },
    { role: 'tool', toolCallId: 'c1', content: '1' },
    { role: 'assistant', content: '', error: { message: 'no' } },
  ];
  assert.deepEqual(toRequest(messages, { ...noSettings, model: 'm', temperature: '0', tools: '[]', system: ' ' }), {
    model: 'm',
    temperature: 0,
    tools: [],
    messages: [
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'I need a tool',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: '1' },
    ],
  });
  const all = toRequest([], {
    model: 'm',
    system: 's',
    temperature: '1.5',
    topP: '0.9',
    maxTokens: '7',
    seed: '3',
    effort: 'low',
    tools: 'broken',
  });
  assert.deepEqual(all, {
    model: 'm',
    messages: [{ role: 'system', content: 's' }],
    temperature: 1.5,
    top_p: 0.9,
    max_completion_tokens: 7,
    seed: 3,
    reasoning_effort: 'low',
  });
  assert.equal(toolsProblem('[]') + toolsProblem(' '), '');
  assert.equal(toolsProblem('{}'), 'list');
  assert.match(toolsProblem('[1'), /JSON/);
});

test('the speed counts from the first token, and for a burst of tokens from the request', () => {
  assert.equal(speed({ usage: { completion_tokens: 11 }, pieces: 3, firstMs: 100, lastMs: 1100 }), 10);
  assert.equal(speed({ usage: null, pieces: 10, firstMs: 990, lastMs: 1000 }), 10);
  assert.equal(speed({ usage: null, pieces: 1, firstMs: 10, lastMs: 10 }), null);
  assert.equal(speed({ usage: null, pieces: 0, firstMs: null, lastMs: null }), null);
});

test('conversations survive a broken, a full and a missing storage', () => {
  const make = (storage) => {
    Object.defineProperty(globalThis, 'localStorage', { value: storage, configurable: true });
    return openChats('me');
  };
  const chat = (id) => ({ id, title: id, model: 'm', at: 0, messages: [{ role: 'user', content: 'x'.repeat(1000) }] });
  for (const text of ['{', '{}', '[null, {"id": 1}, {"id": "a", "title": "t", "messages": [{}]}]', '"x"'])
    assert.deepEqual(make({ getItem: () => text, setItem: () => {} }).list(), [], text);
  let kept = '';
  const small = make({
    getItem: () => null,
    setItem: (_, text) => {
      if (text.length > 5000) throw new Error('QuotaExceededError');
      kept = text;
    },
  });
  for (let i = 0; i < 9; i++) small.put(chat(`c${i}`));
  assert.deepEqual(
    JSON.parse(kept).map((c) => c.id),
    ['c8', 'c7', 'c6', 'c5'],
    'the oldest made room',
  );
  const none = make(undefined);
  none.put(chat('only'));
  assert.equal(none.list().length, 1);
  assert.deepEqual(none.settings(), noSettings);
});

test('usage rows of any keys and models become stacked series and sums', () => {
  const row = (time, key, model, requests, prompt) => ({
    time,
    key,
    model,
    requests,
    prompt_tokens: prompt,
    completion_tokens: prompt / 2,
    cached_tokens: 0,
  });
  const rows = [
    row(7200, 'a', 'm', 1, 10),
    row(7200, 'b', 'm', 2, 2),
    row(10800, 'a', 'n', 4, 100),
    row(999999, 'a', 'n', 9, 0),
  ];
  assert.deepEqual(stackedBy(rows, [3600, 7200, 10800], 3600, 'key', 'prompt'), [
    { name: 'a', values: [0, 10, 100], sum: 110 },
    { name: 'b', values: [0, 2, 0], sum: 2 },
  ]);
  assert.deepEqual(
    stackedBy(rows, [3600, 7200, 10800], 3600, 'model', 'requests').map((g) => [g.name, g.values]),
    [
      ['n', [0, 0, 4]],
      ['m', [0, 3, 0]],
    ],
  );
  const many = Array.from({ length: 9 }, (_, i) => row(3600, `k${i}`, 'm', 9 - i, 0));
  const stacked = stackedBy(many, [3600], 3600, 'key', 'requests');
  assert.deepEqual([stacked.length, stacked.at(-1).sum], [6, 4 + 3 + 2 + 1], 'the rest is one series');
  assert.deepEqual(
    sumsBy(rows.slice(0, 3), 'key').map((r) => [r.name, r.requests, r.prompt, r.completion, r.cost]),
    [
      ['a', 5, 110, 55, null],
      ['b', 2, 2, 1, null],
    ],
  );
});

// ---- what the C code says, in the languages of the page ----

const source = (name) => readFileSync(path.join(ROOT, name), 'utf8');
const holes = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]);
const isJapanese = (text) => /[\u3040-\u30ff\u4e00-\u9fff]/.test(text);

test('every error that the page shows has a Japanese text, with no hole that its sentence does not have', () => {
  const codes = Object.keys(reasons.en);
  assert.deepEqual(Object.keys(en.reasons), codes);
  assert.ok(codes.length > 60, `only ${codes.length} reasons were found`);
  for (const code of codes) {
    const [pattern, text] = [reasons.en[code], ja.reasons[code]];
    for (const hole of holes(en.reasons[code])) assert.ok(holes(pattern).includes(hole), `reasons.${code}: {${hole}}`);
    for (const hole of holes(text)) assert.ok(holes(pattern).includes(hole), `reasons.${code}: {${hole}}`);
    assert.ok(isJapanese(text), `reasons.${code} is not Japanese: ${text}`);
  }
});

test('alerts, steps, errors and states of texts have Japanese words', () => {
  const names = (file, map) =>
    [
      ...source(file)
        .split(`#define ${map}`)[1]
        .split(/\n\n/)[0]
        .matchAll(/X\(\w+,\s*"(\w+)"/g),
    ].map((m) => m[1]);
  const journal = 'src/router/relay/journal.h';
  const kinds = [...source('src/router/fleet/alerts.h').matchAll(/X\([A-Z_]+,\s*"(\w+)",\s*"/g)].map((m) => m[1]);
  const codes = ['include/llm-router/status.h', 'src/base/fail.h']
    .flatMap((f) => [...source(f).matchAll(/^\s*X\(([A-Z_]+),\s*\d+,/gm)].map((m) => m[1].toLowerCase()))
    .filter((c) => c !== 'ok')
    .map((c) => ({ unauthenticated: 'invalid_api_key', rate_limited: 'rate_limit_exceeded' })[c] ?? c);
  const wanted = [
    ...kinds.flatMap((k) => [`overview:kind.${k}`, `overview:advice.${k}`]),
    ...names(journal, 'ROUTER_STEP_MAP').flatMap((s) => [`requests:step_${s}`, `requests:phase_${s}`]),
    ...names(journal, 'ROUTER_TEXTS_MAP').map((s) => `requests:texts_${s}`),
    ...codes.map((c) => `requests:error_${c}`),
  ];
  assert.ok(kinds.length > 15 && codes.length > 12 && wanted.length > 70, String(wanted.length));
  for (const key of wanted) {
    const [page, name] = key.split(':');
    assert.ok(isJapanese(ja[page][name] ?? ''), `${key} has no Japanese text`);
  }
});
