/* native/cpu/rows.c - operations that look at one token's row alone. */
#include <math.h>
#include <string.h>

#include "engines/native/cpu/cpu.h"
#include "engines/native/cpu/lanes.h"
#include "engines/native/cpu/scalar.h"
#include "engines/native/formats/packed.h"

/* ---- embed ---- */

static void add_packed_row(const struct native_matrix *m, uint64_t row, float scale, bool add,
                           float *out)
{
    enum { PART = 256 };
    float part[PART];

    for (uint32_t from = 0; from < m->columns; from += PART) {
        uint32_t n = m->columns - from < PART ? m->columns - from : PART;
        native_packed_row(m->packed, m->packed_first + (uint32_t)row, from, n, part);
        for (uint32_t i = 0; i < n; i++)
            out[from + i] = add ? out[from + i] + part[i] * scale : part[i] * scale;
    }
}

static void add_row(const struct native_matrix *m, uint64_t row, float scale, bool add,
                    float *out)
{
    const uint16_t *half = (const uint16_t *)m->data + row * m->row_stride;
    const float *whole = (const float *)m->data + row * m->row_stride;

    if (m->type == NATIVE_PACKED) {
        add_packed_row(m, row, scale, add, out);
        return;
    }
    for (uint32_t i = 0; i < m->columns; i++) {
        float v = m->type == NATIVE_F32   ? whole[i]
                  : m->type == NATIVE_F16 ? lanes_half(half[i])
                                          : lanes_brain(half[i]);
        out[i] = add ? out[i] + v * scale : v * scale;
    }
}

static uint32_t embedded_id(const struct native_spec *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->placeholder_count; i++)
        if (s->placeholders[i] == id)
            return s->padding;
    return id;
}

static void rows_embed(const struct native_run *run, uint32_t from, uint32_t to)
{
    const struct native_embed *how = &run->op->embed;
    const struct native_matrix *m = &run->b->matrices[run->op->matrix[0]];

    for (uint32_t t = from; t < to; t++) {
        const struct native_token *token = &run->b->tokens[t];
        uint64_t row = how->first;
        if (how->row == NATIVE_BY_ID)
            row = embedded_id(run->b->spec, token->id);
        else if (how->row == NATIVE_BY_POSITION)
            row += token->position;
        else if (how->row == NATIVE_BY_PART)
            row += token->step->second != 0 && token->position >= token->step->second;
        add_row(m, row < m->rows ? row : m->rows - 1, how->scale, how->add,
                native_row(run, run->op->out, t));
    }
}

/* ---- norm ---- */

/* In doubles: one sum from the first value to the last. */
static void norm_group(const struct native_norm *how, const float *x, const float *gate,
                       const float *weight, const float *shift, float *out)
{
    uint32_t n = how->group;
    double mean = 0, sum = 0;

    if (gate != NULL && how->gate_first) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = x[i] * (gate[i] / (1.0f + scalar_exp(-gate[i])));
        x = out;
    }
    for (uint32_t i = 0; how->layer && i < n; i++)
        mean += (double)x[i];
    mean /= n;
    for (uint32_t i = 0; i < n; i++)
        sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    float factor = (float)(1.0 / sqrt(sum / n + (double)how->eps)), middle = (float)mean;
    for (uint32_t i = 0; i < n; i++) {
        float v = (x[i] - middle) * factor;
        if (weight != NULL)
            v *= how->plus_one ? 1.0f + weight[i] : weight[i];
        if (shift != NULL)
            v += shift[i];
        if (gate != NULL && !how->gate_first)
            v *= gate[i] / (1.0f + scalar_exp(-gate[i]));
        out[i] = v;
    }
}

static void rows_norm(const struct native_run *run, uint32_t from, uint32_t to)
{
    const struct native_op *op = run->op;
    const float *weight = native_values(run, op->vector[0]),
                *shift = native_values(run, op->vector[1]);
    uint32_t width = native_width_of(run, op->out), group = op->norm.group;

    for (uint32_t t = from; t < to; t++) {
        const float *x = native_row(run, op->in[0], t);
        const float *gate = op->in[1] != NATIVE_NO_REG ? native_row(run, op->in[1], t) : NULL;
        float *out = native_row(run, op->out, t);
        for (uint32_t g = 0; g < width; g += group)
            norm_group(&op->norm, x + g, gate != NULL ? gate + g : NULL,
                       weight != NULL && op->norm.wide ? weight + g : weight,
                       shift != NULL && op->norm.wide ? shift + g : shift, out + g);
    }
}

/* ---- rope ---- */

static void rotate(float *head, const struct native_rotate *how, uint32_t half,
                   const float *cosines, const float *sines)
{
    for (uint32_t i = 0; i < half; i++) {
        float *a = how->interleaved ? &head[2 * i] : &head[i];
        float *c = how->interleaved ? &head[2 * i + 1] : &head[i + half];
        float first = *a, second = *c;
        *a = first * cosines[i] - second * sines[i];
        *c = second * cosines[i] + first * sines[i];
    }
}

