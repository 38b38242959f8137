// The rules of a chaos test, and the record of broken rules.  While a fault lasts, it allows the
// errors that it makes unavoidable (a killed router cuts its connections); every other error is a broken rule.
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../support/scene.mjs';
import { ASKS, essence, shout } from './asks.mjs';
import { DEMO, HUB, MODELS, NODE_TIMEOUT, NODES, PARROT } from './fleet.mjs';
import { ask } from './http.mjs';
import { isAlive } from './members.mjs';

const PROBES = { [DEMO]: 'chat Hello', [PARROT]: 'parrot short', [HUB]: 'hub 12' };

// How much more memory, descriptors and threads than at the beginning a router or a node may have
// at the end: enough for an allocator and connection pools, not enough for a leak with every fault.
// docs/testing.md states these, too.
export const TOLERANCE = { memory: (base) => base * 0.25 + (24 << 20), files: () => 24, threads: () => 4 };

const overlaps = (w, from, to) => w.from <= to && w.until >= from;

export class Judge {
  constructor({ fleet, limits, keepGoing }) {
    Object.assign(this, {
      fleet,
      limits,
      keepGoing,
      isClosed: false,
      lastFault: 0,
      begun: Date.now(),
      trace: [],
      broken: [],
      windows: [],
      revisions: [],
      good: 0,
    });
    this.whenBroken = new Promise((done) => {
      this.#tellBroken = done;
    });
  }

  #tellBroken;

  note(text) {
    this.trace.push({ at: Date.now() - this.begun, text });
  }

  broke(rule, text, told) {
    if (this.isClosed) return; // what dies with the fleet proves nothing
    const at = told?.from ?? Date.now();
    this.broken.push({ rule, text });
    this.note(`BROKEN: ${rule}: ${text}${told ? ` [asked at ${((at - this.begun) / 1000).toFixed(3)} s]` : ''}`);
    if (!this.keepGoing) this.#tellBroken();
  }

  get isOver() {
    return this.broken.length > 0 && !this.keepGoing;
  }

  // ---- what is excused, and when ----

  // kind 'clock': a router's clock is wrong; 'other': a node has other weights of a model; 'down': a router takes no connection; 'cut': and cuts those it has; 'gone': a model
  // is deleted; 'dated': a router's clock says another day, which prompts of a model name; 'storm': faults are under way or healing.  The result ends it.
  open(kind, subject) {
    const window = { kind, subject, from: Date.now(), until: Infinity };
    this.windows.push(window);
    return () => {
      window.until = Date.now();
    };
  }

