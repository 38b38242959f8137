/* tests/gpu/kernels_time_sampling.c - the time of a step's sampling with filters: the kernel
 * alone, and with the copy of its input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/gpu/fixture.h"

enum { SAMPLES = 64, REPEATS = 20, AT_ONCE = 20, HISTORY = 5000 };

/* Microseconds of one sampling: AT_ONCE of them, the best of REPEATS. */
static double time_sampling(struct gptoss_backend *b, bool copy)
{
    double best = 1e30;
    struct lr_error err = {0};
    for (int i = 0; i < REPEATS; i++) {
        uint64_t start = lr_clock_ns(NULL);
        for (int k = 0; k < AT_ONCE; k++) {
            if (copy)
                test_must(cuda_filter_copy(b, &err), &err, "copy");
            test_must(cuda_filter_launch(b, &err), &err, "sampling");
        }
        CUresult ended = b->cu->cuStreamSynchronize(b->stream);
        if (ended != CUDA_SUCCESS)
            test_must(cuda_fail(b->cu, ended, "sampling", &err), &err, "sampling");
        double us = (double)(lr_clock_ns(NULL) - start) / 1e3 / AT_ONCE;
        best = us < best ? us : best;
    }
    return best;
}

/* Rows like a model's: most ids far below a few. */
static void put_rows(struct gptoss_backend *b)
{
    struct test_random r = {11};
    float *row = test_alloc(b->logit_stride, 4);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        for (uint32_t k = 0; k < b->vocab_rows; k++)
            row[k] = (float)test_random_normal(&r) * 2.5f;
        for (uint32_t k = 0; k < 30; k++)
            row[test_random_below(&r, b->vocab_rows)] += 5 + (float)test_random_below(&r, 16);
        (void)b->cu->cuMemcpyHtoDAsync(
            (CUdeviceptr)(uintptr_t)(b->ws.logits + (size_t)i * b->logit_stride), row,
            (size_t)b->vocab_rows * 4, b->stream);
        (void)b->cu->cuStreamSynchronize(b->stream);
    }
    free(row);
}

void time_filters(struct gptoss_backend *b)
{
    static const struct {
        const char *name;
        struct lr_sampling sampling;
        bool mask;
    } kinds[] = {
        {"top_p 0.95", {.temperature = 1, .top_p = 0.95f}, false},
        {"top_p 0.95, temperature 2", {.temperature = 2, .top_p = 0.95f}, false},
        {"top_k 40", {.temperature = 1, .top_p = 1, .top_k = 40}, false},
        {"top_k 40, top_p 0.95", {.temperature = 1, .top_p = 0.95f, .top_k = 40}, false},
        {"min_p 0.05", {.temperature = 1, .top_p = 1, .min_p = 0.05f}, false},
        {"mask, greedy", {.top_p = 1}, true},
        {"mask, temperature", {.temperature = 1, .top_p = 1}, true},
        {"penalties", {.temperature = 1, .top_p = 1, .presence_penalty = 0.5f}, false},
        {"logprobs", {.temperature = 1, .top_p = 1, .logprobs = 1}, false},
        {"logprobs, 20", {.top_p = 1, .logprobs = 1, .top_logprobs = 20}, false},
    };
    static uint32_t history[HISTORY];
    uint32_t *mask = test_alloc((size_t)(b->vocab_rows + 31) / 32, 4);
    struct test_random r = {12};
    if (!b->filters.has) {
        printf("no sampling with filters on this GPU\n");
        free(mask);
        return;
    }
    memset(mask, 0x5A, (size_t)(b->vocab_rows + 31) / 32 * 4);
    for (uint32_t i = 0; i < HISTORY; i++)
        history[i] = test_random_below(&r, b->vocab_rows);
    put_rows(b);
    printf("sampling with filters, us: the kernel, with its copy, and writing down how\n");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (uint32_t rows = 1; rows <= SAMPLES; rows *= 8) {
            struct lr_sampling sampling = kinds[i].sampling;
            const struct sampler_input how = {.sampling = &sampling,
                                              .prompt_count = HISTORY / 2,
                                              .history_count = HISTORY,
                                              .history = history,
                                              .mask = kinds[i].mask ? mask : NULL};
            sampling.size = sizeof(sampling);
            sampling.seed = 13;
            uint64_t start = lr_clock_ns(NULL);
            cuda_filter_begin(b);
            for (uint32_t k = 0; k < rows; k++)
                (void)cuda_filter_add(b, &how, k);
            double adding = (double)(lr_clock_ns(NULL) - start) / 1e3;
            printf("  %-26s %2u rows %8.2f %8.2f %8.2f\n", kinds[i].name, b->filters.count,
                   time_sampling(b, false), time_sampling(b, true), adding);
            (void)fflush(stdout);
        }
    }
    free(mask);
}
