/* native/cpu/experts.c - the MLPs of the chosen experts.
 *
 * Tokens are grouped by expert, so that an expert's bytes are read once per step for all its
 * tokens.  Two passes: `up` computes the inner values of each pair of token and expert, `down`
 * the outputs and each token's weighted sum, in the order of its choice.  Neither the grouping
 * nor the tasks change a result: see kernels.h.
 */
#include <string.h>

#include "engines/native/cpu/cpu.h"
#include "engines/native/cpu/scalar.h"

enum { PAIR_BLOCK = 16 };

struct experts_run {
    const struct native_run *run;
    uint32_t shares;
};

static uint32_t choice_of(const struct native_run *run, uint32_t token, uint32_t rank)
{
    uint32_t expert;

    memcpy(&expert, native_row(run, run->op->in[1], token) + run->op->experts.chosen + rank,
           sizeof(expert));
    return expert;
}

/* Fills shares, pair_token and pair_of: a counting sort, tokens in order. */
static uint32_t group_by_expert(const struct native_run *run)
{
    struct serving_backend *b = run->b;
    const struct native_experts *e = &run->op->experts;
    uint32_t first = 0, shares = 0;

    memset(b->expert_count, 0, e->experts * sizeof(*b->expert_count));
    for (uint32_t t = 0; t < run->tokens; t++)
        for (uint32_t n = 0; n < e->chosen; n++)
            b->expert_count[choice_of(run, t, n)]++;
    for (uint32_t i = 0; i < e->experts; i++) {
        uint32_t count = b->expert_count[i];
        if (count > 0)
            b->shares[shares++] = (struct native_share){i, first, count};
        b->expert_count[i] = first;
        first += count;
    }
    for (uint32_t t = 0; t < run->tokens; t++)
        for (uint32_t n = 0; n < e->chosen; n++) {
            uint32_t pair = b->expert_count[choice_of(run, t, n)]++;
            b->pair_of[t * e->chosen + n] = pair;
            b->pair_token[pair] = t;
        }
    return shares;
}

static void multiply(const struct native_run *run, uint32_t matrix, uint32_t first,
                     uint32_t rows, uint32_t pairs, const float *const *x, float *y,
                     size_t y_stride)
{
    const struct native_dense job = {
        .matrix = &run->b->matrices[matrix],
        .first = first,
        .rows = rows,
        .tokens = pairs,
        .x = x,
        .y = y,
        .y_stride = y_stride,
    };
    run->b->kernels->dense(&job);
}

static void add_bias(const float *bias, uint32_t first, uint32_t step, uint32_t rows, float *y)
{
    for (uint32_t r = 0; bias != NULL && r < rows; r++)
        y[r] += bias[first + r * step];
}

/* inner = act(gate) * up, or act(up). */
static void finish(const struct native_run *run, float *gate, const float *up, uint32_t rows,
                   float *inner)
{
    const struct native_experts *e = &run->op->experts;

    if (!e->gated) {
        memcpy(inner, up, rows * sizeof(*inner));
        run->b->kernels->act(e->act, inner, rows);
        return;
    }
    if (e->act != NATIVE_CLIPPED) {
        run->b->kernels->act(e->act, gate, rows);
        for (uint32_t r = 0; r < rows; r++)
            inner[r] = gate[r] * up[r];
        return;
    }
    for (uint32_t r = 0; r < rows; r++) {
        float g = gate[r] > e->limit ? e->limit : gate[r], u = up[r];
        u = u > e->limit ? e->limit : u < -e->limit ? -e->limit : u;
        inner[r] = g / (1.0f + scalar_exp(-1.702f * g)) * (u + 1.0f);
    }
}

/* Gate and up rows of one expert for a block of pairs, [pair][rows] each. */
static void gate_and_up(const struct native_run *run, const struct native_share *s,
                        uint32_t row, uint32_t rows, uint32_t pairs, const float *const *x,
                        float *gate, float *up)
{
    const struct native_op *op = run->op;
    const struct native_experts *e = &op->experts;
    const float *bias = native_values(run, op->vector[0]);
    bool fused = op->matrix[1] == NATIVE_NONE;
    uint32_t gate_at = op->matrix[0] + s->expert, up_at = op->matrix[1] + s->expert;
    float both[PAIR_BLOCK * 2 * NATIVE_LINEAR_ROWS];
    size_t stride = NATIVE_LINEAR_ROWS;

    if (fused && e->interleaved) {
        multiply(run, gate_at, 2 * row, 2 * rows, pairs, x, both, 2 * stride);
        for (uint32_t i = 0; i < pairs; i++)
            for (uint32_t r = 0; r < rows; r++) {
                gate[i * stride + r] = both[2 * (i * stride + r)];
                up[i * stride + r] = both[2 * (i * stride + r) + 1];
            }
    } else if (e->gated) {
        multiply(run, gate_at, row, rows, pairs, x, gate, stride);
        multiply(run, fused ? gate_at : up_at, fused ? e->inner + row : row, rows, pairs, x, up,
                 stride);
    } else {
        multiply(run, up_at, row, rows, pairs, x, up, stride);
    }
    for (uint32_t i = 0; bias != NULL && i < pairs; i++) {
        const float *own = bias + (size_t)s->expert * 2 * e->inner;
        uint32_t step = e->interleaved ? 2 : 1;
        add_bias(own, row * step, step, rows, gate + i * stride);
        add_bias(own, e->interleaved ? row * 2 + 1 : e->inner + row, step, rows,
                 up + i * stride);
    }
}

