/* tests/gpu/fixture.c - see fixture.h. */
#include "tests/gpu/fixture.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t passed, failed;

void test_check(double error, double limit, const char *name, ...)
{
    char text[160];
    va_list args;
    va_start(args, name);
    (void)vsnprintf(text, sizeof(text), name, args);
    va_end(args);
    bool ok = error <= limit;
    printf("%s %s: %.2e (limit %.1e)\n", ok ? "ok  " : "FAIL", text, error, limit);
    (void)fflush(stdout);
    *(ok ? &passed : &failed) += 1;
}

int test_verdict(void)
{
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 && passed != 0 ? 0 : 1;
}

void test_must(lr_code code, const struct lr_error *err, const char *what)
{
    if (code == LR_OK)
        return;
    printf("FAIL %s: %s\n", what, err->text);
    failed++;
    exit(test_verdict());
}

void *test_alloc(size_t count, size_t size)
{
    void *p = calloc(count != 0 ? count : 1, size);
    if (p == NULL) {
        fprintf(stderr, "no memory for a test\n");
        exit(1);
    }
    return p;
}

double test_error_f32(const float *a, const double *b, size_t count)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)a[i] - b[i];
        off += d * d;
        size += b[i] * b[i];
    }
    return size > 0 ? sqrt(off / size) : sqrt(off);
}

double test_error_bf16(const uint16_t *a, const double *b, size_t count)
{
    double off = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        int exponent;
        (void)frexp(b[i], &exponent); /* |b| in [2^(e - 1), 2^e): a unit is 2^(e - 8) */
        double d = fabs(test_from_bf16(a[i]) - b[i]);
        d = d > ldexp(1, exponent - 9) ? d - ldexp(1, exponent - 9) : d != d ? d : 0;
        off += d * d;
        size += b[i] * b[i];
    }
    return size > 0 ? sqrt(off / size) : sqrt(off);
}

struct crew {
    void (*fn)(void *ctx, uint32_t i);
    void *ctx;
    uint32_t count;
    _Atomic uint32_t next;
};

static void *crew_main(void *arg)
{
    struct crew *c = arg;
    for (uint32_t i; (i = atomic_fetch_add(&c->next, 1)) < c->count;)
        c->fn(c->ctx, i);
    return NULL;
}

void test_parallel(uint32_t count, void (*fn)(void *ctx, uint32_t i), void *ctx)
{
    struct crew crew = {.fn = fn, .ctx = ctx, .count = count};
    pthread_t threads[32];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int wanted = cores > 32 ? 32 : (int)cores, started = 0;
    while (started < wanted - 1 &&
           pthread_create(&threads[started], NULL, crew_main, &crew) == 0)
        started++;
    (void)crew_main(&crew);
    while (started > 0)
        (void)pthread_join(threads[--started], NULL);
}

void fixture_open(struct fixture *fixture, const struct test_shape *shape, uint64_t seed)
{
    const struct gptoss_backend_api *api = gptoss_backend_cuda();
    const struct gptoss_backend_options options = {
        .device = "cuda:0",
        .kv_tokens = FIXTURE_PAGES * CUDA_PAGE_TOKENS,
        .max_sequences = FIXTURE_SEQUENCES,
        .max_context = FIXTURE_CONTEXT,
        .prefill_chunk = FIXTURE_TOKENS - FIXTURE_SEQUENCES};
    const struct gptoss_backend_host host = {0};
    struct lr_error err = {0};
    *fixture = (struct fixture){.model = test_model_create(shape, seed)};
    fixture->config = &fixture->model->m.config;
    test_must(api->plan(fixture->config, &options, &fixture->plan, &err), &err, shape->name);
    test_must(api->open(&host, &fixture->model->m, fixture->model->usable, &options,
                        &fixture->plan, &fixture->b, &err),
              &err, shape->name);
}

