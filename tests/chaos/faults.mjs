// The faults, one object each:
//   name, does      shown in the table and in the trace
//   applies(fleet)  whether this fleet can have it (left out: every fleet)
//   plan(random)    its parameters, chosen before the run starts: { node, router, model, hold, ... }
//   touches(p)      its targets: 'n0', 'r1', 'registry', 'database'.  Faults that run at the
//                   same time have different targets; '*' runs alone.
//   inject(c)       begins it.  c: { fleet, judge, fault, p, node, router, atUndo, atHeal, state }
//   undo(c)         ends it; from here on recovery is timed.  Left out: there is nothing to undo
//   c.isStruck      is set when the fault took effect, for faults that may find no target (isRare)
//   watch           what has to work again: 'node' (c.node, its p.model), 'router', 'write' (a
//                   change at c.router), 'fleet' (every router)
// atUndo and atHeal take functions that are called at that time, such as the end of an allowed error.
import fs from 'node:fs';
import path from 'node:path';
import { makeClock } from '../support/clock.mjs';
import { sleep, until } from '../support/scene.mjs';
import { ASKS } from './asks.mjs';
import { DEMO, DRAIN_TIMEOUT, ENGINE, HUB, MODELS, NODES, PARROT, POISON, STEP_TIMEOUT } from './fleet.mjs';
import { ask, exchange } from './http.mjs';
import { fakeClock, isAlive, signal } from './members.mjs';

const aNode = (r) => r.int(0, NODES - 1);
const onNode = (p) => [`n${p.node}`];
const onRouter = (p) => [`r${p.router}`, 'registry'];
const onRegistry = () => ['registry'];
const hasPostgres = (fleet) => fleet.postgres !== undefined;

// A signal to the node's workers of a model; the result is which processes got it.
function killWorkers(c, model, name = 'SIGKILL') {
  const pids = c.node
    .workers(model)
    .map(({ pid }) => pid)
    .filter((pid) => signal(pid, name));
  if (pids.length === 0) c.judge.note(`${c.fault.name}: ${c.node.name} has no worker of ${model ?? 'any model'}`);
  else c.isStruck = true;
  return pids;
}

// A worker of the model: one is loaded where none is.
async function aWorker(c, model) {
  const found = c.node.workers(model);
  if (found.length) return found[0].pid;
  void c.fleet.order(c.node, model, 'load');
  return until(`a worker of ${model} on ${c.node.name}`, () => c.node.workers(model)[0]?.pid, 5000).catch(
    () => undefined,
  );
}

// Requests of the model come to this node until the fault is over: whatever they get, the node
// has to try.
function press(c) {
  let isOver = false;
  c.atUndo.push(() => {
    isOver = true;
  });
  void (async () => {
    while (!isOver && !c.judge.isOver) {
      void c.judge.unservedAtNode(c.node, c.p.model, 5000);
      await sleep(200);
    }
  })();
}

const excuse = (c, kind) => c.atUndo.push(c.judge.open(kind, c.router.name));

// A node asks what a model needs once after its start.  The process that it asks hangs here;
// the result is its number.
async function aHungProbe(c) {
  await c.node.stop('SIGKILL');
  fs.rmSync(c.node.struck, { force: true });
  await c.node.start();
  void c.fleet.order(c.node, PARROT, 'load', 30000);
  // The process that hangs has made this file.
  await until('a probe', () => fs.existsSync(c.node.struck), 8000).catch(() => fs.writeFileSync(c.node.struck, ''));
  const pid = c.node.workers(PARROT, true)[0]?.pid;
  if (pid === undefined) c.judge.note(`${c.node.name}: no probe of ${PARROT} came`);
  else c.isStruck = true;
  return pid;
}

async function hung(c, pid, what, limit) {
  await until('the watchdog', () => !isAlive(pid), limit).catch(() => {
    c.judge.broke('what hangs is killed by its node', `${what} ${pid} of ${c.node.name} is alive after ${limit} ms`);
    signal(pid, 'SIGKILL');
  });
}

