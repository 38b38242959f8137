/* gptoss/backend/cpu/experts.c - x += sum of chosen experts(norm(x)), directly from MXFP4.
 *
 * Tokens are grouped by expert, so that an expert's bytes are read once per step for all its
 * tokens.  There are two passes over the pool:
 *
 *   up    a task is CPU_UP_ROWS rows of one expert: gate and up rows for all its
 *         tokens, SwiGLU, and the result packed as input of the second matrix
 *         (128 rows give 64 values, two whole blocks);
 *   down  a task is CPU_DOWN_ROWS rows of the output, over all experts, then the
 *         weighted sum of each token's experts in the order of their rank.
 *
 * Neither the grouping nor the tasks affect a result: see kernels.h.
 */
#include <math.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/cpu.h"

static void input_task(void *ctx, uint32_t t, uint32_t worker)
{
    const struct cpu_step *s = ctx;
    struct gptoss_backend *b = s->b;
    size_t hidden = b->config->hidden;
    size_t wide = hidden > b->size.q ? hidden : b->size.q;
    float *normed = b->normed + worker * wide;

    b->kernels->norm(b->x + t * hidden, b->weights->layers[s->layer].mlp_norm, hidden,
                     (float)b->config->rms_eps, normed);
    b->kernels->pack_dense(normed, hidden, b->packed + t * b->size.packed);
    cpu_round(b, normed, hidden); /* the router reads the values before rounding */
    b->kernels->pack_mx(normed, 0, hidden / CPU_MX_BLOCK, b->mx_input + t * b->size.mx_hidden);
}

/* The `chosen` largest logits, largest first, equal values by number; softmax over them. */
void cpu_route(const float *logits, uint32_t experts, uint32_t chosen, uint32_t *choice,
               float *chance)
{
    float sum = 0;

    for (uint32_t n = 0; n < chosen; n++) {
        uint32_t best = experts;
        for (uint32_t e = 0; e < experts; e++) {
            bool taken = false;
            for (uint32_t i = 0; i < n; i++)
                taken = taken || choice[i] == e;
            if (!taken && (best == experts || logits[e] > logits[best]))
                best = e;
        }
        choice[n] = best;
    }
    for (uint32_t n = 0; n < chosen; n++) {
        chance[n] = expf(logits[choice[n]] - logits[choice[0]]);
        sum += chance[n];
    }
    for (uint32_t n = 0; n < chosen; n++)
        chance[n] /= sum;
}

/* Fills experts and pairs from choice: a counting sort, tokens in order. */
static void group_by_expert(const struct cpu_step *s)
{
    struct gptoss_backend *b = s->b;
    uint32_t k = b->config->experts_per_token, n = b->config->experts, first = 0;

    memset(b->experts, 0, n * sizeof(*b->experts));
    for (uint32_t i = 0; i < s->tokens * k; i++)
        b->experts[b->choice[i]].count++;
    for (uint32_t e = 0; e < n; e++) {
        b->experts[e].first = first;
        first += b->experts[e].count;
        b->experts[e].count = 0;
    }
    for (uint32_t i = 0; i < s->tokens * k; i++) {
        struct cpu_expert *e = &b->experts[b->choice[i]];
        uint32_t pair = e->first + e->count++;
        b->pair_of[i] = pair;
        b->pairs[pair] = (struct cpu_pair){i / k, i % k};
        b->pair_input[pair] = b->mx_input + i / k * b->size.mx_hidden;
        b->pair_inner[pair] = b->mx_inner + pair * b->size.mx_inner;
    }
}

static void route(const struct cpu_step *s)
{
    struct gptoss_backend *b = s->b;
    const struct model_config *c = b->config;
    const struct model_gptoss_layer *w = &b->weights->layers[s->layer];
    const struct cpu_linear router = {w->router_weight, w->router_bias, c->hidden, c->experts,
                                      b->router,        c->experts,     0};

    cpu_linear_run(b, &router, 1, b->packed, b->size.packed, s->tokens);
    for (uint32_t t = 0; t < s->tokens; t++)
        cpu_route(b->router + (size_t)t * c->experts, c->experts, c->experts_per_token,
                  b->choice + (size_t)t * c->experts_per_token,
                  b->chance + (size_t)t * c->experts_per_token);
    if (b->trace != NULL)
        b->trace->routed(b->trace->ctx, s->layer, s->tokens, b->x, b->choice);
    group_by_expert(s);
}

static float *thread_rows(const struct gptoss_backend *b, uint32_t worker)
{
    size_t pairs = (size_t)b->plan.step_tokens * b->config->experts_per_token;
    return b->thread_rows + worker * pairs * CPU_DOWN_ROWS;
}

static struct cpu_mx mx_job(const struct gptoss_backend *b, const struct model_experts *m,
                            uint32_t expert, uint32_t row, uint32_t rows)
{
    size_t groups = m->columns / CPU_MX_BLOCK;

    return (struct cpu_mx){
        .blocks = m->blocks + expert * m->blocks_stride + row * groups * 16,
        .scales = m->scales + expert * m->scales_stride + row * groups,
        .scale_excess = b->weights->scale_excess,
        .rows = rows,
        .columns = m->columns,
    };
}

