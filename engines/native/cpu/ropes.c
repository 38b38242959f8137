/* native/cpu/ropes.c - sine and cosine of each token's position, once per step. */
#include "engines/native/cpu/cpu.h"
#include "engines/native/spec/angles.h"

static void ropes_task(void *ctx, uint32_t token, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_spec *s = run->b->spec;
    const struct native_token *at = &run->b->tokens[token];

    (void)worker;
    for (uint32_t i = 0; i < s->rope_count; i++)
        native_angles(&s->ropes[i], at->step->prompt, at->position,
                      run->b->ropes + run->b->rope_at[i] + (size_t)token * s->ropes[i].dims);
}

void native_ropes_run(const struct native_run *run)
{
    struct native_run all = *run;

    if (run->b->spec->rope_count > 0)
        engine_pool_run(run->b->pool, ropes_task, &all, run->tokens);
}
