/* native/spec/rows.c - builder.h: operations that look at one token's row, and matrices. */
#include <stdio.h>
#include <string.h>

#include "engines/native/spec/build.h"

static uint32_t bias_of(struct native_builder *b, const char *name, uint32_t rows)
{
    const char *bracket = strchr(name, '[');

    if (bracket == NULL)
        return native_build_vector(b, native_build_bias(b, name), rows);
    native_refuse(b, "tensor \"%s\": rows of a bias are not supported", name);
    return NATIVE_NONE;
}

/* ---- rows ---- */

static void embed(struct native_builder *b, reg out, const char *table, uint32_t rows,
                  const struct native_embed *how)
{
    uint32_t width = native_width(b, out);
    uint32_t matrix = native_build_matrices(b, table, 1, rows, width, false);
    struct native_op *op =
        native_build_op(b, NATIVE_OP_EMBED, out, how->add ? out : NATIVE_NO_REG);

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

void native_placeholder(struct native_builder *b, uint32_t id, uint32_t padding)
{
    if (b->spec->placeholder_count < NATIVE_PLACEHOLDERS_MAX)
        b->spec->placeholders[b->spec->placeholder_count++] = id;
    b->spec->padding = padding;
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

    if (gate != NATIVE_NO_REG)
        native_build_width(b, gate, width, "a norm's gate");
    if (b->code == LR_OK && how->group != 0 && width % how->group != 0)
        native_refuse(b, "layer %u: a norm over %u of %u values", b->layer, how->group, width);
    if (weight != NULL) {
        vector = native_build_vector(b, weight, count);
        if (bias)
            shift = native_build_vector(b, native_build_bias(b, weight), count);
    }
    if (out == NATIVE_NO_REG)
        out = native_register(b, width);
    struct native_op *op = native_build_op(b, NATIVE_OP_NORM, out, in);
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

static reg linear(struct native_builder *b, reg in, const char *name, uint32_t rows,
                  uint32_t columns, bool bias, bool by_columns)
{
    native_build_width(b, in, columns, name);
    uint32_t matrix = native_build_matrices(b, name, 1, rows, columns, by_columns);
    uint32_t vector = bias ? bias_of(b, name, rows) : NATIVE_NONE;
    reg out = native_register(b, rows);
    struct native_op *op = native_build_op(b, NATIVE_OP_LINEAR, out, in);

    op->matrix[0] = matrix;
    op->vector[0] = vector;
    return out;
}

reg native_linear(struct native_builder *b, reg in, const char *name, uint32_t rows,
                  uint32_t columns, bool bias)
{
    return linear(b, in, name, rows, columns, bias, false);
}

reg native_linear_by_columns(struct native_builder *b, reg in, const char *name, uint32_t rows,
                             uint32_t columns)
{
    return linear(b, in, name, rows, columns, true, true);
}

reg native_heads(struct native_builder *b, reg in, const char *name,
                 const struct native_heads *how)
{
    uint32_t columns = how->transposed ? how->rows : how->columns;

    native_build_width(b, in, (uint64_t)how->heads * how->in_stride, "the heads' input");
    uint32_t matrix =
        native_build_matrices(b, name, 1, how->heads * how->head_rows, columns, false);
    reg out = native_register(b, how->heads * how->out_stride);
    struct native_op *op = native_build_op(b, NATIVE_OP_HEADS, out, in);

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
    native_build_op(b, NATIVE_OP_SLICE, out, in)->slice = *how;
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
    native_build_width(b, gate, native_width(b, value) / (group != 0 ? group : 1), "a gate");
    reg out = native_register(b, native_width(b, value));
    struct native_op *op = native_build_op(b, NATIVE_OP_GATE, out, value);

    op->in[1] = gate;
    op->gate = (struct native_gate){.act = (uint8_t)act, .group = group};
    return out;
}

reg native_act(struct native_builder *b, reg in, enum native_act act)
{
    reg out = native_register(b, native_width(b, in));

    native_build_op(b, NATIVE_OP_ACT, out, in)->gate.act = (uint8_t)act;
    return out;
}

void native_add(struct native_builder *b, reg x, reg in, double scale)
{
    native_build_width(b, in, native_width(b, x), "a sum");
    struct native_op *op = native_build_op(b, NATIVE_OP_ADD, x, x);

    op->in[1] = in;
    op->scale = (float)scale;
}

void native_scale(struct native_builder *b, reg x, double scale)
{
    if (scale != 1)
        native_build_op(b, NATIVE_OP_SCALE, x, x)->scale = (float)scale;
}

void native_scale_by(struct native_builder *b, reg x, const char *name, uint32_t count,
                     double scale)
{
    uint32_t vector = native_build_vector(b, name, count);
    struct native_op *op = native_build_op(b, NATIVE_OP_SCALE, x, x);

    op->scale = (float)scale;
    op->vector[0] = vector;
}

void native_softcap(struct native_builder *b, reg x, double cap)
{
    if (cap != 0)
        native_build_op(b, NATIVE_OP_SOFTCAP, x, x)->scale = (float)cap;
}