static void up_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct experts_run *all = ctx;
    const struct native_run *run = all->run;
    const struct native_experts *e = &run->op->experts;
    uint32_t per_expert = (e->inner + NATIVE_LINEAR_ROWS - 1) / NATIVE_LINEAR_ROWS;
    const struct native_share *s = &run->b->shares[task / per_expert];
    uint32_t row = task % per_expert * NATIVE_LINEAR_ROWS;
    uint32_t rows = e->inner - row < NATIVE_LINEAR_ROWS ? e->inner - row : NATIVE_LINEAR_ROWS;
    float gate[PAIR_BLOCK * NATIVE_LINEAR_ROWS], up[PAIR_BLOCK * NATIVE_LINEAR_ROWS];
    const float *x[PAIR_BLOCK];

    (void)worker;
    for (uint32_t i = 0; i < s->count; i += PAIR_BLOCK) {
        uint32_t n = s->count - i < PAIR_BLOCK ? s->count - i : PAIR_BLOCK;
        for (uint32_t k = 0; k < n; k++)
            x[k] = native_row(run, run->op->in[0], run->b->pair_token[s->first + i + k]);
        gate_and_up(run, s, row, rows, n, x, gate, up);
        for (uint32_t k = 0; k < n; k++)
            finish(run, gate + (size_t)k * NATIVE_LINEAR_ROWS,
                   up + (size_t)k * NATIVE_LINEAR_ROWS, rows,
                   run->b->inner + (size_t)(s->first + i + k) * e->inner + row);
    }
}

static void down_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct experts_run *all = ctx;
    const struct native_run *run = all->run;
    const struct native_op *op = run->op;
    const struct native_experts *e = &op->experts;
    const float *bias = native_values(run, op->vector[1]);
    uint32_t row = task * NATIVE_DOWN_ROWS, width = native_width_of(run, op->out);
    uint32_t rows = width - row < NATIVE_DOWN_ROWS ? width - row : NATIVE_DOWN_ROWS;
    float *y = native_scratch(run, worker); /* [pair][NATIVE_DOWN_ROWS] */
    const float *x[PAIR_BLOCK];

    for (uint32_t i = 0; i < all->shares; i++) {
        const struct native_share *s = &run->b->shares[i];
        for (uint32_t k = 0; k < s->count; k += PAIR_BLOCK) {
            uint32_t n = s->count - k < PAIR_BLOCK ? s->count - k : PAIR_BLOCK;
            for (uint32_t j = 0; j < n; j++)
                x[j] = run->b->inner + (size_t)(s->first + k + j) * e->inner;
            multiply(run, op->matrix[2] + s->expert, row, rows, n, x,
                     y + (size_t)(s->first + k) * NATIVE_DOWN_ROWS, NATIVE_DOWN_ROWS);
        }
    }
    for (uint32_t t = 0; t < run->tokens; t++) {
        const float *weight = native_row(run, op->in[1], t);
        float *out = native_row(run, op->out, t) + row;
        for (uint32_t r = 0; r < rows; r++) {
            float sum = 0;
            for (uint32_t n = 0; n < e->chosen; n++) {
                float v = y[(size_t)run->b->pair_of[t * e->chosen + n] * NATIVE_DOWN_ROWS + r];
                if (bias != NULL)
                    v += bias[(size_t)choice_of(run, t, n) * width + row + r];
                sum += weight[n] * v;
            }
            out[r] = sum;
        }
    }
}

void native_experts_run(const struct native_run *run)
{
    const struct native_experts *e = &run->op->experts;
    struct experts_run all = {run, group_by_expert(run)};
    uint32_t up = (e->inner + NATIVE_LINEAR_ROWS - 1) / NATIVE_LINEAR_ROWS;
    uint32_t down =
        (native_width_of(run, run->op->out) + NATIVE_DOWN_ROWS - 1) / NATIVE_DOWN_ROWS;

    engine_pool_run(run->b->pool, up_task, &all, all.shares * up);
    engine_pool_run(run->b->pool, down_task, &all, down);
}
