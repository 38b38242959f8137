/* model/safetensors: a file that breaks a rule of the format is refused with the tensor and the
 * numbers, and a valid file is mapped. */
#include "model/safetensors.h"

#include "tests/unit/model/support.h"

#define A_16 "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,4],\"data_offsets\":[0,16]}"
#define B_4  "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[16,20]}"

/* Parses header + data_len zero bytes and returns the code; the arena is freed. */
static lr_code parse(const char *header, size_t data_len, struct lr_error *err)
{
    size_t len;
    unsigned char *bytes = safetensors_bytes(header, strlen(header), data_len, &len);
    struct model_safetensors_header out;
    struct lr_arena arena;
    lr_arena_init(&arena, 64 << 20);
    lr_code code = model_safetensors_parse(&arena, bytes, len, len, "x.safetensors", &out, err);
    lr_arena_free(&arena);
    free(bytes);
    return code;
}

static void refuses(const char *header, size_t data_len, const char *part, const char *also)
{
    struct lr_error err = {0};
    assert_int_equal(parse(header, data_len, &err), LR_MODEL_CORRUPT);
    assert_int_equal(err.code, LR_MODEL_CORRUPT);
    assert_says(&err, "x.safetensors");
    assert_says(&err, part);
    assert_says(&err, also);
}

static void a_sound_file_is_mapped_without_a_copy(void **state)
{
    (void)state;
    struct lr_error err;
    struct model_safetensors *st;
    write_safetensors("m.safetensors",
                      "{\"__metadata__\":{\"format\":\"pt\"}," B_4 "," A_16 "}   ", 20);
    assert_int_equal(model_safetensors_open(in_folder("m.safetensors"), &st, &err), LR_OK);
    assert_int_equal(model_safetensors_count(st), 2);
    const struct model_tensor *a = model_safetensors_at(st, 0),
                              *b = model_safetensors_at(st, 1);
    assert_true(lr_str_eq_z(a->name, "a"));
    assert_int_equal(a->dtype, MODEL_DTYPE_BF16);
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->shape[1], 4);
    assert_int_equal(a->bytes, 16);
    assert_int_equal(((const unsigned char *)b->data)[3], 19);
    assert_ptr_equal((const char *)a->data + 16, b->data);
    model_safetensors_close(st);
}

static void an_empty_tensor_and_a_scalar_are_legal(void **state)
{
    (void)state;
    struct lr_error err = {0};
    assert_int_equal(parse("{\"e\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]},"
                           "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
                           4, &err),
                     LR_OK);
    assert_int_equal(parse("{}", 0, &err), LR_OK);
}

static void every_published_dtype_is_recognised(void **state)
{
    (void)state;
    static const char *const names[] = {"BOOL", "U8",  "I8",  "F8_E4M3", "F8_E5M2", "F8_E8M0",
                                        "I16",  "U16", "F16", "BF16",    "I32",     "U32",
                                        "F32",  "F64", "I64", "U64",     "F4",      "C64"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        enum model_dtype dtype;
        assert_true(model_dtype_find(lr_str_z(names[i]), &dtype));
        assert_string_equal(model_dtype_name(dtype), names[i]);
    }
}

static void a_truncated_file_is_named(void **state)
{
    (void)state;
    refuses("{" A_16 "," B_4 "}", 18, "\"b\"", "holds 18");
    struct lr_error err;
    struct model_safetensors *st;
    write_bytes("t.safetensors", "abc", 3);
    assert_int_equal(model_safetensors_open(in_folder("t.safetensors"), &st, &err),
                     LR_MODEL_CORRUPT);
    assert_null(st);
    assert_says(&err, "3 bytes");
    write_bytes("empty.safetensors", "", 0);
    assert_int_equal(model_safetensors_open(in_folder("empty.safetensors"), &st, &err),
                     LR_MODEL_CORRUPT);
    assert_says(&err, "empty.safetensors");
    assert_int_equal(model_safetensors_open(in_folder("no.safetensors"), &st, &err),
                     LR_MODEL_CORRUPT);
    assert_says(&err, "no.safetensors");
}

static void a_header_beyond_the_file_or_the_limit_is_refused_with_both_numbers(void **state)
{
    (void)state;
    static const struct {
        uint64_t claimed;
        const char *part;
    } cases[] = {
        {40, "40"},
        {100u << 20, "the limit is 67108864"},
        {UINT64_MAX, "18446744073709551615"},
        {UINT64_MAX - 7, "the limit is"},
        {1ull << 63, "9223372036854775808"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t len;
        unsigned char *bytes = safetensors_bytes("{}", cases[i].claimed, 8, &len);
        struct model_safetensors_header out;
        struct lr_error err = {0};
        struct lr_arena arena;
        lr_arena_init(&arena, 1 << 20);
        assert_int_equal(
            model_safetensors_parse(&arena, bytes, len, len, "x.safetensors", &out, &err),
            LR_MODEL_CORRUPT);
        assert_says(&err, cases[i].part);
        lr_arena_free(&arena);
        free(bytes);
    }
}

static void overlap_hole_and_remainder_are_named_with_offsets(void **state)
{
    (void)state;
    refuses("{" A_16 ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[14,18]}}", 18,
            "\"a\" and \"b\" overlap", "14");
    refuses("{" A_16 ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[18,22]}}", 22,
            "bytes 16 to 18", "\"b\"");
    refuses("{" A_16 "}", 20, "end at byte 16", "holds 20");
}

