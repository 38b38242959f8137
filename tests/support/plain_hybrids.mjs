// Plain decoders whose layers are not those of Llama: with state, with experts beside an MLP, with other names.
import {
  before,
  isSparse,
  layerNorm,
  llama,
  rms,
  sharedExpert,
  sizeOf,
  slides,
  softMoe,
  stack,
} from './plain_stack.mjs';
import { ACTS, plain } from './plain_model.mjs';

const { each, add, times, part, linear, norm, ropeOf, angles, gqa, glu, plainMlp, moe, conv, mamba2, deltaRule } =
  plain;

function qwen35(get, c, ids) {
  const table = angles(ropeOf(c, { partial: 0.25 }), sizeOf(c), ids.length);
  const attends = (n) =>
    c.layer_types ? c.layer_types[n] === 'full_attention' : (n + 1) % (c.full_attention_interval ?? 4) === 0;
  const experts = softMoe(get, c, { normalize: c.norm_topk_prob ?? true });
  const layer = before(
    get,
    c,
    (h, at, n) =>
      attends(n)
        ? gqa(get, h, c, `${at}.self_attn`, {
            qk: 'heads',
            one: true,
            gated: c.attn_output_gate ?? true,
            rope: table,
            bias: c.attention_bias,
          })
        : deltaRule(get, h, c, `${at}.linear_attn`),
    (h, at, n) =>
      c.num_experts && isSparse(c, n)
        ? add(experts(h, at), sharedExpert(get, c, h, at))
        : glu(get, h, `${at}.mlp`, c.intermediate_size),
    { one: true },
  );
  return stack(get, c, ids, layer, { one: true });
}

function gemma4(get, c, ids) {
  const [size, wide] = [c.head_dim ?? 256, c.global_head_dim ?? 512];
  const full = angles(ropeOf(c, { kind: 'full_attention', theta: 1e6 }), wide, ids.length);
  const near = angles(ropeOf(c, { kind: 'sliding_attention' }), size, ids.length);
  const [layers, hidden, eps] = [c.num_hidden_layers, c.hidden_size, c.rms_norm_eps];
  const own = c.hidden_size_per_layer_input ?? 0;
  const shared = c.num_kv_shared_layers ?? 0;
  const kept = {};
  let extra;
  const attention = (h, at, n) => {
    const slide = slides(c, n, 6);
    const d = slide ? size : wide;
    const alike = c.attention_k_eq_v && !slide;
    const kv = alike && c.num_global_key_value_heads ? c.num_global_key_value_heads : c.num_key_value_heads;
    const name = `${at}.self_attn`;
    const heads = c.num_attention_heads;
    const by = (rows, w) => norm(rows, w && get(`${name}.${w}.weight`, d), { eps, size: d });
    const table = slide ? near : full;
    const q = plain.rotate(by(linear(get, h, `${name}.q_proj`, heads * d), 'q_norm'), table, d);
    if (!(shared && n >= layers - shared)) {
      const raw = linear(get, h, `${name}.k_proj`, kv * d);
      const k = plain.rotate(by(raw, 'k_norm'), table, d);
      kept[slide] = [k, by(alike ? raw : linear(get, h, `${name}.v_proj`, kv * d))];
    }
    const out = plain.attend(q, ...kept[slide], {
      heads,
      kv,
      size: d,
      scale: 1,
      window: slide ? (c.sliding_window ?? 512) : 0,
    });
    return linear(get, out, `${name}.o_proj`, hidden);
  };
  const scalar = (h, name, by) => h.map((row) => row.map((v, i) => v * get(name, hidden)[i] * by));
  const layer = (x, at, n) => {
    const by = (rows, name) => rms(get, c, rows, `${at}.${name}`);
    x = add(x, by(attention(by(x, 'input_layernorm'), at, n), 'post_attention_layernorm'));
    const double = c.use_double_wide_mlp && shared && n >= layers - shared ? 2 : 1;
    let h = glu(get, by(x, 'pre_feedforward_layernorm'), `${at}.mlp`, c.intermediate_size * double, {
      act: 'gelu_pytorch_tanh',
    });
    if (c.enable_moe_block) {
      h = by(h, 'post_feedforward_layernorm_1');
      const seen = scalar(norm(x, null, { eps }), `${at}.router.scale`, 1 / Math.sqrt(hidden));
      const logits = linear(get, seen, `${at}.router.proj`, c.num_experts);
      const scale = get(`${at}.router.per_expert_scale`, c.num_experts);
      const routes = logits.map((row) => plain.route(row, { chosen: c.top_k_experts, normalize: true, each: scale }));
      const all = moeFused(get, by(x, 'pre_feedforward_layernorm_2'), `${at}.experts`, c, routes);
      h = add(h, by(all, 'post_feedforward_layernorm_2'));
    }
    x = add(x, by(h, 'post_feedforward_layernorm'));
    if (own) {
      const gate = linear(get, x, `${at}.per_layer_input_gate`, own);
      const mixed = gate.map((row, t) => row.map((v, i) => ACTS.gelu_pytorch_tanh(v) * extra[t][n * own + i]));
      x = add(x, by(linear(get, mixed, `${at}.per_layer_projection`, hidden), 'post_per_layer_input_norm'));
    }
    return times(x, get(`${at}.layer_scalar`, 1)[0]);
  };
  const begin = (x) => {
    if (!own) return x;
    const table = get('model.embed_tokens_per_layer.weight', c.vocab_size_per_layer_input, layers * own);
    const mine = times(linear(get, x, 'model.per_layer_model_projection', layers * own), 1 / Math.sqrt(hidden));
    const normed = norm(mine, get('model.per_layer_projection_norm.weight', own), { eps, size: own });
    extra = normed.map((row, t) =>
      row.map((v, i) => (v + table[ids[t] * layers * own + i] * Math.sqrt(own)) * Math.SQRT1_2),
    );
    return x;
  };
  return stack(get, c, ids, layer, {
    begin,
    embedScale: Math.sqrt(hidden),
    tied: true,
    softcap: c.final_logit_softcapping,
  });
}

