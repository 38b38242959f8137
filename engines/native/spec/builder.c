/* native/spec/builder.c - see builder.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engines/native/spec/build.h"

enum { WIDTH_MAX = 1 << 24, REGISTERS_MAX = 60000, OPS_MAX = 1 << 20 };

bool native_build_failed(const struct native_builder *b)
{
    return b->code != LR_OK;
}

struct native_spec *native_build_spec(struct native_builder *b)
{
    return b->spec;
}

void *native_build_alloc(struct native_builder *b, size_t count, size_t size)
{
    void *memory = lr_arena_array(&b->spec->arena, count, size);

    if (memory == NULL && b->code == LR_OK)
        b->code = lr_fail(b->err, LR_OUT_OF_RAM, "no memory for the description of the model");
    return memory;
}

void native_refuse(struct native_builder *b, const char *format, ...)
{
    char text[256];
    va_list args;

    if (b->code != LR_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    b->code = lr_fail(b->err, LR_UNSUPPORTED, "%s", text);
}

const char *native_name(struct native_builder *b, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const char *copy = lr_arena_printf(&b->spec->arena, "%s", text);
    return copy != NULL ? copy : "";
}

void native_layer(struct native_builder *b, const char *format, uint32_t n)
{
    const char *mark = strstr(format, "%u");

    b->layer = (uint16_t)n;
    if (mark == NULL)
        snprintf(b->prefix, sizeof(b->prefix), "%s", format);
    else
        snprintf(b->prefix, sizeof(b->prefix), "%.*s%u%s", (int)(mark - format), format, n,
                 mark + 2);
}

const char *native_either(struct native_builder *b, const char *name, const char *other)
{
    return native_has(b, other) ? other : name;
}

/* ---- registers and operations ---- */

static bool wider(struct native_builder *b, void **items, uint32_t count, uint32_t *room,
                  size_t size)
{
    if (count < *room)
        return true;
    uint32_t next = *room * 2 + 64;
    void *more = native_build_alloc(b, next, size);
    if (more == NULL)
        return false;
    if (count > 0)
        memcpy(more, *items, count * size);
    *items = more;
    *room = next;
    return true;
}

reg native_register(struct native_builder *b, uint32_t width)
{
    struct native_spec *s = b->spec;

    if (b->code == LR_OK &&
        (width == 0 || width > WIDTH_MAX || s->register_count >= REGISTERS_MAX))
        native_refuse(b, "an operation of %u values: the limit is %u", width, WIDTH_MAX);
    if (b->code != LR_OK || !wider(b, (void **)&s->registers, s->register_count,
                                   &b->register_room, sizeof(*s->registers)))
        return NATIVE_X;
    s->registers[s->register_count] =
        (struct native_register){.width = width, .first = UINT32_MAX};
    return (reg)s->register_count++;
}

uint32_t native_width(const struct native_builder *b, reg r)
{
    return r < b->spec->register_count ? b->spec->registers[r].width : 0;
}

static struct native_op *append(struct native_builder *b, enum native_op_kind kind, reg out,
                                reg in)
{
    static struct native_op nowhere;
    struct native_spec *s = b->spec;

    if (b->code == LR_OK && s->op_count >= OPS_MAX)
        native_refuse(b, "more than %d operations", OPS_MAX);
    if (b->code != LR_OK ||
        !wider(b, (void **)&s->ops, s->op_count, &b->op_room, sizeof(*s->ops)))
        return &nowhere;
    struct native_op *op = &s->ops[s->op_count++];
    *op = (struct native_op){
        .kind = (uint8_t)kind, .layer = b->layer, .out = out, .cache = NATIVE_NONE};
    for (int i = 0; i < NATIVE_INPUTS; i++)
        op->in[i] = i == 0 ? in : NATIVE_NO_REG;
    for (int i = 0; i < NATIVE_WEIGHTS; i++)
        op->vector[i] = NATIVE_NONE;
    for (int i = 0; i < 3; i++)
        op->matrix[i] = NATIVE_NONE;
    return op;
}

