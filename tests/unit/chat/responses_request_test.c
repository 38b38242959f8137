/* Parsing requests of POST /v1/responses: items become the messages that a template expects,
 * and every field is honoured, accepted without effect or refused by name. */
#include "base/file.h"
#include "responses_test.h"

static void expect_messages(const char *members, const char *wanted)
{
    struct parsed p = accept(members);
    expect_json(p.req->messages, wanted);
    lr_arena_free(&p.arena);
}

static void a_string_is_one_message_of_the_user(void **state)
{
    (void)state;
    expect_messages("\"input\":\"hi\"", "[{\"role\":\"user\",\"content\":\"hi\"}]");
    expect_messages("\"instructions\":\"Be brief.\",\"input\":\"hi\"",
                    "[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                    "{\"role\":\"user\",\"content\":\"hi\"}]");
}

static void system_and_developer_texts_come_first_wherever_they_were(void **state)
{
    (void)state;
    expect_messages(
        "\"input\":[{\"role\":\"developer\",\"content\":[{\"type\":\"input_text\",\"text\":"
        "\"A\"},{\"type\":\"input_text\",\"text\":\"B\"}]},{\"role\":\"user\",\"content\":"
        "\"x\"},{\"type\":\"message\",\"role\":\"system\",\"content\":\"C\"}],"
        "\"instructions\":\"I\"",
        "[{\"role\":\"system\",\"content\":\"I\\n\\nA\\nB\\n\\nC\"},"
        "{\"role\":\"user\",\"content\":\"x\"}]");
}

#define CALL(id, name)                                                                         \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name                      \
    "\",\"arguments\":\"{}\",\"id\":\"fc_1\",\"status\":\"completed\"}"
#define OUTPUT(id, text)                                                                       \
    "{\"type\":\"function_call_output\",\"call_id\":\"" id "\",\"output\":" text "}"
#define MADE(id, name)                                                                         \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                  \
    "\",\"arguments\":\"{}\"}}"
#define TOLD(id, text)                                                                         \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" text "\"}"
#define THINK(text)                                                                            \
    "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"encrypted_content\":\"x\","      \
    "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"" text "\"}]}"
#define SAID(text)                                                                             \
    "{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"status\":\"completed\","  \
    "\"content\":[{\"type\":\"output_text\",\"text\":\"" text "\",\"annotations\":[]}]}"

static void reasoning_text_and_calls_of_a_turn_are_one_message(void **state)
{
    (void)state;
    static const char items[] = "\"input\":[" THINK("T") "," SAID("S") "," CALL("a", "f");
    static const char rest[] = "," CALL("b", "g") "," OUTPUT("a", "\"1\"") ",";
    static const char last[] = OUTPUT("b", "[{\"type\":\"input_text\",\"text\":\"2\"}]");
    static const char calls[] = MADE("a", "f") "," MADE("b", "g");
    static const char results[] = TOLD("a", "1") "," TOLD("b", "2");
    char members[2048], wanted[2048];
    snprintf(members, sizeof(members), "%s%s%s]", items, rest, last);
    snprintf(wanted, sizeof(wanted),
             "[{\"role\":\"assistant\",\"content\":\"S\",\"reasoning_content\":\"T\","
             "\"tool_calls\":[%s]},%s]",
             calls, results);
    expect_messages(members, wanted);
}

static void a_call_after_a_result_is_a_turn_of_its_own(void **state)
{
    (void)state;
    static const char first[] = CALL("a", "f") "," OUTPUT("a", "\"1\"") "," THINK("T");
    static const char second[] = CALL("b", "g");
    static const char third[] = CALL("c", "g") "," OUTPUT("b", "\"2\"");
    char members[2048], wanted[2048];
    snprintf(members, sizeof(members),
             "\"input\":[%s,%s,{\"role\":\"developer\",\"content\":\"D\"},%s]", first, second,
             third);
    snprintf(wanted, sizeof(wanted),
             "[{\"role\":\"system\",\"content\":\"D\"},"
             "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[%s]},%s,"
             "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"T\","
             "\"tool_calls\":[%s]},"
             "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[%s]},%s]",
             MADE("a", "f"), TOLD("a", "1"), MADE("b", "g"), MADE("c", "g"), TOLD("b", "2"));
    expect_messages(members, wanted);
}

static void reasoning_that_led_to_nothing_is_left_out(void **state)
{
    (void)state;
    expect_messages("\"input\":[" THINK("T") ",{\"role\":\"user\",\"content\":\"x\"}]",
                    "[{\"role\":\"user\",\"content\":\"x\"}]");
    expect_messages(
        "\"input\":[{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\","
        "\"text\":\"A\"}]}," THINK("B") "," SAID("S") "]",
        "[{\"role\":\"assistant\",\"content\":\"S\",\"reasoning_content\":"
        "\"A\\nB\"}]");
}

static void an_image_from_a_tool_is_told_and_does_not_end_the_conversation(void **state)
{
    (void)state;
    expect_messages(
        "\"input\":[" CALL("a", "f") "," OUTPUT(
            "a", "[{\"type\":\"input_text\",\"text\":\"Seen:\"},{\"type\":\"input_image\","
                 "\"image_url\":\"data:image/png;base64,AA==\",\"detail\":\"high\"}]") "]",
        "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" MADE("a", "f") "]}," TOLD(
            "a", "Seen:\\n[An image. This model reads text only.]") "]");
}

static void a_custom_tool_is_a_strict_function_of_one_string(void **state)
{
    (void)state;
    struct parsed p = accept(
        "\"input\":[{\"role\":\"user\",\"content\":\"x\"},{\"type\":\"custom_tool_call\","
        "\"call_id\":\"a\",\"name\":\"patch\",\"input\":\"*** \\\"P\\\"\"},"
        "{\"type\":\"custom_tool_call_output\",\"call_id\":\"a\",\"output\":\"ok\"}],"
        "\"tools\":[{\"type\":\"custom\",\"name\":\"patch\",\"description\":\"Edits.\","
        "\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\",\"definition\":\"start: A\"}},"
        "{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"},"
        "\"strict\":false}],\"tool_choice\":{\"type\":\"custom\",\"name\":\"patch\"}");
    expect_json(
        p.req->tools,
        "[{\"type\":\"function\",\"function\":{\"name\":\"patch\",\"description\":\"Edits."
        "\\n\\n"
        "The input follows this grammar (lark):\\nstart: A\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"],"
        "\"additionalProperties\":false},\"strict\":true}},{\"type\":\"function\",\"function\":"
        "{"
        "\"name\":\"f\",\"description\":null,\"parameters\":{\"type\":\"object\"},\"strict\":"
        "false}}]");
    expect_json(
        &p.req->messages->items[1],
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":"
        "\"function\",\"function\":{\"name\":\"patch\",\"arguments\":{\"input\":\"*** "
        "\\\"P\\\"\"}}}]}");
    assert_true(p.req->requires_tool_call && lr_str_eq_z(p.req->required_tool, "patch"));
    lr_arena_free(&p.arena);
}

