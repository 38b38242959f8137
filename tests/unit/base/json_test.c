/* The JSON parser and writer: RFC 8259 and nothing else, within limits. */
#include "base/json.h"
#include "tests/unit/base/support.h"

#include <float.h>
#include <math.h>

static struct lr_arena arena;

static int new_arena(void **state)
{
    (void)state;
    lr_arena_init(&arena, 16 << 20);
    return 0;
}

static int free_arena(void **state)
{
    (void)state;
    lr_arena_free(&arena);
    return 0;
}

static const struct lr_json *parse_str(struct lr_str text)
{
    const struct lr_json *value;
    struct lr_error err = {0};
    if (lr_json_parse(&arena, text, NULL, &value, &err) != LR_OK)
        fail_msg("%.*s: %s", (int)text.len, text.ptr, err.text);
    return value;
}

static const struct lr_json *parse(const char *text)
{
    return parse_str(lr_str_z(text));
}

static void refuses(const char *text, const char *why)
{
    const struct lr_json *value;
    struct lr_error err = {0};
    /* An exact-size copy, so that a sanitizer sees a read past the end. */
    size_t len = strlen(text);
    char *exact = malloc(len + 1);
    assert_non_null(exact);
    memmove(exact + 1, text, len);
    if (lr_json_parse(&arena, lr_str(exact + 1, len), NULL, &value, &err) !=
        LR_INVALID_ARGUMENT)
        fail_msg("accepted %s", text);
    assert_null(value);
    assert_contains(err.text, why);
    free(exact);
}

static void a_document_is_read_with_types_and_order(void **state)
{
    (void)state;
    const struct lr_json *v =
        parse(" {\"b\" : [1, -2.5e3 ,true,false,null,\"x\"],\n\t\"a\":{}, \"c\":[]}\r\n");
    assert_int_equal(v->count, 3);
    assert_true(lr_str_eq_z(v->members[0].key, "b"));
    assert_true(lr_str_eq_z(v->members[1].key, "a"));
    const struct lr_json *list = lr_json_get(v, "b");
    assert_int_equal(list->count, 6);
    int64_t i;
    double d;
    bool b;
    struct lr_str s;
    assert_true(lr_json_i64(&list->items[0], &i) && i == 1);
    assert_true(lr_json_double(&list->items[1], &d) && d == -2500);
    assert_true(lr_json_bool(&list->items[2], &b) && b);
    assert_true(lr_json_bool(&list->items[3], &b) && !b);
    assert_true(lr_json_is(&list->items[4], LR_JSON_NULL));
    assert_true(lr_json_str(&list->items[5], &s) && lr_str_eq_z(s, "x"));
    assert_null(lr_json_get(v, "d"));
    assert_null(lr_json_get(list, "b"));
    assert_null(lr_json_get(NULL, "b"));
    assert_false(lr_json_str(list, &s) || lr_json_i64(list, &i) || lr_json_bool(list, &b));
    assert_string_equal(lr_json_type_name(LR_JSON_ARRAY), "array");
    for (const char *const *scalar = (const char *const[]){"1", "\"\"", "null", "true", NULL};
         *scalar != NULL; scalar++)
        (void)parse(*scalar);
}