function moeFused(get, x, at, c, routes) {
  const [inner, hidden, count] = [c.moe_intermediate_size, c.hidden_size, c.num_experts];
  const both = get(`${at}.gate_up_proj`, count, 2 * inner, hidden);
  const down = get(`${at}.down_proj`, count, hidden, inner);
  return plain.mix(x, routes, (i) => (row) => {
    const [gu] = plain.apply([row], both.subarray(i * 2 * inner * hidden, (i + 1) * 2 * inner * hidden), 2 * inner);
    const mixed = each(inner, (k) => ACTS.gelu_pytorch_tanh(gu[k]) * gu[inner + k]);
    return plain.apply([mixed], down.subarray(i * hidden * inner, (i + 1) * hidden * inner), hidden)[0];
  });
}

function graniteMoe(get, c, ids) {
  const table =
    (c.position_embedding_type ?? (c.model_type === 'granitemoehybrid' ? 'nope' : 'rope')) === 'rope' &&
    angles(ropeOf(c), sizeOf(c), ids.length);
  const heads = c.mamba_n_heads;
  const size = c.mamba_d_head === 'auto' || !c.mamba_d_head ? (c.mamba_expand * c.hidden_size) / heads : c.mamba_d_head;
  const isMamba = (n) => ['mamba', 'linear_attention'].includes((c.layer_types ?? c.layers_block_type ?? [])[n]);
  const shared = c.shared_intermediate_size ?? 0;
  const layer = before(
    get,
    c,
    (h, at, n) =>
      isMamba(n)
        ? mamba2(get, h, c, `${at}.mamba`, {
            heads,
            size,
            groups: c.mamba_n_groups,
            state: c.mamba_d_state,
            kernel: c.mamba_d_conv,
            bias: c.mamba_proj_bias ?? false,
            convBias: c.mamba_conv_bias ?? true,
            eps: c.rms_norm_eps,
          })
        : gqa(get, h, c, `${at}.self_attn`, {
            rope: table,
            scale: c.attention_multiplier,
            bias: c.attention_bias ?? false,
          }),
    (h, at) => {
      const outs = [];
      if (c.num_local_experts)
        outs.push(
          moe(get, h, `${at}.block_sparse_moe`, {
            router: 'router.layer',
            form: 'granite',
            count: c.num_local_experts,
            chosen: c.num_experts_per_tok,
            inner: c.intermediate_size,
            normalize: true,
          }),
        );
      if (shared)
        outs.push(
          glu(get, h, `${at}.shared_mlp`, shared, { fused: 'input_linear', names: [null, null, 'output_linear'] }),
        );
      return outs.length > 1 ? add(...outs) : outs[0];
    },
    { residual: c.residual_multiplier },
  );
  return stack(get, c, ids, layer, { embedScale: c.embedding_multiplier, logitScale: 1 / c.logits_scaling });
}

