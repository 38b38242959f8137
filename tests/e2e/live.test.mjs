// Live data for the dashboard: figures each second, download progress by file, alerts with a suggested action.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { GB, makeGpus } from '../support/gpus.mjs';
import { startHub } from '../support/hub.mjs';
import { BUILD } from '../support/program.mjs';
import {
  call,
  ENGINES,
  makeEcho,
  nodes,
  online,
  register,
  say,
  startNode,
  startRouter,
  startStandIn,
  stopwatch,
  stream,
  tempDir,
  until,
} from './support.mjs';

const left = [];
after(() => Promise.all(left.map((p) => p.stop('SIGKILL'))));
const keep = (process) => {
  left.push(process);
  return process;
};

// Everything that arrives on /v0/events from now on.
function listen(router) {
  const controller = new AbortController(),
    events = [];
  const done = (async () => {
    const answer = await fetch(`${router.url}/v0/events`, { signal: controller.signal });
    let rest = '';
    for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
      rest += piece;
      for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2))
        if (rest.startsWith('data: ')) events.push(JSON.parse(rest.slice(6, end)));
    }
  })().catch(() => {});
  return {
    events,
    of: (name) => events.filter((e) => e.event === name),
    stop: () => {
      controller.abort();
      return done;
    },
  };
}

const alerts = async (router) => (await call(`${router.url}/v0/alerts`)).json.alerts;
const alert = (router, kind, check = () => true) =>
  until(`alert ${kind}`, async () => (await alerts(router)).find((a) => a.kind === kind && check(a)));

let hub, router;
before(async () => {
  hub = await startHub();
  router = keep(
    await startRouter({
      args: ['--allow-cpu-nodes', '--node-timeout', '2500ms', '--hub-host', hub.storage],
      env: { HF_ENDPOINT: hub.url },
    }),
  );
});
after(() => hub?.close());

test('figures: a stats event each second, and /v0/stats for charts, both equal to the counters of /metrics', async () => {
  const model = makeEcho('figures', { step_ms: 5 });
  const node = keep(await startNode(router, { name: 'figures', args: ['--model', model] }));
  await until('online', async () => (await online(router)) === 1);
  await register(router, 'figures');
  const ear = listen(router);
  await until('the first second', () => ear.of('stats').length > 0);
  const answer = await stream(router.url, { model: 'figures', max_tokens: 300, ...say('word '.repeat(300)) });
  assert.equal(answer.error, null);
  await stream(router.url, { model: 'nobody', ...say('x') });
  await until('the request is in a second', () => ear.of('stats').some((s) => s.requests_per_second > 0));
  const seconds = ear.of('stats');
  const flowing = seconds.filter((s) => s.tokens_per_second > 0);
  assert.ok(flowing.length >= 2, 'tokens count while they flow, not when the request ends');
  assert.ok(flowing.some((s) => s.in_flight === 1));
  // On a busy machine most tokens may come in bursts, and the first one may be longer ago than percentiles look back.
  assert.ok(flowing.some((s) => s.inter_token_ms.p99 > 1));
  assert.ok(flowing.every((s) => s.inter_token_ms.p99 >= s.inter_token_ms.p50));
  assert.ok(seconds.some((s) => s.first_token_ms.p50 > 0));
  const history = (await call(`${router.url}/v0/stats?step=1`)).json;
  for (const { tokens_per_second: rate } of flowing) assert.ok(history.tokens_per_second.includes(rate), `${rate}`);
  for (const column of [history.tokens_per_second, history.queue, history.first_token_ms.p99])
    assert.equal(column.length, history.time.length);
  const { text } = await call(`${router.url}/metrics`);
  const counted =
    Number(text.match(/inter_token_seconds_count (\d+)/)[1]) + Number(text.match(/first_token_seconds_count (\d+)/)[1]);
  // A second of a busy machine may be longer than a second.
  const at = (s) => Date.parse(s.time) / 1000;
  const summed = seconds.reduce((sum, s, i) => sum + (i && s.tokens_per_second * (at(s) - at(seconds[i - 1]))), 0);
  assert.ok(Math.abs(summed - counted) <= 0.1 * counted, `${summed} of ${counted}`);
  assert.equal((await call(`${router.url}/v0/stats?step=0`)).status, 400);
  assert.equal((await call(`${router.url}/v0/stats?step=61`)).status, 400);
  await ear.stop();
  await node.stop();
});

