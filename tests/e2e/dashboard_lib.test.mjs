// The dashboard's parts without a view: streams, quoting for a shell, requests, usage.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { EventParser, speed } from '../../dashboard/lib/chat.js';
import { shellQuote, snippets, toCurl } from '../../dashboard/lib/chat_snippets.js';
import { noSettings, openChats, toolsProblem, toRequest } from '../../dashboard/lib/chats.js';
import { byKey, toColumns } from '../../dashboard/pages/usage.js';

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

test('usage rows of any keys and models become columns by slot and sums by key', () => {
  const rows = [
    { time: 7200, key: 'a', model: 'm', requests: 1, prompt_tokens: 10, completion_tokens: 5, cached_tokens: 2 },
    { time: 7200, key: 'b', model: 'm', requests: 2, prompt_tokens: 1, completion_tokens: 1, cached_tokens: 0 },
    { time: 10800, key: 'a', model: 'n', requests: 4, prompt_tokens: 100, completion_tokens: 50, cached_tokens: 0 },
    { time: 999999, key: 'a', model: 'n', requests: 9, prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0 },
  ];
  assert.deepEqual(toColumns(rows, [3600, 7200, 10800], 3600), {
    requests: [0, 3, 4],
    prompt: [0, 11, 100],
    completion: [0, 6, 50],
  });
  assert.deepEqual(
    byKey(rows.slice(0, 3)).map((r) => [r.key, r.requests, r.prompt, r.completion, r.cached]),
    [
      ['a', 5, 110, 55, 2],
      ['b', 2, 1, 1, 0],
    ],
  );
});
