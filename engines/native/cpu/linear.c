/* native/cpu/linear.c - matrices for all tokens of a step.
 *
 * Matrices with the same input (Q, K and V) are one run: their rows are split into tasks.
 * Tokens go in blocks so small that their vectors stay in the cache while a task's rows are
 * read.
 */
#include <string.h>

#include "engines/native/cpu/cpu.h"

static uint32_t tasks_of(const struct native_run *run, const struct native_op *op)
{
    return (native_width_of(run, op->out) + NATIVE_LINEAR_ROWS - 1) / NATIVE_LINEAR_ROWS;
}

static void linear_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_op *op = run->op;
    float sums[NATIVE_TOKEN_BLOCK * NATIVE_LINEAR_ROWS];
    const float *x[NATIVE_TOKEN_BLOCK];

    (void)worker;
    while (task >= tasks_of(run, op))
        task -= tasks_of(run, op++);
    const float *bias = native_values(run, op->vector[0]);
    uint32_t row = task * NATIVE_LINEAR_ROWS, width = native_width_of(run, op->out);
    uint32_t rows = width - row < NATIVE_LINEAR_ROWS ? width - row : NATIVE_LINEAR_ROWS;
    for (uint32_t t = 0; t < run->tokens; t += NATIVE_TOKEN_BLOCK) {
        uint32_t left = run->tokens - t,
                 n = left < NATIVE_TOKEN_BLOCK ? left : NATIVE_TOKEN_BLOCK;
        for (uint32_t i = 0; i < n; i++)
            x[i] = native_row(run, op->in[0], t + i);
        const struct native_dense job = {
            .matrix = &run->b->matrices[op->matrix[0]],
            .first = row,
            .rows = rows,
            .tokens = n,
            .x = x,
            .y = sums,
            .y_stride = NATIVE_LINEAR_ROWS,
        };
        run->b->kernels->dense(&job);
        for (uint32_t i = 0; i < n; i++) {
            float *out = native_row(run, op->out, t + i) + row;
            for (uint32_t r = 0; r < rows; r++)
                out[r] =
                    sums[i * NATIVE_LINEAR_ROWS + r] + (bias != NULL ? bias[row + r] : 0.0f);
        }
    }
}

uint32_t native_linear_run(const struct native_run *run)
{
    const struct native_op *op = run->op, *end = run->b->spec->ops + run->b->spec->op_count;
    struct native_run all = *run;
    uint32_t count = 0, tasks = 0;

    for (;
         op + count < end && op[count].kind == NATIVE_OP_LINEAR && op[count].in[0] == op->in[0];
         count++) {
        uint32_t at = (uint32_t)(op - run->b->spec->ops) + count;
        if (count > 0 && (at == run->b->spec->head_ops || at == run->b->spec->stateful_ops))
            break;
        tasks += tasks_of(run, op + count);
    }
    engine_pool_run(run->b->pool, linear_task, &all, tasks);
    return count;
}

/* ---- one matrix for each head ---- */

static void head_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_heads *how = &run->op->heads;
    const struct native_matrix *whole = &run->b->matrices[run->op->matrix[0]];
    uint32_t head = task, bytes = whole->type == NATIVE_F32 ? 4 : 2;
    struct native_matrix m = *whole;
    const float *x[NATIVE_TOKEN_BLOCK];

    (void)worker;
    m.transposed = how->transposed;
    m.rows = how->rows;
    m.columns = how->columns;
    if (whole->type == NATIVE_PACKED)
        m.packed_first += head * how->head_rows + how->first_row;
    else
        m.data = (const char *)whole->data +
                 ((uint64_t)head * how->head_rows + how->first_row) * whole->row_stride * bytes;
    for (uint32_t t = 0; t < run->tokens; t += NATIVE_TOKEN_BLOCK) {
        uint32_t left = run->tokens - t,
                 n = left < NATIVE_TOKEN_BLOCK ? left : NATIVE_TOKEN_BLOCK;
        for (uint32_t i = 0; i < n; i++)
            x[i] = native_row(run, run->op->in[0], t + i) + (size_t)head * how->in_stride;
        const struct native_dense job = {
            .matrix = &m,
            .rows = how->rows,
            .tokens = n,
            .x = x,
            .y = native_row(run, run->op->out, t) + (size_t)head * how->out_stride,
            .y_stride = native_width_of(run, run->op->out),
        };
        run->b->kernels->dense(&job);
    }
}

void native_heads_run(const struct native_run *run)
{
    struct native_run all = *run;

    engine_pool_run(run->b->pool, head_task, &all, run->op->heads.heads);
}
