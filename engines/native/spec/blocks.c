/* native/spec/blocks.c - see blocks.h. */
#include "engines/native/spec/blocks.h"

#include <math.h>

#include "engines/native/spec/build.h"

static const char *or_else(const char *name, const char *otherwise)
{
    return name != NULL ? name : otherwise;
}

/* ---- begin and end ---- */

bool native_usual_begin(struct native_builder *b, struct native_base *base,
                        const char *embeddings, double scale)
{
    if (native_build_failed(b))
        return false;
    b->code = native_base_settle(base, b->err);
    b->spec->context = base->context;
    b->spec->layers = base->layers;
    native_layer(b, "", 0);
    native_embed(b, X, embeddings, base->vocab, base->hidden, scale);
    return !native_build_failed(b);
}

reg native_usual_logits(struct native_builder *b, const struct native_base *base, reg h,
                        const char *embeddings)
{
    native_layer(b, "", base->layers);
    if (base->tied || native_gives_vectors(b))
        native_ignore(b, "lm_head.");
    if (native_asks(b)) {
        native_end_asks(b, h, base->tied ? embeddings : "lm_head");
        return h;
    }
    if (native_classifies(b)) {
        native_end_rank(b, h,
                        &(struct native_classifier){.pool = NATIVE_POOL_LAST, .out = "score"});
        b->spec->asks = true;
        return h;
    }
    if (native_gives_vectors(b)) {
        native_end_vector(b, h);
        return h;
    }
    return native_unembed(b, h, base->tied ? embeddings : "lm_head", base->vocab, false);
}

reg native_usual_end(struct native_builder *b, const struct native_base *base, const char *norm,
                     const char *embeddings)
{
    native_layer(b, "", base->layers);
    return native_usual_logits(b, base, native_norm(b, X, norm, base->eps), embeddings);
}

bool native_slides(const struct native_list *types, uint32_t layer, uint32_t pattern)
{
    if (types->count > layer)
        return types->at[layer] == 1;
    return pattern > 0 && (layer + 1) % pattern != 0;
}

bool native_lists(const struct native_list *list, uint32_t layer)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i] == layer)
            return true;
    return false;
}

void native_ignore_layers(struct native_builder *b, uint32_t from)
{
    for (uint32_t i = from; i < from + 4; i++)
        native_ignore(b, native_name(b, "/model.layers.%u.", i));
}

reg native_plus_one_norm(struct native_builder *b, reg in, const char *weight, double eps)
{
    return native_norm_with(b, NATIVE_NO_REG, in, NATIVE_NO_REG, weight, false,
                            &(struct native_norm){.eps = (float)eps, .plus_one = true});
}

/* ---- attention ---- */

struct native_gqa native_gqa_of(const struct native_base *base, uint32_t rope, uint32_t window)
{
    return (struct native_gqa){
        .attend = {.heads = base->heads,
                   .kv_heads = base->kv_heads,
                   .head_size = base->head_size,
                   .window = window,
                   .source = NATIVE_NONE},
        .bias = base->bias,
        .out_bias = base->bias,
        .eps = base->eps,
        .rope = rope,
    };
}

static void normalize(struct native_builder *b, reg x, const char *name,
                      const struct native_gqa *a)
{
    (void)native_norm_with(
        b, x, x, NATIVE_NO_REG, name, false,
        &(struct native_norm){.group = a->norm == NATIVE_QK_WHOLE ? 0 : a->attend.head_size,
                              .eps = (float)a->eps,
                              .layer = a->norm == NATIVE_QK_OWN,
                              .wide = a->norm == NATIVE_QK_OWN,
                              .plus_one = a->plus_one});
}