test('events of a node reach the router as alerts: a hanging engine, a refused engine, full memory, each with a suggested action', async () => {
  const engines = tempDir('engines');
  for (const id of ['faulty', 'echo']) fs.cpSync(path.join(ENGINES, id), path.join(engines, id), { recursive: true });
  const manifest = path.join(engines, 'echo/manifest.json');
  fs.writeFileSync(manifest, JSON.stringify({ ...JSON.parse(fs.readFileSync(manifest)), abi_version: 999 }));
  const model = makeEcho('hangs', { hang: 'step' });
  const config = path.join(model, 'config.json');
  fs.writeFileSync(config, fs.readFileSync(config, 'utf8').replace('"echo"', '"faulty"'));
  const ear = listen(router);
  const node = keep(
    await startNode(router, {
      name: 'ill',
      args: [
        '--engines-dir',
        engines,
        '--model',
        model,
        '--no-preload',
        '--step-timeout',
        '300ms',
        '--watchdog-kills',
        '1',
      ],
    }),
  );
  const full = keep(
    await startNode(router, { name: 'full', args: ['--engine', 'echo', '--no-preload', '--memory-threshold', '1'] }),
  );
  const refused = await alert(router, 'engine_refused', (a) => a.node_name === 'ill');
  assert.deepEqual([refused.node_name, refused.subject, refused.open, refused.level], ['ill', 'echo', true, 'error']);
  assert.match(refused.message, /999/);
  assert.match(refused.advice, /install/);
  const memory = await alert(router, 'memory_alert');
  assert.ok(memory.open && /of .*in use on full/.test(memory.message) && /unload/.test(memory.advice));
  await full.stop();
  const settled = await alert(router, 'memory_alert', (a) => !a.open); // it left in peace, and its troubles with it
  assert.equal(settled.node_name, 'full');
  await until('the other left', async () => !(await nodes(router)).find((n) => n.name === 'full').online);
  assert.ok(
    !(await call(`${router.url}/v0/alerts`)).json.alerts.some(
      (a) => a.kind === 'node_offline' && a.node_name === 'full',
    ),
    'nobody is alarmed',
  );
  await until(
    'the model is known',
    async () => (await nodes(router)).find((n) => n.name === 'ill').models.length === 1,
  );
  await register(router, 'hangs');
  await call(`${router.url}/v1/chat/completions`, { body: { model: 'hangs', ...say('x') } });
  const killed = await alert(router, 'watchdog_kill');
  assert.equal(killed.subject, 'hangs');
  assert.equal(killed.open, true, 'until a worker has served again');
  assert.match(killed.advice, /step-timeout/);
  const waiting = await alert(router, 'model_waiting', (a) => a.open);
  assert.equal(waiting.subject, 'hangs');
  await until('the events of it', () => ear.of('alert').some((e) => e.kind === 'watchdog_kill'));
  await until('the event of the load', () =>
    ear.of('node.model').some((e) => e.model === 'hangs' && e.state === 'loading' && e.name === 'ill'),
  );
  assert.equal(ear.of('node.engine_refused').filter((e) => e.name === 'ill').length, 1, 'told once');
  await ear.stop();
  await node.stop('SIGKILL');
  await alert(router, 'node_offline', (a) => a.open && a.node_name === 'ill');
  const again = keep(
    await startNode(router, { name: 'ill', dir: node.dir, args: ['--engine', 'echo', '--no-preload'] }),
  );
  await alert(router, 'node_offline', (a) => !a.open && a.node_name === 'ill');
  await alert(router, 'engine_refused', (a) => !a.open && a.subject === 'echo');
  // The same process, frozen for a while, is missed and comes back.
  again.child.kill('SIGSTOP');
  await alert(router, 'node_offline', (a) => a.open && a.node_name === 'ill');
  again.child.kill('SIGCONT');
  await alert(router, 'node_offline', (a) => !a.open && a.node_name === 'ill');
  await again.stop();
});