static void what_rfc_8259_forbids_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "expected a value, found the end"},
        {"  ", "expected a value, found the end"},
        {"{", "expected a key"},
        {"[", "expected a value"},
        {"[1", "expected ',' or ']'"},
        {"[1,", "expected a value"},
        {"[1,]", "expected a value"},
        {"[,1]", "expected a value"},
        {"[1 2]", "expected ',' or ']'"},
        {"[1}", "expected ',' or ']'"},
        {"{\"a\":1]", "expected ',' or '}'"},
        {"{\"a\":1,}", "expected a key"},
        {"{\"a\" 1}", "expected ':'"},
        {"{\"a\":}", "expected a value"},
        {"{a:1}", "expected a key"},
        {"{'a':1}", "expected a key"},
        {"{1:1}", "expected a key"},
        {"]", "expected a value"},
        {"1 2", "something follows"},
        {"{} x", "something follows"},
        {"// c\n1", "expected a value"},
        {"[1,/*c*/2]", "expected a value"},
        {"nul", "expected a value"},
        {"True", "expected a value"},
        {"truex", "something follows"},
        {"NaN", "expected a value"},
        {"Infinity", "expected a value"},
        {"-Infinity", "expected a value"},
        {"01", "leading zero"},
        {"-01", "leading zero"},
        {"00", "leading zero"},
        {"+1", "expected a value"},
        {"-", "expected a value"},
        {".5", "expected a value"},
        {"1.", "digit after the point"},
        {"1.e3", "digit after the point"},
        {"1e", "digit in the exponent"},
        {"1e+", "digit in the exponent"},
        {"0x10", "something follows"},
        {"1_000", "something follows"},
        {"\"a", "without an end"},
        {"\"a\\", "without an end"},
        {"\"a\\\"", "without an end"},
        {"\"a\nb\"", "control character"},
        {"\"a\tb\"", "control character"},
        {"\"12345678\x1f\"", "control character"},
        {"\"\\x41\"", "bad escape"},
        {"\"\\'\"", "bad escape"},
        {"\"\\u12\"", "bad escape"},
        {"\"\\u12G4\"", "bad escape"},
        {"\"\\U0041\"", "bad escape"},
        {"\"\\ud800\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"},
        {"\"\\ud800\\u0041\"", "surrogate"},
        {"\"\\ud800x\"", "surrogate"},
        {"\"\\udbff\\udbff\"", "surrogate"},
        {"\"\xFF\"", "not UTF-8"},
        {"\"\xC0\xAF\"", "not UTF-8"},
        {"\"\xED\xA0\x80\"", "not UTF-8"},
        {"\"\xE2\x82\"", "not UTF-8"},
        {"\"\xF4\x90\x80\x80\"", "not UTF-8"},
        {"{\"\x80\":1}", "not UTF-8"},
        {"\xEF\xBB\xBF{}", "expected a value"},
        {"\x0b[]", "expected a value"},
        {"{\"a\":1,\"a\":2}", "same key twice"},
        {"{\"a\":1,\"\\u0061\":2}", "same key twice"},
        {"[{\"x\":{\"k\":1,\"k\":1}}]", "same key twice"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        refuses(cases[i].text, cases[i].why);
    const struct lr_json *value;
    struct lr_error err;
    assert_int_equal(lr_json_parse(&arena, lr_str("1\0", 2), NULL, &value, &err),
                     LR_INVALID_ARGUMENT);
    assert_int_equal(lr_json_parse(&arena, lr_str("\"a\0b\"", 5), NULL, &value, &err),
                     LR_INVALID_ARGUMENT);
}

static void an_error_says_where(void **state)
{
    (void)state;
    refuses("{\n  \"a\": 1,\n  \"b\": x\n}", "line 3 column 8");
    refuses("[1,2,,3]", "line 1 column 6");
}

static void a_twin_among_many_keys_is_found(void **state)
{
    (void)state;
    for (int count = 2; count < 200; count += 7) {
        struct lr_buf text;
        lr_buf_init(&text, 1 << 16);
        lr_buf_add_z(&text, "{");
        for (int i = 0; i < count; i++)
            lr_buf_addf(&text, "\"key-%d\":0,", i);
        (void)parse_str(lr_str_z(lr_arena_printf(&arena, "%s\"z\":1}", lr_buf_z(&text))));
        lr_buf_addf(&text, "\"key-%d\":1}", count / 2);
        refuses(lr_buf_z(&text), "same key twice");
        lr_buf_free(&text);
    }
}

static void escapes_are_decoded(void **state)
{
    (void)state;
    struct lr_str s =
        parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\ude00\\u0000x\"")->text;
    assert_int_equal(s.len, 8 + 2 + 3 + 4 + 2);
    assert_memory_equal(s.ptr, "\"\\/\b\f\n\r\t\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\0x", s.len);
    /* every offset relative to the eight-byte steps of the scanner */
    for (size_t before = 0; before < 20; before++) {
        for (size_t after = 0; after < 20; after++) {
            char text[64], expected[64];
            (void)snprintf(text, sizeof(text), "\"%.*s\\n\xE2\x82\xAC%.*s\"", (int)before,
                           "abcdefghijklmnopqrst", (int)after, "ABCDEFGHIJKLMNOPQRST");
            (void)snprintf(expected, sizeof(expected), "%.*s\n\xE2\x82\xAC%.*s", (int)before,
                           "abcdefghijklmnopqrst", (int)after, "ABCDEFGHIJKLMNOPQRST");
            assert_true(lr_str_eq_z(parse(text)->text, expected));
        }
    }
}

static void plain_strings_are_not_copied(void **state)
{
    (void)state;
    const char text[] = "[\"plain\"]";
    assert_ptr_equal(parse(text)->items[0].text.ptr, text + 2);
}

