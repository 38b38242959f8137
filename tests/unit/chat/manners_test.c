/* Conversations that clients have and templates refuse: what a template takes is found by
 * rendering, and every text of a conversation is in the prompt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "chat/prompt.h"
#include "dialects.h"

/* Two rounds with everything that clients send: the words are what must be in the prompt. */
#define CALL(id, word)                                                                         \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"" id                   \
    "\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"at\\\":"    \
    "\\\"" word "\\\"}\"}}]}"
#define RESULT(id, word)                                                                       \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" word "\"}"
#define CONVERSATION                                                                           \
    "{\"model\":\"m\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\","      \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"string\"}}}}}],"   \
    "\"messages\":[{\"role\":\"system\",\"content\":\"alpha\"},"                               \
    "{\"role\":\"developer\",\"content\":\"beta\"},{\"role\":\"user\",\"content\":\"gamma\"}"  \
    "," CALL("call_0123456789", "delta") "," RESULT(                                           \
        "call_0123456789",                                                                     \
        "epsilon") ","                                                                         \
                   "{\"role\":\"user\",\"content\":\"zeta\"}," CALL(                           \
                       "call_abc",                                                             \
                       "eta") "," RESULT("call_abc",                                           \
                                         "theta") ",{\"role\":\"assistant\",\"content\":"      \
                                                  "\"iota\"},"                                 \
                                                  "{\"role\":\"system\",\"content\":"          \
                                                  "\"kappa\"},{\"role\":\"user\",\"content\":" \
                                                  "\"lambda\"},"                               \
                                                  "{\"role\":\"user\",\"content\":\"mu\"}]}"

static const char *const words[] = {"alpha", "beta",  "gamma", "delta", "epsilon", "zeta",
                                    "eta",   "theta", "iota",  "kappa", "lambda",  "mu"};

#define FOR     "{% for m in messages %}"
#define END     "{% endfor %}"
#define IS(r)   "m.role == '" r "'"
#define ARGS    "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}"
#define CONTENT "{{ m.role }}:{{ m.content or '' }}" ARGS ";"
#define FAIL(t) "{{ raise_exception('" t "') }}"

static const struct {
    const char *what, *source;
} templates[] = {
    {"takes everything", FOR CONTENT END},
    {"knows no developer",
     FOR "{% if " IS("developer") " %}" FAIL("role") "{% endif %}" CONTENT END},
    {"drops developers", FOR "{% if not " IS("developer") " %}" CONTENT "{% endif %}" END},
    {"knows no system", FOR
     "{% if " IS("system") " or " IS("developer") " %}" FAIL("role") "{% endif %}" CONTENT END},
    {"takes a system message at the beginning only",
     FOR "{% if (" IS("system") " or " IS("developer") ") and not loop.first %}" FAIL(
         "first") "{% endif %}" CONTENT END},
    {"drops later system messages", FOR "{% if loop.first or not (" IS("system") " or " IS(
                                        "developer") ") %}" CONTENT "{% endif %}" END},
    {"wants alternating roles",
     "{% set ns = namespace(n=0) %}" FOR "{% if " IS("user") " or (" IS(
         "assistant") " and not m.tool_calls) %}"
                      "{% if (" IS("user") ") != (ns.n % 2 == 0) %}" FAIL(
                          "alternate") "{% endif %}{% set ns.n = ns.n + 1 %}{% endif %}" CONTENT
                          END},
    {"wants ids of nine letters",
     FOR "{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}" FAIL(
         "id") "{% endif %}{% endfor %}" CONTENT END},
    {"wants content", FOR "{{ '' + m.content }}" ARGS END},
    {"wants arguments as text", FOR "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ "
                                    "'' + c.function.arguments }}{% endfor %}" END},
    {"shows no calls", FOR "{{ m.content or '' }}" END},
    {"shows no results", FOR "{% if not " IS("tool") " %}" CONTENT "{% endif %}" END},
    {"drops text beside calls",
     FOR "{% if m.tool_calls %}" ARGS "{% else %}" CONTENT "{% endif %}" END},
};

