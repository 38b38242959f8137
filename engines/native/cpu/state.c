/* native/cpu/state.c - operations with a state for each sequence: short convolution, gated
 * delta rule, state space.
 *
 * Each takes the tokens of a sequence in their order, one by one, so that a prompt gives the
 * same bits in one chunk or in many.
 */
#include <math.h>
#include <string.h>

#include "engines/native/cpu/cpu.h"
#include "engines/native/cpu/scalar.h"
#include "engines/native/spec/math.h"

static float *state_of(const struct native_run *run, uint32_t step, uint32_t at)
{
    return run->b->state + (size_t)run->batch->steps[step].slot * run->b->spec->state_floats +
           at;
}

static float softplus(float x)
{
    return x > 20 ? x : (float)native_log(1 + native_exp((double)x));
}

/* ---- short convolution ---- */

enum { CHANNELS = 256, KERNEL_MAX = 16 };

/* The state holds the last kernel - 1 inputs of each channel, [input][channel]. */
static void conv_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_op *op = run->op;
    const struct native_conv *c = &op->conv;
    uint32_t blocks = (c->channels + CHANNELS - 1) / CHANNELS, step = task / blocks;
    uint32_t from = task % blocks * CHANNELS;
    uint32_t n = c->channels - from < CHANNELS ? c->channels - from : CHANNELS;
    uint32_t past = c->kernel - 1, token = run->b->step_first[step];
    const float *weight = native_values(run, op->vector[0]) + (size_t)from * c->kernel;
    const float *bias = native_values(run, op->vector[1]);
    float *state = state_of(run, step, c->state) + from;

    (void)worker;
    for (uint32_t t = token; t < token + run->batch->steps[step].count; t++) {
        const float *in = native_row(run, op->in[0], t) + from;
        float *out = native_row(run, op->out, t) + from;
        for (uint32_t i = 0; i < n; i++) {
            float sum = 0;
            for (uint32_t k = 0; k < past; k++)
                sum += weight[i * c->kernel + k] * state[(size_t)k * c->channels + i];
            sum += weight[i * c->kernel + past] * in[i];
            out[i] = bias != NULL ? sum + bias[from + i] : sum;
        }
        for (uint32_t k = 0; k + 1 < past; k++)
            memcpy(state + (size_t)k * c->channels, state + (size_t)(k + 1) * c->channels,
                   n * sizeof(*state));
        if (past > 0)
            memcpy(state + (size_t)(past - 1) * c->channels, in, n * sizeof(*state));
        run->b->kernels->act(c->act, out, n);
    }
}

void native_conv_run(const struct native_run *run)
{
    struct native_run all = *run;
    uint32_t blocks = (run->op->conv.channels + CHANNELS - 1) / CHANNELS;

    engine_pool_run(run->b->pool, conv_task, &all, run->batch->count * blocks);
}

/* ---- gated delta rule ---- */

static void scale_to_one(const float *x, uint32_t n, float factor, float *out)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float scale = (float)(1.0 / sqrt(sum + 1e-6)) * factor;
    for (uint32_t i = 0; i < n; i++)
        out[i] = x[i] * scale;
}

static void delta_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_op *op = run->op;
    const struct native_delta *d = &op->delta;
    uint32_t step = task / d->value_heads, head = task % d->value_heads;
    uint32_t key_head = head / (d->value_heads / d->key_heads),
             keys = d->key_heads * d->key_size;
    uint32_t token = run->b->step_first[step];
    float *q = native_scratch(run, worker), *k = q + d->key_size;
    float rate = (float)native_exp((double)native_values(run, op->vector[0])[head]);
    float bias = native_values(run, op->vector[1])[head];
    float *state = state_of(run, step, d->state) + (size_t)head * d->key_size * d->value_size;

    for (uint32_t t = token; t < token + run->batch->steps[step].count; t++) {
        const float *in = native_row(run, op->in[0], t);
        float a = native_row(run, op->in[2], t)[head],
              beta = native_row(run, op->in[1], t)[head];
        scale_to_one(in + (size_t)key_head * d->key_size, d->key_size,
                     (float)(1.0 / sqrt((double)d->key_size)), q);
        scale_to_one(in + keys + (size_t)key_head * d->key_size, d->key_size, 1.0f, k);
        const struct native_delta_step job = {
            .state = state,
            .q = q,
            .k = k,
            .v = in + 2 * (size_t)keys + (size_t)head * d->value_size,
            .key_size = d->key_size,
            .value_size = d->value_size,
            .decay = (float)native_exp((double)(-rate * softplus(a + bias))),
            .beta = 1.0f / (1.0f + scalar_exp(-beta)),
            .out = native_row(run, op->out, t) + (size_t)head * d->value_size,
            .scratch = k + d->key_size,
        };
        run->b->kernels->delta(&job);
    }
}

void native_delta_run(const struct native_run *run)
{
    struct native_run all = *run;

    engine_pool_run(run->b->pool, delta_task, &all,
                    run->batch->count * run->op->delta.value_heads);
}

/* ---- state space ---- */

static void ssm_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_op *op = run->op;
    const struct native_ssm *s = &op->ssm;
    uint32_t step = task / s->heads, head = task % s->heads,
             group = head / (s->heads / s->groups);
    uint32_t inner = s->heads * s->head_size, token = run->b->step_first[step];
    float rate = (float)native_exp((double)native_values(run, op->vector[0])[head]);
    float bias = native_values(run, op->vector[2])[head];
    float *state = state_of(run, step, s->state) + (size_t)head * s->head_size * s->state_size;

    (void)worker;
    for (uint32_t t = token; t < token + run->batch->steps[step].count; t++) {
        const float *in = native_row(run, op->in[0], t);
        float dt = softplus(native_row(run, op->in[1], t)[head] + bias);
        dt = dt < s->dt_min ? s->dt_min : dt > s->dt_max ? s->dt_max : dt;
        const struct native_ssm_step job = {
            .state = state,
            .x = in + (size_t)head * s->head_size,
            .b = in + inner + (size_t)group * s->state_size,
            .c = in + inner + (size_t)(s->groups + group) * s->state_size,
            .head_size = s->head_size,
            .state_size = s->state_size,
            .decay = (float)native_exp((double)(-rate * dt)),
            .dt = dt,
            .skip = native_values(run, op->vector[1])[head],
            .out = native_row(run, op->out, t) + (size_t)head * s->head_size,
        };
        run->b->kernels->ssm(&job);
    }
}

void native_ssm_run(const struct native_run *run)
{
    struct native_run all = *run;

    engine_pool_run(run->b->pool, ssm_task, &all, run->batch->count * run->op->ssm.heads);
}
