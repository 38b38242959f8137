// Logits of decoders in plain float64 arithmetic, one token row after the other, from config.json and tensors: what
// the engine must give.  Written from the descriptions of the models, without code of the engine; the same file gives
// the logits of Hugging Face transformers for tests/fixtures/families (native_variants.test.mjs checks both).
//
// `get(name, ...shape)` gives a tensor's values, row by row; `get.has(name)` tells whether there is one.

const each = (n, f) => Array.from({ length: n }, (_, i) => f(i));
const sigmoid = (v) => 1 / (1 + Math.exp(-v));
const softplus = (v) => (v > 30 ? v : Math.log1p(Math.exp(v)));

function erf(x) {
  if (Math.abs(x) > 3) {
    // 1 - erfc by a continued fraction
    let f = 0;
    for (let k = 80; k >= 1; k--) f = k / 2 / (Math.abs(x) + f);
    return Math.sign(x) * (1 - Math.exp(-x * x) / ((Math.abs(x) + f) * Math.sqrt(Math.PI)));
  }
  let [sum, term] = [x, x];
  for (let k = 1; k < 80; k++) {
    term *= (-x * x) / k;
    sum += term / (2 * k + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

export const ACTS = {
  silu: (v) => v * sigmoid(v),
  gelu: (v) => 0.5 * v * (1 + erf(v / Math.SQRT2)),
  gelu_pytorch_tanh: (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3))),
  relu: (v) => Math.max(v, 0),
  relu2: (v) => Math.max(v, 0) ** 2,
};
ACTS.gelu_new = ACTS.gelu_pytorch_tanh;

// ---- rows ----

const add = (a, b, scale = 1) => a.map((row, t) => row.map((v, i) => v + scale * b[t][i]));
const times = (rows, by) => rows.map((row) => row.map((v) => v * by));
const part = (rows, from, n) => rows.map((row) => row.slice(from, from + n));

function apply(rows, w, out, bias) {
  const columns = w.length / out;
  return rows.map((row) =>
    each(out, (o) => {
      let sum = bias ? bias[o] : 0;
      for (let i = 0; i < columns; i++) sum += w[o * columns + i] * row[i];
      return sum;
    }),
  );
}

function linear(get, rows, name, out, bias = false) {
  const w = get(`${name}.weight`, out, rows[0].length);
  return apply(rows, w, out, bias && get(`${name}.bias`, out));
}

// In groups of `size` values; `wide`: each value has a weight of its own.
function norm(rows, weight, { eps, size, layer = false, one = false, wide = false, bias }) {
  return rows.map((row) => {
    const out = [];
    const group = size ?? row.length;
    for (let from = 0; from < row.length; from += group) {
      const values = row.slice(from, from + group);
      const mean = layer ? values.reduce((a, b) => a + b) / group : 0;
      const scale = 1 / Math.sqrt(values.reduce((a, v) => a + (v - mean) ** 2, 0) / group + eps);
      values.forEach((v, i) => {
        const at = wide ? from + i : i;
        out.push((v - mean) * scale * (weight ? weight[at] + (one ? 1 : 0) : 1) + (bias ? bias[at] : 0));
      });
    }
    return out;
  });
}

// ---- rope ----

// What config says about a rope: of one kind of layer, or of all.
function ropeOf(c, { kind, theta = 10000, partial = 1 } = {}) {
  const all = c.rope_parameters ?? c.rope_scaling ?? {};
  const p = kind && all[kind] ? all[kind] : kind === 'sliding_attention' ? {} : all;
  return {
    ...p,
    type: p.rope_type ?? p.type ?? 'default',
    theta: p.rope_theta ?? (kind === 'sliding_attention' ? undefined : c.rope_theta) ?? theta,
    partial: p.partial_rotary_factor ?? c.partial_rotary_factor ?? partial,
    context: c.max_position_embeddings,
    original: c.original_max_position_embeddings ?? p.original_max_position_embeddings ?? c.max_position_embeddings,
  };
}

const magnitude = (scale, m) => (scale <= 1 ? 1 : 0.1 * m * Math.log(scale) + 1);

function yarn(r, dims, inverse) {
  const at = (turns) => (dims * Math.log(r.original / (turns * 2 * Math.PI))) / (2 * Math.log(r.theta));
  const factor = r.factor ?? r.context / r.original;
  let [low, high] = [at(r.beta_fast ?? 32), at(r.beta_slow ?? 1)];
  if (r.truncate ?? true) [low, high] = [Math.floor(low), Math.ceil(high)];
  [low, high] = [Math.max(low, 0), Math.min(high, dims - 1)];
  if (low === high) high += 0.001;
  const own = inverse.map((v, i) => {
    const ramp = Math.min(Math.max((i - low) / (high - low), 0), 1);
    return (v / factor) * ramp + v * (1 - ramp);
  });
  const both = r.mscale && r.mscale_all_dim;
  const usual = both ? magnitude(factor, r.mscale) / magnitude(factor, r.mscale_all_dim) : magnitude(factor, 1);
  return { inverse: own, scale: r.attention_factor ?? usual };
}

function llama3(r, inverse) {
  return inverse.map((v) => {
    const length = (2 * Math.PI) / v;
    if (length > r.original / r.low_freq_factor) return v / r.factor;
    if (length < r.original / r.high_freq_factor) return v;
    const smooth = (r.original / length - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
    return ((1 - smooth) * v) / r.factor + smooth * v;
  });
}

// Angles per position of each pair, and the factor of sine and cosine, for a prompt of `length`.
function angles(r, size, length, width) {
  const dims = width ?? (r.type === 'proportional' ? size : Math.floor(size * r.partial + 1e-9));
  const plain = (theta) => each(dims / 2, (i) => theta ** ((-2 * i) / dims));
  const inverse = plain(r.theta);
  switch (r.type) {
    case 'linear':
      return { inverse: inverse.map((v) => v / r.factor), scale: 1 };
    case 'dynamic': {
      const grown = (r.factor * Math.max(length, r.context)) / r.context - (r.factor - 1);
      return { inverse: plain(r.theta * (r.alpha ?? grown) ** (dims / (dims - 2))), scale: 1 };
    }
    case 'yarn':
      return yarn(r, dims, inverse);
    case 'llama3':
      return { inverse: llama3(r, inverse), scale: 1 };
    case 'su':
    case 'longrope': {
      const long = length > r.original;
      const factors = long ? r.long_factor : r.short_factor;
      const factor = r.factor ?? r.context / r.original;
      const usual = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(r.original));
      const given = (long ? r.long_mscale : r.short_mscale) ?? r.attention_factor;
      return { inverse: inverse.map((v, i) => v / factors[i]), scale: given ?? usual };
    }
    case 'proportional':
      return {
        inverse: inverse.map((v, i) => (i < Math.floor((r.partial * size) / 2) ? v / (r.factor ?? 1) : 0)),
        scale: 1,
      };
    default:
      return { inverse, scale: 1 };
  }
}

function rotate(rows, table, size, { offset = 0, interleaved = false } = {}) {
  if (!table) return rows;
  const pairs = table.inverse.length;
  return rows.map((row, position) => {
    const out = [...row];
    for (let head = offset; head < row.length; head += size)
      table.inverse.forEach((inverse, i) => {
        const [a, b] = interleaved ? [head + 2 * i, head + 2 * i + 1] : [head + i, head + i + pairs];
        const [s, k] = [Math.sin(position * inverse) * table.scale, Math.cos(position * inverse) * table.scale];
        out[a] = row[a] * k - row[b] * s;
        out[b] = row[b] * k + row[a] * s;
      });
    return out;
  });
}

// ---- attention ----

// bothWays: a query sees what comes behind it, too, half a window to each side.
function attend(q, k, v, { heads, kv, size, valueSize = size, scale, window, softcap, sinks, bothWays }) {
  return q.map((query, t) =>
    each(heads, (h) => {
      const g = Math.floor((h * kv) / heads);
      const reach = bothWays ? window / 2 : window - 1;
      const first = window ? Math.max(0, t - reach) : 0;
      const last = bothWays ? Math.min(q.length - 1, window ? t + reach : q.length) : t;
      const scores = each(last + 1 - first, (i) => {
        let sum = 0;
        for (let d = 0; d < size; d++) sum += query[h * size + d] * k[first + i][g * size + d];
        sum *= scale ?? 1 / Math.sqrt(size);
        return softcap ? softcap * Math.tanh(sum / softcap) : sum;
      });
      const top = Math.max(...scores, sinks ? sinks[h] : -Infinity);
      const powers = scores.map((s) => Math.exp(s - top));
      const total = powers.reduce((a, b) => a + b, 0) + (sinks ? Math.exp(sinks[h] - top) : 0);
      return each(valueSize, (d) => powers.reduce((a, p, i) => a + p * v[first + i][g * valueSize + d], 0) / total);
    }).flat(),
  );
}

// Grouped attention; `o` tells what differs from Llama.
function gqa(get, x, c, at, o = {}) {
  const heads = c.num_attention_heads;
  const size = o.size ?? c.head_dim ?? c.hidden_size / heads;
  const kv = o.kv ?? c.num_key_value_heads ?? heads;
  const [qn, kn, vn, on] = o.names ?? ['q_proj', 'k_proj', 'v_proj', 'o_proj'];
  const eps = o.eps ?? c.rms_norm_eps;
  let q, k, v, gate;
  if (o.fused) {
    const all = linear(get, x, `${at}.${o.fused}`, (heads + 2 * kv) * size, o.bias);
    [q, k, v] = [
      part(all, 0, heads * size),
      part(all, heads * size, kv * size),
      part(all, (heads + kv) * size, kv * size),
    ];
  } else {
    q = linear(get, x, `${at}.${qn}`, heads * size * (o.gated ? 2 : 1), o.bias);
    k = linear(get, x, `${at}.${kn}`, kv * size, o.bias);
    v = linear(get, x, `${at}.${vn}`, kv * size, o.bias);
  }
  if (o.gated) {
    gate = q.map((row) => each(heads, (h) => row.slice(h * 2 * size + size, (h + 1) * 2 * size)).flat());
    q = q.map((row) => each(heads, (h) => row.slice(h * 2 * size, h * 2 * size + size)).flat());
  }
  const normal = (rows, name, count) => {
    if (o.qk === 'whole') return norm(rows, get(`${at}.${name}.weight`, count * size), { eps });
    if (o.qk === 'each')
      return norm(rows, get(`${at}.${name}.weight`, count, size), { eps, size, layer: true, wide: true });
    const bias = o.qkBias && get(`${at}.${name}.bias`, size);
    return norm(rows, get(`${at}.${name}.weight`, size), { eps, size, one: o.one, layer: o.qkLayer, bias });
  };
  const [qNorm, kNorm] = o.normNames ?? ['q_norm', 'k_norm'];
  if (o.qk && !o.after) [q, k] = [normal(q, qNorm, heads), normal(k, kNorm, kv)];
  [q, k] = [rotate(q, o.rope, size, o), rotate(k, o.rope, size, o)];
  if (o.qk && o.after) [q, k] = [normal(q, qNorm, heads), normal(k, kNorm, kv)];
  if (o.beta) q = q.map((row, t) => row.map((n) => n * (1 + o.beta.by * Math.log(1 + Math.floor(t / o.beta.floor)))));
  if (o.multiply) k = times(k, o.multiply);
  const sinks = o.sinks && get(`${at}.sinks`, heads);
  let out = attend(q, k, v, { heads, kv, size, scale: o.scale, window: o.window, softcap: o.softcap, sinks });
  if (o.gated) out = out.map((row, t) => row.map((n, i) => n * sigmoid(gate[t][i])));
  return linear(get, out, `${at}.${on}`, c.hidden_size, o.outBias ?? o.bias);
}

// Latent attention, with keys and values written out.
function mla(get, x, c, at, table, interleaved) {
  const { num_attention_heads: heads, kv_lora_rank: rank, qk_nope_head_dim: plain, qk_rope_head_dim: turned } = c;
  const [value, size, bias] = [c.v_head_dim, plain + turned, c.attention_bias ?? false];
  const eps = 1e-6;
  let q = x;
  if (c.q_lora_rank) {
    q = linear(get, x, `${at}.q_a_proj`, c.q_lora_rank, bias);
    q = norm(q, get(`${at}.q_a_layernorm.weight`, c.q_lora_rank), { eps: c.latent_eps ?? eps });
  }
  q = linear(get, q, `${at}.${c.q_lora_rank ? 'q_b_proj' : 'q_proj'}`, heads * size);
  const latent = linear(get, x, `${at}.kv_a_proj_with_mqa`, rank + turned, bias);
  const kept = norm(part(latent, 0, rank), get(`${at}.kv_a_layernorm.weight`, rank), { eps: c.latent_eps ?? eps });
  const key = rotate(part(latent, rank, turned), table, turned, { interleaved });
  q = rotate(q, table, size, { offset: plain, interleaved });
  const wide = linear(get, kept, `${at}.kv_b_proj`, heads * (plain + value));
  const k = wide.map((row, t) =>
    each(heads, (h) => [...row.slice(h * (plain + value), h * (plain + value) + plain), ...key[t]]).flat(),
  );
  const v = wide.map((row) =>
    each(heads, (h) => row.slice(h * (plain + value) + plain, (h + 1) * (plain + value))).flat(),
  );
  const r = ropeOf(c);
  const grown = r.type !== 'default' && r.mscale_all_dim ? magnitude(r.factor, r.mscale_all_dim) : 1;
  const out = attend(q, k, v, { heads, kv: heads, size, valueSize: value, scale: (grown * grown) / Math.sqrt(size) });
  return linear(get, out, `${at}.o_proj`, c.hidden_size, bias);
}

// ---- MLPs and experts ----

function glu(
  get,
  x,
  at,
  inner,
  { act = 'silu', bias = false, fused, names = ['gate_proj', 'up_proj', 'down_proj'], by = [1, 1] } = {},
) {
  const both = fused && linear(get, x, `${at}.${fused}`, 2 * inner, bias);
  const gate = fused ? part(both, 0, inner) : linear(get, x, `${at}.${names[0]}`, inner, bias);
  const up = fused ? part(both, inner, inner) : linear(get, x, `${at}.${names[1]}`, inner, bias);
  const mixed = up.map((row, t) => row.map((v, i) => v * ACTS[act](gate[t][i] * by[0])));
  return times(linear(get, mixed, `${at}.${names[2]}`, x[0].length, bias), by[1]);
}

function plainMlp(get, x, at, inner, act, { bias = false, names = ['up_proj', 'down_proj'] } = {}) {
  const up = linear(get, x, `${at}.${names[0]}`, inner, bias).map((row) => row.map(ACTS[act]));
  return linear(get, up, `${at}.${names[1]}`, x[0].length, bias);
}

const topOf = (scores, n) =>
  each(scores.length, (i) => i)
    .sort((a, b) => scores[b] - scores[a] || a - b)
    .slice(0, n);

function softmax(values) {
  const top = Math.max(...values);
  const powers = values.map((v) => Math.exp(v - top));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((p) => p / total);
}

// [[expert, weight]] of one token.
function route(logits, o) {
  if (o.score === 'sparsemixer') return sparsemixer(logits, o.jitter);
  const scores = o.score === 'sigmoid' ? logits.map(sigmoid) : softmax(logits);
  let choice = scores.map((s, i) => s + (o.bias ? o.bias[i] : 0));
  if (o.groups > 1) {
    const n = scores.length / o.groups;
    const best = each(o.groups, (g) =>
      topOf(choice.slice(g * n, (g + 1) * n), o.best ?? 2).reduce((a, i) => a + choice[g * n + i], 0),
    );
    const kept = topOf(best, o.groupCount);
    choice = choice.map((s, i) => (kept.includes(Math.floor(i / n)) ? s : (o.masked ?? -Infinity)));
  }
  const chosen = topOf(choice, o.chosen);
  const sum = chosen.reduce((a, i) => a + scores[i], 0);
  const by = o.normalize ? Math.max(sum + (o.epsilon ?? 0), o.least ?? 0) : 1;
  return chosen.map((i) => [i, (scores[i] / by) * (o.scale ?? 1) * (o.each ? o.each[i] : 1)]);
}

function sparsemixer(logits, jitter) {
  const pick = (scores, all) => {
    const best = topOf(scores, 1)[0];
    const masked = all.map((s, i) =>
      (scores[best] - s) / Math.max(Math.abs(s), scores[best]) > 2 * jitter ? -Infinity : scores[i],
    );
    return [best, softmax(masked)[best]];
  };
  const first = pick(logits, logits);
  const rest = logits.map((s, i) => (i === first[0] ? -Infinity : s));
  return [first, pick(rest, logits)];
}

// expert(i) is a function from a token's row to its output.
const mix = (x, routes, expert) =>
  x.map((row, t) => {
    const outs = routes[t].map(([i, w]) => expert(i)(row).map((v) => v * w));
    return outs.reduce((a, b) => a.map((v, i) => v + b[i]));
  });

// Experts under one of the names that checkpoints use.
function experts(get, x, at, count, inner, form, act = 'silu') {
  const width = x[0].length;
  const at3 = (all, i, size) => all.subarray(i * size, (i + 1) * size);
  const weights = (i) => {
    if (form === 'fused' || form === 'granite') {
      const [a, b] = form === 'fused' ? ['gate_up_proj', 'down_proj'] : ['input_linear.weight', 'output_linear.weight'];
      const both = at3(get(`${at}.${a}`, count, 2 * inner, width), i, 2 * inner * width);
      return [
        both.subarray(0, inner * width),
        both.subarray(inner * width),
        at3(get(`${at}.${b}`, count, width, inner), i, width * inner),
      ];
    }
    if (form === 'columns') {
      const turn = (w, rows, columns) =>
        Float64Array.from({ length: rows * columns }, (_, k) => w[(k % columns) * rows + Math.floor(k / columns)]);
      const both = turn(
        at3(get(`${at}.gate_up_proj`, count, width, 2 * inner), i, 2 * inner * width),
        2 * inner,
        width,
      );
      const down = turn(at3(get(`${at}.down_proj`, count, inner, width), i, width * inner), width, inner);
      return [both.subarray(0, inner * width), both.subarray(inner * width), down];
    }
    const names = form === 'w123' ? ['w1', 'w3', 'w2'] : ['gate_proj', 'up_proj', 'down_proj'];
    return names.map((n, k) => get(`${at}.${i}.${n}.weight`, k === 2 ? width : inner, k === 2 ? inner : width));
  };
  const all = each(count, weights);
  return (i) => (row) => {
    const [gate, up, down] = all[i];
    const [g] = apply([row], gate, inner);
    const [u] = apply([row], up, inner);
    return apply([u.map((v, k) => v * ACTS[act](g[k]))], down, width)[0];
  };
}

function moe(get, x, at, o) {
  const logits = linear(get, x, `${at}.${o.router ?? 'gate'}`, o.count, o.routerBias);
  const bias = o.biasName && get(`${at}.${o.biasName}`, o.count);
  const routes = logits.map((row) => route(row, { ...o, bias }));
  const below = o.form === 'granite' ? at : `${at}.experts`;
  const form = o.form ?? (get.has(`${below}.gate_up_proj`) ? 'fused' : 'each');
  return mix(x, routes, experts(get, x, below, o.count, o.inner, form, o.act));
}

// Of DeepSeek V3: sigmoid scores, a bias for the choice, groups, shared experts.
function deepMoe(get, x, c, at, more = {}) {
  const out = moe(get, x, at, {
    count: c.n_routed_experts,
    chosen: c.num_experts_per_tok,
    inner: c.moe_intermediate_size,
    score: 'sigmoid',
    biasName: 'gate.e_score_correction_bias',
    groups: c.n_group,
    groupCount: c.topk_group,
    normalize: c.norm_topk_prob ?? true,
    epsilon: 1e-20,
    scale: c.routed_scaling_factor,
    ...more,
  });
  const shared = c.n_shared_experts ?? 0;
  return shared > 0 ? add(out, glu(get, x, `${at}.shared_experts`, shared * c.moe_intermediate_size)) : out;
}

// ---- state ----

function conv(get, rows, name, kernel, { bias, act }) {
  const channels = rows[0].length;
  const w = get(`${name}.weight`, channels, 1, kernel);
  const shift = bias && get(`${name}.bias`, channels);
  return rows.map((_, t) =>
    each(channels, (ch) => {
      let sum = shift ? shift[ch] : 0;
      for (let i = 0; i < kernel; i++)
        if (t + i + 1 >= kernel) sum += w[ch * kernel + i] * rows[t + i + 1 - kernel][ch];
      return act ? ACTS[act](sum) : sum;
    }),
  );
}

function mamba2(get, x, c, at, o) {
  const { heads, size, groups, state, kernel } = o;
  const inner = heads * size;
  const all = linear(get, x, `${at}.in_proj`, 2 * inner + 2 * groups * state + heads, o.bias).map((row) =>
    o.multiply ? row.map((v, i) => v * o.multiply(i)) : row,
  );
  const gate = part(all, 0, inner);
  const mixed = conv(get, part(all, inner, inner + 2 * groups * state), `${at}.conv1d`, kernel, {
    bias: o.convBias,
    act: 'silu',
  });
  const [a, d, dtBias] = ['A_log', 'D', 'dt_bias'].map((n) => get(`${at}.${n}`, heads));
  const s = each(heads, () => new Float64Array(size * state));
  const y = mixed.map((row, t) =>
    each(heads, (h) => {
      const g = Math.floor((h * groups) / heads);
      const dt = Math.max(softplus(all[t][2 * inner + 2 * groups * state + h] + dtBias[h]), o.dtMin ?? 0);
      const decay = Math.exp(-Math.exp(a[h]) * dt);
      return each(size, (p) => {
        let sum = 0;
        const v = row[h * size + p];
        for (let n = 0; n < state; n++) {
          const b = row[inner + g * state + n];
          s[h][p * state + n] = s[h][p * state + n] * decay + dt * b * v;
          sum += s[h][p * state + n] * row[inner + (groups + g) * state + n];
        }
        return sum + d[h] * v;
      });
    }).flat(),
  );
  const gated = (rows) => rows.map((row, t) => row.map((v, i) => v * ACTS.silu(gate[t][i])));
  if (o.noNorm) return linear(get, gated(y), `${at}.out_proj`, c.hidden_size, o.bias);
  const weight = get(`${at}.norm.weight`, inner);
  const how = { eps: o.eps, size: o.grouped ? inner / groups : inner, wide: true };
  return linear(
    get,
    o.normFirst ? gated(norm(y, weight, how)) : norm(gated(y), weight, how),
    `${at}.out_proj`,
    c.hidden_size,
    o.bias,
  );
}

function deltaRule(get, x, c, at) {
  const [kh, vh, ks, vs] = [
    c.linear_num_key_heads,
    c.linear_num_value_heads,
    c.linear_key_head_dim,
    c.linear_value_head_dim,
  ];
  const [keys, values, more] = [kh * ks, vh * vs, vh / kh];
  let qkv, z, b, a;
  if (c.model_type === 'qwen3_next') {
    const own = 2 * ks + 2 * more * vs;
    const all = linear(get, x, `${at}.in_proj_qkvz`, kh * own);
    const ba = linear(get, x, `${at}.in_proj_ba`, 2 * vh);
    const take = (rows, stride, from, n) =>
      rows.map((row) => each(kh, (h) => row.slice(h * stride + from, h * stride + from + n)).flat());
    const [q, k, v] = [take(all, own, 0, ks), take(all, own, ks, ks), take(all, own, 2 * ks, more * vs)];
    qkv = q.map((row, t) => [...row, ...k[t], ...v[t]]);
    z = take(all, own, 2 * ks + more * vs, more * vs);
    [b, a] = [take(ba, 2 * more, 0, more), take(ba, 2 * more, more, more)];
  } else {
    qkv = linear(get, x, `${at}.in_proj_qkv`, 2 * keys + values);
    z = linear(get, x, `${at}.in_proj_z`, values);
    b = linear(get, x, `${at}.in_proj_b`, vh);
    a = linear(get, x, `${at}.in_proj_a`, vh);
  }
  qkv = conv(get, qkv, `${at}.conv1d`, c.linear_conv_kernel_dim, { act: 'silu' });
  const [decay, dtBias] = [get(`${at}.A_log`, vh), get(`${at}.dt_bias`, vh)];
  const s = each(vh, () => new Float64Array(ks * vs));
  const unit = (v) => v.map((n) => n / Math.sqrt(v.reduce((m, w) => m + w * w, 0) + 1e-6));
  const out = qkv.map((row, t) =>
    each(vh, (h) => {
      const g = Math.floor(h / more);
      const q = unit(row.slice(g * ks, (g + 1) * ks)).map((n) => n / Math.sqrt(ks));
      const k = unit(row.slice(keys + g * ks, keys + (g + 1) * ks));
      const v = row.slice(2 * keys + h * vs, 2 * keys + (h + 1) * vs);
      const fade = Math.exp(-Math.exp(decay[h]) * softplus(a[t][h] + dtBias[h]));
      const beta = sigmoid(b[t][h]);
      const seen = new Float64Array(vs);
      for (let i = 0; i < ks; i++)
        for (let j = 0; j < vs; j++) {
          s[h][i * vs + j] *= fade;
          seen[j] += s[h][i * vs + j] * k[i];
        }
      const read = new Float64Array(vs);
      for (let i = 0; i < ks; i++)
        for (let j = 0; j < vs; j++) {
          s[h][i * vs + j] += k[i] * (v[j] - seen[j]) * beta;
          read[j] += s[h][i * vs + j] * q[i];
        }
      return [...read];
    }).flat(),
  );
  const normed = norm(out, get(`${at}.norm.weight`, vs), { eps: c.rms_norm_eps, size: vs });
  const gated = normed.map((row, t) => row.map((v, i) => v * ACTS.silu(z[t][i])));
  return linear(get, gated, `${at}.out_proj`, c.hidden_size);
}

export const plain = {
  each,
  add,
  times,
  part,
  apply,
  linear,
  norm,
  ropeOf,
  angles,
  rotate,
  attend,
  gqa,
  mla,
  glu,
  plainMlp,
  moe,
  mix,
  route,
  deepMoe,
  conv,
  mamba2,
  deltaRule,
  sigmoid,
  magnitude,
};
