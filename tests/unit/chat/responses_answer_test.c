/* The answers of POST /v1/responses, as a client sees them: items in order, named events with
 * numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "chat/response.h"
#include "dialects.h"

/* A client's session: a request, its response, and everything written so far. */
struct session {
    struct lr_arena arena;
    struct lr_buf out;
    struct chat_response *r;
};

static void open_session(struct session *s, const char *members, size_t max_bytes)
{
    static char body[4096];
    const struct chat_request *req;
    struct chat_error e;
    *s = (struct session){0};
    lr_arena_init(&s->arena, 16 << 20);
    lr_buf_init(&s->out, 16 << 20);
    snprintf(body, sizeof(body), "{\"model\":\"m\",\"input\":\"x\"%s}", members);
    if (chat_request_parse(&s->arena, &chat_responses, lr_str_z(body), &req, &e) != LR_OK)
        fail_msg("%s: %s", e.param, e.error.text);
    struct chat_dialect dialect = dialect_of(GRAMMAR_HARMONY);
    struct chat_response_options o = {.request = req,
                                      .id = LR_STR_LIT("resp_1"),
                                      .created = 7,
                                      .dialect = &dialect,
                                      .max_bytes = max_bytes};
    assert_int_equal(chat_response_create(&o, &s->r, NULL), LR_OK);
}

static void close_session(struct session *s)
{
    chat_response_destroy(s->r);
    lr_buf_free(&s->out);
    lr_arena_free(&s->arena);
}

/* Feeds text in which <|name|> is a control token; words are tokens. */
static void feed(struct session *s, const char *p)
{
    while (*p != '\0') {
        const char *close = strncmp(p, "<|", 2) == 0 ? strstr(p, "|>") : NULL;
        size_t n = close != NULL ? (size_t)(close + 2 - p) : 1 + strcspn(p + 1, " <");
        struct wire_token t = {.bytes = {p, n}, .special = close != NULL};
        if (!chat_response_on_token(s->r, 0, &t, &s->out))
            return;
        p += n;
    }
}

static void done(struct session *s, enum lr_finish reason)
{
    struct chat_usage usage = {.prompt_tokens = 10, .completion_tokens = 5, .cached_tokens = 8};
    chat_response_on_done(s->r, 0, reason, &usage, &s->out);
    assert_true(chat_response_is_complete(s->r));
}

/* The whole answer to `text`, as JSON. */
static const struct lr_json *answer(struct session *s, const char *members, const char *text,
                                    enum lr_finish reason)
{
    const struct lr_json *root = NULL;
    struct lr_error err;
    open_session(s, members, 0);
    feed(s, text);
    done(s, reason);
    if (lr_json_parse(&s->arena, lr_buf_str(&s->out), NULL, &root, &err) != LR_OK)
        fail_msg("%s: %s", err.text, lr_buf_z(&s->out));
    return root;
}

static struct lr_str text_of(const struct lr_json *object, const char *key)
{
    struct lr_str s = LR_STR_LIT("(none)");
    (void)lr_json_str(lr_json_get(object, key), &s);
    return s;
}

static void expect_text(const struct lr_json *object, const char *key, const char *wanted)
{
    struct lr_str s = text_of(object, key);
    if (!lr_str_eq_z(s, wanted))
        fail_msg("%s is \"%.*s\", not \"%s\"", key, (int)s.len, s.ptr, wanted);
}

/* Item i has that type and that text (of its part, its arguments or its input). */
static void expect_item(const struct lr_json *root, uint32_t i, const char *type,
                        const char *key, const char *wanted)
{
    const struct lr_json *output = lr_json_get(root, "output");
    assert_true(lr_json_is(output, LR_JSON_ARRAY) && output->count > i);
    const struct lr_json *item = &output->items[i];
    expect_text(item, "type", type);
    const struct lr_json *content = lr_json_get(item, "content");
    if (content != NULL) {
        assert_int_equal(content->count, 1);
        item = &content->items[0];
    }
    expect_text(item, key, wanted);
}

#define THINK(text) "<|channel|>analysis<|message|>" text "<|end|>"
#define NEXT        "<|start|>assistant"
#define FINAL(text) "<|channel|>final<|message|>" text "<|return|>"
#define SAY(text)   "<|channel|>commentary<|message|>" text "<|end|>"
#define CALL(name, arguments)                                                                  \
    "<|channel|>commentary to=functions." name " <|constrain|>json<|message|>" arguments       \
    "<|call|>"

