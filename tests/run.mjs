// Runs the Node tests of one group, or some files of it: tests/run.mjs GROUP LOG-FOLDER [NAME...]
// A name with a slash is the path of a file, in any group.
//
//   shared   several files at a time.  These tests mostly wait for a condition or a timeout.
//   alone    one file at a time, after all others.  Only tests whose promise is a number of
//            milliseconds on an idle machine, or whose load needs the whole machine.
//
// Each file is a process of its own, and writes its results line by line (tests/support/results.mjs).  A
// test that began and has no result, a file without a test, a file whose results have no end, and a
// skipped test count as failed.  A failure is printed with its name, its reason and the end of what the
// file printed.
//
// LOG-FOLDER gets GROUP.tests (each test with its time), GROUP.files (seconds and tests of each file),
// GROUP.counts ("passed failed"), and for each file files/NAME.results and files/NAME.output.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { resultsOf } from './support/outcome.mjs';
import { ROOT } from './support/program.mjs';

const isLong = process.env.LR_LONG === '1';
const LIMIT_MS = isLong ? 3600000 : 600000; // of one file

// The file, and the promise that needs the machine.
const ALONE = {
  dashboard_paint: 'the heading shows within 200 ms, the live page within 3.5 times a page of one line',
  fairness: 'a key with a tenth of the load waits at most twice as long as without the others',
  node_stream: 'the pages and the slot of a client that left are free within 50 ms',
  start: 'a router with a long history listens within 100 ms',
  tenfold: 'at ten times what the fleet can do no more than 12 wait',
};

// The file, and why make test leaves it to make test-long.
const LONG_ONLY = {
  agents: 'its clients are 900 MB of packages (tests/clients)',
  dashboard_matrix: 'the other dashboard tests look at each page in one theme and one width',
  old_release: 'it builds the release before from the history',
  package_root: 'the package is installed in a bare Debian, which takes minutes',
  package_upgrade: 'two packages are built',
  package_users: 'two packages are built',
  walk: 'the program is built once more, with notes of each function',
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
  const unknown = [...Object.keys({ ...ALONE, ...LONG_ONLY }), ...FIRST].filter(
    (name) => !all.some((file) => nameOf(file) === name),
  );
  if (unknown.length > 0) throw new Error(`tests/run.mjs names files that do not exist: ${unknown.join(', ')}`);
  const rank = (file) => FIRST.indexOf(nameOf(file)) + 1 || FIRST.length + 1;
  return all
    .filter((file) => nameOf(file) in ALONE === (group === 'alone') && (isLong || !(nameOf(file) in LONG_ONLY)))
    .sort((a, b) => rank(a) - rank(b))
    .map((file) => path.join(ROOT, file));
}

// One file of tests, from its start to its results.
function runFile(file, folder) {
  // Two folders may have a file of the same name.
  const base = path.join(folder, `${path.basename(path.dirname(file))}-${nameOf(file)}`);
  const [results, output] = [`${base}.results`, `${base}.output`];
  fs.rmSync(results, { force: true });
  const out = fs.openSync(output, 'w');
  const words = ['--test-force-exit', '--test-reporter', path.join(ROOT, 'tests/support/results.mjs')];
  const child = spawn(process.execPath, [...words, '--test-reporter-destination', `${base}.end`, file], {
    stdio: ['ignore', out, out],
    env: { ...process.env, LR_RESULTS: results },
  });
  fs.closeSync(out);
  const begun = performance.now();
  return new Promise((done) => {
    let isLate = false;
    // The file's own processes end with it: tests/support/scene.mjs kills them when it gets a signal.
    const limit = setTimeout(() => {
      isLate = true;
      child.kill('SIGTERM');
      setTimeout(() => child.kill('SIGKILL'), 5000).unref();
    }, LIMIT_MS);
    child.on('exit', (code, signal) => {
      clearTimeout(limit);
      fs.rmSync(`${base}.end`, { force: true });
      const lines = fs.existsSync(results) ? fs.readFileSync(results, 'utf8') : '';
      const ended = isLate
        ? `after its limit of ${LIMIT_MS / 1000} s`
        : signal
          ? `by ${signal}`
          : `with status ${code}`;
      done({
        ...resultsOf(lines, { ended, isGood: code === 0 && !isLate }),
        file: path.relative(ROOT, file),
        output,
        seconds: (performance.now() - begun) / 1000,
      });
    });
  });
}

function endOf(file, lines = 40) {
  const text = fs.readFileSync(file, 'utf8').trimEnd();
  return text ? text.split('\n').slice(-lines) : [];
}

function show(run) {
  const { passed, failures } = run;
  const many = `${passed + failures.length} tests`;
  console.log(`${failures.length ? 'FAIL' : 'ok  '} ${run.file} (${many}, ${run.seconds.toFixed(1)} s)`);
  for (const { name, reason } of failures) {
    console.log(`  not ok: ${name}`);
    for (const line of reason.split('\n')) console.log(`      ${line}`);
  }
  if (failures.length === 0) return;
  console.log(`  the end of ${path.relative(ROOT, run.output)}:`);
  for (const line of endOf(run.output)) console.log(`      ${line}`);
}

const [group, log, ...names] = process.argv.slice(2);
const folder = path.join(log, 'files');
fs.mkdirSync(folder, { recursive: true });
// Two thirds of the time a file waits, so three files keep a processor busy; at full size one does.
const concurrency = group === 'alone' ? 1 : (isLong ? 1 : 3) * os.availableParallelism();
const paths = names.filter((name) => name.includes('/')).map((name) => path.resolve(name));
const files = paths.length
  ? paths
  : filesOf(group).filter((file) => names.length === 0 || names.includes(nameOf(file)));
const runs = [];
const queue = files.values();
const lanes = Array.from({ length: concurrency }, async () => {
  for (const file of queue) {
    const run = await runFile(file, folder);
    runs.push(run);
    show(run);
  }
});
await Promise.all(lanes);

const sum = (of) => runs.reduce((total, run) => total + of(run), 0);
const write = (kind, lines) =>
  fs.writeFileSync(path.join(log, `${group}.${kind}`), lines.map((l) => `${l}\n`).join(''));
runs.sort((a, b) => b.seconds - a.seconds);
write(
  'files',
  runs.map(
    (run) => `${run.seconds.toFixed(1).padStart(7)} s  ${String(run.tests.length).padStart(4)} tests  ${run.file}`,
  ),
);
write(
  'tests',
  runs.flatMap((run) =>
    run.tests.map((t) => `${(t.ms / 1000).toFixed(1).padStart(8)} s  ${t.isGood ? 'ok' : 'not ok'}  ${t.name}`),
  ),
);
write('counts', [`${sum((run) => run.passed)} ${sum((run) => run.failures.length)}`]);
