// The families of engine native in plain arithmetic (plain_model.mjs): what a layer computes, and which tensors it has.
import { falconH1, gemma4, gpt2, gptNeox, gptOss, graniteMoe, lfm2, nemotronH, qwen35 } from './plain_hybrids.mjs';
import {
  around,
  before,
  behind,
  isSparse,
  layerNorm,
  llama,
  qwenWindow,
  sharedExpert,
  sizeOf,
  slides,
  softMoe,
  stack,
} from './plain_stack.mjs';
import { plain } from './plain_model.mjs';

const { add, ropeOf, angles, gqa, mla, glu, plainMlp, moe, deepMoe } = plain;

const GEMMA = [
  'input_layernorm',
  'post_attention_layernorm',
  'pre_feedforward_layernorm',
  'post_feedforward_layernorm',
];

// What the wrappers' configs leave out.
const GEMMA3 = {
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 256,
  max_position_embeddings: 131072,
  rms_norm_eps: 1e-6,
};

function gemma3(get, given, ids) {
  const c = { ...GEMMA3, ...given };
  const full = angles(ropeOf(c, { kind: 'full_attention', theta: 1e6 }), sizeOf(c), ids.length);
  const near = angles(
    ropeOf(c, { kind: 'sliding_attention', theta: c.rope_local_base_freq ?? 10000 }),
    sizeOf(c),
    ids.length,
  );
  const attention = (h, at, n) => {
    const slide = slides(c, n, c.sliding_window_pattern ?? c._sliding_window_pattern ?? 6);
    return gqa(get, h, c, `${at}.self_attn`, {
      qk: 'heads',
      one: true,
      rope: slide ? near : full,
      window: slide ? c.sliding_window : 0,
      scale: 1 / Math.sqrt(c.query_pre_attn_scalar ?? 256),
      softcap: c.attn_logit_softcapping,
    });
  };
  const feed = (h, at) => glu(get, h, `${at}.mlp`, c.intermediate_size, { act: 'gelu_pytorch_tanh' });
  const o = { embedScale: Math.sqrt(c.hidden_size), one: true, tied: true, softcap: c.final_logit_softcapping };
  return stack(get, c, ids, around(get, c, attention, feed, GEMMA, true), o);
}

function gemma2(get, c, ids) {
  const table = angles(ropeOf(c), sizeOf(c), ids.length);
  const attention = (h, at, n) =>
    gqa(get, h, c, `${at}.self_attn`, {
      rope: table,
      window: slides(c, n, 2) ? (c.sliding_window ?? 4096) : 0,
      bias: c.attention_bias ?? false,
      scale: 1 / Math.sqrt(c.query_pre_attn_scalar ?? 256),
      softcap: c.attn_logit_softcapping === undefined ? 50 : c.attn_logit_softcapping,
    });
  const feed = (h, at) => glu(get, h, `${at}.mlp`, c.intermediate_size, { act: 'gelu_pytorch_tanh' });
  const cap = c.final_logit_softcapping === undefined ? 30 : c.final_logit_softcapping;
  return stack(get, c, ids, around(get, c, attention, feed, GEMMA, true), {
    embedScale: Math.sqrt(c.hidden_size),
    one: true,
    tied: true,
    softcap: cap,
  });
}

function cohere(get, c, ids, sliding) {
  const table = angles(ropeOf(c), sizeOf(c), ids.length);
  const layer = (x, at, n) => {
    const slide = sliding && slides(c, n, c.sliding_window_pattern ?? 4);
    const h = layerNorm(get, c, x, `${at}.input_layernorm`, false);
    const o = {
      rope: sliding && !slide ? null : table,
      interleaved: true,
      window: slide ? c.sliding_window : 0,
      bias: c.attention_bias ?? false,
    };
    const qk = c.use_qk_norm ? { qk: 'each', eps: c.layer_norm_eps } : {};
    return add(
      add(x, gqa(get, h, c, `${at}.self_attn`, { ...o, ...qk })),
      glu(get, h, `${at}.mlp`, c.intermediate_size),
    );
  };
  return stack(get, c, ids, layer, {
    tied: true,
    end: (x) => layerNorm(get, c, x, 'model.norm', false),
    logitScale: c.logit_scale ?? 0.0625,
  });
}