const workers = [
  {
    name: 'worker-kill',
    isRare: true,
    does: 'kill -9 of a worker, up to three times',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: r.pick(MODELS), times: r.int(1, 3), gap: r.int(50, 900) }),
    async inject(c) {
      for (let i = 0; i < c.p.times; i++) {
        if (i) await sleep(c.p.gap);
        await aWorker(c, c.p.model);
        killWorkers(c, c.p.model);
      }
    },
  },
  {
    name: 'worker-kill-everywhere',
    does: 'kill -9 of the workers of a model on all nodes at once',
    watch: 'fleet',
    touches: () => ['*'],
    plan: (r) => ({ model: r.pick(MODELS), times: r.int(1, 2), gap: r.int(300, 2500) }),
    async inject(c) {
      for (let i = 0; i < c.p.times; i++) {
        if (i) await sleep(c.p.gap);
        for (const node of c.fleet.nodes) killWorkers({ ...c, node }, c.p.model);
      }
    },
  },
  {
    name: 'worker-freeze',
    isRare: true,
    does: 'SIGSTOP of a worker, then SIGCONT',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: r.pick(MODELS), hold: r.int(300, 4000) }),
    async inject(c) {
      await aWorker(c, c.p.model);
      c.state.pids = killWorkers(c, c.p.model, 'SIGSTOP');
    },
    undo(c) {
      c.state.pids.forEach((pid) => signal(pid, 'SIGCONT'));
    },
  },
  {
    name: 'worker-hang',
    isRare: true,
    does: 'SIGSTOP of a worker until its node kills it',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: r.pick([DEMO, PARROT]) }),
    async inject(c) {
      const pid = await aWorker(c, c.p.model);
      if (pid === undefined || !signal(pid, 'SIGSTOP')) return;
      c.isStruck = true;
      void c.judge.unservedAtNode(c.node, c.p.model, 2 * STEP_TIMEOUT); // it has work for sure
      await hung(c, pid, 'worker', 2 * STEP_TIMEOUT);
    },
  },
  {
    name: 'worker-load-kill',
    isRare: true,
    does: 'kill -9 of a worker, and twice while its model is loaded again',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: PARROT, times: r.int(2, 3) }),
    async inject(c) {
      await aWorker(c, PARROT);
      for (let i = 0; i < c.p.times; i++) {
        const [pid] = killWorkers(c, PARROT);
        void c.judge.unservedAtNode(c.node, PARROT, 10000); // nobody orders a load: a request has to be enough
        await until('the next worker', () => c.node.workers(PARROT).some((w) => w.pid !== pid), 4000).catch(() =>
          c.judge.note(`${c.node.name}: no next worker within 4 s`),
        );
      }
      killWorkers(c, PARROT);
    },
  },
  {
    name: 'probe-kill',
    isRare: true,
    does: 'kill -9 of the process that asks what a model needs',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: PARROT, hold: r.int(0, 500) }),
    async inject(c) {
      c.state.pid = await aHungProbe(c);
    },
    undo(c) {
      if (c.state.pid) signal(c.state.pid, 'SIGKILL');
    },
  },
  {
    name: 'probe-hang',
    isRare: true,
    does: 'that process hangs until its node kills it',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: PARROT }),
    async inject(c) {
      const pid = await aHungProbe(c);
      if (pid) await hung(c, pid, 'probe', 2 * STEP_TIMEOUT);
    },
  },
  {
    name: 'poison',
    does: 'a prompt that kills its worker',
    watch: 'node',
    touches: () => ['poison'],
    plan: (r) => ({ node: aNode(r), model: PARROT, router: r.int(0, 1) }),
    async inject(c) {
      const one = { ...ASKS.find((a) => a.name === 'parrot short'), name: 'poison' };
      const body = { model: PARROT, messages: [{ role: 'user', content: `a ${POISON} word` }] };
      for (const end = Date.now() + c.judge.limits.bound; ; await sleep(500)) {
        const got = await ask(`${c.router.url}${one.path}`, { body, key: c.fleet.key, ms: c.judge.limits.bound });
        const doubt = got.status === 500 && c.judge.doubtStrikes(got.headers['x-request-id']);
        if (got.status === 500 && !doubt) return;
        if (![0, 429, 503].includes(got.status) || Date.now() > end)
          return void c.judge.broke(
            'a prompt that kills its worker twice gets 500',
            `it got ${got.status}: ${doubt || ''} ${got.text.slice(0, 200)}`,
          );
      }
    },
  },
];

