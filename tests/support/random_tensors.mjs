// Random tensors of a tiny model, made when plain arithmetic asks for them (plain_model.mjs), and the folder of it.
import fs from 'node:fs';
import path from 'node:path';
import { bf16, fromBf16, hashOf, numbers, writeTensors } from './safetensors.mjs';

// Around 0 for a matrix, around 1 for a norm; a state that neither vanishes nor stays.
function centreOf(name, shape) {
  if (name.endsWith('A_log')) return [0.3, 0.5];
  if (name.endsWith('dt_bias')) return [-2, 0.7];
  if (/bias$/.test(name)) return [0, 0.15];
  if (/(gate|router\.layer|router)\.weight$/.test(name)) return [0, 2 / Math.sqrt(shape.at(-1))];
  return shape.length > 1 ? [0, 1.2 / Math.sqrt(shape.at(-1))] : [1, 0.15];
}

// `fused`: experts are one tensor.  `name` gives the name in the file.
export function randomTensors(seed, { fused = false, name: rename = (n) => n } = {}) {
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
  // The folder with everything that was asked for; `more` are shapes of tensors that nobody needs.
  get.write = (dir, config, more = {}) => {
    const ones = (shape) => bf16(Array(shape.reduce((a, b) => a * b)).fill(1));
    const extra = Object.entries(more).map(([name, shape]) => [name, { shape, bytes: ones(shape) }]);
    const own = Object.entries(made).map(([name, { shape, bytes }]) => [rename(name), { shape, bytes }]);
    writeTensors(dir, Object.fromEntries([...own, ...extra]));
    fs.writeFileSync(path.join(dir, 'config.json'), JSON.stringify(config));
  };
  return get;
}
