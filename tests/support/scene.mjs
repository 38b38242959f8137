// Helpers for tests of processes: waiting for conditions, folders and child processes that are
// removed when the test ends, also when it fails or is stopped from outside.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export async function until(what, check, ms = 15000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`);
    await sleep(10);
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
