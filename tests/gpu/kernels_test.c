/* tests/gpu/kernels_test.c - every CUDA kernel compared with a reference in double precision,
 * from the same rounded inputs: |difference| / |reference| is at most 1e-4; a result rounded to
 * bf16 may differ by half a unit more.
 *
 * Outputs are poisoned before each run, inputs are random from fixed seeds.  Needs an NVIDIA
 * GPU; fails without one.  One line per test, then "N passed, N failed".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/fixture.h"
#include "tests/gpu/reference.h"

/* name, layers, hidden, intermediate, heads, kv heads, experts, topk, vocab, window, ties.
 * Widths of one block, of odd numbers of blocks, of the published models; vocabularies that end
 * within a tile.  "2880 single" has, with few tokens, less work than multiprocessors. */
static const struct test_shape shapes[] = {
    {"32", 3, 32, 32, 1, 1, 1, 1, 17, 128, false, false},
    {"160", 3, 160, 96, 3, 1, 5, 3, 517, 16, false, false},
    {"192", 2, 192, 160, 6, 2, 32, 8, 100, 64, false, false},
    {"192 ties", 1, 192, 32, 1, 1, 5, 2, 33, 64, true, false},
    {"2880", 2, 2880, 160, 3, 1, 32, 4, 517, 128, false, false},
    {"2880 wide", 1, 64, 2880, 64, 8, 4, 2, 1000, 128, false, false},
    {"2880 experts", 1, 2880, 32, 2, 1, 128, 5, 48, 128, true, false},
    {"2880 both", 1, 2880, 2880, 2, 1, 40, 2, 48, 128, false, false},
    {"2880 single", 1, 2880, 2880, 2, 1, 2, 1, 48, 128, false, false},
    {"4096", 1, 4096, 64, 2, 1, 5, 1, 49, 128, false, false},
};

/* ---- sampling ---- */

enum { SAMPLE_ROWS = 64, SAMPLES = 1000, SAMPLE_VOCAB = 5001 };

struct samplings {
    struct fixture fixture;
    struct sampler *sampler;
    float *logits; /* [SAMPLE_ROWS][stride] */
    uint32_t got[SAMPLE_ROWS];
    struct cuda_sample_row how[SAMPLE_ROWS];
};

/* Samples `count` rows on the device; returns how many the host's sampler samples
 * differently. */
static uint32_t run_sampling(struct samplings *d, uint32_t count)
{
    struct gptoss_backend *b = d->fixture.b;
    uint32_t wrong = 0;
    struct lr_error err = {0};
    fixture_put(&d->fixture, b->ws.logits, d->logits, (size_t)count * b->logit_stride * 4);
    fixture_put(&d->fixture, fixture_input(&d->fixture, b->at.how), d->how,
                count * sizeof(d->how[0]));
    memset(b->sampled->ids, 0xFF, count * 4);
    fixture_poison(&d->fixture, b->ws.best_value, (size_t)count * CUDA_SAMPLE_PARTS * 4);
    fixture_poison(&d->fixture, b->ws.best_id, (size_t)count * CUDA_SAMPLE_PARTS * 4);
    test_must(cuda_launch_sampling(b, count, &err), &err, "sampling");
    (void)b->cu->cuStreamSynchronize(b->stream);
    memcpy(d->got, b->sampled->ids, count * 4);
    for (uint32_t i = 0; i < count; i++) {
        const struct lr_sampling sampling = {.size = sizeof(sampling),
                                             .temperature = d->how[i].temperature,
                                             .top_p = 1,
                                             .repetition_penalty = 1,
                                             .seed = d->how[i].seed};
        const struct sampler_input how = {.sampling = &sampling, .index = d->how[i].index};
        struct sampler_result want;
        sampler_sample(d->sampler, d->logits + (size_t)i * b->logit_stride,
                       d->fixture.model->usable, &how, &want);
        wrong += want.id != d->got[i];
    }
    return wrong;
}

static void make_rows(struct samplings *d, struct test_random *r, uint32_t count, bool greedy,
                      bool ties)
{
    static const float temperatures[] = {0.3f, 0.7f, 1.0f, 1.5f};
    uint32_t stride = d->fixture.b->logit_stride;
    test_fill_float(r, d->logits, (size_t)count * stride, 3);
    for (uint32_t i = 0; i < count; i++) {
        d->how[i] = (struct cuda_sample_row){.seed = test_random_bits(r),
                                             .index = test_random_below(r, 4096),
                                             .temperature = greedy ? 0 : temperatures[i % 4]};
        for (int k = 0; ties && k < 5; k++) /* the largest value, in several places */
            d->logits[(size_t)i * stride + test_random_below(r, SAMPLE_VOCAB)] = 50;
    }
}

/* Samples `count` rows, the last first, like a step with filters; returns how many results
 * differ from sampling the row alone. */
