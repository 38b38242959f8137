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
import { bf16, fromBf16, hashOf, numbers, readTensors, writeTensors } from '../support/safetensors.mjs';
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

// Around 0 for a matrix, around 1 for a norm; a state that neither vanishes nor stays.
function centreOf(name, shape) {
  if (name.endsWith('A_log')) return [0.3, 0.5];
  if (name.endsWith('dt_bias')) return [-2, 0.7];
  if (/bias$/.test(name)) return [0, 0.15];
  if (/(gate|router\.layer|router)\.weight$/.test(name)) return [0, 2 / Math.sqrt(shape.at(-1))];
  return shape.length > 1 ? [0, 1.2 / Math.sqrt(shape.at(-1))] : [1, 0.15];
}

// Random tensors, made when the plain implementation asks for them.
function random(seed, { fused = false, name: rename = (n) => n } = {}) {
  const made = {};
  const get = (name, ...shape) => {
    made[name] ??= (() => {
      const next = numbers(hashOf(seed + name));
      const [middle, spread] = centreOf(name, shape);
      const bytes = bf16(Array.from({ length: shape.reduce((a, b) => a * b) }, () => middle + spread * next()));
      return { shape, bytes, values: fromBf16(bytes) };
    })();
    return made[name].values;
  };
  get.has = (name) => fused && name.endsWith('gate_up_proj');
  get.write = (dir, more = {}) => {
    const extra = Object.entries(more).map(([name, shape]) => [
      name,
      { shape, bytes: bf16(Array(shape.reduce((a, b) => a * b)).fill(1)) },
    ]);
    const own = Object.entries(made).map(([name, { shape, bytes }]) => [rename(name), { shape, bytes }]);
    writeTensors(dir, Object.fromEntries([...own, ...extra]));
  };
  return get;
}

function check(title, dir, { config: given, extra, ids = IDS, ...how }) {
  const config = JSON.parse(JSON.stringify(given)); // without what is undefined
  const get = random(title, how);
  const wanted = logitsOf(config, get, ids);
  get.write(dir, extra);
  fs.writeFileSync(path.join(dir, 'config.json'), JSON.stringify(config));
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
