// What monitoring reads: metrics and rules that promtool finds clean, a table of all metrics, a scrape over TLS by the
// real Prometheus, usage by key, the names of vLLM, and metrics without a key.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { descriptors, track } from '../support/scene.mjs';
import {
  call,
  launch,
  makeEcho,
  online,
  register,
  ROOT,
  say,
  startNode,
  startRouter,
  stream,
  tempDir,
  until,
} from './support.mjs';

const run = promisify(execFile);
const SECRET = 'a-secret-of-the-node-for-its-metrics';
const left = [];
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));
const keep = (process) => {
  left.push(process);
  return process;
};
const deploy = (name) => path.join(ROOT, 'deploy/prometheus', name);
const text = async (url, key) => (await call(`${url}/metrics`, { key })).text;

// {name: type} of a scrape.
const typesOf = (scrape) =>
  Object.fromEntries([...scrape.matchAll(/^# TYPE (\S+) (\w+)$/gm)].map(([, name, type]) => [name, type]));

// Samples of one metric as [labels, value].
const samples = (scrape, name) =>
  scrape
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .map((line) => [
      Object.fromEntries([...line.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, k, v]) => [k, v])),
      Number(line.split(' ').at(-1)),
    ]);

let router, node, open, openNode;
before(async () => {
  router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--require-key'] }));
  open = keep(
    await startRouter({ args: ['--allow-cpu-nodes', '--require-key', '--public-metrics', '--vllm-metrics'] }),
  );
  const model = makeEcho('talk', { step_ms: 5 });
  node = keep(await startNode(router, { name: 'n0', args: ['--model', model, '--node-secret', SECRET] }));
  openNode = keep(
    await startNode(open, { name: 'n1', args: ['--model', model, '--public-metrics', '--vllm-metrics'] }),
  );
  for (const r of [router, open]) {
    await until('the node is online', async () => (await online(r)) === 1);
    await register(r, 'talk');
  }
});

test('promtool finds nothing wrong with the metrics of a router and of a node, nor with the rules and their tests', async () => {
  await stream(router.url, { model: 'talk', ...say('a few words') }, { key: router.adminKey });
  for (const scrape of [await text(router.url, router.adminKey), await text(`http://127.0.0.1:${node.port}`, SECRET)]) {
    assert.match(scrape, /_build_info\{version="\d/);
    const promtool = track(spawn('promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] }));
    let said = '';
    promtool.stdout.on('data', (data) => (said += data));
    promtool.stderr.on('data', (data) => (said += data));
    promtool.stdin.end(scrape);
    const code = await new Promise((done) => promtool.on('close', done));
    assert.deepEqual([code, said], [0, '']);
  }
  await run('promtool', ['check', 'rules', deploy('rules.yml')]);
  await run('promtool', ['test', 'rules', deploy('rules_test.yml')]);
});

test('the process tells its processor time, memory, file descriptors and start', async () => {
  for (const [scrape, pid] of [
    [await text(router.url, router.adminKey), router.pid],
    [await text(`http://127.0.0.1:${node.port}`, SECRET), node.pid],
  ]) {
    const of = (name) => samples(scrape, `process_${name}`)[0][1];
    const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
    const kib = (name) => Number(status.match(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm'))[1]) * 1024;
    assert.ok(of('cpu_seconds_total') > 0 && of('cpu_seconds_total') < 600);
    assert.ok(of('resident_memory_bytes') > kib('VmRSS') / 4 && of('resident_memory_bytes') < kib('VmHWM') * 4);
    assert.ok(of('virtual_memory_bytes') >= of('resident_memory_bytes'));
    const fds = descriptors(pid).length;
    assert.ok(Math.abs(of('open_fds') - fds) < 20, `${of('open_fds')} of ${fds}`);
    const limit = fs.readFileSync(`/proc/${pid}/limits`, 'utf8').match(/^Max open files\s+(\d+)/m)[1];
    assert.equal(of('max_fds'), Number(limit));
    assert.ok(Math.abs(of('start_time_seconds') - Date.now() / 1000) < 600);
  }
});

test('every metric that the rules and the Grafana dashboard use is exported, and the dashboard filters by model and node', async () => {
  const exported = typesOf(
    (await text(router.url, router.adminKey)) + (await text(`http://127.0.0.1:${node.port}`, SECRET)),
  );
  const rules = fs.readFileSync(deploy('rules.yml'), 'utf8');
  const page = JSON.parse(fs.readFileSync(path.join(ROOT, 'docs/grafana.json'), 'utf8'));
  const used = new Set(
    [
      ...[...rules.matchAll(/expr: (>-\n(?: {10}.*\n)+|.*)/g)].map((m) => m[1]),
      ...page.panels.flatMap((p) => p.targets).map((t) => t.expr),
      ...page.templating.list.map((v) => v.definition ?? ''),
    ].flatMap((expr) => expr.replaceAll('(_node)?', '').match(/\b(?:llm_router|process)_\w+/g) ?? []),
  );
  assert.ok(used.size > 35, `${used.size} names were found`);
  for (const name of used)
    assert.ok(
      exported[name] ?? exported[name.replace(/_(bucket|sum|count)$/, '')],
      `${name} is used, but not exported`,
    );
  assert.deepEqual(
    page.templating.list.map((v) => v.name),
    ['datasource', 'model', 'node'],
  );
  for (const name of ['model', 'node'])
    assert.ok(page.panels.flatMap((p) => p.targets).some((t) => t.expr.includes(`${name}=~"$${name}"`)));
});

test('docs/metrics.md lists every metric with its type, and no other metric', async () => {
  const told = {};
  for (const [, name, type] of fs
    .readFileSync(path.join(ROOT, 'docs/metrics.md'), 'utf8')
    .matchAll(/^\| `([\w:]+)` \| (\w+) \|/gm)) {
    assert.equal(told[name] ?? type, type, `${name} has two types`);
    told[name] = type;
  }
  const exported = {};
  for (const scrape of [
    await text(router.url, router.adminKey),
    await text(`http://127.0.0.1:${node.port}`, SECRET),
    await text(open.url),
    await text(`http://127.0.0.1:${openNode.port}`),
  ])
    Object.assign(exported, typesOf(scrape));
  assert.deepEqual(told, Object.fromEntries(Object.keys(told).map((name) => [name, exported[name]])));
  assert.deepEqual(Object.keys(exported).sort(), Object.keys(told).sort());
});

test('usage is counted by key and model, with the id and the name of the key', async () => {
  const make = async (name) => (await call(`${router.url}/v0/keys`, { body: { name }, key: router.adminKey })).json;
  const [one, two] = [await make('team one'), await make('team two')];
  for (const key of [one, one, two]) await stream(router.url, { model: 'talk', ...say('hello') }, { key: key.key });
  const scrape = await until('all are counted', async () => {
    const got = await text(router.url, router.adminKey);
    return samples(got, 'llm_router_key_requests_total').filter(([l]) => l.name.startsWith('team')).length === 2 && got;
  });
  const of = (name, key) => samples(scrape, name).find(([l]) => l.key === key.id);
  assert.deepEqual(of('llm_router_key_requests_total', one), [{ key: one.id, name: 'team one', model: 'talk' }, 2]);
  assert.deepEqual(of('llm_router_key_requests_total', two)[1], 1);
  assert.ok(of('llm_router_key_completion_tokens_total', one)[1] > 0);
  assert.equal(of('llm_router_key_prompt_tokens_total', one)[1], 2 * of('llm_router_key_prompt_tokens_total', two)[1]);
});

test('queued, running and KV use of a model are on router and node, and with --vllm-metrics under the names of vLLM', async () => {
  const controller = new AbortController();
  const long = stream(
    open.url,
    { model: 'talk', max_tokens: 4000, ...say('word '.repeat(4000)) },
    { key: open.adminKey, signal: controller.signal },
  ).catch(() => {});
  const at = `http://127.0.0.1:${openNode.port}`;
  const scrape = await until('the router and the node show the request', async () => {
    const [a, b] = [await text(open.url), await text(at)];
    return (
      samples(a, 'llm_router_running')[0]?.[1] === 1 && samples(b, 'llm_router_node_model_live')[0]?.[1] === 1 && a + b
    );
  });
  controller.abort();
  await long;
  const values = (name) => samples(scrape, name);
  for (const name of ['vllm:num_requests_running', 'vllm:num_requests_waiting', 'vllm:kv_cache_usage_perc']) {
    assert.equal(values(name).length, 2, `${name} of router and node`);
    for (const [labels, value] of values(name)) {
      assert.deepEqual(labels, { model_name: 'talk' });
      assert.ok(value >= 0 && value <= 1, `${name} ${value}`);
    }
  }
  assert.deepEqual(
    values('vllm:num_requests_running').map(([, value]) => value),
    [1, 1],
  );
  assert.equal(values('llm_router_queued')[0][1], 0);
  assert.equal(values('llm_router_kv_cache_usage_ratio').length, 1);
  assert.ok(values('vllm:time_to_first_token_seconds_bucket').every(([l]) => l.model_name === 'talk' && l.le));
  assert.doesNotMatch(await text(router.url, router.adminKey), /vllm:/);
});

test('metrics need a key, and with --public-metrics none; the router then leaves out usage by key', async () => {
  assert.equal((await call(`${router.url}/metrics`)).status, 401);
  assert.equal((await call(`http://127.0.0.1:${node.port}/metrics`)).status, 401);
  await stream(open.url, { model: 'talk', ...say('hello') }, { key: open.adminKey });
  await until('it is counted', async () => samples(await text(open.url), 'vllm:request_success_total')[0][1] > 0);
  assert.doesNotMatch(await text(open.url), /^llm_router_key_\w+\{/m);
  assert.equal((await call(`http://127.0.0.1:${openNode.port}/metrics`)).status, 200);
  for (const at of [`${open.url}/v0/nodes`, `http://127.0.0.1:${openNode.port}/v0/models`])
    assert.equal((await call(at)).status, 401, at);
});

// An answer over TLS, with the CA that made the certificate.
const secure = (url, { ca, key, body }) =>
  new Promise((done, failed) => {
    const req = https.request(
      url,
      {
        method: body ? 'POST' : 'GET',
        ca: fs.readFileSync(ca),
        headers: { authorization: `Bearer ${key}`, ...(body ? { 'content-type': 'application/json' } : {}) },
      },
      async (answer) => {
        let said = '';
        for await (const piece of answer) said += piece;
        done(JSON.parse(said));
      },
    );
    req.on('error', failed);
    req.end(body && JSON.stringify(body));
  });

const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

test('the example configuration scrapes a router over TLS with a key of role metrics, by the real Prometheus with the rules', async () => {
  const dir = tempDir('prometheus');
  const file = (name) => path.join(dir, name);
  await run('openssl', [
    ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=router'.split(' '),
    ...['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', file('tls.key'), '-out', file('tls.pem')],
  ]);
  const safe = keep(
    await launch(
      [
        ...['router', '--listen', '127.0.0.1:0', '--require-key', '--data-dir', file('data')],
        ...['--tls-cert', file('tls.pem'), '--tls-key', file('tls.key')],
      ],
      { match: /listening on (https:\/\/\S+)/ },
    ),
  );
  const admin = safe.out.match(/shown this once: (\S+)/)[1];
  const ca = file('tls.pem');
  const { key } = await secure(`${safe.found[1]}/v0/keys`, { ca, key: admin, body: { role: 'metrics', name: 'p' } });
  fs.writeFileSync(file('key'), `${key}\n`);
  fs.copyFileSync(deploy('rules.yml'), file('rules.yml'));
  const example = fs.readFileSync(deploy('prometheus.yml'), 'utf8');
  const config = example
    .replace('/etc/prometheus/llm-router-ca.pem', ca)
    .replace('/etc/prometheus/llm-router.key', file('key'))
    .replace('router.example:11680', new URL(safe.found[1]).host)
    .replace('scrape_interval: 15s', 'scrape_interval: 1s');
  fs.writeFileSync(file('prometheus.yml'), config);
  await run('promtool', ['check', 'config', file('prometheus.yml')]);
  const port = await freePort();
  const prometheus = track(
    spawn(
      'prometheus',
      [
        `--config.file=${file('prometheus.yml')}`,
        `--storage.tsdb.path=${file('tsdb')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: 'ignore' },
    ),
  );
  left.push({ stop: () => prometheus.kill('SIGKILL') });
  const ask = async (at) => (await (await fetch(`http://127.0.0.1:${port}/api/v1/${at}`)).json()).data;
  const target = await until('Prometheus has scraped the router', async () => {
    const [first] = (await ask('targets').catch(() => null))?.activeTargets ?? [];
    return first?.lastScrape > '2' && first.health !== 'unknown' && first;
  });
  assert.deepEqual([target.health, target.lastError], ['up', '']);
  const { result } = await until('the samples are stored', async () => {
    const got = await ask('query?query=llm_router_build_info');
    return got?.result?.length === 1 && got;
  });
  assert.match(result[0].metric.version, /^\d/);
  const { groups } = await ask('rules');
  assert.ok(groups[0].rules.length >= 12 && groups[0].rules.every((r) => r.health !== 'err'));
});