/* The operation's widths must be what the model's own sizes say. */
static void expect_width(struct native_builder *b, reg r, uint64_t width, const char *what)
{
    if (b->code == LR_OK && native_width(b, r) != width)
        b->code = lr_fail(b->err, LR_MODEL_CORRUPT,
                          "config.json: layer %u: %s has %u values, expected %llu", b->layer,
                          what, native_width(b, r), (unsigned long long)width);
}

static const char *bias_name(struct native_builder *b, const char *name)
{
    return native_name(b, "%s.bias", name);
}

static uint32_t bias_of(struct native_builder *b, const char *name, uint32_t rows)
{
    const char *bracket = strchr(name, '[');

    if (bracket == NULL)
        return native_build_vector(b, bias_name(b, name), rows);
    native_refuse(b, "tensor \"%s\": rows of a bias are not supported", name);
    return NATIVE_NONE;
}

/* ---- rows ---- */

static void embed(struct native_builder *b, reg out, const char *table, uint32_t rows,
                  const struct native_embed *how)
{
    uint32_t width = native_width(b, out);
    uint32_t matrix = native_build_matrices(b, table, 1, rows, width, false);
    struct native_op *op = append(b, NATIVE_OP_EMBED, out, how->add ? out : NATIVE_NO_REG);

    op->matrix[0] = matrix;
    op->embed = *how;
}

void native_embed(struct native_builder *b, reg x, const char *table, uint32_t rows,
                  uint32_t width, double scale)
{
    b->spec->vocab = rows;
    b->spec->hidden = width;
    if (b->spec->register_count == 0)
        (void)native_register(b, width);
    embed(b, x, table, rows, &(struct native_embed){.scale = (float)scale});
}

reg native_lookup(struct native_builder *b, const char *table, uint32_t rows, uint32_t width,
                  double scale)
{
    reg out = native_register(b, width);

    embed(b, out, table, rows, &(struct native_embed){.scale = (float)scale});
    return out;
}

void native_embed_add(struct native_builder *b, reg x, const char *table, uint32_t rows,
                      enum native_row row, uint32_t first)
{
    embed(b, x, table, rows,
          &(struct native_embed){.row = (uint8_t)row, .add = true, .first = first, .scale = 1});
}

reg native_norm_with(struct native_builder *b, reg out, reg in, reg gate, const char *weight,
                     bool bias, const struct native_norm *how)
{
    uint32_t width = native_width(b, in);
    uint32_t count = how->wide || how->group == 0 ? width : how->group;
    uint32_t vector = NATIVE_NONE, shift = NATIVE_NONE;

    if (b->code == LR_OK && how->group != 0 && width % how->group != 0)
        native_refuse(b, "layer %u: a norm over %u of %u values", b->layer, how->group, width);
    if (weight != NULL) {
        vector = native_build_vector(b, weight, count);
        if (bias)
            shift = native_build_vector(b, bias_name(b, weight), count);
    }
    if (out == NATIVE_NO_REG)
        out = native_register(b, width);
    struct native_op *op = append(b, NATIVE_OP_NORM, out, in);
    op->in[1] = gate;
    op->vector[0] = vector;
    op->vector[1] = shift;
    op->norm = *how;
    if (op->norm.group == 0)
        op->norm.group = width;
    return out;
}

reg native_norm(struct native_builder *b, reg in, const char *weight, double eps)
{
    return native_norm_with(b, NATIVE_NO_REG, in, NATIVE_NO_REG, weight, false,
                            &(struct native_norm){.eps = (float)eps});
}

reg native_layer_norm(struct native_builder *b, reg in, const char *weight, bool bias,
                      double eps)
{
    return native_norm_with(b, NATIVE_NO_REG, in, NATIVE_NO_REG, weight, bias,
                            &(struct native_norm){.eps = (float)eps, .layer = true});
}

