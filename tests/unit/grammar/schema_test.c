/* Schemas and texts: which answers match and which do not. */
#include "grammar_test.h"

static const struct schema_texts tables[] = {
    {"{\"type\":\"string\"}",
     {"\"\"", "\"abc\"", "\"\\n\\u00e9\\\"\"", "\"\\ud83d\\ude00\"", "\"\xe6\x97\xa5\"",
      "\"\x7f\""},
     {"abc", "\"", "\"a\"b", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"",
      "\"\\ude00\\ude00\"", "\"\\ud83dx\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"",
      " \"a\"", "\"a\" ", "1"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"abc\"", "\"\xe6\x97\xa5\xe6\x9c\xac\"", "\"\\n\\n\\n\"",
      "\"\\ud83d\\ude00x\""},
     {"\"\"", "\"a\"", "\"abcd\"", "\"\xe6\x97\xa5\""}},
    {"{\"type\":\"integer\"}",
     {"0", "-1", "42", "-0", "12345678901234567890"},
     {"", "01", "1.0", "1e3", "+1", "--1", "-", "123456789012345678901", "\"1\""}},
    {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":120}",
     {"5", "9", "10", "99", "100", "119", "120"},
     {"4", "0", "-5", "121", "130", "200", "1000", "05"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":-12,\"exclusiveMaximum\":3}",
     {"-11", "-10", "-9", "-1", "0", "2"},
     {"-12", "-13", "-20", "-100", "3", "10", "-0"}},
    {"{\"type\":\"integer\",\"minimum\":-9007199254740991,\"maximum\":9007199254740991}",
     {"0", "7", "-7", "9007199254740991", "-9007199254740991", "9007199254740990"},
     {"9007199254740992", "-9007199254740992", "10000000000000000"}},
    {"{\"type\":\"integer\",\"minimum\":0.5}", {"1", "2", "100"}, {"0", "-1"}},
    {"{\"type\":\"number\"}",
     {"0", "-1.5", "3.14159", "1e5", "1E-7", "2.5e+10"},
     {".5", "1.", "1e", "1e100", "01.5", "NaN", "Infinity", "-"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
     {"0", "1", "0.5", "0.999", "0.0"},
     {"1.1", "1.0", "2", "-0", "-0.1", "-1", "1e0", "10"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0}",
     {"0.1", "0.001", "1", "1.0", "17.25"},
     {"0", "0.0", "0.00", "-1", "-0.5"}},
    {"{\"type\":\"number\",\"minimum\":-3,\"exclusiveMaximum\":-1}",
     {"-3", "-2.5", "-1.5", "-1.01", "-2"},
     {"-1", "-1.0", "-3.5", "-0.5", "0", "1", "-4"}},
    {"{\"type\":\"boolean\"}", {"true", "false"}, {"True", "tru", "truee", "null", "1"}},
    {"{\"type\":\"null\"}", {"null"}, {"nul", "nil", "0"}},
    {"{\"type\":[\"string\",\"null\"]}", {"\"a\"", "null"}, {"1", "nul"}},
    {"{\"enum\":[\"a\",\"ab\",1,12,null,true,{\"k\":[1,2]}]}",
     {"\"a\"", "\"ab\"", "1", "12", "null", "true", "{\"k\":[1,2]}"},
     {"\"b\"", "\"abc\"", "2", "121", "false", "{\"k\":[1]}"}},
    {"{\"type\":\"string\",\"enum\":[\"x\",3]}", {"\"x\""}, {"3"}},
    {"{\"const\":\"a\\\"b\"}", {"\"a\\\"b\""}, {"\"a\"", "\"ab\""}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}",
     {"[]", "[1]", "[1, 2]", "[1,2,3]", "[\n  1,\n  2\n]", "[ ]"},
     {"[,]", "[1,]", "[1 ,2]", "[\"a\"]", "[1,  2]", "[\n\n1]", "[1", "[\r1]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":3}",
     {"[1,2]", "[1,2,3]", "[ 1, 2 ]"},
     {"[]", "[1]", "[1,2,3,4]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":2}",
     {"[]", "[1]", "[1,2]"},
     {"[1,2,3]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":3}",
     {"[1,2,3]", "[1,2,3,4,5,6]"},
     {"[]", "[1]", "[1,2]"}},
    {"{\"type\":\"array\",\"minItems\":1}", {"[1]", "[null,{}]"}, {"[]"}},
    {"{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
     "\"string\"}},"
     "\"required\":[\"a\",\"b\"],\"additionalProperties\":false}",
     {"{\"a\":1,\"b\":\"x\"}", "{\"b\":\"x\",\"a\":1}", "{ \"a\": 1, \"b\": \"x\" }",
      "{\n\t\"a\": 1,\n\t\"b\": \"x\"\n}"},
     {"{}", "{\"a\":1}", "{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":\"x\",}",
      "{\"a\":1,\"b\":\"x\",\"c\":1}", "{\"a\" :1}", "[]"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
     "\"integer\"},"
     "\"c\":{\"type\":\"integer\"}},\"required\":[\"b\"]}",
     {"{\"b\":1}", "{\"a\":1,\"b\":2}", "{\"b\":1,\"c\":2}", "{\"a\":1,\"b\":2,\"c\":3}"},
     {"{}", "{\"a\":1}", "{\"a\":1,\"c\":1}", "{\"c\":1}", "{\"b\":1,\"b\":1}", "{\"b\":1,}",
      "{,\"b\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{\"type\":"
     "\"null\"}}}",
     {"{}", "{ }", "{\"a\":1}", "{\"ab\":null}", "{\"a\":1,\"ab\":null}"},
     {"{\"ab\":1}", "{\"a\":null}", "{\"ab\":null,\"ab\":null}"}},
    {"{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}",
     {"{}"},
     {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{}", "{\"x\":1}", "{\"x\":1,\"y\":2}"},
     {"{\"x\":\"1\"}", "{1:1}"}},
    {"{\"type\":\"object\",\"required\":[\"z\"]}", {"{\"z\":[1,{}]}"}, {"{}"}},
    {"{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"},\"n\":{\"type\":"
     "\"integer\"}},"
     "\"required\":[\"k\",\"n\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"},"
     "\"s\":"
     "{\"type\":\"string\"}},\"required\":[\"k\",\"s\"]}]}",
     {"{\"k\":\"a\",\"n\":1}", "{\"k\":\"b\",\"s\":\"x\"}"},
     {"{\"k\":\"a\",\"s\":\"x\"}", "{\"k\":\"b\",\"n\":1}", "{\"k\":\"c\"}"}},
    {"{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
     "\"next\":{"
     "\"anyOf\":[{\"$ref\":\"#/$defs/"
     "node\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"]}},"
     "\"$ref\":\"#/$defs/node\"}",
     {"{\"v\":1,\"next\":null}",
      "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}"},
     {"{\"v\":1}", "{\"v\":1,\"next\":{}}", "{\"v\":1,\"next\":{\"v\":2}}"}},
    {"{\"type\":\"object\",\"properties\":{\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#"
     "\"}}},"
     "\"required\":[\"kids\"]}",
     {"{\"kids\":[]}", "{\"kids\":[{\"kids\":[]},{\"kids\":[{\"kids\":[]}]}]}"},
     {"{\"kids\":[{}]}", "{\"kids\":{}}"}},
    {"{}",
     {"1", "\"a\"", "null", "[1,{\"a\":[]}]", "{\"a\":{\"b\":1.5e3}}", "[[[[]]]]"},
     {"", "{\"a\"}", "[1,]", "nul", "{'a':1}", "{a:1}"}},
    {"{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"x-own\":{},"
     "\"format\":\"nonsense\","
     "\"type\":\"string\"}",
     {"\"x\""},
     {"1"}},
    {"{\"allOf\":[{\"type\":\"integer\"}],\"description\":\"d\"}", {"1"}, {"\"1\""}},
    {"true", {"1", "{}"}, {"x"}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2026-11-15\"", "\"2024-02-29\"", "\"1999-12-31\"", "\"2000-04-30\"", "\"2000-10-09\""},
     {"\"\"", "\"2026-13-01\"", "\"2026-00-01\"", "\"2026-04-31\"", "\"2026-02-30\"",
      "\"2026-01-00\"", "\"26-01-01\"", "\"2026-1-1\"", "\"2026-01-32\"",
      "\"2026-01-01T00:00:00Z\""}},
    {"{\"type\":\"string\",\"format\":\"time\"}",
     {"\"00:00:00Z\"", "\"23:59:59.123456789+09:30\"", "\"12:05:07.5-01:00\"", "\"19:10:20Z\"",
      "\"12:00:00.12345678901234567890Z\"", "\"23:59:60Z\"", "\"15:59:60.5-08:00\"",
      "\"05:29:60+05:30\""},
     {"\"24:00:00Z\"", "\"12:60:00Z\"", "\"12:00:61Z\"", "\"12:00:00\"", "\"12:00:00.Z\"",
      "\"1:00:00Z\"", "\"12:00:00+24:00\"", "\"12:00:00.123456789012345678901Z\"",
      "\"23:59:60+01:00\"", "\"12:00:60Z\"", "\"05:29:60-05:30\""}},
    {"{\"type\":\"string\",\"format\":\"date-time\"}",
     {"\"2026-11-15T10:45:00Z\"", "\"2026-11-15T10:45:00.25+01:00\""},
     {"\"2026-11-15\"", "\"2026-11-15 10:45:00Z\"", "\"10:45:00Z\""}},
    {"{\"type\":\"string\",\"format\":\"uuid\"}",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567e89b12d3a456426614174000\"", "\"123e4567-e89b-12d3-a456-42661417400\"",
      "\"123g4567-e89b-12d3-a456-426614174000\""}},
    {"{\"oneOf\":[{\"$ref\":\"#/$defs/cat\"},{\"$ref\":\"#/$defs/dog\"},{\"type\":\"null\"}],"
     "\"$defs\":{\"cat\":{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"cat\"},"
     "\"lives\":{\"type\":\"integer\"}},\"required\":[\"kind\",\"lives\"]},\"dog\":{\"type\":"
     "\"object\",\"properties\":{\"kind\":{\"enum\":[\"dog\",\"wolf\"]}},\"required\":["
     "\"kind\"]}}}",
     {"{\"kind\":\"cat\",\"lives\":9}", "{\"kind\":\"dog\"}", "{\"kind\":\"wolf\"}", "null"},
     {"{\"kind\":\"cat\"}", "{\"kind\":\"dog\",\"kind\":\"dog\"}", "{}", "\"cat\""}},
    {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", {"\"a\"", "1"}, {"1.5"}},
    {"{\"oneOf\":[{\"type\":[\"object\",\"string\"],\"properties\":{\"k\":{\"const\":\"a\"}},"
     "\"required\":[\"k\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"}},"
     "\"required\":[\"k\"]}]}",
     {"{\"k\":\"a\"}", "{\"k\":\"b\"}", "\"s\""},
     {"{\"k\":\"c\"}", "1"}},
    {"{\"type\":\"string\",\"format\":\"date\",\"maxLength\":10}",
     {"\"2026-11-15\""},
     {"\"abc\""}},
};

