// Configs of tiny models with the options that checkpoints of the hub have (native_variants.test.mjs).  Sizes are no
// multiples of 16, windows and first contexts are shorter than the test's text.

// What a config of transformers 4 says: rope_theta, rope_scaling, torch_dtype.
const BASE = {
  vocab_size: 61,
  hidden_size: 40,
  intermediate_size: 52,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 12,
  hidden_act: 'silu',
  max_position_embeddings: 64,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: false,
  torch_dtype: 'bfloat16',
};
const model = (architecture, model_type, own = {}) => {
  const config = { architectures: [architecture], model_type, ...BASE, ...own };
  return (more = {}, how = {}) => ({ config: { ...config, ...more }, ...how });
};

const pairs = (n, f) => Array.from({ length: n }, (_, i) => f(i));
const LLAMA3 = {
  rope_type: 'llama3',
  factor: 8,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 16,
};
const YARN = { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 16 };
const LONG = (dims) => ({
  type: 'longrope',
  short_factor: pairs(dims / 2, (i) => 1 + i / 9),
  long_factor: pairs(dims / 2, (i) => 2 + i),
});
// Transformers 5: everything about the rope in one member, and dtype.
const newer = ({ config, ...how }) => {
  const { rope_theta, rope_scaling, partial_rotary_factor, torch_dtype, ...rest } = config;
  const parameters = { rope_type: 'default', ...rope_scaling, rope_theta };
  if (partial_rotary_factor) parameters.partial_rotary_factor = partial_rotary_factor;
  return { config: { ...rest, dtype: torch_dtype, rope_parameters: parameters }, ...how };
};
// Below a wrapper: its fields are the text's, as are its tensors.
const wrapped = (
  { config, ...how },
  architecture,
  model_type,
  { outer = {}, prefix = 'model.language_model.', tower = 'model.visual.' } = {},
) => {
  const { architectures, ...text } = config;
  void architectures;
  const name = (n) =>
    n.startsWith('model.') ? prefix + n.slice(6) : prefix === 'language_model.model.' ? `language_model.${n}` : n;
  return {
    config: {
      architectures: [architecture],
      model_type,
      ...outer,
      text_config: text,
      vision_config: { hidden_size: 8 },
    },
    extra: { [`${tower}patch_embed.proj.weight`]: [4, 4] },
    name,
    ...how,
  };
};

