/* model/gguf: metadata of every type is found, and hostile counts, lengths and offsets are
 * refused by name before they are used. */
#include "model/gguf.h"

#include "tests/unit/model/gguf_bytes.h"
#include "tests/unit/model/support.h"

static struct gguf_bytes g;
static struct model_gguf out;
static struct lr_arena arena;
static struct lr_error err;

static int start(void **state)
{
    (void)state;
    lr_arena_init(&arena, 16 << 20);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    lr_arena_free(&arena);
    return 0;
}

/* Parses an exact-size copy, so that a sanitizer sees a read past the end.  The arena keeps the
 * copy, because the result borrows from it. */
static lr_code parse(void)
{
    unsigned char *copy = lr_arena_alloc(&arena, g.len + 1);
    assert_non_null(copy);
    memcpy(copy, g.data, g.len);
    memset(&err, 0, sizeof(err));
    return model_gguf_parse(&arena, copy, g.len, g.len, "m.gguf", &out, &err);
}

static void refuses(const char *part, const char *also)
{
    assert_int_equal(parse(), LR_MODEL_CORRUPT);
    assert_says(&err, "m.gguf");
    assert_says(&err, part);
    assert_says(&err, also);
}

static void metadata_of_every_type_is_found_again(void **state)
{
    (void)state;
    uint64_t u64;
    uint32_t u32;
    struct lr_str text;
    gguf_begin(&g, 3, 1, 9);
    gguf_put_string(&g, "general.architecture", "gpt-oss");
    gguf_put_u32(&g, "gpt-oss.context_length", 131072);
    gguf_string(&g, "neg"), gguf_number(&g, 5, 4), gguf_number(&g, (uint64_t)-7, 4);
    gguf_string(&g, "flag"), gguf_number(&g, 7, 4), gguf_number(&g, 1, 1);
    gguf_string(&g, "big"), gguf_number(&g, 10, 4), gguf_number(&g, 1ull << 40, 8);
    gguf_string(&g, "half"), gguf_number(&g, 6, 4), gguf_number(&g, 0x3f000000, 4);
    gguf_string(&g, "words"), gguf_number(&g, 9, 4), gguf_number(&g, 8, 4);
    gguf_number(&g, 3, 8), gguf_string(&g, "a"), gguf_string(&g, ""), gguf_string(&g, "ccc");
    gguf_string(&g, "nested"), gguf_number(&g, 9, 4), gguf_number(&g, 9, 4);
    gguf_number(&g, 1, 8), gguf_number(&g, 0, 4), gguf_number(&g, 2, 8), gguf_number(&g, 5, 2);
    gguf_string(&g, "f64"), gguf_number(&g, 12, 4), gguf_number(&g, 0x4000000000000000, 8);
    gguf_tensor(&g, "w", 8, 0);
    gguf_pad(&g, 32, 32);
    if (parse() != LR_OK)
        fail_msg("%s", err.text);
    assert_true(model_gguf_str(&out, "general.architecture", &text));
    assert_true(lr_str_eq_z(text, "gpt-oss"));
    assert_true(model_gguf_u32(&out, "gpt-oss.context_length", &u32) && u32 == 131072);
    assert_false(model_gguf_u64(&out, "neg", &u64));
    assert_true(model_gguf_u64(&out, "big", &u64) && u64 == 1ull << 40);
    assert_false(model_gguf_u32(&out, "big", &u32));
    const struct model_gguf_value *words = model_gguf_get(&out, "words");
    assert_true(model_gguf_str_at(words, 2, &text) && lr_str_eq_z(text, "ccc"));
    assert_true(model_gguf_str_at(words, 1, &text) && text.len == 0);
    assert_false(model_gguf_str_at(words, 3, &text));
    assert_false(model_gguf_str_at(model_gguf_get(&out, "nested"), 0, &text));
    assert_null(model_gguf_get(&out, "absent"));
    assert_int_equal(out.tensors[0].bytes, 32);
    assert_int_equal(out.tensors[0].offset, out.data_start);
    assert_int_equal(out.weight_bytes, 32);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    gguf_begin(&g, 3, 1, 2);
    gguf_put_string(&g, "general.architecture", "llama");
    gguf_string(&g, "words"), gguf_number(&g, 9, 4), gguf_number(&g, 8, 4);
    gguf_number(&g, 2, 8), gguf_string(&g, "a"), gguf_string(&g, "bb");
    gguf_tensor(&g, "w", 8, 0);
    gguf_pad(&g, 32, 32);
    size_t whole = g.len;
    assert_int_equal(parse(), LR_OK);
    for (size_t len = 0; len < whole; len++) {
        g.len = len;
        assert_int_equal(parse(), LR_MODEL_CORRUPT);
        assert_says(&err, "m.gguf");
    }
}

static void hostile_counts_are_refused_before_memory_is_taken(void **state)
{
    (void)state;
    gguf_begin(&g, 3, 0, UINT64_MAX);
    refuses("18446744073709551615 metadata pairs", "65536");
    gguf_begin(&g, 3, 1ull << 40, 0);
    refuses("1099511627776 tensors", "200000");
    gguf_begin(&g, 3, 0, 60000); /* below the limit, but more than the file can hold */
    refuses("60000 metadata pairs", "0 bytes are left");
    gguf_begin(&g, 3, 0, 1);
    gguf_string(&g, "words"), gguf_number(&g, 9, 4), gguf_number(&g, 4, 4);
    gguf_number(&g, 1ull << 62, 8);
    refuses("\"words\"", "18446744073709551615");
    gguf_begin(&g, 3, 0, 1);
    gguf_string(&g, "words"), gguf_number(&g, 9, 4), gguf_number(&g, 8, 4);
    gguf_number(&g, UINT64_MAX, 8), gguf_number(&g, 0, 8);
    refuses("\"words\"", "takes 8 bytes");
}

