// Alerts: one for each cause with its nodes inside, what to do, a link, and silence for a time.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { startHub } from '../support/hub.mjs';
import { startPostgres } from '../support/postgres.mjs';
import { startBrowser } from './browser.mjs';
import {
  BIN,
  call,
  cli,
  launch,
  makeToken,
  online,
  startNode,
  startRouter,
  startStandIn,
  tempDir,
  until,
} from './support.mjs';

const left = [];
after(() => Promise.all(left.map((p) => p.stop?.('SIGKILL') ?? p.close())));
const keep = (process) => {
  left.push(process);
  return process;
};

// A node for which this test speaks: beat(events) sends a heartbeat.
async function speakFor(router, name) {
  const { url } = keep(await startStandIn({ epoch: 7 }));
  const node = { id: `node-test-${name}`, sent: 0 };
  const joined = await call(`${router.url}/v0/nodes/join`, {
    body: {
      ...{ protocol: 2, version: '0', node_id: node.id, name, device: 'cpu', secret: `${name}-`.padEnd(40, 's'), url },
      ...{ models: [], pools: [], epoch: 7 },
    },
  });
  assert.equal(joined.status, 200, joined.text);
  node.beat = async (events = [], models = []) => {
    node.sent += events.length;
    const answer = await call(`${router.url}/v0/nodes/${node.id}/heartbeat`, {
      body: { models, pools: [], epoch: 7, event_end: node.sent, events },
    });
    assert.equal(answer.status, 200, answer.text);
  };
  await node.beat();
  return node;
}

const alerts = async (router) => (await call(`${router.url}/v0/alerts`)).json.alerts;
const of = async (router, kind) => (await alerts(router)).filter((a) => a.kind === kind);
const failed = (model) => ({ event: 'model', model, from: 'present', state: 'failed', reason: 'the file w is cut' });

let router, browser;
before(async () => {
  router = keep(await startRouter({ args: ['--allow-cpu-nodes', '--node-timeout', '10m'] }));
});
after(() => browser?.close());

test('one alert for each cause, not for each node: its nodes are listed inside, and it ends with the last of them', async () => {
  const [a, b] = [await speakFor(router, 'a'), await speakFor(router, 'b')];
  await a.beat([failed('org/m')]);
  await b.beat([failed('org/m'), failed('other')]);
  const [m, more] = (await of(router, 'model_failed')).sort((x) => (x.subject === 'org/m' ? -1 : 1));
  assert.deepEqual(
    [m.subject, m.open, m.count, m.node_count, more.subject, more.node_count],
    ['org/m', true, 2, 2, 'other', 1],
  );
  assert.deepEqual(
    m.nodes.map((n) => [n.id, n.name, n.message]),
    [
      [b.id, 'b', 'the file w is cut'],
      [a.id, 'a', 'the file w is cut'],
    ],
  );
  assert.equal(m.message, 'on 2 nodes: the file w is cut');
  assert.match(m.advice, /load the model again/);
  assert.equal(m.link, '/#/models/org%2Fm');
  const ready = (model) => ({ event: 'model', model, from: 'loading', state: 'ready' });
  await b.beat([ready('org/m'), ready('other')]);
  const half = (await of(router, 'model_failed')).find((x) => x.subject === 'org/m');
  assert.deepEqual([half.open, half.node_count, half.node_name, half.message], [true, 1, 'a', 'the file w is cut']);
  await a.beat([ready('org/m')]);
  assert.ok((await of(router, 'model_failed')).every((x) => !x.open && x.nodes.length === 0));
  assert.equal((await of(router, 'model_failed')).find((x) => x.subject === 'org/m').id, m.id);
});

test('status prints the level of an alert, then the node and the message, each behind a blank', async () => {
  const node = await speakFor(router, 'cellar');
  await node.beat([{ event: 'memory_alert', pool: 'RAM', used: 9 << 20, total: 10 << 20 }]);
  const { stdout } = await cli(['status', '--url', router.url]);
  assert.match(stdout, /^ {2}warning cellar: 9\.0 MiB of 10\.0 MiB in use on cellar$/m);
  await node.beat([{ event: 'memory_relieved', pool: 'RAM' }]);
});