function nemotronH(get, c, ids) {
  const kinds = { mamba: 'M', linear_attention: 'M', moe: 'E', attention: '*', full_attention: '*', mlp: '-' };
  const given = c.hybrid_override_pattern ?? c.layers_block_type ?? c.layer_types;
  const pattern = [...given].map((k) => kinds[k] ?? k);
  const eps = c.layer_norm_epsilon ?? c.norm_eps ?? c.rms_norm_eps;
  const layer = (x, at, n) => {
    const h = norm(x, get(`${at}.norm.weight`, c.hidden_size), { eps });
    const name = `${at}.mixer`;
    const how = {
      heads: c.mamba_num_heads,
      size: c.mamba_head_dim,
      groups: c.n_groups,
      state: c.ssm_state_size,
      kernel: c.conv_kernel,
      bias: c.use_bias,
      convBias: c.use_conv_bias,
      eps,
      grouped: true,
      dtMin: c.time_step_min,
    };
    switch (pattern[n]) {
      case 'M':
        return add(x, mamba2(get, h, c, name, how));
      case '*':
        return add(x, gqa(get, h, c, name, { bias: c.attention_bias ?? false }));
      case '-':
        return add(x, plainMlp(get, h, name, c.intermediate_size, 'relu2', { bias: c.mlp_bias ?? false }));
      default:
        return add(
          x,
          add(
            nemotronExperts(get, h, c, name),
            plainMlp(get, h, `${name}.shared_experts`, c.moe_shared_expert_intermediate_size, 'relu2', {
              bias: c.mlp_bias ?? false,
            }),
          ),
        );
    }
  };
  const end = (x) => norm(x, get('backbone.norm_f.weight', c.hidden_size), { eps });
  return stack(get, { ...c, num_hidden_layers: pattern.length }, ids, layer, {
    embed: 'backbone.embeddings',
    at: 'backbone.layers',
    end,
  });
}

function nemotronExperts(get, h, c, name) {
  const logits = linear(get, h, `${name}.gate`, c.n_routed_experts);
  const bias = get(`${name}.gate.e_score_correction_bias`, c.n_routed_experts);
  const o = {
    score: 'sigmoid',
    bias,
    groups: c.n_group,
    groupCount: c.topk_group,
    chosen: c.num_experts_per_tok,
    normalize: c.norm_topk_prob,
    epsilon: 1e-20,
    scale: c.routed_scaling_factor,
  };
  const routes = logits.map((row) => plain.route(row, o));
  const seen = c.moe_latent_size ? linear(get, h, `${name}.fc1_latent_proj`, c.moe_latent_size, c.mlp_bias) : h;
  const expert = (i, row) => plainMlp(get, [row], `${name}.experts.${i}`, c.moe_intermediate_size, 'relu2')[0];
  for (let i = 0; i < c.n_routed_experts; i++) expert(i, seen[0]); // those that nobody chooses exist, too
  const out = plain.mix(seen, routes, (i) => (row) => expert(i, row));
  return c.moe_latent_size ? linear(get, out, `${name}.fc2_latent_proj`, c.hidden_size, c.mlp_bias) : out;
}

