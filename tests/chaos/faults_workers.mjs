// Faults of workers, and what other faults share with them (faults.mjs says what an object has).
import fs from 'node:fs';
import { sleep, until } from '../support/scene.mjs';
import { ASKS, gather } from './asks.mjs';
import { DEMO, MODELS, NODES, PARROT, POISON, STEP_TIMEOUT } from './fleet.mjs';
import { ask, exchange } from './http.mjs';
import { isAlive, signal } from './members.mjs';

export const aNode = (r) => r.int(0, NODES - 1);
export const onNode = (p) => [`n${p.node}`];
export const onRouter = (p) => [`r${p.router}`, 'registry'];
export const onRegistry = () => ['registry'];
export const hasPostgres = (fleet) => fleet.postgres !== undefined;

// A signal to the node's workers of a model; the result is which processes got it.
export function killWorkers(c, model, name = 'SIGKILL') {
  const pids = c.node
    .workers(model)
    .map(({ pid }) => pid)
    .filter((pid) => signal(pid, name));
  if (pids.length === 0) c.judge.note(`${c.fault.name}: ${c.node.name} has no worker of ${model ?? 'any model'}`);
  else c.isStruck = true;
  return pids;
}

// A worker of the model: one is loaded where none is.
export async function aWorker(c, model) {
  const found = c.node.workers(model);
  if (found.length) return found[0].pid;
  void c.fleet.order(c.node, model, 'load');
  return until(`a worker of ${model} on ${c.node.name}`, () => c.node.workers(model)[0]?.pid, 5000).catch(
    () => undefined,
  );
}

// Requests of the model come to this node until the fault is over: whatever they get, the node
// has to try.
export function press(c) {
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

// A long answer that takes a slot, whatever dies meanwhile: whole, or refused before it began.
export async function fillSlot(c, router, onBegun) {
  const text = `${c.fault.name} `.repeat(20).trim();
  const body = { model: PARROT, stream: true, messages: [{ role: 'user', content: text }] };
  const broke = (what) =>
    c.judge.broke('every answer is the undisturbed one', `${c.fault.name} at ${router.name}: ${what}`);
  let hasBegun = false;
  const onData = (got) => {
    if (!hasBegun && got.includes('"content"')) onBegun();
    hasBegun ||= got.includes('"content"');
  };
  const answer = await exchange(`${router.url}/v1/chat/completions`, {
    body,
    key: c.fleet.key,
    ms: c.judge.limits.bound,
    onData,
  }).catch((error) => broke(error.message));
  if (answer === undefined || answer.status === 429 || answer.status === 503) return;
  const got = answer.status === 200 && gather('/v1/chat/completions', answer.text);
  if (!got?.isWhole || got.error || got.essence.choices[0]?.text !== text)
    broke(`status ${answer.status}: ${answer.text.slice(-300)}`);
}

export const excuse = (c, kind) => c.atUndo.push(c.judge.open(kind, c.router.name));

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

export const workers = [
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