test('a missing engine is no failed download: the alert says that it does not heal by itself, and ends when the model is deleted', async () => {
  const hub = keep(await startHub());
  const env = { HF_ENDPOINT: hub.url, HF_HOME: tempDir('hf') };
  const args = ['--allow-cpu-nodes', '--hub-host', hub.storage];
  const own = keep(await startRouter({ args, env }));
  for (const name of ['one', 'two']) keep(await startNode(own, { name, args: ['--hub-host', hub.storage], env }));
  await until('both are online', async () => (await online(own)) === 2);
  hub.add('acme/alien', {
    'config.json': '{"architectures":["NemotronForCausalLM"],"model_type":"nemotron"}',
    'tokenizer.json': '{}',
    'model.safetensors': Buffer.alloc(64),
  });
  assert.equal((await call(`${own.url}/v0/models/register`, { body: { repo: 'acme/alien' } })).status, 201);
  const [alert] = await until('both nodes lack the engine', async () => {
    const got = await of(own, 'no_engine');
    return got[0]?.node_count === 2 && got;
  });
  assert.deepEqual([alert.subject, alert.level, alert.open], ['acme/alien', 'error', true]);
  assert.match(alert.message, /no engine here for runtime nemotron/);
  assert.match(alert.advice, /does not heal by itself: install an engine/);
  assert.deepEqual(alert.nodes.map((n) => n.name).sort(), ['one', 'two']);
  assert.equal((await of(own, 'download_failed')).length, 0);
  await call(`${own.url}/v0/models/acme%2Falien`, { method: 'DELETE' });
  await until('the alert is over', async () => !(await of(own, 'no_engine'))[0].open);
  assert.equal(
    (await of(own, 'download_failed')).length,
    0,
    'a model that is not wanted any more is no failed download',
  );
});

test('an engine that a full disk keeps from running is an alert about the disk, which ends when there is room', async () => {
  const own = keep(await startRouter({ args: ['--allow-cpu-nodes'] }));
  // Files of this node end at 8 KiB, as on a disk without room for an engine.
  const script = 'trap "" XFSZ; ulimit -S -f 8; exec "$0" "$@"';
  const args = ['--listen', '127.0.0.1:0', '--device', 'cpu', '--no-hf-cache', '--data-dir', tempDir('full')];
  const full = keep(
    await launch(['-c', script, BIN, 'node', ...args, '--router', own.url, '--node-name', 'full'], {
      bin: 'bash',
      match: /listening on port/,
      env: { LLM_ROUTER_TOKEN: await makeToken(own) },
    }),
  );
  const alert = await until('the router is told', async () =>
    (await of(own, 'engine_disk')).find((a) => a.subject === 'echo'),
  );
  assert.deepEqual([alert.open, alert.level, alert.node_name], [true, 'error', 'full']);
  assert.match(alert.message, /engine-cache\/.*File too large/);
  assert.match(alert.advice, /free space on the disk of its data-dir/);
  assert.deepEqual(await of(own, 'engine_refused'), []);
  execFileSync('prlimit', ['--pid', String(full.pid), '--fsize=unlimited:']);
  await until('it is over', async () => (await of(own, 'engine_disk')).every((a) => !a.open));
});

test('the alert of a dead worker ends when the worker is ready again or no request wants the model, without a request', async () => {
  const node = await speakFor(router, 'idle');
  const model = (state, live = 0) => ({
    id: 'idle-m',
    state,
    can_run: true,
    loaded: state === 'ready',
    live,
    queued: 0,
  });
  const died = { event: 'worker_died', model: 'idle-m', how: 'was killed by signal 9' };
  const isOpen = async () => (await of(router, 'worker_died')).find((a) => a.subject === 'idle-m').open;
  await node.beat([died], [model('loading')]);
  assert.equal(await isOpen(), true, 'the model loads again');
  await node.beat([], [model('ready', 1)]);
  assert.equal(await isOpen(), true, 'a request waits for its first token');
  await node.beat([], [model('ready')]);
  assert.equal(await isOpen(), false);
  await node.beat([died], [model('loading')]);
  assert.equal(await isOpen(), true);
  await node.beat([], [model('present')]);
  assert.equal(await isOpen(), false, 'unloaded, and nobody asks for it');
});