const granite = (get, c, ids, o = {}) =>
  llama(get, c, ids, {
    embedScale: c.embedding_multiplier ?? 1,
    logitScale: 1 / (c.logits_scaling ?? 1),
    residual: c.residual_multiplier ?? 1,
    attention: { scale: c.attention_multiplier ?? 1 },
    ...o,
  });

function phimoe(get, c, ids) {
  const eps = { ...c, layer_norm_eps: c.rms_norm_eps };
  return llama(get, eps, ids, {
    theta: 1e6,
    normal: layerNorm,
    window: () => c.sliding_window,
    headBias: c.lm_head_bias,
    end: (x) => layerNorm(get, eps, x, 'model.norm'),
    feed: (h, at) =>
      moe(get, h, `${at}.block_sparse_moe`, {
        count: c.num_local_experts,
        chosen: 2,
        inner: c.intermediate_size,
        form: 'w123',
        score: 'sparsemixer',
        jitter: c.router_jitter_noise ?? 0.01,
      }),
  });
}

const mixtralMoe = (get, c, more) => (h, at) =>
  moe(get, h, `${at}.block_sparse_moe`, {
    count: c.num_local_experts,
    chosen: c.num_experts_per_tok,
    inner: c.intermediate_size,
    form: 'w123',
    normalize: true,
    ...more,
  });

function deepseek(get, c, ids, more = {}) {
  const table = angles(ropeOf(c), c.qk_rope_head_dim, ids.length, c.qk_rope_head_dim);
  const dense = (n) => (c.mlp_layer_types ? c.mlp_layer_types[n] === 'dense' : n < (c.first_k_dense_replace ?? 0));
  return stack(
    get,
    c,
    ids,
    before(
      get,
      c,
      (h, at) => mla(get, h, c, `${at}.self_attn`, table, c.rope_interleave ?? true),
      (h, at, n) => (dense(n) ? glu(get, h, `${at}.mlp`, c.intermediate_size) : deepMoe(get, h, c, `${at}.mlp`, more)),
    ),
  );
}

// DeepSeek V2: softmax scores that are not normalized.
const deepseekV2 = (get, c, ids) =>
  deepseek(get, c, ids, {
    score: 'softmax',
    biasName: null,
    normalize: false,
    groups: c.topk_method === 'group_limited_greedy' ? c.n_group : 1,
    best: 1,
    masked: 0,
  });

function ernie(get, c, ids) {
  const last =
    c.moe_layer_end_index === undefined || c.moe_layer_end_index < 0 ? c.num_hidden_layers : c.moe_layer_end_index;
  const bias = c.use_bias ?? false;
  const sparse = (n) =>
    c.moe_num_experts &&
    n >= (c.moe_layer_start_index ?? 1) &&
    n <= last &&
    (n + 1) % (c.moe_layer_interval ?? 1) === 0;
  const experts = (h, at) => {
    const out = moe(get, h, `${at}.mlp`, {
      count: c.moe_num_experts,
      chosen: c.moe_k,
      inner: c.moe_intermediate_size,
      biasName: 'moe_statics.e_score_correction_bias',
      normalize: true,
      least: c.moe_norm_min ?? 1e-12,
    });
    const n = c.moe_num_shared_experts ?? 0;
    return n ? add(out, glu(get, h, `${at}.mlp.shared_experts`, n * c.moe_intermediate_size, { bias })) : out;
  };
  return llama(get, { ...c, attention_bias: bias, mlp_bias: bias }, ids, {
    theta: 5e5,
    tied: true,
    attention: { interleaved: true },
    feed: (h, at, n) => (sparse(n) ? experts(h, at) : null),
  });
}

const hunyuan = (get, c, ids, o = {}) =>
  llama(get, c, ids, {
    attention: { qk: (c.use_qk_norm ?? true) && 'heads', after: true, normNames: ['query_layernorm', 'key_layernorm'] },
    ...o,
  });

