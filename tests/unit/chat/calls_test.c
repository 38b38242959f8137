/* The output of models that do not speak Harmony: content, calls, and what only looks like one.
 * Every output is fed whole, byte by byte and in random pieces. */
#include "chat/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct chat_declared tools[] = {{.name = {"get", 3}}, {.name = {"get_all", 7}}};

/* The deltas as one text: content as it is, a call as [name|arguments], ~ and reasoning. */
struct reading {
    struct lr_buf said, thought;
    uint32_t open;   /* 1 + index of the open call */
    uint32_t pieces; /* of arguments */
};

static void take(void *ctx, const struct chat_delta *delta)
{
    struct reading *r = ctx;
    switch (delta->kind) {
    case CHAT_DELTA_REASONING:
        assert_int_equal(r->open, 0);
        lr_buf_add_str(&r->thought, delta->text);
        return;
    case CHAT_DELTA_CONTENT:
        assert_int_equal(r->open, 0);
        assert_true(delta->text.len != 0);
        break;
    case CHAT_DELTA_TOOL_BEGIN:
        assert_int_equal(r->open, 0);
        r->open = delta->tool_index + 1;
        lr_buf_addf(&r->said, "[" LR_STR_FMT "|", LR_STR_ARG(delta->text));
        return;
    case CHAT_DELTA_TOOL_ARGUMENTS:
        assert_int_equal(r->open, delta->tool_index + 1);
        r->pieces++;
        break;
    case CHAT_DELTA_TOOL_END:
        assert_int_equal(r->open, delta->tool_index + 1);
        r->open = 0;
        lr_buf_add_char(&r->said, ']');
        return;
    default:
        fail();
    }
    lr_buf_add_str(&r->said, delta->text);
}

static void open_reading(struct reading *r, struct chat_calls *p, enum grammar_format format,
                         uint32_t tool_count)
{
    struct chat_calls_options options = {.format = format,
                                         .tools = tools,
                                         .tool_count = tool_count,
                                         .thought = grammar_thought_of(format, LR_STR_LIT(""))};
    *r = (struct reading){0};
    lr_buf_init(&r->said, 1 << 20);
    lr_buf_init(&r->thought, 1 << 20);
    chat_calls_init(p, &options, take, r);
}

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = 20261116;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 11) % n);
}

enum { WHOLE, BYTES, RANDOM, SPLITS = RANDOM + 12 };

/* <|name|> is a control token. */
static void play(struct reading *r, enum grammar_format format, struct lr_str output, int split,
                 bool is_cut)
{
    struct chat_calls p;
    open_reading(r, &p, format, 2);
    for (size_t at = 0; at < output.len;) {
        struct lr_str rest = lr_str_sub(output, at, output.len);
        bool special = lr_str_starts(rest, "<|");
        size_t end = lr_str_find(rest, special ? LR_STR_LIT("|>") : LR_STR_LIT("<|"));
        size_t n = end == LR_STR_NONE ? rest.len : special ? end + 2 : end;
        if (!special && split == BYTES)
            n = 1;
        else if (!special && split != WHOLE)
            n = 1 + random_below((uint32_t)(n < 12 ? n : 12));
        chat_calls_token(&p, lr_str(rest.ptr, n), special);
        at += n;
    }
    chat_calls_end(&p, is_cut);
    assert_int_equal(r->open, 0);
    chat_calls_free(&p);
    if (r->thought.len != 0) {
        lr_buf_add_z(&r->said, "~");
        lr_buf_add_str(&r->said, lr_buf_str(&r->thought));
    }
    lr_buf_free(&r->thought);
}

static void expect_as(enum grammar_format format, const char *output, const char *wanted,
                      bool is_cut)
{
    for (int split = WHOLE; split < SPLITS; split++) {
        struct reading r;
        play(&r, format, lr_str_z(output), split, is_cut);
        if (strcmp(lr_buf_z(&r.said), wanted) != 0)
            fail_msg("split %d of %s\n gives  %s\n wanted %s", split, output, lr_buf_z(&r.said),
                     wanted);
        lr_buf_free(&r.said);
    }
}

static void expect(enum grammar_format format, const char *output, const char *wanted)
{
    expect_as(format, output, wanted, false);
}

#define CALL(json) "<tool_call>\n" json "\n</tool_call>"
#define GET1       "{\"name\": \"get\", \"arguments\": {\"n\": 1}}"

