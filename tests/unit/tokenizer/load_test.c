/* Opening a tokenizer.json: a damaged file is refused with the error and its position, a file
 * with an unsupported feature is refused by the field's name. */
#include "tests/unit/tokenizer/support.h"

static const struct made_merge merges[] = {{"a", "b"}, {"ab", "c"}};

static lr_code open_json(struct lr_str json, struct lr_error *err)
{
    struct tokenizer *t = NULL;
    memset(err, 0, sizeof(*err));
    lr_code rc = tokenizer_open_text(json, &t, err);
    assert_true((rc == LR_OK) == (t != NULL));
    tokenizer_free(t);
    return rc;
}

/* The valid file with its first `from` replaced. */
static void refuses(const char *from, const char *to, lr_code code, const char *part)
{
    struct made made = {.merges = merges,
                        .merge_count = 2,
                        .pre_tokenizer = O200K_SEQUENCE,
                        .added = "{\"id\":300,\"content\":\"<x>\",\"special\":true}"};
    struct lr_buf json, changed;
    struct lr_error err;
    make_json(&made, &json);
    assert_int_equal(open_json(lr_buf_str(&json), &err), LR_OK);
    const char *at = strstr(lr_buf_z(&json), from);
    if (at == NULL)
        fail_msg("the file has no %s", from);
    lr_buf_init(&changed, 1 << 20);
    lr_buf_add(&changed, json.data, (size_t)(at - json.data));
    lr_buf_add_z(&changed, to);
    lr_buf_add_z(&changed, at + strlen(from));
    lr_code got = open_json(lr_buf_str(&changed), &err);
    if (got != code || strstr(err.text, part) == NULL)
        fail_msg("%s -> %s: %s \"%s\", wanted %s \"%s\"", from, to, lr_code_name(got), err.text,
                 lr_code_name(code), part);
    lr_buf_free(&json);
    lr_buf_free(&changed);
}

static void test_unsupported_features_are_named(void **state)
{
    (void)state;
    refuses("\"normalizer\":null", "\"normalizer\":{\"type\":\"Nmt\"}", LR_UNSUPPORTED,
            "normalizer: the type \"Nmt\"");
    refuses("\"decoder\":null", "\"decoder\":{\"type\":\"CTC\"}", LR_UNSUPPORTED,
            "decoder: the type \"CTC\"");
    refuses("\"type\":\"BPE\"", "\"type\":\"WordLevel\"", LR_UNSUPPORTED,
            "model.type \"WordLevel\"");
    refuses("\"type\":\"BPE\"", "\"dropout\":0.1", LR_UNSUPPORTED, "model.dropout");
    refuses("\"type\":\"BPE\"", "\"continuing_subword_prefix\":\"##\"", LR_UNSUPPORTED,
            "continuing_subword_prefix");
    refuses("\"type\":\"Split\"", "\"type\":\"FixedLength\"", LR_UNSUPPORTED,
            "pre_tokenizer: the type \"FixedLength\"");
    refuses("\"decoder\":null", "\"post_processor\":{\"type\":\"Other\"}", LR_UNSUPPORTED,
            "post_processor: the type \"Other\"");
    refuses("\"content\":\"<x>\"", "\"content\":\"A\"", LR_MODEL_CORRUPT, "\"A\"");
    refuses("\"id\":300,\"content\":\"<x>\"", "\"id\":65,\"content\":\"A\"", LR_UNSUPPORTED,
            "0x41");
}