const nodes = [
  {
    name: 'node-kill',
    does: 'kill -9 of a node; started again',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: DEMO, hold: r.int(0, 7000) }),
    inject: (c) => c.node.stop('SIGKILL'),
    undo: (c) => c.node.start(),
  },
  {
    name: 'node-restart',
    does: 'SIGTERM of a node; started again',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: DEMO, hold: r.int(0, 1500) }),
    inject: (c) => c.node.stop('SIGTERM', DRAIN_TIMEOUT + 5000),
    undo: (c) => c.node.start(),
  },
  {
    name: 'node-drain-crash',
    does: 'SIGTERM of a node, and its workers are killed while it drains',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: DEMO, gap: r.int(5, 120) }),
    async inject(c) {
      const ended = c.node.stop('SIGTERM', DRAIN_TIMEOUT - 4000); // nothing is left to wait for
      await sleep(c.p.gap);
      killWorkers(c);
      await ended;
    },
    undo: (c) => c.node.start(),
  },
  {
    name: 'node-freeze',
    does: 'SIGSTOP of a node, then SIGCONT',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: DEMO, hold: r.int(500, 8000) }),
    inject(c) {
      c.node.signal('SIGSTOP');
    },
    undo(c) {
      c.node.signal('SIGCONT');
    },
  },
  {
    name: 'node-drain',
    does: 'an operator takes a node out of service, and back',
    watch: 'node',
    touches: (p) => [...onNode(p), 'registry'],
    plan: (r) => ({ node: aNode(r), router: r.int(0, 1), model: DEMO, hold: r.int(100, 2500) }),
    async inject(c) {
      c.state.id = (await c.fleet.nodesAt(c.router)).find((n) => n.name === c.node.name).id;
      await c.fleet.operate(c.p.router, `/v0/nodes/${c.state.id}/drain`, {});
    },
    undo: (c) => c.fleet.operate(c.p.router, `/v0/nodes/${c.state.id}/undrain`, {}),
  },
  {
    name: 'node-replaced',
    does: 'a node loses its identity and joins with a new token; the database may be away',
    watch: 'node',
    touches: () => ['*'],
    plan: (r) => ({ node: aNode(r), model: DEMO, hold: r.int(100, 1500), isAway: r.int(0, 1) === 1 }),
    async inject(c) {
      c.router = c.node.home;
      c.state.id = (await c.fleet.nodesAt(c.router)).find((n) => n.name === c.node.name).id;
      const token = await c.fleet.operate(c.router.index, '/v0/nodes/tokens', {});
      c.fleet.tokens.push({ router: c.router.index, id: token.id });
      await c.node.stop('SIGKILL');
      fs.rmSync(path.join(c.node.dataDir, 'node-identity.json'));
      c.node.env.LLM_ROUTER_TOKEN = token.key;
      c.state.isAway = c.p.isAway && hasPostgres(c.fleet);
      if (c.state.isAway) await c.fleet.postgres.stop();
      await c.node.start();
      if (c.state.isAway) await sleep(1500);
    },
    // The routers start again at once: the node must be in the database, or come back by itself.
    async undo(c) {
      if (c.state.isAway) await c.fleet.postgres.again();
      await c.fleet.operate(c.router.index, `/v0/nodes/${c.state.id}`, undefined, 'DELETE');
      excuse(c, 'cut');
      await c.router.stop('SIGKILL');
      await c.router.start();
      c.atHeal.push(() => c.fleet.backup()); // the one before does not know the node
    },
  },
  {
    name: 'node-clone',
    does: "a second process starts with a copy of a node's folder",
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: DEMO, hold: r.int(1500, 5000) }),
    async inject(c) {
      c.state.clone = await c.fleet.cloneOf(c.node);
    },
    undo: (c) => c.state.clone.stop('SIGKILL'),
  },
  {
    name: 'node-hup',
    does: 'SIGHUP of a node',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: DEMO }),
    inject(c) {
      c.node.signal('SIGHUP');
    },
  },
  {
    name: 'engine-reload',
    does: 'an engine is loaded anew',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: r.pick(MODELS) }),
    async inject(c) {
      c.judge.note(
        `reload: ${(await c.fleet.atNode(c.node, `/v0/engines/${ENGINE[c.p.model]}/reload`, { body: {}, ms: 15000 })).status}`,
      );
    },
  },
  {
    name: 'load-churn',
    does: 'a model is unloaded and loaded, several times',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: r.pick(MODELS), times: r.int(2, 5), gap: r.int(20, 400) }),
    async inject(c) {
      for (let i = 0; i < c.p.times; i++) {
        void c.fleet.order(c.node, c.p.model, i % 2 ? 'load' : 'unload');
        await sleep(c.p.gap);
      }
      await c.fleet.order(c.node, c.p.model, 'load');
    },
  },
  {
    name: 'node-disk-full',
    does: 'the disk of a node is full while a worker dies, or the node starts',
    watch: 'node',
    touches: onNode,
    applies: (fleet) => fleet.disks.every((d) => d.isMounted),
    plan: (r) => ({
      node: aNode(r),
      model: r.pick([DEMO, PARROT]),
      hold: r.int(1000, 4000),
      isRestart: r.int(0, 1) === 1,
    }),
    async inject(c) {
      await c.node.disk.fill();
      press(c);
      if (!c.p.isRestart) return void killWorkers(c, c.p.model);
      await c.node.stop('SIGKILL');
      await c.node.start().catch((error) => c.judge.note(error.message)); // it may refuse to start, not stay ill
    },
    async undo(c) {
      c.node.disk.free();
      if (!c.node.isUp) await c.node.start();
    },
  },
  {
    name: 'node-no-files',
    does: 'a node has no descriptor left while a worker dies',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: r.pick(MODELS), hold: r.int(500, 4000) }),
    async inject(c) {
      await aWorker(c, c.p.model);
      c.node.limitFiles(c.node.figures().files);
      killWorkers(c, c.p.model);
      press(c);
    },
    undo(c) {
      c.node.limitFiles();
    },
  },
  {
    name: 'folder-away',
    does: "a model's folder is away while its worker dies",
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: r.pick([DEMO, PARROT]), hold: r.int(500, 4000) }),
    async inject(c) {
      await aWorker(c, c.p.model);
      c.state.away = [path.join(c.node.models, c.p.model), path.join(c.node.disk.dir, `away-${c.p.model}`)];
      fs.renameSync(...c.state.away);
      killWorkers(c, c.p.model);
      press(c);
    },
    undo(c) {
      fs.renameSync(...c.state.away.reverse());
    },
  },
  {
    name: 'engine-cache-away',
    does: "the node's copies of engines are deleted while a worker dies",
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: r.pick(MODELS), hold: r.int(100, 1000) }),
    async inject(c) {
      await aWorker(c, c.p.model);
      fs.rmSync(path.join(c.node.dataDir, 'engine-cache'), { recursive: true, force: true });
      killWorkers(c, c.p.model);
      press(c);
    },
  },
];

