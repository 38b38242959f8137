/* gptoss/backend/cpu/linear.c - BF16 projections for all tokens of a step.
 *
 * Several matrices with the same input (q, k, v) are one run: their rows are split into tasks
 * of CPU_LINEAR_ROWS.  Tokens are processed in blocks so small that their vectors stay in the
 * L2 cache while a task's rows are read.
 */
#include "engines/gptoss/backend/cpu/cpu.h"

struct linear_run {
    struct gptoss_backend *b;
    const struct cpu_linear *parts;
    uint32_t count;
    const float *x;
    size_t x_stride;
    uint32_t tokens;
};

static uint32_t tasks_of(const struct cpu_linear *part)
{
    return (part->rows + CPU_LINEAR_ROWS - 1) / CPU_LINEAR_ROWS;
}

/* Adds the bias, and the previous value with `add`. */
static void finish_rows(const struct cpu_linear *part, uint32_t row, uint32_t rows,
                        const float *sums, float *y)
{
    for (uint32_t r = 0; r < rows; r++) {
        float sum = sums[r] + (part->bias != NULL ? cpu_bf16(part->bias[row + r]) : 0.0f);
        y[row + r] = part->add ? y[row + r] + sum : sum;
    }
}

static void linear_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct linear_run *run = ctx;
    const struct cpu_linear *part = run->parts;
    float sums[CPU_TOKEN_BLOCK * CPU_LINEAR_ROWS];

    (void)worker;
    while (task >= tasks_of(part))
        task -= tasks_of(part++);
    uint32_t row = task * CPU_LINEAR_ROWS;
    uint32_t rows = part->rows - row < CPU_LINEAR_ROWS ? part->rows - row : CPU_LINEAR_ROWS;
    for (uint32_t t = 0; t < run->tokens; t += CPU_TOKEN_BLOCK) {
        uint32_t left = run->tokens - t;
        struct cpu_dense job = {
            .weight = part->weight + (size_t)row * part->columns,
            .columns = part->columns,
            .rows = rows,
            .tokens = left < CPU_TOKEN_BLOCK ? left : CPU_TOKEN_BLOCK,
            .x = run->x + t * run->x_stride,
            .x_stride = run->x_stride,
            .y = sums,
            .y_stride = CPU_LINEAR_ROWS,
        };
        run->b->kernels->dense(&job);
        for (uint32_t i = 0; i < job.tokens; i++)
            finish_rows(part, row, rows, sums + (size_t)i * CPU_LINEAR_ROWS,
                        part->y + (t + i) * part->y_stride);
    }
}

void cpu_linear_run(struct gptoss_backend *b, const struct cpu_linear *parts, uint32_t count,
                    const float *x, size_t x_stride, uint32_t tokens)
{
    struct linear_run run = {b, parts, count, x, x_stride, tokens};
    uint32_t tasks = 0;

    for (uint32_t i = 0; i < count; i++)
        tasks += tasks_of(&parts[i]);
    engine_pool_run(b->pool, linear_task, &run, tasks);
}