static void calls_between_tags_are_calls_and_text_before_them_is_content(void **state)
{
    static const struct {
        const char *output, *said;
    } cases[] = {
        {"Hello", "Hello"},
        {"", ""},
        {"a < b <tool> <tool_cal", "a < b <tool> <tool_cal"},
        {"<<tool_call>" GET1 "</tool_call>", "<[get|{\"n\": 1}]"},
        {CALL(GET1), "[get|{\"n\": 1}]"},
        {CALL(GET1) "<|im_end|>", "[get|{\"n\": 1}]"},
        {"\n\n" CALL(GET1) "\n", "[get|{\"n\": 1}]"},
        {"I look.\n" CALL(GET1), "I look.\n[get|{\"n\": 1}]"},
        {CALL(GET1) "\n" CALL(GET1), "[get|{\"n\": 1}][get|{\"n\": 1}]"},
        {CALL(GET1) "\nDone.", "[get|{\"n\": 1}]\nDone."},
        {"<tool_call>{\"name\":\"get_all\",\"arguments\":{}}</tool_call>", "[get_all|{}]"},
        {CALL("{\"arguments\": {\"n\": [1, {\"a\": \"}\\\"\"}]}, \"name\": \"get\"}"),
         "[get|{\"n\": [1, {\"a\": \"}\\\"\"}]}]"},
        {CALL("{\"name\": \"get\"}"), "[get|{}]"},
        {CALL("{\"type\": \"function\", \"name\": \"get\", \"parameters\": {}, \"id\": 7}"),
         "[get|{}]"},
        {CALL("{\"name\": \"get\", \"arguments\": {\"t\": \"</tool_call>\"}}"),
         "[get|{\"t\": \"</tool_call>\"}]"},
        /* the end of the call is missing, or there is too much of it */
        {"<tool_call>\n" GET1, "[get|{\"n\": 1}]"},
        {"<tool_call>\n" GET1 "</tool_c", "[get|{\"n\": 1}]"},
        {"<tool_call>\n" GET1 "\n<tool_call>\n" GET1, "[get|{\"n\": 1}][get|{\"n\": 1}]"},
        /* put right: a raw line break in a string, arguments as a string */
        {CALL("{\"name\": \"get\", \"arguments\": {\"n\": \"\n\"}}"), "[get|{\"n\": \"\\n\"}]"},
        {CALL("{\"name\": \"get\", \"arguments\": \"{\\\"n\\\": 1}\"}"), "[get|{\"n\": 1}]"},
        {"<tool_call>\n" GET1 " Done.", "[get|{\"n\": 1}]Done."},
        {CALL("{\"name\": \"get\", \"arguments\": {\"n\": 1}"), "[get|{\"n\": 1}]"},
        {CALL(GET1 "}"), "[get|{\"n\": 1}]"},
        {"\n \n", "\n \n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(GRAMMAR_HERMES, cases[i].output, cases[i].said);
}

static void what_is_no_call_is_content_and_nothing_is_lost(void **state)
{
    static const char *const outputs[] = {
        CALL("Hello"),
        CALL(""),
        CALL("[]"),
        CALL("{}"),
        CALL("{\"name\": \"other\", \"arguments\": {}}"),
        CALL("{\"name\": \"ge\", \"arguments\": {}}"),
        CALL("{\"name\": 7, \"arguments\": {}}"),
        CALL("{\"name\": \"get\", \"arguments\": []}"),
        CALL("{\"name\": \"get\", \"arguments\": \"{\"}"),
        CALL("{'name': 'get', 'arguments': {}}"),
        CALL("{\"name\": \"get\", \"arguments\": {\"n\": }}"),
        CALL("{\"name\": \"get\", \"arguments\": {\"n\": 01}}"),
        CALL("{\"name\": \"get\", \"arguments\": {\"n\": 1,}}"),
        CALL("{\"name\": \"get\", \"arguments\": {\"n\": \"\\x\"}}"),
        CALL("{\"name\": \"get\", \"city\": \"Oslo\"}"),
        CALL("{\"arguments\": {\"n\": 1}}"),
        CALL("{\"n\": {\"name\": \"get\", \"arguments\": {}}}"),
        CALL("{\"name\": \"get\", \"arguments\": {\"n\": {]}}"),
        "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"n\": 1",
        "<tool_call>",
        "<tool_call>\n<tool_call>",
        "</tool_call>",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
        expect(GRAMMAR_HERMES, outputs[i], outputs[i]);
    /* and a call after it is a call */
    expect(GRAMMAR_HERMES, CALL("Hello") CALL(GET1), CALL("Hello") "[get|{\"n\": 1}]");
    expect(GRAMMAR_HERMES, "<tool_call>" CALL(GET1), "<tool_call>[get|{\"n\": 1}]");
}

static void an_object_that_begins_the_answer_is_a_call_of_llama_3(void **state)
{
#define SET1 "{\"name\": \"get\", \"parameters\": {\"n\": 1}}"
    static const struct {
        const char *output, *said;
    } cases[] = {
        {SET1, "[get|{\"n\": 1}]"},
        {"\n" SET1 "<|eot_id|>", "[get|{\"n\": 1}]"},
        {"<|python_tag|>" SET1 "<|eom_id|>", "[get|{\"n\": 1}]"},
        {"<|python_tag|>print(1)", "print(1)"},
        {"{\"type\": \"function\", \"name\": \"get\", \"parameters\": {}}", "[get|{}]"},
        {"{\"name\": \"get\", \"arguments\": {}}", "[get|{}]"},
        {SET1 "; " SET1, "[get|{\"n\": 1}][get|{\"n\": 1}]"},
        {SET1 "\n" SET1, "[get|{\"n\": 1}][get|{\"n\": 1}]"},
        {SET1 "; and more", "[get|{\"n\": 1}]and more"},
        {SET1 " Done. " SET1, "[get|{\"n\": 1}]Done. " SET1},
        {"I call " SET1, "I call " SET1},
        {"Hello<|python_tag|>" SET1, "Hello" SET1},
        {"{\"a\": 1}", "{\"a\": 1}"},
        {"{\"name\": \"Ada\", \"parameters\": {}}", "{\"name\": \"Ada\", \"parameters\": {}}"},
        {"{\"name\": \"get\", \"parameters\": {\"n\": }}",
         "{\"name\": \"get\", \"parameters\": {\"n\": }}"},
        {"{", "{"},
        {CALL(GET1), CALL(GET1)},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(GRAMMAR_LLAMA3, cases[i].output, cases[i].said);
}

/* `count` times `piece` between two texts. */
static char *long_text(const char *before, const char *piece, size_t count, const char *after)
{
    size_t len = strlen(piece);
    char *text = malloc(strlen(before) + count * len + strlen(after) + 1);
    assert_non_null(text);
    char *at = stpcpy(text, before);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, piece);
    (void)stpcpy(at, after);
    return text;
}

static void expect_long(const char *before, const char *piece, size_t count, const char *after,
                        const char *said_before, const char *said_after)
{
    char *output = long_text(before, piece, count, after);
    char *said = long_text(said_before, piece, count, said_after);
    expect(GRAMMAR_HERMES, output, said);
    free(output);
    free(said);
}

static void a_long_call_is_sent_while_it_arrives(void **state)
{
    struct reading r;
    (void)state;
    char *output = long_text("<tool_call>\n{\"name\": \"get\", \"arguments\": {\"t\": \"",
                             "\xE6\x97\xA5", 400, "\"}}\n</tool_call>");
    play(&r, GRAMMAR_HERMES, lr_str_z(output), BYTES, false);
    assert_true(r.pieces > 300);
    lr_buf_free(&r.said);
    free(output);
    expect_long("<tool_call>\n{\"name\": \"get\", \"arguments\": {\"t\": \"", "\xE6\x97\xA5",
                400, "\"}}\n</tool_call>", "[get|{\"t\": \"", "\"}]");
    /* arguments that turn out not to be JSON stay arguments */
    expect_long("<tool_call>\n{\"name\": \"get\", \"arguments\": {\"t\": \"", "abc", 400,
                "\"</tool_cal</tool_call>x", "[get|{\"t\": \"", "\"</tool_cal]x");
    expect_long("<tool_call>\n{\"name\": \"get\", \"arguments\": {\"t\": \"", "abc", 400, "",
                "[get|{\"t\": \"", "]");
    /* the name comes last: as far as there is room */
    expect_long("<tool_call>\n{\"arguments\": {\"t\": \"", "abcd", 4000,
                "\"}, \"name\": \"get\"}\n</tool_call>", "[get|{\"t\": \"", "\"}]");
    expect_long("<tool_call>\n{\"arguments\": {\"t\": \"", "\xC3\xA4", 40000,
                "\"}, \"name\": \"get\"}\n</tool_call>",
                "<tool_call>\n{\"arguments\": {\"t\": \"",
                "\"}, \"name\": \"get\"}\n</tool_call>");
    expect_long("", "\n", 70000, "x", "", "x");
    expect_long("<tool_call>", " ", 70000, GET1, "<tool_call>", GET1);
}

static void a_call_that_max_tokens_cuts_is_a_call(void **state)
{
    static const char begun[] = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"n\": 1";
    static const char named[] = "<tool_call>\n{\"name\": \"get\"";
    (void)state;
    expect_as(GRAMMAR_HERMES, begun, "[get|{\"n\": 1]", true);
    expect_as(GRAMMAR_HERMES, named, named, true);
}

static void content_waits_only_where_a_call_may_begin(void **state)
{
    static const struct {
        const char *token, *said;
    } steps[] = {
        {"Hi ", "Hi "},
        {"you\n", "Hi you\n"},
        {"a <", "Hi you\na "},
        {"tool", "Hi you\na "},
        {"s>", "Hi you\na <tools>"},
        {"<tool_call>", "Hi you\na <tools>"},
    };
    struct reading r;
    struct chat_calls p;
    (void)state;
    open_reading(&r, &p, GRAMMAR_HERMES, 2);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        chat_calls_token(&p, lr_str_z(steps[i].token), false);
        assert_string_equal(lr_buf_z(&r.said), steps[i].said);
    }
    chat_calls_end(&p, false);
    assert_string_equal(lr_buf_z(&r.said), "Hi you\na <tools><tool_call>");
    chat_calls_free(&p);
    lr_buf_free(&r.said);
}

static void without_tools_or_a_form_all_text_is_content(void **state)
{
    static const char output[] = CALL(GET1);
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct reading r;
        struct chat_calls p;
        open_reading(&r, &p, i == 0 ? GRAMMAR_HERMES : GRAMMAR_PLAIN, i == 0 ? 0 : 2);
        chat_calls_token(&p, lr_str_z(output), false);
        chat_calls_token(&p, LR_STR_LIT("<|im_end|>"), true);
        chat_calls_end(&p, false);
        assert_string_equal(lr_buf_z(&r.said), output);
        chat_calls_free(&p);
        lr_buf_free(&r.said);
    }
}

/* Tags that are control tokens of a model count as text. */
static void tags_may_be_control_tokens(void **state)
{
    struct reading r;
    struct chat_calls p;
    (void)state;
    open_reading(&r, &p, GRAMMAR_HERMES, 2);
    chat_calls_token(&p, LR_STR_LIT("<tool_call>"), true);
    chat_calls_token(&p, LR_STR_LIT("\n" GET1 "\n"), false);
    chat_calls_token(&p, LR_STR_LIT("</tool_call>"), true);
    chat_calls_end(&p, false);
    assert_string_equal(lr_buf_z(&r.said), "[get|{\"n\": 1}]");
    chat_calls_free(&p);
    lr_buf_free(&r.said);
}

/* ---- random outputs ---- */

/* A mark of the form, or nothing. */
static void add_mark(enum grammar_format format, struct lr_buf *out)
{
    const struct grammar_form *f = grammar_form_of(format);
    const struct lr_str marks[] = {f->section,   f->section_end, f->begin,     f->end,
                                   f->name_end,  f->name_close,  f->key,       f->key_end,
                                   f->key_close, f->value,       f->value_end, f->id_mark};
    lr_buf_add_str(out, marks[random_below(sizeof(marks) / sizeof(marks[0]))]);
}

static void add_random(enum grammar_format format, struct lr_buf *out)
{
    static const char *const pieces[] = {
        "<tool_call>",
        "</tool_call>",
        "<|python_tag|>",
        "<think>",
        "</think>",
        "get",
        "get(n='x', t=[1, {'a': None}])",
        "<|\"|>",
        "\n",
        "{\"name\": ",
        "\"get\"",
        "\"get_all\"",
        ", ",
        "\"arguments\": ",
        "\"parameters\": ",
        "{\"n\": 1}",
        "{\"t\": \"",
        "\"}",
        "}",
        "{",
        "\"",
        "<",
        "\xE6\x97\xA5",
        "word ",
        "; ",
        "\\",
        "[1, -2.5e3, true]",
        "\xFF",
        "tool_call>",
        "\"name\"",
        "null",
        GET1,
        SET1,
        CALL(GET1),
        "{\"name\": \"get\", \"arguments\": ",
        "</tool_",
        "0123456789012345678901234567890123456789012345678901234567890123456789",
    };
    enum { COUNT = sizeof(pieces) / sizeof(pieces[0]) };
    for (uint32_t n = 1 + random_below(24); n > 0; n--) {
        if (random_below(2) == 0)
            add_mark(format, out);
        else
            lr_buf_add_z(out, pieces[random_below(COUNT)]);
    }
}

static void every_split_of_random_output_gives_the_same_answer(void **state)
{
    int count = getenv("LR_LONG") != NULL ? 100000 : 3000;
    struct lr_buf output;
    (void)state;
    lr_buf_init(&output, 1 << 20);
    for (int i = 0; i < count; i++) {
        enum grammar_format format =
            (enum grammar_format)(GRAMMAR_MUSE + i % (GRAMMAR_FORMAT_COUNT - 2));
        struct reading whole, other;
        bool is_cut = random_below(4) == 0;
        lr_buf_clear(&output);
        add_random(format, &output);
        play(&whole, format, lr_buf_str(&output), WHOLE, is_cut);
        for (int split = BYTES; split < BYTES + 3; split++) {
            play(&other, format, lr_buf_str(&output), split, is_cut);
            if (!lr_str_eq(lr_buf_str(&whole.said), lr_buf_str(&other.said)))
                fail_msg("%s\n whole %s\n split %s", lr_buf_z(&output), lr_buf_z(&whole.said),
                         lr_buf_z(&other.said));
            lr_buf_free(&other.said);
        }
        lr_buf_free(&whole.said);
    }
    lr_buf_free(&output);
}

/* ---- forms ---- */

static void the_format_is_recognized_from_the_template(void **state)
{
    static const struct {
        const char *chat_template;
        enum grammar_format format;
    } cases[] = {
        {"{{- '<tool_call>\\n{\"name\": \"' }}{{- c.name }}{{- '\", \"arguments\": ' }}",
         GRAMMAR_HERMES},
        {"{{- \"<tool_call>\\n{\\\"name\\\": x, \\\"arguments\\\": y}\\n</tool_call>\" }}",
         GRAMMAR_HERMES},
        {"<|start_header_id|>{{- '{\"name\": \"' + c.name + '\", ' }}{{- '\"parameters\": ' }}",
         GRAMMAR_LLAMA3},
        {"{{- '{\"tool_name\": \"' }}{{- '\", \"parameters\": ' }} \"name\"", GRAMMAR_PLAIN},
        {"<tool_call>\n<function=example> <parameter=n> \"name\" \"arguments\"",
         GRAMMAR_QWEN_XML},
        {"<tool_call>{name}\n<arg_key> <arg_value> \"name\" \"arguments\"", GRAMMAR_GLM},
        {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]", GRAMMAR_MISTRAL_JSON},
        {"[TOOL_CALLS]f[ARGS]{}", GRAMMAR_MISTRAL_ARGS},
        {"{{- '<|start|>' + m.role + '<|channel|>final<|message|>' }} \"name\"",
         GRAMMAR_HARMONY},
        {"{{- '<|start|>' }}{{- m.content }}", GRAMMAR_PLAIN},
        {"{{ m.content }}", GRAMMAR_PLAIN},
        {"", GRAMMAR_PLAIN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (grammar_format_of_template(lr_str_z(cases[i].chat_template)) != cases[i].format)
            fail_msg("%s", cases[i].chat_template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_between_tags_are_calls_and_text_before_them_is_content),
        cmocka_unit_test(what_is_no_call_is_content_and_nothing_is_lost),
        cmocka_unit_test(an_object_that_begins_the_answer_is_a_call_of_llama_3),
        cmocka_unit_test(a_long_call_is_sent_while_it_arrives),
        cmocka_unit_test(a_call_that_max_tokens_cuts_is_a_call),
        cmocka_unit_test(content_waits_only_where_a_call_may_begin),
        cmocka_unit_test(without_tools_or_a_form_all_text_is_content),
        cmocka_unit_test(tags_may_be_control_tokens),
        cmocka_unit_test(every_split_of_random_output_gives_the_same_answer),
        cmocka_unit_test(the_format_is_recognized_from_the_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