static void an_answer_is_taken_exactly_when_it_fits_the_schema(void **state)
{
    (void)state;
    check_schema_texts(tables, sizeof(tables) / sizeof(tables[0]));
}

static void a_schema_that_cannot_be_honoured_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *schema, *says;
    } cases[] = {
        {"{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}", "reference to a group"},
        {"{\"type\":\"string\",\"pattern\":\"\\\\bword\"}", "word boundary"},
        {"{\"type\":\"string\",\"pattern\":\"a(?!b)\"}", "look-ahead"},
        {"{\"type\":\"string\",\"pattern\":\"(?<=a)b\"}", "look-behind"},
        {"{\"type\":\"string\",\"pattern\":\"\\\\p{L}\"}", "\\p"},
        {"{\"type\":\"string\",\"pattern\":\"(\"}", "( without a )"},
        {"{\"type\":\"string\",\"pattern\":\"[b-a]\"}", "out of order"},
        {"{\"type\":\"string\",\"pattern\":\"(a{1,1000}){1,1000}\"}", "states"},
        {"{\"type\":\"string\",\"format\":\"regex\"}", "\"regex\""},
        {"{\"oneOf\":[]}", "\"oneOf\" must be a list"},
        {"{\"oneOf\":[{\"additionalProperties\":{\"type\":\"null\"}},{\"type\":\"object\"}]}",
         "\"additionalProperties\" where the schema must not fit"},
        {"{\"not\":{}}", "no value fits"},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "\"uniqueItems\""},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{"
         "\"uniqueItems\":true,\"type\":\"array\"}}}}",
         "properties.a.items: \"uniqueItems\""},
        {"{\"type\":\"integer\",\"multipleOf\":0}", "\"multipleOf\""},
        {"{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", "no value fits"},
        {"{\"type\":\"number\",\"exclusiveMinimum\":5,\"maximum\":5}", "no value fits"},
        {"{\"type\":\"string\",\"minLength\":5,\"maxLength\":4}", "no value fits"},
        {"{\"type\":\"array\",\"maxItems\":1,\"minItems\":2}", "no value fits"},
        {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "no value fits"},
        {"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}",
         "no value fits"},
        {"{\"type\":\"object\",\"minProperties\":3,\"maxProperties\":2}", "no value fits"},
        {"{\"type\":\"strin\"}", "\"type\""},
        {"{\"type\":7}", "\"type\""},
        {"{\"type\":[]}", "empty"},
        {"{\"enum\":[]}", "\"enum\""},
        {"{\"type\":\"integer\",\"enum\":[\"a\"]}", "no value"},
        {"{\"anyOf\":[]}", "\"anyOf\""},
        {"{\"$ref\":\"#/$defs/none\"}", "#/$defs/none"},
        {"{\"$ref\":\"https://example.com/s\"}", "leads nowhere"},
        {"{\"$ref\":\"#\"}", "back to itself"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "back to itself"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
         "no value fits"},
        {"{\"type\":\"object\",\"properties\":[]}", "\"properties\""},
        {"{\"type\":\"object\",\"properties\":{},\"required\":[\"a\"],\"additionalProperties\":"
         "false}",
         "no value fits"},
        {"{\"type\":\"object\",\"properties\":{\"a\":1}}", "properties.a: a schema must be"},
        {"false", "no value fits"},
        {"[]", "a schema must be"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lr_error err = {0};
        struct grammar_program *program = compile_schema(cases[i].schema, &err);
        if (program != NULL || strstr(err.text, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].schema, program != NULL ? "taken" : err.text);
    }
}

