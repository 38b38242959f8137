/* The native engine on Vulkan gives the results of the processor, in any chunk and batch, with
 * state, vectors and pages that move.  Runs on lavapipe.  LR_LONG=1: every model of the
 * fixtures. */
#include "tests/unit/native/support.h"
#include "tests/unit/native/vulkan_support.h"

#ifdef NATIVE_VULKAN

enum { TOKENS = 75, HALF = 64, PAGE = 32 };
static const double LIMIT = 1e-3, WIDE_LIMIT = 2e-5;

static struct how on_vulkan(uint32_t chunk, uint32_t beside)
{
    return (struct how){.chunk = chunk,
                        .beside = beside,
                        .api = native_backend_vulkan(),
                        .device = "vulkan:0",
                        .extra_json = "{}"};
}

static void fill_ids(uint32_t ids[TOKENS])
{
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * 37 + 11) % 96;
}

static float *logits_of(const char *family, const struct how *how, uint32_t tokens,
                        size_t *count)
{
    uint32_t ids[TOKENS];
    char dir[512];
    struct run r;

    fill_ids(ids);
    (void)snprintf(dir, sizeof(dir), FAMILIES "%s", family);
    run_open(&r, dir, how);
    float *logits = run_logits(&r, ids, tokens);
    *count = (size_t)tokens * r.facts.vocab_rows;
    run_close(&r);
    return logits;
}

/* A whole prompt, and some tokens at a time beside other sequences, with keys and values in
 * float32; in float16 they change which experts a token has where scores are nearly equal, so
 * those are compared with the reference's rows, which were chosen without. */
static void check_model(const char *family)
{
    struct how cpu = {.chunk = 512},
               ways[] = {on_vulkan(512, 0), on_vulkan(5, 1), on_vulkan(13, 0)};
    size_t count, same;
    float *wanted = logits_of(family, &cpu, TOKENS, &count);

    for (size_t i = 0; i < (is_long() ? 3 : 2); i++) {
        ways[i].extra_json = "{\"kv\": \"f32\"}";
        float *got = logits_of(family, &ways[i], TOKENS, &same);
        assert_int_equal(count, same);
        double error = error_of(got, wanted, count);
        if (!(error <= WIDE_LIMIT))
            fail_msg("%s, way %zu: relative error %g", family, i, error);
        free(got);
    }
    free(wanted);
}

static void models_have_the_logits_of_the_processor_in_any_chunk_and_batch(void **state)
{
    static const char *const some[] = {"qwen3",
                                       "gpt-oss",
                                       "deepseek-v3",
                                       "qwen3.5",
                                       "gemma4",
                                       "nemotron-h",
                                       "lfm2-moe",
                                       "../formats/gptq-v2",
                                       "../formats/mlx-4bit"};

    (void)state;
    for (size_t i = 0; !is_long() && i < sizeof(some) / sizeof(some[0]); i++)
        check_model(some[i]);
    for (size_t i = 0; is_long() && i < FAMILIES_COUNT; i++)
        check_model(families[i]);
    for (size_t i = 0; is_long() && i < FORMATS_COUNT; i++)
        check_model(formats[i]);
}

/* Bindings so small that matrices and the experts of a layer are in several parts; they hold
 * one page of keys. */
