/* Answers of models that write their calls in a form of grammar/calls.h: what is legal, and
 * that masks say the same. */
#include "grammar_test.h"
#include "llm-router/engine.h"

#define TOOLS                                                                                  \
    "\"tools\":[{\"name\":\"get\",\"strict\":true,\"schema\":{\"type\":\"object\","            \
    "\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}},{\"name\":"          \
    "\"get_all\",\"strict\":false}]"
#define CONSTRAINT(format, answer)                                                             \
    "{\"format\":\"" format "\",\"answer\":\"" answer "\"," TOOLS "}"
#define ONE_CALL(format, answer)                                                               \
    "{\"format\":\"" format "\",\"answer\":\"" answer "\"," TOOLS ",\"one_call\":true}"

/* <|name|>, and with `tags` also the tags, stand for control tokens; the answer ends with the
 * stop token. */
static bool plays(const char *constraint, const char *output, bool tags)
{
    static const char *const controls[] = {"<tool_call>", "</tool_call>", "<|python_tag|>"};
    struct lr_error err = {0};
    struct grammar_program *program = compile_text(constraint, &err);
    if (program == NULL)
        fail_msg("%s: %s", constraint, err.text);
    struct grammar_matcher *m = matcher_of(program);
    bool ok = true;
    for (const char *at = output; ok && *at != '\0';) {
        size_t len = 1;
        bool control = false;
        for (size_t i = tags ? 0 : 2; i < 3 && !control; i++)
            if (lr_str_starts(lr_str_z(at), controls[i])) {
                control = true;
                len = strlen(controls[i]);
            }
        ok = grammar_matcher_bytes(m, lr_str(at, len), control);
        at += len;
    }
    ok = ok && grammar_matcher_bytes(m, LR_STR_LIT("the stop token"), true) &&
         grammar_matcher_is_complete(m);
    grammar_matcher_free(m);
    grammar_program_free(program);
    return ok;
}

static void expect(const char *constraint, bool wanted, const char *const *outputs,
                   size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (int tags = 0; tags < 2; tags++)
            if (plays(constraint, outputs[i], tags != 0) != wanted)
                fail_msg("%s: %s%s: %s", constraint, wanted ? "refused" : "taken",
                         tags ? " with tags that are control tokens" : "", outputs[i]);
}

#define EXPECT(constraint, wanted, list)                                                       \
    expect(constraint, wanted, list, sizeof(list) / sizeof((list)[0]))

#define CALL(json) "<tool_call>\n" json "\n</tool_call>"
#define GET1       "{\"name\": \"get\", \"arguments\": {\"n\": 1}}"
#define ALL        "{\"name\": \"get_all\", \"arguments\": {\"any\": []}}"

static void calls_between_tags_name_a_tool_and_their_arguments_fit(void **state)
{
    static const char *const calls[] = {
        CALL(GET1),
        CALL(ALL),
        "<tool_call>{\"name\":\"get\",\"arguments\":{\"n\":1}}</tool_call>",
        ("<tool_call> {\n  \"name\": \"get\",\n  \"arguments\": {\n    \"n\": 1\n  }\n} "
         "</tool_call>"),
    };
    static const char *const several[] = {CALL(GET1) "\n" CALL(ALL),
                                          CALL(GET1) CALL(GET1) CALL(GET1)};
    static const char *const bad[] = {
        CALL("{\"name\": \"get\", \"arguments\": {}}"),
        CALL("{\"name\": \"get\", \"arguments\": {\"n\": \"1\"}}"),
        CALL("{\"name\": \"other\", \"arguments\": {}}"),
        CALL("{\"name\": \"get\", \"parameters\": {\"n\": 1}}"),
        CALL("{\"name\": \"get\"}"),
        CALL("[]"),
        "<tool_call>\n" GET1,
        "<tool_call>\n" GET1 "\n</tool_call>\nDone.",
        "<tool_call>",
    };
    (void)state;
    EXPECT(CONSTRAINT("hermes", "none"), true, calls);
    EXPECT(CONSTRAINT("hermes", "text"), true, calls);
    EXPECT(CONSTRAINT("hermes", "object"), true, calls);
    EXPECT(ONE_CALL("hermes", "none"), true, calls);
    EXPECT(CONSTRAINT("hermes", "none"), true, several);
    EXPECT(ONE_CALL("hermes", "none"), false, several);
    EXPECT(ONE_CALL("hermes", "text"), false, several);
    EXPECT(CONSTRAINT("hermes", "none"), false, bad);
    EXPECT(CONSTRAINT("hermes", "text"), false, bad);
    EXPECT(CONSTRAINT("hermes", "object"), false, bad);
}

