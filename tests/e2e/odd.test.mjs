// Unusual but legal requests: OpenAI's client with every parameter, and HTTP as other clients
// use it.  Each parameter is honoured, ignored and named in a header, or refused with a 400 that
// names it; none leads to a 5xx, and none is silently ignored.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import OpenAI from 'openai';
import { call, DEMO, say, startUp, until } from './support.mjs';

let up, client;
before(async () => {
  up = await startUp({ args: ['--model', DEMO] });
  client = new OpenAI({ baseURL: `${up.url}/v1`, apiKey: 'x', maxRetries: 0 }); // made up: it counts as none
});
after(() => up?.stop());

const question = [{ role: 'user', content: 'What is the capital of Japan?' }];
const tool = {
  type: 'function',
  function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
};
const chat = (body, options) =>
  client.chat.completions.create({ model: 'demo', messages: question, temperature: 0, ...body }, options);
const TOKYO = 'The capital of Japan is Tokyo.';
const says = (text) => (answer) => assert.equal(answer.choices[0].message.content, text);

const honoured = {
  'n answers': [
    { n: 3 },
    (a) =>
      assert.deepEqual(
        a.choices.map((c) => [c.index, c.message.content]),
        [
          [0, TOKYO],
          [1, TOKYO],
          [2, TOKYO],
        ],
      ),
  ],
  'a stop string': [{ stop: ' Japan' }, says('The capital of')],
  'four of them': [{ stop: ['x y', 'Tokyo', ' is', 'q'] }, says('The capital of Japan')],
  'no stop': [{ stop: null }, says(TOKYO)],
  'an empty list of stops': [{ stop: [] }, says(TOKYO)],
  'log probabilities': [
    { logprobs: true, top_logprobs: 2 },
    ({
      choices: [
        {
          logprobs: { content },
        },
      ],
    }) => {
      assert.ok(content.length >= 5);
      for (const t of content)
        assert.ok(
          t.top_logprobs.length === 2 &&
            t.logprob <= 0 &&
            t.top_logprobs[0].logprob >= t.top_logprobs[1].logprob &&
            Buffer.from(t.bytes).toString() === t.token,
          JSON.stringify(t),
        );
    },
  ],
  'a seed': [{ seed: 42 }, says(TOKYO)],
  'a negative seed': [{ seed: -1 }, says(TOKYO)],
  'a response format of text': [{ response_format: { type: 'text' } }, says(TOKYO)],
  'tool_choice auto': [{ tools: [tool], tool_choice: 'auto' }, says(TOKYO)],
  'no tools': [{ tools: [] }, says(TOKYO)],
  'tool_choice none': [
    { tools: [tool], tool_choice: 'none', ...say('What is the weather in Paris?') },
    (a) => assert.equal(a.choices[0].message.tool_calls, undefined),
  ],
  'one call at a time': [
    { tools: [tool], parallel_tool_calls: false, ...say('What is the weather in Paris?') },
    (a) => assert.equal(a.choices[0].message.tool_calls.length, 1),
  ],
  'one token': [
    { max_completion_tokens: 1 },
    (a) => assert.deepEqual([a.choices[0].finish_reason, a.usage.completion_tokens], ['length', 1]),
  ],
  'more tokens than there is room': [{ max_completion_tokens: 2000000000 }, says(TOKYO)],
  'a developer message': [{ messages: [{ role: 'developer', content: 'Be brief.' }, ...question] }, says(TOKYO)],
  'a system message of parts': [
    {
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
        { role: 'user', name: 'ann', content: [{ type: 'text', text: question[0].content }] },
      ],
    },
    says(TOKYO),
  ],
  'its own answer again': [
    {
      messages: [
        ...question,
        {
          role: 'assistant',
          content: TOKYO,
          refusal: null,
          annotations: [],
          audio: null,
          tool_calls: null,
          function_call: null,
          reasoning_content: 'x',
        },
        ...question,
      ],
    },
    says(TOKYO),
  ],
  'user, metadata and their like': [
    {
      user: 'u',
      metadata: { a: 'b' },
      safety_identifier: 's',
      prompt_cache_key: 'k',
      service_tier: 'auto',
      store: false,
      modalities: ['text'],
      prediction: { type: 'content', content: TOKYO },
      verbosity: 'medium',
    },
    says(TOKYO),
  ],
  'penalties and a bias': [
    { presence_penalty: 0, frequency_penalty: 0, logit_bias: { 50: -100 }, top_p: 1 },
    says(TOKYO),
  ],
  'reasoning effort': [{ reasoning_effort: 'low' }, says(TOKYO)],
  'an effort that is nearest to low': [{ reasoning_effort: 'minimal', verbosity: 'low' }, says(TOKYO)],
  'null everywhere': [{ n: null, max_tokens: null, tools: null, logprobs: null, user: null }, says(TOKYO)],
};

