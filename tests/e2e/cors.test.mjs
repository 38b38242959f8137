// Web pages of other origins: those the operator named use /v1 from a browser, with a key or
// on loopback without; all other origins, and all routes but /v1, are refused.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { startBrowser } from './browser.mjs';
import { call, cli, makeEcho, online, register, say, startNode, startRouter, tempDir, until } from './support.mjs';

const left = [];
let open, locked, key, browser, good, evil;

// A server of pages; its origin is what browsers tell.
async function pages() {
  const server = http.createServer((_, res) => {
    res.setHeader('content-type', 'text/html');
    res.end('<!doctype html><title>page</title><h1>page</h1>');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  left.push({
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  });
  return `http://127.0.0.1:${server.address().port}`;
}

before(async () => {
  good = await pages();
  evil = await pages();
  const args = ['--allow-cpu-nodes', '--cors-origin', good, '--cors-origin', 'https://app.example'];
  open = await startRouter({ args });
  locked = await startRouter({ args: [...args, '--require-key'] });
  left.push(open, locked);
  for (const router of [open, locked]) {
    left.push(await startNode(router, { args: ['--model', makeEcho('echo')] }));
    await until('the node is online', async () => (await online(router)) === 1);
    await register(router, 'echo');
  }
  key = (await call(`${locked.url}/v0/keys`, { key: locked.adminKey, body: { name: 'web' } })).json.key;
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
});

// What a script in a page at `origin` gets: [status, text], or the name of what the browser threw.
async function fromPage(origin, url, { body, key: bearer, method } = {}) {
  const page = await browser.open(origin);
  try {
    return await page.evaluate(
      async ([at, text, token, how]) => {
        try {
          const answer = await fetch(at, {
            method: how ?? (text ? 'POST' : 'GET'),
            body: text,
            headers: {
              ...(text ? { 'Content-Type': 'application/json', 'X-Stainless-Lang': 'js' } : {}),
              ...(token ? { Authorization: `Bearer ${token}` } : {}),
            },
          });
          return [answer.status, await answer.text(), answer.headers.get('x-request-id') !== null];
        } catch (error) {
          return error.name;
        }
      },
      [url, body ? JSON.stringify(body) : undefined, bearer, method],
    );
  } finally {
    await page.context().close();
  }
}

const ask = { model: 'echo', stream: true, ...say('from a page') };

test('a page of a named origin streams an answer, with a key and on loopback without', async () => {
  for (const [router, bearer] of [[open], [locked, key]]) {
    const [status, text, hasId] = await fromPage(good, `${router.url}/v1/chat/completions`, { body: ask, key: bearer });
    assert.equal(status, 200, text);
    assert.ok(text.endsWith('data: [DONE]\n\n') && hasId, text);
    assert.equal((await fromPage(good, `${router.url}/v1/models`, { key: bearer }))[0], 200);
  }
  assert.equal(
    (await fromPage(good, `${locked.url}/v1/models`, { key: 'lr-wrong' }))[0],
    401,
    'errors can be read, too',
  );
});

test('a page of another origin is refused, also with a key', async () => {
  const counted = async () => (await call(`${open.url}/metrics`)).text.match(/^llm_router_generations_total (\d+)/m)[1];
  const before = await counted();
  assert.equal(await fromPage(evil, `${open.url}/v1/chat/completions`, { body: ask }), 'TypeError');
  assert.equal(await fromPage(evil, `${locked.url}/v1/chat/completions`, { body: ask, key }), 'TypeError');
  assert.equal(await fromPage(evil, `${open.url}/v1/models`), 'TypeError');
  assert.equal(await counted(), before, 'nothing ran');
});

test('on other routes than /v1 a named origin has no rights', async () => {
  for (const at of ['/v0/keys', '/v0/models', '/metrics'])
    assert.equal(await fromPage(good, `${locked.url}${at}`, { key: locked.adminKey }), 'TypeError', at);
  assert.equal(await fromPage(good, `${open.url}/v0/keys`, { body: { name: 'mine' } }), 'TypeError');
  assert.deepEqual(
    (await call(`${open.url}/v0/keys`)).json.keys.filter((k) => k.name === 'mine'),
    [],
  );
});

test('the CORS headers allow no more than needed', async () => {
  const preflight = (origin, at = '/v1/chat/completions') =>
    call(`${locked.url}${at}`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type',
      },
    });
  const yes = await preflight('https://app.example');
  assert.equal(yes.status, 204);
  assert.deepEqual(
    ['origin', 'methods', 'headers', 'credentials'].map((n) => yes.headers.get(`access-control-allow-${n}`)),
    ['https://app.example', 'POST, OPTIONS', 'authorization,content-type', null],
  );
  assert.match(yes.headers.get('vary'), /Origin/);
  for (const origin of [
    'https://app.example.evil.com',
    'http://app.example',
    'https://app.example:8443',
    'null',
    'https://evil.example',
  ])
    assert.equal((await preflight(origin)).headers.get('access-control-allow-origin'), null, origin);
  assert.equal((await preflight('https://app.example', '/v0/keys')).headers.get('access-control-allow-origin'), null);
});

test('the origin * needs keys, and a malformed origin is refused at the start', async () => {
  for (const [origin, message] of [
    ['*', /every web page.*--require-key/],
    ['app.example', /is no origin: write https/],
    ['https://app.example/path', /is no origin/],
    ['https://', /is no origin/],
  ])
    await assert.rejects(
      cli(['router', '--listen', '127.0.0.1:0', '--data-dir', tempDir('r'), '--cors-origin', origin]),
      message,
    );
  const any = await startRouter({ args: ['--require-key', '--cors-origin', '*'] });
  left.push(any);
  assert.equal(
    (await call(`${any.url}/v1/models`, { key: any.adminKey, headers: { origin: 'https://x.example' } })).headers.get(
      'access-control-allow-origin',
    ),
    'https://x.example',
  );
});
