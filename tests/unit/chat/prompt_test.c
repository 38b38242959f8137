/* From a request to prompt segments: variables, trust, raw prompts. */
#include "chat/prompt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "dialects.h"

/* 2026-11-15 12:00 UTC: the same day in every time zone from -12 to +11. */
enum { NOON = 1794744000 };

struct rendered {
    struct lr_arena arena;
    const struct chat_request *req;
    struct chat_prompt prompt;
    struct lr_error err;
    lr_code code;
    char text[4096]; /* segments: trusted ones unchanged, others in braces */
};

static void show(struct rendered *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->prompt.segment_count; i++) {
        const struct lr_segment *s = &r->prompt.segments[i];
        n += (size_t)snprintf(r->text + n, sizeof(r->text) - n,
                              s->control != 0 ? "%.*s" : "{%.*s}", (int)s->len, s->text);
    }
    r->text[n] = '\0';
}

static void render(struct rendered *r, const struct chat_codec *codec, const char *body,
                   const struct chat_model *model, uint32_t index)
{
    struct chat_error e;
    *r = (struct rendered){0};
    lr_arena_init(&r->arena, 16 << 20);
    if (chat_request_parse(&r->arena, codec, lr_str_z(body), &r->req, &e) != LR_OK)
        fail_msg("%s", e.error.text);
    r->code = chat_prompt_render(r->req, model, index, NOON, &r->prompt, &r->err);
    show(r);
}

static void finish(struct rendered *r)
{
    chat_prompt_free(&r->prompt);
    lr_arena_free(&r->arena);
}

static struct jinja_template *compile(const char *source)
{
    struct jinja_template *t;
    struct lr_error err;
    if (jinja_compile(lr_str_z(source), &t, &err) != LR_OK)
        fail_msg("%s", err.text);
    return t;
}

#define USER(text) "\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"

static void a_template_sees_the_request(void **state)
{
    (void)state;
    struct rendered r;
    struct chat_model model = {
        .chat_template = compile("{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>"
                                 "{{ m.content }}{% endfor %}{{ reasoning_effort }}{{ x }}"
                                 "{{ tools is none }}{{ add_generation_prompt }}"
                                 "{{ strftime_now('%Y-%m-%d') }}"),
        .bos_token = LR_STR_LIT("<s>"),
    };
    render(&r, &chat_openai_chat,
           "{\"model\":\"m\"," USER("<|end|>") ",\"reasoning_effort\":\"high\","
                                               "\"chat_template_kwargs\":{\"x\":\"y\"}}",
           &model, 0);
    if (r.code != LR_OK)
        fail_msg("%s", r.err.text);
    assert_string_equal(r.text, "<s><|user|>{<|end|>highy}True{True}2026-11-15");
    assert_int_equal(r.prompt.bytes, 3 + 8 + 7 + 4 + 1 + 8 + 10);
    finish(&r);
    jinja_template_destroy((struct jinja_template *)(uintptr_t)model.chat_template);
}

static void a_template_that_refuses_is_a_400(void **state)
{
    (void)state;
    struct rendered r;
    struct chat_model model = {.chat_template = compile("{{ raise_exception('no way') }}")};
    render(&r, &chat_openai_chat, "{\"model\":\"m\"," USER("x") "}", &model, 0);
    assert_int_equal(r.code, LR_INVALID_ARGUMENT);
    assert_non_null(strstr(r.err.text, "no way"));
    finish(&r);
    jinja_template_destroy((struct jinja_template *)(uintptr_t)model.chat_template);
}

static void gptoss_without_a_template_speaks_harmony(void **state)
{
    (void)state;
    struct rendered r;
    struct chat_model model = {.dialect = dialect_of(GRAMMAR_HARMONY)};
    render(&r, &chat_openai_chat,
           "{\"model\":\"m\"," USER("<|end|>hi") ",\"reasoning_effort\":\"low\"}", &model, 0);
    if (r.code != LR_OK)
        fail_msg("%s", r.err.text);
    assert_non_null(strstr(r.text, "<|start|>system<|message|>"));
    assert_non_null(strstr(r.text, "2026-11-15"));
    assert_non_null(strstr(r.text, "low"));
    assert_non_null(strstr(r.text, "<|start|>user<|message|>{<|end|>hi}<|end|>"));
    assert_string_equal(r.text + strlen(r.text) - 18, "<|start|>assistant");
    finish(&r);
}

static void other_models_without_a_template_speak_chatml(void **state)
{
    (void)state;
    struct rendered r;
    struct chat_model model = {0};
    render(&r, &chat_openai_chat, "{\"model\":\"m\"," USER("<|im_end|>hi") "}", &model, 0);
    if (r.code != LR_OK)
        fail_msg("%s", r.err.text);
    assert_non_null(strstr(r.text, "<|im_start|>user\n{<|im_end|>hi}<|im_end|>"));
    assert_non_null(strstr(r.text, "<|im_start|>assistant"));
    finish(&r);
}

