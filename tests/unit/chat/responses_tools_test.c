/* Tools of POST /v1/responses: a tool of a namespace is a function with both names for the
 * model, and a call in a namespace for the client. */
#include "chat/response.h"
#include "dialects.h"
#include "responses_test.h"

#define MADE(id, name)                                                                         \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                  \
    "\",\"arguments\":\"{}\"}}"
#define SPACE(name, tools)                                                                     \
    "{\"type\":\"namespace\",\"name\":\"" name                                                 \
    "\",\"description\":\"About.\",\"tools\":[" tools "]}"
#define TOOL(type, name) "{\"type\":\"" type "\",\"name\":\"" name "\"}"

static void tools_of_a_namespace_stand_among_the_others_under_both_names(void **state)
{
    (void)state;
    struct parsed p = accept("\"tools\":[" TOOL("function", "f") "," SPACE(
        "crm", TOOL("function", "f") "," TOOL(
                   "custom", "g")) "],"
                                   "\"input\":[{\"type\":\"function_call\",\"call_id\":\"a\","
                                   "\"namespace\":\"crm\","
                                   "\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_"
                                   "call\",\"call_id\":\"b\","
                                   "\"namespace\":null,\"name\":\"f\",\"arguments\":\"{}\"}]");
    expect_json(p.req->messages,
                "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" MADE(
                    "a", "crm.f") "," MADE("b", "f") "]}]");
    static const char *const names[] = {"f", "crm.f", "crm.g"};
    static const char *const abouts[] = {NULL, "crm: About.", NULL};
    assert_int_equal(p.req->tools->count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct lr_json *f = lr_json_get(&p.req->tools->items[i], "function");
        struct lr_str name = {0}, about = {0};
        assert_true(lr_json_str(lr_json_get(f, "name"), &name) && lr_str_eq_z(name, names[i]));
        assert_true(lr_json_str(lr_json_get(f, "description"), &about) == (abouts[i] != NULL));
        assert_true(abouts[i] == NULL || lr_str_eq_z(about, abouts[i]));
    }
    lr_arena_free(&p.arena);
}

static void a_namespace_keeps_the_limits_of_tools(void **state)
{
    (void)state;
    refuse("\"input\":\"x\",\"tools\":[" SPACE("s", TOOL("mcp", "f")) "]",
           "tools[0].tools[0].type", "unsupported_value", "'mcp' is not supported");
    refuse("\"input\":\"x\",\"tools\":[" SPACE("s", SPACE("s", "")) "]",
           "tools[0].tools[0].type", "unsupported_value", "'namespace' is not supported");
    refuse("\"input\":\"x\",\"tools\":[" SPACE("a b", "") "]", "tools[0].name", "invalid_value",
           "letters");
    refuse("\"input\":\"x\",\"tools\":[{\"type\":\"namespace\",\"name\":\"s\"}]",
           "tools[0].tools", "invalid_value", "an array");
    refuse("\"input\":\"x\",\"tools\":[" TOOL("function",
                                              "s.f") "," SPACE("s", TOOL("function", "f")) "]",
           "tools[1].tools[0].name", "invalid_value", "twice");
    refuse("\"input\":\"x\",\"tools\":[" SPACE("s", "") "," SPACE(
               "s", "{\"type\":\"function\",\"name\":\"f\",\"strict\":true,\"parameters\":{"
                    "\"type\":\"nonsense\"}}") "]",
           "tools[1].tools[0].parameters", "invalid_value", "schema");
    refuse("\"input\":[{\"type\":\"function_call\",\"call_id\":\"a\",\"namespace\":7,"
           "\"name\":\"f\",\"arguments\":\"{}\"}]",
           "input[0].namespace", "invalid_value", "namespace");
    struct parsed p = accept("\"input\":\"x\",\"tools\":[" SPACE("s", "") "]");
    assert_null(p.req->tools);
    lr_arena_free(&p.arena);
}

/* Parses a namespace with a long name and `count` tools. */
static struct parsed parse_many(uint32_t count)
{
    static char members[1 << 15];
    int len = snprintf(members, sizeof(members),
                       "\"input\":\"x\",\"tools\":[{\"type\":\"namespace\",\"name\":\"%064d\","
                       "\"tools\":[",
                       7);
    for (uint32_t i = 0; i < count; i++)
        len += snprintf(members + len, sizeof(members) - (size_t)len,
                        "%s{\"type\":\"function\",\"name\":\"%u\"}", i > 0 ? "," : "", i);
    snprintf(members + len, sizeof(members) - (size_t)len, "]}]");
    return parse(members);
}

static void tools_in_namespaces_count_as_the_others_do(void **state)
{
    (void)state;
    struct parsed p = parse_many(255); /* the namespace counts too */
    assert_int_equal(p.code, LR_OK);
    assert_int_equal(p.req->tools->count, 255);
    lr_arena_free(&p.arena);
    p = parse_many(256);
    assert_int_equal(p.code, LR_INVALID_ARGUMENT);
    assert_string_equal(p.e.param, "tools");
    lr_arena_free(&p.arena);
}

