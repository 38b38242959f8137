/* The whole output of a Harmony model: free parts, constrained parts, and the end. */
#include "grammar_test.h"

/* <|...|> stands for the control token of that name. */
static bool plays(const char *constraint, const char *output)
{
    struct lr_error err = {0};
    struct grammar_program *program = compile_text(constraint, &err);
    if (program == NULL)
        fail_msg("%s: %s", constraint, err.text);
    struct grammar_matcher *m = matcher_of(program);
    bool ok = true;
    for (const char *at = output; ok && *at != '\0';) {
        bool control = strncmp(at, "<|", 2) == 0;
        size_t len = control ? (size_t)(strstr(at, "|>") + 2 - at) : 1;
        ok = grammar_matcher_bytes(m, lr_str(at, len), control);
        at += len;
    }
    ok = ok && grammar_matcher_is_complete(m);
    grammar_matcher_free(m);
    grammar_program_free(program);
    return ok;
}

#define OBJECT "{\"format\":\"harmony\",\"answer\":\"object\"}"
#define THINKS "<|channel|>analysis<|message|>Let me {think\".<|end|><|start|>assistant"

static void reasoning_is_free_and_the_answer_is_json(void **state)
{
    static const char *const good[] = {
        "<|channel|>final<|message|>{}<|return|>",
        "<|channel|>final <|constrain|>json<|message|>{\"a\":1}<|return|>",
        "<|channel|>final<|constrain|>json<|message|>{}<|return|>",
        THINKS "<|channel|>final<|message|>{}<|return|>",
        THINKS THINKS "<|channel|>final<|message|>{}<|return|>",
        "<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>{}<|"
        "return|>",
    };
    static const char *const bad[] = {
        "{}<|return|>",
        "<|channel|>final<|message|>{<|return|>",
        "<|channel|>final<|message|>{}<|end|>",
        "<|channel|>final<|message|>{}<|call|>",
        "<|channel|>final<|message|> {}<|return|>",
        "<|channel|>final<|message|>[]<|return|>",
        "<|channel|>final<|message|>Sure: {}<|return|>",
        "<|channel|>final json<|message|>{}<|return|>",
        "<|channel|>finally<|message|>{}<|return|>",
        "<|channel|>analysis<|message|>hm<|return|>",
        "<|channel|>analysis<|message|>hm<|start|>assistant",
        "<|channel|>commentary<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
        "{}<|return|>",
        "<|channel|>commentary to=functions.f<|message|>{}<|call|>",
        " to=functions.f<|channel|>commentary<|message|>{}<|call|>",
        THINKS "<|message|>{}<|return|>",
        "<|channel|>analysis<|message|>hm<|end|><|start|>user<|channel|>final<|message|>{}<|"
        "return|>",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!plays(OBJECT, good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (plays(OBJECT, bad[i]))
            fail_msg("taken: %s", bad[i]);
}

#define TOOLS                                                                                  \
    "\"tools\":[{\"name\":\"get\",\"strict\":true,\"schema\":{\"type\":\"object\","            \
    "\"properties\":"                                                                          \
    "{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}},{\"name\":\"get_all\",\"strict\":"  \
    "false}]}"
#define REQUIRED "{\"format\":\"harmony\",\"answer\":\"none\"," TOOLS
#define AUTO     "{\"format\":\"harmony\",\"answer\":\"text\"," TOOLS
#define BOTH     "{\"format\":\"harmony\",\"answer\":\"object\"," TOOLS

static void a_call_names_a_tool_and_its_arguments_fit(void **state)
{
    static const char *const calls[] = {
        "<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"n\":1}<|call|>",
        "<|channel|>commentary to=functions.get<|constrain|>json<|message|>{\"n\":1}<|call|>",
        "<|channel|>commentary to=functions.get json<|message|>{\"n\":1}<|call|>",
        "<|channel|>commentary to=functions.get<|message|>{\"n\":1}<|call|>",
        " to=functions.get<|channel|>commentary <|constrain|>json<|message|>{\"n\":1}<|call|>",
        " to=functions.get_all<|channel|>commentary json<|message|>{\"any\":[]}<|call|>",
        THINKS "<|channel|>commentary to=functions.get_all<|message|>{}<|call|>",
        THINKS " to=functions.get<|channel|>commentary<|message|>{\"n\":-7}<|call|>",
    };
    static const char *const bad[] = {
        "<|channel|>commentary to=functions.other<|message|>{}<|call|>",
        "<|channel|>commentary to=functions.get<|message|>{}<|call|>",
        "<|channel|>commentary to=functions.get<|message|>{\"n\":\"1\"}<|call|>",
        "<|channel|>commentary to=functions.get_all<|message|>[]<|call|>",
        "<|channel|>commentary to=functions.get<|message|>{\"n\":1}<|return|>",
        "<|channel|>commentary to=functions.get<|message|>{\"n\":1}<|end|>",
        "<|channel|>commentary to=functions.ge<|message|>{}<|call|>",
        "<|channel|>analysis to=functions.get<|message|>{\"n\":1}<|call|>",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (!plays(REQUIRED, calls[i]) || !plays(AUTO, calls[i]) || !plays(BOTH, calls[i]))
            fail_msg("refused: %s", calls[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (plays(REQUIRED, bad[i]) || plays(AUTO, bad[i]) || plays(BOTH, bad[i]))
            fail_msg("taken: %s", bad[i]);
}

static void an_answer_is_allowed_only_where_the_request_allows_it(void **state)
{
    static const char text[] = "<|channel|>final<|message|>Hello {<|return|>";
    static const char json[] = "<|channel|>final<|message|>{}<|return|>";
    static const char preamble[] = "<|channel|>commentary<|message|>I will look.<|end|>"
                                   "<|start|>assistant<|channel|>final<|message|>{}<|return|>";
    (void)state;
    assert_false(plays(REQUIRED, text));
    assert_false(plays(REQUIRED, json));
    assert_true(plays(AUTO, text));
    assert_true(plays(AUTO, preamble));
    assert_true(plays(BOTH, json));
    assert_false(plays(BOTH, text));
    assert_false(plays(BOTH, preamble)); /* it would be content before the JSON */
}

static void a_tool_that_is_not_strict_is_followed_as_far_as_possible(void **state)
{
    static const char lenient[] =
        "{\"format\":\"harmony\",\"answer\":\"none\",\"tools\":[{"
        "\"name\":\"f\",\"strict\":false,\"schema\":{"
        "\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
        "\"string\",\"pattern\":\"\\\\bx\"},\"b\":{\"oneOf\":[{\"type\":"
        "\"null\"},{\"type\":\"integer\"}]}},\"required\":[\"a\","
        "\"b\"],\"minProperties\":1}}]}";
    static const char strict[] = "{\"format\":\"harmony\",\"answer\":\"none\",\"tools\":[{"
                                 "\"name\":\"f\",\"strict\":true,\"schema\":{"
                                 "\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
                                 "\"string\",\"pattern\":\"\\\\bx\"}}}}]}";
    struct lr_error err;
    (void)state;
    assert_true(
        plays(lenient,
              " to=functions.f<|channel|>commentary<|message|>{\"a\":\"y\",\"b\":1}<|call|>"));
    assert_false(plays(
        lenient, " to=functions.f<|channel|>commentary<|message|>{\"a\":1,\"b\":1}<|call|>"));
    assert_null(compile_text(strict, &err));
    assert_non_null(strstr(err.text, "f.properties.a: \"pattern\": the word boundary"));
}

static void a_malformed_constraint_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"format\":\"plain\"}",
        "{\"format\":\"other\",\"answer\":\"object\"}",
        "{\"format\":\"plain\",\"answer\":\"schema\"}",
        "{\"format\":\"plain\",\"answer\":\"something\"}",
        "{\"format\":\"harmony\",\"answer\":\"none\"}",
        "{\"format\":\"harmony\",\"answer\":\"none\",\"tools\":[]}",
        "{\"format\":\"harmony\",\"answer\":\"none\",\"tools\":[{}]}",
        "{\"format\":\"plain\",\"answer\":\"none\",\"tools\":[{\"name\":\"f\",\"strict\":false}"
        "]}",
    };
    struct lr_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (compile_text(bad[i], &err) != NULL)
            fail_msg("taken: %s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning_is_free_and_the_answer_is_json),
        cmocka_unit_test(a_call_names_a_tool_and_its_arguments_fit),
        cmocka_unit_test(an_answer_is_allowed_only_where_the_request_allows_it),
        cmocka_unit_test(a_tool_that_is_not_strict_is_followed_as_far_as_possible),
        cmocka_unit_test(a_malformed_constraint_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