static void items_stand_in_the_order_of_the_model(void **state)
{
    (void)state;
    struct session s;
    const struct lr_json *root =
        answer(&s, "", THINK("A B") NEXT SAY("I look.") NEXT THINK("C") NEXT FINAL("D"),
               LR_FINISH_STOP);
    expect_text(root, "id", "resp_1");
    expect_text(root, "object", "response");
    expect_text(root, "status", "completed");
    assert_int_equal(lr_json_get(root, "output")->count, 4);
    expect_item(root, 0, "reasoning", "text", "A B");
    expect_item(root, 1, "message", "text", "I look.");
    expect_item(root, 2, "reasoning", "text", "C"); /* without the separating newline */
    expect_item(root, 3, "message", "text", "D");
    uint64_t n;
    const struct lr_json *usage = lr_json_get(root, "usage");
    assert_true(lr_json_u64(lr_json_get(usage, "input_tokens"), &n) && n == 10);
    assert_true(lr_json_u64(lr_json_get(usage, "output_tokens"), &n) && n == 5);
    assert_true(lr_json_u64(lr_json_get(usage, "total_tokens"), &n) && n == 15);
    assert_true(
        lr_json_u64(lr_json_get(lr_json_get(usage, "input_tokens_details"), "cached_tokens"),
                    &n) &&
        n == 8);
    close_session(&s);
}

static void the_answer_repeats_what_was_asked_and_says_that_nothing_is_stored(void **state)
{
    (void)state;
    struct session s;
    bool flag;
    const struct lr_json *root =
        answer(&s,
               ",\"instructions\":\"I\",\"metadata\":{\"a\":\"b\"},\"store\":true,\"text\":{"
               "\"format\":{\"type\":\"json_object\"}},\"reasoning\":{\"effort\":\"low\"}",
               FINAL("{}"), LR_FINISH_STOP);
    expect_text(root, "instructions", "I");
    expect_text(lr_json_get(root, "metadata"), "a", "b");
    expect_text(lr_json_get(lr_json_get(root, "text"), "format"), "type", "json_object");
    expect_text(lr_json_get(root, "reasoning"), "effort", "low");
    expect_text(root, "tool_choice", "auto");
    assert_true(lr_json_bool(lr_json_get(root, "store"), &flag) && !flag);
    close_session(&s);
}

#define CUSTOM ",\"tools\":[{\"type\":\"custom\",\"name\":\"patch\"}]"

static void the_text_for_a_custom_tool_comes_out_of_its_wrapping(void **state)
{
    (void)state;
    static const struct {
        const char *said, *input;
        enum lr_finish reason;
    } rows[] = {
        {"{\"input\": \"a\\n\\\"b\\\"\"}", "a\n\"b\"", LR_FINISH_STOP},
        {"{\"input\": \"a b", "a b", LR_FINISH_LENGTH},
        {"{\"input\": \"a \\ud83d\\ude", "a ", LR_FINISH_LENGTH},
        {"{\"input\": ", "{\"input\": ", LR_FINISH_LENGTH},
        {"{\"other\": 1}", "{\"other\": 1}", LR_FINISH_STOP},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct session s;
        char text[256];
        bool is_whole = rows[i].reason == LR_FINISH_STOP;
        snprintf(text, sizeof(text), "<|channel|>commentary to=functions.patch <|message|>%s%s",
                 rows[i].said, is_whole ? "<|call|>" : "");
        const struct lr_json *root = answer(&s, CUSTOM, text, rows[i].reason);
        expect_item(root, 0, "custom_tool_call", "input", rows[i].input);
        expect_item(root, 0, "custom_tool_call", "status",
                    is_whole ? "completed" : "incomplete");
        expect_text(root, "status", is_whole ? "completed" : "incomplete");
        close_session(&s);
    }
}

static void an_answer_that_was_cut_is_incomplete_and_so_is_its_item(void **state)
{
    (void)state;
    struct session s;
    const struct lr_json *root =
        answer(&s, "", THINK("A") NEXT "<|channel|>final<|message|>Half of", LR_FINISH_LENGTH);
    expect_text(root, "status", "incomplete");
    expect_text(lr_json_get(root, "incomplete_details"), "reason", "max_output_tokens");
    expect_text(&lr_json_get(root, "output")->items[0], "status", "completed");
    expect_text(&lr_json_get(root, "output")->items[1], "status", "incomplete");
    close_session(&s);
}

