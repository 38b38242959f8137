/* The published vocabulary of gpt-oss, if the reference files are beside the checkout: its
 * tokenizer.json is built once into the build folder.  Without them only the demo vocabulary is
 * tested (demo_test.c). */
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/unit/tokenizer/support.h"

#define SHARED LR_SOURCE_DIR "/../shared"
#define BUILT  LR_BINARY_DIR "/o200k-tokenizer.json"

static struct tokenizer *t;
static struct lr_arena arena;

static const struct lr_json *read_json(const char *path)
{
    struct lr_str text;
    struct lr_error err = {0};
    const struct lr_json *root = NULL;
    if (lr_file_read(&arena, path, 64 << 20, &text, &err) != LR_OK ||
        lr_json_parse(&arena, text, NULL, &root, &err) != LR_OK)
        fail_msg("%s: %s", path, err.text);
    return root;
}

static int open_real(void **state)
{
    (void)state;
    struct lr_error err = {0};
    lr_arena_init(&arena, 256 << 20);
    if (!lr_file_exists(BUILT) &&
        system("python3 " SHARED "/tokenizer/make_tokenizer_json.py " SHARED
               "/tokenizer/o200k_base.tiktoken " BUILT ".part > /dev/null && mv " BUILT
               ".part " BUILT) != 0)
        fail_msg("cannot build " BUILT);
    if (tokenizer_open_file(BUILT, &t, &err) != LR_OK)
        fail_msg("%s", err.text);
    return 0;
}

static int close_real(void **state)
{
    (void)state;
    tokenizer_free(t);
    lr_arena_free(&arena);
    return 0;
}

static void expect_case(const struct lr_json *text, const struct lr_json *list, bool control)
{
    struct lr_str string;
    struct tokenizer_ids ids;
    tokenizer_ids_init(&ids, 1 << 20);
    assert_true(lr_json_str(text, &string));
    uint32_t *want = lr_arena_array(&arena, list->count + 1, sizeof(*want));
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id;
        assert_true(lr_json_u64(&list->items[i], &id));
        want[i] = (uint32_t)id;
    }
    encode(t, string, control, &ids);
    expect_ids(&ids, want, list->count, string.len != 0 ? string.ptr : "");
    struct lr_buf back;
    lr_buf_init(&back, 1 << 20);
    assert_int_equal(tokenizer_decode(t, ids.items, ids.count, false, &back, NULL), LR_OK);
    assert_true(lr_str_eq(lr_buf_str(&back), string));
    lr_buf_free(&back);
    tokenizer_ids_free(&ids);
}

static void test_all_reference_texts_have_their_ids(void **state)
{
    (void)state;
    const struct lr_json *cases = read_json(SHARED "/tokenizer/cases.json");
    assert_true(cases->count >= 400);
    for (uint32_t i = 0; i < cases->count; i++)
        expect_case(lr_json_get(&cases->items[i], "text"), lr_json_get(&cases->items[i], "ids"),
                    false);
}

static void test_rendered_harmony_prompts_have_their_ids(void **state)
{
    (void)state;
    static const char *const names[] = {"afterfinal", "basic",    "multiturn", "nogen",
                                        "sys",        "toolloop", "tools"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[512];
        (void)snprintf(path, sizeof(path), SHARED "/harmony-golden/%s.json", names[i]);
        const struct lr_json *golden = read_json(path);
        expect_case(lr_json_get(golden, "rendered"), lr_json_get(golden, "ids"), true);
    }
}

static void test_published_vectors_hold(void **state)
{
    (void)state;
    EXPECT_IDS(t, "hello world", false, 24912, 2375);
    EXPECT_IDS(t, " <|constrain|>json", true, 220, 200003, 4108);
    EXPECT_IDS(t, "I'LL we'Ve THEY'RE", false, 40, 6, 7454, 581, 6, 27493, 95381, 6, 1099);
    EXPECT_IDS(t, "http://example.com//path/\n", false, 2903, 1684, 18582, 1136, 393, 4189,
               11124);
    EXPECT_IDS(t, "\xE3\x80\x80\xE5\x85\xA8\xE8\xA7\x92", false, 1397, 5145, 36205);
    EXPECT_IDS(t,
               "e\xCC\x81"
               "clair",
               false, 68, 13430, 49243);
    EXPECT_IDS(t, "<|start|>user<|message|>What is 2 + 2?<|end|><|start|>assistant", true,
               200006, 1428, 200008, 4827, 382, 220, 17, 659, 220, 17, 30, 200007, 200006,
               173781);
    EXPECT_IDS(t, "<|start|>user", false, 27, 91, 5236, 91, 29, 1428);
}

/* Windows, closed characters and the cache of pieces, compared with the same text split where
 * no piece crosses: ids must not depend on a piece's surroundings. */
static void test_ids_of_a_long_text_are_those_of_its_lines(void **state)
{
    (void)state;
    uint64_t seed = 11;
    struct lr_buf text;
    struct tokenizer_ids whole, lines;
    lr_buf_init(&text, 8 << 20);
    tokenizer_ids_init(&whole, 1 << 24);
    tokenizer_ids_init(&lines, 1 << 24);
    size_t starts[400];
    for (size_t i = 0; i < 400; i++) {
        starts[i] = text.len;
        size_t kind = next_random(&seed) % 4, len = 1 + next_random(&seed) % 700;
        for (size_t j = 0; j < len; j++) {
            uint64_t r = next_random(&seed) >> 20;
            if (kind == 0)
                lr_buf_add_char(&text, (char)('a' + r % 26));
            else if (kind == 1)
                lr_buf_add_z(&text, r % 3 == 0 ? "\xEF\xBF\xBD" : "\xE3\x81\x82");
            else if (kind == 2)
                lr_buf_add_char(&text, (char)('a' + r % 2));
            else
                lr_buf_add_char(&text, (char)r);
        }
        lr_buf_add_z(&text,
                     "x\n"); /* the next line begins a piece: no line begins with a blank */
        lr_buf_add_z(&text, "Q");
    }
    for (size_t i = 0; i < 400; i++) {
        size_t end = i + 1 < 400 ? starts[i + 1] - 1 : text.len;
        size_t start = i == 0 ? 0 : starts[i] - 1;
        struct lr_error err = {0};
        assert_int_equal(
            tokenizer_encode(t, lr_str(text.data + start, end - start), false, &lines, &err),
            LR_OK);
    }
    encode(t, lr_buf_str(&text), false, &whole);
    expect_ids(&whole, lines.items, lines.count, "lines");
    lr_buf_free(&text);
    tokenizer_ids_free(&whole);
    tokenizer_ids_free(&lines);
}

int main(void)
{
    struct stat info;
    if (stat(SHARED "/tokenizer/cases.json", &info) != 0) {
        printf("no reference files at " SHARED "; the demo vocabulary is tested instead\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reference_texts_have_their_ids),
        cmocka_unit_test(test_rendered_harmony_prompts_have_their_ids),
        cmocka_unit_test(test_published_vectors_hold),
        cmocka_unit_test(test_ids_of_a_long_text_are_those_of_its_lines),
    };
    return cmocka_run_group_tests(tests, open_real, close_real);
}
