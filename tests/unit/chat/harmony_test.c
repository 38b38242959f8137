/* The Harmony parser.  Streams are written as text in which <|name|> is a control token; the
 * result is written as R(reasoning), C(content) and T(name:arguments), pieces of one kind
 * joined. */
#include "chat/harmony/parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/utf8.h"

struct result {
    struct lr_buf text;
    int kind; /* of the open piece; -1: none */
};

static void close_piece(struct result *r)
{
    if (r->kind >= 0)
        lr_buf_add_z(&r->text, ")");
    r->kind = -1;
}

static void on_delta(void *ctx, const struct chat_delta *d)
{
    struct result *r = ctx;
    assert_true(lr_utf8_valid(d->text));
    if (d->kind == CHAT_DELTA_TOOL_END) {
        close_piece(r);
        return;
    }
    bool is_same = (int)d->kind == r->kind;
    /* reasoning inside a call is shown in place */
    if (d->kind == CHAT_DELTA_TOOL_BEGIN) {
        close_piece(r);
        lr_buf_add_z(&r->text, "T(");
        lr_buf_add_str(&r->text, d->text);
        lr_buf_add_z(&r->text, ":");
        r->kind = CHAT_DELTA_TOOL_ARGUMENTS;
        return;
    }
    if (!is_same) {
        close_piece(r);
        lr_buf_add_z(&r->text, d->kind == CHAT_DELTA_REASONING ? "R("
                               : d->kind == CHAT_DELTA_CONTENT ? "C("
                                                               : "A(");
        r->kind = (int)d->kind;
    }
    lr_buf_add_str(&r->text, d->text);
}

/* Feeds a stream; text goes in pieces of at most `step` bytes. */
static void feed(struct chat_harmony *h, const char *stream, size_t step)
{
    const char *p = stream;
    while (*p != '\0') {
        const char *close = strncmp(p, "<|", 2) == 0 ? strstr(p, "|>") : NULL;
        if (close != NULL) {
            chat_harmony_token(h, lr_str(p, (size_t)(close + 2 - p)), true);
            p = close + 2;
            continue;
        }
        const char *next = strstr(p + 1, "<|");
        size_t n = next != NULL ? (size_t)(next - p) : strlen(p);
        n = n < step ? n : step;
        chat_harmony_token(h, lr_str(p, n), false);
        p += n;
    }
}

static char *parse(const char *stream, size_t step, const struct chat_harmony_options *options)
{
    struct result r = {.kind = -1};
    struct chat_harmony h;
    lr_buf_init(&r.text, 1 << 20);
    chat_harmony_init(&h, options, on_delta, &r);
    feed(&h, stream, step);
    chat_harmony_end(&h);
    close_piece(&r);
    char *copy = strdup(lr_buf_z(&r.text));
    lr_buf_free(&r.text);
    return copy;
}

static void expect(const char *stream, const char *wanted)
{
    for (size_t step = 1; step < 5000; step = step * 3 + (step == 1)) {
        char *got = parse(stream, step, NULL);
        if (strcmp(got, wanted) != 0)
            fail_msg("%s (in pieces of %zu)\n  gave   %s\n  wanted %s", stream, step, got,
                     wanted);
        free(got);
    }
}

#define CALL "T(f:{\"a\":1})"

static void the_canonical_shapes_are_read(void **state)
{
    (void)state;
    expect("<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final"
           "<|message|>Hello<|return|>",
           "R(Think.)C(Hello)");
    expect("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>",
           CALL);
    expect("<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant"
           "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>",
           "C(Let me look.)" CALL);
}

