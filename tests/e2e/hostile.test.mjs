// Hostile input: URLs that point to internal addresses, paths that leave their folder, JSON that is
// none.  Each gets a clear 4xx, and nothing changes.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { startHub } from '../support/hub.mjs';
import { call, makeEcho, online, register, ROOT, startNode, startRouter, tempDir, until } from './support.mjs';

const left = [];
let router, hub, victim, token;
const hits = [];

before(async () => {
  hub = await startHub();
  victim = http.createServer((req, res) => {
    hits.push(req.url);
    res.end('{}');
  });
  await new Promise((done) => victim.listen(0, '127.0.0.1', done));
  router = await startRouter({
    args: ['--allow-cpu-nodes', '--hub-host', hub.storage],
    env: { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') },
  });
  left.push(router, await startNode(router, { args: ['--model', makeEcho('kept')] }));
  await until('the node is online', async () => (await online(router)) === 1);
  await register(router, 'kept');
  await call(`${router.url}/v0/keys`, { body: { name: 'kept' } });
  token = (await call(`${router.url}/v0/nodes/tokens`, { body: {} })).json.key;
  // Two tokens, the node, the model and the key.
  await until('all is written', async () => (await call(`${router.url}/v0/audit`)).json.audit.length >= 5);
});
after(async () => {
  await Promise.all(left.map((p) => p.stop('SIGKILL')));
  victim?.closeAllConnections();
  victim?.close();
  await hub?.close();
});

// All that an attack could change.
async function state() {
  const get = async (at) => (await call(`${router.url}${at}`)).json;
  return JSON.stringify({
    keys: (await get('/v0/keys')).keys.map((k) => [k.id, k.name, k.role, k.revoked]),
    models: (await get('/v0/models')).models.map((m) => m.id),
    registry: (await get('/v0/models/registry')).version,
    nodes: (await get('/v0/nodes')).nodes.map((n) => [
      n.id,
      n.name,
      n.url,
      n.drained,
      n.online,
      n.models.map((m) => m.id),
    ]),
    audit: (await get('/v0/audit')).audit.length,
    requests: (await get('/v0/usage')).usage.length,
  });
}

async function unchanged(what, attack) {
  const before = await state();
  await attack();
  assert.equal(await state(), before, what);
  assert.deepEqual(hits, [], 'nobody was sent inside');
}

function refused(answer, what) {
  assert.ok(answer.status >= 400 && answer.status < 500, `${what}: ${answer.status} ${answer.text}`);
  assert.ok(answer.json?.error?.message?.length > 5, `${what}: ${answer.text}`);
}

const inside = () => {
  const { port } = victim.address();
  return [
    `http://127.0.0.1:${port}/a/b`,
    `http://localhost:${port}/a/b`,
    `http://2130706433:${port}/a/b`,
    `http://0x7f000001:${port}/a/b`,
    `http://0x7f.1:${port}/a/b`,
    `http://017700000001:${port}/a/b`,
    `http://0177.0.0.1:${port}/a/b`,
    `http://127.1:${port}/a/b`,
    `http://[::1]:${port}/a/b`,
    `http://[::ffff:127.0.0.1]:${port}/a/b`,
    `http://[::ffff:7f00:1]:${port}/a/b`,
    `http://[0:0:0:0:0:ffff:7f00:0001]:${port}/a/b`,
    `http://[64:ff9b::7f00:1]:${port}/a/b`,
    `http://0.0.0.0:${port}/a/b`,
    `http://[::]:${port}/a/b`,
    'http://169.254.169.254/latest/meta-data/',
    'http://[fd00:ec2::254]/latest/meta-data/',
    'http://100.100.100.200/latest/meta-data/',
    'http://10.0.0.1/a/b',
    'http://192.168.0.1/a/b',
    'http://metadata.google.internal/a/b',
    `http://huggingface.co@127.0.0.1:${port}/a/b`,
    `http://127.0.0.1:${port}#huggingface.co/a/b`,
    `https://huggingface.co.evil.example/a/b`,
    'file:///etc/passwd',
    'gopher://127.0.0.1:70/a/b',
    'ftp://127.0.0.1/a/b',
    `dict://127.0.0.1:${port}/a`,
    'ldap://127.0.0.1/a/b',
    'data:text/plain,a/b',
    `//127.0.0.1:${port}/a/b`,
    'javascript:alert(1)',
  ];
};

test('a repository URL never leads to an internal address, in any spelling or scheme', () =>
  unchanged('registration by address', async () => {
    for (const repo of inside())
      refused(await call(`${router.url}/v0/models/register`, { body: { repo, format: 'safetensors' } }), repo);
  }));

test('a redirect of the hub to an internal address is refused, in any spelling or scheme', () =>
  unchanged('redirected registration', async () => {
    hub.add('acme/bait', {
      'config.json': '{"architectures":["EchoForTesting"]}',
      'tokenizer.json': '{}',
      'model.safetensors': Buffer.alloc(16),
    });
    for (const target of inside()) {
      hub.script('config.json', [{ redirect: target }]);
      refused(await call(`${router.url}/v0/models/register`, { body: { repo: 'acme/bait' } }), target);
      hub.script('config.json', []);
    }
  }));

const paths = [
  '..',
  '../../../../etc/passwd',
  '%2e%2e',
  '%2e%2e%2f%2e%2e%2fetc%2fpasswd',
  '..%2f..%2fetc%2fpasswd',
  '....//....//etc/passwd',
  'a/../../../etc/passwd',
  '..%5c..%5cwindows',
  '..\\..\\etc',
  '%00',
  'a%00b',
  '/etc/passwd',
  '%2fetc%2fpasswd',
  'a%2fb%2fc%2fd',
  '%252e%252e%252fetc',
  '.',
  './..',
  'a%0d%0aX: y',
  '%c0%ae%c0%ae/',
  '%ff',
  '~root',
  'a b',
  '%',
  '%zz',
  '*',
];

// As it stands: fetch would resolve the dots itself.
const raw = (method, at) =>
  new Promise((done, fail) => {
    const { hostname, port } = new URL(router.url);
    const req = http.request(
      { hostname, port, path: at, method, headers: { 'content-type': 'application/json' } },
      async (res) => {
        let text = '';
        for await (const part of res) text += part;
        let json;
        try {
          json = JSON.parse(text);
        } catch {
          json = undefined;
        }
        done({ status: res.statusCode, text, json });
      },
    );
    req.on('error', fail);
    req.end(['POST', 'PATCH'].includes(method) ? '{}' : undefined);
  });

test('an id that is a path to another folder finds nothing, on every route that takes an id', () =>
  unchanged('path traversal', async () => {
    const page = fs.readFileSync(path.join(ROOT, 'docs/openapi.yaml'), 'utf8');
    const routes = page
      .split(/^ {2}(?=\/)/m)
      .slice(1)
      .flatMap((part) =>
        [...part.matchAll(/^ {4}(get|post|patch|delete):$/gm)].map(([, method]) => [
          method.toUpperCase(),
          part.match(/^\S+(?=:)/)[0],
        ]),
      )
      .filter(([, at]) => at.includes('{'));
    assert.ok(routes.length >= 12);
    for (const [method, at] of routes)
      for (const id of paths) {
        if (/[ \\]/.test(id)) continue; // no request line can hold them
        const answer = await raw(method, at.replace(/\{\w+\}/g, id));
        assert.ok(
          answer.status >= 400 && answer.status < 500,
          `${method} ${at} with ${id}: ${answer.status} ${answer.text.slice(0, 200)}`,
        );
        assert.doesNotMatch(answer.text, /root:/);
      }
  }));

test('a path or a name in a body cannot leave the models folder either', () =>
  unchanged('path traversal in bodies', async () => {
    for (const id of paths) {
      refused(await call(`${router.url}/v0/models/register`, { body: { path: id } }), `path ${id}`);
      refused(await call(`${router.url}/v0/models/register`, { body: { path: 'kept', name: id } }), `name ${id}`);
      refused(await call(`${router.url}/v0/models/register`, { body: { repo: id } }), `repo ${id}`);
      refused(
        await call(`${router.url}/v0/models/register`, { body: { repo: 'acme/bait', revision: id, filename: id } }),
        `revision ${id}`,
      );
      refused(
        await call(`${router.url}/v0/nodes/join`, {
          key: token,
          body: { protocol: 2, version: '0', node_id: id, name: 'n', device: 'cpu', secret: 's'.repeat(40), port: 1 },
        }),
        `node ${id}`,
      );
    }
  }));

const deep = (n) => '{"a":'.repeat(n) + '1' + '}'.repeat(n);
const malformed = {
  nothing: '',
  'a cut object': '{',
  'a list': '[]',
  'a string': '"x"',
  'a number': '7',
  null: 'null',
  'two values': '{}{}',
  'a trailing comma': '{"name":"a",}',
  'single quotes': "{'name':'a'}",
  'a comment': '{/**/}',
  'depth 200': deep(200),
  'depth 100,000': deep(100000),
  'lists, depth 100,000': '['.repeat(100000),
  'duplicate keys': '{"name":"a","name":"b"}',
  'a lone high surrogate': '{"name":"\\ud800"}',
  'a lone low surrogate': '{"name":"\\udc00"}',
  'surrogates in the wrong order': '{"name":"\\udc00\\ud800"}',
  'half an escape': '{"name":"\\u12"}',
  'a huge number': '{"requests_per_minute":1e400}',
  'a huge integer': `{"requests_per_minute":${'9'.repeat(400)}}`,
  'a negative number': '{"requests_per_minute":-1}',
  'a fraction': '{"requests_per_minute":1.5}',
  'not a number': '{"requests_per_minute":NaN}',
  'a leading zero': '{"requests_per_minute":01}',
  'a NUL': '{"name":"a\u0000b"}',
  'a raw line end': '{"name":"a\nb"}',
  'a member of another type': '{"name":{"a":1}}',
  'bad UTF-8': Buffer.from([0x7b, 0x22, 0x6e, 0x22, 0x3a, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
  'overlong UTF-8': Buffer.from([0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d]),
  'an unknown member': '{"__proto__":{"role":"admin"}}',
};

test('malformed JSON and JSON of the wrong type are refused on every route that reads a body', () =>
  unchanged('malformed JSON', async () => {
    for (const at of [
      '/v1/chat/completions',
      '/v1/completions',
      '/v1/responses',
      '/v0/models/register',
      '/v0/keys',
      '/v0/nodes/join',
      '/v0/nodes/x/heartbeat',
      '/v0/session',
    ])
      for (const [what, body] of Object.entries(malformed))
        refused(await call(`${router.url}${at}`, { raw: body, method: 'POST' }), `${at} with ${what}`);
  }));

test('a body that is too large is refused before it is read', () =>
  unchanged('oversized JSON', async () => {
    for (const [at, size] of [
      ['/v0/keys', 9 << 20],
      ['/v0/models/register', 9 << 20],
      ['/v1/chat/completions', 33 << 20],
      ['/v1/responses', 33 << 20],
    ]) {
      const answer = await new Promise((done, fail) => {
        const { hostname, port } = new URL(router.url);
        const req = http.request(
          {
            hostname,
            port,
            path: at,
            method: 'POST',
            headers: { 'content-type': 'application/json', 'content-length': size },
          },
          async (res) => {
            let text = '';
            for await (const part of res) text += part;
            req.destroy();
            done({ status: res.statusCode, text, json: JSON.parse(text) });
          },
        );
        req.on('error', fail);
        req.flushHeaders();
      });
      assert.equal(answer.status, 413, at);
      refused(answer, at);
    }
  }));
