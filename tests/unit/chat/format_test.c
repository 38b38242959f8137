/* The output format of a request: as a constraint, and as text in the prompt. */
#include "chat/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "chat/prompt.h"
#include "dialects.h"

#define GET                                                                                    \
    "{\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"type\":"          \
    "\"object\","                                                                              \
    "\"properties\":{\"n\":{\"type\":\"integer\"}}}}}"
#define PUT                                                                                    \
    "{\"type\":\"function\",\"function\":{\"name\":\"put\",\"parameters\":{\"$ref\":\"#/"      \
    "none\"}}}"
#define STRICT "{\"type\":\"function\",\"function\":{\"name\":\"do\",\"strict\":true}}"
#define SCHEMA                                                                                 \
    "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"list\","        \
    "\"description\":"                                                                         \
    "\"a list\",\"schema\":{\"type\":\"array\"}}}"

#define ARRAY         "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"type\":\"array\"}}"
#define REGEX(format) "{\"format\":\"" format "\",\"answer\":\"regex\",\"regex\":\"a+\"}"
#define CHOICE        "{\"format\":\"plain\",\"answer\":\"choice\",\"choice\":[\"a\",\"b\"]}"
#define GRAMMAR       "{\"format\":\"plain\",\"answer\":\"grammar\",\"grammar\":\"root ::= [a]\"}"

struct made {
    struct lr_arena arena;
    const struct chat_request *req;
    struct lr_str constraint;
    struct lr_error err;
    lr_code code;
};

static void make(struct made *m, const char *members, enum grammar_format format)
{
    char body[2048];
    struct chat_error e;
    *m = (struct made){0};
    lr_arena_init(&m->arena, 16 << 20);
    (void)snprintf(body, sizeof(body),
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s}",
                   members);
    char *kept = lr_arena_copy(&m->arena, lr_str_z(body));
    if (chat_request_parse(&m->arena, &chat_openai_chat, lr_str_z(kept), &m->req, &e) != LR_OK)
        fail_msg("%s", e.error.text);
    struct chat_dialect dialect;
    assert_true(chat_dialect_named(lr_str_z(grammar_format_name(format)), (struct lr_str){0},
                                   &dialect));
    m->code =
        chat_format_constraint(&m->arena, m->req, &dialect, false, &m->constraint, &m->err);
}

