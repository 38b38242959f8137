/* The native engine gives the logits of Hugging Face transformers, with the same bits in any
 * chunk, any batch, any number of threads and any kind of vector registers. */
#include <math.h>

#include "tests/unit/native/support.h"

enum { ARENA = 64 << 20 };

static const struct how ways[] = {
    {.chunk = 512},
    {.chunk = 1},
    {.chunk = 7, .threads = 3},
    {.chunk = 64, .threads = 1},
    {.chunk = 16, .beside = RUN_BESIDE},
    {.chunk = 64, .kernels = "avx2"},
    {.chunk = 64, .kernels = "plain"},
};

static double relative_error(const float *got, const float *wanted, size_t n, double *norm)
{
    double difference = 0;

    for (size_t i = 0; i < n; i++) {
        difference +=
            ((double)got[i] - (double)wanted[i]) * ((double)got[i] - (double)wanted[i]);
        *norm += (double)wanted[i] * (double)wanted[i];
    }
    return difference;
}

/* The rows that the reference has, against the logits of all positions. */
static void check_rows(struct lr_arena *arena, const char *family, const struct lr_json *c,
                       const float *logits, uint32_t vocab)
{
    const struct lr_json *positions = lr_json_get(c, "positions");
    struct lr_str name;
    double difference = 0, norm = 0;

    assert_true(lr_json_str(lr_json_get(c, "logits_file"), &name));
    struct lr_str rows = family_file(arena, family, lr_arena_copy(arena, name));
    assert_int_equal(rows.len, (size_t)positions->count * vocab * sizeof(float));
    float *wanted = lr_arena_alloc(arena, rows.len);
    memcpy(wanted, rows.ptr, rows.len);
    for (uint32_t i = 0; i < positions->count; i++) {
        uint64_t at = 0;
        assert_true(lr_json_u64(&positions->items[i], &at));
        difference +=
            relative_error(logits + at * vocab, wanted + (size_t)i * vocab, vocab, &norm);
    }
    if (!(sqrt(difference / norm) <= 1e-5))
        fail_msg("%s: relative error %g", family, sqrt(difference / norm));
}

static void check_case(struct lr_arena *arena, const char *family, const struct lr_json *c)
{
    uint32_t count;
    uint32_t *ids = json_ids(arena, lr_json_get(c, "ids"), &count);
    float *first = NULL;

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        char dir[512];
        struct run r;
        snprintf(dir, sizeof(dir), FAMILIES "%s", family);
        run_open(&r, dir, &ways[i]);
        float *logits = run_logits(&r, ids, count);
        uint32_t vocab = r.facts.vocab_rows;
        if (i == 0)
            check_rows(arena, family, c, logits, vocab);
        else if (memcmp(first, logits, (size_t)count * vocab * sizeof(*logits)) != 0)
            fail_msg("%s: way %zu of computing %u tokens gives other bits", family, i, count);
        if (i == 0)
            first = logits;
        else
            free(logits);
        run_close(&r);
    }
    free(first);
}

static void check_models(const char *const *names, size_t count)
{
    for (size_t f = 0; f < count; f++) {
        struct lr_arena arena;
        lr_arena_init(&arena, ARENA);
        const struct lr_json *cases =
            lr_json_get(family_json(&arena, names[f], "golden.json"), "cases");
        assert_true(lr_json_is(cases, LR_JSON_OBJECT) && cases->count > 0);
        for (uint32_t i = 0; i < cases->count; i++)
            check_case(&arena, names[f], &cases->members[i].value);
        lr_arena_free(&arena);
    }
}

static void
families_give_the_logits_of_transformers_with_the_same_bits_in_every_way(void **state)
{
    (void)state;
    check_models(families, FAMILIES_COUNT);
}

static void
quantized_weights_give_the_logits_of_their_values_with_the_same_bits_in_every_way(void **state)
{
    (void)state;
    check_models(formats, FORMATS_COUNT);
}

/* The state of a sequence after its first half, kept as a snapshot and loaded into another
 * slot, continues with the same bits. */
static void a_snapshot_continues_with_the_same_bits_in_another_slot(void **state)
{
    static const char *const recurrent[] = {"qwen3.5", "nemotron-h", "granite-hybrid",
                                            "lfm2-moe"};
    enum { TOKENS = 96, HALF = 64 };
    uint32_t ids[TOKENS];

    (void)state;
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * 37 + 11) % 96;
    for (size_t f = 0; f < sizeof(recurrent) / sizeof(recurrent[0]); f++) {
        const struct how how = {.chunk = 64, .beside = 1};
        struct lr_error err = {0};
        char dir[512];
        struct run r;
        snprintf(dir, sizeof(dir), FAMILIES "%s", recurrent[f]);
        run_open(&r, dir, &how);
        size_t vocab = r.facts.vocab_rows, bytes = (TOKENS - HALF) * vocab * sizeof(float);
        float *whole = malloc(bytes), *continued = malloc(bytes);
        assert_true(r.plan.snapshots > 0 && r.plan.state_bytes > 0);
        struct serving_step steps[] = {run_step(&r, 0, ids, 0, HALF),
                                       run_step(&r, 0, ids, HALF, TOKENS - HALF),
                                       run_step(&r, 1, ids, HALF, TOKENS - HALF)};
        steps[0].snapshot_save = 0;
        steps[1].logits = whole;
        steps[2].snapshot_load = 0;
        steps[2].logits = continued;
        for (uint32_t k = 0; k < r.plan.kind_count; k++)
            steps[2].pages[k] = r.pages[0][k]; /* the keys of the first half */
        for (size_t i = 0; i < 3; i++) {
            const struct serving_batch batch = {
                .steps = &steps[i], .count = 1, .tokens = steps[i].count};
            assert_int_equal(native_backend_cpu()->forward(r.backend, &batch, &err), LR_OK);
        }
        assert_memory_equal(whole, continued, bytes);
        free(whole);
        free(continued);
        run_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            families_give_the_logits_of_transformers_with_the_same_bits_in_every_way),
        cmocka_unit_test(
            quantized_weights_give_the_logits_of_their_values_with_the_same_bits_in_every_way),
        cmocka_unit_test(a_snapshot_continues_with_the_same_bits_in_another_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
