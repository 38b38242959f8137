/* Requests of POST /v1/messages: what becomes of every block and field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/file.h"
#include "chat/anthropic/anthropic.h"
#include "wire/error.h"

struct parsed {
    struct lr_arena arena;
    const struct chat_request *req;
    struct chat_error e;
    lr_code code;
};

/* {"model":"m",MEMBERS} */
static struct parsed parse(const char *members)
{
    static char body[1 << 16];
    struct parsed p;
    snprintf(body, sizeof(body), "{\"model\":\"m\",%s}", members);
    /* The limit that chat/codec.h documents as enough. */
    lr_arena_init(&p.arena, 16 * strlen(body) + (64 << 10));
    p.code = chat_request_parse(&p.arena, &chat_anthropic, lr_str_z(body), &p.req, &p.e);
    assert_int_equal(p.req != NULL, p.code == LR_OK);
    return p;
}

static struct parsed accept(const char *members)
{
    struct parsed p = parse(members);
    if (p.code != LR_OK)
        fail_msg("%s: %s", members, p.e.error.text);
    return p;
}

static void expect_json(const struct lr_json *value, const char *wanted)
{
    struct lr_buf text;
    struct lr_json_writer w;
    lr_buf_init(&text, 1 << 20);
    lr_json_writer_init(&w, &text);
    lr_json_put_value(&w, value);
    assert_string_equal(lr_buf_z(&text), wanted);
    lr_buf_free(&text);
}

#define HI         "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define USER       "{\"role\":\"user\",\"content\":"
#define BOT        "{\"role\":\"assistant\",\"content\":"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define USE(id)    "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"f\",\"input\":{\"a\":1}}"

