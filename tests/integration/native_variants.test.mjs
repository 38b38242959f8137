// The options and shapes that checkpoints of a family have, beside those of tests/fixtures/families: the engine gives
// the logits of a plain implementation in doubles (support/plain_model.mjs), which gives those of Hugging Face
// transformers for the fixtures.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { FAMILIES, logitsOf, textOf } from '../support/plain_families.mjs';
import { BIN, ROOT } from '../support/program.mjs';
import { randomTensors } from '../support/random_tensors.mjs';
import { readTensors } from '../support/safetensors.mjs';
import { VARIANTS } from '../support/variants.mjs';

const LONG = process.env.LR_LONG === '1';
const LIMIT = 1e-5;
const FIXTURES = path.join(ROOT, 'tests/fixtures/families');
// A text that is longer than the variants' windows and first contexts.
const IDS = Array.from({ length: 40 }, (_, i) => (i * 37 + 11) % 61);

function errorOf(got, wanted) {
  let [difference, size] = [0, 0];
  wanted.forEach((v, i) => {
    difference += (got[i] - v) ** 2;
    size += v * v;
  });
  return Math.sqrt(difference / size);
}

function logits(dir, ids, ...flags) {
  const out = execFileSync(BIN, ['debug', 'logits', '--model', dir, '--device', 'cpu', ...flags], {
    input: JSON.stringify(ids),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  return Float32Array.from({ length: out.length / 4 }, (_, i) => out.readFloatLE(4 * i));
}

const places = [(n) => n, (n) => `model.language_model.${n.slice(6)}`, (n) => `language_model.${n}`];

// Tensors of a folder, where the wrapper has them.
function from(dir) {
  const tensors = readTensors(dir);
  const find = (name) => places.map((place) => tensors[place(name)]).find((t) => t);
  const get = (name, ...shape) => {
    const tensor = find(name);
    assert.equal(
      tensor?.values.length,
      shape.reduce((a, b) => a * b),
      name,
    );
    return tensor.values;
  };
  get.has = (name) => find(name) !== undefined;
  return get;
}

function check(title, dir, { config: given, extra, ids = IDS, ...how }) {
  const config = JSON.parse(JSON.stringify(given)); // without what is undefined
  const get = randomTensors(title, how);
  const wanted = logitsOf(config, get, ids);
  get.write(dir, config, extra);
  const error = errorOf(logits(dir, ids), wanted.flat());
  return error <= LIMIT ? [] : [`${title}: ${error}`];
}

test('the plain implementation gives the logits of transformers', () => {
  for (const name of fs.readdirSync(FIXTURES)) {
    const dir = path.join(FIXTURES, name);
    const config = JSON.parse(fs.readFileSync(path.join(dir, 'config.json')));
    if (FAMILIES[textOf(config).model_type] === undefined || fs.existsSync(path.join(dir, 'modules.json'))) continue;
    const one = JSON.parse(fs.readFileSync(path.join(dir, 'golden.json'))).cases.ids17;
    const rows = logitsOf(config, from(dir), one.ids);
    const file = fs.readFileSync(path.join(dir, one.logits_file));
    const wanted = Array.from({ length: file.length / 4 }, (_, i) => file.readFloatLE(4 * i));
    const error = errorOf(
      one.positions.flatMap((p) => rows[p]),
      wanted,
    );
    assert.ok(error <= LIMIT, `${name}: ${error}`);
  }
});

test('the engine gives the logits of the plain implementation for what checkpoints of a family have', (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'variants-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const only = process.env.VARIANTS;
  const wrong = [];
  for (const [at, [title, variant]] of Object.entries(VARIANTS).entries()) {
    // Every third in `make test`, all in `make test-long`, or those that VARIANTS names.
    if (only ? !title.includes(only) : !LONG && at % 3 !== 0) continue;
    try {
      wrong.push(...check(title, path.join(folder, title.replaceAll(/\W/g, '_')), variant));
    } catch (e) {
      wrong.push(`${title}: ${String(e.stderr ?? e.stack).trim()}`);
    }
  }
  assert.deepEqual(wrong, []);
});