static void efforts_that_models_do_not_know_are_the_nearest_they_do(void **state)
{
    (void)state;
    static const char *const efforts[][2] = {
        {"none", "low"},  {"minimal", "low"}, {"low", "low"}, {"medium", "medium"},
        {"high", "high"}, {"xhigh", "high"},  {"max", "high"}};
    for (size_t i = 0; i < sizeof(efforts) / sizeof(efforts[0]); i++) {
        char members[128];
        snprintf(members, sizeof(members),
                 "\"input\":\"x\",\"reasoning\":{\"effort\":\"%s\"},\"text\":{\"verbosity\":"
                 "\"%s\"}",
                 efforts[i][0], i % 2 == 0 ? "low" : "high");
        struct parsed p = accept(members);
        assert_true(lr_str_eq_z(p.req->reasoning_effort, efforts[i][1]));
        lr_arena_free(&p.arena);
    }
}

static void fields_reach_the_request(void **state)
{
    (void)state;
    struct parsed p = accept(
        "\"input\":\"x\",\"temperature\":0.5,\"top_p\":0.25,\"max_output_tokens\":7,\"stream\":"
        "true,\"stream_options\":{\"include_obfuscation\":false},\"parallel_tool_calls\":false,"
        "\"reasoning\":{\"effort\":\"high\",\"summary\":\"auto\"},\"text\":{\"verbosity\":"
        "\"medium\",\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\"type\":"
        "\"object\"},\"strict\":true}},\"include\":[\"reasoning.encrypted_content\","
        "\"message.output_text.logprobs\"],\"top_logprobs\":3,\"store\":true,\"background\":"
        "false,\"truncation\":\"disabled\",\"metadata\":{\"a\":\"b\"},\"user\":\"u\","
        "\"safety_identifier\":\"s\",\"prompt_cache_key\":\"k\",\"service_tier\":\"auto\","
        "\"previous_response_id\":null,\"conversation\":null,\"tools\":[],\"seed\":5");
    const struct chat_request *req = p.req;
    assert_true(req->stream && !req->parallel_tool_calls && req->has_seed);
    assert_true(req->sampling.temperature == 0.5f && req->sampling.top_p == 0.25f);
    assert_int_equal(req->max_tokens, 7);
    assert_true(lr_str_eq_z(req->reasoning_effort, "high"));
    assert_int_equal(req->format, GRAMMAR_ANSWER_SCHEMA);
    assert_true(lr_str_eq_z(req->schema_name, "n"));
    assert_int_equal(req->sampling.logprobs, 1);
    assert_int_equal(req->sampling.top_logprobs, 3);
    assert_null(req->tools);
    lr_arena_free(&p.arena);
    p = accept("\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],"
               "\"tool_choice\":\"none\"");
    assert_true(p.req->forbids_tool_calls && p.req->tools == NULL);
    lr_arena_free(&p.arena);
}