void native_head_norm(struct native_builder *b, reg x, const char *weight, uint32_t head_size,
                      double eps)
{
    (void)native_norm_with(b, x, x, NATIVE_NO_REG, weight, false,
                           &(struct native_norm){.group = head_size, .eps = (float)eps});
}

reg native_linear(struct native_builder *b, reg in, const char *name, uint32_t rows,
                  uint32_t columns, bool bias)
{
    expect_width(b, in, columns, name);
    uint32_t matrix = native_build_matrices(b, name, 1, rows, columns, false);
    uint32_t vector = bias ? bias_of(b, name, rows) : NATIVE_NONE;
    reg out = native_register(b, rows);
    struct native_op *op = append(b, NATIVE_OP_LINEAR, out, in);

    op->matrix[0] = matrix;
    op->vector[0] = vector;
    return out;
}

reg native_heads(struct native_builder *b, reg in, const char *name,
                 const struct native_heads *how)
{
    uint32_t columns = how->transposed ? how->rows : how->columns;
    uint32_t matrix =
        native_build_matrices(b, name, 1, how->heads * how->head_rows, columns, false);
    reg out = native_register(b, how->heads * how->out_stride);
    struct native_op *op = append(b, NATIVE_OP_HEADS, out, in);

    op->matrix[0] = matrix;
    op->heads = *how;
    return out;
}

void native_place(struct native_builder *b, reg out, reg in, const struct native_slice *how)
{
    uint64_t reads = (uint64_t)how->group_in * (how->groups - 1) + how->offset + how->length;
    uint64_t writes =
        (uint64_t)how->out_stride * (how->groups - 1) + how->out_offset + how->length;

    if (b->code == LR_OK &&
        (how->groups == 0 || reads > native_width(b, in) || writes > native_width(b, out)))
        native_refuse(b, "layer %u: parts of %u values in rows of %u", b->layer, how->length,
                      native_width(b, in));
    append(b, NATIVE_OP_SLICE, out, in)->slice = *how;
}

reg native_slice(struct native_builder *b, reg in, uint32_t groups, uint32_t group_in,
                 uint32_t offset, uint32_t length)
{
    reg out = native_register(b, groups * length);

    native_place(b, out, in,
                 &(struct native_slice){.groups = groups,
                                        .group_in = group_in,
                                        .offset = offset,
                                        .length = length,
                                        .out_stride = length});
    return out;
}

reg native_gate(struct native_builder *b, reg value, reg gate, enum native_act act,
                uint32_t group)
{
    expect_width(b, gate, native_width(b, value) / (group != 0 ? group : 1), "a gate");
    reg out = native_register(b, native_width(b, value));
    struct native_op *op = append(b, NATIVE_OP_GATE, out, value);

    op->in[1] = gate;
    op->gate = (struct native_gate){.act = (uint8_t)act, .group = group};
    return out;
}

reg native_act(struct native_builder *b, reg in, enum native_act act)
{
    reg out = native_register(b, native_width(b, in));

    append(b, NATIVE_OP_ACT, out, in)->gate.act = (uint8_t)act;
    return out;
}

void native_add(struct native_builder *b, reg x, reg in, double scale)
{
    expect_width(b, in, native_width(b, x), "a sum");
    struct native_op *op = append(b, NATIVE_OP_ADD, x, x);

    op->in[1] = in;
    op->scale = (float)scale;
}

void native_scale(struct native_builder *b, reg x, double scale)
{
    if (scale != 1)
        append(b, NATIVE_OP_SCALE, x, x)->scale = (float)scale;
}

void native_scale_by(struct native_builder *b, reg x, const char *name, uint32_t count,
                     double scale)
{
    uint32_t vector = native_build_vector(b, name, count);
    struct native_op *op = append(b, NATIVE_OP_SCALE, x, x);

    op->scale = (float)scale;
    op->vector[0] = vector;
}

