// What the layers of plain decoders share: what is around them, the order of norms, Llama (plain_families.mjs).
import { plain } from './plain_model.mjs';

const { each, add, times, linear, norm, ropeOf, angles, gqa, glu, moe } = plain;

const sizeOf = (c) => c.head_dim ?? c.hidden_size / c.num_attention_heads;
const rms = (get, c, x, name, one = false) =>
  norm(x, get(`${name}.weight`, c.hidden_size), { eps: c.rms_norm_eps, one });
const layerNorm = (get, c, x, name, bias = true) =>
  norm(x, get(`${name}.weight`, c.hidden_size), {
    eps: c.layer_norm_eps ?? c.norm_epsilon,
    layer: true,
    bias: bias && get(`${name}.bias`, c.hidden_size),
  });

// From ids to logits around the layers.
function stack(get, c, ids, layer, o = {}) {
  const table = get(`${o.embed ?? 'model.embed_tokens'}.weight`, c.vocab_size, c.hidden_size);
  let x = ids.map((id) => each(c.hidden_size, (i) => table[id * c.hidden_size + i] * (o.embedScale ?? 1)));
  if (o.begin) x = o.begin(x);
  for (let n = 0; n < c.num_hidden_layers; n++) x = layer(x, `${o.at ?? 'model.layers'}.${n}`, n);
  x = o.end ? o.end(x) : rms(get, c, x, o.norm ?? 'model.norm', o.one);
  const tied = c.tie_word_embeddings ?? o.tied ?? false;
  const head = o.head ?? 'lm_head';
  const bias = o.headBias && get(`${head}.bias`, c.vocab_size);
  const out = plain.apply(x, tied ? table : get(`${head}.weight`, c.vocab_size, c.hidden_size), c.vocab_size, bias);
  const cap = o.softcap;
  return cap ? out.map((row) => row.map((v) => cap * Math.tanh(v / cap))) : times(out, o.logitScale ?? 1);
}

// A norm before attention and before what follows it; attention and feed(h, at, n) give what is added.
const before =
  (get, c, attention, feed, o = {}) =>
  (x, at, n) => {
    const normal = o.normal ?? rms;
    x = add(x, attention(normal(get, c, x, `${at}.${o.first ?? 'input_layernorm'}`, o.one), at, n), o.residual);
    return add(x, feed(normal(get, c, x, `${at}.${o.second ?? 'post_attention_layernorm'}`, o.one), at, n), o.residual);
  };
const behind = (get, c, attention, feed) => (x, at, n) => {
  x = add(x, rms(get, c, attention(x, at, n), `${at}.post_attention_layernorm`));
  return add(x, rms(get, c, feed(x, at, n), `${at}.post_feedforward_layernorm`));
};
const around = (get, c, attention, feed, names, one) => (x, at, n) => {
  const by = (rows, i) => rms(get, c, rows, `${at}.${names[i]}`, one);
  x = add(x, by(attention(by(x, 0), at, n), 1));
  return add(x, by(feed(by(x, 2), at, n), 3));
};

// Slides: by the list, else every `pattern`-th layer sees everything.
const slides = (c, n, pattern) =>
  c.layer_types ? c.layer_types[n] === 'sliding_attention' : pattern > 0 && (n + 1) % pattern !== 0;

// Llama and what differs from it by options.
function llama(get, c, ids, o = {}) {
  const table = angles(ropeOf(c, o), sizeOf(c), ids.length, o.width);
  const inner = o.inner ?? c.intermediate_size;
  const attention = (h, at, n) =>
    gqa(get, h, c, `${at}.self_attn`, {
      bias: c.attention_bias ?? false,
      rope: o.rotates && !o.rotates(n) ? null : table,
      window: o.window?.(n),
      ...o.attention,
    });
  const mlp = (h, at) =>
    glu(get, h, `${at}.mlp`, inner, { bias: c.mlp_bias ?? false, act: c.hidden_act ?? 'silu', ...o.mlp });
  const feed = o.feed ? (h, at, n) => o.feed(h, at, n) ?? mlp(h, at) : mlp;
  return stack(get, c, ids, (o.form ?? before)(get, c, attention, feed, o), o);
}

// Windows of Qwen: layers from max_window_layers on, or those that the list names.
const qwenWindow = (c) => (n) =>
  c.use_sliding_window && (c.layer_types ? slides(c, n) : n >= (c.max_window_layers ?? 28))
    ? (c.sliding_window ?? 4096)
    : 0;

const softMoe =
  (get, c, more = {}) =>
  (h, at) =>
    moe(get, h, `${at}.mlp`, {
      count: c.num_experts,
      chosen: c.num_experts_per_tok,
      inner: c.moe_intermediate_size,
      normalize: c.norm_topk_prob ?? false,
      ...more,
    });
const isSparse = (c, n) => !(c.mlp_only_layers ?? []).includes(n) && (n + 1) % (c.decoder_sparse_step ?? 1) === 0;
function sharedExpert(get, c, h, at) {
  const gate = linear(get, h, `${at}.mlp.shared_expert_gate`, 1);
  const out = glu(get, h, `${at}.mlp.shared_expert`, c.shared_expert_intermediate_size);
  return out.map((row, t) => row.map((v) => v * plain.sigmoid(gate[t][0])));
}

export {
  sizeOf,
  rms,
  layerNorm,
  stack,
  before,
  behind,
  around,
  slides,
  llama,
  qwenWindow,
  softMoe,
  isSparse,
  sharedExpert,
};
