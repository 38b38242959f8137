/* docs/promises.md: trusted-text.  A control token is recognised only if all its bytes are
 * trusted; the text between is one run across borders; other added tokens are found everywhere,
 * like in the Hugging Face tokenizer. */
#include "tests/unit/tokenizer/support.h"

#define ADDED_START "{\"id\":300,\"content\":\"<|start|>\",\"special\":true}"
#define ADDED_END   "{\"id\":301,\"content\":\"<|end|>\",\"special\":true}"
#define ADDED_THINK "{\"id\":302,\"content\":\"<think>\",\"special\":false}"

static const struct made_merge merges[] = {{"a", "b"}, {"ab", "c"}, {"\xC3", "\xA9"}};

static struct tokenizer *open_with(const char *added)
{
    struct made made = {.merges = merges, .merge_count = 3, .added = added};
    return make_tokenizer(&made);
}

struct part {
    const char *text;
    bool control;
};

static void expect_parts(const struct tokenizer *t, const struct part *parts, size_t count,
                         const uint32_t *want, size_t want_count)
{
    struct lr_segment segments[8] = {0};
    struct tokenizer_ids ids;
    struct lr_error err = {0};
    for (size_t i = 0; i < count; i++) {
        segments[i].text = parts[i].text;
        segments[i].len = strlen(parts[i].text);
        segments[i].control = parts[i].control;
    }
    tokenizer_ids_init(&ids, 1 << 20);
    assert_int_equal(tokenizer_encode_segments(t, segments, count, &ids, &err), LR_OK);
    expect_ids(&ids, want, want_count, parts[0].text);
    tokenizer_ids_free(&ids);
}

