// Fault injection: fails one call site of allocation, write, fsync, accept or fork in
// `llm-router up`, its node or its workers, and checks that only the call that failed
// is affected.  See tests/inject/inject.c and docs/adr/0023.
//   node tests/inject/run.mjs [--only=TEXT] [--passages=N] [--list] [--verbose]
// runs all call sites, or those whose name contains TEXT, each with its first call failing and with
// N - 1 later calls that SEED chooses.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { writeEchoModel } from '../support/echo_model.mjs';
import { BIN, BUILD, ROOT } from '../support/program.mjs';
import { sleep, track } from '../support/scene.mjs';

const LIBRARY = path.join(BUILD, 'testing/inject.so');
export const SEED = process.env.SEED ?? '1';
const DEMO = path.join(ROOT, 'models/demo');

// As inject.c lays them out.
const KINDS = ['', 'allocate', 'write', 'fsync', 'accept', 'fork'];
const PHASES = ['start', 'serve', 'stop'];
const FRAMES = 8,
  SLOTS = 16384,
  VIA = 24,
  ROLE = 16;
const HEAD = {
  phase: 0,
  kind: 4,
  inPhase: 8,
  passage: 12,
  count: 16,
  role: 20,
  fired: 36,
  frames: 56,
  size: 56 + 8 * FRAMES,
};
const SLOT = { hash: 0, frames: 8, passes: 72, kind: 84, via: 88, role: 88 + VIA, whole: 88 + VIA + ROLE, size: 136 };

const LIMIT = { start: 20000, call: 15000, healthy: 10000, stop: 20000 };

// ---- the file that all processes share ----

class Board {
  constructor(dir, site) {
    this.path = path.join(dir, 'inject.bin');
    this.fd = fs.openSync(this.path, 'w+');
    fs.ftruncateSync(this.fd, HEAD.size + SLOTS * SLOT.size);
    if (!site) return;
    this.put(HEAD.kind, KINDS.indexOf(site.kind));
    this.put(HEAD.inPhase, PHASES.indexOf(site.phase));
    this.put(HEAD.passage, site.passage ?? 1);
    this.put(HEAD.count, site.frames.length);
    fs.writeSync(this.fd, Buffer.from(site.role), 0, site.role.length, HEAD.role);
    site.frames.forEach((frame, i) => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64LE(frame);
      fs.writeSync(this.fd, bytes, 0, 8, HEAD.frames + 8 * i);
    });
  }

  put(at, value) {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    fs.writeSync(this.fd, bytes, 0, 4, at);
  }

  enter(phase) {
    this.put(HEAD.phase, PHASES.indexOf(phase));
  }

  get fired() {
    const bytes = Buffer.alloc(4);
    fs.readSync(this.fd, bytes, 0, 4, HEAD.fired);
    return bytes.readUInt32LE() !== 0;
  }

  // What was passed: one row per stack, with how often in each phase.
  rows() {
    const all = fs.readFileSync(this.path);
    const text = (at, len) => all.toString('latin1', at, at + len).replace(/\0.*/s, '');
    const out = [];
    for (let at = HEAD.size; at < all.length; at += SLOT.size) {
      if (all.readUInt32LE(at + SLOT.whole) === 0) continue;
      const frames = Array.from({ length: FRAMES }, (_, i) => all.readBigUInt64LE(at + SLOT.frames + 8 * i)).filter(
        (f) => f !== 0n,
      );
      out.push({
        kind: KINDS[all.readUInt32LE(at + SLOT.kind)],
        role: text(at + SLOT.role, ROLE),
        via: text(at + SLOT.via, VIA),
        frames,
        passes: PHASES.map((_, i) => all.readUInt32LE(at + SLOT.passes + 4 * i)),
      });
    }
    return out;
  }

  close() {
    fs.closeSync(this.fd);
  }
}

// ---- one process under test ----

// What the undisturbed server answered, in the first run.
const answers = {};
const SAY = { messages: [{ role: 'user', content: 'Hello there' }], temperature: 0, max_tokens: 32 };

// An answer that looks whole must be whole: what failed says so, by its status, an error event or an end without [DONE].
function isTrue(answer, text) {
  if (answer.headers.get('content-type')?.startsWith('text/event-stream'))
    return /"error":/.test(text) || !text.endsWith('data: [DONE]\n\n');
  try {
    return 'error' in JSON.parse(text);
  } catch {
    return false;
  }
}

