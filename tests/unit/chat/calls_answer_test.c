/* Answers with calls of models that do not speak Harmony, as clients of both APIs see them, and
 * the prompts with the calls of earlier messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "chat/prompt.h"
#include "chat/response.h"
#include "dialects.h"

#define TOOL(name)                                                                             \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name                                    \
    "\",\"parameters\":{\"type\":\"object\"}}}"
#define CHAT                                                                                   \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[" TOOL(  \
        "get") "," TOOL("put") "]"
#define RESPONSES(tools) "{\"model\":\"m\",\"input\":\"x\",\"tools\":[" tools "]"
#define CALL(name, arguments)                                                                  \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"

struct session {
    struct lr_arena arena;
    struct lr_buf out;
};

/* Plays an output, a letter a token; false: the response ended it. */
static bool play(struct session *s, const struct chat_codec *codec, const char *body,
                 const char *output, enum lr_finish reason)
{
    const struct chat_request *req;
    struct chat_error e;
    struct chat_response *r;
    struct chat_usage usage = {10, 5, 0};
    bool goes_on = true;
    lr_arena_init(&s->arena, 16 << 20);
    lr_buf_init(&s->out, 16 << 20);
    if (chat_request_parse(&s->arena, codec, lr_str_z(body), &req, &e) != LR_OK)
        fail_msg("%s: %s", e.param, e.error.text);
    struct chat_dialect dialect = dialect_of(GRAMMAR_HERMES);
    struct chat_response_options o = {
        .request = req, .id = LR_STR_LIT("answer-1"), .dialect = &dialect};
    assert_int_equal(chat_response_create(&o, &r, NULL), LR_OK);
    for (; *output != '\0' && goes_on; output++) {
        struct wire_token t = {
            .bytes = {output, 1}, .has_logprob = true, .logprob = -(float)*output};
        goes_on = chat_response_on_token(r, 0, &t, &s->out);
    }
    chat_response_on_done(r, 0, reason, &usage, &s->out);
    assert_true(chat_response_is_complete(r));
    assert_int_equal(chat_response_status(r), LR_OK);
    chat_response_destroy(r);
    return goes_on;
}

static void close_session(struct session *s)
{
    lr_buf_free(&s->out);
    lr_arena_free(&s->arena);
}

static const struct lr_json *parse(struct session *s, struct lr_str text)
{
    const struct lr_json *root;
    struct lr_error err;
    if (lr_json_parse(&s->arena, text, NULL, &root, &err) != LR_OK)
        fail_msg("%s: " LR_STR_FMT, err.text, LR_STR_ARG(text));
    return root;
}

static void expect_text(const struct lr_json *object, const char *key, const char *wanted)
{
    struct lr_str s = LR_STR_LIT("(none)");
    (void)lr_json_str(lr_json_get(object, key), &s);
    if (!lr_str_eq_z(s, wanted))
        fail_msg("%s is \"" LR_STR_FMT "\", not \"%s\"", key, LR_STR_ARG(s), wanted);
}

static const struct lr_json *choice_of(const struct lr_json *root)
{
    return &lr_json_get(root, "choices")->items[0];
}

static void expect_call(const struct lr_json *message, uint32_t i, const char *name,
                        const char *arguments)
{
    const struct lr_json *call = &lr_json_get(message, "tool_calls")->items[i];
    struct lr_str id;
    assert_true(lr_json_str(lr_json_get(call, "id"), &id) && lr_str_starts(id, "call_"));
    expect_text(call, "type", "function");
    expect_text(lr_json_get(call, "function"), "name", name);
    expect_text(lr_json_get(call, "function"), "arguments", arguments);
}

/* ---- chat completions ---- */

static void a_chat_answer_has_content_and_tool_calls(void **state)
{
    struct session s;
    (void)state;
    (void)play(&s, &chat_openai_chat, CHAT "}",
               "I look.\n" CALL("get", "{\"n\": 1}") "\n" CALL("put", "{}"), LR_FINISH_STOP);
    const struct lr_json *choice = choice_of(parse(&s, lr_buf_str(&s.out)));
    const struct lr_json *message = lr_json_get(choice, "message");
    expect_text(choice, "finish_reason", "tool_calls");
    expect_text(message, "content", "I look.\n");
    assert_int_equal(lr_json_get(message, "tool_calls")->count, 2);
    expect_call(message, 0, "get", "{\"n\": 1}");
    expect_call(message, 1, "put", "{}");
    close_session(&s);

    (void)play(&s, &chat_openai_chat, CHAT "}", CALL("get", "{\"n\": 1}"), LR_FINISH_STOP);
    message = lr_json_get(choice_of(parse(&s, lr_buf_str(&s.out))), "message");
    assert_int_equal(lr_json_get(message, "content")->type, LR_JSON_NULL);
    close_session(&s);
}