static void a_web_search_is_left_out_and_named(void **state)
{
    (void)state;
    struct parsed p = accept("\"input\":\"x\",\"tools\":[{\"type\":\"web_search\","
                             "\"external_web_access\":false}," TOOL("function", "f") "]");
    assert_int_equal(p.req->tools->count, 1);
    lr_arena_free(&p.arena);
    p = accept("\"input\":\"x\",\"tools\":[{\"type\":\"web_search\","
               "\"external_web_access\":false}]");
    assert_null(p.req->tools);
    assert_string_equal(p.req->ignored, "");
    lr_arena_free(&p.arena);
    p = accept("\"input\":\"x\",\"tools\":[{\"type\":\"web_search\",\"external_web_access\":"
               "true}," TOOL("function", "f") ",{\"type\":\"web_search_preview_2025_03_11\"}]");
    assert_int_equal(p.req->tools->count, 1);
    assert_string_equal(p.req->ignored,
                        "tools[0].web_search, tools[2].web_search_preview_2025_03_11");
    lr_arena_free(&p.arena);
}

/* The client's view of a call to `recipient`. */
static void expect_call(const char *members, const char *recipient, const char *wanted)
{
    struct parsed p = accept(members);
    struct chat_response *r;
    struct chat_dialect dialect = dialect_of(GRAMMAR_HARMONY);
    struct chat_response_options o = {
        .request = p.req, .id = LR_STR_LIT("resp_1"), .dialect = &dialect};
    struct chat_usage usage = {1, 2, 0};
    struct lr_buf out;
    char header[256];
    snprintf(header, sizeof(header), "commentary to=%s ", recipient);
    const struct wire_token tokens[] = {{.bytes = LR_STR_LIT("<|channel|>"), .special = true},
                                        {.bytes = lr_str_z(header)},
                                        {.bytes = LR_STR_LIT("<|message|>"), .special = true},
                                        {.bytes = LR_STR_LIT("{\"input\":\"x\"}")},
                                        {.bytes = LR_STR_LIT("<|call|>"), .special = true}};
    lr_buf_init(&out, 1 << 20);
    assert_int_equal(chat_response_create(&o, &r, NULL), LR_OK);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
        chat_response_on_token(r, 0, &tokens[i], &out);
    chat_response_on_done(r, 0, LR_FINISH_STOP, &usage, &out);
    if (strstr(lr_buf_z(&out), wanted) == NULL)
        fail_msg("to=%s: no %s in %s", recipient, wanted, lr_buf_z(&out));
    chat_response_destroy(r);
    lr_buf_free(&out);
    lr_arena_free(&p.arena);
}

static void a_call_names_its_namespace_apart_from_its_name(void **state)
{
    (void)state;
    static const char tools[] = "\"input\":\"x\",\"tools\":[" TOOL("function", "f") "," SPACE(
        "crm",
        TOOL("function", "f") "," TOOL("custom", "g") "," TOOL(
            "function", "h")) "," SPACE("erp",
                                        TOOL("function", "h") "," TOOL("function", "i.j")) "]";
    expect_call(tools, "functions.crm.f",
                "\"name\":\"f\",\"namespace\":\"crm\",\"arguments\":\"{\\\"input\\\":");
    expect_call(tools, "crm.g", "\"name\":\"g\",\"namespace\":\"crm\",\"input\":\"x\"");
    expect_call(tools, "functions.erp.i.j", "\"name\":\"i.j\",\"namespace\":\"erp\"");
    expect_call(tools, "functions.f", "\"name\":\"f\",\"arguments\"");
}

static void a_bare_name_is_enough_if_only_one_namespace_has_it(void **state)
{
    (void)state;
    static const char tools[] = "\"input\":\"x\",\"tools\":[" SPACE(
        "crm", TOOL("custom", "g") "," TOOL("function", "h")) "," SPACE("erp", TOOL("function",
                                                                                    "h")) "]";
    expect_call(tools, "functions.g", "\"name\":\"g\",\"namespace\":\"crm\",\"input\":\"x\"");
    expect_call(tools, "functions.h", "\"name\":\"h\",\"arguments\"");
    expect_call(tools, "functions.unknown", "\"name\":\"unknown\",\"arguments\"");
}

/* A custom tool in a namespace with the longest names: nothing is truncated. */
static void names_of_full_length_come_back_whole(void **state)
{
    (void)state;
    char members[512], recipient[160], wanted[200];
    snprintf(members, sizeof(members),
             "\"input\":\"x\",\"tools\":[{\"type\":\"namespace\",\"name\":\"%064d\",\"tools\":["
             "{\"type\":\"custom\",\"name\":\"%064d\"}]}]",
             1, 2);
    snprintf(recipient, sizeof(recipient), "functions.%064d.%064d", 1, 2);
    snprintf(wanted, sizeof(wanted), "\"name\":\"%064d\",\"namespace\":\"%064d\",\"input\"", 2,
             1);
    expect_call(members, recipient, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tools_of_a_namespace_stand_among_the_others_under_both_names),
        cmocka_unit_test(a_namespace_keeps_the_limits_of_tools),
        cmocka_unit_test(tools_in_namespaces_count_as_the_others_do),
        cmocka_unit_test(a_web_search_is_left_out_and_named),
        cmocka_unit_test(a_call_names_its_namespace_apart_from_its_name),
        cmocka_unit_test(a_bare_name_is_enough_if_only_one_namespace_has_it),
        cmocka_unit_test(names_of_full_length_come_back_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