test('a download is reported file by file; a failed download is an alert until it works', async () => {
  const model = makeEcho('fetched'),
    size = 400_000;
  const files = Object.fromEntries(
    fs.readdirSync(model).map((name) => [name, fs.readFileSync(path.join(model, name))]),
  );
  const header = JSON.stringify({ w: { dtype: 'U8', shape: [size], data_offsets: [0, size] } });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  files['model.safetensors'] = Buffer.concat([length, Buffer.from(header), Buffer.alloc(size, 7)]);
  hub.add('org/fetched', files);
  let open;
  const gate = new Promise((done) => {
    open = done;
  });
  hub.script('model.safetensors', [{ gate, after: 100_000 }]);
  const ear = listen(router);
  keep(await startNode(router, { name: 'fetches', args: ['--hub-host', hub.storage], env: { HF_ENDPOINT: hub.url } }));
  const made = await call(`${router.url}/v0/models/register`, { body: { repo: 'org/fetched' } });
  assert.equal(made.status, 201, made.text);
  const half = await until('half of the weights', () =>
    ear
      .of('download')
      .find((d) => d.files.some((f) => f.name === 'model.safetensors' && f.done > 0 && f.done < f.size)),
  );
  assert.deepEqual([half.model, half.name, half.file_count], ['org/fetched', 'fetches', Object.keys(files).length]);
  assert.ok(half.done_bytes > 0 && half.done_bytes < half.total_bytes);
  open();
  await until('it has arrived', () =>
    ear.of('node.model').some((e) => e.model === 'org/fetched' && e.state === 'present'),
  );

  hub.add('org/broken', files);
  hub.script(
    'model.safetensors',
    Array.from({ length: 20 }, () => ({ status: 404 })),
  );
  await call(`${router.url}/v0/models/register`, { body: { repo: 'org/broken' } });
  const broken = await alert(router, 'download_failed', (a) => a.subject === 'org/broken');
  assert.deepEqual([broken.subject, broken.node_name, broken.open], ['org/broken', 'fetches', true]);
  assert.match(broken.message, /model\.safetensors/);
  assert.match(broken.advice, /retries automatically/);
  // Every retry fetches and verifies the other files first, which is no success yet.
  await until(
    'the node has tried again',
    () => ear.of('node.model').filter((e) => e.model === 'org/broken').length >= 6,
  );
  const heard = ear.of('alert').filter((a) => a.kind === 'download_failed' && a.subject === 'org/broken');
  assert.deepEqual(
    heard.filter((a) => !a.open),
    [],
    'the alert stays open',
  );
  // New models made the node join again, which tells everything again: once is enough.
  assert.equal(ear.of('node.model').filter((e) => e.model === 'org/fetched' && e.state === 'fetching').length, 1);
  await ear.stop();
});