void fixture_open_vocabulary(struct fixture *fixture, uint32_t vocab, uint32_t unusable)
{
    const struct test_shape shape = {.name = "vocabulary",
                                     .layers = 1,
                                     .hidden = 32,
                                     .intermediate = 32,
                                     .heads = 1,
                                     .kv_heads = 1,
                                     .experts = 1,
                                     .topk = 1,
                                     .vocab = vocab,
                                     .window = 64};
    fixture_open(fixture, &shape, 7);
    for (uint32_t i = 0; i < vocab; i += unusable)
        fixture->model->usable[i / 32] &= ~(1u << i % 32);
    fixture_put(fixture, fixture->b->ws.usable, fixture->model->usable,
                (size_t)(vocab + 31) / 32 * 4);
}

void fixture_close(struct fixture *fixture)
{
    gptoss_backend_cuda()->close(fixture->b);
    test_model_destroy(fixture->model);
}

void fixture_act_smaller(struct gptoss_backend *b)
{
    enum { COMMON, HOPPER };
#define KERNEL(module, name, code)                                                             \
    if (code == HOPPER) {                                                                      \
        b->kernels[CUDA_##name] = NULL;                                                        \
        b->target.has[CUDA_##name] = false;                                                    \
    }
#include "engines/gptoss/backend/cuda/kernels.def"
    memset(b->overlaps, 0, sizeof(b->overlaps));
    b->token_rows = b->attend_rows = 0;
    b->filters.has = false;
    b->target.shared_per_block = 99 << 10;
}

static void finish(struct fixture *fixture, CUresult result, const char *what)
{
    struct lr_error err = {0};
    if (result == CUDA_SUCCESS)
        result = fixture->b->cu->cuStreamSynchronize(fixture->b->stream);
    if (result != CUDA_SUCCESS)
        test_must(cuda_fail(fixture->b->cu, result, what, &err), &err, what);
}

void fixture_put(struct fixture *fixture, const void *device, const void *host, size_t bytes)
{
    finish(fixture,
           fixture->b->cu->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)device, host, bytes,
                                             fixture->b->stream),
           "copy to the device");
}

void fixture_get(struct fixture *fixture, const void *device, void *host, size_t bytes)
{
    finish(fixture,
           fixture->b->cu->cuMemcpyDtoHAsync(host, (CUdeviceptr)(uintptr_t)device, bytes,
                                             fixture->b->stream),
           "copy from the device");
}

/* Where the products of a prompt on Hopper expect column c: within a block of 32, lane t of
 * four owns columns 8t .. 8t + 7; pair p of all four lanes comes before pair p + 1. */
static size_t place_of(const struct fixture *fixture, uint32_t tokens, size_t c)
{
    size_t lane = c % 32 / 8, pair = c % 8 / 2;
    const struct cuda_layer *l = &fixture->b->layers[0];
    return cuda_experts_permute(&fixture->b->target, fixture->config, &l->gate_up, &l->down,
                                tokens)
               ? c / 32 * 32 + pair * 8 + lane * 2 + c % 2
               : c;
}

void fixture_put_rows(struct fixture *fixture, const void *device, const uint16_t *host,
                      uint32_t tokens, size_t rows, uint32_t columns)
{
    uint16_t *moved = test_alloc(rows * columns, 2);
    for (size_t i = 0; i < rows * columns; i++)
        moved[i / columns * columns + place_of(fixture, tokens, i % columns)] = host[i];
    fixture_put(fixture, device, moved, rows * columns * 2);
    free(moved);
}

void fixture_get_rows(struct fixture *fixture, const void *device, uint16_t *host,
                      uint32_t tokens, size_t rows, uint32_t columns)
{
    uint16_t *moved = test_alloc(rows * columns, 2);
    fixture_get(fixture, device, moved, rows * columns * 2);
    for (size_t i = 0; i < rows * columns; i++)
        host[i] = moved[i / columns * columns + place_of(fixture, tokens, i % columns)];
    free(moved);
}

void fixture_poison(struct fixture *fixture, const void *device, size_t bytes)
{
    finish(fixture,
           fixture->b->cu->cuMemsetD8Async((CUdeviceptr)(uintptr_t)device, 0xFF, bytes,
                                           fixture->b->stream),
           "poisoning");
}

void *fixture_input(struct fixture *fixture, uint64_t offset)
{
    return fixture->b->ws.inputs + offset;
}
