/* Slices, UTF-8 and errors. */
#include "base/fail.h"
#include "base/str.h"
#include "base/utf8.h"
#include "tests/unit/base/support.h"

#include <errno.h>

static void slices_compare_by_bytes(void **state)
{
    (void)state;
    assert_true(lr_str_eq(lr_str(NULL, 0), lr_str("x", 0)));
    assert_false(lr_str_eq(lr_str_z("ab"), lr_str_z("a")));
    assert_true(lr_str_eq_nocase(lr_str_z("Content-TYPE"), lr_str_z("content-type")));
    assert_false(lr_str_eq_nocase(lr_str_z("\xC3\x84"), lr_str_z("\xC3\xA4")));
    assert_true(lr_str_cmp(lr_str_z("a"), lr_str_z("ab")) < 0);
    assert_true(lr_str_cmp(lr_str_z("b"), lr_str_z("ab")) > 0);
    assert_true(lr_str_cmp(lr_str_z("\xFF"), lr_str_z("a")) > 0);
    assert_true(lr_str_is_plain(lr_str_z("aZ09-"), "-_") &&
                lr_str_is_plain(lr_str(NULL, 0), ""));
    assert_false(lr_str_is_plain(lr_str_z("a/b"), "-_") ||
                 lr_str_is_plain(lr_str("a", 2), "-"));
    assert_true(lr_str_eq_secret(lr_str_z("k1"), lr_str_z("k1")));
    assert_false(lr_str_eq_secret(lr_str_z("k1"), lr_str_z("k2")));
}

static void a_copy_is_terminated_and_cut_to_its_buffer(void **state)
{
    (void)state;
    char out[4] = "xxx";
    LR_COPY(out, lr_str(NULL, 0));
    assert_string_equal(out, "");
    LR_COPY(out, lr_str_z("abc"));
    assert_string_equal(out, "abc");
    LR_COPY(out, lr_str_z("wxyz"));
    assert_string_equal(out, "wxy");
}

static void searching_finds_the_first_place(void **state)
{
    (void)state;
    struct lr_str s = lr_str_z("aab aab");
    assert_int_equal(lr_str_find(s, lr_str_z("ab")), 1);
    assert_int_equal(lr_str_find(s, lr_str_z("b a")), 2);
    assert_int_equal(lr_str_find(s, lr_str_z("")), 0);
    assert_true(lr_str_find(s, lr_str_z("abc")) == LR_STR_NONE);
    assert_true(lr_str_find(lr_str_z("a"), lr_str_z("aa")) == LR_STR_NONE);
    assert_true(lr_str_find_char(lr_str(NULL, 0), 'x') == LR_STR_NONE);
    assert_true(lr_str_starts(s, "aab") && lr_str_ends(s, " aab"));
    assert_true(lr_str_starts(lr_str(NULL, 0), "") && !lr_str_ends(lr_str_z("b"), "ab"));
}

static void splitting_yields_every_part_once(void **state)
{
    (void)state;
    struct lr_str rest = lr_str_z("a,,b,"), part;
    const char *expected[] = {"a", "", "b", ""};
    for (int i = 0; i < 4; i++) {
        assert_true(lr_str_split(&rest, ',', &part));
        assert_true(lr_str_eq_z(part, expected[i]));
    }
    assert_false(lr_str_split(&rest, ',', &part));
    assert_true(lr_str_eq_z(lr_str_trim(lr_str_z(" \t a b\r\n")), "a b"));
    assert_true(lr_str_eq_z(lr_str_sub(lr_str_z("hello"), 3, 99), "lo"));
    assert_int_equal(lr_str_sub(lr_str_z("hello"), 9, 3).len, 0);
}

static void numbers_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    uint64_t u;
    int64_t i;
    assert_true(lr_str_u64(lr_str_z("18446744073709551615"), &u) && u == UINT64_MAX);
    assert_false(lr_str_u64(lr_str_z("18446744073709551616"), &u));
    assert_true(lr_str_i64(lr_str_z("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_false(lr_str_i64(lr_str_z("-9223372036854775809"), &i));
    assert_false(lr_str_i64(lr_str_z("9223372036854775808"), &i));
    const char *bad[] = {"", "-", "+1", " 1", "1 ", "1x", "0x1", "--1"};
    for (size_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++)
        assert_false(lr_str_i64(lr_str_z(bad[n]), &i));
}

/* By Unicode's definition, independent of the tested code. */
static bool is_scalar(uint32_t c)
{
    return c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
}

static void every_scalar_value_survives_encoding_and_decoding(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char bytes[4];
        uint32_t back = 0;
        if (!is_scalar(c))
            continue;
        size_t len = lr_utf8_encode(c, bytes);
        if (lr_utf8_decode(bytes, len, &back) != (int)len || back != c)
            fail_msg("U+%04X", c);
        for (size_t cut = 1; cut < len; cut++)
            if (lr_utf8_decode(bytes, cut, &back) != -1)
                fail_msg("U+%04X cut to %zu", c, cut);
    }
}

/* All inputs of three bytes, compared with a decoder written from the bit patterns. */
static int slow_decode(const unsigned char *b, size_t len, uint32_t *out)
{
    int need = b[0] < 0x80       ? 1
               : b[0] >> 5 == 6  ? 2
               : b[0] >> 4 == 14 ? 3
               : b[0] >> 3 == 30 ? 4
                                 : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (need == 0 || (size_t)need > len)
        return 0;
    uint32_t c = need == 1 ? b[0] : b[0] & (0x7Fu >> need);
    for (int i = 1; i < need; i++) {
        if (b[i] >> 6 != 2)
            return 0;
        c = c << 6 | (b[i] & 0x3Fu);
    }
    *out = c;
    return c >= least[need] && is_scalar(c) ? need : 0;
}

static void decoding_agrees_with_the_definition_on_all_three_byte_inputs(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 1u << 24; n++) {
        unsigned char b[3] = {(unsigned char)(n >> 16), (unsigned char)(n >> 8),
                              (unsigned char)n};
        uint32_t got = 0, want = 0;
        if (b[0] < 0x80 && (b[1] | b[2]) != 0)
            continue; /* the first byte alone decides */
        int len = lr_utf8_decode((const char *)b, 3, &got);
        int wanted = slow_decode(b, 3, &want);
        if ((len > 0 ? len : 0) != wanted || (wanted != 0 && got != want))
            fail_msg("%02x %02x %02x: %d instead of %d", b[0], b[1], b[2], len, wanted);
    }
}