static void messages_become_those_that_templates_expect(void **state)
{
    (void)state;
    static const struct {
        const char *members, *messages;
    } rows[] = {
        {HI, "[" USER "\"hi\"}]"},
        {"\"system\":\"S\"," HI, "[{\"role\":\"system\",\"content\":\"S\"}," USER "\"hi\"}]"},
        /* blocks; cache_control has no effect */
        {"\"system\":[" TEXT("S") ",{\"type\":\"text\",\"text\":\"T\",\"cache_control\":{"
                                  "\"type\":\"ephemeral\"}}],\"messages\":[" USER
                                  "[" TEXT("a") "," TEXT("b") "]}]",
         "[{\"role\":\"system\",\"content\":\"S\\n\\nT\"}," USER "\"a\\nb\"}]"},
        /* system messages: first ones are joined to `system`, later ones stay at their place */
        {"\"system\":\"S\",\"messages\":[{\"role\":\"system\",\"content\":\"T\"}," USER
         "\"a\"},{\"role\":\"system\",\"content\":[" TEXT("R") "]}," BOT "\"b\"}," USER
                                                               "\"c\"}]",
         "[{\"role\":\"system\",\"content\":\"S\\n\\nT\"}," USER "\"a\\n\\nR\"}," BOT
         "\"b\"}," USER "\"c\"}]"},
        /* messages of the user that follow each other are one */
        {"\"messages\":[" USER "\"a\"}," USER "[" TEXT("b") "," TEXT("c") "]}]",
         "[" USER "\"a\\n\\nb\\nc\"}]"},
        /* thinking, text and calls are one message; results come before the user's text */
        {"\"messages\":[" USER "\"a\"}," BOT
         "[{\"type\":\"thinking\",\"thinking\":\"T\",\"signature\":\"\"},{\"type\":"
         "\"redacted_thinking\",\"data\":\"x\"}," TEXT("b") "," USE("1") "," USE(
             "2") "]}," USER
                  "[{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":\"r\"}," TEXT(
                      "c") ",{\"type\":\"tool_result\",\"tool_use_id\":\"2\",\"is_error\":true,"
                           "\"content\":[" TEXT("x") ",{\"type\":\"image\",\"source\":{}}]}]}]",
         "[" USER "\"a\"}," BOT
         "\"b\",\"reasoning_content\":\"T\",\"tool_calls\":[{\"id\":\"1\",\"type\":"
         "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}},{\"id\":\"2\","
         "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},"
         "{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":\"1\"},"
         "{\"role\":\"tool\",\"content\":\"Error: x\\n[An image. This model reads text "
         "only.]\",\"tool_call_id\":\"2\"}," USER "\"c\"}]"},
        /* a result without content; an assistant that only thought is left out */
        {"\"messages\":[" USER "\"a\"}," BOT
         "[" USE("1") "]}," USER "[{\"type\":\"tool_result\",\"tool_use_id\":\"1\"}]}," BOT
                      "[{\"type\":\"thinking\",\"thinking\":\"T\"}]}," USER "\"b\"}]",
         "[" USER "\"a\"}," BOT
         "\"\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":"
         "\"f\",\"arguments\":{\"a\":1}}}]},{\"role\":\"tool\",\"content\":\"\","
         "\"tool_call_id\":\"1\"}," USER "\"b\"}]"},
        /* images in the history and documents are notes or text */
        {"\"messages\":[" USER "[{\"type\":\"image\",\"source\":{}}," TEXT(
             "a") "]}," BOT "\"b\"}," USER
                  "[{\"type\":\"document\",\"title\":\"N\",\"source\":{\"type\":\"text\","
                  "\"media_type\":\"text/"
                  "plain\",\"data\":\"D\"}},{\"type\":\"document\",\"source\":{"
                  "\"type\":\"base64\",\"data\":\"AA==\"}},{\"type\":\"unknown_block\"}]}]",
         "[" USER "\"[An image. This model reads text only.]\\na\"}," BOT "\"b\"}," USER
         "\"N:\\nD\\n[A document. This model reads text only.]\"}]"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct parsed p = accept(rows[i].members);
        expect_json(p.req->messages, rows[i].messages);
        lr_arena_free(&p.arena);
    }
}

#define BILLING "x-anthropic-billing-header: cc_version=2.1.325; cch=5f01a;"

static void the_billing_line_never_reaches_the_prompt(void **state)
{
    (void)state;
    static const char *const systems[] = {
        "[" TEXT(BILLING) "," TEXT("You are Claude Code.") "]",
        "[" TEXT("x-anthropic-billing-header: other") "," TEXT("You are Claude Code.") "]",
        "\"" BILLING "\\n\\nYou are Claude Code.\"",
        "\"You are Claude Code.\"",
    };
    for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
        char members[512];
        snprintf(members, sizeof(members), "\"system\":%s," HI, systems[i]);
        struct parsed p = accept(members);
        expect_json(p.req->messages,
                    "[{\"role\":\"system\",\"content\":\"You are Claude Code.\"}," USER
                    "\"hi\"}]");
        lr_arena_free(&p.arena);
    }
    struct parsed p = accept("\"system\":[" TEXT(BILLING) "]," HI);
    expect_json(p.req->messages, "[" USER "\"hi\"}]");
    lr_arena_free(&p.arena);
}

static void tools_are_rebuilt_and_those_of_servers_left_out_and_named(void **state)
{
    (void)state;
    struct parsed p =
        accept(HI ",\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"},"
                  "{\"name\":\"f\",\"description\":\"D\",\"input_schema\":{\"type\":\"object\"}"
                  ",\"cache_control\":{},\"defer_loading\":true},{\"type\":\"custom\","
                  "\"name\":\"g\",\"strict\":true,\"input_schema\":{\"type\":\"object\"}}],"
                  "\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\","
                  "\"disable_parallel_tool_use\":true}");
    expect_json(p.req->tools,
                "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"D\","
                "\"parameters\":{\"type\":\"object\"}}},{\"type\":\"function\",\"function\":{"
                "\"name\":\"g\",\"parameters\":{\"type\":\"object\"},\"strict\":true}}]");
    assert_true(p.req->requires_tool_call && !p.req->parallel_tool_calls);
    assert_true(lr_str_eq_z(p.req->required_tool, "f"));
    assert_string_equal(p.req->ignored, "tools.0.web_search_20250305");
    lr_arena_free(&p.arena);

    p = accept(HI ",\"tools\":[{\"name\":\"f\"}],\"tool_choice\":{\"type\":\"any\"}");
    assert_true(p.req->requires_tool_call && p.req->parallel_tool_calls);
    assert_int_equal(p.req->required_tool.len, 0);
    lr_arena_free(&p.arena);

    p = accept(HI ",\"tools\":[{\"name\":\"f\"}],\"tool_choice\":{\"type\":\"none\"}");
    assert_true(p.req->forbids_tool_calls && p.req->tools == NULL);
    lr_arena_free(&p.arena);
}