/* Norm and rope of Q or K. */
static void prepare(struct native_builder *b, reg x, const char *norm, uint32_t heads,
                    const struct native_gqa *a)
{
    if (a->norm != NATIVE_QK_PLAIN && a->norm != NATIVE_QK_HEADS_AFTER)
        normalize(b, x, norm, a);
    if (a->rope != NATIVE_NONE)
        native_rotate_with(b, x,
                           &(struct native_rotate){.table = a->rope,
                                                   .heads = heads,
                                                   .head_size = a->attend.head_size,
                                                   .interleaved = a->interleaved});
    if (a->norm == NATIVE_QK_HEADS_AFTER)
        normalize(b, x, norm, a);
}

reg native_gqa(struct native_builder *b, reg h, uint32_t hidden, const struct native_gqa *how)
{
    const struct native_attention *a = &how->attend;
    uint32_t n = a->head_size, rows = a->heads * n, kv_rows = a->kv_heads * n;
    reg q = native_linear(b, h, or_else(how->q, "self_attn.q_proj"),
                          rows * (how->gated ? 2 : 1), hidden, how->bias);
    reg k =
        native_linear(b, h, or_else(how->k, "self_attn.k_proj"), kv_rows, hidden, how->bias);
    reg v =
        native_linear(b, h, or_else(how->v, "self_attn.v_proj"), kv_rows, hidden, how->bias);
    reg gate = NATIVE_NO_REG;

    if (how->gated) {
        gate = native_slice(b, q, a->heads, 2 * n, n, n);
        q = native_slice(b, q, a->heads, 2 * n, 0, n);
    }
    native_scale(b, k, how->key_scale != 0 ? how->key_scale : 1);
    prepare(b, q, or_else(how->q_norm, "self_attn.q_norm"), a->heads, how);
    prepare(b, k, or_else(how->k_norm, "self_attn.k_norm"), a->kv_heads, how);
    reg out = native_attend(b, q, k, v, a, NULL);
    if (how->gated)
        out = native_gate(b, out, gate, NATIVE_SIGMOID, 1);
    return native_linear(b, out, or_else(how->out, "self_attn.o_proj"), hidden, rows,
                         how->out_bias);
}

/* Q is folded into the space of the latent, so that all heads share one key. */
reg native_mla(struct native_builder *b, reg h, uint32_t hidden, const struct native_mla *m)
{
    uint32_t size = m->plain + m->rotated, key = m->rank + m->rotated;
    struct native_heads fold = {.heads = m->heads,
                                .rows = m->rank,
                                .columns = m->plain,
                                .head_rows = m->plain + m->value,
                                .in_stride = size,
                                .out_stride = m->rank,
                                .transposed = true};
    struct native_heads unfold = {.heads = m->heads,
                                  .rows = m->value,
                                  .columns = m->rank,
                                  .head_rows = m->plain + m->value,
                                  .first_row = m->plain,
                                  .in_stride = m->rank,
                                  .out_stride = m->value};
    reg q = h;

    if (m->query_rank != 0) {
        q = native_linear(b, h, "self_attn.q_a_proj", m->query_rank, hidden, m->bias);
        q = native_norm(b, q, "self_attn.q_a_layernorm", m->eps);
    }
    q = native_linear(b, q, m->query_rank != 0 ? "self_attn.q_b_proj" : "self_attn.q_proj",
                      m->heads * size, m->query_rank != 0 ? m->query_rank : hidden, false);
    reg latent = native_linear(b, h, "self_attn.kv_a_proj_with_mqa", key, hidden, m->bias);
    reg kept = native_slice(b, latent, 1, key, 0, m->rank);
    kept = native_norm(b, kept, "self_attn.kv_a_layernorm", m->eps);
    native_place(b, latent, kept,
                 &(struct native_slice){
                     .groups = 1, .group_in = m->rank, .length = m->rank, .out_stride = key});
    native_rotate_with(b, q,
                       &(struct native_rotate){.table = m->rope,
                                               .heads = m->heads,
                                               .head_size = size,
                                               .offset = m->plain,
                                               .interleaved = m->interleaved});
    native_rotate_with(b, latent,
                       &(struct native_rotate){.table = m->rope,
                                               .heads = 1,
                                               .head_size = key,
                                               .offset = m->rank,
                                               .interleaved = m->interleaved});
    reg folded = native_heads(b, q, "self_attn.kv_b_proj", &fold);
    reg query = native_register(b, m->heads * key);
    native_place(
        b, query, folded,
        &(struct native_slice){
            .groups = m->heads, .group_in = m->rank, .length = m->rank, .out_stride = key});
    native_place(b, query, q,
                 &(struct native_slice){.groups = m->heads,
                                        .group_in = size,
                                        .offset = m->plain,
                                        .length = m->rotated,
                                        .out_stride = key,
                                        .out_offset = m->rank});
    reg out = native_attend(b, query, latent, NATIVE_NO_REG,
                            &(struct native_attention){.heads = m->heads,
                                                       .kv_heads = 1,
                                                       .head_size = key,
                                                       .value_size = m->rank,
                                                       .scale = m->scale,
                                                       .values_are_keys = true,
                                                       .source = NATIVE_NONE},
                            NULL);
    out = native_heads(b, out, "self_attn.kv_b_proj", &unfold);
    return native_linear(b, out, "self_attn.o_proj", hidden, m->heads * m->value, m->bias);
}

