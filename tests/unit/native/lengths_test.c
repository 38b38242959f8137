/* Where keys depend on the length of the prompt, a prompt finds only cached pages with its own
 * angles. */
#include <unistd.h>

#include "engines/native/engine.h"
#include "tests/unit/native/support.h"

enum { ARENA = 1 << 20 };

static uint32_t cached;

static void on_done(void *ctx, uint64_t id, enum lr_finish reason, const struct lr_usage *usage,
                    const struct lr_error *error)
{
    (void)ctx;
    (void)id;
    assert_int_equal(reason, LR_FINISH_LENGTH);
    assert_int_equal(error != NULL ? error->code : LR_OK, LR_OK);
    cached = usage->cached_tokens;
}

static void on_token(void *ctx, uint64_t id, const struct lr_token *token)
{
    (void)ctx;
    (void)id;
    (void)token;
}

/* A folder with qwen3's weights, this context and this rope. */
static void make_model(uint32_t context, const char *rope, char dir[64])
{
    struct lr_arena arena;
    char path[128], text[4096];
    const char *from = "\"max_position_embeddings\": 2048";

    lr_arena_init(&arena, ARENA);
    snprintf(dir, 64, "/tmp/native-lengths-XXXXXX");
    assert_non_null(mkdtemp(dir));
    struct lr_str config = family_file(&arena, "qwen3", "config.json");
    const char *at = strstr(config.ptr, from);
    assert_non_null(at);
    int n = snprintf(text, sizeof(text),
                     "%.*s\"max_position_embeddings\": %u, \"rope_parameters\": %s%s",
                     (int)(at - config.ptr), config.ptr, context, rope, at + strlen(from));
    snprintf(path, sizeof(path), "%s/config.json", dir);
    assert_int_equal(lr_file_write_atomic(path, lr_str(text, (size_t)n), 0600, NULL), LR_OK);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    assert_int_equal(lr_file_write_atomic(
                         path, family_file(&arena, "qwen3", "model.safetensors"), 0600, NULL),
                     LR_OK);
    lr_arena_free(&arena);
}

/* How many ids of the prompt are found, of 0, 1, 2, ... count - 1. */
static uint32_t found(struct lr_engine_model *model, uint64_t id, uint32_t count)
{
    struct lr_error err = {0};
    uint32_t ids[256];
    int32_t busy = 1;

    for (uint32_t i = 0; i < count; i++)
        ids[i] = i % 96;
    const struct lr_engine_request request = {
        .size = sizeof(request),
        .id = id,
        .prompt_ids = ids,
        .prompt_id_count = count,
        .sampling = {.size = sizeof(request.sampling), .top_p = 1, .repetition_penalty = 1},
        .max_tokens = 1,
        .ignore_stop = 1,
        .cache_scope = "key"};
    assert_int_equal(native_engine_api()->submit(model, &request, &err), LR_OK);
    while (busy)
        assert_int_equal(native_engine_api()->step(model, &busy, &err), LR_OK);
    return cached;
}

static void check(uint32_t context, const char *rope, const uint32_t prompts[4],
                  const uint32_t expected[4])
{
    const struct lr_engine_host host = {
        .size = sizeof(host), .on_token = on_token, .on_done = on_done};
    struct lr_engine_model *model;
    struct lr_error err = {0};
    char dir[64];

    make_model(context, rope, dir);
    if (native_engine_api()->open(&host, dir, NULL, &model, &err) != LR_OK)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < 4; i++)
        if (found(model, i + 1, prompts[i]) != expected[i])
            fail_msg("%s: prompt %u finds %u ids, expected %u", rope, i, cached, expected[i]);
    native_engine_api()->close(model);
    assert_int_equal(lr_dir_remove(dir, &err), LR_OK);
}

static void a_prompt_finds_only_pages_with_its_own_angles(void **state)
{
    static const uint32_t prompts[] = {60, 100, 62, 130};

    (void)state;
    /* One kind of angles: each finds all whole pages of those before. */
    check(256, "null", prompts, (const uint32_t[]){0, 32, 32, 96});
    /* Two kinds: up to 64 ids, and more. */
    check(256,
          "{\"type\":\"longrope\",\"original_max_position_embeddings\":64,\"short_factor\":"
          "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"long_factor\":"
          "[4,4,4,4,4,4,4,4,4,4,4,4,4,4,4,4]}",
          prompts, (const uint32_t[]){0, 0, 32, 96});
    /* Beyond 64 ids each length has its own. */
    check(64, "{\"type\":\"dynamic\",\"factor\":4}", (const uint32_t[]){60, 100, 100, 130},
          (const uint32_t[]){0, 0, 96, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_finds_only_pages_with_its_own_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
