/* native/cpu/pool.c - from the rows of a text to its vector.
 *
 * Behind the layers of a model of vectors a row stands for a text, no longer for a token.  The
 * tokens that the pooling does not read are gone by then (step.c).
 */
#include <string.h>

#include "engines/native/cpu/cpu.h"

void native_texts_list(struct native_run *run)
{
    struct serving_backend *b = run->b;

    run->rows = run->tokens;
    run->texts = 0;
    for (uint32_t t = 0; t < run->rows; t++) {
        const struct serving_step *step = b->tokens[t].step;
        if (t > 0 && b->tokens[t - 1].step == step)
            continue;
        b->sample_steps[run->texts] = (uint32_t)(step - run->batch->steps);
        b->step_first[run->texts++] = t;
    }
}

void native_texts_give(const struct native_run *run)
{
    const struct serving_backend *b = run->b;
    size_t width = native_width_of(run, b->spec->result);

    for (uint32_t i = 0; i < run->tokens; i++) {
        uint32_t step = b->sample_steps[run->first_text + i];
        memcpy(run->batch->steps[step].vector, native_row(run, b->spec->result, i),
               width * sizeof(float));
    }
}

/* The mean in doubles, from the first token to the last; of one token that is its row. */
static void pool_task(void *ctx, uint32_t i, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct serving_backend *b = run->b;
    uint32_t text = run->first_text + i, width = native_width_of(run, run->op->out);
    uint32_t from = b->step_first[text];
    uint32_t to = text + 1 < run->texts ? b->step_first[text + 1] : run->rows;
    float *out = native_row(run, run->op->out, i);

    (void)worker;
    for (uint32_t k = 0; k < width; k++) {
        double sum = 0;
        for (uint32_t t = from; t < to; t++)
            sum += (double)native_row(run, run->op->in[0], t)[k];
        out[k] = (float)(sum / (to - from));
    }
}

void native_pool_run(const struct native_run *run)
{
    struct native_run all = *run;

    engine_pool_run(run->b->pool, pool_task, &all, run->tokens);
}