/* ---- Mamba2 ---- */

/* Multiplies parts of a row that lie behind each other. */
static void scale_parts(struct native_builder *b, reg in, const struct native_mamba *m)
{
    uint32_t inner = m->heads * m->head_size, state = m->groups * m->state_size, at = 0;
    const uint32_t lengths[NATIVE_MAMBA_PARTS] = {inner, inner, state, state, m->heads};

    for (int i = 0; m->parts_by != NULL && i < NATIVE_MAMBA_PARTS; at += lengths[i++]) {
        if (m->parts_by[i] == 1)
            continue;
        reg part = native_slice(b, in, 1, native_width(b, in), at, lengths[i]);
        native_scale(b, part, m->parts_by[i]);
        native_place(b, in, part,
                     &(struct native_slice){.groups = 1,
                                            .group_in = lengths[i],
                                            .length = lengths[i],
                                            .out_stride = native_width(b, in),
                                            .out_offset = at});
    }
}

reg native_mamba(struct native_builder *b, reg h, uint32_t hidden, const char *name,
                 const struct native_mamba *m)
{
    uint32_t inner = m->heads * m->head_size, mixed = inner + 2 * m->groups * m->state_size;
    uint32_t all = inner + mixed + m->heads;
    reg in = native_linear(b, h, native_name(b, "%s.in_proj", name), all, hidden, m->bias);
    scale_parts(b, in, m);
    reg gate = native_slice(b, in, 1, all, 0, inner);
    reg xbc = native_slice(b, in, 1, all, inner, mixed);
    reg dt = native_slice(b, in, 1, all, inner + mixed, m->heads);

    xbc = native_conv(b, xbc, native_name(b, "%s.conv1d", name), mixed, m->kernel, m->conv_bias,
                      NATIVE_SILU);
    reg out = native_ssm(b, xbc, dt, native_name(b, "%s.A_log", name),
                         native_name(b, "%s.D", name), native_name(b, "%s.dt_bias", name),
                         &(struct native_ssm){.heads = m->heads,
                                              .head_size = m->head_size,
                                              .groups = m->groups,
                                              .state_size = m->state_size,
                                              .dt_min = (float)m->dt_min,
                                              .dt_max = 3.0e38f});
    if (m->without_norm)
        out = native_gate(b, out, gate, NATIVE_SILU, 1);
    else
        out = native_norm_with(
            b, NATIVE_NO_REG, out, gate, native_name(b, "%s.norm", name), false,
            &(struct native_norm){.group = m->grouped_norm ? inner / m->groups : 0,
                                  .eps = (float)m->eps,
                                  .wide = true,
                                  .gate_first = !m->norm_first});
    return native_linear(b, out, native_name(b, "%s.out_proj", name), hidden, inner,
                         m->bias || m->out_bias);
}

