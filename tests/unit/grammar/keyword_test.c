/* Keywords that narrow each other: merged schemas, patterns, names, counts.  Each schema with
 * texts that fit it and texts that do not. */
#include "grammar_test.h"

static const struct schema_texts tables[] = {
    {"{\"type\":\"string\",\"pattern\":\"^[a-z]{2,3}$\"}",
     {"\"ab\"", "\"abc\""},
     {"\"a\"", "\"abcd\"", "\"aB\"", "\"\"", "\"a\\u0062\""}},
    {"{\"type\":\"string\",\"pattern\":\"b+c\"}",
     {"\"bc\"", "\"xbbcx\"", "\"\\nbc\""},
     {"\"b\"", "\"cb\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(foo|ba[rz])?$\"}",
     {"\"\"", "\"foo\"", "\"bar\"", "\"baz\""},
     {"\"ba\"", "\"fooo\"", "\"barfoo\""}},
    {"{\"type\":\"string\",\"pattern\":\"^.{3}$\"}",
     {"\"abc\"", "\"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\"", "\"a\\\"b\"", "\"a\\\\b\"",
      "\"\\t\\t\\t\""},
     {"\"ab\"", "\"abcd\"", "\"a\\nb\"", "\"\xe6\x97\xa5\xe6\x9c\xac\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[^\\\\d\\\\s]+$\"}",
     {"\"ab\"", "\"\xc3\xa9\""},
     {"\"a1\"", "\"a b\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^\\\\u0041[\\\\x42-D]\\\\u{43}$\"}",
     {"\"ABC\"", "\"ADC\""},
     {"\"AEC\"", "\"ABc\""}},
    {"{\"type\":\"string\",\"pattern\":\"^a|b$\"}",
     {"\"ax\"", "\"xb\"", "\"a\"", "\"b\""},
     {"\"xa\"", "\"bx\"", "\"\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(?!admin)[a-z]+$\"}",
     {"\"user\"", "\"adm\""},
     {"\"admin\"", "\"administrator\"", "\"1\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(?=.*[0-9])[a-z0-9]{2,4}$\"}",
     {"\"a1\"", "\"123\""},
     {"\"ab\"", "\"1\""}},
    {"{\"type\":\"string\",\"pattern\":\"^a+$\",\"maxLength\":3,\"minLength\":2}",
     {"\"aa\"", "\"aaa\""},
     {"\"a\"", "\"aaaa\""}},
    {"{\"type\":\"string\",\"pattern\":\"[0-9]\",\"allOf\":[{\"pattern\":\"[a-z]\"},{"
     "\"maxLength\":3}]}",
     {"\"a1\"", "\"1a-\""},
     {"\"a\"", "\"1\"", "\"ab12\""}},
    {"{\"pattern\":\"^a$\"}", {"\"a\"", "1", "{\"b\":\"c\"}"}, {"\"b\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"127.0.0.1\"", "\"255.255.255.255\""},
     {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
    {"{\"type\":\"string\",\"format\":\"ipv6\"}",
     {"\"::1\"", "\"1:2:3:4:5:6:7:8\"", "\"::ffff:1.2.3.4\"", "\"1::\""},
     {"\"1::2::3\"", "\"12345::\"", "\":::\"", "\"1:2:3:4:5:6:7\""}},
    {"{\"type\":\"string\",\"format\":\"email\"}",
     {"\"joe@example.com\"", "\"a.b+c@x-y.org\""},
     {"\"joe\"", "\"@x\"", "\"joe@\"", "\".a@b.c\"", "\"a..b@c.d\"", "\"joe@-x.com\""}},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     {"\"http://a.b/c?d=e#f\"", "\"urn:isbn:1\"", "\"https://[::1]:8/x\""},
     {"\"/a\"", "\"http:// a\"", "\"a b:c\"", "\"http://[a]\"", "\"%zz:\""}},
    {"{\"type\":\"string\",\"format\":\"uri-reference\"}",
     {"\"/a/b\"", "\"a#b\"", "\"http://x\"", "\"\""},
     {"\"a b\"", "\"\\\\x\"", "\"%z\""}},
    {"{\"type\":\"string\",\"format\":\"hostname\"}",
     {"\"a.b-c.example\"", "\"localhost\""},
     {"\"-a\"", "\"a-\"", "\"a..b\"", "\"a_b\"", "\"xn--a\"", "\"a.Xn--b\""}},
    {"{\"type\":\"string\",\"format\":\"iri-reference\"}",
     {"\"/\xc3\xa9?\xee\x80\x80\"", "\"http://\xc3\xa9\""},
     {"\"a b\"", "\"/\xee\x80\x80\"", "\"\xf0\x9f\xbf\xbe\""}},
    {"{\"type\":\"string\",\"format\":\"uri-template\"}",
     {"\"a'b/{+x,y:3}\""},
     {"\"{\"", "\"a\x7f\"", "\"a|b\""}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"2000-02-29\""},
     {"\"2023-02-29\"", "\"1900-02-29\""}},
    {"{\"type\":\"string\",\"format\":\"duration\"}",
     {"\"P1Y2M3D\"", "\"PT5M\"", "\"P2W\"", "\"P1DT1H\""},
     {"\"P\"", "\"PT\"", "\"1D\"", "\"P1H\""}},
    {"{\"type\":\"string\",\"format\":\"json-pointer\"}",
     {"\"\"", "\"/a/~0b\""},
     {"\"a\"", "\"/~2\""}},
    {"{\"format\":\"date\"}", {"\"2024-01-01\"", "5", "[]"}, {"\"x\""}},
    {"{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":"
     "1}},\"required\":[\"a\"]},{\"properties\":{\"a\":{\"maximum\":3},\"b\":{\"type\":"
     "\"null\"}},\"required\":[\"b\"]}]}",
     {"{\"a\":1,\"b\":null}", "{\"a\":3,\"b\":null}", "{\"a\":2,\"b\":null,\"x\":1}"},
     {"{\"a\":4,\"b\":null}", "{\"a\":1}", "{\"a\":0,\"b\":null}"}},
    {"{\"$ref\":\"#/$defs/"
     "p\",\"maximum\":9,\"$defs\":{\"p\":{\"type\":\"integer\",\"minimum\":5}}}",
     {"5", "9"},
     {"4", "10", "\"5\""}},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$ref\":\"#/definitions/"
     "p\",\"maximum\":9,\"definitions\":{\"p\":{\"type\":\"integer\",\"minimum\":5}}}",
     {"5", "9", "10"},
     {"4"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"anyOf\":[{"
     "\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}"},
     {"{}", "{\"c\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"oneOf\":[{\"required\":[\"a\"]}"
     ",{\"required\":[\"b\"]}]}",
     {"{\"a\":1}", "{\"b\":2}"},
     {"{}", "{\"a\":1,\"b\":2}"}},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"minimum\":2}]}",
     {"1", "2.5", "-7"},
     {"2", "3", "1.5"}},
    {"{\"oneOf\":[{\"type\":\"string\",\"maxLength\":3},{\"type\":\"string\",\"pattern\":\"^"
     "a\"}]}",
     {"\"bcd\"", "\"abcd\""},
     {"\"abc\"", "\"bcde\""}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"integer\"},\"y$\":{"
     "\"minimum\":5}},\"additionalProperties\":false}",
     {"{}", "{\"x-a\":1}", "{\"x-y\":5}", "{\"ay\":7}", "{\"x-a\":1,\"x-b\":2}"},
     {"{\"x-a\":\"1\"}", "{\"x-y\":4}", "{\"z\":1}", "{\"x-a\":1,\"x-a\":2}"}},
    {"{\"type\":\"object\",\"properties\":{\"x-id\":{\"type\":\"string\"}},"
     "\"patternProperties\":{\"^x-\":{\"maxLength\":2}}}",
     {"{\"x-id\":\"ab\"}", "{\"x-b\":\"ab\"}", "{\"q\":\"abc\"}"},
     {"{\"x-id\":\"abc\"}", "{\"x-id\":1}", "{\"x-b\":\"abc\"}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-c]$\"}}",
     {"{}", "{\"a\":1,\"c\":2}"},
     {"{\"d\":1}", "{\"aa\":1}", "{\"a\":1,\"a\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"additionalProperties\":"
     "{\"type\":\"null\"}}",
     {"{\"a\":null,\"b\":null}", "{\"b\":null,\"a\":null}"},
     {"{\"a\":null,\"b\":null,\"a\":null}", "{\"a\":null,\"b\":null,", "{\"c\":null}"}},
    {"{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":3,\"properties\":{\"a\":{}}}",
     {"{\"a\":1,\"b\":2}", "{\"x\":1,\"y\":2,\"z\":3}"},
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}"}},
    {"{\"type\":\"object\",\"minProperties\":2,\"properties\":{\"a\":{},\"b\":{},\"c\":{}},"
     "\"additionalProperties\":false}",
     {"{\"a\":1,\"b\":2}", "{\"b\":1,\"c\":2}", "{\"a\":1,\"c\":1}"},
     {"{\"c\":1}", "{\"a\":1}", "{}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}",
     {"{\"a\":1,\"b\":\"x\"}", "{\"b\":1}"},
     {"{\"a\":\"x\"}", "{\"a\":1,\"a\":1}", "{\"b\":1,\"b\":1}", "{\"b\":1,\"\\u0062\":1}"}},
    {"{\"type\":\"object\",\"required\":[\"b\",\"a\"],\"additionalProperties\":{\"type\":"
     "\"integer\"}}",
     {"{\"a\":1,\"b\":2}", "{\"b\":2,\"c\":3,\"a\":1}"},
     {"{\"a\":1}", "{\"b\":1,\"c\":2}", "{\"a\":\"x\",\"b\":1}"}},
    {"{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]}}",
     {"{}", "{\"b\":1}", "{\"b\":1,\"a\":2}"},
     {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"dependencies\":{\"a\":[\"b\"],"
     "\"b\":{\"properties\":{\"b\":{\"type\":\"null\"}}}}}",
     {"{}", "{\"b\":null}", "{\"a\":1,\"b\":null}"},
     {"{\"a\":1}", "{\"b\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]}},\"required\":[\"k\"]"
     ",\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}}},\"then\":{\"required\":[\"x\"]},"
     "\"else\":{\"required\":[\"y\"]}}",
     {"{\"k\":\"a\",\"x\":1}", "{\"k\":\"b\",\"y\":1}"},
     {"{\"k\":\"a\"}", "{\"k\":\"b\",\"x\":1}"}},
    {"{\"not\":{\"type\":[\"string\",\"number\"]}}",
     {"null", "true", "[1]", "{\"a\":\"b\"}"},
     {"\"a\"", "1", "1.5"}},
    {"{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"b\"]}}",
     {"\"c\"", "\"\"", "\"ab\""},
     {"\"a\"", "\"b\""}},
    {"{\"type\":\"string\",\"not\":{\"pattern\":\"^x\"}}",
     {"\"\"", "\"ax\""},
     {"\"x\"", "\"xy\""}},
    {"{\"type\":\"object\",\"not\":{\"required\":[\"a\"]}}",
     {"{}", "{\"b\":1}"},
     {"{\"a\":1}"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],"
     "\"items\":false}",
     {"[]", "[1]", "[1,\"a\"]"},
     {"[\"a\"]", "[1,2]", "[1,\"a\",3]"}},
    {"{\"type\":\"array\",\"items\":[{\"type\":\"integer\"}],\"additionalItems\":{\"type\":"
     "\"null\"},\"minItems\":2}",
     {"[1,null]", "[1,null,null]"},
     {"[1]", "[1,2]", "[]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"integer\"},\"items\":{\"type\":[\"integer\","
     "\"null\"]}}",
     {"[1]", "[null,1]", "[1,null,2]"},
     {"[]", "[null]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":2,"
     "\"items\":{\"type\":\"integer\"}}",
     {"[1,1]", "[1,2,1]"},
     {"[1]", "[1,1,1]", "[2]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"maxItems\":2,\"items\":{\"type\":"
     "\"integer\"}}",
     {"[1]", "[2,1]", "[1,2]"},
     {"[2,2]", "[2,2,1]", "[]"}},
    {"{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\"]},\"uniqueItems\":true}",
     {"[]", "[\"a\"]", "[\"b\",\"a\"]"},
     {"[\"a\",\"a\"]", "[\"a\",\"b\",", "[\"c\"]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true,\"minItems\":2}",
     {"[\"a\",\"b\"]", "[\"\",\"a\"]"},
     {"[\"a\"]", "[\"a\",\"a\"]", "[\"a\",\"b\",\"a\"]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":1000000}",
     {"[]", "[1,2]"},
     {"[\"a\"]"}},
    {"{\"type\":\"string\",\"maxLength\":1000000}", {"\"a\""}, {"1"}},
    {"{\"type\":\"integer\",\"multipleOf\":7}", {"0", "7", "-14", "7000"}, {"1", "8", "-13"}},
    {"{\"type\":\"number\",\"multipleOf\":0.25}",
     {"0.25", "1.5", "2", "-0.75"},
     {"0.1", "0.3"}},
    {"{\"type\":\"number\",\"minimum\":0.5,\"maximum\":2.25}",
     {"0.5", "1", "2", "2.25", "2.0", "0.75"},
     {"0.49", "2.26", "3", "0", "-1"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":-0.5,\"maximum\":10.5}",
     {"-0.49", "0", "10.5", "9.99"},
     {"-0.5", "-1", "10.6", "11"}},
    {"{\"$schema\":\"http://json-schema.org/draft-04/"
     "schema#\",\"type\":\"integer\",\"minimum\":3,\"exclusiveMinimum\":true}",
     {"4"},
     {"3"}},
    {"{\"type\":\"number\",\"not\":{\"minimum\":3}}", {"2", "-5", "2.5"}, {"3", "4"}},
    {"{\"enum\":[{\"a\":[1,2]},[null]]}",
     {"{\"a\":[1,2]}", "{\"a\": [1, 2]}", "[ null ]"},
     {"{\"a\":[1]}", "[]"}},
    {"{\"enum\":[\"a\",\"bb\",\"c\"],\"maxLength\":1,\"not\":{\"const\":\"c\"}}",
     {"\"a\""},
     {"\"bb\"", "\"c\""}},
    {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{}}}],\"unevaluatedProperties\":"
     "false}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":1}"}},
    {"{\"type\":\"object\",\"maxProperties\":0,\"properties\":{\"a\":{}}}",
     {"{}", "{ }"},
     {"{\"a\":1}", "{\"b\":1}"}},
    {"{\"type\":\"object\",\"properties\":{\"b\":{}},\"required\":[\"bar\"],"
     "\"patternProperties\":"
     "{\"^(foo|bar)?$\":{\"type\":\"null\"}}}",
     {"{\"b\":1,\"x\":1,\"bar\":null}",
      "{\"b\":1,\"\":null,\"foo\":null,\"x\":2,\"bar\":null}"},
     {"{\"b\":1}", "{\"bar\":1}", "{\"bar\":null,\"\":null,\"foo\":null,\"\":null}"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"allOf\":[{\"prefixItems\":["
     "true,{"
     "\"type\":\"integer\"}]}],\"unevaluatedItems\":false}",
     {"[]", "[\"a\"]", "[\"a\",1]"},
     {"[1]", "[\"a\",\"b\"]", "[\"a\",1,2]"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{}},\"anyOf\":[{\"properties\":{\"b\":{"
     "\"const\":1}},"
     "\"required\":[\"b\"]},{\"properties\":{\"c\":{\"const\":1}},\"required\":[\"c\"]}],"
     "\"unevaluatedProperties\":false}",
     {"{\"a\":1,\"b\":1}", "{\"c\":1}", "{\"b\":1,\"c\":1}"},
     {"{\"a\":1}", "{\"b\":1,\"c\":2}", "{\"b\":1,\"d\":2}"}},
    {"{\"type\":\"object\",\"if\":{\"required\":[\"a\"],\"properties\":{\"a\":{}}},"
     "\"unevaluatedProperties\":false}",
     {"{}", "{\"a\":1}"},
     {"{\"b\":1}", "{\"a\":1,\"b\":1}"}},
    {"{\"type\":\"array\",\"not\":{\"items\":{\"type\":\"null\"}}}",
     {"[1]", "[null,1]"},
     {"[]", "[null]", "[null,null]"}},
    {"{\"type\":\"array\",\"not\":{\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"null\"}],"
     "\"items\":false}}",
     {"[1]", "[null,1]", "[null,null,null]"},
     {"[]", "[null]", "[null,null]"}},
    {"{\"$id\":\"http://x.y/a/\",\"$ref\":\"b/c\",\"$defs\":{\"b\":{\"$id\":\"b/"
     "\",\"$defs\":{\"c\":{"
     "\"$id\":\"c\",\"$ref\":\"./d\"},\"d\":{\"$id\":\"d\",\"type\":\"null\"}}}}}",
     {"null"},
     {"1"}},
    {"{\"$ref\":\"#here\",\"$defs\":{\"x\":{\"$anchor\":\"here\",\"type\":\"null\"}}}",
     {"null"},
     {"1"}},
};

static void keywords_are_kept_together_and_in_any_combination(void **state)
{
    (void)state;
    check_schema_texts(tables, sizeof(tables) / sizeof(tables[0]));
}

/* "strict" closes objects that do not say otherwise, and keeps the others as they are. */
static void strict_closes_objects_and_keeps_the_order_of_properties(void **state)
{
    struct lr_error err = {0};
    (void)state;
    struct grammar_program *program = compile_text(
        "{\"format\":\"plain\",\"answer\":\"schema\",\"strict\":true,\"schema\":{\"type\":"
        "\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"b\":{}}},"
        "\"m\":{\"type\":\"object\",\"additionalProperties\":{}}}}}",
        &err);
    assert_non_null(program);
    assert_true(takes(program, LR_STR_LIT("{\"a\":{\"b\":1}}")));
    assert_true(takes(program, LR_STR_LIT("{\"m\":{\"b\":1}}")));
    assert_false(takes(program, LR_STR_LIT("{\"a\":{\"c\":1}}")));
    assert_false(takes(program, LR_STR_LIT("{\"z\":1}")));
    assert_true(takes(program, LR_STR_LIT("{\"a\":{},\"m\":{}}")));
    assert_false(takes(program, LR_STR_LIT("{\"m\":{},\"a\":{}}")));
    grammar_program_free(program);
}

/* Each text is legal except for its last byte: nothing could follow that byte. */
static void a_property_is_begun_only_if_it_can_be_completed(void **state)
{
    static const struct {
        const char *schema, *text;
    } cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"c\":{},\"a\":{},\"d\":{}},\"required\":[\"a\"]"
         ","
         "\"additionalProperties\":false,\"maxProperties\":1}",
         "{\"a\":1,"},
        {"{\"type\":\"object\",\"maxProperties\":0,\"properties\":{\"a\":{}}}", "{\""},
        {"{\"type\":\"object\",\"properties\":{\"bar\":false},\"patternProperties\":{\"^(foo|"
         "bar)?$"
         "\":{}},\"additionalProperties\":{\"type\":\"object\",\"required\":[\"x\"],"
         "\"properties\":{"
         "\"x\":false}}}",
         "{\"\":1,\"foo\":1,"},
        {"{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"\xe6\x97\xa5\",\"\xe6\x9c\xac\","
         "\"a\"]}}",
         "{\"\xe6\x97\xa5\":1,\"\xe6\x9c\xac\":1,\"\xe6"},
        {"{\"type\":\"array\",\"items\":{\"enum\":[\"\\n\",\"\\t\",\"a\"]},\"uniqueItems\":"
         "true}",
         "[\"\\n\",\"\\t\",\"\\"},
        {"{\"type\":\"array\",\"items\":{\"enum\":[\"\\u0001\",\"\\u0010\",\"a\"]},"
         "\"uniqueItems\":true}",
         "[\"\\u0001\",\"\\u000"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lr_error err = {0};
        struct grammar_program *program = compile_schema(cases[i].schema, &err);
        if (program == NULL)
            fail_msg("%s: %s", cases[i].schema, err.text);
        struct grammar_matcher *m = matcher_of(program);
        size_t legal = legal_bytes(m, lr_str_z(cases[i].text));
        if (legal + 1 != strlen(cases[i].text))
            fail_msg("%s: %zu bytes of %s", cases[i].schema, legal, cases[i].text);
        grammar_matcher_free(m);
        grammar_program_free(program);
    }
}

/* The bytes of an answer cost the same wherever they are: sets and texts do not slow it down.
 */
static void a_long_answer_costs_the_same_for_each_byte(void **state)
{
    enum { NAMES = 3000 };
    struct lr_error err = {0};
    struct lr_buf text;
    (void)state;
    struct grammar_program *program = compile_schema(
        "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"a\":{"
        "\"pattern\":\"^[a-z]+$\"}}}}",
        &err);
    assert_non_null(program);
    lr_buf_init(&text, 1 << 20);
    lr_buf_add_char(&text, '[');
    for (int i = 0; i < NAMES; i++)
        lr_buf_addf(&text, "%s{\"a\":\"abc\",\"n%d\":%d}", i > 0 ? "," : "", i, i);
    lr_buf_add_char(&text, ']');
    assert_true(takes(program, lr_buf_str(&text)));
    lr_buf_free(&text);
    grammar_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keywords_are_kept_together_and_in_any_combination),
        cmocka_unit_test(strict_closes_objects_and_keeps_the_order_of_properties),
        cmocka_unit_test(a_property_is_begun_only_if_it_can_be_completed),
        cmocka_unit_test(a_long_answer_costs_the_same_for_each_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
