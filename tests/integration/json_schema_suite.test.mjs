// The JSON Schema test suite against constrained output: no invalid instance is accepted, and no valid instance is
// refused, by the schemas that are supported.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { BIN, ROOT } from '../support/program.mjs';
import { isEqual, read, spell, write } from '../support/spelling.mjs';

const FOLDER = path.join(ROOT, 'tests/fixtures/json-schema-test-suite');

// A documented limit, not a matter of spelling: host names with labels in Punycode are never generated.
const isBeyondLimits = (file, data) => file === 'hostname' && /(^|\.)xn--/i.test(data);

// The schemas of a draft, each with its instances.
function casesOf(draft, marker) {
  const suite = read(gunzipSync(readFileSync(path.join(FOLDER, `${draft}.json.gz`))).toString());
  const cases = [];
  for (const [part, files] of Object.entries(suite))
    for (const [file, groups] of Object.entries(files))
      for (const { description, schema, tests } of groups) {
        const marked = typeof schema === 'object' && marker ? { $schema: marker, ...schema } : schema;
        cases.push({ part, file, name: `${file}: ${description}`, schema: marked, tests });
      }
  return cases;
}

// Asks one process about all schemas and instances; the answers come in the order of the questions.
function match(cases) {
  const lines = [];
  for (const { schema, tests } of cases) {
    lines.push(`{"schema":${write(schema)}}`);
    for (const { data } of tests) {
      const text = spell(data, schema);
      assert.ok(isEqual(read(text), data), `${text} is another value than ${write(data)}`);
      lines.push(JSON.stringify({ text }));
    }
  }
  const result = spawnSync(BIN, ['debug', 'match'], { input: lines.join('\n'), encoding: 'utf8', maxBuffer: 1 << 26 });
  assert.equal(result.status, 0, result.stderr);
  return result.stdout.trimEnd().split('\n');
}

for (const [draft, marker] of [
  ['draft2020-12', null],
  ['draft7', 'http://json-schema.org/draft-07/schema#'],
])
  test(`${draft}: supported schemas accept the valid instances and no others, and 80 % are supported`, (t) => {
    const cases = casesOf(draft, marker);
    const answers = match(cases);
    const wrong = [];
    const counts = { required: [0, 0], format: [0, 0] };
    for (const { part, file, name, schema, tests } of cases) {
      const own = answers.splice(0, tests.length);
      const isSupported = !own[0].startsWith('refused: ');
      counts[part][0] += isSupported;
      counts[part][1]++;
      if (!isSupported) continue;
      for (const [i, { description, data, valid }] of tests.entries())
        if ((own[i] === 'accept') !== valid && !(valid && isBeyondLimits(file, data)))
          wrong.push(`${name}: ${description}: ${write(schema)}: ${spell(data, schema)}: ${own[i]}`);
    }
    assert.deepEqual(answers, []);
    assert.deepEqual(wrong, []);
    const supported = counts.required[0] + counts.format[0];
    t.diagnostic(`supported schemas: ${counts.required.join(' of ')}, optional formats ${counts.format.join(' of ')}`);
    assert.ok(supported >= 0.8 * cases.length, `${supported} of ${cases.length}`);
  });
