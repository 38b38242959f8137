// The runner of these tests (tests/run.mjs): no result of a test is lost, and a failure says what failed
// and why.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { ROOT } from '../support/program.mjs';
import { tempDir } from '../support/scene.mjs';

const LONG = process.env.LR_LONG === '1';

// Runs one file of tests with this text.
function runText(text) {
  const dir = tempDir('results');
  const file = path.join(dir, 'some.test.mjs');
  fs.writeFileSync(
    file,
    `import { after, describe, it, test } from 'node:test';\nimport net from 'node:net';\n${text}`,
  );
  const run = spawnSync(process.execPath, [path.join(ROOT, 'tests/run.mjs'), 'shared', dir, file], {
    encoding: 'utf8',
  });
  const [passed, failed] = fs.readFileSync(path.join(dir, 'shared.counts'), 'utf8').split(' ').map(Number);
  return { passed, failed, said: run.stdout + run.stderr };
}

// What keeps a process from ending by itself, and much output at the end.
const BUSY = `net.createServer().listen(0, '127.0.0.1');\nafter(() => console.log('line\\n'.repeat(20000)));\n`;

describe('a run of test files', () => {
  it('names a test that fails at the end of its file, its reason and the end of the output, each time', () => {
    for (let round = 0; round < (LONG ? 10 : 2); round++) {
      const many = Array.from({ length: 40 }, (_, i) => `test('good ${i}', () => {});\n`).join('');
      const text = `net.createServer().listen(0, '127.0.0.1');\n${many}test('the last', () => { console.log('the log says why'); throw new Error('broken on purpose'); });`;
      const { passed, failed, said } = runText(text);
      assert.deepEqual([passed, failed], [40, 1], said);
      assert.match(said, /not ok: the last\n +Error: broken on purpose/);
      assert.match(said, /the end of .*[^ ]*some\.output:\n(.*\n)* +the log says why\n/);
    }
  });

  it('counts every test of a file that prints much and has open handles at its end', () => {
    const text = `${BUSY}describe('suite', () => { for (let i = 0; i < 30; i++) it('t' + i, () => {}); });`;
    for (let round = 0; round < (LONG ? 10 : 2); round++) {
      const { passed, failed, said } = runText(text);
      assert.deepEqual([passed, failed], [30, 0], said);
    }
  });

  it('counts a file that ends before its tests have ended as failed, and says how it ended', () => {
    const { passed, failed, said } = runText(
      `test('first', () => {});\ntest('ends all', async () => { await new Promise((r) => setTimeout(r, 50)); process.exit(0); });\ntest('never runs', () => {});`,
    );
    assert.deepEqual([passed, failed], [1, 2], said);
    assert.match(said, /not ok: ends all\n +has no result: the file ended with status 0/);
    assert.match(said, /not ok: never runs\n +has no result: the file ended with status 0/);
  });

  it('counts a file without a test, a file that cannot be read, a skipped test and a failed hook as failed', () => {
    for (const [text, wanted] of [
      ['', /has no test/],
      ['import nothing from "./nowhere.mjs";', /has no test; it ended with status 1[^]*nowhere\.mjs/],
      [`test('left out', { skip: true }, () => {});`, /not ok: left out\n +skipped/],
      [
        `describe('suite', () => { after(() => { throw new Error('hook'); }); it('t', () => {}); });`,
        /not ok: suite\n[^]*hook/,
      ],
    ]) {
      const { failed, said } = runText(text);
      assert.equal(failed, 1, said);
      assert.match(said, wanted);
    }
  });
});
