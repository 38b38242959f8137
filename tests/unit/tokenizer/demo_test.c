/* The demo model's tokenizer.json, many threads on one tokenizer, and linear time for every
 * text. */
#include <pthread.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/unit/tokenizer/support.h"

static struct tokenizer *t;

static int open_demo(void **state)
{
    (void)state;
    struct lr_error err = {0};
    if (tokenizer_open_file(LR_SOURCE_DIR "/models/demo/tokenizer.json", &t, &err) != LR_OK)
        fail_msg("%s", err.text);
    return 0;
}

static int close_demo(void **state)
{
    (void)state;
    tokenizer_free(t);
    return 0;
}

static void test_control_tokens_have_the_ids_of_the_file(void **state)
{
    (void)state;
    uint32_t id;
    assert_int_equal(tokenizer_vocab_size(t), 2048);
    assert_true(tokenizer_find_special(t, "<|return|>", &id));
    assert_int_equal(id, 2036);
    assert_true(tokenizer_find_special(t, "<|start|>", &id));
    assert_int_equal(id, 2040);
    assert_false(tokenizer_find_special(t, "<|nothing|>", &id));
}

/* Prompts encoded by the model's own tokenizer: control tokens, several scripts. */
static void test_golden_prompts_come_back_as_the_same_ids(void **state)
{
    (void)state;
    struct lr_arena arena;
    struct lr_str text;
    struct lr_error err = {0};
    const struct lr_json *root;
    lr_arena_init(&arena, 64 << 20);
    assert_int_equal(lr_file_read(&arena,
                                  LR_SOURCE_DIR "/tests/fixtures/golden/demo/golden.json",
                                  16 << 20, &text, &err),
                     LR_OK);
    assert_int_equal(lr_json_parse(&arena, text, NULL, &root, &err), LR_OK);
    const struct lr_json *cases = lr_json_get(root, "cases");
    assert_true(cases->count > 0);
    for (uint32_t i = 0; i < cases->count; i++) {
        const struct lr_json *list = lr_json_get(&cases->members[i].value, "ids");
        uint32_t *want = lr_arena_array(&arena, list->count, sizeof(*want));
        for (uint32_t j = 0; j < list->count; j++) {
            uint64_t id;
            assert_true(lr_json_u64(&list->items[j], &id));
            want[j] = (uint32_t)id;
        }
        struct lr_buf prompt;
        struct tokenizer_ids ids;
        lr_buf_init(&prompt, 1 << 20);
        tokenizer_ids_init(&ids, 1 << 20);
        assert_int_equal(tokenizer_decode(t, want, list->count, false, &prompt, &err), LR_OK);
        encode(t, lr_buf_str(&prompt), true, &ids);
        expect_ids(&ids, want, list->count, "golden prompt");
        lr_buf_free(&prompt);
        tokenizer_ids_free(&ids);
    }
    lr_arena_free(&arena);
}

static void test_decoding_gives_the_text_back(void **state)
{
    (void)state;
    static const char text[] =
        "Hello, World! It's 2024.\n\n  x = 12345678; // don't\r\n\t"
        "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E <|start|> \xF0\x9F\x92\x96 ";
    struct tokenizer_ids ids;
    struct lr_buf out;
    struct lr_error err = {0};
    tokenizer_ids_init(&ids, 1000);
    lr_buf_init(&out, 1000);
    encode(t, LR_STR_LIT(text), false, &ids);
    assert_int_equal(tokenizer_decode(t, ids.items, ids.count, false, &out, &err), LR_OK);
    assert_string_equal(lr_buf_z(&out), text);
    static const uint32_t with_control[] = {2040, 'A' - '!', 2041};
    lr_buf_clear(&out);
    assert_int_equal(tokenizer_decode(t, with_control, 3, false, &out, &err), LR_OK);
    assert_string_equal(lr_buf_z(&out), "<|start|>A<|end|>");
    lr_buf_clear(&out);
    assert_int_equal(tokenizer_decode(t, with_control, 3, true, &out, &err), LR_OK);
    assert_string_equal(lr_buf_z(&out), "A");
    static const uint32_t beyond = 2048;
    assert_int_equal(tokenizer_decode(t, &beyond, 1, false, &out, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "2048"));
    tokenizer_ids_free(&ids);
    lr_buf_free(&out);
}

enum { LONG = 200000 };
static char long_text[LONG];

static void *encode_long(void *out)
{
    struct tokenizer_ids *ids = out;
    if (tokenizer_encode(t, lr_str(long_text, LONG), true, ids, NULL) != LR_OK)
        ids->count = 0;
    return NULL;
}

static void test_threads_share_a_tokenizer(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (size_t i = 0; i < LONG; i++)
        long_text[i] = (char)(i % 3 != 0 ? 'a' + next_random(&seed) % 26 : next_random(&seed));
    struct tokenizer_ids ids[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        tokenizer_ids_init(&ids[i], 1 << 24);
        assert_int_equal(pthread_create(&threads[i], NULL, encode_long, &ids[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    assert_true(ids[0].count > 0);
    for (int i = 1; i < 4; i++)
        expect_ids(&ids[i], ids[0].items, ids[0].count, "threads");
    for (int i = 0; i < 4; i++)
        tokenizer_ids_free(&ids[i]);
}

/* ---- texts that are hard on a tokenizer ---- */

enum { HARD_BYTES = 256 << 10 };

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The best of three, because other programs cost CPU time too. */
static double time_of(const char *text)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        struct tokenizer_ids ids;
        struct lr_error err = {0};
        tokenizer_ids_init(&ids, (size_t)HARD_BYTES * 3);
        double start = cpu_seconds();
        if (tokenizer_encode(t, lr_str(text, HARD_BYTES), false, &ids, &err) != LR_OK)
            fail_msg("%s", err.text);
        double took = cpu_seconds() - start;
        best = took < best ? took : best;
        tokenizer_ids_free(&ids);
    }
    return best;
}

/* Work that is not linear takes hundreds of times as long at this size; bench_tokenizer
 * measures exact ratios with the real vocabulary. */
static void test_no_text_takes_ten_times_as_long_as_prose(void **state)
{
    (void)state;
    static const char prose[] = "The tide comes in twice a day, and the harbour master knows "
                                "when; nobody else has to. Ask again at noon.\n";
    static const char *const names[] = {"one letter", "blanks", "random bytes",
                                        "random letters", "newlines"};
    char *text = malloc(HARD_BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < HARD_BYTES; i++)
        text[i] = prose[i % (sizeof(prose) - 1)];
    double base = time_of(text);
    for (int kind = 0; kind < 5; kind++) {
        uint32_t seed = 1;
        for (size_t i = 0; i < HARD_BYTES; i++) {
            seed = seed * 1664525u + 1013904223u;
            const char bytes[] = {'a', ' ', (char)(seed >> 24), (char)('a' + (seed >> 24) % 26),
                                  '\n'};
            text[i] = bytes[kind];
        }
        double took = time_of(text);
        if (took > 10 * base)
            fail_msg("%s: %.1f ms against %.1f", names[kind], took * 1e3, base * 1e3);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control_tokens_have_the_ids_of_the_file),
        cmocka_unit_test(test_golden_prompts_come_back_as_the_same_ids),
        cmocka_unit_test(test_decoding_gives_the_text_back),
        cmocka_unit_test(test_threads_share_a_tokenizer),
        cmocka_unit_test(test_no_text_takes_ten_times_as_long_as_prose),
    };
    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
