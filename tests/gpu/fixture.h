/* tests/gpu/fixture.h - the fixture of the kernel tests: an open CUDA backend with a random
 * model, whose workspace tests read and write directly; results; work on all cores. */
#ifndef TESTS_GPU_FIXTURE_H
#define TESTS_GPU_FIXTURE_H

#include "engines/gptoss/backend/cuda/cuda.h"
#include "tests/gpu/random_model.h"

/* ---- results ---- */

/* Prints "ok   name: error (limit)" or "FAIL ..."; NaN fails. */
void test_check(double error, double limit, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints "N passed, N failed"; returns the exit status. */
int test_verdict(void);
/* Ends the program on an error, because the rest cannot be tested. */
void test_must(lr_code code, const struct lr_error *err, const char *what);

/* |a - b| / |b| over count values; NaN in a gives NaN. */
double test_error_f32(const float *a, const double *b, size_t count);
/* The same, minus the half unit by which a result rounded to bf16 may differ: a value near the
 * middle between two neighbours may be rounded either way. */
double test_error_bf16(const uint16_t *a, const double *b, size_t count);

/* fn(ctx, 0 .. count - 1) on all cores. */
void test_parallel(uint32_t count, void (*fn)(void *ctx, uint32_t i), void *ctx);

#define TEST_LIMIT 1e-4 /* sums in float32 of the same values */

/* ---- the fixture ---- */

enum {
    FIXTURE_CONTEXT = 8192,
    FIXTURE_TOKENS = 512,
    FIXTURE_PAGES = 256,
    FIXTURE_SEQUENCES = 300
};

struct fixture {
    struct test_model *model;
    const struct model_config *config;
    struct gptoss_plan plan;
    struct gptoss_backend *b;
};

/* FIXTURE_SEQUENCES sequences, FIXTURE_TOKENS rows, FIXTURE_PAGES full pages. */
void fixture_open(struct fixture *fixture, const struct test_shape *shape, uint64_t seed);
/* The smallest model with so many ids; every `unusable`-th must not be sampled. */
void fixture_open_vocabulary(struct fixture *fixture, uint32_t vocab, uint32_t unusable);
void fixture_close(struct fixture *fixture);
/* From now on launches what a GPU with less shared memory would, for which Hopper's kernels
 * have no code. */
void fixture_act_smaller(struct gptoss_backend *b);

void fixture_put(struct fixture *fixture, const void *device, const void *host, size_t bytes);
void fixture_get(struct fixture *fixture, const void *device, void *host, size_t bytes);
/* Rows of activations for a step of `tokens` tokens: on the device in the column order of the
 * step's products, on the host in plain order. */
void fixture_put_rows(struct fixture *fixture, const void *device, const uint16_t *host,
                      uint32_t tokens, size_t rows, uint32_t columns);
void fixture_get_rows(struct fixture *fixture, const void *device, uint16_t *host,
                      uint32_t tokens, size_t rows, uint32_t columns);
/* Every byte 0xFF: a NaN in float32 and in bf16. */
void fixture_poison(struct fixture *fixture, const void *device, size_t bytes);
void *fixture_input(struct fixture *fixture,
                    uint64_t offset); /* address within the step's inputs */

/* Host memory of a test; never fails. */
void *test_alloc(size_t count, size_t size);

/* ---- kernels_*.c ---- */
void test_repack(struct fixture *fixture, const char *name);
/* For the numbers of tokens from `from` on. */
void test_products(struct fixture *fixture, const char *name, struct test_random *r,
                   uint32_t from);
void test_experts(struct fixture *fixture, const char *name, struct test_random *r,
                  uint32_t from);
void test_attention(struct test_random *r);
void test_sampling(struct test_random *r);
void test_filtered(struct test_random *r);
void test_token(struct test_random *r);
/* Prints how long sampling with filters takes, on its own rows. */
void time_filters(struct gptoss_backend *b);

#endif