/* ---- MLPs ---- */

reg native_mlp(struct native_builder *b, reg h, uint32_t hidden, const struct native_mlp *how)
{
    reg gate, up;

    if (how->plain)
        return native_plain_mlp(b, h, hidden, how);
    if (how->up == NULL) {
        reg both = native_linear(b, h, how->gate, 2 * how->inner, hidden, how->bias);
        gate = native_slice(b, both, 1, 2 * how->inner, 0, how->inner);
        up = native_slice(b, both, 1, 2 * how->inner, how->inner, how->inner);
    } else {
        gate = native_linear(b, h, how->gate, how->inner, hidden, how->bias);
        up = native_linear(b, h, how->up, how->inner, hidden, how->bias);
    }
    return native_linear(b, native_gate(b, up, gate, how->act, 1), how->down, hidden,
                         how->inner, how->bias);
}

reg native_plain_mlp(struct native_builder *b, reg h, uint32_t hidden,
                     const struct native_mlp *how)
{
    reg up = native_linear(b, h, how->up, how->inner, hidden, how->bias);

    return native_linear(b, native_act(b, up, how->act), how->down, hidden, how->inner,
                         how->bias);
}

struct native_mlp native_mlp_of(const struct native_base *base, enum native_act act)
{
    return (struct native_mlp){.gate = "mlp.gate_proj",
                               .up = "mlp.up_proj",
                               .down = "mlp.down_proj",
                               .inner = base->intermediate,
                               .act = act};
}

reg native_usual_mlp(struct native_builder *b, reg h, const struct native_base *base,
                     enum native_act act)
{
    struct native_mlp mlp = native_mlp_of(base, act);

    return native_mlp(b, h, base->hidden, &mlp);
}

/* ---- layers of Llama ---- */

void native_llama_attention(struct native_builder *b, const struct native_base *base,
                            const struct native_gqa *a)
{
    reg h = native_norm(b, X, "input_layernorm", base->eps);

    native_add(b, X, native_gqa(b, h, base->hidden, a), 1);
}

void native_llama_mlp(struct native_builder *b, const struct native_base *base,
                      const struct native_mlp *mlp)
{
    reg h = native_norm(b, X, "post_attention_layernorm", base->eps);

    native_add(b, X, native_mlp(b, h, base->hidden, mlp), 1);
}

void native_llama_layer(struct native_builder *b, const struct native_base *base, uint32_t n,
                        const struct native_gqa *a, const struct native_mlp *mlp)
{
    native_layer(b, "model.layers.%u.", n);
    native_llama_attention(b, base, a);
    native_llama_mlp(b, base, mlp);
}

void native_gemma_layer(struct native_builder *b, const struct native_base *base,
                        const struct native_gqa *a)
{
    double eps = base->eps;
    reg h = native_plus_one_norm(b, X, "input_layernorm", eps);

    h = native_gqa(b, h, base->hidden, a);
    native_add(b, X, native_plus_one_norm(b, h, "post_attention_layernorm", eps), 1);
    h = native_plus_one_norm(b, X, "pre_feedforward_layernorm", eps);
    h = native_usual_mlp(b, h, base, NATIVE_GELU_TANH);
    native_add(b, X, native_plus_one_norm(b, h, "post_feedforward_layernorm", eps), 1);
}

uint32_t native_window_of(const struct native_windows *windows, uint32_t layer)
{
    const struct native_list *types = &windows->types;
    bool slides = layer < types->count ? types->at[layer] == 1 : layer >= windows->from;

    return windows->used && slides ? windows->size : 0;
}

/* ---- experts ---- */