static void values_nest_as_deep_as_allowed_and_can_always_be_closed(void **state)
{
    (void)state;
    struct lr_error err;
    struct grammar_program *program = compile_schema("{\"type\":\"array\"}", &err);
    struct grammar_matcher *m = matcher_of(program);
    uint32_t depth = 0;
    while (depth < 1000 && grammar_matcher_bytes(m, LR_STR_LIT("["), false))
        depth++;
    assert_int_equal(depth, GRAMMAR_DEPTH_MAX + 1);
    for (uint32_t i = 0; i < depth; i++)
        assert_true(grammar_matcher_bytes(m, LR_STR_LIT("]"), false));
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("the stop token"), true));
    assert_true(grammar_matcher_is_complete(m));
    grammar_matcher_free(m);
    grammar_program_free(program);

    /* If a level must contain another one, it is begun only if that one fits too. */
    program = compile_schema(
        "{\"$defs\":{\"leaf\":{\"type\":\"integer\"}},\"type\":\"array\",\"minItems\":1,"
        "\"items\":{\"anyOf\":[{\"$ref\":\"#/$defs/leaf\"},{\"$ref\":\"#\"}]}}",
        &err);
    m = matcher_of(program);
    depth = 0;
    while (depth < 1000 && grammar_matcher_bytes(m, LR_STR_LIT("["), false))
        depth++;
    assert_true(depth > 10 && depth < GRAMMAR_DEPTH_MAX + 1);
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("1"), false));
    for (uint32_t i = 0; i < depth; i++)
        assert_true(grammar_matcher_bytes(m, LR_STR_LIT("]"), false));
    grammar_matcher_free(m);
    grammar_program_free(program);
}