static void a_streamed_call_has_its_name_first_and_its_arguments_in_pieces(void **state)
{
    char output[1200] = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"t\": \"";
    char wanted[1200] = "{\"t\": \"";
    struct session s;
    struct lr_buf arguments;
    uint32_t begun = 0, pieces = 0;
    const char *finish = NULL;
    (void)state;
    memset(output + strlen(output), 'a', 600);
    (void)strcat(output, "\"}}\n</tool_call>");
    memset(wanted + strlen(wanted), 'a', 600);
    (void)strcat(wanted, "\"}");
    (void)play(&s, &chat_openai_chat, CHAT ",\"stream\":true}", output, LR_FINISH_STOP);
    lr_buf_init(&arguments, 1 << 20);
    for (struct lr_str rest = lr_buf_str(&s.out), event;
         !lr_str_starts(rest, "data: [DONE]");) {
        size_t end = lr_str_find(rest, LR_STR_LIT("\n\n"));
        event = lr_str_sub(rest, 6, end);
        rest = lr_str_sub(rest, end + 2, rest.len);
        const struct lr_json *choice = choice_of(parse(&s, event));
        const struct lr_json *calls = lr_json_get(lr_json_get(choice, "delta"), "tool_calls");
        struct lr_str text;
        if (lr_json_str(lr_json_get(choice, "finish_reason"), &text))
            finish = lr_str_eq_z(text, "tool_calls") ? "tool_calls" : "other";
        if (calls == NULL)
            continue;
        const struct lr_json *function = lr_json_get(&calls->items[0], "function");
        if (lr_json_get(function, "name") != NULL) {
            assert_int_equal(pieces, 0);
            begun++;
        }
        assert_true(lr_json_str(lr_json_get(function, "arguments"), &text));
        pieces += text.len != 0;
        lr_buf_add_str(&arguments, text);
    }
    assert_int_equal(begun, 1);
    assert_true(pieces > 100);
    assert_string_equal(lr_buf_z(&arguments), wanted);
    assert_string_equal(finish, "tool_calls");
    lr_buf_free(&arguments);
    close_session(&s);
}