static void text_is_free_until_a_call_begins(void **state)
{
    static const char *const texts[] = {
        "",
        "Hello",
        "a < b, <tool>, <tool_cal, <<tool_call, tool_call>, </tool_call>",
        "{\"a\": 1}",
        "\xE6\x97\xA5",
        "\n\n"};
    static const char *const then_calls[] = {"I look. " CALL(GET1),
                                             "<<tool_call>" GET1 "</tool_call>"};
    static const char *const bad[] = {"I look. " CALL("{\"name\": \"get\", \"arguments\": {}}"),
                                      "Write <tool_call> for a call.", "<<tool_call>"};
    (void)state;
    expect(CONSTRAINT("hermes", "none"), false, texts, 5);
    EXPECT(CONSTRAINT("hermes", "none"), false, then_calls);
    expect(CONSTRAINT("hermes", "text"), true, texts, 2);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_true(plays(CONSTRAINT("hermes", "text"), texts[i], false));
    EXPECT(CONSTRAINT("hermes", "text"), true, then_calls);
    EXPECT(CONSTRAINT("hermes", "text"), false, bad);
    EXPECT(CONSTRAINT("hermes", "object"), false, then_calls);
    assert_true(plays(CONSTRAINT("hermes", "object"), "{\"a\": 1}", false));
}

#define SET1 "{\"name\": \"get\", \"parameters\": {\"n\": 1}}"

static void an_object_that_begins_the_answer_is_a_call_of_llama_3(void **state)
{
    static const char *const calls[] = {
        SET1,
        "<|python_tag|>" SET1,
        "{\"name\":\"get_all\",\"parameters\":{}}",
    };
    static const char *const several[] = {SET1 "; " SET1, SET1 ";" SET1};
    static const char *const bad[] = {
        "{\"name\": \"get\", \"parameters\": {}}",
        "{\"name\": \"other\", \"parameters\": {}}",
        "{\"name\": \"get\", \"arguments\": {\"n\": 1}}",
        "{\"a\": {\"n\": 1}}",
        SET1 " Done.",
        "<|python_tag|>print(1)",
        "<|python_tag|>",
        "{",
    };
    static const char *const texts[] = {"", "Hello", "\n\n", " a", "a {", "I call " SET1 "!"};
    (void)state;
    EXPECT(CONSTRAINT("llama3", "none"), true, calls);
    EXPECT(CONSTRAINT("llama3", "text"), true, calls);
    EXPECT(CONSTRAINT("llama3", "none"), true, several);
    EXPECT(ONE_CALL("llama3", "none"), false, several);
    EXPECT(CONSTRAINT("llama3", "none"), false, bad);
    EXPECT(CONSTRAINT("llama3", "text"), false, bad);
    EXPECT(CONSTRAINT("llama3", "none"), false, texts);
    EXPECT(CONSTRAINT("llama3", "text"), true, texts);
    assert_true(plays(CONSTRAINT("llama3", "text"), "\n " SET1, false));
    assert_true(plays(CONSTRAINT("llama3", "object"), "{\"a\": 1}", false));
    assert_true(plays(CONSTRAINT("llama3", "object"), SET1, false));
}

/* ---- masks ---- */

static const char *const words[] = {
    "<tool_call>", "</tool_call>", "<tool",        "_call>",        "_call",       ">\n",
    ">",           " <",           "<tool_call>{", ">{\"",          "{\"",         "{\n",
    " {\"",        "name",         "\": \"",       "get",           "_all",        "\",",
    " \"",         "parameters",   "arguments",    "\":",           " {}",         "}}",
    "}\n</",       "; {",          "Hello",        " <tool_call>x", "\n\n{\"name", "l>",
};
enum { BYTES = 256, WORDS = sizeof(words) / sizeof(words[0]), CONTROLS = 4 };
enum { VOCAB = BYTES + WORDS + CONTROLS, MASK = (VOCAB + 31) / 32 };

