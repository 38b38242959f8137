// The parts of a fleet: processes that can be restarted with the same ports and folders, disks
// that can be full, a database server that can be frozen.
import { execFile, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { descriptors, track, until } from '../support/scene.mjs';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const BIN = process.env.LLM_ROUTER_BIN ?? path.join(ROOT, 'build/release/bin/llm-router');

const run = promisify(execFile);

export const freePort = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

const readText = (file) => {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
};

// A process has ended when it is gone, or when only its exit code is left.
export function isAlive(pid) {
  const stat = readText(`/proc/${pid}/stat`);
  return stat !== '' && stat.slice(stat.lastIndexOf(')') + 2)[0] !== 'Z';
}

export function signal(pid, name) {
  try {
    process.kill(pid, name);
    return true;
  } catch {
    return false;
  }
}

// Direct children of a process, with their command lines.
export function children(pid) {
  const found = [];
  for (const entry of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const stat = readText(`/proc/${entry}/stat`);
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (Number(fields[1]) === pid && fields[0] !== 'Z')
      found.push({ pid: Number(entry), args: readText(`/proc/${entry}/cmdline`).split('\0') });
  }
  return found;
}

// A router or a node.  `args()` is asked at every start.
export class Member {
  constructor(name, role, { logDir, args, env = {}, match, onDeath }) {
    Object.assign(this, { name, role, args, env, match, onDeath, skew: undefined, pids: [] });
    this.logFile = path.join(logDir, `${name}.log`);
    fs.closeSync(fs.openSync(this.logFile, 'a'));
  }

  get isUp() {
    return this.child !== undefined && this.child.exitCode === null && this.child.signalCode === null;
  }
  get log() {
    return readText(this.logFile);
  }

  // Comes back when the process says where it listens.  `more` are further arguments.
  async start(ms = 20000, more = []) {
    const from = fs.statSync(this.logFile).size;
    const out = fs.openSync(this.logFile, 'a');
    // The fake clock shifts only the time of day: waiting times go by as they do.
    const clock =
      this.clock?.env ??
      (this.skew ? { LD_PRELOAD: fakeClock(), FAKETIME: this.skew, FAKETIME_DONT_FAKE_MONOTONIC: '1' } : {});
    const child = track(
      spawn(BIN, [...this.args(), ...more], {
        env: { ...process.env, ...this.env, ...clock },
        stdio: ['ignore', out, out],
      }),
    );
    fs.closeSync(out);
    Object.assign(this, { child, pid: child.pid, isExpected: false });
    this.pids.push(child.pid);
    this.ended = new Promise((done) =>
      child.on('exit', (code, name) => {
        if (!this.isExpected && !child.mayEnd) this.onDeath?.(this, name ?? `exit code ${code}`);
        done({ code, signal: name });
      }),
    );
    await until(
      `${this.name} listens: ${this.logFile}`,
      () => {
        if (!this.isUp)
          throw new Error(
            `${this.name} ended while it started: ${this.log.slice(from).trim().split('\n').slice(-3).join(' | ')}`,
          );
        return this.match.test(this.log.slice(from));
      },
      ms,
    );
  }

  // A second process takes over from this one, which ends when it has finished what it has.  The result is that one,
  // which stays the member's process if this is undone.
  async handOver() {
    const former = this.child;
    former.mayEnd = true;
    await this.start(20000, ['--takeover']);
    return former;
  }
  // The process is the member's again.
  comeBack(former) {
    Object.assign(this, { child: former, pid: former.pid });
    former.mayEnd = false;
    this.ended = new Promise((done) => former.on('exit', (code, name) => done({ code, signal: name })));
  }

  // Comes back when the process has ended; `ms` is how long it may take.
  async stop(name = 'SIGTERM', ms = 30000) {
    if (!this.isUp) return;
    this.isExpected = true;
    this.child.kill(name);
    let timer;
    const how = await Promise.race([
      this.ended,
      new Promise((done) => {
        timer = setTimeout(done, ms);
      }),
    ]);
    clearTimeout(timer);
    if (how === undefined) {
      this.child.kill('SIGKILL');
      await this.ended;
      throw new Error(`${this.name} did not end within ${ms} ms of ${name}`);
    }
    if (name === 'SIGTERM' && how.code !== 0)
      throw new Error(`${this.name} was asked to stop and ended with ${how.signal ?? how.code}`);
  }

  signal(name) {
    return this.isUp && this.child.kill(name);
  }

  // Its workers (or probes) of a model.
  workers(model, isProbe = false) {
    return children(this.pid).filter(
      ({ args }) =>
        args[1] === 'worker' &&
        args.includes('--probe') === isProbe &&
        (model === undefined || args.includes(`--label=${model}`)),
    );
  }

  // What it holds: bytes of memory, descriptors, threads.
  figures() {
    const status = readText(`/proc/${this.pid}/status`);
    const number = (word) => Number(status.match(new RegExp(`^${word}:\\s+(\\d+)`, 'm'))?.[1] ?? 0);
    let files = 0;
    try {
      files = descriptors(this.pid).length;
    } catch (error) {
      if (error.code === 'EACCES') throw error; // otherwise it has ended
    }
    return { memory: number('VmRSS') * 1024, files, threads: number('Threads') };
  }

  // The most descriptors it may have; undefined: as many as at its start.
  limitFiles(count) {
    const limits = readText(`/proc/${this.pid}/limits`).match(/^Max open files\s+(\d+)\s+(\d+)/m);
    this.filesBefore ??= limits?.[1];
    execFileSync('prlimit', ['--pid', `${this.pid}`, `--nofile=${count ?? this.filesBefore}:`], { stdio: 'ignore' });
  }
}

export function fakeClock() {
  for (const dir of ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib', '/usr/local/lib']) {
    const file = path.join(dir, 'faketime/libfaketimeMT.so.1');
    if (fs.existsSync(file)) return file;
  }
  return undefined;
}

// A folder on a disk of its own, so that the disk can be full.  Without the right to mount it
// is an ordinary folder.
export class Disk {
  constructor(dir, megabytes) {
    this.dir = dir;
    fs.mkdirSync(dir, { recursive: true });
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=755`, 'tmpfs', dir], { stdio: 'ignore' });
      this.isMounted = true;
    } catch {
      this.isMounted = false;
    }
  }

  async fill() {
    const file = path.join(this.dir, 'filler');
    const { bavail, bsize } = fs.statfsSync(this.dir);
    await run('fallocate', ['-l', `${Math.max(bavail * bsize - (1 << 20), 1)}`, file]);
    // Down to the last page: others use this disk meanwhile.
    const fd = fs.openSync(file, 'a');
    try {
      for (;;) fs.writeSync(fd, Buffer.alloc(4096));
    } catch {
      /* full */
    }
    fs.closeSync(fd);
  }

  free() {
    fs.rmSync(path.join(this.dir, 'filler'), { force: true });
  }

  close() {
    if (this.isMounted)
      try {
        execFileSync('umount', ['-l', this.dir], { stdio: 'ignore' });
      } catch {
        /* nothing is left to do */
      }
    this.isMounted = false;
  }
}

// The PostgreSQL server that two routers share.
export class Postgres {
  constructor(dir) {
    this.dir = dir;
    this.tool = path.join(ROOT, 'tests/support/postgres');
  }

  async #run(word) {
    return (await run(this.tool, [word, this.dir])).stdout.trim();
  }
  async start() {
    this.url = (await this.#run('start')).replace('DATABASE', 'postgres');
  }
  async stop() {
    this.thaw();
    await this.#run('stop');
    this.isDown = true;
  }
  async again() {
    await this.#run('again');
    this.isDown = false;
  }

  #pids() {
    const master = Number(readText(path.join(this.dir, 'cluster/postmaster.pid')).split('\n')[0]);
    return master ? [master, ...children(master).map((c) => c.pid)] : [];
  }

  freeze() {
    this.frozen = this.#pids();
    this.frozen.forEach((pid) => signal(pid, 'SIGSTOP'));
  }
  thaw() {
    this.frozen?.forEach((pid) => signal(pid, 'SIGCONT'));
    this.frozen = undefined;
  }

  backup() {
    return this.#run('backup');
  }
  async restore() {
    if (!this.isDown) await this.stop();
    await this.#run('restore');
    this.isDown = false;
  }

  close() {
    try {
      this.thaw();
      execFileSync(this.tool, ['stop', this.dir], { stdio: 'ignore' });
    } catch {
      /* it was down */
    }
  }
}
