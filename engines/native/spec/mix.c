/* native/spec/mix.c - builder.h: attention, experts, state, and the end of the list. */
#include <math.h>

#include "engines/native/spec/build.h"

/* ---- attention ---- */

void native_rotate_with(struct native_builder *b, reg x, const struct native_rotate *how)
{
    native_build_width(b, x, (uint64_t)how->heads * how->head_size, "a rotated row");
    if (b->code == LR_OK && (how->table >= b->spec->rope_count ||
                             b->spec->ropes[how->table].dims + how->offset > how->head_size))
        native_refuse(b, "layer %u: a rope that is wider than a head of %u", b->layer,
                      how->head_size);
    native_build_op(b, NATIVE_OP_ROPE, x, x)->rope = *how;
}

void native_rotate(struct native_builder *b, reg x, uint32_t heads, uint32_t head_size,
                   uint32_t table)
{
    native_rotate_with(
        b, x, &(struct native_rotate){.table = table, .heads = heads, .head_size = head_size});
}

static uint32_t add_cache(struct native_builder *b, const struct native_attention *a)
{
    struct native_spec *s = b->spec;
    uint32_t kind = 0;

    while (kind < s->kind_count && s->kinds[kind].window != a->window)
        kind++;
    if (kind == NATIVE_KINDS_MAX) {
        native_refuse(b, "more than %d sizes of attention windows", NATIVE_KINDS_MAX);
        return 0;
    }
    if (kind == s->kind_count)
        s->kinds[s->kind_count++] = (struct native_kind){.window = a->window};
    if (!native_build_room(b, (void **)&s->caches, s->cache_count, &b->cache_room,
                           sizeof(*s->caches)))
        return 0;
    uint32_t values = a->values_are_keys ? 0 : a->value_size;
    s->caches[s->cache_count] = (struct native_cache){.kind = kind,
                                                      .heads = a->kv_heads,
                                                      .key_size = a->head_size,
                                                      .value_size = values,
                                                      .offset = s->kinds[kind].token_floats};
    s->kinds[kind].token_floats += a->kv_heads * (a->head_size + values);
    return s->cache_count++;
}

/* The cache of another layer must have this layer's heads. */
static bool has_source(const struct native_builder *b, const struct native_attention *a)
{
    if (a->source >= b->spec->cache_count)
        return false;
    const struct native_cache *c = &b->spec->caches[a->source];
    return c->heads == a->kv_heads && c->key_size == a->head_size &&
           c->value_size == (a->values_are_keys ? 0 : a->value_size) &&
           b->spec->kinds[c->kind].window == a->window;
}

reg native_attend(struct native_builder *b, reg q, reg k, reg v,
                  const struct native_attention *how, uint32_t *cache)
{
    struct native_attention a = *how;
    uint32_t sinks = native_build_vector(b, a.sinks, a.heads), own = a.source;

    if (a.value_size == 0)
        a.value_size = a.head_size;
    if (a.scale == 0)
        a.scale = 1 / sqrt((double)a.head_size);
    native_build_width(b, q, (uint64_t)a.heads * a.head_size, "a query");
    if (k != NATIVE_NO_REG) {
        native_build_width(b, k, (uint64_t)a.kv_heads * a.head_size, "a key");
        if (!a.values_are_keys)
            native_build_width(b, v, (uint64_t)a.kv_heads * a.value_size, "a value");
    }
    if (b->code == LR_OK && (a.kv_heads == 0 || a.heads % a.kv_heads != 0))
        native_refuse(b, "layer %u: %u heads for %u heads of keys", b->layer, a.heads,
                      a.kv_heads);
    if (b->code == LR_OK && k == NATIVE_NO_REG && !has_source(b, &a))
        native_refuse(b, "layer %u: no layer before it has the keys that it shares", b->layer);
    if (b->code != LR_OK)
        return NATIVE_X;
    if (k != NATIVE_NO_REG)
        own = add_cache(b, &a);
    reg out = native_register(b, a.heads * a.value_size);
    struct native_op *op = native_build_op(b, NATIVE_OP_ATTEND, out, q);
    op->in[1] = k;
    op->in[2] = v;
    op->vector[0] = sinks;
    op->cache = own;
    op->writes = k != NATIVE_NO_REG;
    op->attend = a;
    b->spec->both_ways = b->spec->both_ways || a.both_ways;
    if (cache != NULL)
        *cache = own;
    return out;
}

/* ---- experts ---- */

reg native_route(struct native_builder *b, reg scores, const char *bias, const char *scales,
                 const struct native_route *how)
{
    uint32_t bias_at = native_build_vector(b, bias, how->experts);
    uint32_t scales_at = native_build_vector(b, scales, how->experts);

    native_build_width(b, scores, how->experts, "the scores of experts");
    if (b->code == LR_OK && (how->chosen > how->experts || how->chosen > 64 ||
                             (how->groups > 1 && how->experts % how->groups != 0)))
        native_refuse(b, "layer %u: %u of %u experts in %u groups are not supported", b->layer,
                      how->chosen, how->experts, how->groups);
    reg out = native_register(b, 2 * how->chosen);
    struct native_op *op = native_build_op(b, NATIVE_OP_ROUTE, out, scores);
    op->vector[0] = bias_at;
    op->vector[1] = scales_at;
    op->route = *how;
    return out;
}

