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
import { writeEchoModel } from '../support/echo_model.mjs';
import { sleep, until } from '../support/scene.mjs';
import {
  aNode,
  aWorker,
  excuse,
  fillSlot,
  hasPostgres,
  killWorkers,
  onNode,
  onRegistry,
  onRouter,
  press,
  workers,
} from './faults_workers.mjs';
import { DEMO, ENGINE, HUB, MODELS, NODES, PARROT } from './fleet.mjs';
import { ask, exchange } from './http.mjs';
import { fakeClock } from './members.mjs';

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
    inject: (c) => c.node.stop('SIGTERM', c.fleet.drainMs + 5000),
    undo: (c) => c.node.start(),
  },
  {
    name: 'node-drain-crash',
    does: 'SIGTERM of a node, and its workers are killed while it drains',
    watch: 'node',
    touches: onNode,
    plan: (r) => ({ node: aNode(r), model: DEMO, gap: r.int(5, 120) }),
    async inject(c) {
      const ended = c.node.stop('SIGTERM', c.fleet.drainMs - 4000); // nothing is left to wait for
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
    name: 'other-weights',
    isRare: true,
    does: 'a node has other weights of a model than the others for a while; its worker dies when they come and go',
    watch: 'node',
    touches: (p) => [...onNode(p), 'weights'],
    plan: (r) => ({ node: aNode(r), model: PARROT, hold: r.int(500, 3000) }),
    async inject(c) {
      c.atHeal.push(c.judge.open('other', PARROT));
      const folder = path.join(c.node.models, PARROT);
      const away = path.join(c.node.disk.dir, `own-${PARROT}`);
      const { testing } = JSON.parse(fs.readFileSync(path.join(folder, 'config.json')));
      const other = writeEchoModel(path.join(c.node.disk.dir, 'other', PARROT), 'faulty', { ...testing, shout: true });
      c.state.back = () => {
        fs.rmSync(folder, { recursive: true });
        fs.renameSync(away, folder);
      };
      await aWorker(c, PARROT);
      fs.renameSync(folder, away);
      fs.renameSync(other, folder);
      killWorkers(c, PARROT);
      press(c);
      const isTold = async () =>
        (await ask(`${c.router.url}/v0/alerts`, { ms: 3000 })).json?.alerts?.some(
          (a) => a.kind === 'model_differs' && a.open,
        );
      await until('the alert', isTold, c.judge.limits.heal).catch(() =>
        c.judge.broke('other weights under one name are an alert', `${c.node.name} has other weights of ${PARROT}`),
      );
    },
    undo(c) {
      c.state.back();
      killWorkers(c, PARROT);
    },
  },
  {
    name: 'full-load-death',
    does: 'every slot of a model is taken when a worker or a node dies',
    watch: 'node',
    touches: () => ['*'],
    plan: (r) => ({ node: aNode(r), model: PARROT, hold: 300, isNode: r.int(0, 1) === 1 }),
    async inject(c) {
      for (const node of c.fleet.nodes) await aWorker({ ...c, node }, PARROT);
      const slots = ((await c.fleet.nodesAt(c.router)) ?? [])
        .map((n) => n.models.find((m) => m.id === PARROT)?.slots ?? 0)
        .reduce((n, m) => n + m, 0);
      let begun = 0;
      c.state.streams = Array.from({ length: slots }, (_, i) =>
        fillSlot(c, c.fleet.routers[i % c.fleet.routers.length], () => begun++),
      );
      await until('most of them run', () => begun >= slots / 2, c.judge.limits.bound).catch(() =>
        c.judge.note(`${begun} of ${slots} streams had begun`),
      );
      c.isStruck = true;
      if (c.p.isNode) await c.node.stop('SIGKILL');
      else killWorkers(c, PARROT);
    },
    async undo(c) {
      if (c.p.isNode) await c.node.start();
      await Promise.all(c.state.streams);
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
      return c.router.stop('SIGTERM', c.fleet.drainMs + 8000);
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
      await c.router.stop('SIGTERM', c.fleet.drainMs + 5000);
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
        await c.router.stop('SIGTERM', c.fleet.drainMs + 5000);
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
      await c.router.stop('SIGTERM', c.fleet.drainMs + 8000);
      c.atHeal.push(c.judge.open('dated', DEMO)); // an hour may be another day
      c.state.isRight = c.judge.open('clock');
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
      await c.router.stop('SIGTERM', c.fleet.drainMs + 8000);
      c.router.skew = undefined;
      await c.router.start();
      c.state.isRight();
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
      await c.router.stop('SIGTERM', c.fleet.drainMs + 5000);
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