test('an alert is silenced by API and command line for a time, which ends by itself or by hand; the audit log knows by whom', async () => {
  const node = await speakFor(router, 'loud');
  await node.beat([failed('loud-m')]);
  const loud = async () => (await of(router, 'model_failed')).find((a) => a.subject === 'loud-m');
  const { id, silenced_until } = await loud();
  assert.equal(silenced_until, 0);
  const counted = async () =>
    Number(
      (await call(`${router.url}/metrics`)).text.match(
        /^llm_router_alerts\{kind="model_failed",level="error"\} (\d+)/m,
      )[1],
    );
  assert.equal(await counted(), 1);
  const at = `${router.url}/v0/alerts/${id}/silence`;
  const silenced = await call(at, { body: { seconds: 7200, comment: 'known, new disk on Monday' } });
  assert.equal(silenced.status, 200, silenced.text);
  assert.ok(Math.abs(silenced.json.silenced_until - Date.now() / 1000 - 7200) < 120);
  assert.deepEqual([(await loud()).open, (await loud()).silence_comment], [true, 'known, new disk on Monday']);
  assert.equal(await counted(), 0);
  assert.equal((await call(at, { method: 'DELETE' })).json.silenced_until, 0);
  assert.equal(await counted(), 1);
  for (const [url, body, status] of [
    [at, { seconds: 0 }, 400],
    [at, { seconds: 1e9 }, 400],
    [at, { comment: 7 }, 400],
    [`${router.url}/v0/alerts/12345/silence`, {}, 404],
    [`${router.url}/v0/alerts/loud/silence`, {}, 400],
  ])
    assert.equal((await call(url, { body })).status, status, JSON.stringify(body));

  const remote = ['--url', router.url];
  const list = await cli(['alerts', ...remote]);
  assert.match(
    list.stdout,
    new RegExp(
      `^${id} error model_failed loud-m, .*\\n {2}the file w is cut\\n {2}nodes: loud\\n {2}what to do: `,
      'm',
    ),
  );
  assert.match((await cli(['alerts', 'silence', String(id), '--for', '5s', ...remote])).stdout, /^silenced until 20/);
  assert.equal(await counted(), 0);
  await until('the silence has ended by itself', async () => (await counted()) === 1);
  const actions = (await call(`${router.url}/v0/audit`)).json.audit.map((a) => `${a.action} ${a.target}`);
  assert.deepEqual(
    actions.filter((a) => a.startsWith('alert.')).sort(),
    [`alert.silence ${id}`, `alert.silence ${id}`, `alert.unsilence ${id}`].sort(),
  );
});

test('a silence survives a restart, and holds on every router that shares the database', async () => {
  for (const database of [undefined, keep(startPostgres()).url]) {
    const args = ['--allow-cpu-nodes', '--node-timeout', '10m', ...(database ? ['--database', database] : [])];
    let first = keep(await startRouter({ args }));
    await (await speakFor(first, 'x')).beat([failed('m')]);
    const [{ id }] = await of(first, 'model_failed');
    assert.equal((await call(`${first.url}/v0/alerts/${id}/silence`, { body: { seconds: 600 } })).status, 200);
    if (database) {
      const second = keep(await startRouter({ args }));
      await (await speakFor(second, 'x')).beat([failed('m')]);
      await until('the other router knows', async () => (await of(second, 'model_failed'))[0].silenced_until > 0);
      assert.equal((await of(second, 'model_failed'))[0].id, id);
      assert.equal((await call(`${second.url}/v0/alerts/${id}/silence`, { method: 'DELETE' })).status, 200);
      await until('the first router knows', async () => (await of(first, 'model_failed'))[0].silenced_until === 0);
    } else {
      await first.stop();
      first = keep(await startRouter({ args, dir: first.dir }));
      await (await speakFor(first, 'x')).beat([failed('m')]);
      assert.ok((await of(first, 'model_failed'))[0].silenced_until > 0);
    }
  }
});

test('the overview shows an alert with its nodes, what to do and a link, and silences it', async () => {
  const [a, b] = [await speakFor(router, 'north'), await speakFor(router, 'south')];
  await a.beat([failed('page-m')]);
  await b.beat([failed('page-m')]);
  browser = await startBrowser();
  const page = await browser.open(`${router.url}/#/overview`);
  const item = page.locator('li.alert').filter({ hasText: 'page-m' });
  await item.getByText('on 2 nodes: the file w is cut').waitFor();
  await item.getByText(/What to do:.*load the model again/).waitFor();
  await item.getByRole('link', { name: 'north' }).waitFor();
  assert.equal(await item.getByRole('link', { name: 'south' }).getAttribute('href'), '#/nodes/node-test-south');
  assert.equal(await item.getByRole('link', { name: 'page-m' }).getAttribute('href'), '/#/models/page-m');
  await page.look('overview-alerts');
  await item.getByRole('button', { name: 'Silence' }).click();
  await page.getByRole('dialog').getByLabel('For how long').selectOption('86400');
  await page.getByRole('dialog').getByRole('button', { name: 'Silence' }).click();
  await item.getByText(/silenced until/).waitFor();
  const mine = async () => (await of(router, 'model_failed')).find((x) => x.subject === 'page-m');
  assert.ok(Math.abs((await mine()).silenced_until - Date.now() / 1000 - 86400) < 300);
  await page.look('overview-alert-silenced');
  await item.getByRole('button', { name: 'End the silence' }).click();
  await item.getByRole('button', { name: 'Silence', exact: true }).waitFor();
  assert.equal((await mine()).silenced_until, 0);
  page.watch.assertClean();
});