static void depth_size_and_memory_are_bounded(void **state)
{
    (void)state;
    char deep[200001];
    const struct lr_json *v;
    struct lr_error err;
    for (uint32_t depth = 1; depth <= 100; depth++) {
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        lr_code code = lr_json_parse(&arena, lr_str(deep, 2 * (size_t)depth), NULL, &v, &err);
        assert_int_equal(code, depth <= LR_JSON_DEPTH ? LR_OK : LR_INVALID_ARGUMENT);
    }
    assert_contains(err.text, "nested too deeply");
    memset(deep, '[', sizeof(deep));
    assert_int_equal(lr_json_parse(&arena, lr_str(deep, sizeof(deep)), NULL, &v, &err),
                     LR_INVALID_ARGUMENT);
    struct lr_json_limits limits = {.max_depth = 2, .max_bytes = 10};
    assert_int_equal(lr_json_parse(&arena, lr_str_z("[[1]]"), &limits, &v, &err), LR_OK);
    assert_int_equal(lr_json_parse(&arena, lr_str_z("[[[]]]"), &limits, &v, &err),
                     LR_INVALID_ARGUMENT);
    assert_int_equal(lr_json_parse(&arena, lr_str_z("[1,2,3,4,5]"), &limits, &v, &err),
                     LR_TOO_LARGE);
    assert_contains(err.text, "11 bytes, limit 10");

    struct lr_arena small;
    lr_arena_init(&small, 4096);
    for (size_t i = 0; i < sizeof(deep); i++)
        deep[i] = (char)(i == 0 ? '[' : i + 1 == sizeof(deep) ? ']' : i % 2 != 0 ? '1' : ',');
    assert_int_equal(lr_json_parse(&small, lr_str(deep, sizeof(deep)), NULL, &v, &err),
                     LR_OUT_OF_RAM);
    lr_arena_free(&small);
}

static void integers_are_exact_or_refused(void **state)
{
    (void)state;
    int64_t i;
    uint64_t u;
    double d;
    assert_true(lr_json_i64(parse("9007199254740993"), &i) && i == 9007199254740993);
    assert_true(lr_json_u64(parse("18446744073709551615"), &u) && u == UINT64_MAX);
    assert_true(lr_json_i64(parse("-9223372036854775808"), &i) && i == INT64_MIN);
    assert_true(lr_json_i64(parse("2.0"), &i) && i == 2);
    assert_true(lr_json_u64(parse("1e3"), &u) && u == 1000);
    assert_true(lr_json_i64(parse("-0"), &i) && i == 0);
    assert_true(lr_json_u64(parse("-0"), &u) && u == 0);
    assert_false(lr_json_i64(parse("9223372036854775808"), &i));
    assert_false(lr_json_u64(parse("18446744073709551616"), &u));
    assert_false(lr_json_u64(parse("-1"), &u));
    assert_false(lr_json_i64(parse("0.5"), &i));
    assert_false(lr_json_i64(parse("1e30"), &i));
    assert_false(lr_json_double(parse("1e999"), &d));
    assert_true(lr_json_double(parse("1e-999"), &d) && d == 0);
    assert_false(lr_json_i64(parse("\"1\""), &i));
}

static void the_writer_puts_commas_and_escapes(void **state)
{
    (void)state;
    struct lr_buf buf;
    struct lr_json_writer w;
    lr_buf_init(&buf, 4096);
    lr_json_writer_init(&w, &buf);
    lr_json_begin_object(&w);
    lr_json_member_str(&w, "a\"b", lr_str("\x01\n\\\x7f\0z\xFFq", 8));
    lr_json_member_i64(&w, "i", INT64_MIN);
    lr_json_member_u64(&w, "u", UINT64_MAX);
    lr_json_member_bool(&w, "t", true);
    lr_json_member_null(&w, "n");
    lr_json_member_z(&w, "z", NULL);
    lr_json_key(&w, "list");
    lr_json_begin_array(&w);
    lr_json_begin_array(&w);
    lr_json_end_array(&w);
    lr_json_begin_object(&w);
    lr_json_end_object(&w);
    lr_json_put_raw(&w, lr_str_z("{\"r\":1}"));
    lr_json_put_double(&w, 0.1);
    lr_json_put_double(&w, (double)NAN);
    lr_json_end_array(&w);
    lr_json_member_double(&w, "d", -1e300);
    lr_json_end_object(&w);
    assert_string_equal(lr_buf_z(&buf),
                        "{\"a\\\"b\":\"\\u0001\\n\\\\\x7f\\u0000z\xEF\xBF\xBDq\","
                        "\"i\":-9223372036854775808,\"u\":18446744073709551615,\"t\":true,"
                        "\"n\":null,\"z\":null,\"list\":[[],{},{\"r\":1},0.1,null],"
                        "\"d\":-1e+300}");
    lr_buf_free(&buf);
}

