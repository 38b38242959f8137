// A wrong clock for a process that a test starts: only the time of day is wrong, waiting times pass as they do.
import fs from 'node:fs';
import path from 'node:path';
import { tempDir } from './scene.mjs';

const DIRS = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib', '/usr/local/lib'];

// The library of the package faketime; undefined: it is not installed.
export const fakeTime = () =>
  DIRS.map((dir) => path.join(dir, 'faketime/libfaketimeMT.so.1')).find((file) => fs.existsSync(file));

// `env` is for the process; `set('+120')` moves its clock by seconds or, as '+40d', by days while it runs; '+0' is
// the right time.
export function makeClock(at = '+0') {
  const library = fakeTime();
  if (library === undefined) throw new Error('libfaketime was not found: install faketime (tools/setup)');
  const file = path.join(tempDir('clock'), 'time');
  const set = (to) => {
    fs.writeFileSync(`${file}.new`, to);
    fs.renameSync(`${file}.new`, file);
  };
  set(at);
  const env = { LD_PRELOAD: library, FAKETIME_TIMESTAMP_FILE: file, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
  return { set, env: { ...env, FAKETIME_NO_CACHE: '1' } };
}