/* The value of a member is not terminated in the file: a message must end where it ends. */
static void test_messages_quote_no_more_than_the_member(void **state)
{
    (void)state;
    refuses("\"behavior\":\"Isolated\"", "\"behavior\":\"Whole\"", LR_UNSUPPORTED,
            "behavior \"Whole\" is");
    refuses("\"behavior\":\"Isolated\"", "\"behavior\":7", LR_MODEL_CORRUPT, "behavior");
    refuses("\"normalizer\":null", "\"normalizer\":{\"type\":\"Strip\",\"strip_left\":1}",
            LR_MODEL_CORRUPT, "normalizer: Strip: \"strip_left\" must");
    refuses("\"normalizer\":null",
            "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA*\"}",
            LR_MODEL_CORRUPT, "precompiled_charsmap is not base64");
    refuses("\"type\":\"Split\"", "\"type\":\"Metaspace\"", LR_MODEL_CORRUPT,
            "Metaspace needs \"replacement\"");
    refuses("\"type\":\"BPE\"", "\"type\":\"Unigram\"", LR_MODEL_CORRUPT,
            "model.vocab of a Unigram must be an array");
    refuses("\"decoder\":null", "\"decoder\":{\"type\":\"WordPiece\"}", LR_MODEL_CORRUPT,
            "decoder: WordPiece needs \"prefix\"");
    refuses("\"decoder\":null", "\"post_processor\":{\"type\":\"TemplateProcessing\"}",
            LR_MODEL_CORRUPT, "post_processor: TemplateProcessing");
}

static void test_contradictions_in_the_file_are_named(void **state)
{
    (void)state;
    refuses("\"A\":65", "\"A\":66", LR_MODEL_CORRUPT, "66");
    refuses("\"A\":65", "\"A\":999999999", LR_MODEL_CORRUPT, "999999999");
    refuses("\"A\":65", "\"A\":-1", LR_MODEL_CORRUPT, "number");
    refuses("\"A\":65", "\"A\":6.5", LR_MODEL_CORRUPT, "number");
    refuses("\"A\":65", "\"A\":065", LR_MODEL_CORRUPT, "number");
    refuses("\"A\":65", "\"A\":65,\"A\":400", LR_MODEL_CORRUPT, "twice");
    refuses("\"A\":65", "\"A\" 65", LR_MODEL_CORRUPT, "column");
    refuses("[\"a\",\"b\"]", "[\"a\",\"q\"]", LR_MODEL_CORRUPT, "entry 0");
    refuses("[\"ab\",\"c\"]", "[\"abx\",\"c\"]", LR_MODEL_CORRUPT, "entry 1");
    refuses("[\"ab\",\"c\"]", "[\"ab\",\"c\",\"d\"]", LR_MODEL_CORRUPT, "two tokens");
    refuses("[\"ab\",\"c\"]", "[\"ab\"]", LR_MODEL_CORRUPT, "two tokens");
    refuses("[\"ab\",\"c\"]", "\"abc\"", LR_MODEL_CORRUPT, "blank");
    refuses("[\"ab\",\"c\"]", "\"ab \"", LR_MODEL_CORRUPT, "entry 1");
    refuses("[\"ab\",\"c\"]", "7", LR_MODEL_CORRUPT, "string");
    refuses("\"merges\":[", "\"merges\":{", LR_MODEL_CORRUPT, "");
    refuses("\"vocab\":{", "\"words\":{", LR_MODEL_CORRUPT, "vocab");
    refuses("\"merges\":[", "\"sums\":[", LR_MODEL_CORRUPT, "merges");
    refuses("\"model\":", "\"modell\":", LR_MODEL_CORRUPT, "model");
    refuses("\"id\":300,", "", LR_MODEL_CORRUPT, "added_tokens[0]");
    refuses("\"id\":300,", "\"id\":65,", LR_MODEL_CORRUPT, "65");
    refuses("\"special\":true", "\"special\":1", LR_MODEL_CORRUPT, "added_tokens[0]");
    refuses("\"special\":true}", "\"special\":true},{\"id\":301,\"content\":\"<x>\"}",
            LR_MODEL_CORRUPT, "<x>");
    refuses("\"special\":true}", "\"special\":true},{\"id\":301,\"content\":\"\"}",
            LR_MODEL_CORRUPT, "301");
    refuses("\"decoder\":null", "\"decoder\":nul", LR_MODEL_CORRUPT, "byte");
    refuses("\"decoder\":null", "\"decoder\":null,\"model\":{}", LR_MODEL_CORRUPT, "twice");
    refuses("\"A\":65", "\"\\uD800\":65", LR_MODEL_CORRUPT, "not valid");
    refuses("\"A\":65", "\"\xFF\":65", LR_MODEL_CORRUPT, "not valid");
}