// A proxy's mode for a while.  Bytes that were lost are never missing in the middle of a
// connection: such a connection is torn down.
const link = (name, does, mode, { isTorn = false, watch = 'node', ...more } = {}) => ({
  name,
  does,
  watch,
  touches: (p) => (watch === 'node' ? onNode(p) : onRouter(p)),
  plan: (r) => ({ node: aNode(r), router: r.int(0, 1), model: DEMO, hold: r.int(500, 7000), every: r.int(100, 900) }),
  inject(c) {
    const { proxy } = watch === 'node' ? c.node : c.router;
    proxy.every = c.p.every;
    if (mode === 'stall') proxy.stall();
    else proxy.mode = mode;
    if (mode === 'refuse') proxy.reset();
  },
  undo(c) {
    const { proxy } = watch === 'node' ? c.node : c.router;
    proxy.heal();
    if (isTorn) proxy.reset();
  },
  ...more,
});

const links = [
  link('link-delay', 'what a node says comes late', 'delay'),
  link('link-cut', 'connections to a node are cut and refused', 'refuse'),
  link('link-silent', 'what is sent to a node and back disappears', 'swallow', { isTorn: true }),
  link('link-stall', 'nothing passes to a node, and all of it later', 'stall'),
  link('link-corrupt', 'bytes on a TLS link change', 'corrupt', {
    isTorn: true,
    touches: () => ['n0'],
    plan: (r) => ({ node: 0, model: DEMO, hold: r.int(500, 5000) }),
  }),
  link('link-flips', 'bits on a link without TLS change', 'flips', {
    isTorn: true,
    plan: (r) => ({ node: r.int(1, NODES - 1), model: DEMO, hold: r.int(500, 7000), every: r.int(5, 60) }),
  }),
  link('heartbeats-cut', 'nodes cannot reach a router', 'refuse', { watch: 'router' }),
  link('heartbeats-stall', 'messages of nodes to a router arrive much later', 'stall', { watch: 'router' }),
];