  #within(kinds, subject, from, to) {
    return this.windows.some((w) => kinds.includes(w.kind) && w.subject === subject && overlaps(w, from, to));
  }

  isCutExcused(router, stage, from, to) {
    return this.#within(stage === 'before' ? ['down', 'cut'] : ['cut'], router.name, from, to);
  }
  isGone(model, from, to) {
    return this.#within(['gone'], model, from, to);
  }
  // Then its answer is another one, and only has to be whole.  Midnight does the same: the storm goes on.
  isDated(model, from, to) {
    const isLater = model === DEMO && new Date(to).getUTCDate() !== new Date(this.begun).getUTCDate();
    return isLater || this.#within(['dated'], model, from, to);
  }
  // Then each choice of its answer is one of two, whole.
  isOther(model, from, to) {
    return this.#within(['other'], model, from, to);
  }
  isStormy(from, to) {
    return this.#within(['storm'], undefined, from, to);
  }

  // From now on the hub's model says what this revision says; what came before until settle().
  changeRevision(letter) {
    this.revisions.push({ letter, from: Date.now(), until: Infinity });
  }
  settleRevision() {
    for (const r of this.revisions.slice(0, -1)) r.until = Math.min(r.until, Date.now());
  }
  revisionsWithin(from, to) {
    return new Set(this.revisions.filter((r) => overlaps(r, from, to)).map((r) => r.letter));
  }

  noteGood() {
    this.good++;
  }

  // ---- two strikes ----

  // Why a 500 is not the end of a request that two workers died of; undefined: it is.  Each
  // death that a request alone can have caused is a line in its node's log.
  doubtStrikes(id) {
    if (id === undefined) return 'the answer names no request';
    const strikes = this.fleet.nodes
      .flatMap((n) => n.log.split('\n'))
      .filter((line) => line.includes('request.lost') && line.includes(id) && line.includes('strike=1'));
    return strikes.length >= 2 ? undefined : `the nodes tell of ${strikes.length} strikes`;
  }

  // ---- is everything well? ----

  // What is not, in words: routers, nodes and models.
  async ailments() {
    const all = await Promise.all(
      this.fleet.routers.map(async (router) => {
        const [nodes, health] = await Promise.all([
          this.fleet.nodesAt(router),
          ask(`${router.url}/health`, { ms: 3000 }),
        ]);
        if (!nodes || health.status !== 200) return [`${router.name} does not answer`];
        return nodesIll(nodes, Date.now() - this.lastFault).map((text) => `${router.name}: ${text}`);
      }),
    );
    return all.flat();
  }

  // Alerts that are open and should not be.
  async alerts() {
    const all = await Promise.all(
      this.fleet.routers.map(async (router) => {
        const [nodes, alerts] = [await this.fleet.nodesAt(router), await ask(`${router.url}/v0/alerts`, { ms: 3000 })];
        if (!nodes || !alerts.json) return [`${router.name} does not answer`];
        return alertsOpen(alerts.json.alerts, nodes, this.#within(['clock'], undefined, Date.now(), Date.now())).map(
          (text) => `${router.name}: ${text}`,
        );
      }),
    );
    return all.flat();
  }

  #right(one) {
    const calm = this.load.expected.get(one.name);
    return one.model === HUB && this.fleet.revision === 'B' ? JSON.stringify(shout(JSON.parse(calm))) : calm;
  }

  // Whether a model is served at this address; undefined: it is.  A model that is on disk is
  // loaded by this.
  async #unserved(where, name, model, options) {
    const one = ASKS.find((a) => a.name === PROBES[model]);
    const answer = await ask(`${where}${one.path}`, { body: one.body, ms: this.limits.bound, ...options });
    if (answer.status !== 200) return `${name} answers ${model} with ${answer.status} ${answer.text.slice(0, 200)}`;
    const is = JSON.stringify(essence(one.path, answer.json));
    if (this.isDated(model, Date.now(), Date.now())) return undefined;
    return is === this.#right(one) ? undefined : `${name} answers ${model} with ${is}, not ${this.#right(one)}`;
  }

  unservedAtNode(node, model, ms = 3000) {
    return this.#unserved(node.url, node.name, model, { key: this.fleet.secretOf(node), ca: this.fleet.ca, ms });
  }

  unservedAtRouter(router, model, ms = 3000) {
    return this.#unserved(router.url, router.name, model, { key: this.fleet.key, ms });
  }

  async unserved() {
    const all = [];
    for (const model of MODELS) {
      for (const node of this.fleet.nodes) all.push(this.unservedAtNode(node, model));
      for (const router of this.fleet.routers) all.push(this.unservedAtRouter(router, model));
    }
    return (await Promise.all(all)).filter(Boolean);
  }

  // Comes back when the whole fleet is well, with the time; or breaks the rule, `limit` after the last fault.
  async heal(limit = this.limits.heal) {
    const begun = this.lastFault;
    let ill;
    do {
      ill = await this.ailments();
      if (ill.length === 0) ill = await this.unserved();
      // Some alerts end when a model has served, and a probe may just have found out.
      if (ill.length === 0) ill = [...(await this.ailments()), ...(await this.alerts()), ...this.#excesses()];
      if (ill.length === 0) return Date.now();
      await sleep(50);
    } while (Date.now() - begun < limit && !this.isOver);
    if (!this.isOver)
      this.broke(
        'everything is well in time',
        `${((Date.now() - begun) / 1000).toFixed(1)} s after the last fault:\n    ${ill.join('\n    ')}`,
      );
    return undefined;
  }

  // ---- what processes hold ----

  figures() {
    return new Map([...this.fleet.routers, ...this.fleet.nodes].map((m) => [m.name, m.figures()]));
  }

  // Since the beginning, which is set once it is known.  Clients have connections, too.
  #excesses() {
    const out = [];
    const open = { memory: 0, threads: 0, files: this.load.isOn ? 2 * this.load.clients : 0 };
    const { base } = this;
    for (const [name, now] of base ? this.figures() : [])
      for (const [what, allow] of Object.entries(TOLERANCE))
        if (now[what] > base.get(name)[what] + allow(base.get(name)[what]) + open[what])
          out.push(`${name} has ${what} ${show(what, now[what])}, had ${show(what, base.get(name)[what])}`);
    return [...out, ...this.#leftWorkers()];
  }

  // One worker for each model of each node, and none of a node that has ended.
  #leftWorkers() {
    const out = [];
    for (const node of this.fleet.nodes) {
      const count = node.workers().length;
      if (count > MODELS.length) out.push(`${node.name} has ${count} workers for ${MODELS.length} models`);
      for (const pid of node.pids.filter((p) => p !== node.pid))
        if (isAlive(pid)) out.push(`${node.name}: process ${pid} of an earlier start is alive`);
    }
    const dead = new Set(
      this.fleet.nodes.flatMap((n) => n.pids.filter((p) => p !== n.pid)).map((p) => `--parent=${p}`),
    );
    for (const entry of fs.readdirSync('/proc').filter((e) => /^\d+$/.test(e))) {
      let args = [];
      try {
        args = fs.readFileSync(path.join('/proc', entry, 'cmdline'), 'utf8').split('\0');
      } catch {
        /* it has just ended */
      }
      if (args[1] === 'worker' && args.some((a) => dead.has(a))) out.push(`worker ${entry} outlived its node`);
    }
    return out;
  }

  // Long enough for a silence to be noticed, everything stays well.
  async checkStays() {
    this.lastFault = Date.now();
    await sleep(NODE_TIMEOUT + 1000);
    await this.heal(0);
  }

  // After the storm, without load: memory, descriptors, threads, slots.
  async checkLeft() {
    const end = Date.now() + this.limits.heal;
    let left;
    do {
      left = this.#excesses();
      for (const router of this.fleet.routers)
        for (const n of (await this.fleet.nodesAt(router)) ?? [])
          for (const m of n.models)
            if (m.inflight) left.push(`${router.name}: ${m.inflight} requests of ${m.id} run on ${n.name}`);
      if (left.length === 0) return;
      await sleep(200);
    } while (Date.now() < end);
    for (const text of left) this.broke('memory, descriptors, threads and slots are back where they were', text);
  }

  // Everything stops when it is told to.
  async checkStop() {
    const all = [...this.fleet.nodes, ...this.fleet.routers];
    await Promise.all(
      all.map((m) =>
        m
          .stop('SIGTERM', this.fleet.drainMs + 5000)
          .catch((error) => this.broke('what is told to stop stops', error.message)),
      ),
    );
  }

  // What a log must never say.
  checkLogs() {
    for (const member of [...this.fleet.routers, ...this.fleet.nodes]) {
      const line = member.log
        .split('\n')
        .find((l) => /state\.bad_move|ERROR: \w+Sanitizer|runtime error:|Assertion/.test(l));
      if (line) this.broke('no log tells of a mistake in the program', `${member.name}: ${line}`);
    }
  }
}