static void malformed_answers_are_neither_empty_messages_nor_control_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "<|return|>",
        "<|channel|>",
        "<|channel|>final<|message|><|return|>",
        "<|start|>assistant<|start|><|channel|>final",
        "<|message|><|end|><|channel|>analysis<|message|><|end|>",
        "<|call|><|constrain|>json<|message|>",
        "to=functions.f<|message|>x<|channel|>y",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct session s;
        const struct lr_json *root = answer(&s, "", texts[i], LR_FINISH_STOP);
        const struct lr_json *output = lr_json_get(root, "output");
        assert_null(strstr(lr_buf_z(&s.out), "<|"));
        for (uint32_t k = 0; k < output->count; k++) {
            const struct lr_json *content = lr_json_get(&output->items[k], "content");
            if (content != NULL)
                assert_true(text_of(&content->items[0], "text").len > 0);
        }
        close_session(&s);
    }
}

/* Checks the names of the events (a letter for each word after the first) and their numbers. */
static void expect_events(struct session *s, const char *wanted)
{
    char names[2048] = "";
    unsigned count = 0;
    const char *p = lr_buf_z(&s->out);
    while (*p != '\0') {
        const struct lr_json *event;
        const char *end = strstr(p, "\n\n"), *data = strstr(p, "\ndata: ");
        assert_true(strncmp(p, "event: ", 7) == 0 && data != NULL && data < end);
        struct lr_str name = {p + 7, (size_t)(data - p) - 7};
        struct lr_str text = {data + 7, (size_t)(end - data) - 7};
        assert_int_equal(lr_json_parse(&s->arena, text, NULL, &event, NULL), LR_OK);
        assert_true(lr_str_eq(name, text_of(event, "type")));
        uint64_t number;
        assert_true(lr_json_u64(lr_json_get(event, "sequence_number"), &number));
        assert_int_equal(number, count++);
        size_t n = strlen(names), skip = lr_str_starts(name, "response.") ? 9 : 0;
        snprintf(names + n, sizeof(names) - n, "%s%.*s", n > 0 ? " " : "",
                 (int)(name.len - skip), name.ptr + skip);
        p = end + 2;
    }
    assert_string_equal(names, wanted);
}

static void a_stream_reports_every_item_from_added_to_done(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, ",\"stream\":true", 0);
    feed(&s, THINK("A") NEXT FINAL("B c"));
    done(&s, LR_FINISH_STOP);
    expect_events(&s, "created in_progress output_item.added content_part.added "
                      "reasoning_text.delta reasoning_text.done content_part.done "
                      "output_item.done output_item.added content_part.added "
                      "output_text.delta output_text.delta output_text.done "
                      "content_part.done output_item.done completed");
    close_session(&s);

    open_session(&s, ",\"stream\":true" CUSTOM, 0);
    feed(&s, CALL("f", "{\"a\": 1}") NEXT CALL("patch", "{\"input\": \"x y\"}"));
    done(&s, LR_FINISH_STOP);
    expect_events(&s, "created in_progress output_item.added function_call_arguments.delta "
                      "function_call_arguments.delta function_call_arguments.done "
                      "output_item.done output_item.added custom_tool_call_input.delta "
                      "custom_tool_call_input.done output_item.done completed");
    close_session(&s);

    open_session(&s, ",\"stream\":true", 0);
    feed(&s, "<|channel|>final<|message|>B");
    done(&s, LR_FINISH_LENGTH);
    expect_events(&s, "created in_progress output_item.added content_part.added "
                      "output_text.delta output_text.done content_part.done output_item.done "
                      "incomplete");
    close_session(&s);
}