static void a_template_decides_the_format_and_the_family_only_without_one(void **state)
{
    (void)state;
    struct lr_str none = {0}, harmony = LR_STR_LIT("<|start|>{{ x }}<|message|>"),
                  other = LR_STR_LIT("<|im_start|>{{ x }}");
    const struct lr_str architectures[] = {LR_STR_LIT("GptOssForCausalLM"),
                                           LR_STR_LIT("gpt-oss"), LR_STR_LIT("llama")};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chat_dialect_of(harmony, architectures[i]).format, GRAMMAR_HARMONY);
        assert_int_equal(chat_dialect_of(other, architectures[i]).format, GRAMMAR_PLAIN);
        assert_int_equal(chat_dialect_of(none, architectures[i]).format,
                         i < 2 ? GRAMMAR_HARMONY : GRAMMAR_HERMES);
    }
}

static void what_clients_send_is_repaired_first(void **state)
{
    (void)state;
    struct rendered r;
    struct chat_model model = {
        .chat_template = compile("{% for m in messages %}[{{ m.content }}]{% endfor %}")};
    render(&r, &chat_openai_chat,
           "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
           "\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]}",
           &model, 0);
    assert_int_equal(r.code, LR_OK);
    assert_string_equal(r.text, "[{a\nb}]");
    finish(&r);
    jinja_template_destroy((struct jinja_template *)(uintptr_t)model.chat_template);
}

/* The second turn after a call, as a client sends back what the server answered. */
#define SECOND_TURN                                                                            \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":"          \
    "\"assistant\","                                                                           \
    "\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{"      \
    "\"name\":"                                                                                \
    "\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\","     \
    "\"content\":"                                                                             \
    "\"None\"}]}"

static void expect_second_turn(const char *template, const char *expected)
{
    struct rendered r;
    struct chat_model model = {.chat_template = compile(template)};
    render(&r, &chat_openai_chat, SECOND_TURN, &model, 0);
    if (r.code != LR_OK)
        fail_msg("%s: %s", template, r.err.text);
    assert_string_equal(r.text, expected);
    finish(&r);
    jinja_template_destroy((struct jinja_template *)(uintptr_t)model.chat_template);
}

static void a_null_content_is_shown_as_it_is_where_a_template_can_use_it(void **state)
{
    (void)state;
    expect_second_turn("{% for m in messages %}[{{ 'call' if m.content is none else m.content "
                       "}}]{% endfor %}",
                       "[{u}][call][{None}]");
}

static void a_null_content_is_empty_where_a_template_fails_on_it_or_prints_it(void **state)
{
    (void)state;
    expect_second_turn("{% for m in messages %}[{{ m.content.strip('\n') }}]{% endfor %}",
                       "[{u}][][{None}]");
    expect_second_turn("{% for m in messages %}{% if '</think>' in m.content %}x{% endif %}"
                       "[{{ '' + m.content }}]{% endfor %}",
                       "[{u}][][{None}]");
    expect_second_turn("{% for m in messages %}[{{ m.content }}]{% endfor %}",
                       "[{u}][][{None}]");
    expect_second_turn("{% for m in messages %}[{{ m.content | tojson }}]{% endfor %}",
                       "[{\"u\"}][{\"\"}][{\"None\"}]");
}

static void arguments_are_text_where_a_template_fails_on_an_object(void **state)
{
    (void)state;
    expect_second_turn("{% for m in messages %}{% if m.content is none %}"
                       "[{{ 'f ' + m.tool_calls[0].function.arguments }}]{% endif %}"
                       "{% endfor %}",
                       "[f {{\"a\": 1}}]");
}

static void raw_prompts_are_taken_as_they_are(void **state)
{
    (void)state;
    struct rendered r;
    struct chat_model model = {.dialect = dialect_of(GRAMMAR_HARMONY)};
    render(&r, &chat_openai_completions, "{\"model\":\"m\",\"prompt\":[\"a\",\"<|start|>b\"]}",
           &model, 1);
    assert_int_equal(r.code, LR_OK);
    assert_string_equal(r.text, "<|start|>b");
    finish(&r);

    render(&r, &chat_openai_completions, "{\"model\":\"m\",\"prompt\":[5,6,7]}", &model, 0);
    assert_int_equal(r.code, LR_OK);
    assert_null(r.prompt.segments);
    assert_int_equal(r.prompt.id_count, 3);
    assert_int_equal(r.prompt.ids[2], 7);
    finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_template_sees_the_request),
        cmocka_unit_test(a_template_that_refuses_is_a_400),
        cmocka_unit_test(gptoss_without_a_template_speaks_harmony),
        cmocka_unit_test(other_models_without_a_template_speak_chatml),
        cmocka_unit_test(a_template_decides_the_format_and_the_family_only_without_one),
        cmocka_unit_test(what_clients_send_is_repaired_first),
        cmocka_unit_test(a_null_content_is_shown_as_it_is_where_a_template_can_use_it),
        cmocka_unit_test(a_null_content_is_empty_where_a_template_fails_on_it_or_prints_it),
        cmocka_unit_test(arguments_are_text_where_a_template_fails_on_an_object),
        cmocka_unit_test(raw_prompts_are_taken_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
