/* tests/gpu/backend_brief.c - runs every kernel once, for tools that make everything slow
 * (compute-sanitizer).  Results must only be numbers; other tests compare them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/backend_test.h"
#include "tests/gpu/fixture.h"

static bool launched[CUDA_KERNEL_COUNT];
static bool there[CUDA_KERNEL_COUNT]; /* the loaded code has the kernel */
static bool hopper;                   /* a GPU that can run every kernel */

/* Steps in which every other row has penalties, a mask, filters and log probabilities: all
 * together, then each alone. */
static void sample_filtered_rows(struct device *d, const char *name, const uint32_t *ids,
                                 uint32_t n, float *logits, uint32_t vocab)
{
    static const struct lr_logit_bias bias[] = {{3, 1.5f}, {11, -2}};
    const struct lr_sampling all = {.size = sizeof(all),
                                    .temperature = 0.9f,
                                    .top_p = 0.8f,
                                    .min_p = 0.001f,
                                    .top_k = 40,
                                    .repetition_penalty = 1.2f,
                                    .frequency_penalty = 0.1f,
                                    .logit_bias = bias,
                                    .logit_bias_count = 2,
                                    .logprobs = 1,
                                    .top_logprobs = 5,
                                    .seed = 99};
    const struct lr_sampling kinds[] = {
        all,
        {.size = sizeof(all), .top_p = 1}, /* a mask alone */
        {.size = sizeof(all), .temperature = 1, .top_p = 0.5f},
        {.size = sizeof(all), .temperature = 1, .top_p = 1, .top_k = 3},
        {.size = sizeof(all), .top_p = 1, .logprobs = 1, .top_logprobs = 8},
    };
    uint32_t *mask = test_alloc(vocab / 32 + 1, 4), wrong = 0;
    memset(mask, 0xB7, (vocab / 32 + 1) * 4);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct sampler_input how = {.sampling = &kinds[i],
                                          .index = (uint32_t)i,
                                          .prompt_count = 20,
                                          .history_count = 40,
                                          .history = ids,
                                          .mask = i < 2 ? mask : NULL};
        wrong += device_sample(d, ids, (uint32_t)i, n, &how, logits, vocab);
    }
    test_check(wrong, 0, "%s: filtered sampling of %u", name, n);
    free(mask);
}

/* One token of each of `rows` sequences in one step, up to LOGIT_ROWS: more than few-row
 * kernels support.  Sequence i is at position i / PAGES of a page that others share, each with
 * a slot of its own. */
static void sample_rows(struct device *d, const char *name, const uint32_t *ids, uint32_t rows,
                        uint32_t vocab)
{
    enum { PAGES = 32 };
    struct gptoss_step steps[LOGIT_ROWS];
    struct sampler_result sampled[LOGIT_ROWS], want;
    uint32_t page[PAGES], wrong = 0;
    const struct gptoss_batch batch = {.steps = steps, .count = rows, .tokens = rows};
    const struct lr_sampling sampling = {.size = sizeof(sampling), .top_p = 1};
    const struct sampler_input greedy = {.sampling = &sampling};
    struct fixture fixture = {.b = d->backend};
    struct lr_error err = {0};
    float *row = test_alloc(vocab, 4);
    for (uint32_t i = 0; i < PAGES; i++)
        page[i] = i;
    for (uint32_t i = 0; i < rows; i++)
        steps[i] = (struct gptoss_step){.slot = i,
                                        .position = i / PAGES,
                                        .count = 1,
                                        .page_count = 1,
                                        .tokens = ids + i,
                                        .full_pages = &page[i % PAGES],
                                        .window_pages = &page[i % PAGES],
                                        .sample = &greedy,
                                        .sampled = &sampled[i]};
    test_must(d->api->forward(d->backend, &batch, &err), &err, name);
    struct sampler *sampler = sampler_create(vocab);
    for (uint32_t i = 0; i < rows; i++) {
        fixture_get(&fixture, d->backend->ws.logits + (size_t)i * d->backend->logit_stride, row,
                    vocab * 4);
        sampler_sample(sampler, row, d->backend->usable, &greedy, &want);
        wrong += sampled[i].id != want.id;
    }
    test_check(wrong, 0, "%s: sampling of %u", name, rows);
    sampler_destroy(sampler);
    free(row);
}

/* Chunks with numbers of tokens that select different kernels, then decode steps; for this GPU,
 * or for a smaller one. */