const llama = model('LlamaForCausalLM', 'llama');
const mistral = model('MistralForCausalLM', 'mistral');
const ministral = model('Ministral3ForCausalLM', 'ministral3');
const qwen2 = model('Qwen2ForCausalLM', 'qwen2', { head_dim: undefined });
const qwen3 = model('Qwen3ForCausalLM', 'qwen3');
const MOE = { num_experts: 6, num_experts_per_tok: 2, moe_intermediate_size: 20 };
const qwen3Moe = model('Qwen3MoeForCausalLM', 'qwen3_moe', { ...MOE, norm_topk_prob: true });
const DELTA = {
  linear_conv_kernel_dim: 4,
  linear_key_head_dim: 12,
  linear_value_head_dim: 8,
  linear_num_key_heads: 2,
  linear_num_value_heads: 4,
};
const SHARED = { ...MOE, shared_expert_intermediate_size: 28 };
const next = model('Qwen3NextForCausalLM', 'qwen3_next', {
  ...DELTA,
  ...SHARED,
  partial_rotary_factor: 0.5,
  norm_topk_prob: true,
});
const qwen35 = model('Qwen3_5ForCausalLM', 'qwen3_5_text', { ...DELTA, partial_rotary_factor: 0.5 });
const qwen35Moe = model('Qwen3_5MoeForCausalLM', 'qwen3_5_moe_text', {
  ...DELTA,
  ...SHARED,
  partial_rotary_factor: 0.5,
});
const GEMMA = {
  hidden_act: undefined,
  hidden_activation: 'gelu_pytorch_tanh',
  sliding_window: 9,
  query_pre_attn_scalar: 20,
};
const gemma3 = model('Gemma3ForCausalLM', 'gemma3_text', {
  ...GEMMA,
  num_hidden_layers: 3,
  tie_word_embeddings: undefined,
});
const gemma4 = model('Gemma4ForCausalLM', 'gemma4_text', {
  ...GEMMA,
  query_pre_attn_scalar: undefined,
  num_hidden_layers: 3,
  layer_types: ['sliding_attention', 'full_attention', 'sliding_attention'],
  global_head_dim: 24,
  tie_word_embeddings: true,
  rope_theta: undefined,
  rope_parameters: {
    full_attention: { rope_type: 'proportional', partial_rotary_factor: 0.25, rope_theta: 1e6 },
    sliding_attention: { rope_type: 'default', rope_theta: 1e4 },
  },
});
const phi3 = model('Phi3ForCausalLM', 'phi3', { head_dim: undefined, original_max_position_embeddings: 16 });
const phimoe = model('PhimoeForCausalLM', 'phimoe', {
  head_dim: undefined,
  num_local_experts: 5,
  num_experts_per_tok: 2,
  attention_bias: true,
});
const glm4 = model('Glm4ForCausalLM', 'glm4', { attention_bias: true });
const DEEP = {
  n_routed_experts: 8,
  num_experts_per_tok: 3,
  moe_intermediate_size: 20,
  n_shared_experts: 1,
  first_k_dense_replace: 1,
  n_group: 1,
  topk_group: 1,
  routed_scaling_factor: 1.5,
  norm_topk_prob: true,
};
const glm4Moe = model('Glm4MoeForCausalLM', 'glm4_moe', DEEP);
const LATENT = {
  ...DEEP,
  head_dim: undefined,
  num_key_value_heads: 4,
  kv_lora_rank: 20,
  q_lora_rank: 28,
  qk_nope_head_dim: 12,
  qk_rope_head_dim: 8,
  v_head_dim: 10,
};
const deepseek = model('DeepseekV3ForCausalLM', 'deepseek_v3', LATENT);
const glmLite = model('Glm4MoeLiteForCausalLM', 'glm4_moe_lite', LATENT);
const nemotron = model('NemotronHForCausalLM', 'nemotron_h', {
  hybrid_override_pattern: 'M*-M',
  num_hidden_layers: 4,
  layer_norm_epsilon: 1e-5,
  mamba_num_heads: 6,
  mamba_head_dim: 8,
  n_groups: 2,
  ssm_state_size: 12,
  conv_kernel: 4,
  use_conv_bias: true,
  use_bias: false,
  mlp_bias: false,
  mlp_hidden_act: 'relu2',
  mamba_hidden_act: 'silu',
  time_step_min: 0.001,
});
const NEMOTRON_MOE = {
  ...DEEP,
  n_routed_experts: 6,
  moe_shared_expert_intermediate_size: 24,
  first_k_dense_replace: undefined,
};
const FACTORS = { embedding_multiplier: 6, logits_scaling: 3, residual_multiplier: 0.3, attention_multiplier: 0.2 };
const granite = model('GraniteForCausalLM', 'granite', FACTORS);
const MAMBA = {
  mamba_n_heads: 8,
  mamba_d_head: 10,
  mamba_d_state: 12,
  mamba_n_groups: 1,
  mamba_d_conv: 4,
  mamba_expand: 2,
  mamba_conv_bias: true,
  mamba_proj_bias: false,
};
const graniteHybrid = model('GraniteMoeHybridForCausalLM', 'granitemoehybrid', {
  ...FACTORS,
  ...MAMBA,
  head_dim: undefined,
  layer_types: ['mamba', 'attention'],
  num_local_experts: 0,
  num_experts_per_tok: 0,
  shared_intermediate_size: 36,
  position_embedding_type: 'nope',
  normalization_function: 'rmsnorm',
});
const olmo3 = model('Olmo3ForCausalLM', 'olmo3', { num_hidden_layers: 4, sliding_window: 9, head_dim: undefined });
const smollm3 = model('SmolLM3ForCausalLM', 'smollm3', { num_hidden_layers: 4, no_rope_layer_interval: 4 });
const mixtral = model('MixtralForCausalLM', 'mixtral', { num_local_experts: 5, num_experts_per_tok: 2 });
const minimax = model('MiniMaxM2ForCausalLM', 'minimax_m2', {
  num_local_experts: 6,
  num_experts_per_tok: 2,
  rotary_dim: 8,
  use_qk_norm: true,
  qk_norm_type: 'per_layer',
  scoring_func: 'sigmoid',
  use_routing_bias: true,
});
const seed = model('SeedOssForCausalLM', 'seed_oss');
const lfm2 = model('Lfm2ForCausalLM', 'lfm2', {
  head_dim: undefined,
  num_hidden_layers: 3,
  norm_eps: 1e-5,
  rms_norm_eps: undefined,
  tie_word_embeddings: undefined,
  conv_L_cache: 3,
  conv_bias: false,
  block_auto_adjust_ff_dim: false,
  layer_types: ['conv', 'full_attention', 'conv'],
});
const lfm2Moe = model('Lfm2MoeForCausalLM', 'lfm2_moe', {
  ...MOE,
  head_dim: undefined,
  num_hidden_layers: 3,
  norm_eps: 1e-5,
  rms_norm_eps: undefined,
  tie_word_embeddings: undefined,
  conv_L_cache: 3,
  conv_bias: false,
  num_dense_layers: 1,
  norm_topk_prob: true,
  use_expert_bias: true,
  routed_scaling_factor: 1,
  layer_types: ['conv', 'full_attention', 'conv'],
});
const exaone4 = model('Exaone4ForCausalLM', 'exaone4', { num_hidden_layers: 4, sliding_window: 9 });
const COHERE = {
  head_dim: undefined,
  rms_norm_eps: undefined,
  layer_norm_eps: 1e-5,
  logit_scale: 0.25,
  tie_word_embeddings: undefined,
};
const cohere2 = model('Cohere2ForCausalLM', 'cohere2', { ...COHERE, num_hidden_layers: 4, sliding_window: 9 });
const ernie = model('Ernie4_5ForCausalLM', 'ernie4_5', { tie_word_embeddings: true });
const ernieMoe = model('Ernie4_5_MoeForCausalLM', 'ernie4_5_moe', {
  num_hidden_layers: 4,
  moe_num_experts: 6,
  moe_k: 2,
  moe_intermediate_size: 20,
  moe_num_shared_experts: 2,
  moe_layer_start_index: 1,
  moe_layer_end_index: 3,
  moe_layer_interval: 1,
  use_bias: false,
});
const hunyuan = model('HunYuanDenseV1ForCausalLM', 'hunyuan_v1_dense', { use_qk_norm: true });
const gptOss = model('GptOssForCausalLM', 'gpt_oss', {
  num_local_experts: 4,
  num_experts_per_tok: 2,
  sliding_window: 9,
  attention_bias: true,
});