static void a_constraint_says_what_the_request_demands(void **state)
{
    static const struct {
        const char *members;
        enum grammar_format format;
        const char *constraint;
    } cases[] = {
        {"\"response_format\":{\"type\":\"text\"}", GRAMMAR_HARMONY, ""},
        {"\"tools\":[" GET "]", GRAMMAR_HARMONY, ""},
        {"\"response_format\":{\"type\":\"json_object\"}", GRAMMAR_PLAIN,
         "{\"format\":\"plain\",\"answer\":\"object\"}"},
        {"\"response_format\":{\"type\":\"json_object\"}", GRAMMAR_HARMONY,
         "{\"format\":\"harmony\",\"answer\":\"object\"}"},
        {SCHEMA, GRAMMAR_HARMONY,
         "{\"format\":\"harmony\",\"answer\":\"schema\",\"schema\":{\"type\":\"array\"}}"},
        {"\"tool_choice\":\"required\",\"tools\":[" GET "," PUT "]", GRAMMAR_HARMONY,
         "{\"format\":\"harmony\",\"answer\":\"none\",\"tools\":[{\"name\":\"get\",\"strict\":"
         "false,\"schema\":"
         "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}},{\"name\":"
         "\"put\",\"strict\":false}]}"},
        {"\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"put\"}},\"tools\":"
         "[" GET "," PUT "]",
         GRAMMAR_HARMONY,
         "{\"format\":\"harmony\",\"answer\":\"none\",\"tools\":[{\"name\":\"put\",\"strict\":"
         "false}]}"},
        {"\"tools\":[" STRICT "]", GRAMMAR_HARMONY,
         "{\"format\":\"harmony\",\"answer\":\"text\",\"tools\":[{\"name\":\"do\",\"strict\":"
         "true}]}"},
        {"\"tools\":[" STRICT "]", GRAMMAR_PLAIN, ""},
        {"\"tools\":[" GET "," PUT "]", GRAMMAR_HERMES, ""},
        {"\"tool_choice\":\"none\",\"tools\":[" STRICT "]", GRAMMAR_HERMES, ""},
        {"\"tools\":[" STRICT "," PUT "]", GRAMMAR_HERMES,
         "{\"format\":\"hermes\",\"answer\":\"text\",\"tools\":[{\"name\":\"do\",\"strict\":"
         "true},"
         "{\"name\":\"put\",\"strict\":false}]}"},
        {"\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"tools\":[" PUT "]",
         GRAMMAR_LLAMA3,
         "{\"format\":\"llama3\",\"answer\":\"none\",\"tools\":[{\"name\":\"put\",\"strict\":"
         "false}],\"one_call\":true}"},
        {"\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"put\"}},\"tools\":"
         "[" GET "," PUT "]",
         GRAMMAR_HERMES,
         "{\"format\":\"hermes\",\"answer\":\"none\",\"tools\":[{\"name\":\"put\",\"strict\":"
         "false}]}"},
        {"\"response_format\":{\"type\":\"json_object\"},\"tools\":[" PUT "]", GRAMMAR_HERMES,
         "{\"format\":\"hermes\",\"answer\":\"object\",\"tools\":[{\"name\":\"put\",\"strict\":"
         "false}]}"},
        {"\"tool_choice\":\"none\",\"tools\":[" STRICT "]", GRAMMAR_HARMONY, ""},
        {"\"response_format\":{\"type\":\"json_object\"},\"tools\":[" STRICT "]",
         GRAMMAR_HARMONY,
         "{\"format\":\"harmony\",\"answer\":\"object\",\"tools\":[{\"name\":\"do\",\"strict\":"
         "true}]}"},
        {"\"response_format\":{\"type\":\"json_object\"},\"tool_choice\":\"none\",\"tools\":"
         "[" STRICT "]",
         GRAMMAR_HARMONY, "{\"format\":\"harmony\",\"answer\":\"object\"}"},
        {"\"response_format\":{\"type\":\"json_object\",\"schema\":{}}", GRAMMAR_PLAIN,
         "{\"format\":\"plain\",\"answer\":\"object\"}"},
        {"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"type\":\"array\"}}",
         GRAMMAR_PLAIN, ARRAY},
        {"\"guided_json\":{\"type\":\"array\"},\"guided_decoding_backend\":\"x\"",
         GRAMMAR_PLAIN, ARRAY},
        {"\"guided_json\":\"{\\\"type\\\":\\\"array\\\"}\",\"guided_regex\":null",
         GRAMMAR_PLAIN, ARRAY},
        {"\"json_schema\":{\"type\":\"array\"},\"response_format\":{\"type\":\"text\"}",
         GRAMMAR_PLAIN, ARRAY},
        {"\"structured_outputs\":{\"json\":{\"type\":\"array\"},\"regex\":null,"
         "\"disable_any_whitespace\":false}",
         GRAMMAR_PLAIN, ARRAY},
        {"\"structured_outputs\":{\"json_object\":true}", GRAMMAR_PLAIN,
         "{\"format\":\"plain\",\"answer\":\"object\"}"},
        {"\"structured_outputs\":{\"json_object\":false}", GRAMMAR_PLAIN, ""},
        {"\"guided_regex\":\"a+\"", GRAMMAR_HARMONY, REGEX("harmony")},
        {"\"structured_outputs\":{\"regex\":\"a+\"}", GRAMMAR_PLAIN, REGEX("plain")},
        {"\"guided_choice\":[\"a\",\"b\"]", GRAMMAR_PLAIN, CHOICE},
        {"\"structured_outputs\":{\"choice\":[\"a\",\"b\"]}", GRAMMAR_PLAIN, CHOICE},
        {"\"guided_grammar\":\"root ::= [a]\"", GRAMMAR_PLAIN, GRAMMAR},
        {"\"grammar\":\"root ::= [a]\"", GRAMMAR_PLAIN, GRAMMAR},
        {"\"structured_outputs\":{\"grammar\":\"root ::= [a]\"}", GRAMMAR_PLAIN, GRAMMAR},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct made m;
        make(&m, cases[i].members, cases[i].format);
        if (m.code != LR_OK || !lr_str_eq_z(m.constraint, cases[i].constraint))
            fail_msg("%s: " LR_STR_FMT " %s", cases[i].members, LR_STR_ARG(m.constraint),
                     m.err.text);
        lr_arena_free(&m.arena);
    }
}

static void a_call_is_demanded_only_of_models_whose_calls_are_understood(void **state)
{
    struct made m;
    (void)state;
    make(&m, "\"tool_choice\":\"required\",\"tools\":[" GET "]", GRAMMAR_PLAIN);
    assert_int_equal(m.code, LR_UNSUPPORTED);
    assert_non_null(strstr(m.err.text, "'auto'"));
    lr_arena_free(&m.arena);
}

