// Random weights of a family of models, with the demo model's tokenizer and vocabulary: the answers are noise, but
// each token depends on all tokens before it.
import fs from 'node:fs';
import path from 'node:path';
import { logitsOf, textOf } from './plain_families.mjs';
import { randomTensors } from './random_tensors.mjs';
import { VARIANTS } from './variants.mjs';

const VOCABULARY = 2048;
const CONTEXT = 4096;
const TEMPLATE =
  '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}';

// A tiny model of the variants that native_variants.test.mjs compares, wide enough for the demo model's vocabulary.
function widened({ config: given, ...how }) {
  const wide = (c) => ({
    ...c,
    vocab_size: VOCABULARY,
    max_position_embeddings: CONTEXT,
    ...(c.n_positions && { n_positions: CONTEXT }),
    ...(c.vocab_size_per_layer_input && { vocab_size_per_layer_input: VOCABULARY }),
  });
  const config = JSON.parse(JSON.stringify(given)); // without what is undefined
  return { config: config.text_config ? { ...config, text_config: wide(config.text_config) } : wide(config), ...how };
}

const variant = (title) => widened(VARIANTS[title]);

// Recurrent state by the delta rule and by Mamba2, latent keys, windows with keys that layers share, experts.
export const FAMILIES = {
  qwen3_5: variant('qwen3_5: dense below a wrapper'),
  nemotron_h: variant('nemotron_h: dense layers'),
  deepseek_v3: variant('deepseek_v3: yarn with mscale, groups'),
  gemma4: variant('gemma4: shared keys, embeddings of each layer'),
  qwen3_moe: variant('qwen3_moe: no normalization'),
};

// The first variant of every model type.
export function everyFamily() {
  const found = {};
  for (const title of Object.keys(VARIANTS)) {
    const type = textOf(VARIANTS[title].config).model_type;
    if (!(type in found)) found[type] = variant(title);
  }
  return found;
}

// Writes the model's folder; `demo` has the tokenizer.
export function makeFamilyModel({ config, extra, ...how }, demo, to, seed = 1) {
  const get = randomTensors(`${path.basename(to)} ${seed}`, how);
  logitsOf(config, get, [1, 2]); // asks for every tensor
  get.write(to, config, extra);
  fs.writeFileSync(path.join(to, 'tokenizer_config.json'), JSON.stringify({ chat_template: TEMPLATE }));
  for (const name of ['tokenizer.json', 'generation_config.json'])
    fs.copyFileSync(path.join(demo, name), path.join(to, name));
  return to;
}
