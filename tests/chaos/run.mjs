// make chaos: a fleet under load and a seeded sequence of faults, with every answer compared
// to the undisturbed one.  docs/testing.md says how to use it and how to add a fault.
//   run.mjs [--seed N] [--minutes M] [--database sqlite|postgres] [--only FAULT,...] [--without FAULT,...] [--calm]
//           [--rounds N] [--clients N] [--slow X] [--keep-going] [--plan] [--results FILE]
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { sleep, until } from '../support/scene.mjs';
import { Books } from './books.mjs';
import { FAULTS, isServed } from './faults.mjs';
import { Fleet, MODELS, NODES } from './fleet.mjs';
import { Load } from './load.mjs';
import { ROOT } from './members.mjs';
import { Random } from './random.mjs';
import { Judge, show, TOLERANCE } from './rules.mjs';

const seconds = (ms) => (ms / 1000).toFixed(1);

// The storm, round after round, as the seed has it: each fault comes once before any comes
// again; those of a round touch different things and leave a node alone.
export function* schedule(seed, faults, routers, longestHold = Infinity) {
  const random = new Random(seed);
  let bag = [];
  const draw = () => {
    if (bag.length === 0) bag = random.shuffle(faults);
    const fault = bag.pop();
    const p = fault.plan(random);
    if (p.router !== undefined) p.router %= routers;
    if (p.hold !== undefined) p.hold = Math.min(p.hold, longestHold);
    return { fault, p, after: random.int(0, 1500), touches: fault.touches(p) };
  };
  let waiting;
  for (;;) {
    const round = [];
    for (let left = random.pick([1, 1, 2, 2, 3]); left > 0; left--) {
      const strike = waiting ?? draw();
      waiting = undefined;
      if (!fits(strike, round)) {
        waiting = strike;
        break;
      }
      round.push(strike);
    }
    yield { strikes: round, pause: random.int(100, 800) };
  }
}

function fits(strike, round) {
  if (round.length === 0) return true;
  const taken = new Set(round.flatMap((s) => s.touches));
  if (taken.has('*') || strike.touches.includes('*') || strike.touches.some((t) => taken.has(t))) return false;
  return [...taken, ...strike.touches].filter((t) => /^n\d$/.test(t)).length < NODES;
}

const words = ({ fault, p }) =>
  `${fault.name} ${Object.entries(p)
    .map(([k, v]) => `${k}=${v}`)
    .join(' ')}`;

// One fault from beginning to end; its recovery is timed from its undo on.
async function strike(one, c) {
  const { fault, p } = one;
  await sleep(one.after);
  if (c.judge.isOver) return;
  c.judge.note(`${words(one)}`);
  await fault.inject(c);
  if (p.hold) await sleep(p.hold);
  c.judge.note(`end of ${fault.name}`);
  c.ended = c.judge.lastFault = Date.now();
  await fault.undo?.(c);
  c.atUndo.forEach((f) => f());
  const limit = c.ended + c.judge.limits.heal;
  while (!(await isServed(c)) && Date.now() < limit && !c.judge.isOver) await sleep(50);
  c.served = Date.now() - c.ended; // where the limit was over, the whole fleet will not be well either
}

async function playRound({ strikes }, { fleet, judge, table }) {
  const calm = judge.open('storm');
  const contexts = strikes.map((one) => ({
    fleet,
    judge,
    fault: one.fault,
    p: one.p,
    node: fleet.nodes[one.p.node],
    router: fleet.routers[one.p.router ?? 0],
    atUndo: [],
    atHeal: [],
    state: {},
  }));
  await Promise.all(
    strikes.map((one, i) =>
      strike(one, contexts[i]).catch((error) =>
        judge.broke('an operator can do what the fault needs', `${one.fault.name}: ${error.message}`),
      ),
    ),
  );
  if (judge.isOver) return;
  const well = await judge.heal();
  if (well === undefined) return;
  await judge.books.check();
  const took = well - Math.max(...contexts.map((c) => c.ended));
  for (const c of contexts) {
    for (const f of c.atHeal) await f();
    const stats = table.get(c.fault.name);
    if (c.fault.isRare && !c.isStruck) {
      stats.missed++;
      continue;
    }
    stats.count++;
    stats.served.push(c.served);
    stats.well.push(took);
  }
  judge.note(`well again after ${seconds(took)} s`);
  calm();
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor((list.length - 1) / 2)];
const cell = (list, f) => (list.length ? `${seconds(f(list))} s` : '-');
const worst = (list) => Math.max(...list);