static void calls_are_found_wherever_the_recipient_stands(void **state)
{
    (void)state;
    expect("<|channel|>commentary to=functions.f<|constrain|>json<|message|>{\"a\":1}<|call|>",
           CALL);
    expect(" to=functions.f<|channel|>commentary <|constrain|>json<|message|>{\"a\":1}<|call|>",
           CALL);
    expect(" to=functions.f<|channel|>commentary json<|message|>{\"a\":1}<|call|>", CALL);
    expect(" to=functions.f<|channel|>commentary code<|message|>{\"a\":1}<|call|>", CALL);
    expect("<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|>", CALL);
    expect("<|channel|>analysis to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>",
           CALL);
    expect("<|channel|>final to=functions.f<|message|>{\"a\":1}<|call|>", CALL);
    expect("<|channel|>commentary to=f<|message|>{\"a\":1}<|call|>", CALL);
    expect("<|channel|>commentary to=functions.a.b-c_d<|message|>{}<|call|>", "T(a.b-c_d:{})");
    expect("<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{\"a\":1}"
           "<|call|>",
           CALL);
    expect("<|channel|>commentary 2? to=functions.f<|message|>{\"a\":1}<|call|>", CALL);
    expect("commentary to=functions.f<|message|>{\"a\":1}<|call|>", CALL);
}

static void a_tool_name_never_holds_control_text(void **state)
{
    (void)state;
    expect("<|channel|>commentary to=functions.f<|channel|>commentary<|message|>{\"a\":1}"
           "<|call|>",
           CALL);
    expect("<|channel|>commentary to=functions.f<|reserved_200017|><|message|>{\"a\":1}"
           "<|call|>",
           CALL);
    expect(
        "<|channel|>commentary to=functions.f? <|constrain|>json<|message|>{\"a\":1}<|call|>",
        CALL);
}

static void structured_output_is_content(void **state)
{
    (void)state;
    expect("<|channel|>final <|constrain|>json<|message|>{\"a\":1}<|return|>", "C({\"a\":1})");
    expect("<|channel|>final<|constrain|>json<|message|>{\"a\":1}<|return|>", "C({\"a\":1})");
    expect("<|channel|>commentary json<|message|>{\"a\":1}<|end|>", "C({\"a\":1})");
}

static void a_second_channel_wins(void **state)
{
    (void)state;
    expect("<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm<|end|>"
           "<|start|>assistant<|channel|>final<|message|>Hi<|return|>",
           "R(Hm)C(Hi)");
}

static void a_missing_message_marker_costs_nothing(void **state)
{
    (void)state;
    expect("<|channel|>commentary Hello<|end|>", "C(Hello)");
    expect("<|channel|>final {\"a\":1}<|return|>", "C({\"a\":1})");
    expect("<|channel|>analysis I think<|end|><|start|>assistant<|channel|>final<|message|>Yes"
           "<|return|>",
           "R(I think)C(Yes)");
    expect("<|channel|>commentary to=functions.f {\"a\":1}<|call|>", CALL);
    expect("<|channel|>commentary to=functions.f json{\"a\":1}<|call|>", CALL);
    expect("<|channel|>commentary to=functions.f<|call|>", "T(f:{})");
    expect(
        "<|channel|>final The sky is blue because of it<|channel|>analysis<|message|>x<|end|>",
        "C(The sky is blue because of it)R(x)");
}

static void an_answer_without_header_is_content(void **state)
{
    (void)state;
    expect("I'm sorry, but I can't help with that.<|return|>",
           "C(I'm sorry, but I can't help with that.)");
    expect("No.<|end|><|start|>assistant<|channel|>analysis<|message|>Refused.<|end|>",
           "C(No.)R(Refused.)");
    expect("final answers are rare<|return|>", "C(final answers are rare)");
    expect("Yes", "C(Yes)");
    expect("\xE3\x81\xAF\xE3\x81\x84", "C(\xE3\x81\xAF\xE3\x81\x84)");
    expect("<|start|>assistant<|message|>Hi<|return|>", "C(Hi)");
    expect("<|message|>Hi<|return|>", "C(Hi)");
    expect("<|start|>assistant Well then<|end|>", "C(Well then)");
}

static void garbage_channels_are_read_by_their_letters(void **state)
{
    (void)state;
    expect("<|channel|>commentary?<|message|>Hi<|end|>", "C(Hi)");
    expect("<|channel|>commentary 2?<|message|>Hi<|end|>", "C(Hi)");
    expect("<|channel|>?\?<|message|>Hi<|end|>", "C(Hi)");
    expect("<|channel|>some free text<|message|>Hi<|end|>", "C(Hi)");
    expect("<|channel|><|message|>Hi<|end|>", "C(Hi)");
    expect("<|channel|>Analysis!<|message|>Hi<|end|>", "R(Hi)");
    expect("<|channel|>analysisassistant<|message|>Hi<|end|>", "R(Hi)");
}