test('supported parameters are honoured', async () => {
  for (const [what, [body, check]] of Object.entries(honoured)) {
    const answer = await chat(body).catch((error) => assert.fail(`${what}: ${error.message}`));
    try {
      check(answer);
    } catch (error) {
      error.message = `${what}: ${error.message} ${JSON.stringify(answer)}`;
      throw error;
    }
  }
});

const image = {
  role: 'user',
  content: [
    { type: 'text', text: 'hi' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
  ],
};
test('a logit_bias of a token that the model does not have is a 400 that names it', async () => {
  for (const [at, more] of [
    ['/v1/chat/completions', say('x')],
    ['/v1/completions', { prompt: 'x' }],
  ]) {
    const ask = (logit_bias) => call(`${up.url}${at}`, { body: { model: 'demo', max_tokens: 2, logit_bias, ...more } });
    const { status, json } = await ask({ 5: 1, 999999999: 1 });
    assert.equal(status, 400, at);
    assert.match(json.error.message, /logit_bias: token 999999999 is beyond the vocabulary of \d+/);
    assert.equal((await ask({ 5: 1 })).status, 200, at);
  }
});

const refused = [
  [{ n: 0 }, 'n'],
  [{ n: 129 }, 'n'],
  [{ n: 1.5 }, 'n'],
  [{ stop: '' }, 'stop'],
  [{ stop: [7] }, 'stop[0]'],
  [{ logprobs: true, top_logprobs: 21 }, 'top_logprobs'],
  [{ top_logprobs: 1 }, 'top_logprobs'],
  [{ seed: 'x' }, 'seed'],
  [{ response_format: { type: 'grammar' } }, 'response_format.type'],
  [{ response_format: { type: 'json_schema', json_schema: { schema: {} } } }, 'response_format.json_schema.name'],
  [{ response_format: 'json' }, 'response_format'],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { not: {} } } } },
    'response_format.json_schema.schema',
  ],
  [{ tool_choice: 'required' }, 'tool_choice'],
  [{ tools: [tool], tool_choice: { type: 'function', function: { name: 'other' } } }, 'tool_choice.function.name'],
  [
    { tools: [tool], tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } } },
    'tool_choice.type',
  ],
  [{ tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools[0].type'],
  [{ tools: [{ type: 'web_search' }] }, 'tools[0].type'],
  [{ tools: [tool, tool] }, 'tools[1].function.name'],
  [{ functions: [] }, 'functions'],
  [{ function_call: 'auto' }, 'function_call'],
  [{ max_completion_tokens: 0 }, 'max_completion_tokens'],
  [{ max_completion_tokens: 1e12 }, 'max_completion_tokens'],
  [{ messages: [] }, 'messages'],
  [{ messages: undefined }, 'messages'],
  [{ messages: [{ role: 'user', content: null }] }, 'messages[0].content'],
  [{ messages: [{ role: 'wizard', content: 'x' }] }, 'messages[0].role'],
  [{ messages: [{ role: 'function', name: 'f', content: 'x' }] }, 'messages[0].role'],
  [{ messages: [...question, { role: 'tool', content: 'x' }] }, 'messages[1].tool_call_id'],
  [{ messages: [image] }, 'messages[0].content[1]'],
  [
    { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: '', format: 'wav' } }] }] },
    'messages[0].content[0]',
  ],
  [{ messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'x' } }] }] }, 'messages[0].content[0]'],
  [{ stream_options: { include_usage: true } }, 'stream_options'],
  [{ user: 7 }, 'user'],
  [{ temperature: 2.1 }, 'temperature'],
  [{ temperature: 'hot' }, 'temperature'],
  [{ top_p: -0.1 }, 'top_p'],
  [{ presence_penalty: 2.5 }, 'presence_penalty'],
  [{ logit_bias: { x: 1 } }, 'logit_bias'],
  [{ logit_bias: { 5: 101 } }, 'logit_bias.5'],
  [{ reasoning_effort: 'extreme' }, 'reasoning_effort'],
  [{ modalities: ['text', 'audio'] }, 'modalities'],
  [{ audio: { voice: 'x', format: 'wav' } }, 'audio'],
  [{ verbosity: 'endless' }, 'verbosity'],
  [{ web_search_options: {} }, 'web_search_options'],
  [{ model: undefined }, 'model'],
  [{ model: 5 }, 'model'],
  [{ stream: 'yes' }, 'stream'],
];