function tableText(table) {
  const rows = [...table].filter(([, s]) => s.count > 0);
  return [
    '| fault | count | served again, median | worst | fleet well, median | worst |',
    '|---|---|---|---|---|---|',
    ...rows.map(
      ([name, s]) =>
        `| ${name} | ${s.count} | ${cell(s.served, median)} | ${cell(s.served, worst)} | ${cell(s.well, median)} | ${cell(s.well, worst)} |`,
    ),
  ].join('\n');
}

function figuresText(base, now) {
  const row = (name) =>
    Object.keys(TOLERANCE)
      .map((what) => `${what} ${show(what, base.get(name)[what])} -> ${show(what, now.get(name)[what])}`)
      .join(', ');
  return [...base.keys()].map((name) => `  ${name}: ${row(name)}`).join('\n');
}

function traceText(trace, last = Infinity) {
  const from = Math.max(0, trace.length - last);
  return trace
    .slice(from)
    .map(({ at, text }) => `${(at / 1000).toFixed(3).padStart(9)} s  ${text}`)
    .join('\n');
}

// Undisturbed: answers, loading times, what processes hold.
async function prepare({ fleet, load, judge, limits, say }) {
  const well = async () => {
    judge.lastFault = Date.now();
    if ((await judge.heal(30000)) === undefined)
      throw new Error(`undisturbed, the fleet is not well: ${judge.broken.at(-1).text}`);
  };
  await fleet.start();
  judge.changeRevision('A');
  await until('all models are there', async () => (await judge.ailments()).length === 0, 30000);
  await load.learn();
  await well();
  let longest = 0;
  for (const model of MODELS) {
    await fleet.order(fleet.nodes[0], model, 'unload');
    const begun = Date.now();
    if ((await judge.unservedAtNode(fleet.nodes[0], model, 20000)) === undefined)
      longest = Math.max(longest, Date.now() - begun);
  }
  limits.heal = (10000 + longest) * limits.slow;
  await judge.books.begin();
  await fleet.backup();
  await well();
  load.start();
  await sleep(1500);
  await load.stop();
  say(
    `undisturbed: ${load.expected.size} kinds of requests learned, longest load ${seconds(longest)} s; everything must be well within ${seconds(limits.heal)} s`,
  );
  return judge.figures();
}

// Runs a storm and tells how it was: { broken, counts, faults, text }.
export async function storm({
  seed = 1,
  minutes = 3,
  database = 'sqlite',
  only = [],
  calm = false,
  rounds = Infinity,
  clients = 8,
  slow = 1,
  keepGoing = false,
  longestHold = Infinity,
  logDir = path.join(ROOT, 'build/chaos-log'),
  say = console.log,
} = {}) {
  const limits = { bound: 30000 * slow, refused: 45000 * slow, heal: 20000 * slow, slow };
  const fleet = new Fleet({
    database,
    logDir,
    slow,
    onDeath: (member, how) => judge.broke('no process ends by itself', `${member.name} ended: ${how}`),
  });
  const judge = new Judge({ fleet, limits, keepGoing });
  const load = new Load({ fleet, judge, clients, limits, seed });
  judge.load = load;
  judge.books = new Books({ fleet, judge, limits });
  say(`chaos: seed ${seed}, ${minutes} minutes, ${database}, ${NODES} nodes, ${clients} clients, logs in ${logDir}`);
  let base,
    table = new Map(),
    text = '';
  try {
    base = judge.base = await prepare({ fleet, load, judge, limits, say });
    const faults = calm ? [] : pickFaults(fleet, only, say);
    table = new Map(faults.map((f) => [f.name, { count: 0, missed: 0, served: [], well: [] }]));
    const end = Date.now() + minutes * 60000;
    load.start();
    judge.books.start();
    if (calm) await Promise.race([sleep(end - Date.now()), judge.whenBroken]);
    else
      await play(schedule(seed, faults, fleet.routers.length, longestHold), {
        fleet,
        judge,
        load,
        table,
        end,
        rounds,
        say,
      });
    await Promise.race([load.stop(), judge.whenBroken]);
    await Promise.race([judge.books.stop(), judge.whenBroken]);
    if (!judge.isOver) await judge.checkStays();
    if (!judge.isOver) await judge.books.check();
    if (!judge.isOver) await judge.checkLeft();
    const held = judge.figures();
    if (!judge.isOver) await judge.checkStop();
    judge.checkLogs();
    text = summary({ judge, load, table, base, held });
  } finally {
    load.isOn = false;
    judge.isClosed = true;
    fs.writeFileSync(path.join(logDir, 'trace.log'), `${traceText(judge.trace)}\n`);
    await fleet.close();
  }
  const faults = [...table.values()].reduce((sum, s) => sum + s.count, 0);
  return { broken: judge.broken, counts: load.counts, faults, text, trace: judge.trace, limits };
}