static void a_failed_stream_reports_the_error_and_keeps_its_text(void **state)
{
    (void)state;
    struct session s;
    struct lr_error error;
    (void)lr_fail(&error, LR_UNAVAILABLE, "no node is left");
    open_session(&s, ",\"stream\":true", 0);
    feed(&s, "<|channel|>final<|message|>Half");
    chat_response_on_error(s.r, &error, &s.out);
    expect_events(&s, "created in_progress output_item.added content_part.added "
                      "output_text.delta error failed");
    const char *failed = strstr(lr_buf_z(&s.out), "event: response.failed");
    assert_non_null(strstr(failed, "\"status\":\"failed\",\"error\":{\"code\":\"server_error\","
                                   "\"message\":\"no node is left\"}"));
    assert_non_null(strstr(failed, "\"text\":\"Half\""));
    close_session(&s);

    open_session(&s, ",\"stream\":true", 0); /* also before the first token */
    chat_response_on_error(s.r, &error, &s.out);
    expect_events(&s, "created in_progress error failed");
    close_session(&s);
}

static void an_answer_past_the_ceiling_is_an_error_and_not_a_part_of_it(void **state)
{
    (void)state;
    struct session s;
    /* Many words that do not fit together, and a word that does not fit alone. */
    for (int i = 0; i < 4; i++) {
        char words[500] = "";
        for (size_t k = 0; k < sizeof(words) - 1; k++)
            words[k] = i < 2 && k % 10 == 9 ? ' ' : 'x';
        open_session(&s, i % 2 == 0 ? ",\"stream\":true" : "", 400);
        feed(&s, "<|channel|>final<|message|>");
        feed(&s, words);
        done(&s, LR_FINISH_STOP);
        assert_int_equal(chat_response_status(s.r), LR_OUT_OF_RAM);
        assert_non_null(strstr(lr_buf_z(&s.out), "larger than 400 bytes"));
        assert_null(strstr(lr_buf_z(&s.out), "\"status\":\"completed\",\"error\""));
        close_session(&s);
    }
}

static void log_probabilities_go_with_the_text_they_belong_to(void **state)
{
    (void)state;
    struct wire_alternative top = {1, -2, LR_STR_LIT("z")};
    struct wire_token tokens[] = {
        {.bytes = LR_STR_LIT("<|channel|>"), .special = true},
        {.bytes = LR_STR_LIT("final")},
        {.bytes = LR_STR_LIT("<|message|>"), .special = true},
        {.bytes = LR_STR_LIT("a"),
         .has_logprob = true,
         .logprob = -1,
         .top = {top},
         .top_count = 1},
        {.bytes = LR_STR_LIT("b"), .has_logprob = true, .logprob = -3},
    };
    for (int stream = 0; stream < 2; stream++) {
        struct session s;
        open_session(&s,
                     stream ? ",\"include\":[\"message.output_text.logprobs\"],\"stream\":true"
                            : ",\"include\":[\"message.output_text.logprobs\"]",
                     0);
        for (size_t i = 0; i < 5; i++)
            chat_response_on_token(s.r, 0, &tokens[i], &s.out);
        done(&s, LR_FINISH_STOP);
#define A                                                                                      \
    "{\"token\":\"a\",\"logprob\":-1,\"bytes\":[97],\"top_logprobs\":[{\"token\":\"z\","       \
    "\"logprob\":-2,\"bytes\":[122]}]}"
#define B "{\"token\":\"b\",\"logprob\":-3,\"bytes\":[98],\"top_logprobs\":[]}"
        assert_non_null(strstr(lr_buf_z(&s.out), "\"logprobs\":[" A "," B "],\"text\":\"ab\""));
        if (stream)
            assert_non_null(strstr(lr_buf_z(&s.out), "\"logprobs\":[" B "],\"delta\":\"b\""));
        close_session(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stand_in_the_order_of_the_model),
        cmocka_unit_test(the_answer_repeats_what_was_asked_and_says_that_nothing_is_stored),
        cmocka_unit_test(the_text_for_a_custom_tool_comes_out_of_its_wrapping),
        cmocka_unit_test(an_answer_that_was_cut_is_incomplete_and_so_is_its_item),
        cmocka_unit_test(malformed_answers_are_neither_empty_messages_nor_control_text),
        cmocka_unit_test(a_stream_reports_every_item_from_added_to_done),
        cmocka_unit_test(a_failed_stream_reports_the_error_and_keeps_its_text),
        cmocka_unit_test(an_answer_past_the_ceiling_is_an_error_and_not_a_part_of_it),
        cmocka_unit_test(log_probabilities_go_with_the_text_they_belong_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