static void test_every_cut_of_the_file_is_refused(void **state)
{
    (void)state;
    struct made made = {.merges = merges, .merge_count = 2, .pre_tokenizer = O200K_SEQUENCE};
    struct lr_buf json;
    struct lr_error err;
    make_json(&made, &json);
    for (size_t len = 0; len < json.len; len += len < json.len - 100 ? 13 : 1)
        assert_int_equal(open_json(lr_str(json.data, len), &err), LR_MODEL_CORRUPT);
    lr_buf_add_z(&json, " x");
    assert_int_equal(open_json(lr_buf_str(&json), &err), LR_MODEL_CORRUPT);
    lr_buf_free(&json);
}

static void test_files_that_cannot_be_read_are_named(void **state)
{
    (void)state;
    struct tokenizer *t;
    struct lr_error err = {0};
    assert_int_equal(tokenizer_open_file("/nonexistent/tokenizer.json", &t, &err),
                     LR_MODEL_CORRUPT);
    assert_null(t);
    assert_non_null(strstr(err.text, "/nonexistent/tokenizer.json"));
    tokenizer_free(NULL);
}

static void test_members_may_come_in_any_order(void **state)
{
    (void)state;
    /* Merges before the vocabulary, the model before everything else. */
    struct made made = {.merges = merges, .merge_count = 2};
    struct lr_buf json, turned;
    struct lr_error err;
    make_json(&made, &json);
    const char *vocab = strstr(lr_buf_z(&json), "\"vocab\""),
               *rest = strstr(vocab, "\"merges\"");
    lr_buf_init(&turned, 1 << 20);
    lr_buf_add_z(&turned, "{\"model\":{");
    lr_buf_add(&turned, rest, strlen(rest) - 2);
    lr_buf_add_z(&turned, ",");
    lr_buf_add(&turned, vocab, (size_t)(rest - vocab) - 1);
    lr_buf_add_z(&turned, "},\"pre_tokenizer\":" BYTE_LEVEL "}");
    assert_int_equal(open_json(lr_buf_str(&turned), &err), LR_OK);
    lr_buf_free(&json);
    lr_buf_free(&turned);
}

static void test_tokens_outside_the_alphabet_keep_their_text(void **state)
{
    (void)state;
    struct made made = {.added = "{\"id\":290,\"content\":\"<\xEF\xBD\x9C>\",\"special\":true},"
                                 "{\"id\":292,\"content\":\"a b\",\"special\":true}"};
    struct tokenizer *t = make_tokenizer(&made);
    const char *bytes;
    uint32_t len, flags, id;
    assert_int_equal(tokenizer_vocab_size(t), 293);
    assert_true(tokenizer_token(t, 290, &bytes, &len, &flags));
    assert_int_equal(len, 5);
    assert_memory_equal(bytes, "<\xEF\xBD\x9C>", 5);
    assert_int_equal(flags, LR_VOCAB_SPECIAL);
    assert_true(tokenizer_token(t, 291, &bytes, &len, &flags));
    assert_int_equal(len, 0);
    assert_int_equal(flags, LR_VOCAB_UNUSED);
    assert_false(tokenizer_token(t, 293, &bytes, &len, &flags));
    assert_true(tokenizer_find_special(t, "a b", &id));
    assert_int_equal(id, 292);
    assert_false(tokenizer_find_special(t, "a", &id));
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unsupported_features_are_named),
        cmocka_unit_test(test_messages_quote_no_more_than_the_member),
        cmocka_unit_test(test_contradictions_in_the_file_are_named),
        cmocka_unit_test(test_every_cut_of_the_file_is_refused),
        cmocka_unit_test(test_files_that_cannot_be_read_are_named),
        cmocka_unit_test(test_members_may_come_in_any_order),
        cmocka_unit_test(test_tokens_outside_the_alphabet_keep_their_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
