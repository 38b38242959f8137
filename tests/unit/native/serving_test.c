/* Models of the native engine under the scheduler: KV pages of several kinds and snapshots of
 * recurrent state come and go, move and are found again, and no answer changes. */
#include "tests/unit/engine_recorder.h"

#include <stdio.h>

#include "base/file.h"
#include "engines/native/engine.h"
#include "model/weights.h"

#ifndef LR_SOURCE_DIR
#define LR_SOURCE_DIR "."
#endif

enum { VOCABULARY = 60, PROMPT = 300, ANSWER = 40, CHUNK = 64 };

/* With full attention and recurrent state, with several kinds of recurrent layers, with windows
 * and shared layers, with latent pages; in 4 bits and in FP8. */
static const char *const families[] = {
    "qwen3.5", "nemotron-h",  "granite-hybrid",           "lfm2-moe",
    "gemma4",  "deepseek-v3", "../formats/ct-w4a16-asym", "../formats/ct-fp8-block"};
enum { FAMILIES_COUNT = sizeof(families) / sizeof(families[0]) };

static inline const struct lr_engine_api *recorder_api(void)
{
    return native_engine_api();
}

static struct recorder *open_family(const char *family, uint32_t kv_tokens)
{
    const struct lr_engine_options options = {.size = sizeof(options),
                                              .max_tokens = kv_tokens,
                                              .max_context = 512,
                                              .max_sequences = 4,
                                              .prefill_chunk = CHUNK,
                                              .threads = 2};
    char dir[4096];

    (void)snprintf(dir, sizeof(dir), "%s/tests/fixtures/families/%s", LR_SOURCE_DIR, family);
    return recorder_open(dir, &options);
}

/* The prompt begins as that of `like` for `same` ids. */
static void submit(struct recorder *r, uint64_t id, const char *scope, uint32_t like,
                   uint32_t same)
{
    uint32_t ids[PROMPT];

    for (uint32_t i = 0; i < PROMPT; i++)
        ids[i] = 3 + (i * 31 + (i < same ? like : (uint32_t)id) * 7) % VOCABULARY;
    struct lr_engine_request q = plain_request(id, ids, PROMPT, ANSWER);
    q.ignore_stop = 1;
    q.cache_scope = scope;
    q.sampling.temperature = 1.0f;
    q.sampling.seed = like;
    must_submit(r, &q);
}

static void expect_same(struct recorder *r, uint64_t a, uint64_t b)
{
    assert_int_equal(record_of(r, a)->count, ANSWER);
    assert_int_equal(record_of(r, b)->count, ANSWER);
    assert_memory_equal(record_of(r, a)->tokens, record_of(r, b)->tokens,
                        ANSWER * sizeof(uint32_t));
}

static void a_prompt_that_is_found_gives_the_answer_of_one_that_is_computed(void **state)
{
    (void)state;
    for (int f = 0; f < FAMILIES_COUNT; f++) {
        struct recorder *r = open_family(families[f], 0);
        submit(r, 1, "one", 1, PROMPT);
        recorder_run(r);
        submit(r, 2, "one", 1, PROMPT);
        submit(r, 3, "two", 1, PROMPT);
        submit(r, 4, "one", 1, 200); /* meets the others up to there, in no chunk's end */
        recorder_run(r);
        submit(r, 5, "one", 1, 200);
        recorder_run(r);
        expect_same(r, 1, 2);
        expect_same(r, 1, 3);
        assert_true(record_of(r, 2)->usage.cached_tokens >= PROMPT - 44);
        assert_int_equal(record_of(r, 3)->usage.cached_tokens, 0);
        /* The first one finds where they part, where that was not kept; windows may be gone. */
        assert_true(record_of(r, 4)->usage.cached_tokens == 192 ||
                    record_of(r, 5)->usage.cached_tokens == 192);
        assert_int_equal(recorder_stats(r).kv_bytes_in_use, 0);
        recorder_close(r);
    }
}

/* A template may write another generation prompt into history than it wrote at the end of the
 * prompt, and drop the answer's reasoning: the next prompt parts from this one before its end.
 */
static void a_conversation_that_drops_its_reasoning_goes_on_from_the_prompt(void **state)
{
    enum { PAGE = 32, BEHIND = 60 };
    static const uint32_t parts_at[] = {PROMPT, PROMPT - 4, PROMPT - 20};

    (void)state;
    for (int f = 0; f < FAMILIES_COUNT; f++) {
        struct recorder *r = open_family(families[f], 0);
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t ids[PROMPT + BEHIND], same = parts_at[i];
            submit(r, 2 * i + 1, "one", 20 + i, PROMPT);
            recorder_run(r);
            for (uint32_t k = 0; k < same + BEHIND; k++)
                ids[k] = 3 + (k * 31 + (k < same ? 20 + i : 90) * 7) % VOCABULARY;
            struct lr_engine_request q = plain_request(2 * i + 2, ids, same + BEHIND, 1);
            q.ignore_stop = 1;
            q.cache_scope = "one";
            must_submit(r, &q);
            recorder_run(r);
            uint32_t found = record_of(r, 2 * i + 2)->usage.cached_tokens;
            if (same - found > 2 * PAGE)
                fail_msg("%s: %u of the %u ids that both prompts have are found", families[f],
                         found, same);
        }
        recorder_close(r);
    }
}

