// The ids and texts of tokenizer files are those of the Hugging Face library
// (tests/fixtures/tokenizers).  LR_LONG=1 also reads the files of npm packages (tests/tokenizers).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { BIN, ROOT } from '../support/program.mjs';

const LONG = process.env.LR_LONG === '1';
const FOLDER = path.join(ROOT, 'tests/fixtures/tokenizers');
const PACKAGES = path.join(ROOT, 'tests/tokenizers/node_modules');

const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));
const texts = read(path.join(FOLDER, 'cases/texts.json'));
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizers-'));
process.on('exit', () => fs.rmSync(scratch, { recursive: true, force: true }));

// The file with the members of a variant in place of its own.
function patched(base, variant) {
  const file = read(base);
  const map = file.normalizer?.precompiled_charsmap;
  for (const [key, value] of Object.entries(variant.patch)) {
    if (key === 'model') Object.assign(file.model, value);
    else if (key === 'model.vocab+') file.model.vocab.push(...value);
    else file[key] = value;
  }
  for (const n of file.normalizer?.normalizers ?? [])
    if (n.precompiled_charsmap === '@base') n.precompiled_charsmap = map;
  return JSON.stringify(file);
}

function fileOf(name, cases) {
  const base = cases.package
    ? path.join(PACKAGES, cases.package, cases.file)
    : path.join(FOLDER, `${cases.base ?? name}.json`);
  assert.equal(
    createHash('sha256').update(fs.readFileSync(base)).digest('hex'),
    cases.sha256,
    `${base} is another file`,
  );
  if (!cases.base) return base;
  const file = path.join(scratch, `${name}.json`);
  fs.writeFileSync(file, patched(base, read(path.join(FOLDER, 'variants', `${name}.json`))));
  return file;
}

// Not synchronous: the runner loses tests of a process that does not answer for long.
function ask(command, file, input, ...flags) {
  const args = ['debug', command, '--tokenizer', file, '--batch', ...flags];
  return new Promise((resolve, reject) => {
    const child = execFile(BIN, args, { maxBuffer: 64 << 20 }, (error, stdout) =>
      error ? reject(error) : resolve(JSON.parse(stdout)),
    );
    child.stdin.end(JSON.stringify(input));
  });
}

async function check(name, cases) {
  const file = fileOf(name, cases);
  const inputs = cases.cases.map(([text]) => (typeof text === 'number' ? texts[text] : text));
  const ids = cases.cases.map(([, list]) => list);
  const wrapped = ids.map((list) => [...cases.before, ...list, ...cases.after]);
  const decoded = cases.cases.map(([, , text], i) => text ?? inputs[i]);
  assert.deepEqual(await ask('tokenize', file, inputs, '--special'), ids);
  assert.deepEqual(await ask('tokenize', file, inputs, '--special', '--template'), wrapped);
  assert.deepEqual(await ask('detokenize', file, ids), decoded);
  assert.deepEqual(
    await ask('detokenize', file, wrapped, '--skip-special'),
    cases.cases.map(([, , , text], i) => text ?? decoded[i]),
  );
}

for (const entry of fs.readdirSync(path.join(FOLDER, 'cases')).sort()) {
  const name = path.basename(entry, '.json');
  if (name === 'texts') continue;
  const cases = read(path.join(FOLDER, 'cases', entry));
  if (cases.package && !LONG) continue;
  test(`${name}: ids and texts are the reference's`, () => check(name, cases));
}