static void walk_as(const char *name, const struct model_gptoss *m, const uint32_t *usable,
                    bool smaller)
{
    static const uint32_t chunks[] = {300, 110, 40, 20, 12, 7, 5, 3, 1};
    static const uint32_t others[] = {76, 68}; /* of another sequence */
    static const uint32_t rows[] = {2, 8, LOGIT_ROWS};
    uint32_t ids[CONTEXT], vocab = m->vocab_rows, at = 0;
    float *logits = test_alloc((size_t)CHUNK * vocab, 4);
    struct test_random r = {7};
    struct device d;
    double sum = 0;
    device_open(&d, gptoss_backend_cuda(), "cuda:0", m, usable, NULL, NULL);
    hopper = d.backend->device.major == 9;
    for (int k = 0; k < CUDA_KERNEL_COUNT; k++)
        there[k] = d.backend->target.has[k];
    /* Both depend on the architecture of the loaded code. */
    test_check(d.backend->overlaps[CUDA_norm_only] != there[CUDA_stream_gate_up], 0,
               "%s: kernels overlap where their code waits", name);
    if (smaller)
        fixture_act_smaller(d.backend);
    for (uint32_t i = 0; i < CONTEXT; i++)
        ids[i] = test_random_below(&r, vocab);
    for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); at += chunks[c++]) {
        device_forward(&d, &(struct part){0, at, chunks[c], ids, logits}, 1);
        for (size_t i = 0; i < (size_t)chunks[c] * vocab; i++)
            sum += (double)logits[i];
    }
    at = 0;
    for (size_t c = 0; c < sizeof(others) / sizeof(others[0]); at += others[c++]) {
        device_forward(&d, &(struct part){1, at, others[c], ids, logits}, 1);
        for (size_t i = 0; i < (size_t)others[c] * vocab; i++)
            sum += (double)logits[i];
    }
    for (uint32_t n = 1; n <= SEQUENCES; n += SEQUENCES - 1) {
        for (uint32_t i = 0; i < 3; i++)
            test_check(device_sample(&d, ids, i, n, NULL, logits, vocab), 0,
                       "%s: sampling of %u", name, n);
        sample_filtered_rows(&d, name, ids, n, logits, vocab);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        sample_rows(&d, name, ids, rows[i], vocab);
    test_check(isfinite(sum) ? 0 : 1, 0, "%s: numbers", name);
    for (int k = 0; k < CUDA_KERNEL_COUNT; k++)
        launched[k] = launched[k] || d.backend->launched[k];
    d.api->close(d.backend);
    free(logits);
}

static void walk(const char *name, const struct model_gptoss *m, const uint32_t *usable)
{
    walk_as(name, m, usable, false);
    walk_as(name, m, usable, true);
}

void test_brief(const char *demo, bool small)
{
    /* More experts than one block handles, a group of more than 8 heads, and the published
     * shapes. */
    static const struct test_shape shapes[] = {
        {"brief", 2, 160, 96, 12, 1, 40, 3, 300, 32, false, true},
        {"brief 2880", 1, 2880, 2880, 64, 8, 32, 4, 517, 128, false, true},
    };
    struct lr_error err = {0};
    struct model_gptoss *m = NULL;
    uint32_t missing = 0;
    for (size_t i = 0; i < (small ? 1 : 2); i++) {
        struct test_model *t = test_model_create(&shapes[i], i);
        walk(shapes[i].name, &t->m, t->usable);
        test_model_destroy(t);
    }
    test_must(model_gptoss_open(demo, NULL, &m, &err), &err, demo);
    uint32_t *usable = test_alloc(m->vocab_rows / 32 + 1, 4);
    for (uint32_t i = 0; i <= m->vocab_rows / 32; i++)
        usable[i] = UINT32_MAX;
    walk("demo", m, usable);
    free(usable);
    model_gptoss_close(m);
    for (int k = 0; k < CUDA_KERNEL_COUNT; k++) {
        const char *name = cuda_kernel_name((enum cuda_kernel)k);
        missing += there[k] ? 0 : 1;
        if (!there[k])
            printf("     not in the code for this GPU, so not tested: %s\n", name);
        else if (!small && hopper && k != CUDA_fill_random && k != CUDA_read_memory)
            test_check(launched[k] ? 0 : 1, 0, "launched %s", name);
    }
    /* The presets' PTX lacks the Hopper-only kernels; their machine code has all. */
    bool ptx = getenv("CUDA_FORCE_PTX_JIT") != NULL;
    if (hopper)
        test_check((missing != 0) != ptx, 0, "%s: %u kernels are not there",
                   ptx ? "PTX" : "machine code", missing);
}
