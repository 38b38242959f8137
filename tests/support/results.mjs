// A reporter for Node's test runner: writes each event of a test file to the file that the variable LR_RESULTS
// names, as a line of JSON.  Each line is written at once, so that nothing is lost however the process
// ends; the last line is {"type":"end"}.  tests/run.mjs reads the lines.
import fs from 'node:fs';
import { inspect } from 'node:util';

const file = fs.openSync(process.env.LR_RESULTS, 'a');
const write = (line) => fs.writeSync(file, `${JSON.stringify(line)}\n`);

// Why a test failed, without the frames of the test runner.
function reasonOf(error) {
  const cause = error?.cause ?? error;
  const text = typeof cause === 'string' ? cause : inspect(cause, { breakLength: 100, depth: 4 });
  return text
    .split('\n')
    .filter((line) => !/^ +at .*node:internal/.test(line))
    .join('\n');
}

// What the runner itself tells at the end.
const SUMMARY = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;
const LISTED = ['test:enqueue', 'test:dequeue', 'test:pass', 'test:fail'];

// biome-ignore lint/correctness/useYield: a reporter is a generator; this one writes by itself
export default async function* results(source) {
  for await (const { type, data } of source) {
    if (type === 'test:diagnostic' && !SUMMARY.test(data.message)) console.log(data.message); // beside what the file prints
    if (!LISTED.includes(type)) continue;
    const line = { type, name: data.name, nesting: data.nesting, kind: data.details?.type ?? data.type };
    if (data.details) line.ms = Math.round(data.details.duration_ms);
    if (data.skip !== undefined) line.left = 'skipped';
    if (data.todo !== undefined) line.left = 'todo';
    if (type === 'test:fail') {
      line.failure = data.details.error?.failureType;
      line.reason = reasonOf(data.details.error);
    }
    write(line);
  }
  write({ type: 'end' });
}
