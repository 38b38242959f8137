/* tokenizer/bpe.c: the lowest rank merges first, the leftmost of equals, for pieces of any
 * length and with every shortcut. */
#include "tests/unit/tokenizer/support.h"

/* A direct implementation of the rule; the reference for everything below. */
struct oracle {
    const struct tokenizer *t;
    size_t merge_count;
    struct {
        uint32_t left, right, both;
    } merges[64];
};

static uint32_t find_id(const struct tokenizer *t, const char *left, const char *right)
{
    char both[512];
    (void)snprintf(both, sizeof(both), "%s%s", left, right);
    for (uint32_t id = 0; id < tokenizer_vocab_size(t); id++) {
        const char *bytes;
        uint32_t len, flags;
        assert_true(tokenizer_token(t, id, &bytes, &len, &flags));
        if (len == strlen(both) && memcmp(bytes, both, len) == 0)
            return id;
    }
    fail_msg("no token %s", both);
    return 0;
}

static struct oracle make_oracle(const struct made *made, const struct tokenizer *t)
{
    struct oracle o = {.t = t};
    for (size_t i = 0; i < made->merge_count; i++) {
        const struct made_merge *m = &made->merges[i];
        uint32_t left = find_id(t, m->left, ""), right = find_id(t, m->right, "");
        for (size_t j = 0; j < o.merge_count; j++) /* the last occurrence counts */
            if (o.merges[j].left == left && o.merges[j].right == right)
                o.merges[j].left = UINT32_MAX;
        o.merges[o.merge_count].left = left;
        o.merges[o.merge_count].right = right;
        o.merges[o.merge_count++].both = find_id(t, m->left, m->right);
    }
    return o;
}

static size_t merge_by_rule(const struct oracle *o, struct lr_str text, uint32_t *ids)
{
    size_t n = text.len;
    for (size_t i = 0; i < n; i++)
        ids[i] = (unsigned char)text.ptr[i];
    for (bool merged = true; merged;) {
        merged = false;
        for (size_t m = 0; m < o->merge_count && !merged; m++)
            for (size_t i = 0; i + 1 < n && !merged; i++)
                if (ids[i] == o->merges[m].left && ids[i + 1] == o->merges[m].right) {
                    ids[i] = o->merges[m].both;
                    memmove(ids + i + 1, ids + i + 2, (n - i - 2) * sizeof(*ids));
                    n--;
                    merged = true;
                }
    }
    return n;
}

static void compare(const struct oracle *o, struct lr_str text)
{
    uint32_t want[2048];
    struct tokenizer_ids ids;
    assert_true(text.len <= 2048);
    tokenizer_ids_init(&ids, 1 << 20);
    encode(o->t, text, false, &ids);
    expect_ids(&ids, want, merge_by_rule(o, text, want), text.ptr);
    tokenizer_ids_free(&ids);
}

static void test_the_lowest_rank_merges_first_and_the_leftmost_of_equals(void **state)
{
    (void)state;
    static const struct made_merge merges[] = {{"b", "c"}, {"a", "b"}, {"a", "a"}, {"ab", "c"}};
    struct made made = {.merges = merges, .merge_count = 4};
    struct tokenizer *t = make_tokenizer(&made);
    EXPECT_IDS(t, "abc", false, 'a', 256);
    EXPECT_IDS(t, "ab", false, 257);
    EXPECT_IDS(t, "aaa", false, 258, 'a');
    EXPECT_IDS(t, "aaaaa", false, 258, 258, 'a');
    EXPECT_IDS(t, "x", false, 'x');
    tokenizer_free(t);
}

static void test_both_notations_of_merges_mean_the_same(void **state)
{
    (void)state;
    static const struct made_merge merges[] = {{"a", "b"}, {"\"", "\\"}, {" ", "\n"}};
    for (int joined = 0; joined < 2; joined++) {
        struct made made = {.merges = merges, .merge_count = 3, .joined_merges = joined != 0};
        struct tokenizer *t = make_tokenizer(&made);
        EXPECT_IDS(t, "ab\"\\ \n", false, 256, 257, 258);
        tokenizer_free(t);
    }
}

