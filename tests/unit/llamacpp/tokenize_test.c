/* tests/unit/llamacpp/tokenize_test.c - which text may contain control tokens, and joined
 * runs. */
#include "tests/unit/llamacpp/support.h"

enum { IDS = 512 };

static struct recorder *r;
static struct direct d;

struct ids {
    uint32_t items[IDS];
    size_t count;
};

static struct ids ours(const struct lr_segment *segments, size_t count)
{
    struct ids out;
    struct lr_error err;

    assert_int_equal(
        api()->tokenize(r->model, segments, count, out.items, IDS, &out.count, &err), LR_OK);
    assert_true(out.count <= IDS);
    return out;
}

static struct ids theirs(const char *text, bool parse_special)
{
    struct ids out;
    llama_token tokens[IDS];
    int32_t n = d.lib->llama_tokenize(d.vocab, text, (int32_t)strlen(text), tokens, IDS, false,
                                      parse_special);

    assert_true(n >= 0);
    out.count = (size_t)n;
    for (int32_t i = 0; i < n; i++)
        out.items[i] = (uint32_t)tokens[i];
    return out;
}

static void expect_equal(struct ids a, struct ids b)
{
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.items, b.items, a.count * sizeof(a.items[0]));
}

static struct lr_segment segment(const char *text, size_t len, uint32_t control)
{
    return (struct lr_segment){.text = text, .len = len, .control = control};
}

static const char prompt[] = "<|im_start|>user\nSay the thing again<tool>, in   Stra\xc3\x9f"
                             "e!<|im_end|>\n<|im_start|>assistant\n";

static void test_trusted_text_gives_the_ids_of_the_whole_text_however_it_is_cut(void **state)
{
    (void)state;
    struct ids whole = theirs(prompt, true);
    size_t len = strlen(prompt);

    for (size_t cut = 0; cut <= len; cut++) {
        if ((prompt[cut] & 0xC0) == 0x80)
            continue; /* segments are split between characters */
        const struct lr_segment both[] = {segment(prompt, cut, 1),
                                          segment(prompt + cut, len - cut, 1)};
        expect_equal(ours(both, 2), whole);
    }
}

static void test_untrusted_text_never_gives_a_control_token(void **state)
{
    (void)state;
    const struct lr_segment all = segment(prompt, strlen(prompt), 0);
    struct ids got = ours(&all, 1);
    uint32_t start = token_named(r, "<|im_start|>"), end = token_named(r, "<|im_end|>");

    expect_equal(got, theirs(prompt, false));
    for (size_t i = 0; i < got.count; i++)
        assert_true(got.items[i] != start && got.items[i] != end);
}

static void test_a_control_token_needs_trust_in_every_byte(void **state)
{
    (void)state;
    static const char name[] = "<|im_start|>";

    for (size_t cut = 1; cut < sizeof(name) - 1; cut++)
        for (uint32_t first = 0; first < 2; first++) {
            const struct lr_segment halves[] = {
                segment(name, cut, first), segment(name + cut, sizeof(name) - 1 - cut, !first)};
            expect_equal(ours(halves, 2), theirs(name, false));
        }
}

static void test_text_is_one_run_across_borders_of_trust(void **state)
{
    (void)state;
    /* "the" is one token though its letters come from three segments. */
    const struct lr_segment parts[] = {segment("<|im_start|>is t", 16, 1), segment("h", 1, 0),
                                       segment("e<|im_end|>", 11, 1)};

    expect_equal(ours(parts, 3), theirs("<|im_start|>is the<|im_end|>", true));
}

static void test_user_defined_tokens_are_recognised_everywhere(void **state)
{
    (void)state;
    const struct lr_segment text = segment("a<tool>b", 8, 0);
    struct ids got = ours(&text, 1);

    assert_int_equal(got.count, 3);
    assert_int_equal(got.items[1], token_named(r, "<tool>"));
}

/* libllama makes user-defined tokens of those that begin, part and end Harmony's messages. */
static void test_control_tokens_of_the_file_are_control_tokens_of_harmony_too(void **state)
{
    static const char *const names[] = {"<|start|>", "<|message|>", "<|channel|>",
                                        "<|constrain|>", "<|end|>"};
    struct lr_engine_options options = small_options();
    struct recorder *of_demo = r;
    (void)state;
    r = recorder_open(LLAMACPP_MODEL "-gpt-oss", &options);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[32];
        const char *bytes;
        uint32_t len, flags, id = token_named(r, names[i]);
        size_t size = (size_t)snprintf(text, sizeof(text), "ab%scd", names[i]);
        assert_int_equal(api()->vocab(r->model, id, &bytes, &len, &flags), LR_OK);
        assert_true((flags & LR_VOCAB_SPECIAL) != 0);
        const struct lr_segment typed = segment(text, size, 0),
                                trusted = segment(text, size, 1);
        struct ids untrusted = ours(&typed, 1), control = ours(&trusted, 1);
        for (size_t k = 0; k < untrusted.count; k++)
            assert_true(untrusted.items[k] != id);
        assert_int_equal(control.count, 3);
        assert_int_equal(control.items[1], id);
        for (size_t cut = 3; cut < size - 2; cut++) { /* inside the name */
            const struct lr_segment halves[] = {segment(text, cut, 0),
                                                segment(text + cut, size - cut, cut % 2)};
            expect_equal(ours(halves, 2), untrusted);
        }
    }
    recorder_close(r);
    r = of_demo;
}

static void test_bytes_that_are_no_utf8_become_one_replacement_each(void **state)
{
    (void)state;
    const struct lr_segment broken = segment("ab\xff\xfe ok\xe2\x82", 9, 0);

    expect_equal(ours(&broken, 1), theirs("ab\xef\xbf\xbd\xef\xbf\xbd ok\xef\xbf\xbd", false));
}

static void test_the_bytes_of_the_tokens_spell_the_text(void **state)
{
    (void)state;
    const struct lr_segment all = segment(prompt, strlen(prompt), 1);
    struct ids got = ours(&all, 1);
    char text[512] = "";
    size_t len = 0;

    for (size_t i = 0; i < got.count; i++) {
        const char *bytes;
        uint32_t n, flags;
        assert_int_equal(api()->vocab(r->model, got.items[i], &bytes, &n, &flags), LR_OK);
        memcpy(text + len, bytes, n);
        len += n;
    }
    text[len] = '\0';
    assert_string_equal(text, prompt);
}

static void test_no_text_gives_no_token(void **state)
{
    (void)state;
    const struct lr_segment empty = segment("", 0, 1);

    assert_int_equal(ours(&empty, 1).count, 0);
    assert_int_equal(ours(NULL, 0).count, 0);
}

static int prepare(void **state)
{
    struct lr_engine_options options = small_options();

    (void)state;
    r = recorder_open(LLAMACPP_MODEL, &options);
    d = direct_open(256);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    direct_close(&d);
    recorder_close(r);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trusted_text_gives_the_ids_of_the_whole_text_however_it_is_cut),
        cmocka_unit_test(test_untrusted_text_never_gives_a_control_token),
        cmocka_unit_test(test_a_control_token_needs_trust_in_every_byte),
        cmocka_unit_test(test_text_is_one_run_across_borders_of_trust),
        cmocka_unit_test(test_user_defined_tokens_are_recognised_everywhere),
        cmocka_unit_test(test_control_tokens_of_the_file_are_control_tokens_of_harmony_too),
        cmocka_unit_test(test_bytes_that_are_no_utf8_become_one_replacement_each),
        cmocka_unit_test(test_the_bytes_of_the_tokens_spell_the_text),
        cmocka_unit_test(test_no_text_gives_no_token),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