static void thinking_and_effort_reach_the_request(void **state)
{
    (void)state;
    static const struct {
        const char *members, *effort;
        uint32_t reasoning;
    } rows[] = {
        {"\"x\":1", "", CHAT_REASONING_HIDDEN},
        {"\"thinking\":{\"type\":\"disabled\"}", "low", CHAT_REASONING_HIDDEN},
        {"\"thinking\":{\"type\":\"adaptive\"}", "", CHAT_REASONING_CONTENT},
        {"\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}", "",
         CHAT_REASONING_HIDDEN},
        {"\"thinking\":{\"type\":\"between_tools\"}", "", CHAT_REASONING_CONTENT},
        {"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}", "low",
         CHAT_REASONING_CONTENT},
        {"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":8000}", "medium",
         CHAT_REASONING_CONTENT},
        {"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":31999}", "high",
         CHAT_REASONING_CONTENT},
        {"\"thinking\":{\"type\":\"adaptive\"},\"output_config\":{\"effort\":\"max\"}", "high",
         CHAT_REASONING_CONTENT},
        {"\"thinking\":{\"type\":\"disabled\"},\"output_config\":{\"effort\":\"medium\"}",
         "medium", CHAT_REASONING_HIDDEN},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char members[512];
        snprintf(members, sizeof(members), HI ",%s", rows[i].members);
        struct parsed p = accept(members);
        assert_true(lr_str_eq_z(p.req->reasoning_effort, rows[i].effort));
        assert_int_equal(p.req->reasoning, rows[i].reasoning);
        lr_arena_free(&p.arena);
    }
}

static void other_fields_reach_the_request_and_unknown_ones_are_ignored(void **state)
{
    (void)state;
    struct parsed p = accept(
        HI ",\"max_tokens\":7,\"stream\":true,\"temperature\":0.5,\"top_p\":0.25,\"top_k\":3,"
           "\"stop_sequences\":[\"A\",\"B\"],\"metadata\":{\"user_id\":\"u\"},"
           "\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":"
           "\"object\"}}},\"context_management\":{\"edits\":[]},\"safeguards\":[1],"
           "\"nobody_knows_this\":{},\"container\":null");
    const struct chat_request *req = p.req;
    assert_int_equal(req->max_tokens, 7);
    assert_true(req->stream);
    assert_true(req->sampling.temperature == 0.5F && req->sampling.top_p == 0.25F);
    assert_int_equal(req->sampling.top_k, 3);
    assert_int_equal(req->stop_count, 2);
    assert_true(lr_str_eq_z(req->stop[1], "B"));
    assert_true(lr_str_eq_z(req->user, "u"));
    assert_int_equal(req->format, GRAMMAR_ANSWER_SCHEMA);
    expect_json(req->format_value, "{\"type\":\"object\"}");
    lr_arena_free(&p.arena);
}

