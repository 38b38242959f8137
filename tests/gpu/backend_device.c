/* tests/gpu/backend_device.c - a backend with a few sequences, each with its own pages. */
#include <math.h>
#include <stdlib.h>

#include "tests/gpu/backend_test.h"
#include "tests/gpu/fixture.h"

void device_open(struct device *d, const struct gptoss_backend_api *api, const char *name,
                 const struct model_gptoss *model, const uint32_t *usable, const char *extra,
                 const struct gptoss_trace *trace)
{
    const struct gptoss_backend_options options = {.device = name,
                                                   .kv_tokens = SEQUENCES * CONTEXT,
                                                   .max_sequences = LOGIT_ROWS,
                                                   .max_context = CONTEXT,
                                                   .prefill_chunk = CHUNK,
                                                   .extra_json = extra,
                                                   .trace = trace};
    const struct gptoss_backend_host host = {0};
    struct lr_error err = {0};
    *d = (struct device){.api = api};
    test_must(api->plan(&model->config, &options, &d->plan, &err), &err, name);
    /* The scheduler shares the pages of a chunk between the sequences; here each has its
     * own. */
    uint32_t least = SEQUENCES * (CONTEXT / d->plan.page_tokens);
    if (d->plan.window_pages < least)
        d->plan.window_pages = least;
    test_must(api->open(&host, model, usable, &options, &d->plan, &d->backend, &err), &err,
              name);
}

void device_forward(struct device *d, const struct part *parts, uint32_t count)
{
    struct gptoss_step steps[SEQUENCES];
    uint32_t full[SEQUENCES][PAGES_MAX], window[SEQUENCES][PAGES_MAX];
    struct gptoss_batch batch = {.steps = steps, .count = count};
    uint32_t page = d->plan.page_tokens, own = d->plan.window_pages / SEQUENCES;
    struct lr_error err = {0};
    for (uint32_t i = 0; i < count; i++) {
        const struct part *p = &parts[i];
        uint32_t pages = (p->from + p->count + page - 1) / page;
        for (uint32_t k = 0; k < pages; k++) {
            full[i][k] = p->slot * (CONTEXT / page) + k;
            window[i][k] = p->slot * own + k % own;
        }
        steps[i] = (struct gptoss_step){.slot = p->slot,
                                        .position = p->from,
                                        .count = p->count,
                                        .page_count = pages,
                                        .tokens = p->ids + p->from,
                                        .full_pages = full[i],
                                        .window_pages = window[i],
                                        .logits = p->out};
        batch.tokens += p->count;
    }
    test_must(d->api->forward(d->backend, &batch, &err), &err, d->api->name);
}

uint32_t device_sample(struct device *d, const uint32_t *ids, uint32_t from, uint32_t count,
                       const struct sampler_input *how, float *logits, uint32_t vocab)
{
    struct gptoss_step steps[SEQUENCES];
    struct sampler_result sampled[SEQUENCES], want;
    uint32_t full[SEQUENCES][PAGES_MAX], window[SEQUENCES][PAGES_MAX], wrong = 0;
    const struct gptoss_batch batch = {.steps = steps, .count = count, .tokens = count};
    const struct lr_sampling sampling = {.size = sizeof(sampling), .top_p = 1};
    const struct sampler_input greedy = {.sampling = &sampling};
    uint32_t page = d->plan.page_tokens, own = d->plan.window_pages / SEQUENCES;
    struct fixture fixture = {.b = d->backend};
    struct lr_error err = {0};
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k <= from / page; k++) {
            full[i][k] = i * (CONTEXT / page) + k;
            window[i][k] = i * own + k % own;
        }
        steps[i] = (struct gptoss_step){.slot = i,
                                        .position = from,
                                        .count = 1,
                                        .page_count = from / page + 1,
                                        .tokens = ids + from,
                                        .full_pages = full[i],
                                        .window_pages = window[i],
                                        .sample = how != NULL && i % 2 == 0 ? how : &greedy,
                                        .sampled = &sampled[i]};
    }
    test_must(d->api->forward(d->backend, &batch, &err), &err, d->api->name);
    struct sampler *sampler = sampler_create(vocab);
    for (uint32_t i = 0; i < count; i++) {
        float *row = logits + (size_t)i * vocab;
        fixture_get(&fixture, d->backend->ws.logits + (size_t)i * d->backend->logit_stride, row,
                    vocab * 4);
        sampler_sample(sampler, row, d->backend->usable, steps[i].sample, &want);
        wrong += sampled[i].id != want.id || sampled[i].top_count != want.top_count ||
                 !(fabsf(sampled[i].logprob - want.logprob) <= 1e-5f);
    }
    sampler_destroy(sampler);
    return wrong;
}

void test_distance(const float *got, const float *want, uint32_t count, double *off,
                   double *size)
{
    for (uint32_t i = 0; i < count; i++) {
        double d = (double)got[i] - (double)want[i];
        *off += d * d;
        *size += (double)want[i] * (double)want[i];
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double test_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return count != 0 ? values[count / 2] : NAN;
}
