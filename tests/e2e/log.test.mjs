// The log: one line per event, an access line per request, and never the text of prompts or answers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, launch, makeEcho, say, stream, tempDir, until } from './support.mjs';

let up;
before(async () => {
  up = await launch(
    [
      'up',
      '--listen',
      '127.0.0.1:0',
      '--device',
      'cpu',
      '--no-hf-cache',
      '--data-dir',
      tempDir('log'),
      '--model',
      makeEcho('talk'),
      '--log-format',
      'json',
      '--log-level',
      'debug',
    ],
    { match: /is ready at (http:\/\/\S+)/ },
  );
  up.url = up.found[1];
});
after(() => up?.stop());

const lines = () =>
  up.log
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

test('a request has one access line with key, route, duration and tokens, under the id that the client got', async () => {
  const key = (await call(`${up.url}/v0/keys`, { body: { name: 'k' } })).json;
  const answer = await call(`${up.url}/v1/chat/completions`, { body: { model: 'talk', ...say('x') }, key: key.key });
  const id = answer.headers.get('x-request-id');
  const line = await until('it is logged', () =>
    lines().find((l) => JSON.stringify(l).includes(id) && JSON.stringify(l).includes('http.request')),
  );
  const text = JSON.stringify(line);
  for (const part of [
    'POST',
    '/v1/chat/completions',
    '200',
    key.id,
    'talk',
    (await call(`${up.url}/v0/nodes`)).json.nodes[0].id,
  ])
    assert.ok(text.includes(part), `${part} in ${text}`);
  assert.equal(
    lines().filter((l) => JSON.stringify(l).includes(id) && JSON.stringify(l).includes('http.request')).length,
    1,
  );
});

test('neither prompts nor answers nor keys are ever logged, also at debug level, also when something fails', async () => {
  const secret = 'xyzzy-plugh';
  const key = (await call(`${up.url}/v0/keys`, { body: { name: 'k' } })).json.key;
  await stream(up.url, { model: 'talk', ...say(secret) }, { key });
  await call(`${up.url}/v1/completions`, { body: { model: 'talk', prompt: secret, max_tokens: 4 }, key });
  await call(`${up.url}/v1/chat/completions`, { body: { model: 'nobody', ...say(secret) }, key });
  await call(`${up.url}/v1/chat/completions`, { body: { model: 'talk', temperature: secret, ...say(secret) }, key });
  await call(`${up.url}/v1/chat/completions`, {
    raw: `{"model":"talk","messages":[{"role":"user","content":"${secret}`,
    key,
  });
  await call(`${up.url}/v1/models/after-all`);
  await until('all is logged', () => up.log.includes('after-all'));
  assert.doesNotMatch(up.log, new RegExp(secret));
  assert.doesNotMatch(up.log, new RegExp(key));
  assert.doesNotMatch(up.log, /Bearer/);
});