static void hostile_lengths_are_refused(void **state)
{
    (void)state;
    gguf_begin(&g, 3, 0, 1);
    gguf_number(&g, UINT64_MAX, 8);
    gguf_pad(&g, 1, 16);
    refuses("a metadata key", "18446744073709551615");
    gguf_begin(&g, 3, 0, 1);
    gguf_string(&g, "name"), gguf_number(&g, 8, 4), gguf_number(&g, UINT64_MAX - 3, 8);
    refuses("\"name\"", "18446744073709551612");
}

static void hostile_tensors_are_refused_by_name(void **state)
{
    (void)state;
    gguf_begin(&g, 3, 1, 0);
    gguf_tensor(&g, "w", 8, UINT64_MAX / 32 * 32);
    gguf_pad(&g, 32, 32);
    refuses("\"w\"", "ends after the file");
    gguf_begin(&g, 3, 1, 0);
    gguf_tensor(&g, "w", 9, 0);
    gguf_pad(&g, 32, 32);
    refuses("\"w\"", "36 bytes");
    gguf_begin(&g, 3, 1, 0);
    gguf_tensor(&g, "w", 8, 32);
    gguf_pad(&g, 32, 48);
    refuses("\"w\"", "32 bytes at 32 of 48");
    gguf_begin(&g, 3, 1, 0);
    gguf_tensor(&g, "w", UINT64_MAX, 0);
    gguf_pad(&g, 32, 32);
    refuses("\"w\"", "shape");
    gguf_begin(&g, 3, 1, 0);
    gguf_tensor(&g, "w", 1, 4);
    gguf_pad(&g, 32, 32);
    refuses("\"w\"", "alignment");
    gguf_begin(&g, 3, 2, 0);
    gguf_tensor(&g, "w", 16, 0);
    gguf_tensor(&g, "v", 8, 32);
    gguf_pad(&g, 32, 64);
    refuses("\"w\" and \"v\" overlap", "begins at");
    gguf_begin(&g, 3, 2, 0);
    gguf_tensor(&g, "w", 8, 0);
    gguf_tensor(&g, "w", 8, 32);
    gguf_pad(&g, 32, 64);
    refuses("tensor \"w\"", "twice");
    gguf_begin(&g, 3, 1, 0);
    gguf_string(&g, "w"), gguf_number(&g, 5, 4);
    gguf_pad(&g, 1, 64);
    refuses("\"w\"", "5 dimensions");
}

static void wrong_metadata_is_refused_by_name(void **state)
{
    (void)state;
    gguf_begin(&g, 3, 0, 1);
    gguf_string(&g, "k"), gguf_number(&g, 13, 4), gguf_number(&g, 0, 8);
    refuses("\"k\"", "unknown type 13");
    gguf_begin(&g, 3, 0, 1);
    gguf_string(&g, "k"), gguf_number(&g, 9, 4), gguf_number(&g, 77, 4), gguf_number(&g, 0, 8);
    refuses("\"k\"", "unknown type 77");
    gguf_begin(&g, 3, 0, 1);
    gguf_string(&g, "k"), gguf_number(&g, 7, 4), gguf_number(&g, 2, 1);
    refuses("\"k\"", "boolean of value 2");
    gguf_begin(&g, 3, 0, 2);
    gguf_put_u32(&g, "k", 1);
    gguf_put_u32(&g, "k", 2);
    refuses("\"k\"", "twice");
    gguf_begin(&g, 3, 0, 1);
    gguf_put_u32(&g, "general.alignment", 0);
    refuses("general.alignment", "0");
    gguf_begin(&g, 3, 0, 1);
    gguf_string(&g, "k"), gguf_number(&g, 9, 4);
    for (int i = 0; i < 100; i++)
        gguf_number(&g, 9, 4), gguf_number(&g, 1, 8);
    refuses("\"k\"", "deeper than 4");
}

static void other_versions_and_formats_are_told_apart(void **state)
{
    (void)state;
    gguf_begin(&g, 1, 0, 0);
    assert_int_equal(parse(), LR_UNSUPPORTED);
    assert_says(&err, "version 1");
    gguf_begin(&g, 0x03000000, 0, 0);
    assert_int_equal(parse(), LR_UNSUPPORTED);
    assert_says(&err, "big-endian");
    gguf_begin(&g, 2, 0, 0);
    assert_int_equal(parse(), LR_OK);
    g.data[0] = 'X';
    refuses("does not begin with", "GGUF");
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(metadata_of_every_type_is_found_again),
        TEST(every_truncation_is_refused),
        TEST(hostile_counts_are_refused_before_memory_is_taken),
        TEST(hostile_lengths_are_refused),
        TEST(hostile_tensors_are_refused_by_name),
        TEST(wrong_metadata_is_refused_by_name),
        TEST(other_versions_and_formats_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
