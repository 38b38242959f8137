// Helpers for tests of processes: waiting for conditions, folders and child processes that are
// removed when the test ends, also when it fails or is stopped from outside.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Milliseconds since the machine started in which some process waited for a processor.
function pressure() {
  try {
    return Number(fs.readFileSync('/proc/pressure/cpu', 'latin1').match(/^some .* total=(\d+)/m)[1]) / 1000;
  } catch {
    return undefined;
  }
}

// For a promise in milliseconds.  `ms` is the time since the call, without the time in which some
// process of this machine waited for a processor, and at least a tenth of the real time: on an
// idle machine the promise is strict, and a busy machine may take up to ten times as long.
// A kernel that does not count the waiting is taken for a busy machine.
export function stopwatch() {
  const begun = performance.now(),
    before = pressure();
  return {
    get real() {
      return performance.now() - begun;
    },
    get ms() {
      const real = this.real;
      return Math.round(Math.max(real - ((pressure() ?? Infinity) - (before ?? 0)), real / 10));
    },
  };
}

// Without `ms` the time is no promise, and the limit only ends a test that hangs.
export async function until(what, check, ms) {
  const watch = stopwatch();
  for (;;) {
    const value = await check();
    if (value) return value;
    if (ms === undefined ? watch.real > 60000 : watch.real > ms && watch.ms > ms)
      throw new Error(`waited ${Math.round(watch.real)} ms in vain: ${what}`);
    await sleep(10);
  }
}

// The numbers of a process's descriptors.  Those of a router or a node are closed to its own user (docs/security.md).
export function descriptors(pid) {
  try {
    return fs.readdirSync(`/proc/${pid}/fd`);
  } catch (error) {
    if (error.code === 'EACCES') error.message += ': run these tests as root';
    throw error;
  }
}

const running = new Set();
const folders = [];

export function tempDir(name) {
  folders.push(fs.mkdtempSync(path.join(os.tmpdir(), `lr-${name}-`)));
  return folders.at(-1);
}

// A child that must not outlive the test.
export function track(child) {
  running.add(child);
  child.on('exit', () => running.delete(child));
  return child;
}

process.on('exit', () => {
  running.forEach((child) => child.kill('SIGKILL'));
  // A child that is just dying may still write.
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));
