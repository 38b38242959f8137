// Random answers through the masks of random schemas, checked by an independent validator (ajv): whatever the masks
// let through is valid.  A tenth of the walks unless LR_LONG=1.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { ROOT } from '../support/program.mjs';
import { RandomSchemas } from '../support/random_schema.mjs';

const DEBUG = process.env.LLM_ROUTER_DEBUG_BIN ?? path.join(ROOT, 'build/asan/bin/llm-router');
const WALK = path.resolve(path.dirname(DEBUG), '../tests/grammar_walk');
const WALKS = process.env.LR_LONG === '1' ? 1000 : 100;

const ajv = addFormats.default(
  new Ajv.default({ strict: false, validateSchema: false, multipleOfPrecision: 6, logger: false }),
);

test(`${WALKS} random walks through the masks of random schemas end in valid instances`, (t) => {
  const seed = Number(process.env.SEED ?? 1);
  const random = new RandomSchemas(seed);
  const schemas = Array.from({ length: 2 * WALKS }, () => random.next());
  const input = schemas.map((schema) => `${JSON.stringify(schema)}\n`).join('');
  const result = spawnSync(WALK, [String(seed)], { input, encoding: 'utf8', maxBuffer: 1 << 28 });
  assert.equal(result.status, 0, result.stderr);
  const answers = result.stdout.trimEnd().split('\n');
  assert.equal(answers.length, schemas.length);
  let walks = 0;
  const wrong = [];
  for (const [i, answer] of answers.entries()) {
    if (answer.startsWith('refused: ') || walks === WALKS) continue;
    walks++;
    try {
      const validate = ajv.compile(schemas[i]);
      if (validate(JSON.parse(answer))) continue;
      wrong.push(`${JSON.stringify(schemas[i])}: ${answer}: ${validate.errors[0].message}`);
    } catch (error) {
      wrong.push(`${JSON.stringify(schemas[i])}: ${answer}: ${error.message}`);
    }
  }
  assert.deepEqual(wrong, []);
  assert.equal(walks, WALKS);
  t.diagnostic(
    `${answers.filter((answer) => answer.startsWith('refused: ')).length} of ${schemas.length} schemas refused`,
  );
});