static void what_cannot_be_served_is_refused_by_its_position(void **state)
{
    (void)state;
    static const struct {
        const char *members, *says;
    } rows[] = {
        {"\"max_tokens\":1", "'messages'"},
        {"\"messages\":[]", "at least one message"},
        {"\"messages\":\"hi\"", "an array of messages"},
        {"\"messages\":[" USER "\"a\"},{\"role\":\"tool\",\"content\":\"\"}]",
         "messages.1: 'role'"},
        {"\"messages\":[" USER "7}]", "messages.0: 'content'"},
        {"\"messages\":[" USER "[7]}]", "messages.0.content.0: a block"},
        {"\"messages\":[" USER "[{\"type\":\"text\"}]}]", "messages.0.content.0: 'text'"},
        {"\"messages\":[" USER "[" TEXT("a") ",{\"type\":\"image\",\"source\":{}}]}]",
         "messages.0.content.1: this model reads text only"},
        {"\"messages\":[" USER "[{\"type\":\"tool_result\",\"tool_use_id\":\"1\"}]}]",
         "messages.0.content.0: 'tool_use_id'"},
        {"\"messages\":[" BOT "[{\"type\":\"tool_use\",\"id\":\"1\"}]}]",
         "messages.0.content.0: a 'tool_use'"},
        {HI ",\"tools\":[{\"name\":\"a b\"}]", "tools.0: 'name'"},
        {HI ",\"tools\":[{\"name\":\"f\"},{\"name\":\"f\"}]", "tools.1: tool names"},
        {HI ",\"tool_choice\":{\"type\":\"any\"}", "declares nothing"},
        {HI ",\"tool_choice\":{\"type\":\"tool\"}", "tool_choice.name"},
        {HI ",\"output_config\":{\"format\":{\"type\":\"json_schema\"}}", "'schema'"},
        {HI ",\"max_tokens\":0", "max_tokens"},
        {HI ",\"temperature\":\"hot\"", "temperature"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct parsed p = parse(rows[i].members);
        if (p.code == LR_OK)
            fail_msg("accepted: %s", rows[i].members);
        assert_int_equal(lr_code_http(p.code), 400);
        if (strstr(p.e.error.text, rows[i].says) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", p.e.error.text, rows[i].says);
        lr_arena_free(&p.arena);
    }
}

static void errors_have_the_types_and_words_of_the_api(void **state)
{
    (void)state;
    static const struct {
        lr_code code;
        const char *text, *body;
    } rows[] = {
        {LR_INVALID_ARGUMENT, "x", "invalid_request_error\",\"message\":\"x\""},
        {LR_UNAUTHENTICATED, "x", "authentication_error\",\"message\":\"x\""},
        {LR_PERMISSION_DENIED, "x", "permission_error\",\"message\":\"x\""},
        {LR_NOT_FOUND, "x", "not_found_error\",\"message\":\"x\""},
        {LR_TOO_LARGE, "x", "request_too_large\",\"message\":\"x\""},
        {LR_RATE_LIMITED, "x", "rate_limit_error\",\"message\":\"x\""},
        {LR_UNAVAILABLE, "x", "overloaded_error\",\"message\":\"x\""},
        {LR_INTERNAL, "x", "api_error\",\"message\":\"x\""},
        {LR_INVALID_ARGUMENT,
         "the prompt has 300 tokens; the context holds 128 tokens, and at least one must be "
         "left for the answer: shorten the conversation",
         "invalid_request_error\",\"message\":\"prompt is too long: 300 tokens > 128 "
         "maximum\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct chat_error e = {0};
        struct lr_buf out;
        char wanted[256];
        wire_error_heard(&e.error, rows[i].code, lr_str_z(rows[i].text), (struct lr_str){0});
        lr_buf_init(&out, 4096);
        chat_error_write(&out, &chat_anthropic, &e);
        snprintf(wanted, sizeof(wanted), "{\"type\":\"error\",\"error\":{\"type\":\"%s}}",
                 rows[i].body);
        assert_string_equal(lr_buf_z(&out), wanted);
        lr_buf_free(&out);
    }
}

static void the_page_lists_the_fields_of_the_table(void **state)
{
    (void)state;
    struct lr_buf wanted, page;
    lr_buf_init(&wanted, 1 << 20);
    lr_buf_init(&page, 1 << 20);
    chat_anthropic_fields_markdown(&wanted);
    assert_int_equal(lr_file_read_buf(LR_SOURCE_DIR "/docs/messages.md", &page, NULL), LR_OK);
    if (strstr(lr_buf_z(&page), lr_buf_z(&wanted)) == NULL)
        fail_msg("docs/messages.md lacks these lists:\n%s", lr_buf_z(&wanted));
    lr_buf_free(&wanted);
    lr_buf_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_become_those_that_templates_expect),
        cmocka_unit_test(the_billing_line_never_reaches_the_prompt),
        cmocka_unit_test(tools_are_rebuilt_and_those_of_servers_left_out_and_named),
        cmocka_unit_test(thinking_and_effort_reach_the_request),
        cmocka_unit_test(other_fields_reach_the_request_and_unknown_ones_are_ignored),
        cmocka_unit_test(what_cannot_be_served_is_refused_by_its_position),
        cmocka_unit_test(errors_have_the_types_and_words_of_the_api),
        cmocka_unit_test(the_page_lists_the_fields_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