static void a_tensor_in_parts_gives_the_same_numbers(void **state)
{
    static const struct {
        const char *family, *extra;
    } split[] = {
        {"qwen3-moe", "{\"binding_bytes\": 8192, \"allocation_bytes\": 20000}"},
        {"../formats/mlx-4bit", "{\"binding_bytes\": 8192, \"allocation_bytes\": 20000}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(split) / sizeof(split[0]); i++) {
        struct how how = on_vulkan(5, 0);
        size_t count;
        float *whole = logits_of(split[i].family, &how, PAGE, &count);
        how.extra_json = split[i].extra;
        float *parts = logits_of(split[i].family, &how, PAGE, &count);
        assert_memory_equal(whole, parts, count * sizeof(*whole));
        free(whole);
        free(parts);
    }
}

/* ---- steps ---- */

static void forward(struct run *r, struct serving_step *steps, uint32_t count)
{
    struct serving_batch batch = {.steps = steps, .count = count};
    struct lr_error err = {0};

    for (uint32_t i = 0; i < count; i++)
        batch.tokens += steps[i].count;
    if (run_api(&r->how)->forward(r->backend, &batch, &err) != LR_OK)
        fail_msg("%s", err.text);
}

static void open_family(struct run *r, const char *family, const struct how *how)
{
    char dir[512];

    (void)snprintf(dir, sizeof(dir), FAMILIES "%s", family);
    run_open(r, dir, how);
    r->prompt = TOKENS;
}

static void a_snapshot_continues_in_another_slot(void **state)
{
    static const char *const recurrent[] = {"qwen3.5", "nemotron-h", "lfm2-moe"};
    const struct how how = on_vulkan(HALF, 1);
    uint32_t ids[TOKENS];

    (void)state;
    fill_ids(ids);
    for (size_t f = 0; f < sizeof(recurrent) / sizeof(recurrent[0]); f++) {
        struct run r;
        open_family(&r, recurrent[f], &how);
        size_t n = (TOKENS - HALF) * (size_t)r.facts.vocab_rows;
        float *whole = malloc(n * sizeof(float)), *continued = malloc(n * sizeof(float));
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
        for (size_t i = 0; i < 3; i++)
            forward(&r, &steps[i], 1);
        assert_true(error_of(continued, whole, n) < 1e-6);
        free(whole);
        free(continued);
        run_close(&r);
    }
}

/* Pages move to other numbers and their memory grows and shrinks between two steps; the step
 * behind it sees the same keys. */
static void pages_keep_their_keys_when_they_move_and_when_their_number_changes(void **state)
{
    const struct how how = on_vulkan(HALF, 1);
    struct serving_move moves[2];
    uint32_t ids[TOKENS];
    struct lr_error err = {0};
    struct run r;

    (void)state;
    fill_ids(ids);
    open_family(&r, "qwen3", &how);
    size_t n = (TOKENS - HALF) * (size_t)r.facts.vocab_rows;
    float *plain = malloc(n * sizeof(float)), *moved = malloc(n * sizeof(float));
    struct serving_step first = run_step(&r, 0, ids, 0, HALF),
                        then = run_step(&r, 0, ids, HALF, TOKENS - HALF);
    forward(&r, &first, 1);
    then.logits = plain;
    forward(&r, &then, 1);
    for (uint32_t i = 0; i < 2; i++) {
        moves[i] = (struct serving_move){r.pages[0][0][i], 40 + i};
        r.pages[0][0][i] = 40 + i;
    }
    assert_int_equal(how.api->move(r.backend, 0, moves, 2, &err), LR_OK);
    assert_int_equal(how.api->resize(r.backend, 0, r.plan.kinds[0].pages + 64, &err), LR_OK);
    assert_int_equal(how.api->resize(r.backend, 0, 48, &err), LR_OK);
    then.logits = moved;
    forward(&r, &then, 1);
    assert_memory_equal(plain, moved, n * sizeof(float));
    free(plain);
    free(moved);
    run_close(&r);
}

/* Prompts, single tokens and steps that nobody samples in one batch: each sampled token is the
 * largest logit of its own last row. */
static void a_mixed_batch_samples_each_sequence_from_its_own_last_row(void **state)
{
    static const uint32_t counts[] = {1, 9, 1, 20};
    enum { STEPS = 4 };
    const struct how how = on_vulkan(HALF, STEPS);
    const struct lr_sampling greedy = {.size = sizeof(greedy), .top_p = 1};
    struct sampler_input input = {.sampling = &greedy};
    struct sampler_result sampled[STEPS] = {{0}};
    struct serving_step steps[STEPS];
    float *logits[STEPS];
    uint32_t ids[TOKENS];
    struct run r;

    (void)state;
    fill_ids(ids);
    open_family(&r, "qwen3.5", &how);
    size_t vocab = r.facts.vocab_rows;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < STEPS; i++) {
            steps[i] = run_step(&r, i, ids + i, 0, counts[i]);
            if (round == 0)
                steps[i].logits = logits[i] = calloc(counts[i] * vocab, sizeof(float));
            else if (i != 1) {
                steps[i].sample = &input;
                steps[i].sampled = &sampled[i];
            }
        }
        forward(&r, steps, STEPS);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        const float *row = logits[i] + (counts[i] - 1) * vocab;
        uint32_t best = 0;
        for (uint32_t k = 1; k < vocab; k++)
            best = row[k] > row[best] ? k : best;
        assert_int_equal(sampled[i].id, i != 1 ? best : 0);
        free(logits[i]);
    }
    run_close(&r);
}