struct native_expert_names native_w123(void)
{
    return (struct native_expert_names){.gate = "block_sparse_moe.experts.%u.w1",
                                        .up = "block_sparse_moe.experts.%u.w3",
                                        .down = "block_sparse_moe.experts.%u.w2"};
}

struct native_moe native_moe_of(const char *router, const char *experts, uint32_t count,
                                uint32_t chosen, uint32_t inner)
{
    return (struct native_moe){
        .route = {.experts = count, .chosen = chosen, .normalize = true, .scale = 1},
        .experts = {.inner = inner, .act = NATIVE_SILU, .gated = true},
        .router = router,
        .below = experts,
    };
}

/* The usual names below how->below. */
static struct native_expert_names usual_names(struct native_builder *b,
                                              const struct native_moe *how)
{
    const char *fused = native_name(b, "%s.gate_up_proj", how->below);

    if (native_has(b, fused))
        return (struct native_expert_names){.gate = fused,
                                            .down = native_name(b, "%s.down_proj", how->below),
                                            .transposed = how->names.transposed};
    return (struct native_expert_names){.gate = native_name(b, "%s.%%u.gate_proj", how->below),
                                        .up = native_name(b, "%s.%%u.up_proj", how->below),
                                        .down = native_name(b, "%s.%%u.down_proj", how->below)};
}

reg native_moe(struct native_builder *b, reg h, uint32_t hidden, const struct native_moe *how)
{
    struct native_experts experts = how->experts;
    struct native_expert_names names = how->below != NULL ? usual_names(b, how) : how->names;
    reg scores = native_linear(b, h, how->router, how->route.experts, hidden, how->router_bias);
    reg route = native_route(b, scores, how->bias, how->scales, &how->route);

    experts.experts = how->route.experts;
    experts.chosen = how->route.chosen;
    return native_experts(b, h, route, &names, &experts);
}

void native_llama_moe(struct native_builder *b, const struct native_base *base,
                      const struct native_moe *how)
{
    reg h = native_norm(b, X, "post_attention_layernorm", base->eps);

    native_add(b, X, native_moe(b, h, base->hidden, how), 1);
}

reg native_gated_expert(struct native_builder *b, reg h, uint32_t hidden, uint32_t inner)
{
    reg out = native_mlp(b, h, hidden,
                         &(struct native_mlp){.gate = "mlp.shared_expert.gate_proj",
                                              .up = "mlp.shared_expert.up_proj",
                                              .down = "mlp.shared_expert.down_proj",
                                              .inner = inner,
                                              .act = NATIVE_SILU});
    reg gate = native_linear(b, h, "mlp.shared_expert_gate", 1, hidden, false);

    return native_gate(b, out, gate, NATIVE_SIGMOID, hidden);
}

reg native_grouped_experts(struct native_builder *b, reg h, uint32_t hidden,
                           const struct native_grouped_experts *how)
{
    struct native_moe moe =
        native_moe_of("mlp.gate", "mlp.experts", how->experts, how->chosen, how->inner);

    moe.route.score = how->score == 0 ? NATIVE_SIGMOID_SCORE : NATIVE_SOFTMAX;
    moe.route.normalize = how->normalize;
    moe.route.epsilon = 1e-20f;
    moe.route.scale = (float)how->scale;
    moe.route.groups = how->method == 1 ? 1 : how->groups;
    moe.route.group_count = how->group_count;
    moe.route.by_best = how->method == 2;
    moe.bias = how->method == 0 ? "mlp.gate.e_score_correction_bias" : NULL;
    reg out = native_moe(b, h, hidden, &moe);
    if (how->shared > 0)
        native_add(b, out,
                   native_mlp(b, h, hidden,
                              &(struct native_mlp){.gate = "mlp.shared_experts.gate_proj",
                                                   .up = "mlp.shared_experts.up_proj",
                                                   .down = "mlp.shared_experts.down_proj",
                                                   .inner = how->inner * how->shared,
                                                   .act = NATIVE_SILU}),
                   1);
    return out;
}