// The text of an answer, or of a stream that was ended by [DONE].
function said(text) {
  const whole = text.endsWith('data: [DONE]\n\n')
    ? text
        .split('\n\n')
        .slice(0, -2)
        .map((line) => line.replace(/^data: /, ''))
    : [text];
  try {
    return whole
      .map((part) => JSON.parse(part).choices[0])
      .map((c) => c.message ?? c.delta)
      .map((m) => (m.reasoning_content ?? '') + (m.content ?? ''))
      .join('');
  } catch {
    return null;
  }
}

class Scene {
  constructor() {
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'lr-inject-'));
    this.data = path.join(this.dir, 'data');
    this.late = path.join(this.data, 'models', 'late');
    this.log = '';
    this.answers = [];
  }

  // Resolves with whether the program has said that it is ready.
  async start(env) {
    this.out = '';
    this.said = '';
    this.exit = null;
    const child = track(
      spawn(
        BIN,
        ['up', '--listen', '127.0.0.1:0', '--device', 'cpu', '--no-hf-cache', '--data-dir', this.data, '--model', DEMO],
        { env: { ...process.env, MALLOC_PERTURB_: '165', ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
      ),
    );
    this.child = child;
    child.stderr.on('data', (data) => {
      this.log += data;
      this.said += data;
    });
    child.stdout.on('data', (data) => {
      this.out += data;
    });
    child.on('close', (code, signal) => {
      this.exit = { code, signal };
    });
    await this.wait(LIMIT.start, () => this.exit || /is ready at http/.test(this.out));
    this.url = this.out.match(/is ready at (http:\/\/[\d.:]+)/)?.[1];
    return Boolean(this.url) && !this.exit;
  }

  async wait(ms, check) {
    const end = Date.now() + ms;
    while (!(await check())) {
      if (Date.now() > end) return false;
      await sleep(10);
    }
    return true;
  }

  // null, or why the call failed.  A connection of its own: a client that reuses connections
  // would try again by itself.
  async ask(where, body, isGood) {
    let text = '';
    try {
      const answer = await fetch(`${this.url}${where}`, {
        signal: AbortSignal.timeout(LIMIT.call),
        method: body ? 'POST' : 'GET',
        headers: { 'content-type': 'application/json', connection: 'close' },
        body: body && JSON.stringify(body),
      });
      text = await answer.text();
      if (isGood(answer.status, text)) return null;
      return `${where}: ${isTrue(answer, text) ? '' : 'a corrupt answer: '}${answer.status} ${text.slice(0, 300)}`;
    } catch (error) {
      return error.name === 'TimeoutError' ? `${where}: hangs` : `${where}: ${error.cause?.message ?? error.message}`;
    }
  }

  steps() {
    const says = (model) => (status, text) =>
      status === 200 && Boolean(said(text)) && said(text) === (answers[model] ??= said(text));
    return {
      register: () =>
        writeEchoModel(this.late) &&
        this.ask('/v0/models/register', { path: this.late }, (status) => status === 201 || status === 409),
      chat: () => this.ask('/v1/chat/completions', { model: 'demo', ...SAY }, says('demo')),
      stream: () => this.ask('/v1/chat/completions', { model: 'demo', stream: true, ...SAY }, says('demo')),
      echo: () => this.ask('/v1/chat/completions', { model: 'late', ...SAY }, says('late')),
    };
  }

  // null, or what is not as it should be.
  async illness() {
    let found;
    const isWell = async () => {
      found =
        (await this.ask(
          '/v0/nodes',
          null,
          (status, text) => status === 200 && JSON.parse(text).nodes.length === 1 && JSON.parse(text).nodes[0].online,
        )) ??
        (await this.ask(
          '/v0/models',
          null,
          (status, text) =>
            status === 200 &&
            JSON.parse(text).models.length === 2 &&
            JSON.parse(text).models.every((m) => m.state === 'ready'),
        ));
      return found === null;
    };
    await this.wait(LIMIT.healthy, isWell);
    return found && `not healthy after ${LIMIT.healthy} ms: ${found}`;
  }

  // null, or what was wrong with the end.
  async stop() {
    this.child.kill('SIGTERM');
    if (!(await this.wait(LIMIT.stop, () => this.exit))) return `did not end in ${LIMIT.stop} ms after SIGTERM`;
    return this.exit.code === 0 ? null : `ended with ${JSON.stringify(this.exit)} after SIGTERM`;
  }

  // A crash of any of the processes, as their parents tell it.
  crash() {
    if (this.exit?.signal) return `the router died of ${this.exit.signal}`;
    const line = this.log.match(/.*(killed by SIG(?!TERM|KILL)|up\.node_ended).*/);
    return line && `a process died: ${line[0]}`;
  }

  async close() {
    if (this.child && !this.exit) {
      this.child.kill('SIGKILL');
      await this.wait(5000, () => this.exit);
    }
    fs.rmSync(this.dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}

// Without a fault everything works: what a failed start or a failed stop must leave behind.
async function plainRun(scene) {
  if (!(await scene.start({}))) return `a plain restart failed: ${scene.said.slice(-600)}`;
  const wrong = await scene.steps().chat();
  return wrong ? `after a plain restart: ${wrong}` : scene.stop();
}

// Runs the scenario, with `site` failing once.  `wrong`: null, or the promise that was broken.
export async function play(site) {
  const scene = new Scene();
  const board = new Board(scene.dir, site);
  const wrong = await perform(scene, board, site).catch((error) => `the driver failed: ${error.stack}`);
  const result = { site, wrong: wrong ?? null, fired: board.fired, log: scene.log, rows: site ? [] : board.rows() };
  board.close();
  await scene.close();
  return result;
}

async function perform(scene, board, site) {
  const env = { LD_PRELOAD: LIBRARY, LR_INJECT_FILE: board.path };
  if (!(await scene.start(env))) {
    if (!scene.exit) return 'the start hangs';
    if (scene.exit.signal) return scene.crash();
    if (!board.fired || site.phase !== 'start') return `ended by itself: ${JSON.stringify(scene.exit)}`;
    if (scene.exit.code === 0 || !/^llm-router: .+/m.test(scene.said))
      return `ended with ${scene.exit.code} and without a reason: ${scene.said.slice(-300)}`;
    return (/killed by SIG(?!TERM|KILL)/.test(scene.said) ? scene.crash() : null) ?? plainRun(scene);
  }
  board.enter('serve');
  // A fault of the start may cost the model, but not for long.
  const isHit = board.fired;
  let late = null;
  if (isHit && !(await scene.wait(LIMIT.healthy, async () => (late = await scene.steps().chat()) === null)))
    return scene.crash() ?? `not served in ${LIMIT.healthy} ms: ${late}`;
  // The call that was hit may fail, as long as it ends; the next call may not.
  const twice = async (step) => {
    const wasHit = board.fired;
    const wrong = await step();
    return wrong && !wasHit && board.fired && !/hangs|corrupt/.test(wrong) ? step() : wrong;
  };
  for (const [name, step] of Object.entries(scene.steps())) {
    let wrong = await twice(step);
    // What was registered a moment ago is served when the node's next heartbeat has told of it.
    if (name === 'echo' && wrong && board.fired && /: 503 /.test(wrong))
      await scene.wait(isHit ? LIMIT.healthy : 3000, async () => (wrong = await step()) === null);
    if (wrong) return scene.crash() ?? `${name} is not served: ${wrong}`;
  }
  if (site?.phase === 'serve') await scene.wait(2000, () => board.fired); // a heartbeat's, for example
  const ill = (await twice(scene.steps().chat)) ?? (await scene.illness());
  if (ill) return scene.crash() ?? ill;
  board.enter('stop');
  const bad = await scene.stop();
  if (bad || scene.crash()) return scene.crash() ?? bad;
  if (board.fired && site.phase === 'stop' && ['write', 'fsync'].includes(site.kind)) return plainRun(scene);
  return null;
}

// ---- names of call sites ----

// Every caller of these is a call site of its own: they allocate or write on behalf of others.
const PLUMBING =
  /^(src\/base\/(?!subprocess|log)|src\/net\/loop\.c:.*net_alloc|src\/router\/(sql|sqlite)\.[ch]|engines\/common\/.*alloc)/;

// frame -> [innermost, ..., outermost] function of the inlined ones, as "file:line function".
function nameFrames(frames) {
  const files = { 1: BIN, 2: path.join(BUILD, 'engines/gptoss/gptoss.so') };
  const out = new Map();
  for (const [module, file] of Object.entries(files)) {
    const mine = frames.filter((f) => f >> 32n === BigInt(module));
    if (mine.length === 0) continue;
    const text = execFileSync('addr2line', ['-e', file, '-a', '-i', '-f'], {
      maxBuffer: 1 << 28,
      input: mine.map((f) => `0x${((f & 0xffffffffn) - 1n).toString(16)}`).join('\n'),
    }).toString();
    const blocks = text.split(/^0x[0-9a-f]+\n/m).slice(1);
    mine.forEach((f, i) => {
      const lines = blocks[i].trimEnd().split('\n');
      const names = [];
      for (let k = 0; k + 1 < lines.length; k += 2)
        names.push(
          `${lines[k + 1].replace(/ \(discriminator.*/, '').replace(/^.*?\/((src|engines|include|tests)\/)/, '$1')} ${lines[k]}`,
        );
      out.set(f, names);
    });
  }
  return out;
}

// Of inlined functions the first that says something.
const nearest = (names) =>
  (names.find((n) => /^(src|engines)\//.test(n) && !PLUMBING.test(n)) ?? names[0]).replace(/^(src|engines)\//, '');

// Stacks that differ only beyond the first function that is not plumbing are one site.
export function findSites(rows) {
  const names = nameFrames([...new Set(rows.flatMap((row) => row.frames))]);
  const sites = new Map();
  for (const row of rows) {
    let count = row.frames.findIndex((f) => !PLUMBING.test(names.get(f)?.at(-1) ?? '')) + 1;
    if (count === 0) count = row.frames.length;
    const frames = row.frames.slice(0, count);
    const place = frames
      .map((f) => nearest(names.get(f) ?? ['?']))
      .reverse()
      .join(' > ');
    if (row.via === 'echo.so') continue; // the tests' own engine
    row.passes.forEach((passes, i) => {
      if (passes === 0) return;
      const key = `${row.kind} ${row.role} ${PHASES[i]} ${frames}`;
      const site = sites.get(key) ?? {
        kind: row.kind,
        role: row.role,
        phase: PHASES[i],
        frames,
        passes: 0,
        name: `${row.kind} in ${row.role} (${PHASES[i]}) at ${place}${row.via ? ` in ${row.via}` : ''}`,
      };
      site.passes += passes;
      sites.set(key, site);
    });
  }
  return [...sites.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

const chance = (text) => createHash('sha256').update(`${SEED} ${text}`).digest().readUInt32LE() / 2 ** 32;

// In an order that SEED chooses.
export const shuffled = (sites) => [...sites].sort((a, b) => chance(a.name) - chance(b.name));

// Each site at its first passage, and where it is passed more often at up to count - 1 others.
export const atPassages = (sites, count) =>
  sites.flatMap((site) => {
    const others = Array.from(
      { length: count - 1 },
      (_, i) => 2 + Math.floor(chance(`${i} ${site.name}`) * (site.passes - 1)),
    );
    return [
      site,
      ...[...new Set(others)]
        .filter((n) => n <= site.passes)
        .map((n) => ({ ...site, passage: n, name: `${site.name}, passage ${n} of ${site.passes}` })),
    ];
  });

// Records the scenario: the sites that it passes.
export async function record() {
  const { wrong, rows, log } = await play(null);
  if (wrong) throw new Error(`the scenario fails without a fault: ${wrong}\n${log}`);
  return findSites(rows);
}

// Runs every site, some at a time; calls `each` with every result.
export async function playAll(sites, each = () => {}, jobs = 3) {
  const waiting = [...sites],
    results = [];
  const worker = async () => {
    for (let site = waiting.shift(); site; site = waiting.shift()) {
      let result = await play(site);
      if (!result.wrong && !result.fired) result = await play(site); // some sites are passed by chance
      results.push(result);
      each(result);
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return results;
}

if (process.argv[1] === import.meta.filename) {
  const option = (name) => process.argv.find((a) => a.startsWith(`--${name}=`))?.slice(name.length + 3);
  let sites = await record();
  if (option('only')) sites = sites.filter((s) => s.name.includes(option('only')));
  sites = atPassages(sites, Number(option('passages') ?? 1));
  console.log(`${sites.length} sites`);
  if (process.argv.includes('--list')) {
    sites.forEach((s) => console.log(`${s.passes}\t${s.name}`));
    process.exit(0);
  }
  const begun = Date.now();
  const results = await playAll(sites, ({ site, wrong, fired, log }) => {
    if (wrong) console.log(`FAILED ${site.name}\n    ${wrong}`);
    else if (!fired) console.log(`not reached ${site.name}`);
    else if (process.argv.includes('--verbose')) console.log(`ok ${site.name}`);
    if (wrong && process.argv.includes('--verbose'))
      console.log(
        log
          .split('\n')
          .slice(-25)
          .map((l) => `        ${l.slice(0, 240)}`)
          .join('\n'),
      );
  });
  const failed = results.filter((r) => r.wrong).length;
  console.log(
    `${results.length} sites, ${results.filter((r) => r.fired).length} reached, ${failed} failed, ${Math.round((Date.now() - begun) / 1000)} s`,
  );
  process.exit(failed ? 1 : 0);
}