static void fields_that_need_a_store_are_refused_with_an_alternative(void **state)
{
    (void)state;
    refuse("\"input\":\"x\",\"previous_response_id\":\"resp_1\"", "previous_response_id",
           "unsupported_parameter", "send the whole conversation in `input`");
    refuse("\"input\":\"x\",\"conversation\":\"c\"", "conversation", "unsupported_parameter",
           "send the whole conversation in `input`");
    refuse("\"input\":\"x\",\"prompt\":{\"id\":\"p\"}", "prompt", "unsupported_parameter",
           "send `instructions` and `input`");
    refuse("\"input\":\"x\",\"background\":true", "background", "unsupported_value",
           "keep the connection open");
    refuse("\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]", "input[0].type",
           "unsupported_value", "send the item itself");
}

static void what_is_not_offered_is_refused_by_its_name(void **state)
{
    (void)state;
    static const char *const tools[] = {
        "file_search",      "local_shell",      "mcp",
        "code_interpreter", "image_generation", "computer_use_preview"};
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        char members[128], says[64];
        snprintf(members, sizeof(members), "\"input\":\"x\",\"tools\":[{\"type\":\"%s\"}]",
                 tools[i]);
        snprintf(says, sizeof(says), "the tool '%s' is not supported", tools[i]);
        refuse(members, "tools[0].type", "unsupported_value", says);
    }
    refuse("\"input\":[{\"type\":\"web_search_call\",\"id\":\"x\"}]", "input[0].type",
           "unsupported_value", "'web_search_call'");
    refuse("\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]",
           "input[0].content[0]", "unsupported_value", "cannot see images");
    refuse("\"input\":\"x\",\"messages\":[]", "messages", "unsupported_parameter", "`input`");
    refuse("\"input\":\"x\",\"reasoning\":{\"effort\":\"extreme\"}", "reasoning.effort",
           "unsupported_value", "extreme");
    refuse("\"input\":\"x\",\"tool_choice\":{\"type\":\"allowed_tools\"}", "tool_choice.type",
           "unsupported_value", "'function' or 'custom'");
}

