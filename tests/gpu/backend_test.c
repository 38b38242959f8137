/* tests/gpu/backend_test.c - the whole CUDA backend, compared with the CPU backend on random
 * models of odd shapes, and through the engine on the demo model (backend_engine.c).
 *
 * Logits: |difference| / |CPU| is at most 3e-2 in 99 of 100 rows and 6e-3 at the median row.  A
 * row with a larger error comes from an expert chosen differently at a near tie
 * (backend_choices.c checks that); the models' routers are made so that these are rare.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/backend_test.h"
#include "tests/gpu/fixture.h"

static void compare(const char *shape, const char *what, const float *got, const float *want,
                    uint32_t rows, uint32_t vocab)
{
    double *error = test_alloc(rows, 8), worst = 0;
    uint32_t far = 0;
    for (uint32_t i = 0; i < rows; i++) {
        double row_off = 0, row_size = 0;
        test_distance(got + (size_t)i * vocab, want + (size_t)i * vocab, vocab, &row_off,
                      &row_size);
        error[i] = sqrt(row_off / row_size);
        far += !(error[i] <= 3e-2);
        worst = error[i] <= worst ? worst : error[i];
    }
    test_check(far, rows / 100, "%s, %s: of %u rows, those with logits above 3e-2 (worst %.2g)",
               shape, what, rows, worst);
    test_check(test_median(error, rows), 6e-3, "%s, %s: median row", shape, what);
    free(error);
}

static void run_shape(const struct test_shape *shape, uint64_t seed, uint32_t length)
{
    struct test_model *model = test_model_create(shape, seed);
    struct test_random r = {seed + 1000};
    struct device cpu, cuda;
    uint32_t vocab = shape->vocab, *ids = test_alloc((size_t)SEQUENCES * CONTEXT, 4);
    float *want = test_alloc((size_t)length * vocab, 4),
          *got = test_alloc((size_t)length * vocab, 4);
    for (uint32_t i = 0; i < SEQUENCES * CONTEXT; i++)
        ids[i] = test_random_below(&r, vocab);
    device_open(&cpu, gptoss_backend_cpu(), "cpu", &model->m, model->usable, NULL, NULL);
    device_open(&cuda, gptoss_backend_cuda(), "cuda:0", &model->m, model->usable, NULL, NULL);

    device_forward(&cpu, &(struct part){0, 0, length, ids, want}, 1);
    device_forward(&cuda, &(struct part){0, 0, length, ids, got}, 1);
    compare(shape->name, "one prompt", got, want, length, vocab);

    static const uint32_t chunks[] = {1, 7, 64};
    for (int c = 0; c < 3; c++) {
        char what[32];
        uint32_t rows = chunks[c] == 1 && length > 70 ? 70 : length;
        memset(got, 0xFF, (size_t)length * vocab * 4);
        for (uint32_t at = 0; at < rows; at += chunks[c]) {
            uint32_t n = rows - at < chunks[c] ? rows - at : chunks[c];
            device_forward(&cuda, &(struct part){1, at, n, ids, got + (size_t)at * vocab}, 1);
        }
        (void)snprintf(what, sizeof(what), "chunks of %u", chunks[c]);
        compare(shape->name, what, got, want, rows, vocab);
    }

    /* Token by token as graphs: alone, then the same SEQUENCES times. */
    for (uint32_t n = 1; n <= SEQUENCES; n += SEQUENCES - 1) {
        uint32_t rows = length < 70 ? length : 70, wrong = 0;
        float *made = test_alloc((size_t)SEQUENCES * vocab, 4);
        char what[48];
        for (uint32_t at = 0; at < rows; at++) {
            wrong += device_sample(&cuda, ids, at, n, NULL, made, vocab);
            memcpy(got + (size_t)at * vocab, made + (size_t)(n - 1) * vocab, vocab * 4);
        }
        (void)snprintf(what, sizeof(what), "graphs of %u sequence(s)", n);
        compare(shape->name, what, got, want, rows, vocab);
        test_check(wrong, 0, "%s, %s: greedy sampling", shape->name, what);
        free(made);
    }

    /* A token, a prompt and a chunk in one step: the rows of the first prompt again. */
    uint32_t half = length / 2;
    const struct part before[] = {{2, 0, length - 1, ids, got}, {3, 0, half, ids, got}};
    device_forward(&cuda, &before[0], 1);
    device_forward(&cuda, &before[1], 1);
    memset(got, 0xFF, (size_t)length * vocab * 4);
    float *other = test_alloc((size_t)length * vocab, 4), last[2048];
    const struct part mixed[] = {{0, 0, length, ids, other},
                                 {2, length - 1, 1, ids, last},
                                 {3, half, length - half, ids, got}};
    device_forward(&cuda, mixed, 3);
    compare(shape->name, "mixed batch, prompt", other, want, length, vocab);
    compare(shape->name, "mixed batch, token", last, want + (size_t)(length - 1) * vocab, 1,
            vocab);
    compare(shape->name, "mixed batch, chunk", got, want + (size_t)half * vocab, length - half,
            vocab);
    cpu.api->close(cpu.backend);
    cuda.api->close(cuda.backend);
    free(ids), free(want), free(got), free(other);
    test_model_destroy(model);
}

/* name, layers, hidden, intermediate, heads, kv heads, experts, topk, vocab, window, ties,
 * steady router. */
static const struct test_shape shapes[] = {
    {"odd", 3, 192, 160, 3, 1, 5, 3, 517, 32, false, true},
    {"narrow", 2, 32, 32, 1, 1, 1, 1, 17, 16, false, true},
    {"crowded", 4, 160, 96, 16, 1, 32, 8, 1000, 64, false, true},
    {"pairs", 3, 256, 224, 8, 8, 8, 2, 2000, 100, false, true},
    {"2880", 1, 2880, 2880, 64, 8, 4, 2, 517, 128, false, true},
    {"2880 experts", 1, 2880, 160, 8, 1, 32, 4, 517, 128, false, true},
    {"20b", 2, 2880, 2880, 64, 8, 32, 4, 517, 32, false, true},
};

/* Simulates a GPU for which the build has no machine code, older or newer: the driver compiles
 * the build's PTX.  The driver must not have been loaded before. */
static void test_ptx(const char *demo)
{
    const struct test_shape *wide = &shapes[sizeof(shapes) / sizeof(shapes[0]) - 1];
    (void)setenv("CUDA_FORCE_PTX_JIT", "1", 1);
    run_shape(&shapes[0], 0, 200);
    run_shape(wide, 6, 70);
    test_brief(demo, false);
}

/* backend_test [backend|choices|engine|all|brief|brief-small|ptx] [REPOSITORY] */
int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "all";
    const char *root = argc > 2 ? argv[2] : LR_SOURCE_DIR;
    char demo[4096];
#define WANTED(name) (strcmp(part, "all") == 0 || strcmp(part, name) == 0)
    (void)snprintf(demo, sizeof(demo), "%s/models/demo", root);
    for (size_t i = 0; WANTED("backend") && i < sizeof(shapes) / sizeof(shapes[0]); i++)
        run_shape(&shapes[i], i, shapes[i].hidden > 1000 ? 70 : 200);
    if (WANTED("choices"))
        test_choices(root);
    if (WANTED("engine"))
        test_engine(demo);
    if (strncmp(part, "brief", 5) == 0) {
        test_brief(demo, strcmp(part, "brief-small") == 0);
        test_engine_brief(demo);
    }
    if (strcmp(part, "ptx") == 0)
        test_ptx(demo);
    return test_verdict();
}