function glm4(get, c, ids) {
  const table = angles(ropeOf(c, { partial: 0.5 }), sizeOf(c), ids.length);
  const names = ['input_layernorm', 'post_self_attn_layernorm', 'post_attention_layernorm', 'post_mlp_layernorm'];
  const attention = (h, at) =>
    gqa(get, h, c, `${at}.self_attn`, {
      bias: c.attention_bias ?? true,
      outBias: false,
      rope: table,
      interleaved: true,
    });
  const feed = (h, at) => glu(get, h, `${at}.mlp`, c.intermediate_size, { fused: 'gate_up_proj' });
  return c.model_type === 'glm'
    ? stack(get, c, ids, before(get, c, attention, feed))
    : stack(get, c, ids, around(get, c, attention, feed, names));
}

const glm4Moe = (get, c, ids) =>
  llama(get, c, ids, {
    partial: 0.5,
    attention: { bias: c.attention_bias ?? false, outBias: false, qk: c.use_qk_norm && 'heads' },
    feed: (h, at, n) => (n < (c.first_k_dense_replace ?? 0) ? null : deepMoe(get, h, c, `${at}.mlp`)),
  });

function olmo(get, c, ids, sliding) {
  const full = angles(ropeOf(c, { kind: 'full_attention', theta: sliding ? 5e5 : 1e4 }), sizeOf(c), ids.length);
  const near = angles(
    ropeOf({ ...c, rope_scaling: undefined }, { kind: 'sliding_attention', theta: c.rope_theta ?? 5e5 }),
    sizeOf(c),
    ids.length,
  );
  const attention = (x, at, n) => {
    const slide = sliding && slides(c, n, 4);
    return gqa(get, x, c, `${at}.self_attn`, {
      qk: 'whole',
      rope: slide ? near : full,
      window: slide ? c.sliding_window : 0,
      bias: c.attention_bias ?? false,
    });
  };
  return stack(
    get,
    c,
    ids,
    behind(get, c, attention, (x, at) => glu(get, x, `${at}.mlp`, c.intermediate_size)),
  );
}

function exaone4(get, c, ids) {
  const table = angles(ropeOf(c), sizeOf(c), ids.length);
  const pattern =
    typeof c.sliding_window_pattern === 'string' ? c.sliding_window_pattern.length : c.sliding_window_pattern;
  const attention = (x, at, n) => {
    const slide = Boolean(c.sliding_window) && slides(c, n, pattern ?? 4);
    return gqa(get, x, c, `${at}.self_attn`, {
      qk: 'heads',
      rope: !c.sliding_window || slide ? table : null,
      window: slide ? c.sliding_window : 0,
    });
  };
  return stack(
    get,
    c,
    ids,
    behind(get, c, attention, (x, at) => glu(get, x, `${at}.mlp`, c.intermediate_size)),
  );
}

function smollm3(get, c, ids) {
  const rotates = (n) => (c.no_rope_layers ? c.no_rope_layers[n] : (n + 1) % (c.no_rope_layer_interval ?? 4)) !== 0;
  const slide = (n) => c.use_sliding_window && (c.layer_types ? slides(c, n) : !rotates(n));
  return llama(get, c, ids, { theta: 2e6, tied: true, rotates, window: (n) => (slide(n) ? c.sliding_window : 0) });
}

const mistral = (get, c, ids) => {
  const r = ropeOf(c);
  const beta = r.llama_4_scaling_beta ? { by: r.llama_4_scaling_beta, floor: r.original } : null;
  const window = (n) =>
    c.layer_types
      ? slides(c, n)
        ? c.sliding_window
        : 0
      : c.sliding_window === undefined && c.model_type === 'mistral'
        ? 4096
        : c.sliding_window;
  return llama(get, c, ids, { window, attention: { beta } });
};