static void four_byte_forms_end_at_10ffff(void **state)
{
    (void)state;
    uint32_t c;
    assert_int_equal(lr_utf8_decode("\xF4\x8F\xBF\xBF", 4, &c), 4);
    assert_int_equal(c, 0x10FFFF);
    assert_int_equal(lr_utf8_decode("\xF4\x90\x80\x80", 4, &c), 0);
    assert_int_equal(lr_utf8_decode("\xF0\x8F\xBF\xBF", 4, &c), 0);
    assert_int_equal(lr_utf8_decode("\xF5\x80\x80\x80", 4, &c), 0);
}

static void repair_puts_one_mark_per_maximal_part(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"ok", "ok"},
        {"a\xFF"
         "b",
         "a?b"},
        {"\xE2\x82", "?"},
        {"\xE2\x82z", "?z"},
        {"\xED\xA0\x80", "???"},
        {"\xF0\x9F\x98", "?"},
        {"\xC0\xAF", "??"},
        {"\xE2\x82\xAC\xE2", "\xE2\x82\xAC?"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lr_buf got, want;
        lr_buf_init(&got, 100);
        lr_buf_init(&want, 100);
        lr_utf8_add_repaired(&got, lr_str_z(cases[i].in));
        for (const char *p = cases[i].out; *p != '\0'; p++) {
            if (*p == '?')
                lr_buf_add_z(&want, "\xEF\xBF\xBD");
            else
                lr_buf_add_char(&want, *p);
        }
        assert_string_equal(lr_buf_z(&got), lr_buf_z(&want));
        lr_buf_free(&got);
        lr_buf_free(&want);
    }
}

static void a_valid_prefix_ends_where_the_text_goes_wrong(void **state)
{
    (void)state;
    char text[40];
    for (size_t bad = 0; bad < sizeof(text); bad++) {
        memset(text, 'a', sizeof(text));
        text[bad] = (char)0x80;
        assert_int_equal(lr_utf8_valid_prefix(lr_str(text, sizeof(text))), bad);
    }
    assert_int_equal(lr_utf8_count(lr_str_z("a\xE2\x82\xAC\xF0\x9F\x98\x80")), 3);
}

static void an_error_carries_code_text_and_cause(void **state)
{
    (void)state;
    struct lr_error err;
    errno = ENOENT;
    assert_int_equal(lr_fail_errno(&err, LR_IO, "open %s", "x"), LR_IO);
    assert_string_equal(err.text, "open x: No such file or directory");
    assert_int_equal(lr_fail_prefix(&err, "loading %d", 7), LR_IO);
    assert_string_equal(err.text, "loading 7: open x: No such file or directory");
    assert_int_equal(lr_fail(NULL, LR_TIMEOUT, "unseen"), LR_TIMEOUT);
    assert_int_equal(lr_code_http(LR_OUT_OF_VRAM), 503);
    assert_string_equal(lr_code_name(LR_CONFLICT), "CONFLICT");
    assert_int_equal(lr_code_http(12345), 500);
    char long_text[2000];
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    (void)lr_fail(&err, LR_INTERNAL, "%s", long_text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    (void)lr_fail_prefix(&err, "%s", long_text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_compare_by_bytes),
        cmocka_unit_test(a_copy_is_terminated_and_cut_to_its_buffer),
        cmocka_unit_test(searching_finds_the_first_place),
        cmocka_unit_test(splitting_yields_every_part_once),
        cmocka_unit_test(numbers_are_read_whole_or_not_at_all),
        cmocka_unit_test(every_scalar_value_survives_encoding_and_decoding),
        cmocka_unit_test(decoding_agrees_with_the_definition_on_all_three_byte_inputs),
        cmocka_unit_test(four_byte_forms_end_at_10ffff),
        cmocka_unit_test(repair_puts_one_mark_per_maximal_part),
        cmocka_unit_test(a_valid_prefix_ends_where_the_text_goes_wrong),
        cmocka_unit_test(an_error_carries_code_text_and_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
