// What the results of one test file say (tests/support/results.mjs writes them): every test that began
// has a result, or is named as missing.

function parse(lines) {
  const events = [];
  for (const line of lines.split('\n'))
    try {
      if (line) events.push(JSON.parse(line));
    } catch {
      break; // the process ended in the middle of this line
    }
  return events;
}

// `lines` is the content of the results; `end` says how the process ended: {ended: "with status 1", isGood}.
export function resultsOf(lines, end) {
  const events = parse(lines);
  const tests = [],
    failures = [],
    open = []; // tests that began and have no result yet, each with the suites around it
  const fail = (name, reason) => failures.push({ name, reason });
  for (const event of events) {
    if (event.type === 'test:enqueue') open.push(event);
    if (event.type !== 'test:pass' && event.type !== 'test:fail') continue;
    const at = open.findIndex((other) => other.name === event.name && other.nesting === event.nesting);
    if (at >= 0) open.splice(at, 1);
    const isGood = event.type === 'test:pass' && !event.left;
    // A suite fails with its tests; by itself only where a hook of it failed.
    if (event.kind === 'suite') {
      if (event.type === 'test:fail' && event.failure !== 'subtestsFailed') fail(event.name, event.reason);
      continue;
    }
    tests.push({ name: event.name, ms: event.ms, isGood });
    if (!isGood && event.failure !== 'subtestsFailed')
      fail(event.name, event.reason ?? `${event.left}: a test that does not run is no test`);
  }
  for (const { name } of open) fail(name, `has no result: the file ended ${end.ended}`);
  if (tests.length === 0 && failures.length === 0) fail('the file', `has no test; it ended ${end.ended}`);
  if (failures.length === 0 && events.at(-1)?.type !== 'end')
    fail('the file', `ended ${end.ended} before its results were complete`);
  if (failures.length === 0 && !end.isGood) fail('the file', `ended ${end.ended}, although each test passed`);
  return { tests, failures, passed: tests.filter((test) => test.isGood).length };
}