reg native_experts(struct native_builder *b, reg in, reg route,
                   const struct native_expert_names *names, const struct native_experts *how)
{
    uint32_t width = native_width(b, in), inner = how->inner, n = how->experts;
    bool fused = how->gated && names->up == NULL;
    uint32_t gate = NATIVE_NONE, up = NATIVE_NONE, down, gate_bias, down_bias;

    if (fused) {
        gate = native_build_matrices(b, names->gate, n, 2 * inner, width, names->transposed);
    } else {
        if (how->gated)
            gate = native_build_matrices(b, names->gate, n, inner, width, names->transposed);
        up = native_build_matrices(b, names->up, n, inner, width, names->transposed);
    }
    down = native_build_matrices(b, names->down, n, width, inner, names->transposed);
    gate_bias = native_build_vector(b, names->gate_bias, (uint64_t)n * inner * (fused ? 2 : 1));
    down_bias = native_build_vector(b, names->down_bias, (uint64_t)n * width);
    reg out = native_register(b, width);
    struct native_op *op = native_build_op(b, NATIVE_OP_EXPERTS, out, in);
    op->in[1] = route;
    op->matrix[0] = gate;
    op->matrix[1] = up;
    op->matrix[2] = down;
    op->vector[0] = gate_bias;
    op->vector[1] = down_bias;
    op->experts = *how;
    return out;
}

/* ---- state ---- */

static uint32_t add_state(struct native_builder *b, uint64_t floats)
{
    uint32_t at = b->spec->state_floats;

    if (floats + at > 1u << 30)
        native_refuse(b, "a state of more than 4 GiB for each sequence");
    else
        b->spec->state_floats += (uint32_t)floats;
    return at;
}

reg native_conv(struct native_builder *b, reg in, const char *name, uint32_t channels,
                uint32_t kernel, bool bias, enum native_act act)
{
    uint32_t weight = native_build_vector(b, name, (uint64_t)channels * kernel);
    uint32_t shift =
        bias ? native_build_vector(b, native_build_bias(b, name), channels) : NATIVE_NONE;

    native_build_width(b, in, channels, name);
    reg out = native_register(b, channels);
    struct native_op *op = native_build_op(b, NATIVE_OP_CONV, out, in);
    op->vector[0] = weight;
    op->vector[1] = shift;
    op->conv = (struct native_conv){channels, kernel, (uint8_t)act,
                                    add_state(b, (uint64_t)channels * (kernel - 1))};
    return out;
}

reg native_delta(struct native_builder *b, reg qkv, reg beta, reg a, const char *a_log,
                 const char *dt_bias, const struct native_delta *how)
{
    uint32_t decay = native_build_vector(b, a_log, how->value_heads);
    uint32_t bias = native_build_vector(b, dt_bias, how->value_heads);
    uint32_t keys = how->key_heads * how->key_size, values = how->value_heads * how->value_size;

    native_build_width(b, qkv, 2ull * keys + values, "the delta rule's input");
    native_build_width(b, beta, how->value_heads, "the delta rule's gate");
    native_build_width(b, a, how->value_heads, "the delta rule's decay");
    if (b->code == LR_OK && how->value_heads % how->key_heads != 0)
        native_refuse(b, "layer %u: %u value heads for %u key heads", b->layer,
                      how->value_heads, how->key_heads);
    reg out = native_register(b, values);
    struct native_op *op = native_build_op(b, NATIVE_OP_DELTA, out, qkv);
    op->in[1] = beta;
    op->in[2] = a;
    op->vector[0] = decay;
    op->vector[1] = bias;
    op->delta = *how;
    op->delta.state = add_state(b, (uint64_t)values * how->key_size);
    return out;
}

reg native_ssm(struct native_builder *b, reg xbc, reg dt, const char *a_log, const char *d,
               const char *dt_bias, const struct native_ssm *how)
{
    uint32_t decay = native_build_vector(b, a_log, how->heads);
    uint32_t skip = native_build_vector(b, d, how->heads);
    uint32_t bias = native_build_vector(b, dt_bias, how->heads);
    uint32_t inner = how->heads * how->head_size;

    native_build_width(b, xbc, inner + 2ull * how->groups * how->state_size,
                       "the state space's input");
    native_build_width(b, dt, how->heads, "the state space's time step");
    if (b->code == LR_OK && how->heads % how->groups != 0)
        native_refuse(b, "layer %u: %u heads in %u groups", b->layer, how->heads, how->groups);
    reg out = native_register(b, inner);
    struct native_op *op = native_build_op(b, NATIVE_OP_SSM, out, xbc);
    op->in[1] = dt;
    op->vector[0] = decay;
    op->vector[1] = skip;
    op->vector[2] = bias;
    op->ssm = *how;
    op->ssm.state = add_state(b, (uint64_t)inner * how->state_size);
    return out;
}

/* ---- the end ---- */

reg native_unembed(struct native_builder *b, reg in, const char *name, uint32_t vocab,
                   bool bias)
{
    b->spec->head_ops = b->spec->op_count;
    reg out = native_linear(b, in, name, vocab, native_width(b, in), bias);

    b->spec->result = out;
    return out;
}
