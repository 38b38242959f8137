// The options and shapes that checkpoints of a family have, beside those of tests/fixtures/families: the engine gives
// the logits of a plain implementation in doubles (support/plain_model.mjs), which gives those of Hugging Face
// transformers for the fixtures.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { bertRows, meanOf, nomicRows } from '../support/plain_encoders.mjs';
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

const ENCODER = {
  vocab_size: 61,
  hidden_size: 24,
  intermediate_size: 40,
  num_hidden_layers: 2,
  num_attention_heads: 3,
  hidden_act: 'gelu',
  layer_norm_eps: 1e-5,
  max_position_embeddings: 64,
  pad_token_id: 1,
};
// Encoders below a name of their own, with the parts of what they were made for.
const ENCODERS = {
  bert: {
    rows: bertRows,
    config: { ...ENCODER, architectures: ['BertForMaskedLM'], model_type: 'bert', type_vocab_size: 2 },
    extra: {
      'cls.predictions.bias': [61],
      'bert.pooler.dense.weight': [24, 24],
      'bert.embeddings.position_ids': [1, 64],
    },
  },
  roberta: {
    rows: bertRows,
    config: { ...ENCODER, architectures: ['RobertaForMaskedLM'], model_type: 'roberta', type_vocab_size: 1 },
    extra: { 'lm_head.bias': [61] },
  },
  nomic_bert: {
    rows: nomicRows,
    config: {
      architectures: ['NomicBertModel'],
      model_type: 'nomic_bert',
      vocab_size: 61,
      n_embd: 24,
      n_layer: 2,
      n_head: 3,
      n_inner: 40,
      n_positions: 64,
      activation_function: 'swiglu',
      layer_norm_epsilon: 1e-12,
      rotary_emb_base: 1000,
      rotary_emb_fraction: 1.0,
      rotary_emb_interleaved: false,
      qkv_proj_bias: false,
      mlp_fc1_bias: false,
      mlp_fc2_bias: false,
      prenorm: false,
      use_rms_norm: false,
      type_vocab_size: 2,
      rotary_scaling_factor: null,
    },
  },
};

test('encoders give the vectors of the plain implementation', (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'encoders-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  for (const [name, { rows, config, extra }] of Object.entries(ENCODERS)) {
    const get = randomTensors(name);
    const wanted = meanOf(rows(get, config, IDS));
    const dir = path.join(folder, name);
    get.write(dir, config, extra);
    const input = JSON.stringify(IDS);
    const got = JSON.parse(execFileSync(BIN, ['debug', 'embed', '--model', dir, '--device', 'cpu'], { input }));
    assert.ok(errorOf(got, wanted) <= LIMIT, `${name}: ${errorOf(got, wanted)}`);
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