function pickFaults(fleet, only, say) {
  for (const name of only)
    if (!FAULTS.some((f) => f.name === name))
      throw new Error(`there is no fault "${name}": ${FAULTS.map((f) => f.name).join(', ')}`);
  const wanted = FAULTS.filter((f) => only.length === 0 || only.includes(f.name));
  const able = wanted.filter((f) => f.applies?.(fleet) ?? true);
  if (able.length < wanted.length)
    say(
      `left out, not possible here: ${wanted
        .filter((f) => !able.includes(f))
        .map((f) => f.name)
        .join(', ')}`,
    );
  return able;
}

async function play(plan, { end, rounds, judge, say, load, ...more }) {
  let tell = Date.now() + 60000;
  for (let i = 0; i < rounds && Date.now() < end && !judge.isOver; i++) {
    const round = plan.next().value;
    if (Date.now() > tell) {
      tell += 60000;
      say(
        `${seconds(Date.now() - judge.begun)} s: ${i} rounds, ${load.counts.checked} answers checked, ${load.counts.refused} refused`,
      );
    }
    judge.note(`round ${i + 1}`);
    await Promise.race([playRound(round, { judge, ...more }), judge.whenBroken]);
    await sleep(round.pause);
  }
}

function summary({ judge, load, table, base, held }) {
  const { counts } = load;
  const faults = [...table.values()].reduce((sum, s) => sum + s.count, 0);
  return [
    tableText(table),
    '',
    'Held at the beginning and at the end (allowed: 25 % and 24 MB, 24 descriptors, 4 threads more):',
    figuresText(base, held),
    `Slowest answer ${seconds(load.slowest)} s; ${counts.cut} cut with their router, ${counts.gone} while their model was deleted, ${counts.left} left by their clients, ${counts.struck} ended after two strikes`,
    `${counts.checked} answers checked, ${counts.refused} refused, ${faults} faults, ${judge.broken.length} rules broken`,
  ].join('\n');
}

function writeResults(file, options, result) {
  let commit = '';
  try {
    commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
  } catch {
    /* not a checkout */
  }
  fs.writeFileSync(
    file,
    `# make chaos, ${options.database}, seed ${options.seed}, ${options.minutes} minutes\n\n` +
      `${new Date().toISOString().slice(0, 10)}, commit ${commit}, ${os.cpus().length} processors. Limit for the whole fleet to be well: ${seconds(result.limits.heal)} s.\n\n${result.text}\n`,
  );
}

function chosen({ only, without }) {
  if (!without) return only?.split(',') ?? [];
  return FAULTS.map((f) => f.name).filter((name) => !without.split(',').includes(name));
}

async function main() {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      minutes: { type: 'string', default: '3' },
      database: { type: 'string', default: 'sqlite' },
      only: { type: 'string' },
      without: { type: 'string' },
      calm: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      clients: { type: 'string', default: '8' },
      slow: { type: 'string', default: '1' },
      'keep-going': { type: 'boolean', default: false },
      plan: { type: 'boolean', default: false },
      results: { type: 'string' },
    },
  });
  const options = {
    seed: Number(values.seed ?? Math.floor(Math.random() * 1e6)),
    minutes: Number(values.minutes),
    database: values.database,
    only: chosen(values),
    calm: values.calm,
    rounds: Number(values.rounds ?? Infinity),
    clients: Number(values.clients),
    slow: Number(values.slow),
    keepGoing: values['keep-going'],
  };
  if (!['sqlite', 'postgres'].includes(options.database))
    throw new Error(`DATABASE is sqlite or postgres, not ${options.database}`);
  if (values.plan) {
    const plan = schedule(
      options.seed,
      FAULTS.filter((f) => options.only.length === 0 || options.only.includes(f.name)),
      options.database === 'postgres' ? 2 : 1,
    );
    for (let i = 1; i <= Math.min(options.rounds, 40); i++)
      console.log(`round ${i}: ${plan.next().value.strikes.map(words).join('; ')}`);
    return;
  }
  const result = await storm(options);
  console.log(`\n${result.text}`);
  if (values.results) writeResults(values.results, options, result);
  if (result.broken.length) {
    console.log(`\nThe storm until then:\n${traceText(result.trace, 60)}\n`);
    for (const { rule, text } of result.broken.slice(0, 10)) console.log(`BROKEN: ${rule}\n    ${text}`);
    console.log(`\nAgain: make chaos SEED=${options.seed} MINUTES=${options.minutes} DATABASE=${options.database}`);
  }
  console.log(`${result.faults} passed, ${result.broken.length} failed`);
  process.exit(result.broken.length ? 1 : 0);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
