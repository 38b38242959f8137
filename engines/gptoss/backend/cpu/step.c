/* gptoss/backend/cpu/step.c - the begin and the end of a step: embeddings, logits, sampling. */
#include <string.h>

#include "engines/gptoss/backend/cpu/cpu.h"
#include "engines/gptoss/model/rope.h"

void cpu_embed(struct cpu_step *s)
{
    struct gptoss_backend *b = s->b;
    size_t hidden = b->config->hidden;
    uint32_t half = b->config->head_dim / 2, t = 0;

    for (uint32_t i = 0; i < s->batch->count; i++) {
        const struct gptoss_step *step = &s->batch->steps[i];
        for (uint32_t j = 0; j < step->count; j++, t++) {
            const uint16_t *row = b->weights->embed + step->tokens[j] * hidden;
            float *cosines = b->rope + (size_t)t * b->config->head_dim;
            b->tokens[t] = (struct cpu_token){step, step->position + j, step->tokens[j]};
            for (size_t d = 0; d < hidden; d++)
                b->x[t * hidden + d] = cpu_bf16(row[d]);
            gptoss_rope_row(b->config, b->rope_frequency, step->position + j, cosines,
                            cosines + half);
        }
    }
}

static void pack_row(struct gptoss_backend *b, uint32_t token, float *packed)
{
    size_t hidden = b->config->hidden;

    b->kernels->norm(b->x + token * hidden, b->weights->norm, hidden, (float)b->config->rms_eps,
                     b->normed);
    cpu_round(b, b->normed, hidden);
    b->kernels->pack_dense(b->normed, hidden, packed);
}

static void unembed(struct gptoss_backend *b, uint32_t tokens, float *logits)
{
    const struct cpu_linear job = {
        .weight = b->weights->unembed,
        .columns = b->config->hidden,
        .rows = b->weights->vocab_rows,
        .y = logits,
        .y_stride = b->weights->vocab_rows,
    };
    cpu_linear_run(b, &job, 1, b->packed, b->size.packed, tokens);
}

struct sampling_job {
    struct gptoss_backend *b;
    const struct gptoss_batch *batch;
    const uint32_t *steps; /* steps that sample */
    const float *const *rows;
};

static void step_sample_task(void *ctx, uint32_t i, uint32_t worker)
{
    const struct sampling_job *d = ctx;
    const struct gptoss_step *step = &d->batch->steps[d->steps[i]];

    sampler_sample(d->b->samplers[worker], d->rows[i], d->b->usable, step->sample,
                   step->sampled);
}

void cpu_logits(struct cpu_step *s)
{
    struct gptoss_backend *b = s->b;
    size_t vocab = b->weights->vocab_rows;
    uint32_t *steps = b->sample_steps, sampled = 0, packed = 0, t = 0;
    const float **rows = b->sample_rows;

    /* Steps that need every row write directly to the caller's memory. */
    for (uint32_t i = 0; i < s->batch->count; i++) {
        const struct gptoss_step *step = &s->batch->steps[i];
        if (step->logits == NULL) {
            t += step->sample != NULL ? 1 : 0;
            continue;
        }
        for (uint32_t j = 0; j < step->count; j++)
            pack_row(b, t + j, b->packed + j * b->size.packed);
        unembed(b, step->count, step->logits);
        t += step->count;
    }
    t = 0;
    for (uint32_t i = 0; i < s->batch->count; i++) {
        const struct gptoss_step *step = &s->batch->steps[i];
        if (step->logits != NULL)
            t += step->count;
        if (step->sample == NULL)
            continue;
        steps[sampled] = i;
        if (step->logits != NULL) {
            rows[sampled++] = step->logits + (step->count - 1) * vocab;
            continue;
        }
        pack_row(b, t++, b->packed + packed * b->size.packed);
        rows[sampled++] = b->logits + packed++ * vocab;
    }
    if (packed > 0)
        unembed(b, packed, b->logits);
    if (s->batch->fill_masks != NULL) {
        uint32_t left = 0;
        s->batch->fill_masks(s->batch->ctx);
        for (uint32_t i = 0; i < sampled; i++) {
            if (s->batch->steps[steps[i]].sample == NULL)
                continue;
            steps[left] = steps[i];
            rows[left++] = rows[i];
        }
        sampled = left;
    }
    struct sampling_job job = {b, s->batch, steps, rows};
    engine_pool_run(b->pool, step_sample_task, &job, sampled);
}