static void doubled_tokens_change_nothing(void **state)
{
    (void)state;
    expect("<|channel|>final<|message|>Hi<|end|><|return|>", "C(Hi)");
    expect("<|channel|>final<|message|>Hi<|return|><|return|><|endoftext|>", "C(Hi)");
    expect("<|start|><|start|>assistant<|channel|>final<|message|>Hi<|end|>", "C(Hi)");
    expect("assistant<|channel|>final<|message|>Hi<|end|>", "C(Hi)");
    expect("<|start|>assistantassistant<|channel|>final<|message|>Hi<|end|>", "C(Hi)");
    expect("<|channel|>final<|message|><|message|>Hi<|end|>", "C(Hi)");
    expect("<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|>commentary", CALL);
    expect("<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|><|call|>", CALL);
}

static void an_open_message_ends_where_the_next_begins(void **state)
{
    (void)state;
    expect("<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Hi<|return|>",
           "R(Hm)C(Hi)");
    expect("<|channel|>analysis<|message|>Hm<|start|>assistant<|channel|>final<|message|>Hi",
           "R(Hm)C(Hi)");
}

static void words_before_the_arguments_are_reasoning(void **state)
{
    (void)state;
    expect("<|channel|>commentary to=functions.f<|message|>We call it: {\"a\":1}<|call|>",
           "T(f:)R(We call it: )A({\"a\":1})");
    expect("<|channel|>commentary to=functions.f<|message|>\n {\"a\":1}<|call|>", CALL);
    expect("<|channel|>commentary to=functions.f<|message|>not json<|call|>", "T(f:not json)");
    expect("<|channel|>commentary to=functions.f code<|message|>d = {1: 2}<|call|>",
           "T(f:d = {1: 2})");
    expect("<|channel|>commentary to=functions.f<|message|>[1]<|call|>", "T(f:[1])");
    expect("<|channel|>commentary to=functions.f<|message|> <|call|>", "T(f:{})");
}

static void calls_of_built_in_tools_that_were_not_offered_are_reasoning(void **state)
{
    (void)state;
    expect("<|channel|>analysis to=python code<|message|>print(1)<|call|>", "R(print(1))");
    expect("<|channel|>commentary to=browser.search<|message|>{}<|call|>", "R({})");
    expect("<|channel|>commentary to=functions.python<|message|>{}<|call|>", "T(python:{})");

    struct lr_str declared = LR_STR_LIT("python");
    struct chat_harmony_options with = {.builtin_tools = &declared, .builtin_tool_count = 1};
    char *got = parse("<|channel|>commentary to=python<|message|>{}<|call|>", 100, &with);
    assert_string_equal(got, "T(python:{})");
    free(got);

    struct chat_harmony_options none = {.no_tool_calls = true};
    got = parse("<|channel|>commentary to=functions.f<|message|>{}<|call|>", 100, &none);
    assert_string_equal(got, "R({})");
    free(got);
}

static void messages_of_other_roles_are_not_taken_for_the_assistants(void **state)
{
    (void)state;
    expect("<|channel|>final<|message|>Hi<|end|><|start|>user<|message|>And?<|end|>",
           "C(Hi)R(And?)");
    expect("<|start|>functions.f to=assistant<|channel|>commentary<|message|>20<|end|>",
           "R(20)");
    expect("<|channel|>commentary to=user<|message|>Hi<|end|>", "C(Hi)");
}

static void several_messages_of_a_kind_are_kept_apart(void **state)
{
    (void)state;
    expect("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis"
           "<|message|>b<|end|>",
           "R(a\nb)");
    expect("<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final"
           "<|message|>b<|end|>",
           "C(a\n\nb)");
    expect("<|channel|>commentary to=functions.f<|message|>{\"a\":1}<|call|><|start|>assistant"
           "<|channel|>commentary to=functions.g<|message|>{}<|call|>",
           CALL "T(g:{})");
}