static const uint16_t *bias_of(const struct model_experts *m, uint32_t expert)
{
    return (const uint16_t *)(const void *)((const char *)m->bias + expert * m->bias_stride);
}

/* Tokens are processed in small blocks, which limits the scratch memory. */
enum { UP_TOKENS = 16 };

static void up_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct cpu_step *s = ctx;
    struct gptoss_backend *b = s->b;
    const struct model_experts *m = &b->weights->layers[s->layer].gate_up;
    uint32_t per_expert = (m->rows + CPU_UP_ROWS - 1) / CPU_UP_ROWS;
    uint32_t expert = task / per_expert, row = task % per_expert * CPU_UP_ROWS;
    const struct cpu_expert *e = &b->experts[expert];
    uint32_t rows = m->rows - row < CPU_UP_ROWS ? m->rows - row : CPU_UP_ROWS;
    const uint16_t *bias = bias_of(m, expert) + row;
    float u[UP_TOKENS * CPU_UP_ROWS], h[CPU_UP_ROWS / 2];

    (void)worker;
    for (uint32_t i = 0; i < e->count; i += UP_TOKENS) {
        struct cpu_mx job = mx_job(b, m, expert, row, rows);
        job.x = b->pair_input + e->first + i;
        job.tokens = e->count - i < UP_TOKENS ? e->count - i : UP_TOKENS;
        job.y = u;
        job.y_stride = CPU_UP_ROWS;
        b->kernels->mx(&job);
        for (uint32_t j = 0; j < job.tokens; j++) {
            float *uj = u + (size_t)j * CPU_UP_ROWS;
            uint8_t *inner = b->mx_inner + (e->first + i + j) * b->size.mx_inner;
            for (uint32_t r = 0; r < rows; r++)
                uj[r] += cpu_bf16(bias[r]);
            b->kernels->swiglu(uj, rows / 2, (float)b->config->swiglu_limit, h);
            if (b->rounds) { /* like the CUDA device: multiplied by the expert's weight before
                                rounding */
                const struct cpu_pair *p = &b->pairs[e->first + i + j];
                float chance =
                    b->chance[(size_t)p->token * b->config->experts_per_token + p->rank];
                for (uint32_t r = 0; r < rows / 2; r++)
                    h[r] = cpu_round_bf16(h[r] * chance);
            }
            b->kernels->pack_mx(h, row / 2 / CPU_MX_BLOCK, rows / 2 / CPU_MX_BLOCK, inner);
        }
    }
}

static void down_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct cpu_step *s = ctx;
    struct gptoss_backend *b = s->b;
    const struct model_experts *m = &b->weights->layers[s->layer].down;
    uint32_t k = b->config->experts_per_token, row = task * CPU_DOWN_ROWS;
    uint32_t rows = m->rows - row < CPU_DOWN_ROWS ? m->rows - row : CPU_DOWN_ROWS;
    float *y = thread_rows(b, worker); /* [pair][CPU_DOWN_ROWS] */

    for (uint32_t e = 0; e < b->config->experts; e++) {
        const struct cpu_expert *share = &b->experts[e];
        if (share->count == 0)
            continue;
        struct cpu_mx job = mx_job(b, m, e, row, rows);
        job.x = b->pair_inner + share->first;
        job.tokens = share->count;
        job.y = y + (size_t)share->first * CPU_DOWN_ROWS;
        job.y_stride = CPU_DOWN_ROWS;
        b->kernels->mx(&job);
    }
    for (uint32_t t = 0; t < s->tokens; t++) {
        float *x = b->x + (size_t)t * b->config->hidden + row;
        for (uint32_t r = 0; r < rows; r++) {
            float sum = 0;
            for (uint32_t n = 0; n < k; n++) {
                size_t at = (size_t)t * k + n;
                float bias = cpu_bf16(bias_of(m, b->choice[at])[row + r]);
                float v = y[(size_t)b->pair_of[at] * CPU_DOWN_ROWS + r];
                sum += b->rounds ? v + b->chance[at] * bias : b->chance[at] * (v + bias);
            }
            x[r] += sum;
        }
    }
}

void cpu_experts(struct cpu_step *s)
{
    struct gptoss_backend *b = s->b;
    const struct model_gptoss_layer *w = &b->weights->layers[s->layer];

    if (s->tokens == 0)
        return;
    engine_pool_run(b->pool, input_task, s, s->tokens);
    route(s);
    engine_pool_run(b->pool, up_task, s,
                    (w->gate_up.rows + CPU_UP_ROWS - 1) / CPU_UP_ROWS * b->config->experts);
    engine_pool_run(b->pool, down_task, s, (w->down.rows + CPU_DOWN_ROWS - 1) / CPU_DOWN_ROWS);
}