const routers = [
  {
    name: 'router-kill',
    does: 'kill -9 of a router; started again',
    watch: 'router',
    touches: onRouter,
    plan: (r) => ({ router: r.int(0, 1), hold: r.int(0, 3000) }),
    inject(c) {
      excuse(c, 'cut');
      return c.router.stop('SIGKILL');
    },
    undo: (c) => c.router.start(),
  },
  {
    name: 'router-restart',
    does: 'SIGTERM of a router; started again',
    watch: 'router',
    touches: onRouter,
    plan: (r) => ({ router: r.int(0, 1), hold: r.int(0, 1000) }),
    inject(c) {
      excuse(c, 'down');
      return c.router.stop('SIGTERM', 20000);
    },
    undo: (c) => c.router.start(),
  },
  {
    name: 'router-freeze',
    does: 'SIGSTOP of a router, then SIGCONT',
    watch: 'router',
    touches: onRouter,
    plan: (r) => ({ router: r.int(0, 1), hold: r.int(300, 7000) }),
    inject(c) {
      c.router.signal('SIGSTOP');
    },
    undo(c) {
      c.router.signal('SIGCONT');
    },
  },
  {
    name: 'router-hup',
    does: 'SIGHUP of a router',
    watch: 'router',
    touches: onRouter,
    plan: (r) => ({ router: r.int(0, 1) }),
    inject(c) {
      c.router.signal('SIGHUP');
    },
  },
  {
    name: 'router-no-files',
    does: 'a router has no descriptor left',
    watch: 'router',
    touches: onRouter,
    plan: (r) => ({ router: r.int(0, 1), hold: r.int(500, 4000) }),
    inject(c) {
      excuse(c, 'down');
      c.router.limitFiles(c.router.figures().files);
    },
    undo(c) {
      c.router.limitFiles();
    },
  },
  {
    name: 'router-disk-full',
    does: 'the disk of a router is full; it may be killed and started again meanwhile',
    watch: 'write',
    touches: onRouter,
    applies: (fleet) => !hasPostgres(fleet) && fleet.disks.every((d) => d.isMounted),
    plan: (r) => ({ router: 0, hold: r.int(1000, 4000), isKilled: r.int(0, 1) === 1 }),
    async inject(c) {
      await c.router.disk.fill();
      if (!c.p.isKilled) return;
      await sleep(600); // usage waits for room
      excuse(c, 'cut');
      await c.router.stop('SIGKILL');
      await c.router.start().catch((error) => c.judge.note(error.message)); // it may refuse to start
    },
    async undo(c) {
      c.router.disk.free();
      if (!c.router.isUp) await c.router.start();
    },
  },
  {
    name: 'router-handover',
    does: 'a new router takes over from a router',
    watch: 'router',
    touches: onRouter,
    plan: (r) => ({ router: r.int(0, 1) }),
    inject: (c) => c.router.handOver(),
  },
  {
    name: 'router-successor-kill',
    isRare: true, // where the old router has finished, it cannot come back
    does: 'a new router takes over and is killed while the old one still drains',
    watch: 'router',
    touches: onRouter,
    plan: (r) => ({ router: r.int(0, 1), gap: r.int(0, 400) }),
    async inject(c) {
      const former = await c.router.handOver();
      await sleep(c.p.gap);
      excuse(c, 'cut');
      await c.router.stop('SIGKILL');
      const hasComeBack = () => c.router.log.includes(`router.took_back from_pid=${c.router.pid}`);
      const hasEnded = () => former.exitCode !== null || former.signalCode !== null;
      await until('the old router is back', () => hasEnded() || hasComeBack(), 5000);
      c.isStruck = hasComeBack();
      if (c.isStruck) c.router.comeBack(former);
      else await c.router.start();
    },
  },
  {
    name: 'expired-tokens',
    does: 'the tokens of all nodes have expired when routers start again',
    watch: 'fleet',
    touches: () => ['*'],
    plan: (r) => ({ router: 0, hold: r.int(0, 2000) }),
    async inject(c) {
      for (const { router, id } of c.fleet.tokens)
        await c.fleet.operate(router, `/v0/keys/${id}`, { expires_in: 1 }, 'PATCH');
      await sleep(1100);
      for (const router of c.fleet.routers) {
        c.atUndo.push(c.judge.open('cut', router.name));
        await router.stop('SIGKILL');
      }
    },
    async undo(c) {
      await Promise.all(c.fleet.routers.map((router) => router.start()));
    },
  },
  {
    name: 'clock-step',
    does: "a router's clock jumps while it runs, by seconds or to another month, and comes back",
    watch: 'fleet',
    touches: onRouter,
    applies: () => fakeClock() !== undefined,
    plan: (r) => ({ router: r.int(0, 1), to: r.pick(['+45', '-120', '+3600', '+40d']), hold: r.int(500, 3000) }),
    async inject(c) {
      const done = c.judge.open('down', c.router.name);
      await c.router.stop('SIGTERM', DRAIN_TIMEOUT + 5000);
      c.router.clock = makeClock();
      await c.router.start();
      done();
      if (c.p.to.endsWith('d')) c.atUndo.push(c.judge.open('dated', DEMO)); // gpt-oss is told the date
      c.router.clock.set(c.p.to);
    },
    undo(c) {
      c.router.clock.set('+0'); // from here on it has to be right by itself
      c.atHeal.push(async () => {
        const done = c.judge.open('down', c.router.name);
        await c.router.stop('SIGTERM', DRAIN_TIMEOUT + 5000);
        c.router.clock = undefined;
        await c.router.start();
        done();
        c.judge.lastFault = Date.now();
        await c.judge.heal();
      });
    },
  },
  {
    name: 'clock-skew',
    does: "a router's clock is wrong, by up to an hour, for a while, and nodes start meanwhile",
    watch: 'fleet',
    touches: () => ['*'],
    applies: () => fakeClock() !== undefined,
    plan: (r) => ({ router: r.int(0, 1), skew: `${r.pick(['+', '-'])}${r.pick([15, 60, 3600])}`, hold: 1000 }),
    async inject(c) {
      const done = c.judge.open('down', c.router.name);
      await c.router.stop('SIGTERM', 20000);
      c.router.skew = c.p.skew;
      await c.router.start();
      done();
      // Nodes that start now learn of the routers from one of them.
      for (const node of c.fleet.nodes.slice(0, 2)) {
        await node.stop('SIGKILL');
        await node.start();
      }
      c.judge.lastFault = Date.now();
      await c.judge.heal(); // a wrong clock is no reason to be ill
    },
    async undo(c) {
      excuse(c, 'down');
      await c.router.stop('SIGTERM', 20000);
      c.router.skew = undefined;
      await c.router.start();
    },
  },
];

