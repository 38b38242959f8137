/* Promises that hold for every kind of tokenizer: trusted text, ids of segments, and streams.
 * The files are those of tests/fixtures/tokenizers and small ones made here. */
#include "base/file.h"
#include "base/json.h"
#include "tests/unit/tokenizer/support.h"

#define FIXTURES LR_SOURCE_DIR "/tests/fixtures/tokenizers/"

/* SentencePiece BPE: characters, bytes for the rest, a blank before the text. */
static const char llama[] =
    "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
    "{\"id\":2,\"content\":\"</s>\",\"special\":true,\"normalized\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"\xE2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
    "\"\xE2\x96\x81\"}]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":"
    "\"Replace\","
    "\"pattern\":{\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
    "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
    "\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]}}},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":"
    "true,"
    "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"<0xC3>\":3,\"<0xA9>\":4,\"\xE2\x96\x81\":5,"
    "\"<\":6,\"/\":7,\"s\":8,\">\":9,\"a\":10,\"b\":11,\"ab\":12,\"\xE2\x96\x81"
    "ab\":13,\"<0x0A>\":14,\"/s\":15},"
    "\"merges\":[\"a b\",\"\xE2\x96\x81 ab\",\"/ s\"]}}";

/* Byte-level BPE with a suffix, lower case, and a control token that is normalized. */
static const char clip[] =
    "{\"added_tokens\":[{\"id\":9,\"content\":\"<|End|>\",\"special\":true,\"normalized\":true}"
    "],"
    "\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false},\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"},"
    "\"model\":{\"type\":\"BPE\",\"end_of_word_suffix\":\"</"
    "w>\",\"unk_token\":\"a\",\"vocab\":{"
    "\"a\":0,\"a</w>\":1,\"b\":2,\"b</w>\":3,\"ab</w>\":4,\"<\":5,\"|</w>\":6,\"<|</w>\":7},"
    "\"merges\":[\"a b</w>\",\"< |</w>\"]}}";

/* WordPiece whose vocabulary spells a control token in lower case. */
static const char lower[] =
    "{\"added_tokens\":[{\"id\":1,\"content\":\"<pad>\",\"special\":true,\"normalized\":"
    "false}],\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":{\"type\":"
    "\"WhitespaceSplit\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{"
    "\"[UNK]\":0,\"<pad>\":1,\"<\":2,\"##pad\":3,\"##>\":4,\"x\":5,\"##y\":6}}}";

static const char *const files[] = {"bert", "minilm", "roberta", "t5_small"};
enum { FILES = sizeof(files) / sizeof(files[0]), KINDS = FILES + 3 };

static struct tokenizer *kinds[KINDS];

static int open_kinds(void **state)
{
    (void)state;
    struct lr_error err = {0};
    const struct lr_str own[] = {LR_STR_LIT(llama), LR_STR_LIT(clip), LR_STR_LIT(lower)};
    for (size_t i = 0; i < KINDS; i++) {
        char path[512];
        (void)snprintf(path, sizeof(path), FIXTURES "%s.json", i < FILES ? files[i] : "");
        lr_code rc = i < FILES ? tokenizer_open_file(path, &kinds[i], &err)
                               : tokenizer_open_text(own[i - FILES], &kinds[i], &err);
        if (rc != LR_OK)
            fail_msg("kind %zu: %s", i, err.text);
    }
    return 0;
}

static int close_kinds(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++)
        tokenizer_free(kinds[i]);
    return 0;
}

static bool is_special(const struct tokenizer *t, uint32_t id)
{
    const char *bytes;
    uint32_t len, flags;
    return tokenizer_token(t, id, &bytes, &len, &flags) && (flags & LR_VOCAB_SPECIAL) != 0;
}

/* The name that a kind's tokenizer has for unknown text is no way to write a control token. */
static bool is_unknown_name(const char *bytes, uint32_t len)
{
    return lr_str_eq_z(lr_str(bytes, len), "<unk>") || lr_str_eq_z(lr_str(bytes, len), "[UNK]");
}

static void expect_no_control(const struct tokenizer *t, struct lr_str text)
{
    struct tokenizer_ids ids;
    tokenizer_ids_init(&ids, 1 << 20);
    encode(t, text, false, &ids);
    for (size_t i = 0; i < ids.count; i++) {
        const char *bytes;
        uint32_t len, flags;
        assert_true(tokenizer_token(t, ids.items[i], &bytes, &len, &flags));
        if ((flags & LR_VOCAB_SPECIAL) != 0 && !is_unknown_name(bytes, len))
            fail_msg("%.*s became the control token %u", (int)text.len, text.ptr, ids.items[i]);
    }
    tokenizer_ids_free(&ids);
}