static void texts_have_the_vectors_of_the_processor(void **state)
{
    static const char *const embedders[] = {"embeddinggemma", "qwen3-embedding", "bert",
                                            "modernbert", "xlm-roberta"};
    enum { TEXTS = 3, WIDTH = 1024 };
    static float vectors[2][TEXTS][WIDTH];
    uint32_t ids[TOKENS];

    (void)state;
    fill_ids(ids);
    for (size_t f = 0; f < (is_long() ? 5 : 2); f++) {
        for (int device = 0; device < 2; device++) {
            const struct how cpu = {.chunk = 30, .beside = TEXTS - 1},
                             gpu = on_vulkan(30, TEXTS - 1);
            struct serving_step steps[TEXTS];
            struct run r;
            open_family(&r, embedders[f], device == 0 ? &cpu : &gpu);
            assert_in_range(r.facts.dimensions, 1, WIDTH);
            for (uint32_t i = 0; i < TEXTS; i++) {
                steps[i] = run_step(&r, i, ids + 7 * i, 0, 20 + 5 * i);
                steps[i].vector = vectors[device][i];
            }
            forward(&r, steps, TEXTS);
            run_close(&r);
        }
        double error = error_of(vectors[1][0], vectors[0][0], (size_t)TEXTS * WIDTH);
        if (!(error <= LIMIT))
            fail_msg("%s: relative error %g", embedders[f], error);
    }
}

/* ---- plans ---- */

static void too_little_memory_is_refused_with_both_numbers(void **state)
{
    const struct serving_host host = {0};
    struct serving_options options = {.device = "vulkan:0", .memory_limit = 1 << 20};
    struct serving_plan plan;
    struct lr_error err = {0};
    void *model;

    (void)state;
    assert_int_equal(
        native_model_api()->open(&host, FAMILIES "qwen3-moe", &options, &model, &err), LR_OK);
    assert_int_equal(native_backend_vulkan()->plan(model, &options, &plan, &err),
                     LR_OUT_OF_RAM);
    assert_non_null(strstr(err.text, "may use 1048576"));
    options.memory_limit = 0;
    options.extra_json = "{\"binding_bytes\": 256}";
    assert_int_equal(native_backend_vulkan()->plan(model, &options, &plan, &err),
                     LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "binds at most 256 bytes"));
    native_model_api()->close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_have_the_logits_of_the_processor_in_any_chunk_and_batch),
        cmocka_unit_test(a_tensor_in_parts_gives_the_same_numbers),
        cmocka_unit_test(a_snapshot_continues_in_another_slot),
        cmocka_unit_test(pages_keep_their_keys_when_they_move_and_when_their_number_changes),
        cmocka_unit_test(a_mixed_batch_samples_each_sequence_from_its_own_last_row),
        cmocka_unit_test(texts_have_the_vectors_of_the_processor),
        cmocka_unit_test(too_little_memory_is_refused_with_both_numbers),
    };

    return cmocka_run_group_tests(tests, use_lavapipe, NULL);
}

#else
int main(void)
{
    return 0; /* this build has no Vulkan */
}
#endif