test('a subscriber that does not read is disconnected; the other subscribers miss nothing', async () => {
  const { url } = await startStandIn();
  const node = {
    protocol: 2,
    version: '0',
    node_id: 'node-chatty-0001',
    name: 'chatty',
    device: 'cpu',
    secret: 's'.repeat(40),
    url,
    models: [],
    pools: [],
  };
  assert.equal((await call(`${router.url}/v0/nodes/join`, { body: node })).status, 200);
  const { hostname, port } = new URL(router.url);
  const deaf = net.connect({ host: hostname, port });
  let heard = 0,
    isCut = false;
  deaf.on('data', (bytes) => {
    heard += bytes.length;
  });
  deaf.on('close', () => {
    isCut = true;
  });
  deaf.on('error', () => {});
  deaf.write('GET /v0/events HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await until('the stream begins', () => heard > 0);
  deaf.pause();
  const ear = listen(router);
  await until('the other hears', () => ear.events.length > 0);
  const event = { event: 'model', model: 'm', state: 'ready', text: 'x'.repeat(12000) };
  let sent = 0;
  for (; sent < 1280; sent += 64) {
    const heartbeat = await call(`${router.url}/v0/nodes/${node.node_id}/heartbeat`, {
      body: { models: [], pools: [], epoch: 1, event_end: sent + 64, events: Array(64).fill(event) },
    });
    assert.equal(heartbeat.status, 200, heartbeat.text);
    await until('the other heard it all', () => {
      const count = ear.of('node.model').filter((e) => e.name === 'chatty').length;
      assert.ok(count <= sent + 64, `${count} of ${sent + 64} events`);
      return count === sent + 64;
    });
  }
  deaf.resume();
  await until('the deaf one was cut', () => isCut);
  assert.ok(heard < sent * 12000, `${heard} of ${sent * 12000} bytes`);
  await ear.stop();
  await call(`${router.url}/v0/nodes/${node.node_id}`, { method: 'DELETE' });
});

test('a faulty GPU: the figures of the nodes show it, an alert says what to do, and requests go to another node', async () => {
  const figures = path.join(tempDir('nvml'), 'gpus');
  const model = makeEcho('on-gpu', { on_device: true, weights_bytes: 1_000_000 });
  fs.writeFileSync(figures, '1000000000 5000000 temp=55 dbe=0\n');
  const args = [
    '--nvml-library',
    path.join(BUILD, 'testing/fake_nvml.so'),
    '--memory-interval',
    '50ms',
    '--model',
    model,
  ];
  const sick = keep(await startNode(router, { name: 'sick', args, env: { LR_FAKE_NVML: figures } }));
  const isOnline = (name) =>
    until(`${name} is online`, async () => (await nodes(router)).some((n) => n.name === name && n.online));
  await isOnline('sick');
  await register(router, 'on-gpu');
  const gpu = async () => (await nodes(router)).find((n) => n.name === 'sick').memory[1];
  const chat = (text) => call(`${router.url}/v1/chat/completions`, { body: { model: 'on-gpu', ...say(text) } });
  await until('the figures', async () => (await gpu())?.gpu?.temperature_celsius === 55);
  assert.equal((await gpu()).gpu.faulty, false);
  assert.equal((await chat('hello')).status, 200);
  fs.writeFileSync(figures, '1000000000 5000000 temp=55 dbe=4\n');
  const found = await alert(router, 'gpu_faulty');
  assert.deepEqual([found.node_name, found.subject, found.level, found.open], ['sick', 'GPU-fake-0', 'error', true]);
  assert.match(found.message, /Fake GPU 0 .*4 uncorrectable errors/);
  assert.match(found.advice, /reset the GPU/);
  await until('the node cannot run it', async () =>
    (await nodes(router)).some((n) => n.name === 'sick' && n.memory[1].gpu.faulty && !n.models[0].can_run),
  );
  const text = (await call(`${router.url}/metrics`)).text;
  assert.match(text, /^llm_router_node_gpu_faulty\{node="sick",pool="GPU-fake-0"\} 1$/m);
  assert.match(text, /^llm_router_node_gpu_ecc_uncorrected_total\{node="sick",pool="GPU-fake-0"\} 4$/m);
  const well = keep(await startNode(router, { name: 'well', args: ['--model', model] }));
  await isOnline('well');
  assert.equal((await chat('again')).status, 200);
  await sick.stop();
  await well.stop();
});

test('a router that is started again keeps the alert of a faulty GPU, although the node keeps its event no more', async () => {
  const told = [];
  const receiver = http.createServer(async (req, res) => {
    let text = '';
    for await (const piece of req) text += piece;
    const { type, data } = JSON.parse(text);
    if (data.kind === 'gpu_faulty') told.push(`${type} ${data.subject}`);
    res.end();
  });
  await new Promise((done) => receiver.listen(0, '127.0.0.1', done));
  after(() => receiver.close());
  const hook = `http://127.0.0.1:${receiver.address().port}/`;
  const args = ['--allow-cpu-nodes', '--node-timeout', '2s', '--alert-webhook', hook];
  const first = keep(await startRouter({ args }));
  const gpus = makeGpus([{ total: GB, used: 0, words: 'dbe=4' }]);
  const node = keep(
    await startNode(first, { name: 'sick', args: [...gpus.args, '--model', makeEcho('churn')], env: gpus.env }),
  );
  const before = await alert(first, 'gpu_faulty');
  assert.equal(before.count, 1, 'the event and the figures are one alert');
  await until('the receiver knows', () => told.length === 1);
  await register(first, 'churn');
  const ear = listen(first);
  const become = (state) => until(state, async () => (await nodes(first))[0].models[0].state === state);
  while (ear.of('node.model').length < 70) {
    await call(`${first.url}/v0/models/churn/load`, { body: {} });
    await become('ready');
    await call(`${first.url}/v0/models/churn/unload`, { body: {} });
    await become('present');
  }
  await ear.stop();
  await first.stop();
  const second = keep(await startRouter({ args, dir: first.dir, port: Number(new URL(first.url).port) }));
  const watch = stopwatch();
  const late = listen(second);
  const again = await alert(second, 'gpu_faulty');
  assert.deepEqual(
    [again.id, again.open, again.count, again.node_name, again.message, again.nodes.length],
    [before.id, true, 1, 'sick', before.message, 1],
  );
  await until('the events that the node keeps', () => late.of('node.model').length > 0);
  assert.equal(late.of('node.gpu_faulty').length, 0, 'the node keeps its event no more');
  // By then the router has told the receiver what was open before its start and is not open now.
  await until('the webhook knows all', () => watch.real > 10_000);
  assert.deepEqual(told, ['alert.opened GPU-fake-0'], 'the alert has not ended in between');
  assert.deepEqual(
    late
      .of('alert')
      .filter((a) => a.kind === 'gpu_faulty')
      .map((a) => a.open),
    [true],
    'told once',
  );
  await late.stop();
  // A new process finds the GPU sound.
  await node.stop('SIGKILL');
  gpus.set([{ total: GB, used: 0, words: 'dbe=0' }]);
  keep(await startNode(second, { name: 'sick', dir: node.dir, args: gpus.args, env: gpus.env }));
  await alert(second, 'gpu_faulty', (a) => !a.open);
  await until('the receiver knows the end', () => told.at(-1) === 'alert.resolved GPU-fake-0');
});