void native_softcap(struct native_builder *b, reg x, double cap)
{
    if (cap != 0)
        append(b, NATIVE_OP_SOFTCAP, x, x)->scale = (float)cap;
}

/* ---- attention ---- */

void native_rotate_with(struct native_builder *b, reg x, const struct native_rotate *how)
{
    append(b, NATIVE_OP_ROPE, x, x)->rope = *how;
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
    if (!wider(b, (void **)&s->caches, s->cache_count, &b->cache_room, sizeof(*s->caches)))
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

reg native_attend(struct native_builder *b, reg q, reg k, reg v,
                  const struct native_attention *how, uint32_t *cache)
{
    struct native_attention a = *how;
    uint32_t sinks = native_build_vector(b, a.sinks, a.heads), own = a.source;

    if (a.value_size == 0)
        a.value_size = a.head_size;
    if (a.scale == 0)
        a.scale = 1 / sqrt((double)a.head_size);
    expect_width(b, q, (uint64_t)a.heads * a.head_size, "a query");
    if (k != NATIVE_NO_REG) {
        expect_width(b, k, (uint64_t)a.kv_heads * a.head_size, "a key");
        if (!a.values_are_keys)
            expect_width(b, v, (uint64_t)a.kv_heads * a.value_size, "a value");
    }
    if (b->code != LR_OK)
        return NATIVE_X;
    if (k != NATIVE_NO_REG)
        own = add_cache(b, &a);
    reg out = native_register(b, a.heads * a.value_size);
    struct native_op *op = append(b, NATIVE_OP_ATTEND, out, q);
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

    expect_width(b, scores, how->experts, "the scores of experts");
    if (b->code == LR_OK && (how->chosen > how->experts || how->chosen > 64 ||
                             (how->groups > 1 && how->experts % how->groups != 0)))
        native_refuse(b, "layer %u: %u of %u experts in %u groups are not supported", b->layer,
                      how->chosen, how->experts, how->groups);
    reg out = native_register(b, 2 * how->chosen);
    struct native_op *op = append(b, NATIVE_OP_ROUTE, out, scores);
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
    gate_bias = native_build_vector(b, names->gate_bias, n * inner * (fused ? 2 : 1));
    down_bias = native_build_vector(b, names->down_bias, n * width);
    reg out = native_register(b, width);
    struct native_op *op = append(b, NATIVE_OP_EXPERTS, out, in);
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
    uint32_t weight = native_build_vector(b, name, channels * kernel);
    uint32_t shift = bias ? native_build_vector(b, bias_name(b, name), channels) : NATIVE_NONE;

    expect_width(b, in, channels, name);
    reg out = native_register(b, channels);
    struct native_op *op = append(b, NATIVE_OP_CONV, out, in);
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

    expect_width(b, qkv, 2ull * keys + values, "the delta rule's input");
    if (b->code == LR_OK && how->value_heads % how->key_heads != 0)
        native_refuse(b, "layer %u: %u value heads for %u key heads", b->layer,
                      how->value_heads, how->key_heads);
    reg out = native_register(b, values);
    struct native_op *op = append(b, NATIVE_OP_DELTA, out, qkv);
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

    expect_width(b, xbc, inner + 2ull * how->groups * how->state_size,
                 "the state space's input");
    if (b->code == LR_OK && how->heads % how->groups != 0)
        native_refuse(b, "layer %u: %u heads in %u groups", b->layer, how->heads, how->groups);
    reg out = native_register(b, inner);
    struct native_op *op = append(b, NATIVE_OP_SSM, out, xbc);
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

void native_end_vector(struct native_builder *b, reg in)
{
    b->spec->head_ops = b->spec->op_count;
    b->spec->result = in;
    b->spec->pool = NATIVE_POOL_LAST;
}