function gemma(get, c, ids) {
  const own = { one: true, embedScale: Math.sqrt(c.hidden_size), tied: true };
  return llama(get, { ...c, hidden_act: 'gelu_pytorch_tanh' }, ids, own);
}

function qwen2Moe(get, c, ids) {
  const window = (n) =>
    !c.use_sliding_window
      ? 0
      : (c.layer_types ? slides(c, n) : n % 2 === 0 && n < (c.max_window_layers ?? 28))
        ? c.sliding_window
        : 0;
  const experts = softMoe(get, c);
  return llama(get, c, ids, {
    window,
    attention: { bias: c.qkv_bias ?? true, outBias: false },
    feed: (h, at, n) => (isSparse(c, n) ? add(experts(h, at), sharedExpert(get, c, h, at)) : null),
  });
}

function hunyuanMoe(get, c, ids) {
  const one = (v) => (Array.isArray(v) ? v[0] : v);
  const feed = (h, at) =>
    add(
      glu(get, h, `${at}.mlp.shared_mlp`, c.intermediate_size),
      moe(get, h, `${at}.mlp`, {
        router: 'gate.wg',
        count: one(c.num_experts),
        chosen: one(c.moe_topk),
        inner: c.intermediate_size,
        normalize: true,
      }),
    );
  return hunyuan(get, c, ids, { feed });
}

// Attention and MLP beside each other behind one layer norm.
function phi(get, c, ids) {
  const table = angles(ropeOf(c, { partial: 0.5 }), sizeOf(c), ids.length);
  const layer = (x, at) => {
    const h = layerNorm(get, c, x, `${at}.input_layernorm`);
    const seen = gqa(get, h, c, `${at}.self_attn`, {
      bias: true,
      rope: table,
      names: ['q_proj', 'k_proj', 'v_proj', 'dense'],
    });
    return add(
      add(x, seen),
      plainMlp(get, h, `${at}.mlp`, c.intermediate_size, 'gelu_new', { bias: true, names: ['fc1', 'fc2'] }),
    );
  };
  return stack(get, c, ids, layer, { end: (x) => layerNorm(get, c, x, 'model.final_layernorm'), headBias: true });
}

function starcoder2(get, c, ids) {
  const bias = c.use_bias ?? true;
  return llama(get, { ...c, attention_bias: bias }, ids, {
    normal: layerNorm,
    window: () => c.sliding_window,
    tied: true,
    end: (x) => layerNorm(get, c, x, 'model.norm'),
    feed: (h, at) =>
      plainMlp(get, h, `${at}.mlp`, c.intermediate_size, 'gelu_pytorch_tanh', { bias, names: ['c_fc', 'c_proj'] }),
  });
}

function stablelm(get, c, ids) {
  const table = angles(ropeOf(c, { partial: 0.25 }), sizeOf(c), ids.length);
  const layer = (x, at) => {
    const h = layerNorm(get, c, x, `${at}.input_layernorm`);
    const seen = add(
      x,
      gqa(get, h, c, `${at}.self_attn`, { bias: c.use_qkv_bias ?? false, outBias: false, rope: table }),
    );
    const next = c.use_parallel_residual ? h : layerNorm(get, c, seen, `${at}.post_attention_layernorm`);
    return add(seen, glu(get, next, `${at}.mlp`, c.intermediate_size));
  };
  return stack(get, c, ids, layer, { end: (x) => layerNorm(get, c, x, 'model.norm') });
}