const gemma2 = model('Gemma2ForCausalLM', 'gemma2', { ...GEMMA, num_hidden_layers: 3, tie_word_embeddings: undefined });
const gemma = model('GemmaForCausalLM', 'gemma', { hidden_act: 'gelu_pytorch_tanh', tie_word_embeddings: undefined });
const qwen2Moe = model('Qwen2MoeForCausalLM', 'qwen2_moe', { ...SHARED, head_dim: undefined });
const VL = { vision_start_token_id: 50, rope_scaling: { type: 'mrope', mrope_section: [2, 2, 1] } };
const olmo2 = model('Olmo2ForCausalLM', 'olmo2', { head_dim: undefined, rope_theta: 5e5 });
const olmoe = model('OlmoeForCausalLM', 'olmoe', {
  head_dim: undefined,
  num_experts: 6,
  num_experts_per_tok: 3,
  clip_qkv: null,
  norm_topk_prob: false,
});
const deepseekV2 = model('DeepseekV2ForCausalLM', 'deepseek_v2', {
  ...LATENT,
  scoring_func: 'softmax',
  topk_method: 'greedy',
  norm_topk_prob: false,
});
const cohere = model('CohereForCausalLM', 'cohere', COHERE);
const glm = model('GlmForCausalLM', 'glm', { attention_bias: true, partial_rotary_factor: 0.5 });
const graniteMoe = model('GraniteMoeForCausalLM', 'granitemoe', {
  ...FACTORS,
  head_dim: undefined,
  num_local_experts: 5,
  num_experts_per_tok: 2,
});
const hunyuanMoe = model('HunYuanMoEV1ForCausalLM', 'hunyuan_v1_moe', {
  num_experts: 4,
  moe_topk: [2, 2],
  use_cla: false,
});
const LAYER_NORM = { head_dim: undefined, rms_norm_eps: undefined, layer_norm_eps: 1e-5 };
const phi = model('PhiForCausalLM', 'phi', {
  ...LAYER_NORM,
  hidden_size: 32,
  partial_rotary_factor: 0.5,
  hidden_act: 'gelu_new',
});
const starcoder2 = model('Starcoder2ForCausalLM', 'starcoder2', {
  ...LAYER_NORM,
  layer_norm_eps: undefined,
  norm_epsilon: 1e-5,
  hidden_act: 'gelu_pytorch_tanh',
  tie_word_embeddings: undefined,
});
const stablelm = model('StableLmForCausalLM', 'stablelm', {
  ...LAYER_NORM,
  hidden_size: 32,
  partial_rotary_factor: 0.25,
});
const neox = model('GPTNeoXForCausalLM', 'gpt_neox', {
  ...LAYER_NORM,
  hidden_size: 32,
  rope_theta: undefined,
  rotary_pct: 0.25,
  rotary_emb_base: 10000,
  hidden_act: 'gelu',
  num_key_value_heads: undefined,
});
const gpt2 = model('GPT2LMHeadModel', 'gpt2', {
  n_embd: 40,
  n_layer: 2,
  n_head: 4,
  n_positions: 64,
  layer_norm_epsilon: 1e-5,
  activation_function: 'gelu_new',
  tie_word_embeddings: undefined,
});
const falconH1 = model('FalconH1ForCausalLM', 'falcon_h1', {
  ...MAMBA,
  head_dim: 10,
  mamba_d_ssm: 48,
  mamba_d_head: 6,
  mamba_rms_norm: false,
});

