// Cross-encoders in plain arithmetic (plain_model.mjs): the score of a query and a document.
import { FAMILIES } from './plain_families.mjs';
import { ACTS, plain } from './plain_model.mjs';

const { each, add, part, linear, norm, angles, rotate, attend, plainMlp, sigmoid } = plain;

const layerNorm = (get, c, x, name, eps, bias = true) =>
  norm(x, get(`${name}.weight`, c.hidden_size), { eps, layer: true, bias: bias && get(`${name}.bias`, c.hidden_size) });
const heads = (c) => ({
  heads: c.num_attention_heads,
  kv: c.num_attention_heads,
  size: c.hidden_size / c.num_attention_heads,
});

// Rows of BERT and (XLM-)RoBERTa; `second` is where the document begins.
function bertRows(get, c, ids, second = Infinity) {
  const roberta = c.model_type !== 'bert';
  const root = roberta ? 'roberta.' : 'bert.';
  const [hidden, eps] = [c.hidden_size, c.layer_norm_eps];
  const row = (name, rows, i) => [
    ...get(`${root}embeddings.${name}_embeddings.weight`, rows, hidden).subarray(i * hidden, (i + 1) * hidden),
  ];
  let x = ids.map((id, t) => {
    const place = row('position', c.max_position_embeddings, t + (roberta ? c.pad_token_id + 1 : 0));
    const kind = row('token_type', c.type_vocab_size, c.type_vocab_size > 1 && t >= second ? 1 : 0);
    return row('word', c.vocab_size, id).map((v, i) => v + place[i] + kind[i]);
  });
  x = layerNorm(get, c, x, `${root}embeddings.LayerNorm`, eps);
  for (let n = 0; n < c.num_hidden_layers; n++) {
    const at = `${root}encoder.layer.${n}`;
    const [q, k, v] = ['query', 'key', 'value'].map((name) =>
      linear(get, x, `${at}.attention.self.${name}`, hidden, true),
    );
    const seen = linear(
      get,
      attend(q, k, v, { ...heads(c), bothWays: true }),
      `${at}.attention.output.dense`,
      hidden,
      true,
    );
    x = layerNorm(get, c, add(x, seen), `${at}.attention.output.LayerNorm`, eps);
    const out = plainMlp(get, x, at, c.intermediate_size, 'gelu', {
      bias: true,
      names: ['intermediate.dense', 'output.dense'],
    });
    x = layerNorm(get, c, add(x, out), `${at}.output.LayerNorm`, eps);
  }
  return x;
}

function bert(get, c, ids, second) {
  const roberta = c.model_type !== 'bert';
  const x = bertRows(get, c, ids, second);
  const names = roberta ? ['classifier.dense', 'classifier.out_proj'] : ['bert.pooler.dense', 'classifier'];
  const first = linear(get, [x[0]], names[0], c.hidden_size, true).map((values) => values.map(Math.tanh));
  return sigmoid(linear(get, first, names[1], 1, true)[0][0]);
}

function nomicRows(get, c, ids) {
  const [hidden, eps] = [c.n_embd, c.layer_norm_epsilon];
  const own = { ...c, hidden_size: hidden, num_attention_heads: c.n_head };
  const { size } = heads(own);
  const table = angles({ type: 'default', theta: c.rotary_emb_base, partial: 1 }, size, ids.length);
  const words = get('embeddings.word_embeddings.weight', c.vocab_size, hidden);
  const kinds = get('embeddings.token_type_embeddings.weight', c.type_vocab_size, hidden);
  let x = ids.map((id) => each(hidden, (i) => words[id * hidden + i] + kinds[i]));
  x = layerNorm(get, own, x, 'emb_ln', eps);
  for (let n = 0; n < c.n_layer; n++) {
    const at = `encoder.layers.${n}`;
    const all = linear(get, x, `${at}.attn.Wqkv`, 3 * hidden);
    const [q, k, v] = [0, 1, 2].map((i) => part(all, i * hidden, hidden));
    const seen = attend(rotate(q, table, size), rotate(k, table, size), v, { ...heads(own), bothWays: true });
    x = layerNorm(get, own, add(x, linear(get, seen, `${at}.attn.out_proj`, hidden)), `${at}.norm1`, eps);
    const out = plain.glu(get, x, `${at}.mlp`, c.n_inner, { names: ['fc12', 'fc11', 'fc2'] });
    x = layerNorm(get, own, add(x, out), `${at}.norm2`, eps);
  }
  return x;
}

// The mean of the rows, of length 1.
function meanOf(rows) {
  const mean = rows[0].map((_, i) => rows.reduce((a, row) => a + row[i], 0) / rows.length);
  const length = Math.sqrt(mean.reduce((a, v) => a + v * v, 0));
  return mean.map((v) => v / length);
}

function modernBert(get, c, ids) {
  const [hidden, eps] = [c.hidden_size, c.norm_eps];
  const { size } = heads(c);
  const table = get('model.embeddings.tok_embeddings.weight', c.vocab_size, hidden);
  const tables = [c.global_rope_theta, c.local_rope_theta].map((theta) =>
    angles({ type: 'default', theta, partial: 1 }, size, ids.length),
  );
  const by = (x, name) => layerNorm(get, c, x, name, eps, false);
  let x = by(
    ids.map((id) => [...table.subarray(id * hidden, (id + 1) * hidden)]),
    'model.embeddings.norm',
  );
  for (let n = 0; n < c.num_hidden_layers; n++) {
    const at = `model.layers.${n}`;
    const slides = n % c.global_attn_every_n_layers !== 0;
    const all = linear(get, n === 0 ? x : by(x, `${at}.attn_norm`), `${at}.attn.Wqkv`, 3 * hidden);
    const [q, k, v] = [0, 1, 2].map((i) => part(all, i * hidden, hidden));
    const turn = (rows) => rotate(rows, tables[slides ? 1 : 0], size);
    const seen = attend(turn(q), turn(k), v, { ...heads(c), bothWays: true, window: slides ? c.local_attention : 0 });
    x = add(x, linear(get, seen, `${at}.attn.Wo`, hidden));
    const both = linear(get, by(x, `${at}.mlp_norm`), `${at}.mlp.Wi`, 2 * c.intermediate_size);
    const mixed = both.map((row) => each(c.intermediate_size, (i) => ACTS.gelu(row[i]) * row[c.intermediate_size + i]));
    x = add(x, linear(get, mixed, `${at}.mlp.Wo`, hidden));
  }
  x = by(x, 'model.final_norm');
  const pooled =
    c.classifier_pooling === 'mean' ? each(hidden, (i) => x.reduce((a, row) => a + row[i], 0) / x.length) : x[0];
  const dense = linear(get, [pooled], 'head.dense', hidden).map((row) => row.map(ACTS.gelu));
  return sigmoid(linear(get, by(dense, 'head.norm'), 'classifier', 1, true)[0][0]);
}

// Of a decoder: a classifier behind its last token, or the answer yes against no.
function decoder(get, c, ids, { yes, no }) {
  if (yes !== undefined) {
    const last = FAMILIES[c.model_type](get, c, ids).at(-1);
    return sigmoid(last[yes] - last[no]);
  }
  const score = (name, ...shape) => {
    if (name !== 'lm_head.weight') return get(name, ...shape);
    const all = new Float64Array(shape[0] * shape[1]);
    all.set(get('score.weight', 1, c.hidden_size));
    return all;
  };
  score.has = get.has;
  return sigmoid(FAMILIES[c.model_type](score, c, ids).at(-1)[0]);
}

export { bert, bertRows, decoder, meanOf, modernBert, nomicRows };