static void what_is_no_call_of_a_declared_tool_is_content(void **state)
{
    static const struct {
        const char *members, *output;
    } cases[] = {
        {"}", CALL("drop", "{}")},
        {"}", CALL("get", "{\"n\": }")},
        {",\"tool_choice\":\"none\"}", CALL("get", "{}")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct session s;
        char body[512];
        (void)snprintf(body, sizeof(body), CHAT "%s", cases[i].members);
        (void)play(&s, &chat_openai_chat, body, cases[i].output, LR_FINISH_STOP);
        const struct lr_json *choice = choice_of(parse(&s, lr_buf_str(&s.out)));
        expect_text(choice, "finish_reason", "stop");
        expect_text(lr_json_get(choice, "message"), "content", cases[i].output);
        assert_null(lr_json_get(lr_json_get(choice, "message"), "tool_calls"));
        close_session(&s);
    }
}

static void parallel_tool_calls_false_ends_the_answer_at_the_second_call(void **state)
{
    struct session s;
    (void)state;
    assert_false(play(&s, &chat_openai_chat, CHAT ",\"parallel_tool_calls\":false}",
                      CALL("get", "{}") CALL("put", "{}"), LR_FINISH_CANCELLED));
    const struct lr_json *choice = choice_of(parse(&s, lr_buf_str(&s.out)));
    expect_text(choice, "finish_reason", "tool_calls");
    assert_int_equal(lr_json_get(lr_json_get(choice, "message"), "tool_calls")->count, 1);
    close_session(&s);
}

/* Each token of the content has its entry, those of the call have none. */
static void log_probabilities_are_those_of_the_content(void **state)
{
    static const struct {
        const char *output, *content;
    } cases[] = {
        {"ab<" CALL("get", "{}") "\ncd", "ab<\ncd"},
        {"a" CALL("drop", "{}") "b", "a" CALL("drop", "{}") "b"},
        {CALL("get", "{}"), ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct session s;
        (void)play(&s, &chat_openai_chat, CHAT ",\"logprobs\":true}", cases[i].output,
                   LR_FINISH_STOP);
        const struct lr_json *choice = choice_of(parse(&s, lr_buf_str(&s.out)));
        const struct lr_json *list = lr_json_get(lr_json_get(choice, "logprobs"), "content");
        char text[256] = "";
        for (uint32_t k = 0; list != NULL && k < list->count; k++) {
            struct lr_str token;
            assert_true(lr_json_str(lr_json_get(&list->items[k], "token"), &token));
            (void)strncat(text, token.ptr, token.len);
        }
        assert_string_equal(text, cases[i].content);
        close_session(&s);
    }
}

/* ---- responses ---- */

#define FUNCTION(name)                                                                         \
    "{\"type\":\"function\",\"name\":\"" name "\",\"parameters\":{\"type\":\"object\"}}"

static void a_response_has_its_calls_as_items(void **state)
{
    struct session s;
    (void)state;
    (void)play(&s, &chat_responses,
               RESPONSES(FUNCTION("get") ",{\"type\":\"custom\",\"name\":\"run\"},{\"type\":"
                                         "\"namespace\",\"name\":\"web\",\"description\":\"d\","
                                         "\"tools\":[" FUNCTION("open") "]}") "}",
               "I look. " CALL("get", "{\"n\": 1}") CALL("run", "{\"input\": \"ls\\n\"}")
                   CALL("open", "{}") CALL("web.open", "{}"),
               LR_FINISH_STOP);
    const struct lr_json *output = lr_json_get(parse(&s, lr_buf_str(&s.out)), "output");
    static const char *const types[] = {"message", "function_call", "custom_tool_call",
                                        "function_call", "function_call"};
    assert_int_equal(output->count, 5);
    for (uint32_t i = 0; i < 5; i++)
        expect_text(&output->items[i], "type", types[i]);
    expect_text(&output->items[1], "arguments", "{\"n\": 1}");
    expect_text(&output->items[2], "input", "ls\n");
    for (uint32_t i = 3; i < 5; i++) {
        expect_text(&output->items[i], "name", "open");
        expect_text(&output->items[i], "namespace", "web");
    }
    close_session(&s);
}

static void a_streamed_response_has_the_events_of_a_call(void **state)
{
    static const char *const events[] = {
        "event: response.output_item.added", "event: response.function_call_arguments.delta",
        "event: response.function_call_arguments.done", "event: response.output_item.done",
        "event: response.completed"};
    struct session s;
    (void)state;
    (void)play(&s, &chat_responses, RESPONSES(FUNCTION("get")) ",\"stream\":true}",
               CALL("get", "{\"n\": 1}"), LR_FINISH_STOP);
    const char *at = lr_buf_z(&s.out);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        at = strstr(at, events[i]);
        if (at == NULL)
            fail_msg("no %s in %s", events[i], lr_buf_z(&s.out));
    }
    close_session(&s);
}

/* ---- prompts ---- */

#define HISTORY                                                                                \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":"          \
    "\"assistant\",\"content\":null,\"tool_calls\":["                                          \
    "{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"get\",\"arguments\":"        \
    "\"{\\\"n\\\":1}\"}},"                                                                     \
    "{\"id\":\"b\",\"type\":\"function\",\"function\":{\"name\":\"put\",\"arguments\":"        \
    "\"{}\"}}]},"                                                                              \
    "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"one\"},"                          \
    "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"two\"}],\"tools\":[" TOOL(        \
        "get") "]}"

static void expect_prompt(const char *chat_template, enum grammar_format format,
                          const char *wanted)
{
    struct lr_arena arena;
    struct chat_error e;
    struct lr_error err;
    const struct chat_request *req;
    struct jinja_template *compiled;
    struct chat_prompt prompt;
    struct lr_buf text;
    lr_arena_init(&arena, 16 << 20);
    lr_buf_init(&text, 1 << 20);
    assert_int_equal(
        chat_request_parse(&arena, &chat_openai_chat, LR_STR_LIT(HISTORY), &req, &e), LR_OK);
    assert_int_equal(jinja_compile(lr_str_z(chat_template), &compiled, &err), LR_OK);
    struct chat_model model = {.chat_template = compiled, .dialect = dialect_of(format)};
    if (chat_prompt_render(req, &model, 0, 0, &prompt, &err) != LR_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < prompt.segment_count; i++)
        lr_buf_add(&text, prompt.segments[i].text, prompt.segments[i].len);
    assert_string_equal(lr_buf_z(&text), wanted);
    chat_prompt_free(&prompt);
    jinja_template_destroy(compiled);
    lr_buf_free(&text);
    lr_arena_free(&arena);
}

static void a_template_gets_tools_calls_with_objects_and_results(void **state)
{
    static const char chat_template[] =
        "{{ tools[0].function.name }}|{% for m in messages %}{{ m.role }}:"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }}"
        "{{ c.function.arguments | tojson }},{% else %}{{ m.content }}{% endfor %};"
        "{% endfor %}";
    (void)state;
    expect_prompt(chat_template, GRAMMAR_HERMES,
                  "get|user:x;assistant:get{\"n\": 1},put{},;tool:one;tool:two;");
    /* Templates of Llama 3 refuse several calls in one message. */
    expect_prompt(chat_template, GRAMMAR_LLAMA3,
                  "get|user:x;assistant:get{\"n\": 1},;tool:one;assistant:put{},;tool:two;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_answer_has_content_and_tool_calls),
        cmocka_unit_test(a_streamed_call_has_its_name_first_and_its_arguments_in_pieces),
        cmocka_unit_test(what_is_no_call_of_a_declared_tool_is_content),
        cmocka_unit_test(parallel_tool_calls_false_ends_the_answer_at_the_second_call),
        cmocka_unit_test(log_probabilities_are_those_of_the_content),
        cmocka_unit_test(a_response_has_its_calls_as_items),
        cmocka_unit_test(a_streamed_response_has_the_events_of_a_call),
        cmocka_unit_test(a_template_gets_tools_calls_with_objects_and_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
