/* Stop strings and UTF-8 across token borders: the split never changes the text. */
#include "chat/stop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/utf8.h"

static void collect(void *ctx, struct lr_str text)
{
    assert_true(lr_utf8_valid(text));
    assert_true(text.len > 0);
    lr_buf_add_str(ctx, text);
}

static uint64_t random_state = 99;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 11) % n);
}

/* Feeds text in pieces; returns the output and whether a string matched. */
static bool run(const struct lr_str *stops, uint32_t count, const char *text, size_t step,
                struct lr_buf *out)
{
    struct chat_stop s;
    bool matched = false;
    chat_stop_init(&s, stops, count);
    lr_buf_clear(out);
    for (size_t at = 0; text[at] != '\0' && !matched;) {
        size_t n = strlen(text + at) < step ? strlen(text + at) : step;
        matched = chat_stop_feed(&s, lr_str(text + at, n), collect, out);
        at += n;
    }
    chat_stop_flush(&s, collect, out);
    return matched;
}

static void expect(const char *const *stops, const char *text, const char *wanted, bool matches)
{
    struct lr_str list[CHAT_STOP_MAX];
    uint32_t count = 0;
    struct lr_buf out;
    lr_buf_init(&out, 1 << 20);
    for (; stops[count] != NULL; count++)
        list[count] = lr_str_z(stops[count]);
    for (size_t step = 1; step < 40; step++) {
        assert_int_equal(run(list, count, text, step, &out), matches);
        assert_string_equal(lr_buf_z(&out), wanted);
    }
    lr_buf_free(&out);
}

#define STOPS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void text_is_cut_exactly_where_a_stop_string_begins(void **state)
{
    (void)state;
    expect(STOPS("END"), "one END two", "one ", true);
    expect(STOPS("END"), "END", "", true);
    expect(STOPS("END"), "EEND", "E", true);
    expect(STOPS("aab"), "aaaab", "aa", true);
    expect(STOPS("\n\n"), "a\nb\n\nc", "a\nb", true);
}

static void text_that_only_begins_like_a_stop_string_is_returned(void **state)
{
    (void)state;
    expect(STOPS("END"), "one EN", "one EN", false);
    expect(STOPS("END"), "one E N D", "one E N D", false);
    expect(STOPS("aab", "zz"), "aaazaa", "aaazaa", false);
}

static void the_string_that_ends_first_wins(void **state)
{
    (void)state;
    expect(STOPS("abc", "b"), "xabc", "xa", true);
    expect(STOPS("bcd", "abcd"), "xabcd", "x", true);
    expect(STOPS("four", "or", "o", "r"), "for four", "f", true);
}

/* The result of a reader that sees letter by letter. */
static size_t naive(const char *text, const struct lr_str *stops, uint32_t count, bool *matched)
{
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t best = LR_STR_NONE;
        for (uint32_t i = 0; i < count; i++) {
            size_t n = stops[i].len;
            if (n <= end && memcmp(text + end - n, stops[i].ptr, n) == 0 &&
                (best == LR_STR_NONE || end - n < best))
                best = end - n;
        }
        if (best != LR_STR_NONE) {
            *matched = true;
            return best;
        }
    }
    *matched = false;
    return strlen(text);
}

static void random_texts_are_cut_like_a_reader_of_letters_would(void **state)
{
    (void)state;
    struct lr_buf out;
    lr_buf_init(&out, 1 << 20);
    for (int round = 0; round < 20000; round++) {
        char text[40];
        char words[3][6];
        struct lr_str stops[3];
        uint32_t len = random_below(39);
        for (uint32_t i = 0; i < len; i++)
            text[i] = (char)('a' + random_below(3));
        text[len] = '\0';
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t n = 1 + random_below(5);
            for (uint32_t k = 0; k < n; k++)
                words[i][k] = (char)('a' + random_below(3));
            stops[i] = lr_str(words[i], n);
        }
        bool wanted;
        uint32_t count = 1 + random_below(3);
        size_t cut = naive(text, stops, count, &wanted);
        assert_int_equal(run(stops, count, text, 1 + random_below(10), &out), wanted);
        assert_int_equal(out.len, cut);
        assert_memory_equal(lr_buf_z(&out), text, cut);
    }
    lr_buf_free(&out);
}

static void long_text_passes_in_whole_characters(void **state)
{
    (void)state;
    struct lr_buf text, out;
    struct lr_str stop = LR_STR_LIT("\xE6\x97\xA5!");
    lr_buf_init(&text, 1 << 20);
    lr_buf_init(&out, 1 << 20);
    for (int i = 0; i < 3000; i++)
        lr_buf_add_z(&text, i % 7 == 0 ? "x" : "\xE6\x97\xA5");
    assert_false(run(&stop, 1, lr_buf_z(&text), 100000, &out));
    assert_int_equal(out.len, text.len);
    lr_buf_add_z(&text, "!tail");
    assert_true(run(&stop, 1, lr_buf_z(&text), 100000, &out));
    assert_int_equal(out.len, text.len - 5 - 3);
    lr_buf_free(&text);
    lr_buf_free(&out);
}

static void any_bytes_in_any_pieces_are_repaired_like_the_whole(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "a",       "\xC3\xA4", "\xE6\x97\xA5", "\xF0\x9F\x98\x80", "\xF0\x9F",
        "\x98",    "\xFF",     "\xE0\x80",     "\xED\xA0\x80",     "\xC3",
        "\xF4\x90"};
    struct lr_buf wanted, out;
    lr_buf_init(&wanted, 1 << 16);
    lr_buf_init(&out, 1 << 16);
    for (int round = 0; round < 20000; round++) {
        char text[64] = "";
        struct chat_utf8 u = {0};
        for (uint32_t n = random_below(12); n > 0; n--)
            strcat(text, parts[random_below(11)]);
        lr_buf_clear(&wanted);
        lr_buf_clear(&out);
        lr_utf8_add_repaired(&wanted, lr_str_z(text));
        for (size_t at = 0; at < strlen(text);) {
            size_t n = 1 + random_below((uint32_t)(strlen(text) - at));
            chat_utf8_feed(&u, lr_str(text + at, n), collect, &out);
            at += n;
        }
        chat_utf8_flush(&u, collect, &out);
        assert_string_equal(lr_buf_z(&out), lr_buf_z(&wanted));
    }
    lr_buf_free(&wanted);
    lr_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_exactly_where_a_stop_string_begins),
        cmocka_unit_test(text_that_only_begins_like_a_stop_string_is_returned),
        cmocka_unit_test(the_string_that_ends_first_wins),
        cmocka_unit_test(random_texts_are_cut_like_a_reader_of_letters_would),
        cmocka_unit_test(long_text_passes_in_whole_characters),
        cmocka_unit_test(any_bytes_in_any_pieces_are_repaired_like_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