static void test_a_pair_that_is_listed_twice_has_its_last_rank(void **state)
{
    (void)state;
    static const struct made_merge merges[] = {{"a", "b"}, {"b", "c"}, {"a", "b"}};
    struct made made = {.merges = merges, .merge_count = 3};
    struct tokenizer *t = make_tokenizer(&made);
    EXPECT_IDS(t, "abc", false, 'a', 257);
    tokenizer_free(t);
}

static void test_ignore_merges_takes_a_piece_that_is_a_token_whole(void **state)
{
    (void)state;
    /* Merging makes "bc" first, so it can never make the token "abc" of "ab" + "c". */
    static const struct made_merge merges[] = {{"b", "c"}, {"a", "b"}, {"ab", "c"}};
    struct made made = {.merges = merges, .merge_count = 3};
    struct tokenizer *t = make_tokenizer(&made);
    EXPECT_IDS(t, "abc", false, 'a', 256);
    tokenizer_free(t);
    made.extra = "\"ignore_merges\":true,";
    t = make_tokenizer(&made);
    EXPECT_IDS(t, "abc", false, 258);
    EXPECT_IDS(t, "abcx", false, 'a', 256, 'x');
    tokenizer_free(t);
}

/* Merges in random order over few letters, including files where a token comes before its
 * parts, and where the encoding of a prefix changes when the text continues. */
static size_t random_merges(struct made_merge *merges, size_t count, char (*texts)[16],
                            const char *letters, uint64_t *seed)
{
    size_t text_count = strlen(letters), made = 0;
    for (size_t i = 0; i < text_count; i++)
        (void)snprintf(texts[i], 16, "%c", letters[i]);
    for (size_t tries = 0; made < count && tries < 1000; tries++) {
        const char *left = texts[next_random(seed) % text_count];
        const char *right = texts[next_random(seed) % text_count];
        if (strlen(left) + strlen(right) > 12)
            continue;
        char both[16];
        (void)snprintf(both, sizeof(both), "%s%s", left, right);
        memcpy(texts[text_count++], both, sizeof(both));
        merges[made++] = (struct made_merge){left, right};
    }
    for (size_t i = made - 1; i > 0; i--) { /* any order is a legal file */
        size_t j = next_random(seed) % (i + 1);
        struct made_merge saved = merges[i];
        merges[i] = merges[j];
        merges[j] = saved;
    }
    return made;
}

static void test_long_pieces_equal_the_rule_for_random_merges(void **state)
{
    (void)state;
    uint64_t seed = 42;
    for (int round = 0; round < 60; round++) {
        struct made_merge merges[40];
        char texts[64][16], text[700];
        struct made made = {.merges = merges};
        made.merge_count = random_merges(merges, 4 + (size_t)round % 30, texts,
                                         round % 2 != 0 ? "ab" : "abc", &seed);
        struct tokenizer *t = make_tokenizer(&made);
        struct oracle o = make_oracle(&made, t);
        for (int i = 0; i < 12; i++) {
            size_t len = 1 + next_random(&seed) % (i < 6 ? 60 : sizeof(text) - 1);
            bool periodic = i % 3 == 0;
            for (size_t j = 0; j < len; j++)
                text[j] =
                    periodic && j >= 3 ? text[j - 3] : (char)('a' + next_random(&seed) % 3);
            compare(&o, lr_str(text, len));
        }
        tokenizer_free(t);
    }
}

/* "xy" merges from last to first through the whole text, so no seam holds and the piece must be
 * merged as a whole. */
static void test_a_piece_whose_every_token_depends_on_its_end_is_exact(void **state)
{
    (void)state;
    static const struct made_merge merges[] = {
        {"b", "z"}, {"a", "bz"}, {"b", "abz"}, {"a", "b"}, {"b", "a"}};
    struct made made = {.merges = merges, .merge_count = 5};
    struct tokenizer *t = make_tokenizer(&made);
    struct oracle o = make_oracle(&made, t);
    char text[600];
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = i % 2 == 0 ? 'a' : 'b';
    for (size_t len = 400; len < 420; len++) {
        compare(&o, lr_str(text, len));
        char saved = text[len];
        text[len] = 'z';
        compare(&o, lr_str(text, len + 1));
        text[len] = saved;
    }
    tokenizer_free(t);
}