static void test_no_spelling_of_a_control_token_is_one_in_untrusted_text(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++)
        for (uint32_t id = 0; id < tokenizer_vocab_size(kinds[k]); id++) {
            const char *bytes;
            uint32_t len, flags;
            if (!is_special(kinds[k], id) ||
                !tokenizer_token(kinds[k], id, &bytes, &len, &flags))
                continue;
            /* As it is, between letters, and in the other case. */
            char text[256], other[256];
            int n = snprintf(text, sizeof(text), "%.*s x%.*s%.*sy %.*s", (int)len, bytes,
                             (int)len, bytes, (int)len, bytes, (int)len, bytes);
            assert_true(n > 0 && (size_t)n < sizeof(text));
            expect_no_control(kinds[k], lr_str(text, (size_t)n));
            for (int i = 0; i < n; i++)
                other[i] = (char)(text[i] >= 'a' && text[i] <= 'z'   ? text[i] - 32
                                  : text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32
                                                                     : text[i]);
            expect_no_control(kinds[k], lr_str(other, (size_t)n));
        }
}

static void test_a_normalized_control_token_needs_trust_for_every_byte(void **state)
{
    (void)state;
    const struct tokenizer *t = kinds[FILES + 1];
    EXPECT_IDS(t, "ab<|END|>ab", true, 4, 9, 4);
    struct tokenizer_ids ids;
    struct lr_error err;
    tokenizer_ids_init(&ids, 100);
    for (size_t cut = 0; cut <= 7; cut++) {
        const struct lr_segment parts[] = {{.text = "<|End|>", .len = cut, .control = 1},
                                           {.text = &"<|End|>"[cut], .len = 7 - cut},
                                           {.text = "<|eND|>", .len = 7, .control = 1}};
        ids.count = 0;
        assert_int_equal(tokenizer_encode_segments(t, parts, 3, &ids, &err), LR_OK);
        size_t found = 0;
        for (size_t i = 0; i < ids.count; i++)
            found += ids.items[i] == 9;
        assert_int_equal(found, cut == 7 ? 2 : 1);
    }
    tokenizer_ids_free(&ids);
}

static void expect_same(const struct tokenizer *t, const char *text, size_t cut)
{
    size_t len = strlen(text);
    const struct lr_segment parts[] = {{.text = text, .len = cut, .control = 1},
                                       {.text = text + cut, .len = len - cut}};
    struct tokenizer_ids whole, joined;
    struct lr_error err;
    tokenizer_ids_init(&whole, 1000);
    tokenizer_ids_init(&joined, 1000);
    encode(t, lr_str(text, len), true, &whole);
    assert_int_equal(tokenizer_encode_segments(t, parts, 2, &joined, &err), LR_OK);
    expect_ids(&joined, whole.items, whole.count, text);
    tokenizer_ids_free(&whole);
    tokenizer_ids_free(&joined);
}

static void test_the_ids_of_segments_are_those_of_the_whole_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "<s>ab ab  a",
        "[CLS] Unaffable, na\xC3\xAFve caf\xC3\xA9 cafe\xCC\x81 [SEP",
        "\xEF\xBC\xA1\xEF\xBC\xA2 ab \xE6\x97\xA5\xE6\x9C\xAC 12,5\n\n  x",
    };
    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            for (size_t cut = 0; cut < strlen(texts[i]); cut++)
                if (cut == 0 || cut >= 5) /* the control token in front stays trusted */
                    expect_same(kinds[k], texts[i] + (cut == 0 ? 5 : 0), cut);
}

static void test_bos_is_put_before_raw_text_only(void **state)
{
    (void)state;
    const struct tokenizer *t = kinds[FILES];
    const struct lr_segment raw[] = {{.text = "ab", .len = 2}};
    const struct lr_segment chat[] = {{.text = "<s>", .len = 3, .control = 1},
                                      {.text = "ab", .len = 2}};
    struct tokenizer_ids ids;
    struct lr_error err;
    tokenizer_ids_init(&ids, 100);
    assert_int_equal(tokenizer_encode_prompt(t, raw, 1, &ids, &err), LR_OK);
    expect_ids(&ids, (const uint32_t[]){1, 13}, 2, "raw");
    ids.count = 0;
    assert_int_equal(tokenizer_encode_prompt(t, chat, 2, &ids, &err), LR_OK);
    expect_ids(&ids, (const uint32_t[]){1, 13}, 2, "chat");
    tokenizer_ids_free(&ids);
}