static void what_is_ignored_is_named_and_refused_if_the_request_is_strict(void **state)
{
    (void)state;
    static const struct {
        const char *members, *ignored,
            *param; /* param NULL: strict requests may have it, too */
    } cases[] = {
        {"\"input\":\"x\",\"nonsense\":1", "nonsense", "nonsense"},
        {"\"input\":\"x\",\"reasoning\":{\"depth\":1}", "reasoning.depth", "reasoning.depth"},
        {"\"input\":\"x\",\"truncation\":\"auto\"", "truncation", "truncation"},
        {"\"input\":\"x\",\"include\":[\"file_search_call.results\"]", "include", "include"},
        {"\"input\":\"x\",\"store\":true,\"max_tokens\":5", "store", NULL},
        {"\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]},"
         "{\"role\":\"user\",\"content\":\"x\"}]",
         "input[0].content[0]", "input[0].content[0]"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct parsed p = accept(cases[i].members);
        assert_string_equal(p.req->ignored, cases[i].ignored);
        lr_arena_free(&p.arena);
        p = parse_as(cases[i].members, true);
        assert_int_equal(p.code == LR_OK, cases[i].param == NULL);
        if (cases[i].param != NULL)
            assert_string_equal(p.e.param, cases[i].param);
        lr_arena_free(&p.arena);
    }
}

static void an_item_that_does_not_fit_is_refused_by_its_position(void **state)
{
    (void)state;
    refuse("\"stream\":true", "input", "missing_required_parameter", "input");
    refuse("\"input\":7", "input", "invalid_type", "a string or an array");
    refuse("\"input\":[]", "input", "invalid_value", "0 items");
    refuse("\"input\":[7]", "input[0]", "invalid_type", "an object");
    refuse("\"input\":[{\"content\":\"x\"}]", "input[0].type", "invalid_value", "'type'");
    refuse("\"input\":[{\"role\":\"tool\",\"content\":\"x\"}]", "input[0].role",
           "invalid_value", "'assistant'");
    refuse("\"input\":[{\"role\":\"user\"}]", "input[0].content", "invalid_value", "a string");
    refuse("\"input\":[" OUTPUT("a", "\"1\"") "]", "input[0].call_id", "invalid_value",
           "no call before it");
    refuse("\"input\":[" THINK("T") "]", "input", "invalid_value", "nothing to answer");
    refuse("\"input\":[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\"}]",
           "input[0].arguments", "invalid_value", "a string");
    refuse("\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":"
           "\"custom\",\"name\":\"f\"}]",
           "tools[1].name", "invalid_value", "twice");
    refuse("\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":true,"
           "\"parameters\":{\"type\":\"nonsense\"}}]",
           "tools[0].parameters", "invalid_value", "schema");
    refuse("\"input\":\"x\",\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}",
           "tool_choice", "invalid_value", "declares nothing");
    refuse("\"input\":\"x\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\"}}",
           "text.format.schema", "missing_required_parameter", "'text.format' needs");
    refuse("\"input\":\"x\",\"top_logprobs\":2", "top_logprobs", "invalid_value",
           "message.output_text.logprobs");
    refuse("\"input\":\"x\",\"stream_options\":{}", "stream_options", "invalid_value",
           "'stream'");
    refuse("\"input\":\"x\",\"metadata\":{\"a\":1}", "metadata", "invalid_value", "strings");
    refuse("\"input\":\"x\",\"guided_regex\":\"(\"", "guided_regex", "invalid_value",
           "( without a )");
    refuse("\"input\":\"x\",\"text\":{\"format\":{\"type\":\"json_object\"}},\"grammar\":\"x\"",
           "grammar", "invalid_value", "'text.format' and 'grammar' both constrain");
}

static void the_page_lists_the_fields_of_the_table(void **state)
{
    (void)state;
    struct lr_buf wanted, page;
    lr_buf_init(&wanted, 1 << 20);
    lr_buf_init(&page, 1 << 20);
    chat_responses_fields_markdown(&wanted);
    assert_int_equal(lr_file_read_buf(LR_SOURCE_DIR "/docs/responses.md", &page, NULL), LR_OK);
    if (strstr(lr_buf_z(&page), lr_buf_z(&wanted)) == NULL)
        fail_msg("docs/responses.md lacks these lists:\n%s", lr_buf_z(&wanted));
    lr_buf_free(&wanted);
    lr_buf_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_is_one_message_of_the_user),
        cmocka_unit_test(system_and_developer_texts_come_first_wherever_they_were),
        cmocka_unit_test(reasoning_text_and_calls_of_a_turn_are_one_message),
        cmocka_unit_test(a_call_after_a_result_is_a_turn_of_its_own),
        cmocka_unit_test(reasoning_that_led_to_nothing_is_left_out),
        cmocka_unit_test(an_image_from_a_tool_is_told_and_does_not_end_the_conversation),
        cmocka_unit_test(a_custom_tool_is_a_strict_function_of_one_string),
        cmocka_unit_test(efforts_that_models_do_not_know_are_the_nearest_they_do),
        cmocka_unit_test(fields_reach_the_request),
        cmocka_unit_test(fields_that_need_a_store_are_refused_with_an_alternative),
        cmocka_unit_test(what_is_not_offered_is_refused_by_its_name),
        cmocka_unit_test(what_is_ignored_is_named_and_refused_if_the_request_is_strict),
        cmocka_unit_test(an_item_that_does_not_fit_is_refused_by_its_position),
        cmocka_unit_test(the_page_lists_the_fields_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