/* Tokens longer than a window may go back: the piece is merged as a whole. */
static void test_tokens_longer_than_a_window_are_exact(void **state)
{
    (void)state;
    enum { DOUBLINGS = 12, LEN = 20000 };
    static char letters[DOUBLINGS][(1 << DOUBLINGS) + 1], text[LEN];
    struct made_merge doubling[DOUBLINGS];
    for (int i = 0; i < DOUBLINGS; i++) {
        memset(letters[i], 'a', (size_t)1 << i);
        doubling[i] = (struct made_merge){letters[i], letters[i]};
    }
    memset(text, 'a', LEN);
    struct made made = {.merges = doubling, .merge_count = DOUBLINGS};
    struct tokenizer *t = make_tokenizer(&made);
    struct tokenizer_ids ids;
    tokenizer_ids_init(&ids, LEN);
    encode(t, lr_str(text, LEN), false, &ids);
    static const uint32_t want[] = {267, 267, 267, 267, 266, 265, 264, 260};
    expect_ids(&ids, want, 8, "20000 letters");
    tokenizer_ids_free(&ids);
    tokenizer_free(t);
}

/* A character whose bytes always merge first is treated as one symbol, but not beside a byte
 * that merges with a part of it. */
static void test_characters_are_taken_whole_only_where_nothing_can_come_between(void **state)
{
    (void)state;
    static const struct made_merge open[] = {{"\xC3", "\xA9"}, {"x", "\xC3\xA9"}};
    static const struct made_merge stolen[] = {{"x", "\xC3"}, {"\xC3", "\xA9"}};
    static const struct made_merge stolen_right[] = {{"\xA9", "x"}, {"\xC3", "\xA9"}};
    struct made made = {.merges = open, .merge_count = 2};
    struct tokenizer *t = make_tokenizer(&made);
    EXPECT_IDS(t, "x\xC3\xA9\xC3\xA9z", false, 257, 256, 'z');
    tokenizer_free(t);
    made.merges = stolen;
    t = make_tokenizer(&made);
    EXPECT_IDS(t, "x\xC3\xA9z\xC3\xA9", false, 256, 0xA9, 'z', 257);
    tokenizer_free(t);
    made.merges = stolen_right;
    t = make_tokenizer(&made);
    EXPECT_IDS(t, "\xC3\xA9x\xC3\xA9", false, 0xC3, 256, 257);
    tokenizer_free(t);
}

static void test_a_limit_on_ids_is_kept_and_named(void **state)
{
    (void)state;
    struct made made = {0};
    struct tokenizer *t = make_tokenizer(&made);
    struct tokenizer_ids ids;
    struct lr_error err = {0};
    tokenizer_ids_init(&ids, 10);
    assert_int_equal(tokenizer_encode(t, LR_STR_LIT("0123456789"), false, &ids, &err), LR_OK);
    assert_int_equal(ids.count, 10);
    assert_int_equal(tokenizer_encode(t, LR_STR_LIT("x"), false, &ids, &err),
                     LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "10"));
    tokenizer_ids_free(&ids);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_lowest_rank_merges_first_and_the_leftmost_of_equals),
        cmocka_unit_test(test_both_notations_of_merges_mean_the_same),
        cmocka_unit_test(test_a_pair_that_is_listed_twice_has_its_last_rank),
        cmocka_unit_test(test_ignore_merges_takes_a_piece_that_is_a_token_whole),
        cmocka_unit_test(test_long_pieces_equal_the_rule_for_random_merges),
        cmocka_unit_test(test_a_piece_whose_every_token_depends_on_its_end_is_exact),
        cmocka_unit_test(test_tokens_longer_than_a_window_are_exact),
        cmocka_unit_test(test_characters_are_taken_whole_only_where_nothing_can_come_between),
        cmocka_unit_test(test_a_limit_on_ids_is_kept_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