static void every_text_of_a_conversation_is_in_the_prompt(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
        struct jinja_template *compiled;
        const struct chat_request *req;
        struct chat_prompt prompt;
        struct chat_error e;
        struct lr_error err;
        struct lr_arena arena;
        struct lr_buf text;
        lr_arena_init(&arena, 16 << 20);
        lr_buf_init(&text, 1 << 20);
        assert_int_equal(jinja_compile(lr_str_z(templates[i].source), &compiled, &err), LR_OK);
        if (chat_request_parse(&arena, &chat_openai_chat, LR_STR_LIT(CONVERSATION), &req, &e) !=
            LR_OK)
            fail_msg("%s", e.error.text);
        struct chat_model model = {.chat_template = compiled,
                                   .dialect = dialect_of(GRAMMAR_PLAIN)};
        chat_model_learn(&model);
        if (chat_prompt_render(req, &model, 0, 0, &prompt, &err) != LR_OK)
            fail_msg("a template that %s: %s", templates[i].what, err.text);
        for (size_t k = 0; k < prompt.segment_count; k++)
            lr_buf_add(&text, prompt.segments[k].text, prompt.segments[k].len);
        for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
            if (strstr(lr_buf_z(&text), words[k]) == NULL)
                fail_msg("a template that %s has no %s:\n%s", templates[i].what, words[k],
                         lr_buf_z(&text));
        if (i == 0)
            assert_int_equal(model.manners, 0);
        chat_prompt_free(&prompt);
        jinja_template_destroy(compiled);
        lr_buf_free(&text);
        lr_arena_free(&arena);
    }
}

/* Off by the request reaches the template's own switch, whatever its name. */
static void the_switch_of_reasoning_reaches_the_template(void **state)
{
    static const struct {
        const char *source, *field, *wanted;
    } rows[] = {
        {"{% if enable_thinking is defined and not enable_thinking %}off{% endif %}",
         "\"enable_thinking\":false", "off"},
        {"{% if thinking is defined and not thinking %}off{% endif %}",
         "\"reasoning_effort\":\"none\"", "off"},
        {"{% if thinking %}on{% endif %}", "\"thinking\":{\"type\":\"enabled\"}", "on"},
        {"{{ thinking_mode }}", "\"think\":false", "disabled"},
        {"{{ thinking_budget | default(-1) }}", "\"thinking\":{\"type\":\"disabled\"}", "0"},
        {"{# no_think #}{{ reasoning_effort }}", "\"enable_thinking\":false", "no_think"},
        {"{% if '/no_think' in messages[0].content %}off{% endif %}", "\"think\":false", "off"},
        {"{{ enable_thinking is defined }}", "\"top_p\":1", "False"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct jinja_template *compiled;
        const struct chat_request *req;
        struct chat_prompt prompt;
        struct chat_error e;
        struct lr_error err;
        struct lr_arena arena;
        char body[512], got[64] = "";
        lr_arena_init(&arena, 1 << 20);
        (void)snprintf(
            body, sizeof(body),
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s}",
            rows[i].field);
        assert_int_equal(jinja_compile(lr_str_z(rows[i].source), &compiled, &err), LR_OK);
        assert_int_equal(
            chat_request_parse(&arena, &chat_openai_chat, lr_str_z(body), &req, &e), LR_OK);
        struct chat_model model = {.chat_template = compiled,
                                   .source = lr_str_z(rows[i].source),
                                   .dialect = dialect_of(GRAMMAR_PLAIN)};
        if (chat_prompt_render(req, &model, 0, 0, &prompt, &err) != LR_OK)
            fail_msg("%s", err.text);
        for (size_t k = 0; k < prompt.segment_count; k++)
            strncat(got, prompt.segments[k].text, prompt.segments[k].len);
        assert_string_equal(got, rows[i].wanted);
        chat_prompt_free(&prompt);
        jinja_template_destroy(compiled);
        lr_arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_of_a_conversation_is_in_the_prompt),
        cmocka_unit_test(the_switch_of_reasoning_reaches_the_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