static void answers_stay_the_same_while_their_memory_grows_shrinks_and_moves(void **state)
{
    (void)state;
    for (int f = 0; f < FAMILIES_COUNT; f++) {
        struct recorder *r = open_family(families[f], 0);
        const struct lr_engine_api *api = native_engine_api();
        struct lr_error err = {0};
        uint64_t kv_bytes, base = recorder_stats(r).kv_bytes;
        int32_t busy;
        submit(r, 1, "one", 1, PROMPT);
        recorder_run(r);
        for (uint64_t id = 2; id <= 4; id++)
            submit(r, id, "one", id == 4 ? 1 : (uint32_t)id, PROMPT);
        do {
            assert_int_equal(api->step(r->model, &busy, &err), LR_OK);
            struct lr_engine_stats st = recorder_stats(r);
            uint64_t promised = st.kv_bytes_reclaimable;
            assert_int_equal(api->limit_kv(r->model, st.steps % 3 * base, &kv_bytes, &err),
                             LR_OK);
            assert_true(st.steps % 3 != 0 || kv_bytes == st.kv_bytes - promised);
        } while (busy);
        expect_same(r, 1, 4);
        assert_int_equal(recorder_stats(r).kv_bytes_in_use, 0);
        recorder_close(r);
    }
}

static void requests_that_lose_their_memory_to_others_have_the_same_answer(void **state)
{
    static const char *const scopes[] = {"one", NULL, "two", "two"};

    (void)state;
    for (int f = 0; f < FAMILIES_COUNT; f++) {
        struct recorder *r =
            open_family(families[f], 1050); /* three prompts and their answers */
        for (uint32_t i = 0; i < 4; i++) {
            submit(r, 10 + i, NULL, i, PROMPT);
            recorder_run(r);
        }
        for (uint32_t i = 0; i < 4; i++)
            submit(r, 20 + i, scopes[i], i, PROMPT);
        recorder_run(r);
        for (uint32_t i = 0; i < 4; i++)
            expect_same(r, 10 + i, 20 + i);
        recorder_close(r);
    }
}

/* A copy of the model in `to`, with a NaN among the codes of a matrix. */
static void damage(const char *from, const char *to)
{
    struct model_weights *weights;
    struct lr_arena arena;
    struct lr_error err;
    char path[4096];

    assert_int_equal(model_weights_open(from, &weights, &err), LR_OK);
    const struct model_tensor *t =
        model_weights_find(weights, "model.layers.0.self_attn.o_proj.weight");
    assert_non_null(t);
    lr_arena_init(&arena, 64 << 20);
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"config.json", "model.safetensors"};
        struct lr_str text;
        (void)snprintf(path, sizeof(path), "%s/%s", from, names[i]);
        assert_int_equal(lr_file_read(&arena, path, 16 << 20, &text, &err), LR_OK);
        char *copy = lr_arena_alloc(&arena, text.len);
        memcpy(copy, text.ptr, text.len);
        if (i == 1)
            copy[t->offset + 100] = 0x7F;
        (void)snprintf(path, sizeof(path), "%s/%s", to, names[i]);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(copy, 1, text.len, f), text.len);
        fclose(f);
    }
    lr_arena_free(&arena);
    model_weights_close(weights);
}

static void
a_request_ends_with_an_error_where_a_weight_makes_its_logits_no_numbers(void **state)
{
    const struct lr_engine_options options = {.size = sizeof(options), .threads = 2};
    char dir[] = "/tmp/damaged-XXXXXX", path[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    damage(LR_SOURCE_DIR "/tests/fixtures/formats/ct-fp8-block", dir);
    struct recorder *r = recorder_open(dir, &options);
    submit(r, 1, NULL, 1, 20);
    recorder_run(r);
    assert_int_equal(record_of(r, 1)->reason, LR_FINISH_ERROR);
    assert_int_equal(record_of(r, 1)->count, 0);
    assert_non_null(strstr(record_of(r, 1)->error.text, "not finite"));
    recorder_close(r);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir,
                       i ? "model.safetensors" : "config.json");
        remove(path);
    }
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_that_is_found_gives_the_answer_of_one_that_is_computed),
        cmocka_unit_test(a_conversation_that_drops_its_reasoning_goes_on_from_the_prompt),
        cmocka_unit_test(answers_stay_the_same_while_their_memory_grows_shrinks_and_moves),
        cmocka_unit_test(requests_that_lose_their_memory_to_others_have_the_same_answer),
        cmocka_unit_test(
            a_request_ends_with_an_error_where_a_weight_makes_its_logits_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