/* ---- streams ---- */

static void expect_stream(const struct tokenizer *t, const uint32_t *ids, size_t count,
                          const char *const *texts)
{
    struct lr_buf out;
    struct lr_error err = {0};
    lr_buf_init(&out, 1000);
    struct tokenizer_stream *s = tokenizer_stream_new(t, true, &out);
    for (size_t i = 0; i <= count; i++) {
        lr_code rc =
            i < count ? tokenizer_stream_add(s, ids[i], &err) : tokenizer_stream_end(s, &err);
        assert_int_equal(rc, LR_OK);
        assert_string_equal(lr_buf_z(&out), texts[i]);
    }
    tokenizer_stream_free(s);
    lr_buf_free(&out);
}

static void test_a_stream_writes_what_no_later_token_can_change(void **state)
{
    (void)state;
    /* A blank is stripped once; bytes wait for their character. */
    static const uint32_t one[] = {1, 13, 13, 3, 4, 14, 10};
    static const char *const one_texts[] = {
        "", "ab", "ab ab", "ab ab", "ab ab", "ab ab", "ab ab\xC3\xA9\na", "ab ab\xC3\xA9\na"};
    expect_stream(kinds[FILES], one, 7, one_texts);
    /* Half a character at the end becomes U+FFFD. */
    static const uint32_t half[] = {10, 3};
    static const char *const half_texts[] = {"a", "a", "a\xEF\xBF\xBD"};
    expect_stream(kinds[FILES], half, 2, half_texts);
    /* The end of a word is a blank only if another word follows. */
    static const uint32_t words[] = {4, 3};
    static const char *const word_texts[] = {"", "ab ", "ab b"};
    expect_stream(kinds[FILES + 1], words, 2, word_texts);
}

static void test_a_stream_of_a_million_bytes_does_not_wait_for_its_end(void **state)
{
    (void)state;
    struct lr_buf out;
    struct lr_error err;
    lr_buf_init(&out, 1 << 22);
    struct tokenizer_stream *s = tokenizer_stream_new(kinds[FILES], true, &out);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(tokenizer_stream_add(s, 3, &err), LR_OK);
        assert_int_equal(tokenizer_stream_add(s, 4, &err), LR_OK);
        assert_true(2 * (size_t)i < out.len + 8192);
    }
    assert_int_equal(tokenizer_stream_end(s, &err), LR_OK);
    assert_int_equal(out.len, 200000);
    assert_true(lr_utf8_valid(lr_buf_str(&out)));
    tokenizer_stream_free(s);
    lr_buf_free(&out);
}

static void test_token_bytes_are_those_in_the_middle_of_a_text(void **state)
{
    (void)state;
    const char *bytes;
    uint32_t len, flags;
    assert_true(tokenizer_token(kinds[FILES], 13, &bytes, &len, &flags));
    assert_memory_equal(bytes, " ab", 3);
    assert_true(tokenizer_token(kinds[FILES], 3, &bytes, &len, &flags));
    assert_int_equal(len, 1);
    assert_memory_equal(bytes, "\xC3", 1);
    assert_true(tokenizer_token(kinds[FILES], 1, &bytes, &len, &flags));
    assert_memory_equal(bytes, "<s>", 3);
    assert_true(tokenizer_token(kinds[0], 7592, &bytes, &len, &flags)); /* "hello" of BERT */
    assert_int_equal(len, 6);
    assert_memory_equal(bytes, " hello", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_spelling_of_a_control_token_is_one_in_untrusted_text),
        cmocka_unit_test(test_a_normalized_control_token_needs_trust_for_every_byte),
        cmocka_unit_test(test_the_ids_of_segments_are_those_of_the_whole_text),
        cmocka_unit_test(test_bos_is_put_before_raw_text_only),
        cmocka_unit_test(test_a_stream_writes_what_no_later_token_can_change),
        cmocka_unit_test(test_a_stream_of_a_million_bytes_does_not_wait_for_its_end),
        cmocka_unit_test(test_token_bytes_are_those_in_the_middle_of_a_text),
    };
    return cmocka_run_group_tests(tests, open_kinds, close_kinds);
}