static void a_tensor_named_twice_is_refused(void **state)
{
    (void)state;
    refuses("{" A_16 "," A_16 "}", 16, "twice", "\"a\"");
}

static void sizes_that_contradict_the_shape_are_refused(void **state)
{
    (void)state;
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,16]}}", 16,
            "takes 32 bytes", "give it 16");
    refuses("{\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "\"w\"",
            "whole number of bytes");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,0]}}", 4, "\"w\"",
            "before it begins");
}

static void products_that_overflow_are_refused(void **state)
{
    (void)state;
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
            "\"data_offsets\":[0,0]}}",
            0, "[4294967296, 4294967296]", "larger than any file");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[1],"
            "\"data_offsets\":[18446744073709551615,18446744073709551615]}}",
            1, "\"w\"", "18446744073709551615");
    refuses(
        "{\"w\":{\"dtype\":\"U8\",\"shape\":[18446744073709551616],\"data_offsets\":[0,1]}}", 1,
        "\"w\"", "18446744073709551616");
}

static void negative_and_fractional_numbers_are_refused(void **state)
{
    (void)state;
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4, "\"w\"",
            "-4");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[4.5],\"data_offsets\":[0,4]}}", 4, "\"w\"",
            "4.5");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[-4,0]}}", 4, "\"w\"",
            "data_offsets");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}", 4, "\"w\"",
            "data_offsets");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":\"4\",\"data_offsets\":[0,4]}}", 4, "\"w\"",
            "shape");
}

static void too_many_dimensions_and_unknown_types_are_refused(void **state)
{
    (void)state;
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
            1, "9 dimensions", "\"w\"");
    refuses("{\"w\":{\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"w\"",
            "\"Q9\"");
    refuses("{\"w\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "\"w\"", "dtype");
    refuses("{\"w\":[]}", 0, "\"w\"", "object");
    refuses("{\"__metadata__\":{\"n\":1}}", 0, "__metadata__", "strings");
    refuses("[]", 0, "object", "header");
}

static void broken_and_deep_json_is_refused(void **state)
{
    (void)state;
    refuses("{\"w\":", 0, "header", "JSON");
    refuses("{\"w\":{\"dtype\":NaN}}", 0, "header", "JSON");
    char deep[4001];
    memset(deep, '[', 2000);
    memset(deep + 2000, ']', 2000);
    deep[4000] = '\0';
    refuses(deep, 0, "header", "JSON");
}

static void more_tensors_than_the_limit_are_refused(void **state)
{
    (void)state;
    enum { MANY = MODEL_SAFETENSORS_TENSORS_MAX + 1 };
    char *text = malloc(MANY * 64u + 2), *p = text;
    assert_non_null(text);
    *p++ = '{';
    for (int i = 0; i < MANY; i++)
        p += snprintf(p, 64, "%s\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                      i != 0 ? "," : "", i);
    memcpy(p, "}", 2);
    size_t len;
    unsigned char *bytes = safetensors_bytes(text, strlen(text), 0, &len);
    struct model_safetensors_header out;
    struct lr_error err;
    struct lr_arena arena;
    lr_arena_init(&arena, 1 << 30);
    assert_int_equal(model_safetensors_parse(&arena, bytes, len, len, "x", &out, &err),
                     LR_MODEL_CORRUPT);
    assert_says(&err, "1000001 tensors");
    lr_arena_free(&arena);
    free(bytes);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_file_is_mapped_without_a_copy),
        cmocka_unit_test(an_empty_tensor_and_a_scalar_are_legal),
        cmocka_unit_test(every_published_dtype_is_recognised),
        cmocka_unit_test(a_truncated_file_is_named),
        cmocka_unit_test(a_header_beyond_the_file_or_the_limit_is_refused_with_both_numbers),
        cmocka_unit_test(overlap_hole_and_remainder_are_named_with_offsets),
        cmocka_unit_test(a_tensor_named_twice_is_refused),
        cmocka_unit_test(sizes_that_contradict_the_shape_are_refused),
        cmocka_unit_test(products_that_overflow_are_refused),
        cmocka_unit_test(negative_and_fractional_numbers_are_refused),
        cmocka_unit_test(too_many_dimensions_and_unknown_types_are_refused),
        cmocka_unit_test(broken_and_deep_json_is_refused),
        cmocka_unit_test(more_tensors_than_the_limit_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
