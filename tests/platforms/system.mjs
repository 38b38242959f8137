// Programs for another system, in an emulator or on that system itself:
//   LR_PLATFORM  windows-x64, linux-arm64, ...
//   LR_NATIVE=1  this machine is such a system; else Wine, and qemu by the kernel's binfmt_misc
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export const isWindows = process.env.LR_PLATFORM === 'windows-x64';
const isNative = process.env.LR_NATIVE === '1';
const usesWine = isWindows && !isNative;

const env = {
  ...process.env,
  WINEDEBUG: '-all',
  LC_ALL: 'C.UTF-8',
  WINEPREFIX: path.join(os.tmpdir(), 'lr-wine-prefix'),
};
/** A path as the program sees it: Wine shows the files of this machine as drive Z. */
export const own = (file) => (usesWine ? `Z:${file}` : file);

export function start(program, args, more = {}, input = 'ignore') {
  const command = usesWine ? ['wine', program, ...args] : [program, ...args];
  return spawn(command[0], command.slice(1), { env: { ...env, ...more }, stdio: [input, 'pipe', 'pipe'] });
}

/** Runs a program of Wine's to its end: { status, text }.  Its output goes to a file: Wine's server, which
 * the program may start, would keep a pipe open. */
export function wine(...args) {
  const file = path.join(os.tmpdir(), `lr-wine-${process.pid}.txt`);
  const out = fs.openSync(file, 'w');
  const done = spawnSync('wine', args, { env, stdio: ['ignore', out, out], timeout: 240_000 });
  fs.closeSync(out);
  const text = fs.readFileSync(file, 'utf8');
  fs.rmSync(file);
  return { status: done.status, text };
}

// [process id, command line] of every process.
function list() {
  if (process.platform === 'win32') {
    const command = 'Get-CimInstance Win32_Process | ForEach-Object { "$($_.ProcessId) $($_.CommandLine)" }';
    const text = execFileSync('powershell', ['-NoProfile', '-Command', command], { encoding: 'utf8' });
    return [...text.matchAll(/^(\d+) (.*)$/gm)].map((line) => [line[1], line[2]]);
  }
  if (process.platform === 'darwin') {
    const text = execFileSync('ps', ['-axww', '-o', 'pid=,command='], { encoding: 'utf8' });
    return [...text.matchAll(/^ *(\d+) (.*)$/gm)].map((line) => [line[1], line[2]]);
  }
  return fs
    .readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .map((pid) => {
      try {
        return [pid, fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')];
      } catch {
        return [pid, '']; // it has ended
      }
    });
}

/** Processes with this subcommand and `mark` in their command line; orphans are found too. */
export const processes = (word, mark) =>
  list()
    .filter(([, text]) => text.includes(` ${word} `) && text.includes(mark))
    .map(([pid]) => pid);
