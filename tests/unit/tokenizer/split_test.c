/* The pre-tokenizer: the hand-written scanner splits exactly like the pattern on PCRE2, and
 * patterns that the two regex engines interpret differently are rewritten or refused. */
#include "tests/unit/tokenizer/support.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer/internal.h"
#include "tokenizer/scan.h"

/* Characters of every class that the pattern distinguishes, from every plane. */
static const char *const alphabet[] = {
    "a",
    "Z",
    "s",
    "S",
    "t",
    "T",
    "e",
    "E",
    "l",
    "L",
    "m",
    "d",
    "v",
    "R",
    "'",
    "'",
    "'s",
    "'LL",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\xC2\xA0",
    "\xC2\x85",
    "\xE3\x80\x80",
    "\xE1\xA0\x8E",
    "1",
    "23",
    "4567",
    "\xC2\xB2",
    "\xE0\xA5\xA7",
    "/",
    "!",
    "\"",
    "<|",
    ".",
    "_",
    "\xE2\x82\xAC",
    "\xC3\xA9",
    "\xC3\x89",
    "\xC7\x85",
    "\xCA\xB0",
    "\xCC\x81",
    "e\xCC\x81",
    "\xE6\x97\xA5",
    "\xE3\x80\x87",
    "\xE3\x80\x81",
    "\xE3\x80\x85",
    "\xE2\xBA\x80",
    "\xF0\xA0\x80\x80",
    "\xE3\x81\x82",
    "\xD7\x90",
    "\xC5\xBF",
    "\xF0\x9F\x92\x96",
    "\xEF\xB8\x8F",
    "\xE2\x80\x8D",
    "\xF0\x90\x90\x80",
    "\xF0\x90\x90\xA8",
    "\xF3\xA0\x84\x80",
    "\xF3\xB0\x80\x80",
    "\xF4\x8F\xBF\xBF",
    "\xEF\xBF\xBD",
    "\xF0\xA0\x80\x80",
    "\xEE\x80\x80",
    "\xE2\x80\xA8",
};
enum { ALPHABET = sizeof(alphabet) / sizeof(alphabet[0]) };

enum { VARIANTS = 7 };

static struct split_classes *classes[VARIANTS];
static pcre2_code *codes[VARIANTS];

static int open_oracle(void **state)
{
    (void)state;
    struct lr_error err;
    assert_int_equal(tokenizer_scan_variant_count, VARIANTS);
    for (size_t i = 0; i < VARIANTS; i++) {
        void *compiled = NULL;
        const struct scan_variant *variant = &tokenizer_scan_variants[i];
        assert_int_equal(tokenizer_scan_classes(variant, &classes[i], &err), LR_OK);
        assert_int_equal(tokenizer_split_compile(lr_str_z(variant->pattern), false,
                                                 "the pattern", &compiled, &err),
                         LR_OK);
        codes[i] = compiled;
    }
    return 0;
}

static int close_oracle(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        free(classes[i]);
        pcre2_code_free(codes[i]);
    }
    return 0;
}

static void compare_one(const pcre2_code *pattern, const struct split_classes *table,
                        struct lr_str text)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    for (size_t at = 0; at < text.len;) {
        int rc = pcre2_match(pattern, (PCRE2_SPTR)text.ptr, text.len, at, 0, data, NULL);
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
        const char *end = tokenizer_scan(table, text.ptr + at, text.ptr + text.len);
        if (rc < 1 || found[0] != at || found[1] != (size_t)(end - text.ptr)) {
            struct lr_buf quoted;
            lr_buf_init(&quoted, 1 << 20);
            lr_json_quote(&quoted, text);
            fail_msg("%s at %zu: the pattern ends at %zu, the scanner at %zu",
                     lr_buf_z(&quoted), at, (size_t)found[1], (size_t)(end - text.ptr));
        }
        at = found[1];
    }
    pcre2_match_data_free(data);
}

static void compare(struct lr_str text)
{
    for (size_t i = 0; i < VARIANTS; i++)
        compare_one(codes[i], classes[i], text);
}

static void test_the_scanner_splits_as_the_pattern_does_on_random_text(void **state)
{
    (void)state;
    uint64_t seed = 7;
    char text[256];
    for (int round = 0; round < 40000; round++) {
        size_t len = 0, count = 1 + next_random(&seed) % 12;
        /* Few different pieces per text, so that runs and repetitions occur. */
        size_t first = next_random(&seed), step = 1 + next_random(&seed) % ALPHABET;
        for (size_t i = 0; i < count; i++) {
            const char *piece = alphabet[(first + step * (next_random(&seed) % 4)) % ALPHABET];
            memcpy(text + len, piece, strlen(piece));
            len += strlen(piece);
        }
        compare(lr_str(text, len));
    }
}

static void test_every_character_has_the_class_the_pattern_gives_it(void **state)
{
    (void)state;
    char text[8];
    for (uint32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 13) {
        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        text[0] = 'A';
        size_t len = 1 + lr_utf8_encode(c, text + 1);
        text[len++] = 'b';
        compare(lr_str(text, len));
    }
}

