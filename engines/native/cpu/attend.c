/* native/cpu/attend.c - keys and values into the pages, then attention over them.
 *
 * In a page lie, for each cache of its kind and each head, K as [key_size][page tokens] and V
 * as [page tokens][value_size], in float32.
 */
#include <math.h>
#include <string.h>

#include "engines/native/cpu/cpu.h"
#include "engines/native/spec/math.h"

static float *cache_base(const struct native_run *run, uint32_t head, size_t *page_stride)
{
    const struct native_cache *c = &run->b->spec->caches[run->op->cache];
    const struct native_region *r = &run->b->regions[c->kind];
    size_t head_floats = (size_t)(c->key_size + c->value_size) * NATIVE_PAGE_TOKENS;

    *page_stride = (size_t)r->page_bytes / sizeof(float);
    return (float *)(void *)r->base + (size_t)c->offset * NATIVE_PAGE_TOKENS +
           head * head_floats;
}

static void write_task(void *ctx, uint32_t t, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_cache *c = &run->b->spec->caches[run->op->cache];
    const struct native_token *token = &run->b->tokens[t];
    uint32_t page = token->step->pages[c->kind][token->position / NATIVE_PAGE_TOKENS];
    uint32_t slot = token->position % NATIVE_PAGE_TOKENS;
    const float *k = native_row(run, run->op->in[1], t);
    const float *v = c->value_size > 0 ? native_row(run, run->op->in[2], t) : NULL;
    size_t stride;

    (void)worker;
    for (uint32_t h = 0; h < c->heads; h++) {
        float *to = cache_base(run, h, &stride);
        to += page * stride;
        for (uint32_t d = 0; d < c->key_size; d++)
            to[(size_t)d * NATIVE_PAGE_TOKENS + slot] = k[(size_t)h * c->key_size + d];
        if (v != NULL)
            memcpy(to + (size_t)c->key_size * NATIVE_PAGE_TOKENS + (size_t)slot * c->value_size,
                   v + (size_t)h * c->value_size, c->value_size * sizeof(*v));
    }
}

/* Heads of one key head, in parts of NATIVE_LOOK_HEADS. */
static uint32_t parts_of(const struct native_attention *a)
{
    return (a->heads / a->kv_heads + NATIVE_LOOK_HEADS - 1) / NATIVE_LOOK_HEADS;
}

static void look_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct native_run *run = ctx;
    const struct native_attention *a = &run->op->attend;
    const struct native_cache *c = &run->b->spec->caches[run->op->cache];
    uint32_t parts = parts_of(a), t = task / (a->kv_heads * parts);
    uint32_t kv_head = task / parts % a->kv_heads, group = a->heads / a->kv_heads;
    uint32_t first = task % parts * NATIVE_LOOK_HEADS;
    uint32_t count = group - first < NATIVE_LOOK_HEADS ? group - first : NATIVE_LOOK_HEADS;
    uint32_t head = kv_head * group + first, last = 0;
    const struct native_token *token = &run->b->tokens[t];
    const float *q = native_row(run, run->op->in[0], t) + (size_t)head * a->head_size;
    const float *sinks = native_values(run, run->op->vector[0]);
    float *scaled = native_scratch(run, worker);
    double scale = a->scale;
    struct native_look job = {.q = scaled};

    if (a->query_beta > 0)
        scale *=
            1 + a->query_beta * native_log(1 + floor((double)token->position / a->query_floor));
    for (uint32_t i = 0; i < count * a->head_size; i++)
        scaled[i] = q[i] * (float)scale;
    last = a->both_ways ? token->step->position + token->step->count - 1 : token->position;
    job.group = count;
    job.key_size = a->head_size;
    job.value_size = a->value_size;
    job.values_are_keys = a->values_are_keys;
    job.softcap = (float)a->softcap;
    job.sinks = sinks != NULL ? sinks + head : NULL;
    job.to = last;
    job.from =
        a->window != 0 && token->position >= a->window ? token->position - a->window + 1 : 0;
    if (a->both_ways && a->window != 0) {
        /* A window that looks both ways: half of it to each side. */
        uint32_t reach = a->window / 2;
        job.from = token->position > reach ? token->position - reach : 0;
        job.to = last - token->position > reach ? token->position + reach : last;
    }
    job.pages = token->step->pages[c->kind];
    job.base = cache_base(run, kv_head, &job.page_stride);
    job.out = native_row(run, run->op->out, t) + (size_t)head * a->value_size;
    run->b->kernels->look(&job);
}

void native_attend_run(const struct native_run *run)
{
    struct native_run all = *run;
    const struct native_attention *a = &run->op->attend;

    if (run->op->writes)
        engine_pool_run(run->b->pool, write_task, &all, run->tokens);
    engine_pool_run(run->b->pool, look_task, &all, run->tokens * a->kv_heads * parts_of(a));
}