// By model_type; those of a wrapper are their text's.
export const FAMILIES = {
  llama,
  arcee: (get, c, ids) =>
    llama(get, c, ids, {
      feed: (h, at) => plainMlp(get, h, `${at}.mlp`, c.intermediate_size, 'relu2', { bias: c.mlp_bias ?? false }),
    }),
  helium: (get, c, ids) => llama(get, c, ids, { attention: { interleaved: true, outBias: false } }),
  gemma,
  gemma2,
  qwen2_moe: qwen2Moe,
  olmo2: olmo,
  olmoe: (get, c, ids) =>
    llama(get, c, ids, {
      attention: { qk: 'whole' },
      feed: softMoe(get, { ...c, moe_intermediate_size: c.intermediate_size }),
    }),
  deepseek_v2: deepseekV2,
  cohere,
  glm: glm4,
  granitemoe: graniteMoe,
  granitemoeshared: graniteMoe,
  hunyuan_v1_moe: hunyuanMoe,
  phi,
  starcoder2,
  stablelm,
  gpt_neox: gptNeox,
  gpt2,
  falcon_h1: falconH1,
  mistral,
  ministral: mistral,
  ministral3: mistral,
  qwen2: (get, c, ids) => llama(get, c, ids, { window: qwenWindow(c), attention: { bias: true, outBias: false } }),
  qwen3: (get, c, ids) =>
    llama(get, { head_dim: 128, ...c }, ids, { window: qwenWindow(c), attention: { qk: 'heads' } }),
  qwen3_moe: (get, c, ids) =>
    llama(get, c, ids, {
      window: () => (c.use_sliding_window ? c.sliding_window : 0),
      attention: { qk: 'heads' },
      feed: (h, at, n) => (isSparse(c, n) ? softMoe(get, c, c.experts)(h, at) : null),
    }),
  qwen3_next: qwen35,
  qwen3_5_text: qwen35,
  qwen3_5_moe_text: qwen35,
  gemma3_text: gemma3,
  gemma4_text: gemma4,
  phi3: (get, c, ids) =>
    llama(get, c, ids, {
      window: () => c.sliding_window,
      attention: { fused: 'qkv_proj' },
      mlp: { fused: 'gate_up_proj' },
    }),
  phimoe,
  glm4,
  glm4_moe: glm4Moe,
  glm4_moe_lite: deepseek,
  deepseek_v3: deepseek,
  kimi_k2: deepseek,
  nemotron_h: nemotronH,
  granite,
  granitemoehybrid: graniteMoe,
  olmo3: (get, c, ids) => olmo(get, c, ids, true),
  smollm3,
  mixtral: (get, c, ids) =>
    llama(get, c, ids, { theta: 1e6, window: () => c.sliding_window, feed: mixtralMoe(get, c) }),
  minimax_m2: (get, c, ids) =>
    llama(get, c, ids, {
      theta: 5e6,
      width: c.rotary_dim,
      attention: { qk: (c.use_qk_norm ?? true) && 'whole' },
      feed: mixtralMoe(get, c, {
        score: 'sigmoid',
        biasName: (c.use_routing_bias ?? true) && 'e_score_correction_bias',
      }),
    }),
  seed_oss: (get, c, ids) =>
    llama(get, { ...c, attention_bias: c.attention_bias ?? true }, ids, {
      attention: { outBias: c.attention_out_bias ?? false },
    }),
  lfm2,
  lfm2_moe: lfm2,
  exaone4,
  cohere2: (get, c, ids) => cohere(get, c, ids, true),
  ernie4_5: ernie,
  ernie4_5_moe: ernie,
  hunyuan_v1_dense: hunyuan,
  gpt_oss: gptOss,
};

// A wrapper's text.
export function textOf(config) {
  const { text_config: text, ...outer } = config;
  const c = text ? { ...outer, ...text } : config;
  const plainType = {
    qwen2_vl: 'qwen2',
    qwen2_5_vl: 'qwen2',
    qwen2_5_vl_text: 'qwen2',
    qwen3_vl_text: 'qwen3',
    qwen3_vl_moe_text: 'qwen3_moe',
    qwen3_5: 'qwen3_5_text',
    qwen3_5_moe: 'qwen3_5_moe_text',
    gemma3: 'gemma3_text',
    gemma4: 'gemma4_text',
    mistral3: 'mistral',
  };
  const experts = c.model_type === 'qwen3_vl_moe_text' ? { form: 'columns', normalize: true } : undefined;
  return { ...c, experts, model_type: plainType[c.model_type] ?? c.model_type };
}

export function logitsOf(config, get, ids) {
  const c = textOf(config);
  return FAMILIES[c.model_type](get, c, ids);
}