static uint32_t run_host_sampling(struct samplings *d, uint32_t count)
{
    struct gptoss_backend *b = d->fixture.b;
    struct gptoss_step steps[SAMPLE_ROWS];
    struct lr_sampling sampling[SAMPLE_ROWS];
    struct sampler_input how[SAMPLE_ROWS];
    struct sampler_result got[SAMPLE_ROWS], want;
    struct cuda_host_row rows[SAMPLE_ROWS];
    struct lr_error err = {0};
    uint32_t wrong = 0;
    fixture_put(&d->fixture, b->ws.logits, d->logits, (size_t)count * b->logit_stride * 4);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = count - 1 - i;
        sampling[i] = (struct lr_sampling){.size = sizeof(sampling[i]),
                                           .temperature = 1,
                                           .top_p = 0.9f,
                                           .repetition_penalty = 1,
                                           .seed = d->how[row].seed};
        how[i] = (struct sampler_input){.sampling = &sampling[i], .index = d->how[row].index};
        steps[i] = (struct gptoss_step){.sample = &how[i], .sampled = &got[i]};
        rows[i] = (struct cuda_host_row){&steps[i], row};
    }
    test_must(cuda_host_sampling(b, rows, count, &err), &err, "sampling on the host");
    for (uint32_t i = 0; i < count; i++) {
        sampler_sample(d->sampler, d->logits + (size_t)(count - 1 - i) * b->logit_stride,
                       b->usable, &how[i], &want);
        wrong += want.id != got[i].id;
    }
    return wrong;
}

void test_sampling(struct test_random *r)
{
    struct samplings *d = test_alloc(1, sizeof(*d));
    fixture_open_vocabulary(&d->fixture, SAMPLE_VOCAB, 3);
    d->sampler = sampler_create(SAMPLE_VOCAB);
    d->logits = test_alloc((size_t)SAMPLE_ROWS * d->fixture.b->logit_stride, 4);
    make_rows(d, r, SAMPLE_ROWS, true, false);
    test_check(run_sampling(d, SAMPLE_ROWS), 0, "sampling: greedy, 64 rows");
    make_rows(d, r, SAMPLE_ROWS, true, true);
    test_check(run_sampling(d, SAMPLE_ROWS), 0,
               "sampling: greedy ties take the lowest usable id");
    make_rows(d, r, 1, false, false);
    test_check(run_sampling(d, 1), 0, "sampling: one row with temperature");
    uint32_t wrong = 0;
    for (uint32_t at = 0; at < SAMPLES; at += SAMPLE_ROWS) {
        uint32_t count = SAMPLES - at < SAMPLE_ROWS ? SAMPLES - at : SAMPLE_ROWS;
        make_rows(d, r, count, false, false);
        wrong += run_sampling(d, count);
    }
    test_check(wrong, 0, "sampling: Gumbel sampling equals the host's, %d rows", SAMPLES);
    for (uint32_t count = 1; count <= SAMPLE_ROWS; count += 7) {
        make_rows(d, r, count, false, false);
        test_check(run_host_sampling(d, count), 0, "sampling: %u rows sampled on the host",
                   count);
    }
    sampler_destroy(d->sampler);
    free(d->logits);
    fixture_close(&d->fixture);
    free(d);
}

/* kernels_test [PART [SHAPE]]: only repack, products, experts, attention, sampling, filtered or
 * token; of the first three, only one shape. */
int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
#define WANTED(name) (part[0] == '\0' || strcmp(part, name) == 0)
    bool shaped = WANTED("repack") || WANTED("products") || WANTED("experts");
    for (size_t i = 0; shaped && i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct fixture fixture;
        struct test_random r = {20251115 + i}, other = {40251115 + i};
        if (argc > 2 && strcmp(argv[2], shapes[i].name) != 0)
            continue;
        fixture_open(&fixture, &shapes[i], i);
        if (WANTED("repack"))
            test_repack(&fixture, shapes[i].name);
        if (WANTED("products"))
            test_products(&fixture, shapes[i].name, &r, 0);
        if (WANTED("experts"))
            test_experts(&fixture, shapes[i].name, &other, 0);
        /* Few tokens use the same kernels there. */
        char smaller[64];
        (void)snprintf(smaller, sizeof(smaller), "%s, smaller GPU", shapes[i].name);
        fixture_act_smaller(fixture.b);
        if (WANTED("products"))
            test_products(&fixture, smaller, &r, 5);
        if (WANTED("experts"))
            test_experts(&fixture, smaller, &other, 5);
        fixture_close(&fixture);
    }
    struct test_random r = {1}, other = {2}, third = {3}, fourth = {4};
    if (WANTED("attention"))
        test_attention(&r);
    if (WANTED("sampling"))
        test_sampling(&other);
    if (WANTED("filtered"))
        test_filtered(&fourth);
    if (WANTED("token"))
        test_token(&third);
    return test_verdict();
}