function lfm2(get, c, ids) {
  const table = angles(ropeOf(c, { theta: 1e6 }), sizeOf(c), ids.length);
  const eps = c.norm_eps ?? c.block_norm_eps;
  const given = c.block_ff_dim ?? c.intermediate_size;
  const multiple = c.block_multiple_of ?? 256;
  const grown = Math.floor((c.block_ffn_dim_multiplier ?? 1) * Math.floor((2 * given) / 3));
  const inner = c.num_experts || !(c.block_auto_adjust_ff_dim ?? true) ? given : Math.ceil(grown / multiple) * multiple;
  const own = { ...c, rms_norm_eps: eps };
  const short = (h, at) => {
    const all = linear(get, h, `${at}.in_proj`, 3 * c.hidden_size, c.conv_bias);
    const [b, k, v] = [0, 1, 2].map((i) => part(all, i * c.hidden_size, c.hidden_size));
    const product = (p, q) => p.map((row, t) => row.map((n, i) => n * q[t][i]));
    const mixed = conv(get, product(v, b), `${at}.conv`, c.conv_L_cache, { bias: c.conv_bias });
    return linear(get, product(mixed, k), `${at}.out_proj`, c.hidden_size, c.conv_bias);
  };
  const attends = (n) =>
    c.layer_types
      ? c.layer_types[n] === 'full_attention'
      : (c.full_attn_idxs ?? each(c.num_hidden_layers, (i) => i)).includes(n);
  const layer = before(
    get,
    own,
    (h, at, n) =>
      attends(n)
        ? gqa(get, h, own, `${at}.self_attn`, {
            qk: 'heads',
            normNames: ['q_layernorm', 'k_layernorm'],
            names: ['q_proj', 'k_proj', 'v_proj', 'out_proj'],
            rope: table,
          })
        : short(h, `${at}.conv`),
    (h, at, n) =>
      c.num_experts && n >= c.num_dense_layers
        ? moe(get, h, `${at}.feed_forward`, {
            count: c.num_experts,
            chosen: c.num_experts_per_tok,
            inner: c.moe_intermediate_size,
            form: 'w123',
            score: 'sigmoid',
            biasName: (c.use_expert_bias ?? true) && 'expert_bias',
            normalize: c.norm_topk_prob ?? true,
            epsilon: 1e-6,
            scale: c.routed_scaling_factor,
          })
        : glu(get, h, `${at}.feed_forward`, inner, { names: ['w1', 'w3', 'w2'] }),
    { first: 'operator_norm', second: 'ffn_norm' },
  );
  return stack(get, own, ids, layer, { norm: 'model.embedding_norm', tied: c.tie_embedding ?? true });
}

function gptOss(get, c, ids) {
  const experts = (h, at) => {
    const [count, inner, hidden] = [c.num_local_experts, c.intermediate_size, c.hidden_size];
    const logits = linear(get, h, `${at}.mlp.router`, count, true);
    const routes = logits.map((row) => plain.route(row, { chosen: c.num_experts_per_tok, normalize: true }));
    const w = (name, ...shape) => get(`${at}.mlp.experts.${name}`, ...shape);
    const [gu, gb] = [w('gate_up_proj', count, hidden, 2 * inner), w('gate_up_proj_bias', count, 2 * inner)];
    const [dn, db] = [w('down_proj', count, inner, hidden), w('down_proj_bias', count, hidden)];
    const turned = (all, i, rows, columns, row) =>
      each(columns, (o) => row.reduce((a, v, k) => a + v * all[i * rows * columns + k * columns + o], 0));
    const limit = c.swiglu_limit ?? 7;
    return plain.mix(h, routes, (i) => (row) => {
      const both = turned(gu, i, hidden, 2 * inner, row).map((v, k) => v + gb[i * 2 * inner + k]);
      const mixed = each(inner, (k) => {
        const [gate, up] = [Math.min(both[2 * k], limit), Math.max(-limit, Math.min(both[2 * k + 1], limit))];
        return gate * plain.sigmoid(1.702 * gate) * (up + 1);
      });
      return turned(dn, i, inner, hidden, mixed).map((v, k) => v + db[i * hidden + k]);
    });
  };
  const window = (n) => ((c.layer_types ? slides(c, n) : n % 2 === 0) ? c.sliding_window : 0);
  return llama(get, { ...c, attention_bias: c.attention_bias ?? true }, ids, {
    theta: 1.5e5,
    window,
    attention: { sinks: true },
    feed: experts,
  });
}

function gptNeox(get, c, ids) {
  const [heads, hidden] = [c.num_attention_heads, c.hidden_size];
  const size = hidden / heads;
  const rope = ropeOf({ ...c, rope_theta: c.rotary_emb_base ?? c.rope_theta }, { partial: c.rotary_pct ?? 0.25 });
  const table = angles(rope, size, ids.length);
  const bias = c.attention_bias ?? true;
  const attention = (h, at) => {
    const all = linear(get, h, `${at}.query_key_value`, 3 * hidden, bias);
    const [q, k, v] = [0, 1, 2].map((i) =>
      all.map((row) => each(heads, (n) => row.slice((3 * n + i) * size, (3 * n + i + 1) * size)).flat()),
    );
    const seen = plain.attend(plain.rotate(q, table, size), plain.rotate(k, table, size), v, {
      heads,
      kv: heads,
      size,
    });
    return linear(get, seen, `${at}.dense`, hidden, bias);
  };
  const mlp = (h, at) =>
    plainMlp(get, h, `${at}.mlp`, c.intermediate_size, c.hidden_act, {
      bias: true,
      names: ['dense_h_to_4h', 'dense_4h_to_h'],
    });
  const layer = (x, at) => {
    const seen = add(x, attention(layerNorm(get, c, x, `${at}.input_layernorm`), `${at}.attention`));
    return add(
      seen,
      mlp(layerNorm(get, c, (c.use_parallel_residual ?? true) ? x : seen, `${at}.post_attention_layernorm`), at),
    );
  };
  const end = (x) => layerNorm(get, c, x, 'gpt_neox.final_layer_norm');
  return stack(get, c, ids, layer, { embed: 'gpt_neox.embed_in', at: 'gpt_neox.layers', head: 'embed_out', end });
}

