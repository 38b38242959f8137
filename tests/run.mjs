// Runs the Node tests of one group, or some files of it: tests/run.mjs GROUP LOG-FOLDER [NAME...]
//
//   shared   several files at a time.  These tests mostly wait for a condition or a timeout.
//   alone    one file at a time, after all others.  Only tests whose promise is a number of
//            milliseconds on an idle machine, or whose load needs the whole machine.
//
// LOG-FOLDER gets GROUP.tap (every test), GROUP.files (seconds of each file) and GROUP.counts
// ("passed failed"); a skipped test counts as failed.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { run } from 'node:test';
import { spec, tap } from 'node:test/reporters';
import { ROOT } from './support/program.mjs';

const isLong = process.env.LR_LONG === '1';

// The file, and the promise that needs the machine.
const ALONE = {
  dashboard_paint: 'the heading shows within 200 ms, the live page within 3.5 times a page of one line',
  fairness: 'a key with a tenth of the load waits at most twice as long as without the others',
  node_stream: 'the pages and the slot of a client that left are free within 50 ms',
  start: 'a router with a long history listens within 100 ms',
  tenfold: 'at ten times what the fleet can do no more than 12 wait',
};

// Files that take longest, so that none of them is begun last.
const FIRST = [
  'overload',
  'hub_node',
  'worker_death',
  'dashboard_keys',
  'dashboard_chat',
  'failover',
  'network',
  'dashboard_page',
  'chaos',
  'structured',
  'dashboard_nodes',
  'live',
  'serving',
];

const nameOf = (file) => path.basename(file, '.test.mjs');

function filesOf(group) {
  const all = fs.globSync('tests/{contract,integration,e2e}/**/*.test.mjs', { cwd: ROOT }).sort();
  const unknown = [...Object.keys(ALONE), ...FIRST].filter((name) => !all.some((file) => nameOf(file) === name));
  if (unknown.length > 0) throw new Error(`tests/run.mjs names files that do not exist: ${unknown.join(', ')}`);
  const rank = (file) => FIRST.indexOf(nameOf(file)) + 1 || FIRST.length + 1;
  return all
    .filter((file) => nameOf(file) in ALONE === (group === 'alone'))
    .sort((a, b) => rank(a) - rank(b))
    .map((file) => path.join(ROOT, file));
}

const [group, folder, ...names] = process.argv.slice(2);
// Two thirds of the time a file waits, so three files keep a processor busy; at full size one does.
const concurrency = group === 'alone' ? 1 : (isLong ? 1 : 3) * os.availableParallelism();
const seconds = [],
  counts = { passed: 0, failed: 0 };
const files = filesOf(group).filter((file) => names.length === 0 || names.includes(nameOf(file)));
// A process that closes its handles at its natural end may spin for ever (Node 24, seen after all tests of a file had passed).
const tests = run({ files, concurrency, timeout: 600000, execArgv: ['--test-force-exit'] });
tests.on('test:summary', ({ file, duration_ms, counts: seen }) => {
  if (file) {
    seconds.push([duration_ms / 1000, path.relative(ROOT, file)]);
    return;
  }
  counts.passed = seen.passed;
  counts.failed = seen.failed + seen.cancelled + seen.skipped + seen.todo;
});
const log = fs.createWriteStream(path.join(folder, `${group}.tap`));
tests.compose(tap).pipe(log);
tests.compose(spec).pipe(process.stdout, { end: false });
await finished(log);
fs.writeFileSync(
  path.join(folder, `${group}.files`),
  seconds
    .sort((a, b) => b[0] - a[0])
    .map(([s, file]) => `${s.toFixed(1).padStart(7)} s  ${file}\n`)
    .join(''),
);
fs.writeFileSync(path.join(folder, `${group}.counts`), `${counts.passed} ${counts.failed}\n`);