const strictly = [
  [{ stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop'],
  [{ max_tokens: -1 }, 'max_tokens'],
  [{ max_tokens: 5, max_completion_tokens: 6 }, 'max_tokens'],
  [{ no_such_thing: 1 }, 'no_such_thing'],
  [{ service_tier: 'flex' }, 'service_tier'],
  [{ messages: [image, ...question] }, 'messages[0].content[1]'],
];
const strict = { headers: { Prefer: 'handling=strict' } };

test('an unsupported parameter is a 400 that names it, as a typed exception', async () => {
  for (const [body, param, options] of [...refused, ...strictly.map((row) => [...row, strict])]) {
    const error = await chat(body, options).then(
      (a) => assert.fail(`${JSON.stringify(body)} was taken: ${JSON.stringify(a)}`),
      (e) => e,
    );
    assert.ok(error instanceof OpenAI.BadRequestError, `${JSON.stringify(body)}: ${error}`);
    assert.equal(error.param, param, `${JSON.stringify(body)}: ${error.message}`);
    assert.ok(error.code && error.type === 'invalid_request_error' && error.requestID, error.message);
  }
});

test('errors have the types and codes that clients look for', async () => {
  const unknown = await chat({ model: 'nobody/knows' }).catch((e) => e);
  assert.deepEqual([unknown.status, unknown.code, unknown.param], [404, 'model_not_found', 'model']);
  const long = await chat({ messages: [{ role: 'user', content: 'word '.repeat(60000) }] }).catch((e) => e);
  assert.deepEqual([long.status, long.code, long.param], [400, 'context_length_exceeded', 'messages']);
  assert.match(
    long.error.message,
    /^This model's maximum context length is 32768 tokens\. However, the prompt has 60\d\d\d tokens/,
  );
  const revoked = (await call(`${up.url}/v0/keys`, { body: {} })).json;
  await call(`${up.url}/v0/keys/${revoked.id}`, { method: 'DELETE' });
  const wrong = await new OpenAI({ baseURL: `${up.url}/v1`, apiKey: revoked.key, maxRetries: 0 }).models
    .list()
    .catch((e) => e);
  assert.deepEqual([wrong.status, wrong.code], [401, 'invalid_api_key']);
  const { key } = (await call(`${up.url}/v0/keys`, { body: { requests_per_minute: 1 } })).json;
  const slow = new OpenAI({ baseURL: `${up.url}/v1`, apiKey: key, maxRetries: 0 });
  await slow.chat.completions.create({ model: 'demo', messages: question, max_tokens: 1 });
  const limited = await slow.chat.completions.create({ model: 'demo', messages: question }).catch((e) => e);
  assert.ok(limited instanceof OpenAI.RateLimitError && Number(limited.headers.get('retry-after')) >= 1);
  assert.equal(limited.code, 'rate_limit_exceeded');
  assert.match(limited.error.message, /^Rate limit reached: .* try again in \d+ s/);
});

test('completions: every form of a prompt, and a 400 for an invalid prompt', async () => {
  const ask = (body) => client.completions.create({ model: 'demo', max_tokens: 2, temperature: 0, ...body });
  for (const [prompt, n, choices] of [
    ['Hello', 1, 1],
    [['Hello', 'World'], 1, 2],
    [['Hello', 'World'], 2, 4],
    [[1, 2, 3], 1, 1],
    [[[1, 2], [3]], 1, 2],
  ]) {
    const answer = await ask({ prompt, n });
    assert.deepEqual(
      answer.choices.map((c) => c.index),
      [...Array(choices).keys()],
      JSON.stringify(prompt),
    );
    assert.equal(answer.object, 'text_completion');
  }
  for (const [body, param] of [
    [{ prompt: '' }, 'prompt'],
    [{ prompt: [] }, 'prompt'],
    [{ prompt: [1.5] }, 'prompt'],
    [{ prompt: [-1] }, 'prompt'],
    [{ prompt: undefined }, 'prompt'],
    [{ prompt: Array(129).fill('a') }, 'prompt'],
    [{ prompt: 'a', echo: true }, 'echo'],
    [{ prompt: 'a', best_of: 3 }, 'best_of'],
    [{ prompt: 'a', suffix: 'b' }, 'suffix'],
  ]) {
    const error = await ask(body).then(
      () => assert.fail(`${JSON.stringify(body)} was taken`),
      (e) => e,
    );
    assert.deepEqual([error.status, error.param], [400, param], error.message);
  }
});

// ---- HTTP as others speak it ----

const BODY = JSON.stringify({ model: 'demo', messages: question, temperature: 0 });
const HEAD = 'Host: localhost\r\nContent-Type: application/json\r\n';

// Sends the parts one after the other and reads until the server closes.
const raw = (...parts) =>
  new Promise((done, fail) => {
    const socket = net.connect(Number(new URL(up.url).port), '127.0.0.1');
    let text = '';
    socket.on('data', (data) => {
      text += data;
    });
    socket.on('error', fail);
    socket.on('close', () => done(text));
    (async () => {
      for (const part of parts) {
        if (typeof part === 'function') await until('the server has answered', () => part(text));
        else socket.write(part);
      }
    })().catch(fail);
  });
const post = (more, body = BODY, version = '1.1') =>
  `POST /v1/chat/completions HTTP/${version}\r\n${HEAD}${more}\r\n${body}`;
const length = (body) => `Content-Length: ${Buffer.byteLength(body)}\r\n`;
const status = (text) => Number(text.match(/^HTTP\/1\.1 (\d+)/)?.[1]);

test('HTTP/1.0: a whole answer, and a stream that ends with the connection', async () => {
  const whole = await raw(post(length(BODY), BODY, '1.0'));
  assert.equal(status(whole), 200);
  assert.match(whole, /Tokyo/);
  const streamed = BODY.replace('}]', '}],"stream":true');
  const text = await raw(post(length(streamed), streamed, '1.0'));
  assert.doesNotMatch(text, /transfer-encoding/i);
  assert.ok(text.endsWith('data: [DONE]\n\n'));
  const names = text
    .split('\r\n\r\n')[0]
    .split('\r\n')
    .slice(1)
    .map((line) => line.split(':')[0].toLowerCase());
  assert.equal(new Set(names).size, names.length, `a header twice: ${names}`);
});

test('chunked, expecting 100-continue, pipelined: each is answered', async () => {
  const chunks = [...BODY].map((c) => `1\r\n${c}\r\n`).join('') + '0\r\n\r\n';
  assert.match(await raw(post('Connection: close\r\nTransfer-Encoding: chunked\r\n', chunks)), /Tokyo/);
  const expected = await raw(
    post(`Connection: close\r\nExpect: 100-continue\r\n${length(BODY)}`, ''),
    (text) => text.startsWith('HTTP/1.1 100 Continue\r\n\r\n'),
    BODY,
  );
  assert.match(expected, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK[^]*Tokyo/);
  const never = await raw(`POST /nowhere HTTP/1.1\r\n${HEAD}Expect: 100-continue\r\nContent-Length: 10\r\n\r\n`);
  assert.equal(status(never), 404, 'no word to go on');
  const three = await raw(
    `GET /health HTTP/1.1\r\n${HEAD}\r\n${post(length(BODY))}HEAD /v1/models HTTP/1.1\r\n${HEAD}Connection: close\r\n\r\n`,
  );
  assert.match(three, /"nodes_online"[^]*Tokyo[^]*Content-Length: \d+\r\n[^{]*$/);
});

test('a compressed body is 415 with a suggested fix', async () => {
  const packed = gzipSync(BODY);
  const answer = await call(`${up.url}/v1/chat/completions`, {
    method: 'POST',
    raw: packed,
    headers: { 'content-encoding': 'gzip' },
  });
  assert.equal(answer.status, 415);
  assert.match(answer.json.error.message, /Content-Encoding "gzip" is not supported: send the body as it is/);
  assert.equal(
    (
      await call(`${up.url}/v1/chat/completions`, {
        method: 'POST',
        raw: BODY,
        headers: { 'content-encoding': 'identity' },
      })
    ).status,
    200,
  );
});

test('another method is 405 and lists the allowed methods; OPTIONS lists them, too; HEAD is GET without a body', async () => {
  for (const [method, at, allow] of [
    ['PUT', '/v0/keys', 'GET, HEAD, POST, OPTIONS'],
    ['GET', '/v1/chat/completions', 'POST, OPTIONS'],
    ['POST', '/v1/models', 'GET, HEAD, OPTIONS'],
    ['GET', '/v0/keys/x', 'PATCH, DELETE, OPTIONS'],
  ]) {
    const answer = await call(`${up.url}${at}`, { method });
    assert.deepEqual([answer.status, answer.headers.get('allow')], [405, allow], `${method} ${at}`);
    const options = await call(`${up.url}${at}`, { method: 'OPTIONS' });
    assert.deepEqual([options.status, options.headers.get('allow'), options.text], [204, allow, '']);
  }
  assert.equal((await call(`${up.url}/nowhere`, { method: 'OPTIONS' })).status, 404);
  const head = await call(`${up.url}/v1/models`, { method: 'HEAD' });
  assert.deepEqual([head.status, head.text], [200, '']);
  assert.ok(Number(head.headers.get('content-length')) > 50);
});

test('heads that are too large, ambiguous or another protocol are refused, and the next client is served', async () => {
  const long = 'a'.repeat(200000);
  for (const [text, want] of [
    [`GET /health HTTP/1.1\r\n${HEAD}X: ${long}\r\n\r\n`, 431],
    [`GET /${long} HTTP/1.1\r\n${HEAD}\r\n`, 431],
    [`GET /health HTTP/1.1\r\n${HEAD}${'X: a\r\n'.repeat(5000)}\r\n`, 431],
    [post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'), 400],
    [post('Content-Length: 5\r\nContent-Length: 6\r\n', 'abcde'), 400],
    [post('Content-Length: -5\r\n', ''), 400],
    ['GET /health HTTP/1.1\r\n\r\n', 400],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505],
    ['CONNECT example.com:443 HTTP/1.1\r\nHost: localhost\r\n\r\n', 501],
    ['\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n', 400],
    [post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'), 501],
  ])
    assert.equal(status(await raw(text)), want, text.slice(0, 60));
  assert.equal((await call(`${up.url}/health`)).status, 200);
});
