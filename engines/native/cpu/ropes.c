/* native/cpu/ropes.c - sine and cosine of each token's position, once per step. */
#include "engines/native/cpu/cpu.h"
#include "engines/native/spec/math.h"

static void fill(const struct native_rope_table *table, const double *inverse, double attention,
                 uint32_t position, float *out)
{
    uint32_t half = table->dims / 2;

    for (uint32_t i = 0; i < half; i++) {
        double sine, cosine;
        native_sincos(position * inverse[i], &sine, &cosine);
        out[i] = (float)(cosine * attention);
        out[half + i] = (float)(sine * attention);
    }
}

/* Dynamic scaling: the base grows with the sequence. */
static void fill_dynamic(const struct native_rope_table *t, uint32_t length, uint32_t position,
                         float *out)
{
    double dims = t->dims, grown = t->dynamic * length / t->limit - (t->dynamic - 1), sine,
           cosine;
    double base = native_log(t->theta) + native_log(grown) * dims / (dims - 2);

    for (uint32_t i = 0; i < t->dims / 2; i++) {
        native_sincos(position * native_exp(-base * (2.0 * i) / dims), &sine, &cosine);
        out[i] = (float)cosine;
        out[t->dims / 2 + i] = (float)sine;
    }
}

static void ropes_task(void *ctx, uint32_t token, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_spec *s = run->b->spec;
    const struct native_token *at = &run->b->tokens[token];
    uint32_t length = at->step->prompt; /* for the whole answer, docs/adr/0108 */

    (void)worker;
    for (uint32_t i = 0; i < s->rope_count; i++) {
        const struct native_rope_table *t = &s->ropes[i];
        float *out = run->b->ropes + run->b->rope_at[i] + (size_t)token * t->dims;
        bool beyond = t->limit != 0 && length > t->limit;
        if (beyond && t->dynamic > 0)
            fill_dynamic(t, length, at->position, out);
        else
            fill(t, beyond && t->longer != NULL ? t->longer : t->inverse,
                 beyond && t->longer != NULL ? t->attention_longer : t->attention, at->position,
                 out);
    }
}

void native_ropes_run(const struct native_run *run)
{
    struct native_run all = *run;

    if (run->b->spec->rope_count > 0)
        engine_pool_run(run->b->pool, ropes_task, &all, run->tokens);
}
