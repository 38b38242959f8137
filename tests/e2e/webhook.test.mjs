// The webhook: a receiver is told when an alert opens and when it ends, signed, in order, and until it has taken it.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { startPostgres } from '../support/postgres.mjs';
import { call, startRouter, startStandIn, stopwatch, until } from './support.mjs';

const SECRET = 'a-secret-that-signs';
const left = [];
after(() => Promise.all(left.map((p) => p.stop?.('SIGKILL') ?? p.close())));
const keep = (process) => {
  left.push(process);
  return process;
};

let postgres;
before(() => {
  postgres = keep(startPostgres());
});

// Records what arrives; `answer(n)` is the status of the n-th request, null: it is never answered.
async function startReceiver(answer = () => 200, port = 0) {
  const tries = [];
  const server = http.createServer(async (req, res) => {
    let text = '';
    for await (const piece of req) text += piece;
    const status = answer(tries.length);
    tries.push({ id: req.headers['webhook-id'], headers: req.headers, text, body: JSON.parse(text), status });
    if (status !== null) res.writeHead(status).end();
  });
  await new Promise((done) => server.listen(port, '127.0.0.1', done));
  const receiver = {
    tries,
    port: server.address().port,
    url: `http://127.0.0.1:${server.address().port}/hook?from=tests`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
    // What it has taken about models that failed, in the order of arrival.
    taken: () =>
      tries
        .filter((t) => t.status === 200 && t.body.data.kind === 'model_failed')
        .map((t) => `${t.body.type} ${t.body.data.subject}`),
  };
  return keep(receiver);
}

const hook = (receiver, ...more) => [
  ...['--allow-cpu-nodes', '--node-timeout', '2s'],
  ...['--alert-webhook', receiver.url, '--alert-webhook-secret', SECRET, ...more],
];

// A node for which this test speaks, with events only.
async function speakFor(router, name) {
  const { url } = keep(await startStandIn({ epoch: 7 }));
  const id = `node-hook-${name}`;
  let sent = 0;
  const joined = await call(`${router.url}/v0/nodes/join`, {
    body: {
      ...{ protocol: 2, version: '0', node_id: id, name, device: 'cpu', secret: `${name}-`.padEnd(40, 's'), url },
      ...{ models: [], pools: [], epoch: 7 },
    },
  });
  assert.equal(joined.status, 200, joined.text);
  return async (state, model) => {
    const events = [
      { event: 'model', model, from: 'present', state, ...(state === 'failed' && { reason: 'it is cut' }) },
    ];
    const body = { models: [], pools: [], epoch: 7, event_end: ++sent, events };
    assert.equal((await call(`${router.url}/v0/nodes/${id}/heartbeat`, { body })).status, 200);
  };
}

const figure = async (router, name) =>
  Number((await call(`${router.url}/metrics`)).text.match(new RegExp(`^llm_router_webhook_${name} (\\d+)`, 'm'))[1]);