static void runs_of_blanks_are_limited(void **state)
{
    (void)state;
    struct lr_error err;
    struct grammar_program *program = compile_schema("{\"type\":\"array\"}", &err);
    struct grammar_matcher *m = matcher_of(program);
    uint32_t blanks = 0;
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("[\n"), false));
    while (blanks < 1000 && grammar_matcher_bytes(m, LR_STR_LIT(" "), false))
        blanks++;
    assert_int_equal(blanks, GRAMMAR_INDENT_MAX);
    assert_false(grammar_matcher_bytes(m, LR_STR_LIT("\n"), false));
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("1]"), false));
    grammar_matcher_free(m);
    grammar_program_free(program);
}

static void what_is_not_legal_changes_nothing(void **state)
{
    (void)state;
    struct lr_error err;
    struct grammar_program *program = compile_schema("{\"type\":\"integer\"}", &err);
    struct grammar_matcher *m = matcher_of(program);
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("12"), false));
    assert_false(grammar_matcher_bytes(m, LR_STR_LIT("3x"), false));
    assert_false(grammar_matcher_bytes(m, LR_STR_LIT("<|return|>"), true));
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("3"), false));
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("the stop token"), true));
    grammar_matcher_free(m);
    grammar_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_taken_exactly_when_it_fits_the_schema),
        cmocka_unit_test(a_schema_that_cannot_be_honoured_is_refused_with_the_reason),
        cmocka_unit_test(values_nest_as_deep_as_allowed_and_can_always_be_closed),
        cmocka_unit_test(runs_of_blanks_are_limited),
        cmocka_unit_test(what_is_not_legal_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