export const VARIANTS = {
  'llama: one head for all keys, tied': llama({ num_key_value_heads: 1, tie_word_embeddings: true }),
  'llama: as many heads of keys, no head_dim, biases': llama({
    head_dim: null,
    num_key_value_heads: 4,
    attention_bias: true,
    mlp_bias: true,
  }),
  'llama: linear rope': llama({ rope_scaling: { type: 'linear', factor: 4 } }),
  'llama: dynamic rope within and beyond the first context': llama({
    rope_scaling: { type: 'dynamic', factor: 2 },
    max_position_embeddings: 32,
  }),
  'llama: yarn': llama({ rope_scaling: { ...YARN, beta_fast: 8, beta_slow: 2, mscale: 0.7, mscale_all_dim: 1 } }),
  'llama: yarn without truncation, a factor for attention': llama({
    rope_scaling: { ...YARN, truncate: false, attention_factor: 1.2 },
  }),
  'llama: llama3, newer config': newer(llama({ rope_scaling: LLAMA3 })),
  'llama: longrope': llama({ rope_scaling: { ...LONG(12), original_max_position_embeddings: 16, factor: 4 } }),
  'llama: a rope scaling of null, an older one of mrope': llama({
    rope_scaling: { type: 'mrope', mrope_section: [2, 2, 2] },
  }),
  'arcee: an MLP without a gate': {
    config: { ...llama({ hidden_act: 'relu2' }).config, architectures: ['ArceeForCausalLM'], model_type: 'arcee' },
  },
  helium: {
    config: { ...llama({ attention_bias: true }).config, architectures: ['HeliumForCausalLM'], model_type: 'helium' },
  },
  gemma2: gemma2(),
  'gemma2: without soft caps, all layers see everything': gemma2({
    attn_logit_softcapping: null,
    final_logit_softcapping: null,
    layer_types: pairs(3, () => 'full_attention'),
  }),
  gemma: gemma({ num_key_value_heads: 1 }),
  'gemma3: what a wrapper leaves out': wrapped(
    {
      config: {
        ...gemma3().config,
        ...Object.fromEntries(
          [
            'head_dim',
            'num_attention_heads',
            'num_key_value_heads',
            'max_position_embeddings',
            'rope_theta',
            'rms_norm_eps',
            'query_pre_attn_scalar',
            'hidden_activation',
          ].map((n) => [n, undefined]),
        ),
        rope_scaling: { factor: 8, rope_type: 'linear' },
      },
    },
    'Gemma3ForConditionalGeneration',
    'gemma3',
    { prefix: 'language_model.model.', tower: 'vision_tower.' },
  ),
  'qwen2_moe: dense layers': qwen2Moe({ num_hidden_layers: 4, mlp_only_layers: [1], decoder_sparse_step: 2 }),
  'qwen2_moe: a window, no biases': qwen2Moe({
    use_sliding_window: true,
    sliding_window: 9,
    max_window_layers: 1,
    qkv_bias: false,
    norm_topk_prob: true,
  }),
  'qwen2_vl: an older wrapper': {
    ...qwen2(VL, { extra: { 'visual.patch_embed.proj.weight': [4, 4] } }),
    config: { ...qwen2(VL).config, architectures: ['Qwen2VLForConditionalGeneration'], model_type: 'qwen2_vl' },
  },
  'qwen2_5_vl: a newer one': wrapped(
    { config: { ...newer(qwen2(VL)).config, model_type: 'qwen2_5_vl_text' } },
    'Qwen2_5_VLForConditionalGeneration',
    'qwen2_5_vl',
  ),
  qwen3_vl: wrapped(
    { config: { ...qwen3(VL).config, model_type: 'qwen3_vl_text' } },
    'Qwen3VLForConditionalGeneration',
    'qwen3_vl',
  ),
  'qwen3_vl_moe: experts by columns': wrapped(
    { config: { ...qwen3Moe(VL).config, model_type: 'qwen3_vl_moe_text' } },
    'Qwen3VLMoeForConditionalGeneration',
    'qwen3_vl_moe',
  ),
  olmo2: olmo2({ attention_bias: true }),
  olmoe: olmoe(),
  'deepseek_v2: chosen by score': deepseekV2({ q_lora_rank: null, n_shared_experts: 2 }),
  'deepseek_v2: groups by their best, yarn': deepseekV2({
    topk_method: 'group_limited_greedy',
    n_group: 4,
    topk_group: 2,
    rope_scaling: { ...YARN, mscale: 0.7, mscale_all_dim: 0.7 },
  }),
  cohere: cohere(),
  'cohere: norms on heads': cohere({ use_qk_norm: true }),
  glm: glm(),
  granitemoe: graniteMoe(),
  granitemoeshared: {
    config: {
      ...graniteMoe({ shared_intermediate_size: 36 }).config,
      architectures: ['GraniteMoeSharedForCausalLM'],
      model_type: 'granitemoeshared',
    },
  },
  hunyuan_v1_moe: hunyuanMoe(),
  phi: phi(),
  'starcoder2: a window': starcoder2({ sliding_window: 9 }),
  'starcoder2: no biases': starcoder2({ use_bias: false, tie_word_embeddings: false }),
  stablelm: stablelm({ use_qkv_bias: true }),
  'stablelm: attention and MLP beside each other': stablelm({ use_parallel_residual: true }),
  gpt_neox: neox(),
  'gpt_neox: behind each other, masks of older files': neox(
    { use_parallel_residual: false, attention_bias: false },
    {
      extra: {
        'gpt_neox.layers.0.attention.bias': [1, 1, 4, 4],
        'gpt_neox.layers.1.attention.rotary_emb.inv_freq': [2],
      },
    },
  ),
  gpt2: gpt2({}, { extra: { 'h.0.attn.bias': [1, 1, 4, 4] } }),
  'gpt2: below a name': gpt2({ n_inner: 52 }, { name: (n) => `transformer.${n}` }),
  'falcon_h1: factors': falconH1({
    ssm_multipliers: [0.5, 0.7, 1.2, 0.9, 1.1],
    mlp_multipliers: [0.8, 1.3],
    key_multiplier: 0.6,
    ssm_in_multiplier: 0.7,
    ssm_out_multiplier: 1.2,
    attention_in_multiplier: 0.9,
    attention_out_multiplier: 0.8,
    embedding_multiplier: 2,
    lm_head_multiplier: 0.5,
  }),
  'falcon_h1: a norm behind the gate, groups': falconH1({
    mamba_rms_norm: true,
    mamba_norm_before_gate: false,
    mamba_n_groups: 2,
  }),
  'falcon_h1: a norm before the gate': falconH1({
    mamba_rms_norm: true,
    mamba_norm_before_gate: true,
    mamba_d_ssm: null,
    mamba_d_head: 10,
    projectors_bias: false,
  }),
  'ministral: windows by list': {
    config: {
      ...mistral({ sliding_window: 9, layer_types: ['sliding_attention', 'full_attention'] }).config,
      architectures: ['MinistralForCausalLM'],
      model_type: 'ministral',
    },
  },
  'mistral: the window that is usual': mistral(),
  'glm4_moe_lite: layers by list': newer(
    glmLite({ mlp_layer_types: ['sparse', 'dense'], first_k_dense_replace: undefined }),
  ),
  'mistral: no window': mistral({ sliding_window: null }),
  'mistral: a window, newer config': newer(mistral({ sliding_window: 9 })),
  'mistral3: a wrapper, names of older files': wrapped(
    mistral({ sliding_window: null }),
    'Mistral3ForConditionalGeneration',
    'mistral3',
    { prefix: 'language_model.model.', tower: 'vision_tower.' },
  ),
  'ministral3: queries grow': newer(
    ministral({ rope_scaling: { ...YARN, llama_4_scaling_beta: 0.1, mscale: 1, mscale_all_dim: 1 } }),
  ),
  'qwen2: a window from a layer on': qwen2({ use_sliding_window: true, sliding_window: 9, max_window_layers: 1 }),
  'qwen2: a window that is not used': qwen2({
    use_sliding_window: false,
    sliding_window: 9,
    max_window_layers: 1,
    tie_word_embeddings: true,
  }),
  'qwen2: yarn as its readme says': qwen2({
    rope_scaling: { factor: 4, original_max_position_embeddings: 16, type: 'yarn' },
  }),
  'qwen3: a window by the list': qwen3({
    use_sliding_window: true,
    sliding_window: 9,
    layer_types: ['full_attention', 'sliding_attention'],
  }),
  'qwen3: attention_bias, tied, yarn': qwen3({ attention_bias: true, tie_word_embeddings: true, rope_scaling: YARN }),
  'qwen3_moe: some layers are dense': qwen3Moe({ num_hidden_layers: 4, mlp_only_layers: [1], decoder_sparse_step: 2 }),
  'qwen3_moe: no normalization': qwen3Moe({ norm_topk_prob: false, mlp_only_layers: [] }),
  'qwen3_moe: a window': qwen3Moe({ use_sliding_window: true, sliding_window: 9 }),
  'qwen3_next: layers by interval': next({ full_attention_interval: 2 }),
  'qwen3_next: layers by list, one dense': newer(
    next({ layer_types: ['full_attention', 'linear_attention'], mlp_only_layers: [0] }),
  ),
  'qwen3_5: dense below a wrapper': wrapped(
    newer(qwen35({ full_attention_interval: 2 })),
    'Qwen3_5ForConditionalGeneration',
    'qwen3_5',
    { outer: { tie_word_embeddings: true } },
  ),
  'qwen3_5_moe: a tensor for each expert': qwen35Moe({ layer_types: ['linear_attention', 'full_attention'] }),
  'qwen3_5_moe: fused tensors': wrapped(
    newer(qwen35Moe({ full_attention_interval: 2 }, { fused: true })),
    'Qwen3_5MoeForConditionalGeneration',
    'qwen3_5_moe',
  ),
  'gemma3: a pattern, linear rope for layers that see everything': gemma3({
    sliding_window_pattern: 3,
    rope_theta: 1e6,
    rope_local_base_freq: 1e4,
    rope_scaling: { factor: 8, rope_type: 'linear' },
  }),
  'gemma3: a rope of its own for each kind of layer': gemma3({
    rope_theta: undefined,
    layer_types: ['sliding_attention', 'full_attention', 'sliding_attention'],
    rope_parameters: {
      full_attention: { rope_type: 'linear', factor: 8, rope_theta: 1e6 },
      sliding_attention: { rope_type: 'default', rope_theta: 5e3 },
    },
  }),
  'gemma4: keys that are values, other heads where everything is seen': gemma4({
    attention_k_eq_v: true,
    num_global_key_value_heads: 1,
    final_logit_softcapping: 3,
  }),
  'gemma4: experts beside the MLP': gemma4({
    enable_moe_block: true,
    num_experts: 5,
    top_k_experts: 2,
    moe_intermediate_size: 20,
  }),
  'gemma4: shared keys, embeddings of each layer': gemma4({
    num_hidden_layers: 6,
    layer_types: pairs(6, (i) => (i % 2 ? 'full_attention' : 'sliding_attention')),
    num_kv_shared_layers: 2,
    hidden_size_per_layer_input: 12,
    vocab_size_per_layer_input: 61,
    use_double_wide_mlp: true,
  }),
  'phi3: longrope on a part of the head': phi3({
    hidden_size: 64,
    partial_rotary_factor: 0.75,
    rope_scaling: LONG(12),
  }),
  'phi3: longrope below the first context, a window': phi3({
    rope_scaling: LONG(8),
    partial_rotary_factor: 0.8,
    original_max_position_embeddings: 48,
    sliding_window: 9,
  }),
  'phi3: plain, tied': phi3({
    hidden_size: 48,
    tie_word_embeddings: true,
    rope_scaling: null,
    original_max_position_embeddings: undefined,
  }),
  'phimoe: long and short mscale': phimoe({
    hidden_size: 48,
    rope_scaling: { ...LONG(12), short_mscale: 1.2, long_mscale: 1.3, original_max_position_embeddings: 16 },
    lm_head_bias: true,
  }),
  'glm4: newer config': newer(glm4({ partial_rotary_factor: 0.5 })),
  'glm4_moe: norms on heads': glm4Moe({
    partial_rotary_factor: 0.5,
    use_qk_norm: true,
    n_group: 2,
    topk_group: 1,
    attention_bias: true,
  }),
  'glm4_moe: without, an extra layer': glm4Moe(
    { partial_rotary_factor: 0.5, use_qk_norm: false, first_k_dense_replace: 0, n_shared_experts: 2 },
    { extra: { 'model.layers.2.eh_proj.weight': [40, 80] } },
  ),
  'deepseek_v3: yarn with mscale, groups': deepseek({
    n_group: 4,
    topk_group: 2,
    rope_scaling: {
      type: 'yarn',
      factor: 4,
      beta_fast: 32,
      beta_slow: 1,
      mscale: 1,
      mscale_all_dim: 1,
      original_max_position_embeddings: 16,
    },
  }),
  'deepseek_v3: one matrix for queries': deepseek({ q_lora_rank: null, n_shared_experts: 2 }),
  kimi_k2: { config: { ...deepseek().config, model_type: 'kimi_k2', n_group: 1, topk_group: 1 } },
  'glm4_moe_lite: newer config': newer(glmLite({ rms_norm_eps: 1e-5 })),
  'nemotron_h: dense layers': nemotron(),
  'nemotron_h: experts, names of layers, biases': nemotron({
    ...NEMOTRON_MOE,
    hybrid_override_pattern: undefined,
    layers_block_type: ['mamba', 'moe', 'attention', 'mlp'],
    mlp_bias: true,
    use_bias: true,
  }),
  'nemotron_h: experts in a latent space, groups': nemotron({
    ...NEMOTRON_MOE,
    hybrid_override_pattern: 'ME*E',
    moe_latent_size: 20,
    n_group: 2,
  }),
  'granite: biases, tied': granite({ attention_bias: true, mlp_bias: true, tie_word_embeddings: true }),
  'granitemoehybrid: without experts': graniteHybrid(),
  'granitemoehybrid: experts, rope, attention alone': graniteHybrid({
    layer_types: ['attention', 'attention'],
    num_local_experts: 5,
    num_experts_per_tok: 2,
    position_embedding_type: 'rope',
  }),
  'granitemoehybrid: the head size by expand, two groups': graniteHybrid({
    mamba_d_head: 'auto',
    mamba_n_groups: 2,
    tie_word_embeddings: true,
  }),
  'olmo3: yarn for layers that see everything': olmo3({
    rope_theta: 5e5,
    rope_scaling: { ...YARN, attention_factor: 1.1 },
  }),
  'olmo3: layers by list': olmo3({
    layer_types: ['full_attention', 'sliding_attention', 'sliding_attention', 'full_attention'],
  }),
  'smollm3: layers without rope by list': smollm3({ no_rope_layers: [1, 0, 0, 1], rope_theta: 5e6 }),
  'smollm3: by interval, biases': smollm3({
    no_rope_layer_interval: 2,
    attention_bias: true,
    mlp_bias: true,
    rope_scaling: YARN,
  }),
  'smollm3: layers without rope slide': smollm3({ use_sliding_window: true, sliding_window: 9 }),
  'mixtral: a window': mixtral({ sliding_window: 9, rope_theta: 1e6 }),
  minimax_m2: minimax({ rope_theta: 5e6 }),
  'minimax_m2: without norms and bias': minimax({ use_qk_norm: false, use_routing_bias: false }),
  'seed_oss: every bias': seed({ attention_bias: true, attention_out_bias: true, mlp_bias: true }),
  'lfm2: the width is adjusted': lfm2({
    block_auto_adjust_ff_dim: true,
    block_multiple_of: 8,
    block_ffn_dim_multiplier: 1.3,
    block_ff_dim: 66,
    intermediate_size: 66,
  }),
  'lfm2: layers by numbers, biases': lfm2({ layer_types: undefined, full_attn_idxs: [1], conv_bias: true }),
  'lfm2_moe: without bias for the choice': lfm2Moe({ use_expert_bias: false, norm_topk_prob: false }),
  'exaone4: without windows': exaone4({ sliding_window: null, sliding_window_pattern: null }),
  'exaone4: a pattern of letters': exaone4({ sliding_window_pattern: 'LLG' }),
  'cohere2: a pattern': cohere2({ sliding_window_pattern: 2, use_embedding_sharing: true }),
  'cohere2: attention_bias, list': cohere2({
    layer_types: ['full_attention', 'sliding_attention', 'full_attention', 'sliding_attention'],
    attention_bias: true,
  }),
  'ernie4_5: dense, biases': ernie({ use_bias: true }),
  'ernie4_5_moe: every second layer, none shared': ernieMoe({ moe_layer_interval: 2, moe_num_shared_experts: 0 }),
  'ernie4_5_moe: until a layer': ernieMoe({ moe_layer_end_index: 2, tie_word_embeddings: true }),
  'hunyuan_v1_dense: alpha': hunyuan({
    rope_scaling: {
      type: 'dynamic',
      alpha: 1000,
      factor: 1,
      beta_fast: 32,
      beta_slow: 1,
      mscale: 1,
      mscale_all_dim: 1,
    },
  }),
  'hunyuan_v1_dense: without norms, biases': hunyuan({ use_qk_norm: false, attention_bias: true }),
  'gpt_oss: without biases in attention': gptOss({
    attention_bias: false,
    rope_theta: 150000,
    rope_scaling: { ...YARN, truncate: false },
  }),
};