static void text_between_messages_counts_only_at_the_end(void **state)
{
    (void)state;
    expect("<|channel|>analysis<|message|>a<|end|>noise<|start|>assistant<|channel|>final"
           "<|message|>b<|return|>",
           "R(a)C(b)");
    expect("<|channel|>analysis<|message|>a<|end|>The answer is 4.", "R(a)C(The answer is 4.)");
    expect("<|end|>only noise<|start|>", "C(only noise)");
}

static void a_stream_cut_in_a_header_gives_no_half_names(void **state)
{
    (void)state;
    expect("<|channel|>", "");
    expect("<|channel|>comm", "");
    expect("<|channel|>an", "");
    expect("<|channel|>commentary to=functions.ge", "");
    expect("<|channel|>commentary to=functions.f<|message|>{\"a", "T(f:{\"a)");
    expect("<|channel|>commentary to=functions.f<|message|>", "T(f:)");
    expect("<|channel|>analysis<|message|>a<|end|><|start|>assist", "R(a)");
}

static void a_header_without_end_becomes_text(void **state)
{
    (void)state;
    char stream[3000] = "<|channel|>final ";
    char wanted[3000] = "C(";
    for (int i = 0; i < 200; i++) {
        strcat(stream, "word, ");
        strcat(wanted, "word, ");
    }
    strcat(wanted, ")");
    expect(stream, wanted);
}

static void characters_survive_being_cut_and_bytes_that_are_none_are_marked(void **state)
{
    (void)state;
    expect("<|channel|>final<|message|>\xF0\x9F\x98\x80\xE6\x97\xA5<|end|>",
           "C(\xF0\x9F\x98\x80\xE6\x97\xA5)");
    expect("<|channel|>analysis<|message|>a\xF0\x9F<|end|><|start|>assistant<|channel|>final"
           "<|message|>\x98\x80<|end|>",
           "R(a\xEF\xBF\xBD)C(\xEF\xBF\xBD\xEF\xBF\xBD)");
}

static void letters_that_spell_a_control_token_are_letters(void **state)
{
    (void)state;
    struct result r = {.kind = -1};
    struct chat_harmony h;
    lr_buf_init(&r.text, 1 << 20);
    chat_harmony_init(&h, NULL, on_delta, &r);
    feed(&h, "<|channel|>final<|message|>", 99);
    chat_harmony_token(&h, LR_STR_LIT("<|end|>"), false);
    chat_harmony_token(&h, LR_STR_LIT("<|foreign|>"), true);
    chat_harmony_end(&h);
    assert_string_equal(lr_buf_z(&r.text), "C(<|end|>");
    lr_buf_free(&r.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_canonical_shapes_are_read),
        cmocka_unit_test(calls_are_found_wherever_the_recipient_stands),
        cmocka_unit_test(a_tool_name_never_holds_control_text),
        cmocka_unit_test(structured_output_is_content),
        cmocka_unit_test(a_second_channel_wins),
        cmocka_unit_test(a_missing_message_marker_costs_nothing),
        cmocka_unit_test(an_answer_without_header_is_content),
        cmocka_unit_test(garbage_channels_are_read_by_their_letters),
        cmocka_unit_test(doubled_tokens_change_nothing),
        cmocka_unit_test(an_open_message_ends_where_the_next_begins),
        cmocka_unit_test(words_before_the_arguments_are_reasoning),
        cmocka_unit_test(calls_of_built_in_tools_that_were_not_offered_are_reasoning),
        cmocka_unit_test(messages_of_other_roles_are_not_taken_for_the_assistants),
        cmocka_unit_test(several_messages_of_a_kind_are_kept_apart),
        cmocka_unit_test(text_between_messages_counts_only_at_the_end),
        cmocka_unit_test(a_stream_cut_in_a_header_gives_no_half_names),
        cmocka_unit_test(a_header_without_end_becomes_text),
        cmocka_unit_test(characters_survive_being_cut_and_bytes_that_are_none_are_marked),
        cmocka_unit_test(letters_that_spell_a_control_token_are_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