static void rows_rope(const struct native_run *run, uint32_t from, uint32_t to)
{
    const struct native_rotate *how = &run->op->rope;
    uint32_t dims = run->b->spec->ropes[how->table].dims;

    for (uint32_t t = from; t < to; t++) {
        const float *angles = run->b->ropes + run->b->rope_at[how->table] + (size_t)t * dims;
        float *x = native_row(run, run->op->out, t);
        for (uint32_t h = 0; h < how->heads; h++)
            rotate(x + (size_t)h * how->head_size + how->offset, how, dims / 2, angles,
                   angles + dims / 2);
    }
}

/* ---- the small ones ---- */

static void rows_slice(const struct native_run *run, uint32_t from, uint32_t to)
{
    const struct native_slice *how = &run->op->slice;

    for (uint32_t t = from; t < to; t++) {
        const float *in = native_row(run, run->op->in[0], t) + how->offset;
        float *out = native_row(run, run->op->out, t) + how->out_offset;
        for (uint32_t g = 0; g < how->groups; g++)
            memcpy(out + (size_t)g * how->out_stride, in + (size_t)g * how->group_in,
                   how->length * sizeof(*out));
    }
}

static void rows_gate(const struct native_run *run, uint32_t from, uint32_t to)
{
    const struct native_op *op = run->op;
    uint32_t width = native_width_of(run, op->out), group = op->gate.group;
    enum { PART = 256 };
    float gate[PART];

    for (uint32_t t = from; t < to; t++) {
        const float *x = native_row(run, op->in[0], t), *g = native_row(run, op->in[1], t);
        float *out = native_row(run, op->out, t);
        for (uint32_t i = 0; i < width; i += PART) {
            uint32_t n = width - i < PART ? width - i : PART;
            for (uint32_t k = 0; k < n; k++)
                gate[k] = g[(i + k) / group];
            run->b->kernels->act(op->gate.act, gate, n);
            for (uint32_t k = 0; k < n; k++)
                out[i + k] = x[i + k] * gate[k];
        }
    }
}

static void rows_act(const struct native_run *run, uint32_t from, uint32_t to)
{
    uint32_t width = native_width_of(run, run->op->out);

    for (uint32_t t = from; t < to; t++) {
        float *out = native_row(run, run->op->out, t);
        memcpy(out, native_row(run, run->op->in[0], t), width * sizeof(*out));
        run->b->kernels->act(run->op->gate.act, out, width);
    }
}

static void rows_add(const struct native_run *run, uint32_t from, uint32_t to)
{
    uint32_t width = native_width_of(run, run->op->out);
    float scale = run->op->scale;

    for (uint32_t t = from; t < to; t++) {
        const float *in = native_row(run, run->op->in[1], t);
        float *out = native_row(run, run->op->out, t);
        for (uint32_t i = 0; i < width; i++)
            out[i] += scale * in[i];
    }
}

static void rows_scale(const struct native_run *run, uint32_t from, uint32_t to)
{
    const struct native_op *op = run->op;
    const float *by = native_values(run, op->vector[0]);
    uint32_t width = native_width_of(run, op->out);
    uint32_t count = by != NULL ? run->b->spec->vectors[op->vector[0]].count : 0;

    for (uint32_t t = from; t < to; t++) {
        float *out = native_row(run, op->out, t);
        for (uint32_t i = 0; i < width; i++)
            out[i] *= op->scale * (by != NULL ? by[i % count] : 1.0f);
    }
}

static void rows_softcap(const struct native_run *run, uint32_t from, uint32_t to)
{
    uint32_t width = native_width_of(run, run->op->out);
    float cap = run->op->scale;

    for (uint32_t t = from; t < to; t++) {
        float *out = native_row(run, run->op->out, t);
        for (uint32_t i = 0; i < width; i++)
            out[i] = cap * scalar_tanh(out[i] / cap);
    }
}

native_rows_fn *native_rows_of(enum native_op_kind kind)
{
    static native_rows_fn *const table[NATIVE_OP_COUNT] = {
        [NATIVE_OP_EMBED] = rows_embed,     [NATIVE_OP_NORM] = rows_norm,
        [NATIVE_OP_ROPE] = rows_rope,       [NATIVE_OP_SLICE] = rows_slice,
        [NATIVE_OP_GATE] = rows_gate,       [NATIVE_OP_ACT] = rows_act,
        [NATIVE_OP_ADD] = rows_add,         [NATIVE_OP_SCALE] = rows_scale,
        [NATIVE_OP_SOFTCAP] = rows_softcap, [NATIVE_OP_ROUTE] = native_route_rows,
    };

    return table[kind];
}