// Matrices are stored by columns.
function gpt2(get, given, ids) {
  const c = {
    ...given,
    hidden_size: given.n_embd,
    num_hidden_layers: given.n_layer,
    layer_norm_eps: given.layer_norm_epsilon,
  };
  const [heads, hidden] = [c.n_head, c.n_embd];
  const inner = c.n_inner ?? 4 * hidden;
  const turned = (rows, name, out) => {
    const w = get(`${name}.weight`, rows[0].length, out);
    const bias = get(`${name}.bias`, out);
    return rows.map((row) => each(out, (o) => row.reduce((a, v, i) => a + v * w[i * out + o], bias[o])));
  };
  const layer = (x, at) => {
    const all = turned(layerNorm(get, c, x, `${at}.ln_1`), `${at}.attn.c_attn`, 3 * hidden);
    const [q, k, v] = [0, 1, 2].map((i) => part(all, i * hidden, hidden));
    x = add(x, turned(plain.attend(q, k, v, { heads, kv: heads, size: hidden / heads }), `${at}.attn.c_proj`, hidden));
    const up = turned(layerNorm(get, c, x, `${at}.ln_2`), `${at}.mlp.c_fc`, inner).map((row) =>
      row.map(ACTS[c.activation_function]),
    );
    return add(x, turned(up, `${at}.mlp.c_proj`, hidden));
  };
  const places = get('wpe.weight', c.n_positions, hidden);
  const begin = (x) => x.map((row, t) => row.map((v, i) => v + places[t * hidden + i]));
  return stack(get, c, ids, layer, {
    embed: 'wte',
    at: 'h',
    begin,
    tied: true,
    end: (x) => layerNorm(get, c, x, 'ln_f'),
  });
}

function falconH1(get, c, ids) {
  const table = angles(ropeOf(c), sizeOf(c), ids.length);
  const [heads, groups, state] = [c.mamba_n_heads, c.mamba_n_groups, c.mamba_d_state];
  const inner = c.mamba_d_ssm ?? c.mamba_expand * c.hidden_size;
  const by = c.ssm_multipliers;
  const borders = [inner, 2 * inner, 2 * inner + groups * state, 2 * inner + 2 * groups * state, Infinity];
  const how = {
    heads,
    size: inner / heads,
    groups,
    state,
    kernel: c.mamba_d_conv,
    bias: c.mamba_proj_bias,
    convBias: c.mamba_conv_bias ?? true,
    eps: c.rms_norm_eps,
    grouped: true,
    noNorm: !c.mamba_rms_norm,
    normFirst: c.mamba_norm_before_gate ?? true,
    multiply: by && ((i) => by[borders.findIndex((border) => i < border)]),
  };
  const layer = (x, at) => {
    const h = rms(get, c, x, `${at}.input_layernorm`);
    const mixed = times(
      mamba2(get, times(h, c.ssm_in_multiplier ?? 1), c, `${at}.mamba`, how),
      c.ssm_out_multiplier ?? 1,
    );
    const seen = gqa(get, times(h, c.attention_in_multiplier ?? 1), c, `${at}.self_attn`, {
      rope: table,
      multiply: c.key_multiplier,
      bias: c.attention_bias ?? false,
    });
    x = add(add(x, mixed), times(seen, c.attention_out_multiplier ?? 1));
    return add(
      x,
      glu(get, rms(get, c, x, `${at}.pre_ff_layernorm`), `${at}.feed_forward`, c.intermediate_size, {
        by: c.mlp_multipliers ?? [1, 1],
        bias: c.mlp_bias ?? false,
      }),
    );
  };
  return stack(get, c, ids, layer, {
    norm: 'model.final_layernorm',
    embedScale: c.embedding_multiplier ?? 1,
    logitScale: c.lm_head_multiplier ?? 1,
  });
}

export { qwen35, gemma4, graniteMoe, nemotronH, lfm2, gptOss, gptNeox, gpt2, falconH1 };