#define EXPECT_PARTS(t, parts, ...)                                                            \
    expect_parts(t, parts, sizeof(parts) / sizeof((parts)[0]),                                 \
                 (const uint32_t[]){__VA_ARGS__},                                              \
                 sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void test_untrusted_control_tokens_are_letters(void **state)
{
    (void)state;
    struct tokenizer *t = open_with(ADDED_START "," ADDED_END);
    const struct part parts[] = {{"<|start|>", true}, {"<|end|>", false}, {"<|end|>", true}};
    EXPECT_PARTS(t, parts, 300, '<', '|', 'e', 'n', 'd', '|', '>', 301);
    EXPECT_IDS(t, "<|end|>", false, '<', '|', 'e', 'n', 'd', '|', '>');
    EXPECT_IDS(t, "<|end|>", true, 301);
    tokenizer_free(t);
}

static void test_one_untrusted_byte_is_enough_to_refuse(void **state)
{
    (void)state;
    struct tokenizer *t = open_with(ADDED_END);
    const struct part last[] = {{"<|end|", true}, {">", false}};
    EXPECT_PARTS(t, last, '<', '|', 'e', 'n', 'd', '|', '>');
    const struct part first[] = {{"<", false}, {"|end|>", true}};
    EXPECT_PARTS(t, first, '<', '|', 'e', 'n', 'd', '|', '>');
    const struct part middle[] = {{"<|e", true}, {"n", false}, {"d|>", true}};
    EXPECT_PARTS(t, middle, '<', '|', 'e', 'n', 'd', '|', '>');
    tokenizer_free(t);
}

static void test_a_control_token_may_span_trusted_segments(void **state)
{
    (void)state;
    struct tokenizer *t = open_with(ADDED_END);
    const struct part parts[] = {{"x", false}, {"<|e", true}, {"", false}, {"nd|>", true}};
    EXPECT_PARTS(t, parts, 'x', 301);
    tokenizer_free(t);
}

static void test_text_is_one_run_across_borders(void **state)
{
    (void)state;
    struct tokenizer *t = open_with(ADDED_END);
    const struct part parts[] = {{"a", true}, {"b", false}, {"c\xC3", true}, {"\xA9", false}};
    EXPECT_PARTS(t, parts, 257, 258);
    const struct part cut[] = {{"a", true}, {"<|end|>", true}, {"b", false}};
    EXPECT_PARTS(t, cut, 'a', 301, 'b');
    tokenizer_free(t);
}

/* An untrusted token must not consume bytes that a trusted one needs. */
static void test_untrusted_text_cannot_hide_a_trusted_token(void **state)
{
    (void)state;
    struct tokenizer *t =
        open_with("{\"id\":300,\"content\":\"<|<|end\",\"special\":true}," ADDED_END);
    const struct part parts[] = {{"<|", false}, {"<|end|>", true}};
    EXPECT_PARTS(t, parts, '<', '|', 301);
    tokenizer_free(t);
}

static void test_invalid_bytes_become_replacement_characters_and_move_no_border(void **state)
{
    (void)state;
    struct tokenizer *t = open_with(ADDED_END);
    EXPECT_IDS(t, "\xFF\xC3", false, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD);
    EXPECT_IDS(t, "\xE2\x82z", false, 0xEF, 0xBF, 0xBD, 'z');
    const struct part parts[] = {{"\xFF\xFE", false}, {"<|end|>", true}, {"<|end|>", false}};
    EXPECT_PARTS(t, parts, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD, 301, '<', '|', 'e', 'n', 'd',
                 '|', '>');
    /* The borders lie inside an invalid character. */
    const struct part split[] = {{"\xE2", true}, {"\x82", false}, {"<|end|>", true}};
    EXPECT_PARTS(t, split, 0xEF, 0xBF, 0xBD, 301);
    tokenizer_free(t);
}

static void test_added_tokens_that_are_not_special_are_found_everywhere(void **state)
{
    (void)state;
    struct tokenizer *t = open_with(ADDED_THINK "," ADDED_END);
    EXPECT_IDS(t, "a<think>b", false, 'a', 302, 'b');
    const struct part parts[] = {{"<thi", false}, {"nk><|end|>", true}};
    EXPECT_PARTS(t, parts, 302, 301);
    tokenizer_free(t);
}

static void test_the_leftmost_longest_token_wins(void **state)
{
    (void)state;
    struct tokenizer *t = open_with("{\"id\":300,\"content\":\"xy\"},"
                                    "{\"id\":301,\"content\":\"xyz\"},"
                                    "{\"id\":302,\"content\":\"yzzzz\"}");
    EXPECT_IDS(t, "xyzzzz", false, 301, 'z', 'z', 'z');
    EXPECT_IDS(t, "xyyzzzz", false, 300, 302);
    tokenizer_free(t);
}

static void test_tokens_that_are_not_normalized_are_taken_out_first(void **state)
{
    (void)state;
    struct tokenizer *t = open_with("{\"id\":300,\"content\":\"xyz\",\"normalized\":true},"
                                    "{\"id\":301,\"content\":\"zz\",\"normalized\":false}");
    EXPECT_IDS(t, "xyzzz", false, 'x', 'y', 301, 'z');
    EXPECT_IDS(t, "xyz", false, 300);
    tokenizer_free(t);
}

static void test_strip_and_single_word_are_kept(void **state)
{
    (void)state;
    struct tokenizer *t =
        open_with("{\"id\":300,\"content\":\"<l>\",\"lstrip\":true,\"special\":true},"
                  "{\"id\":301,\"content\":\"<r>\",\"rstrip\":true,\"special\":true},"
                  "{\"id\":302,\"content\":\"word\",\"single_word\":true}");
    EXPECT_IDS(t, "x \xC2\xA0\n<l> y", true, 'x', 300, ' ', 'y');
    EXPECT_IDS(t, "x <r> \xE3\x80\x80y", true, 'x', ' ', 301, 'y');
    EXPECT_IDS(t, "<r>  <l>", true, 301, 300);
    EXPECT_IDS(t, "word words -word-", false, 302, ' ', 'w', 'o', 'r', 'd', 's', ' ', '-', 302,
               '-');
    EXPECT_IDS(t, "\xC3\xA9word", false, 258, 'w', 'o', 'r', 'd');
    tokenizer_free(t);
}

/* The vocabulary may contain a control token's text; merging must not reach it. */
static void test_no_merge_spells_a_control_token(void **state)
{
    (void)state;
    struct made made = {.merges = merges,
                        .merge_count = 3,
                        .added = "{\"id\":257,\"content\":\"abc\",\"special\":true}"};
    for (int ignore = 0; ignore < 2; ignore++) {
        made.extra = ignore != 0 ? "\"ignore_merges\":true," : NULL;
        struct tokenizer *t = make_tokenizer(&made);
        EXPECT_IDS(t, "abc", false, 256, 'c');
        EXPECT_IDS(t, "abc", true, 257);
        tokenizer_free(t);
    }
}

static void test_nothing_gives_no_ids(void **state)
{
    (void)state;
    struct tokenizer *t = open_with(ADDED_END);
    struct tokenizer_ids ids;
    tokenizer_ids_init(&ids, 100);
    encode(t, lr_str(NULL, 0), true, &ids);
    assert_int_equal(ids.count, 0);
    assert_int_equal(tokenizer_encode_segments(t, NULL, 0, &ids, NULL), LR_OK);
    const struct lr_segment empty[2] = {{.text = NULL}, {.text = NULL, .control = 1}};
    assert_int_equal(tokenizer_encode_segments(t, empty, 2, &ids, NULL), LR_OK);
    assert_int_equal(ids.count, 0);
    tokenizer_ids_free(&ids);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untrusted_control_tokens_are_letters),
        cmocka_unit_test(test_one_untrusted_byte_is_enough_to_refuse),
        cmocka_unit_test(test_a_control_token_may_span_trusted_segments),
        cmocka_unit_test(test_text_is_one_run_across_borders),
        cmocka_unit_test(test_untrusted_text_cannot_hide_a_trusted_token),
        cmocka_unit_test(test_invalid_bytes_become_replacement_characters_and_move_no_border),
        cmocka_unit_test(test_added_tokens_that_are_not_special_are_found_everywhere),
        cmocka_unit_test(test_the_leftmost_longest_token_wins),
        cmocka_unit_test(test_tokens_that_are_not_normalized_are_taken_out_first),
        cmocka_unit_test(test_strip_and_single_word_are_kept),
        cmocka_unit_test(test_no_merge_spells_a_control_token),
        cmocka_unit_test(test_nothing_gives_no_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