/* Each of the schemas can be enforced, all of them together are too large. */
static void tools_that_are_not_strict_never_cause_a_refusal(void **state)
{
    enum { TOOLS = 40, WORDS = 500 };
    static const struct {
        const char *more;
        lr_code code;
    } cases[] = {{"", LR_OK}, {"\"strict\":true,", LR_INVALID_ARGUMENT}};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct lr_arena arena;
        struct lr_buf body;
        struct chat_error e;
        struct lr_error err;
        struct lr_str constraint;
        const struct chat_request *req = NULL;
        lr_arena_init(&arena, 64 << 20);
        lr_buf_init(&body, 4 << 20);
        lr_buf_add_z(&body, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
                            "\"x\"}],\"tool_choice\":\"required\",\"tools\":[");
        for (int i = 0; i < TOOLS; i++) {
            lr_buf_addf(&body,
                        "%s{\"type\":\"function\",\"function\":{%s\"name\":\"f%d\","
                        "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[",
                        i > 0 ? "," : "", cases[k].more, i);
            for (int w = 0; w < WORDS; w++)
                lr_buf_addf(&body, "%s\"%dword%d\"", w > 0 ? "," : "", w * 7919 % 10007, i);
            lr_buf_add_z(&body, "]}}}}}");
        }
        lr_buf_add_z(&body, "]}");
        struct chat_dialect dialect = dialect_of(GRAMMAR_HERMES);
        lr_code code =
            chat_request_parse(&arena, &chat_openai_chat, lr_buf_str(&body), &req, &e);
        if (code == LR_OK)
            code = chat_format_constraint(&arena, req, &dialect, true, &constraint, &err);
        assert_int_equal(code, cases[k].code);
        lr_buf_free(&body);
        lr_arena_free(&arena);
    }
}

static void expect_prompt(const char *messages, const char *format, bool speaks_harmony,
                          const char *part, bool is_there)
{
    struct lr_arena arena;
    struct chat_error e;
    struct lr_error err;
    const struct chat_request *req;
    struct chat_prompt prompt;
    struct chat_model model = {
        .dialect = dialect_of(speaks_harmony ? GRAMMAR_HARMONY : GRAMMAR_HERMES)};
    char body[2048], text[4096] = "";
    lr_arena_init(&arena, 16 << 20);
    (void)snprintf(body, sizeof(body), "{\"model\":\"m\",\"messages\":[%s],%s}", messages,
                   format);
    assert_int_equal(chat_request_parse(&arena, &chat_openai_chat, lr_str_z(body), &req, &e),
                     LR_OK);
    assert_int_equal(chat_prompt_render(req, &model, 0, 0, &prompt, &err), LR_OK);
    for (size_t i = 0; i < prompt.segment_count; i++)
        (void)strncat(text, prompt.segments[i].text, prompt.segments[i].len);
    if ((strstr(text, part) != NULL) != is_there)
        fail_msg("%s", text);
    chat_prompt_free(&prompt);
    lr_arena_free(&arena);
}

#define FORMAT "# Response Formats\n\n## list\n\n// a list\n{\"type\":\"array\"}"

static void a_harmony_prompt_shows_the_schema_in_its_developer_message(void **state)
{
    static const char user[] = "{\"role\":\"user\",\"content\":\"x\"}";
    static const char text[] =
        "{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\",\"content\":\"x\"}";
    static const char parts[] =
        "{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"Be "
        "kind.\"}]},{\"role\":\"user\",\"content\":\"x\"}";
    (void)state;
    expect_prompt(user, SCHEMA, true, "<|start|>developer<|message|># Instructions\n\n" FORMAT,
                  true);
    expect_prompt(text, SCHEMA, true, "# Instructions\n\nBe kind.\n\n" FORMAT, true);
    expect_prompt(parts, SCHEMA, true, "# Instructions\n\nBe kind.\n" FORMAT, true);
    expect_prompt(user, SCHEMA, false, "Response Formats", false);
    expect_prompt(user, "\"guided_json\":{\"type\":\"array\"}", true,
                  "## response\n\n{\"type\":\"array\"}", true);
    expect_prompt(user, "\"guided_regex\":\"a+\"", true, "a+", false);
    expect_prompt(user, "\"response_format\":{\"type\":\"json_object\"}", true,
                  "Response Formats", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constraint_says_what_the_request_demands),
        cmocka_unit_test(a_call_is_demanded_only_of_models_whose_calls_are_understood),
        cmocka_unit_test(tools_that_are_not_strict_never_cause_a_refusal),
        cmocka_unit_test(a_harmony_prompt_shows_the_schema_in_its_developer_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