/* Scanning a run again and again would take hours here. */
static void test_long_runs_take_linear_time(void **state)
{
    (void)state;
    static const char *const runs[] = {" ",        "A", "a",   "\n",
                                       "\xCC\x81", "!", " \n", "A\xCA\xB0"};
    enum { LEN = 1 << 20 };
    char *text = malloc(LEN + 8);
    for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
        size_t len = 0, pieces = 0;
        for (; len < LEN; len += strlen(runs[r]))
            memcpy(text + len, runs[r], strlen(runs[r]));
        text[len++] = 'x';
        for (size_t i = 0; i < VARIANTS; i++)
            for (const char *at = text, *end = text + len; at < end; pieces++)
                at = tokenizer_scan(classes[i], at, end);
        assert_true(pieces >= 1);
    }
    free(text);
}

static lr_code compiles(const char *pattern, struct lr_error *err)
{
    void *compiled = NULL;
    lr_code rc =
        tokenizer_split_compile(lr_str_z(pattern), false, "the pattern", &compiled, err);
    tokenizer_split_free_code(compiled);
    return rc;
}

static void test_what_oniguruma_reads_differently_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\\w+",  "\\bx", "a{1,3}+", "[^a-z&&[^b]]", "[a[b]]", "[a&&b]", "\\h",
        "[\\S]", "(",    "[a",      "\\",           "\\R",    "",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lr_error err = {0};
        assert_int_equal(compiles(bad[i], &err), LR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "the pattern"));
    }
    assert_int_equal(compiles("\\p{N}{1,3}| ?[^\\s\\p{L}]++|\\S|\\[[^]]", NULL), LR_OK);
    assert_int_equal(compiles("[\\p{L}&&[^\\p{Han}]]+", NULL), LR_OK);
}

static void test_a_mongolian_vowel_separator_is_no_space(void **state)
{
    (void)state;
    struct made made = {.pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                                         "\"Split\",\"pattern\":{\"Regex\":\"\\\\s\"},"
                                         "\"behavior\":\"Isolated\"}," BYTE_LEVEL "]}"};
    /* With ignore_merges a piece that is a token shows where the text was split. */
    static const struct made_merge merges[] = {{"a", "\xE1"},
                                               {"\xA0", "\x8E"},
                                               {"a\xE1", "\xA0\x8E"},
                                               {"a", "\xC2"},
                                               {"a\xC2", "\x85"}};
    made.merges = merges;
    made.merge_count = 5;
    struct tokenizer *t = make_tokenizer(&made);
    EXPECT_IDS(t, "a\xE1\xA0\x8E", false, 258);         /* one piece */
    EXPECT_IDS(t, "a\xC2\x85", false, 'a', 0xC2, 0x85); /* U+0085 is a space */
    tokenizer_free(t);
}

static void test_byte_level_alone_splits_by_the_gpt2_pattern(void **state)
{
    (void)state;
    static const struct made_merge merges[] = {{"o", " "}, {" ", "b"}, {"'", "s"}, {"o", "'"}};
    struct made made = {.merges = merges,
                        .merge_count = 4,
                        .pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"};
    struct tokenizer *t = make_tokenizer(&made);
    EXPECT_IDS(t, "o b", false, 'o', 257);
    EXPECT_IDS(t, "o's", false, 'o', 258);
    tokenizer_free(t);
}

static void test_add_prefix_space_puts_one_blank_before_a_run(void **state)
{
    (void)state;
    struct made made = {.pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                                         "\"use_regex\":true}",
                        .added = "{\"id\":300,\"content\":\"<x>\",\"special\":true}"};
    struct tokenizer *t = make_tokenizer(&made);
    EXPECT_IDS(t, "a b", false, ' ', 'a', ' ', 'b');
    EXPECT_IDS(t, " a", false, ' ', 'a');
    EXPECT_IDS(t, "a<x>b", true, ' ', 'a', 300, ' ', 'b');
    tokenizer_free(t);
}

static void test_splits_apply_one_after_another(void **state)
{
    (void)state;
    static const struct made_merge merges[] = {{"1", "2"}, {"a", "1"}, {"b", "c"}};
    struct made made = {
        .merges = merges,
        .merge_count = 3,
        .pre_tokenizer =
            "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
            "\"Regex\":\"[0-9]\"},\"behavior\":\"Isolated\"},{\"type\":\"Split\",\"pattern\":{"
            "\"String\":\"b.\"},\"behavior\":\"Isolated\"}," BYTE_LEVEL "]}"};
    struct tokenizer *t = make_tokenizer(&made);
    EXPECT_IDS(t, "a12bc", false, 'a', '1', '2', 258);
    EXPECT_IDS(t, "b.c", false, 'b', '.', 'c');
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_scanner_splits_as_the_pattern_does_on_random_text),
        cmocka_unit_test(test_every_character_has_the_class_the_pattern_gives_it),
        cmocka_unit_test(test_long_runs_take_linear_time),
        cmocka_unit_test(test_what_oniguruma_reads_differently_is_refused),
        cmocka_unit_test(test_a_mongolian_vowel_separator_is_no_space),
        cmocka_unit_test(test_byte_level_alone_splits_by_the_gpt2_pattern),
        cmocka_unit_test(test_add_prefix_space_puts_one_blank_before_a_run),
        cmocka_unit_test(test_splits_apply_one_after_another),
    };
    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