const registry = [
  {
    name: 'model-forget',
    does: 'a model is deleted, and registered again',
    watch: 'fleet',
    touches: onRegistry,
    plan: (r) => ({ router: r.int(0, 1), model: r.pick([DEMO, PARROT]), hold: r.int(0, 2500) }),
    async inject(c) {
      c.atHeal.push(c.judge.open('gone', c.p.model));
      await c.fleet.forget(c.p.router, c.p.model);
    },
    undo: (c) => c.fleet.registerPath(c.p.router, c.p.model),
  },
  {
    name: 'model-revision',
    does: "the hub's model is registered again at once, at another revision",
    watch: 'fleet',
    touches: () => ['r0', 'r1', 'registry'],
    plan: (r) => ({ router: r.int(0, 1), model: HUB, isUnseen: r.int(0, 1) === 1 }),
    async inject(c) {
      const letter = c.fleet.revision === 'A' ? 'B' : 'A';
      c.atHeal.push(c.judge.open('gone', HUB), () => c.judge.settleRevision());
      c.judge.changeRevision(letter);
      // Another router that looks only afterwards sees no moment without the model.
      const others = c.p.isUnseen ? c.fleet.routers.filter((r) => r !== c.router) : [];
      others.forEach((r) => r.signal('SIGSTOP'));
      try {
        await c.fleet.forget(c.p.router, HUB);
        await c.fleet.registerHub(letter, c.p.router);
      } finally {
        others.forEach((r) => r.signal('SIGCONT'));
      }
    },
  },
];