test('a message is sent again until the receiver takes it, in order, signed, and says what the API says', async () => {
  const receiver = await startReceiver((n) => (n < 2 ? 503 : 200));
  const router = keep(await startRouter({ args: hook(receiver) }));
  const say = await speakFor(router, 'one');
  await say('failed', 'org/m');
  await say('failed', 'second');
  await until('both are taken', () => receiver.taken().length === 2);
  await say('ready', 'org/m');
  await until('the end is told', () => receiver.taken().includes('alert.resolved org/m'));
  assert.deepEqual(receiver.taken(), ['alert.opened org/m', 'alert.opened second', 'alert.resolved org/m']);
  const [first, again, third] = receiver.tries;
  assert.deepEqual([first.id, first.text, first.status], [third.id, third.text, 503]);
  assert.equal(again.id, first.id, 'a receiver knows a repeated message by its id');
  for (const { headers, text, body } of receiver.tries) {
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`;
    const hmac = crypto.createHmac('sha256', SECRET).update(signed).digest('base64');
    assert.equal(headers['webhook-signature'], `v1,${hmac}`);
    assert.ok(Math.abs(headers['webhook-timestamp'] - Date.now() / 1000) < 120);
    assert.equal(body.router, router.url);
  }
  const { data } = first.body;
  const listed = (await call(`${router.url}/v0/alerts`)).json.alerts.find((a) => a.id === data.id);
  assert.deepEqual(
    [data.kind, data.subject, data.open, data.advice, data.message, data.nodes[0].name],
    ['model_failed', 'org/m', true, listed.advice, 'it is cut', 'one'],
  );
  assert.equal(data.link, `${router.url}/#/models/org%2Fm`);
  assert.equal(await figure(router, 'failures_total'), 2);
  await until('nothing waits', async () => (await figure(router, 'waiting')) === 0);
});

test('after a restart no message is lost and none comes twice, in SQLite and PostgreSQL; an alert that ended meanwhile is told to be over', async () => {
  const database = postgres.url;
  await Promise.all(
    [[], ['--database', database]].map(async (more) => {
      const away = await startReceiver();
      away.close();
      const args = hook(away, ...more);
      const first = keep(await startRouter({ args }));
      const say = await speakFor(first, 'one');
      await say('failed', 'm');
      await until('the message waits', async () => (await figure(first, 'waiting')) > 0);
      await until('it was tried', async () => (await figure(first, 'failures_total')) > 0);
      await first.stop('SIGKILL');
      const receiver = await startReceiver(() => 200, away.port);
      keep(await startRouter({ args, dir: first.dir, port: Number(new URL(first.url).port) }));
      await until('the message has come', () => receiver.taken().includes('alert.opened m'));
      // Its node does not come back, so that the router cannot know the alert any more.
      await until('the alert is over', () => receiver.taken().includes('alert.resolved m'));
      assert.deepEqual(receiver.taken(), ['alert.opened m', 'alert.resolved m']);
    }),
  );
});

test('a silenced alert is not sent, and is sent when the silence ends while the alert is open', async () => {
  const receiver = await startReceiver();
  const router = keep(await startRouter({ args: hook(receiver) }));
  const say = await speakFor(router, 'one');
  await say('failed', 'quiet');
  await until('it is told', () => receiver.taken().length === 1);
  const { id } = (await call(`${router.url}/v0/alerts`)).json.alerts.find((a) => a.subject === 'quiet');
  await say('ready', 'quiet');
  await until('its end is told', () => receiver.taken().length === 2);
  const at = `${router.url}/v0/alerts/${id}/silence`;
  await call(at, { body: { seconds: 600 } });
  await say('failed', 'quiet');
  await say('failed', 'loud');
  await until('the other one is told', () => receiver.taken().length === 3);
  assert.equal(receiver.taken()[2], 'alert.opened loud');
  await call(at, { method: 'DELETE' });
  await until('it is told now', () => receiver.taken().length === 4);
  assert.equal(receiver.taken()[3], 'alert.opened quiet');
});

test('routers that share a database tell an alert once, and its end when it has ended for all of them', async () => {
  const database = postgres.named('template1');
  const receiver = await startReceiver();
  const routers = [];
  for (let i = 0; i < 2; i++) routers.push(keep(await startRouter({ args: hook(receiver, '--database', database) })));
  const says = [];
  for (const router of routers) says.push(await speakFor(router, 'one'));
  for (const say of says) await say('failed', 'm');
  await until('it is told', () => receiver.taken().length === 1);
  await says[0]('ready', 'm');
  await says[0]('failed', 'n'); // what is told next shows that the end of m was not
  await until('the next one is told', () => receiver.taken().includes('alert.opened n'));
  await says[1]('ready', 'm');
  await until('the end is told', () => receiver.taken().includes('alert.resolved m'));
  assert.deepEqual(receiver.taken(), ['alert.opened m', 'alert.opened n', 'alert.resolved m']);
});

test('a receiver that never answers holds up neither requests nor the end of the router, and becomes an alert itself', async () => {
  const hangs = await startReceiver(() => null);
  const router = keep(await startRouter({ args: hook(hangs) }));
  await (await speakFor(router, 'one'))('failed', 'm');
  await until('the receiver hangs', () => hangs.tries.length > 0);
  const watch = stopwatch();
  for (let i = 0; i < 20; i++) assert.equal((await call(`${router.url}/v1/models`)).status, 200);
  assert.ok(watch.ms < 5000, `${watch.ms} ms for 20 requests`);
  assert.deepEqual(await router.stop(), { code: 0, signal: null });

  const broken = await startReceiver(() => 500);
  const other = keep(await startRouter({ args: hook(broken) }));
  await (await speakFor(other, 'one'))('failed', 'm');
  const alert = await until('an alert', async () =>
    (await call(`${other.url}/v0/alerts`)).json.alerts.find((a) => a.kind === 'webhook_failed' && a.open),
  );
  assert.match(`${alert.message} ${alert.advice}`, /answered 500.*alert-webhook/);
});