static void members_in_one_call_are_written_as_by_single_calls(void **state)
{
    (void)state;
    struct lr_buf buf;
    struct lr_json_writer w;
    lr_buf_init(&buf, 4096);
    lr_json_writer_init(&w, &buf);
    lr_json_begin_object(&w);
    lr_json_member_array(&w, "items");
    LR_JSON_ITEM(&w, LR_TEXT("text", "t"), LR_TEXT("none", NULL),
                 LR_STR("str", lr_str("ab", 1)), LR_UINT("u", UINT64_MAX),
                 LR_INT("i", INT64_MIN), LR_REAL("d", 0.5), LR_FLAG("yes", 3 > 2));
    lr_json_end_array(&w);
    lr_json_member_object(&w, "object");
    LR_JSON_MEMBERS(&w, LR_FLAG("no", false));
    lr_json_end_object(&w);
    lr_json_end_object(&w);
    assert_string_equal(lr_buf_z(&buf),
                        "{\"items\":[{\"text\":\"t\",\"none\":null,\"str\":\"a\","
                        "\"u\":18446744073709551615,\"i\":-9223372036854775808,\"d\":0.5,"
                        "\"yes\":true}],\"object\":{\"no\":false}}");
    lr_buf_free(&buf);
}

static void misuse_of_the_writer_fails_the_buffer(void **state)
{
    (void)state;
    struct lr_buf buf;
    struct lr_json_writer w;
    lr_buf_init(&buf, 4096);
    lr_json_writer_init(&w, &buf);
    lr_json_end_array(&w);
    assert_true(buf.failed);
    lr_buf_clear(&buf);
    lr_json_writer_init(&w, &buf);
    lr_json_begin_object(&w);
    lr_json_key(&w, "a");
    lr_json_key(&w, "b");
    assert_true(buf.failed);
    lr_buf_clear(&buf);
    lr_json_writer_init(&w, &buf);
    lr_json_put_i64(&w, 1);
    lr_json_put_i64(&w, 2);
    assert_true(buf.failed);
    lr_buf_clear(&buf);
    lr_json_writer_init(&w, &buf);
    for (int i = 0; i < LR_JSON_DEPTH; i++)
        lr_json_begin_array(&w);
    assert_false(buf.failed);
    lr_json_begin_array(&w);
    assert_true(buf.failed);
    lr_buf_free(&buf);
}

static void doubles_are_short_and_exact(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {0.1, "0.1"},
                 {0.7, "0.7"},
                 {1.0 / 3, "0.3333333333333333"},
                 {100, "100"},
                 {1e21, "1e+21"},
                 {0.30000000000000004, "0.30000000000000004"},
                 {-0.5, "-0.5"},
                 {DBL_MAX, "1.7976931348623157e+308"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lr_buf buf;
        struct lr_json_writer w;
        lr_buf_init(&buf, 64);
        lr_json_writer_init(&w, &buf);
        lr_json_put_double(&w, cases[i].value);
        assert_string_equal(lr_buf_z(&buf), cases[i].text);
        lr_buf_free(&buf);
    }
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        double value;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        struct lr_buf buf;
        struct lr_json_writer w;
        lr_buf_init(&buf, 64);
        lr_json_writer_init(&w, &buf);
        lr_json_put_double(&w, value);
        if (strtod(lr_buf_z(&buf), NULL) != value)
            fail_msg("%a became %s", value, lr_buf_z(&buf));
        lr_buf_free(&buf);
    }
}

static void what_was_parsed_is_written_the_same(void **state)
{
    (void)state;
    const char *text =
        "{\"a\":[1,2.50,-3e+07,\"\\n\xE2\x82\xAC\",{\"b\":null}],\"\":true,\"c\":{}}";
    struct lr_buf buf;
    struct lr_json_writer w;
    lr_buf_init(&buf, 4096);
    lr_json_writer_init(&w, &buf);
    lr_json_put_value(&w, parse(text));
    assert_string_equal(lr_buf_z(&buf), text);
    lr_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_document_is_read_with_types_and_order, new_arena,
                                        free_arena),
        cmocka_unit_test_setup_teardown(what_rfc_8259_forbids_is_refused, new_arena,
                                        free_arena),
        cmocka_unit_test_setup_teardown(an_error_says_where, new_arena, free_arena),
        cmocka_unit_test_setup_teardown(a_twin_among_many_keys_is_found, new_arena, free_arena),
        cmocka_unit_test_setup_teardown(escapes_are_decoded, new_arena, free_arena),
        cmocka_unit_test_setup_teardown(plain_strings_are_not_copied, new_arena, free_arena),
        cmocka_unit_test_setup_teardown(depth_size_and_memory_are_bounded, new_arena,
                                        free_arena),
        cmocka_unit_test_setup_teardown(integers_are_exact_or_refused, new_arena, free_arena),
        cmocka_unit_test(the_writer_puts_commas_and_escapes),
        cmocka_unit_test(members_in_one_call_are_written_as_by_single_calls),
        cmocka_unit_test(misuse_of_the_writer_fails_the_buffer),
        cmocka_unit_test(doubles_are_short_and_exact),
        cmocka_unit_test_setup_teardown(what_was_parsed_is_written_the_same, new_arena,
                                        free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