// The hub is away when nodes want to fetch.
registry.push({
  name: 'hub-away',
  does: 'the hub goes away when a model is registered at another revision, and comes back',
  watch: 'fleet',
  touches: onRegistry,
  plan: (r) => ({ router: r.int(0, 1), model: HUB, hold: r.int(300, 4000) }),
  async inject(c) {
    c.fleet.hub.script(
      'chat_template.jinja',
      Array.from({ length: 3 }, () => ({ status: 503 })),
    ); // whoever is quicker
    const letter = c.fleet.revision === 'A' ? 'B' : 'A';
    c.atHeal.push(c.judge.open('gone', HUB), () => c.judge.settleRevision());
    c.judge.changeRevision(letter);
    await c.fleet.forget(c.p.router, HUB);
    await c.fleet.registerHub(letter, c.p.router);
    c.fleet.hub.down = true;
  },
  undo(c) {
    c.fleet.hub.down = false;
    c.fleet.hub.script('chat_template.jinja', []);
  },
});

const databases = [
  {
    name: 'database-gone',
    does: 'the database crashes; started again',
    watch: 'write',
    touches: () => ['database', 'registry'],
    applies: hasPostgres,
    plan: (r) => ({ router: r.int(0, 1), hold: r.int(500, 6000) }),
    inject: (c) => c.fleet.postgres.stop(),
    undo: (c) => c.fleet.postgres.again(),
  },
  {
    name: 'database-frozen',
    does: 'the database is frozen (SIGSTOP), then goes on; a router may have to stop meanwhile',
    watch: 'write',
    touches: (p) => ['database', ...onRouter(p)],
    applies: hasPostgres,
    plan: (r) => ({ router: r.int(0, 1), hold: r.int(500, 14000), isRestart: r.int(0, 2) === 0 }),
    async inject(c) {
      c.fleet.postgres.freeze();
      const limit = 12000 * c.judge.limits.slow;
      exchange(`${c.router.url}/v0/keys`, { body: { name: 'while frozen', expires_in: 60 }, ms: limit }).catch(
        (error) => {
          if (error.stage === 'late')
            c.judge.broke(
              'nothing hangs',
              `an operator's change at ${c.router.name} had no answer within ${limit} ms while the database was frozen`,
            );
        },
      );
      if (!c.p.isRestart) return;
      excuse(c, 'down');
      await sleep(500);
      await c.router.stop('SIGTERM', DRAIN_TIMEOUT + 5000);
    },
    async undo(c) {
      c.fleet.postgres.thaw();
      if (!c.router.isUp) await c.router.start();
    },
  },
  {
    name: 'database-restored',
    does: 'the database is that of an earlier backup again',
    watch: 'fleet',
    touches: () => ['*'],
    plan: (r) => ({ router: 0, hold: r.int(0, 1000) }),
    async inject(c) {
      c.atHeal.push(c.judge.open('gone', HUB), () => c.judge.settleRevision());
      c.judge.books.forget();
      if (c.fleet.postgres) return c.fleet.postgres.stop();
      excuse(c, 'cut');
      return c.router.stop('SIGKILL');
    },
    async undo(c) {
      c.judge.changeRevision(c.fleet.backedUp);
      await c.fleet.restore();
      if (!c.fleet.postgres) await c.router.start();
    },
  },
];

export const FAULTS = [...workers, ...nodes, ...links, ...routers, ...registry, ...databases];

// Whether what a fault struck serves again.
export async function isServed(c) {
  const { fleet, judge, p } = c;
  if (c.fault.watch === 'node') return (await judge.unservedAtNode(c.node, p.model)) === undefined;
  if (c.fault.watch === 'router') return (await judge.unservedAtRouter(c.router, DEMO)) === undefined;
  if (c.fault.watch === 'write')
    return (
      (
        await exchange(`${c.router.url}/v0/keys`, { body: { name: 'probe', expires_in: 60 }, ms: 3000 }).catch(
          () => ({}),
        )
      ).status === 201
    );
  for (const router of fleet.routers)
    if ((await judge.unservedAtRouter(router, p.model ?? DEMO)) !== undefined) return false;
  return true;
}
