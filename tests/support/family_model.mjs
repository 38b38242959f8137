// Random weights of a family of models, with the demo model's tokenizer and vocabulary: the answers are noise, but
// each token depends on all tokens before it.
import fs from 'node:fs';
import path from 'node:path';
import { bf16, numbers, writeTensors } from './safetensors.mjs';

const VOCABULARY = 2048;
const [HIDDEN, HEADS, KV_HEADS, HEAD] = [128, 4, 2, 32];
const TEMPLATE =
  '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}';

const shared = {
  vocab_size: VOCABULARY,
  hidden_size: HIDDEN,
  num_attention_heads: HEADS,
  num_key_value_heads: KV_HEADS,
  head_dim: HEAD,
  attention_bias: false,
  hidden_act: 'silu',
  max_position_embeddings: 4096,
  rms_norm_eps: 1e-6,
  tie_word_embeddings: false,
};

// Numbers around 0 with a spread that keeps the activations in range, or around 1.
const matrix = (...shape) => ({ shape, spread: 1.2 / Math.sqrt(shape.at(-1)) });
const around = (middle, spread, ...shape) => ({ shape, middle, spread });

const attention = (at, gated) => ({
  [`${at}.q_proj.weight`]: matrix(HEADS * HEAD * (gated ? 2 : 1), HIDDEN),
  [`${at}.k_proj.weight`]: matrix(KV_HEADS * HEAD, HIDDEN),
  [`${at}.v_proj.weight`]: matrix(KV_HEADS * HEAD, HIDDEN),
  [`${at}.o_proj.weight`]: matrix(HIDDEN, HEADS * HEAD),
  [`${at}.q_norm.weight`]: around(gated ? 0 : 1, 0.15, HEAD),
  [`${at}.k_norm.weight`]: around(gated ? 0 : 1, 0.15, HEAD),
});

const norms = (at, middle) => ({
  [`${at}.input_layernorm.weight`]: around(middle, 0.15, HIDDEN),
  [`${at}.post_attention_layernorm.weight`]: around(middle, 0.15, HIDDEN),
});

const mlp = (at, inner) => ({
  [`${at}.gate_proj.weight`]: matrix(inner, HIDDEN),
  [`${at}.up_proj.weight`]: matrix(inner, HIDDEN),
  [`${at}.down_proj.weight`]: matrix(HIDDEN, inner),
});

// Three layers of four have a recurrent state.
function qwen35() {
  const [keys, values, size, layers] = [2, 4, 16, 4];
  const mixed = 2 * keys * size + values * size;
  const recurrent = (at) => ({
    [`${at}.in_proj_qkv.weight`]: matrix(mixed, HIDDEN),
    [`${at}.in_proj_z.weight`]: matrix(values * size, HIDDEN),
    [`${at}.in_proj_a.weight`]: matrix(values, HIDDEN),
    [`${at}.in_proj_b.weight`]: matrix(values, HIDDEN),
    [`${at}.conv1d.weight`]: matrix(mixed, 1, 4),
    [`${at}.A_log`]: around(0.3, 0.5, values),
    [`${at}.dt_bias`]: around(-2, 0.7, values),
    [`${at}.norm.weight`]: around(1, 0.15, size),
    [`${at}.out_proj.weight`]: matrix(HIDDEN, values * size),
  });
  const kinds = Array.from({ length: layers }, (_, i) => (i % 4 === 3 ? 'full_attention' : 'linear_attention'));
  const root = 'model.language_model';
  const tensors = { [`${root}.embed_tokens.weight`]: around(0, 1, VOCABULARY, HIDDEN) };
  kinds.forEach((kind, i) => {
    const at = `${root}.layers.${i}`;
    Object.assign(tensors, norms(at, 0), mlp(`${at}.mlp`, HIDDEN));
    Object.assign(
      tensors,
      kind === 'full_attention' ? attention(`${at}.self_attn`, true) : recurrent(`${at}.linear_attn`),
    );
  });
  tensors[`${root}.norm.weight`] = around(0, 0.15, HIDDEN);
  const text = {
    ...shared,
    model_type: 'qwen3_5_text',
    intermediate_size: HIDDEN,
    num_hidden_layers: layers,
    attn_output_gate: true,
    full_attention_interval: 4,
    layer_types: kinds,
    linear_conv_kernel_dim: 4,
    linear_key_head_dim: size,
    linear_value_head_dim: size,
    linear_num_key_heads: keys,
    linear_num_value_heads: values,
    rope_parameters: { partial_rotary_factor: 0.25, rope_theta: 1e7, rope_type: 'default' },
  };
  return {
    config: { architectures: ['Qwen3_5ForConditionalGeneration'], model_type: 'qwen3_5', text_config: text },
    tensors,
  };
}

function qwen3Moe() {
  const [experts, inner, layers] = [8, 32, 2];
  const tensors = { 'model.embed_tokens.weight': around(0, 1, VOCABULARY, HIDDEN) };
  for (let i = 0; i < layers; i++) {
    const at = `model.layers.${i}`;
    Object.assign(tensors, norms(at, 1), attention(`${at}.self_attn`, false));
    tensors[`${at}.mlp.gate.weight`] = matrix(experts, HIDDEN);
    for (let e = 0; e < experts; e++) Object.assign(tensors, mlp(`${at}.mlp.experts.${e}`, inner));
  }
  tensors['model.norm.weight'] = around(1, 0.15, HIDDEN);
  const config = {
    ...shared,
    architectures: ['Qwen3MoeForCausalLM'],
    model_type: 'qwen3_moe',
    intermediate_size: HIDDEN,
    num_hidden_layers: layers,
    moe_intermediate_size: inner,
    num_experts: experts,
    num_experts_per_tok: 2,
    norm_topk_prob: true,
    decoder_sparse_step: 1,
    mlp_only_layers: [],
    rope_theta: 1e6,
  };
  return { config, tensors };
}

export const FAMILIES = { qwen3_5: qwen35, qwen3_moe: qwen3Moe };

// Writes the model's folder; `demo` has the tokenizer.
export function makeFamilyModel(family, demo, to, seed = 1) {
  const { config, tensors } = FAMILIES[family]();
  const next = numbers(seed);
  tensors['lm_head.weight'] = { ...matrix(VOCABULARY, HIDDEN), spread: 1.8 / Math.sqrt(HIDDEN) };
  const values = Object.entries(tensors).map(([name, { shape, middle = 0, spread }]) => {
    const count = shape.reduce((a, b) => a * b, 1);
    return [name, { shape, bytes: bf16(Array.from({ length: count }, () => middle + spread * next())) }];
  });
  writeTensors(to, Object.fromEntries(values));
  fs.writeFileSync(path.join(to, 'config.json'), JSON.stringify({ ...config, dtype: 'bfloat16' }));
  fs.writeFileSync(path.join(to, 'tokenizer_config.json'), JSON.stringify({ chat_template: TEMPLATE }));
  for (const name of ['tokenizer.json', 'generation_config.json'])
    fs.copyFileSync(path.join(demo, name), path.join(to, name));
  return to;
}