export const show = (what, value) => (what === 'memory' ? `${(value / 1048576).toFixed(1)} MB` : `${value}`);

// `since`: how long ago the last fault ended.
function nodesIll(nodes, since) {
  const out = [];
  for (let i = 0; i < NODES; i++) {
    const found = nodes.filter((n) => n.name === `n${i}`);
    const node = found[0];
    if (found.length !== 1) {
      out.push(`n${i} is listed ${found.length} times`);
      continue;
    }
    if (!node.online || node.drained || node.draining) {
      out.push(`n${i} is ${node.online ? 'draining' : 'offline'}`);
      continue;
    }
    if (node.silent_ms > since) out.push(`no heartbeat of n${i} was taken after the fault`);
    for (const id of MODELS) {
      const model = node.models.find((m) => m.id === id);
      // What is on disk and not loaded is loaded by the next request.
      if (!['ready', 'present'].includes(model?.state))
        out.push(`${id} on n${i} is ${model?.state ?? 'missing'}${model?.reason ? ` (${model.reason})` : ''}`);
    }
  }
  return out;
}

// An alert about memory may be true: the machine is others', too.  One key has spent its budget (books.mjs).
function alertsOpen(alerts, nodes, isClockWrong) {
  const isTrue = (a) =>
    a.kind === 'budget_spent' ||
    (a.kind === 'clock_differs' && isClockWrong) ||
    (a.kind === 'memory_alert' && nodes.some((n) => n.id === a.node && n.memory.some((m) => m.used >= 0.85 * m.total)));
  return alerts
    .filter((a) => a.open && !isTrue(a))
    .map((a) => `open alert ${a.kind} ${a.node_name ?? ''} ${a.subject ?? ''}: ${a.message}`);
}