static bool token(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    static char all[BYTES];
    static const char *const controls[CONTROLS] = {"<|im_end|>", "<tool_call>", "</tool_call>",
                                                   "<|python_tag|>"};
    bool has_tags = *(bool *)ctx;
    *flags = 0;
    if (id < BYTES) {
        all[id] = (char)(unsigned char)id;
        *bytes = lr_str(&all[id], 1);
    } else if (id < BYTES + WORDS) {
        *bytes = lr_str_z(words[id - BYTES]);
    } else {
        id -= BYTES + WORDS;
        if (id >= (has_tags ? CONTROLS : 1))
            return false;
        *bytes = lr_str_z(controls[id]);
        *flags = LR_VOCAB_SPECIAL | (id == 0 ? LR_VOCAB_STOP : 0);
    }
    return true;
}

static struct grammar_matcher *after(const struct grammar_program *program,
                                     const struct grammar_vocab *vocab, const char *text)
{
    struct grammar_matcher *m;
    struct lr_error err;
    assert_int_equal(grammar_matcher_create(program, vocab, &m, &err), LR_OK);
    for (; *text != '\0'; text++)
        assert_true(grammar_matcher_token(m, (unsigned char)*text));
    return m;
}

static void compare(const struct grammar_program *program, const struct grammar_vocab *vocab,
                    const char *text, uint32_t size)
{
    uint32_t mask[MASK] = {0};
    struct lr_error err;
    struct grammar_matcher *m = after(program, vocab, text);
    assert_int_equal(grammar_matcher_mask(m, mask, MASK, &err), LR_OK);
    grammar_matcher_free(m);
    m = after(program, vocab, text);
    for (uint32_t id = 0; id < size; id++) {
        bool is_legal = grammar_matcher_token(m, id);
        if (is_legal != ((mask[id >> 5] >> (id & 31) & 1) != 0))
            fail_msg("after \"%s\": token %u is %s", text, id, is_legal ? "legal" : "illegal");
        if (is_legal) {
            grammar_matcher_free(m);
            m = after(program, vocab, text);
        }
    }
    grammar_matcher_free(m);
}

static void masks_hold_exactly_the_legal_tokens_where_a_call_may_begin(void **state)
{
    static const struct {
        const char *constraint, *texts[8];
    } cases[] = {
        {CONSTRAINT("hermes", "text"),
         {"", "Hi <", "Hi <tool_call", "<tool_call>", "<tool_call>\n{\"name\": \"get",
          "<tool_call>" GET1, CALL(GET1), "a<<tool"}},
        {CONSTRAINT("hermes", "none"), {"", "<tool_call>", CALL(GET1)}},
        {CONSTRAINT("hermes", "object"), {"", "{", "<"}},
        {CONSTRAINT("llama3", "text"), {"", "\n", " a", "\n{", SET1, SET1 ";"}},
        {ONE_CALL("llama3", "none"), {"", SET1}},
    };
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool has_tags = i == 1;
        const struct grammar_tokens tokens = {&has_tags, token};
        struct grammar_vocab *vocab;
        struct lr_error err;
        assert_int_equal(grammar_vocab_create(&tokens, &vocab, &err), LR_OK);
        for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
            struct grammar_program *program = compile_text(cases[k].constraint, &err);
            for (size_t t = 0; t < 8 && cases[k].texts[t] != NULL; t++)
                compare(program, vocab, cases[k].texts[t],
                        BYTES + WORDS + (has_tags ? CONTROLS : 1));
            grammar_program_free(program);
        }
        grammar_vocab_free(vocab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_between_tags_name_a_tool_and_their_arguments_fit),
        cmocka_unit_test(text_is_free_until_a_call_begins),
        cmocka_unit_test(an_object_that_begins_the_answer_is_a_call_of_llama_3),
        cmocka_unit_test(masks_hold_exactly_the_legal_tokens_where_a_call_may_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
