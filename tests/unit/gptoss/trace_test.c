/* Debugging aids: the routers' inputs and choices, and activations rounded to bf16 like on the
 * CUDA device. */
#include <math.h>

#include "tests/unit/gptoss/support.h"

#include "engines/gptoss/backend/backend.h"

enum { TOKENS = 40, PAGES = 4 };

struct seen {
    const struct model_gptoss *m;
    uint32_t layers; /* layers reported so far */
};

static double value_of(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float v;
    memcpy(&v, &bits, sizeof(v));
    return (double)v;
}

/* The router's logit of an expert for a row of the trace. */
static double logit_of(const struct model_gptoss *m, uint32_t layer, const float *row,
                       uint32_t expert)
{
    const struct model_gptoss_layer *l = &m->layers[layer];
    uint32_t hidden = m->config.hidden;
    double squares = 0, sum = value_of(l->router_bias[expert]);
    for (uint32_t i = 0; i < hidden; i++)
        squares += (double)row[i] * (double)row[i];
    double scale = 1 / sqrt(squares / hidden + m->config.rms_eps);
    for (uint32_t i = 0; i < hidden; i++)
        sum += (double)row[i] * scale * value_of(l->mlp_norm[i]) *
               value_of(l->router_weight[(size_t)expert * hidden + i]);
    return sum;
}

static void check_choice(void *ctx, uint32_t layer, uint32_t rows, const float *residual,
                         const uint32_t *choice)
{
    struct seen *s = ctx;
    const struct model_config *c = &s->m->config;
    assert_int_equal(layer, s->layers++);
    assert_int_equal(rows, TOKENS);
    for (uint32_t i = 0; i < rows; i++) {
        const float *row = residual + (size_t)i * c->hidden;
        const uint32_t *chosen = choice + (size_t)i * c->experts_per_token;
        double last = INFINITY;
        for (uint32_t k = 0; k < c->experts_per_token; k++) {
            double logit = logit_of(s->m, layer, row, chosen[k]);
            assert_true(logit <= last + 1e-5);
            last = logit;
        }
        for (uint32_t e = 0; e < c->experts; e++) {
            bool taken = false;
            for (uint32_t k = 0; k < c->experts_per_token; k++)
                taken = taken || chosen[k] == e;
            assert_true(taken || logit_of(s->m, layer, row, e) <= last + 1e-5);
        }
    }
}

/* Logits of TOKENS ids of golden-odd; the caller frees them. */
static float *run(const char *extra, bool traced)
{
    const struct gptoss_backend_api *api = gptoss_backend_cpu();
    const struct gptoss_backend_host host = {0};
    struct seen seen = {0};
    const struct gptoss_trace trace = {.ctx = &seen, .routed = check_choice};
    const struct gptoss_backend_options options = {.max_sequences = 1,
                                                   .prefill_chunk = TOKENS,
                                                   .extra_json = extra,
                                                   .trace = traced ? &trace : NULL};
    struct model_gptoss *m;
    struct gptoss_plan plan;
    struct gptoss_backend *backend;
    struct lr_error err = {0};
    uint32_t ids[TOKENS], pages[PAGES] = {0, 1, 2, 3};

    assert_int_equal(model_gptoss_open(ODD_MODEL, NULL, &m, &err), LR_OK);
    seen.m = m;
    assert_int_equal(api->plan(&m->config, &options, &plan, &err), LR_OK);
    uint32_t *usable = calloc((m->vocab_rows + 31) / 32, sizeof(*usable));
    float *logits = calloc((size_t)TOKENS * m->vocab_rows, sizeof(*logits));
    assert_int_equal(api->open(&host, m, usable, &options, &plan, &backend, &err), LR_OK);
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * 7919 + 13) % m->vocab_rows;
    struct gptoss_step step = {.count = TOKENS,
                               .page_count = PAGES,
                               .tokens = ids,
                               .full_pages = pages,
                               .window_pages = pages,
                               .logits = logits};
    const struct gptoss_batch batch = {.steps = &step, .count = 1, .tokens = TOKENS};
    assert_int_equal(api->forward(backend, &batch, &err), LR_OK);
    assert_int_equal(seen.layers, traced ? m->config.layers : 0);
    api->close(backend);
    free(usable);
    model_gptoss_close(m);
    return logits;
}

static void a_trace_tells_what_each_layers_router_read_and_chose(void **state)
{
    (void)state;
    free(run(NULL, true));
}

static void rounded_activations_stay_near_float32(void **state)
{
    (void)state;
    float *exact = run(NULL, false), *rounded = run("{\"activations\":\"bf16\"}", true);
    double off = 0, size = 0;
    for (size_t i = 0; i < (size_t)TOKENS * 16; i++) {
        off += pow((double)rounded[i] - (double)exact[i], 2);
        size += pow((double)exact[i], 2);
    }
    assert_true(off > 0);
    assert_true(sqrt(off / size) > 1e-4 && sqrt(off / size) < 1e-2);
    free(exact);
    free(rounded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_tells_what_each_layers_router_read_and_chose),
        cmocka_unit_test(rounded_activations_stay_near_float32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
