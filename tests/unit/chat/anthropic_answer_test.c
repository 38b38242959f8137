/* The answers of POST /v1/messages, as a client sees them: blocks in the model's order, named
 * events, and the same answer however the tokens are split. */
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
    lr_arena_init(&s->arena, 64 << 20);
    lr_buf_init(&s->out, 16 << 20);
    snprintf(body, sizeof(body),
             "{\"model\":\"m\",\"max_tokens\":5,\"thinking\":{\"type\":\"adaptive\"},"
             "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]%s}",
             members);
    if (chat_request_parse(&s->arena, &chat_anthropic, lr_str_z(body), &req, &e) != LR_OK)
        fail_msg("%s: %s", e.param, e.error.text);
    struct chat_dialect dialect = dialect_of(GRAMMAR_HARMONY);
    struct chat_response_options o = {.request = req,
                                      .id = LR_STR_LIT("msg_1"),
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

/* Feeds text in which <|name|> is a control token.  Other text is split at `at`, and after
 * every `step` bytes. */
static void feed_split(struct session *s, const char *text, size_t at, size_t step)
{
    const char *p = text;
    while (*p != '\0') {
        const char *close = strncmp(p, "<|", 2) == 0 ? strstr(p, "|>") : NULL;
        size_t n = close != NULL ? (size_t)(close + 2 - p) : strcspn(p + 1, "<") + 1;
        size_t begin = (size_t)(p - text);
        if (close == NULL && n > step)
            n = step;
        if (close == NULL && begin < at && at < begin + n)
            n = at - begin;
        struct wire_token t = {.bytes = {p, n}, .special = close != NULL};
        if (!chat_response_on_token(s->r, 0, &t, &s->out))
            return;
        p += n;
    }
}

static void feed(struct session *s, const char *text)
{
    feed_split(s, text, 0, SIZE_MAX);
}

static void done(struct session *s, enum lr_finish reason)
{
    struct chat_usage usage = {.prompt_tokens = 10, .completion_tokens = 5, .cached_tokens = 8};
    chat_response_on_done(s->r, 0, reason, &usage, &s->out);
    assert_true(chat_response_is_complete(s->r));
}

#define THINK(text) "<|channel|>analysis<|message|>" text "<|end|>"
#define NEXT        "<|start|>assistant"
#define FINAL(text) "<|channel|>final<|message|>" text "<|return|>"
#define SAY(text)   "<|channel|>commentary<|message|>" text "<|end|>"
#define CALL(name, arguments)                                                                  \
    "<|channel|>commentary to=functions." name " <|constrain|>json<|message|>" arguments       \
    "<|call|>"
#define USAGE                                                                                  \
    "\"usage\":{\"input_tokens\":2,\"cache_creation_input_tokens\":0,"                         \
    "\"cache_read_input_tokens\":8,\"output_tokens\":5}"
#define HEAD "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\","

/* The whole answer, with the ids of calls made equal. */
static void expect_answer(const char *members, const char *text, enum lr_finish reason,
                          const char *wanted)
{
    struct session s;
    open_session(&s, members, 0);
    feed(&s, text);
    done(&s, reason);
    (void)lr_buf_z(&s.out);
    for (char *p = s.out.data; (p = strstr(p, "\"toolu_")) != NULL; p++)
        memset(p + 7, '*', 24);
    /* Signatures are hashes of the thoughts. */
    for (char *p = s.out.data; (p = strstr(p, "\"signature\":\"")) != NULL; p++)
        if (p[13] != '"')
            memset(p + 13, '*', 64);
    assert_string_equal(lr_buf_z(&s.out), wanted);
    close_session(&s);
}

#define SIGNATURE                                                                              \
    "\"signature\":"                                                                           \
    "\"****************************************************************\""
#define ID "toolu_************************"

static void an_answer_has_blocks_a_reason_and_usage(void **state)
{
    (void)state;
    expect_answer(
        "", THINK("A B") NEXT SAY("I look.") NEXT THINK("C") NEXT FINAL("D"), LR_FINISH_STOP,
        HEAD "\"content\":[{\"type\":\"thinking\",\"thinking\":"
             "\"A B\"," SIGNATURE "},{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":"
             "\"thinking\",\"thinking\":\"C\"," SIGNATURE "},{\"type\":\"text\","
             "\"text\":\"D\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null," USAGE "}");
    expect_answer("", SAY("Hm") NEXT CALL("f", "{\"a\": 1}"), LR_FINISH_STOP,
                  HEAD "\"content\":[{\"type\":\"text\",\"text\":\"Hm\"},{\"type\":"
                       "\"tool_use\",\"id\":\"" ID "\",\"name\":\"f\",\"input\":{\"a\": 1}}],"
                       "\"stop_reason\":\"tool_use\",\"stop_sequence\":null," USAGE "}");
    expect_answer(
        "", CALL("f", ""), LR_FINISH_STOP,
        HEAD "\"content\":[{\"type\":\"tool_use\",\"id\":\"" ID "\",\"name\":\"f\","
             "\"input\":{}}],\"stop_reason\":\"tool_use\",\"stop_sequence\":null," USAGE "}");
    /* a call that was cut */
    expect_answer("",
                  "<|channel|>commentary to=functions.f<|message|>{\"a\": ", LR_FINISH_LENGTH,
                  HEAD "\"content\":[{\"type\":\"tool_use\",\"id\":\"" ID "\",\"name\":\"f\","
                       "\"input\":{\"INVALID_JSON\":\"{\\\"a\\\": \"}}],\"stop_reason\":"
                       "\"max_tokens\",\"stop_sequence\":null," USAGE "}");
    /* nothing at all */
    expect_answer(
        "", "<|return|>", LR_FINISH_STOP,
        HEAD "\"content\":[],\"stop_reason\":\"end_turn\",\"stop_sequence\":null," USAGE "}");
}

static void a_stream_begins_with_the_size_of_the_prompt(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, ",\"stream\":true", 0);
    chat_response_on_prompt(s.r, 0, 10);
    chat_response_on_prompt(s.r, 0, 14); /* a continuation on another node computes more */
    feed(&s, FINAL("a"));
    done(&s, LR_FINISH_STOP);
    assert_non_null(strstr(lr_buf_z(&s.out), "\"stop_sequence\":null,\"usage\":{"
                                             "\"input_tokens\":10,"));
    assert_non_null(strstr(lr_buf_z(&s.out), "}," USAGE));
    close_session(&s);
}

static void the_reason_of_the_end_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *members, *text;
        enum lr_finish reason;
        const char *wanted;
    } rows[] = {
        {"", FINAL("a"), LR_FINISH_STOP, "\"end_turn\",\"stop_sequence\":null"},
        {"", FINAL("a"), LR_FINISH_LENGTH, "\"max_tokens\",\"stop_sequence\":null"},
        {",\"stop_sequences\":[\"zz\",\"b\"]", FINAL("abc"), LR_FINISH_STOP,
         "\"stop_sequence\",\"stop_sequence\":\"b\""},
        {",\"stop_sequences\":[\"cd\",\"bcd\"]", FINAL("abcd"), LR_FINISH_STOP,
         "\"stop_sequence\",\"stop_sequence\":\"bcd\""},
        {"", CALL("f", "{}"), LR_FINISH_STOP, "\"tool_use\",\"stop_sequence\":null"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int stream = 0; stream < 2; stream++) {
            struct session s;
            char members[256], wanted[128];
            snprintf(members, sizeof(members), "%s%s", rows[i].members,
                     stream ? ",\"stream\":true" : "");
            open_session(&s, members, 0);
            feed_split(&s, rows[i].text, 0, 1);
            done(&s, rows[i].reason);
            snprintf(wanted, sizeof(wanted), "\"stop_reason\":%s", rows[i].wanted);
            if (strstr(lr_buf_z(&s.out), wanted) == NULL)
                fail_msg("%s lacks %s", lr_buf_z(&s.out), wanted);
            close_session(&s);
        }
    }
    /* Fewer tokens than the client allows: the context is full. */
    struct session s;
    struct chat_usage usage = {.prompt_tokens = 10, .completion_tokens = 4};
    open_session(&s, "", 0);
    feed(&s, FINAL("a"));
    chat_response_on_done(s.r, 0, LR_FINISH_LENGTH, &usage, &s.out);
    assert_non_null(strstr(lr_buf_z(&s.out), "\"model_context_window_exceeded\""));
    close_session(&s);
}

static void reasoning_that_nobody_asked_for_is_hidden(void **state)
{
    (void)state;
    struct lr_arena arena;
    const struct chat_request *req;
    struct chat_error e;
    struct session s = {0};
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&s.out, 1 << 20);
    assert_int_equal(
        chat_request_parse(&arena, &chat_anthropic,
                           LR_STR_LIT("{\"model\":\"m\",\"messages\":[{\"role\":\"user\","
                                      "\"content\":\"x\"}]}"),
                           &req, &e),
        LR_OK);
    struct chat_dialect dialect = dialect_of(GRAMMAR_HARMONY);
    struct chat_response_options o = {
        .request = req, .id = LR_STR_LIT("msg_1"), .dialect = &dialect};
    assert_int_equal(chat_response_create(&o, &s.r, NULL), LR_OK);
    feed(&s, THINK("secret") NEXT FINAL("D"));
    done(&s, LR_FINISH_STOP);
    assert_null(strstr(lr_buf_z(&s.out), "secret"));
    assert_non_null(
        strstr(lr_buf_z(&s.out), "\"content\":[{\"type\":\"text\",\"text\":\"D\"}]"));
    chat_response_destroy(s.r);
    lr_buf_free(&s.out);
    lr_arena_free(&arena);
}

static struct lr_str text_of(const struct lr_json *object, const char *key)
{
    struct lr_str s = {0};
    (void)lr_json_str(lr_json_get(object, key), &s);
    return s;
}

/* Reads a stream: the names of its events go to `names` (equal ones once), and every text of a
 * delta to `texts`, with '|' where a block ends. */
static void read_events(struct session *s, struct lr_buf *names, struct lr_buf *texts)
{
    const char *p = lr_buf_z(&s->out);
    struct lr_str last = {0};
    while (*p != '\0') {
        const struct lr_json *event;
        const char *end = strstr(p, "\n\n"), *data = strstr(p, "\ndata: ");
        assert_true(strncmp(p, "event: ", 7) == 0 && data != NULL && data < end);
        struct lr_str name = {p + 7, (size_t)(data - p) - 7};
        struct lr_str text = {data + 7, (size_t)(end - data) - 7};
        assert_int_equal(lr_json_parse(&s->arena, text, NULL, &event, NULL), LR_OK);
        assert_true(lr_str_eq(name, text_of(event, "type")));
        if (!lr_str_eq(name, last)) {
            lr_buf_add_str(names, name);
            lr_buf_add_char(names, ' ');
        }
        last = name;
        static const char *const members[] = {"thinking", "text", "partial_json"};
        for (size_t i = 0; i < 3; i++)
            lr_buf_add_str(texts, text_of(lr_json_get(event, "delta"), members[i]));
        if (lr_str_eq_z(name, "content_block_stop"))
            lr_buf_add_char(texts, '|');
        p = end + 2;
    }
}

#define BLOCK "content_block_start content_block_delta content_block_stop "

static void a_stream_is_the_same_however_its_tokens_are_split(void **state)
{
    (void)state;
    static const char text[] = THINK("Thought \xC3\xA9") NEXT SAY("I \xF0\x9F\x98\x80 look.")
        NEXT CALL("f", "{\"city\": \"Z\xC3\xBCrich\"}") NEXT FINAL("Done");
    /* At every place once, then everywhere. */
    for (size_t at = 0; at <= sizeof(text); at++) {
        struct session s;
        struct lr_buf names, texts;
        lr_buf_init(&names, 1 << 20);
        lr_buf_init(&texts, 1 << 20);
        open_session(&s, ",\"stream\":true", 0);
        feed_split(&s, text, at, at < sizeof(text) ? SIZE_MAX : 1);
        done(&s, LR_FINISH_STOP);
        read_events(&s, &names, &texts);
        assert_string_equal(lr_buf_z(&names), "message_start " BLOCK BLOCK BLOCK BLOCK
                                              "message_delta message_stop ");
        assert_string_equal(lr_buf_z(&texts), "Thought \xC3\xA9|I \xF0\x9F\x98\x80 look.|{"
                                              "\"city\": \"Z\xC3\xBCrich\"}|Done|");
        lr_buf_free(&names);
        lr_buf_free(&texts);
        close_session(&s);
    }
}

static void the_events_of_a_stream_in_full(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, ",\"stream\":true", 0);
    feed(&s, THINK("A") NEXT FINAL("B"));
    done(&s, LR_FINISH_STOP);
#define EVENT(name, rest) "event: " name "\ndata: {\"type\":\"" name "\"" rest "}\n\n"
    assert_string_equal(
        lr_buf_z(&s.out),
        EVENT("message_start",
              ",\"message\":" HEAD "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
              "\"usage\":{\"input_tokens\":0,\"cache_creation_input_tokens\":0,"
              "\"cache_read_input_tokens\":0,\"output_tokens\":0}}")
            EVENT("content_block_start",
                  ",\"index\":0,\"content_block\":{\"type\":\"thinking\","
                  "\"signature\":\"\",\"thinking\":\"\"}") EVENT("content_block_delta",
                                                                 ",\"index\":0,\"delta\":{"
                                                                 "\"type\":\"thinking_delta\","
                                                                 "\"thinking\":\"A\"}")
                EVENT("content_block_delta",
                      /* SHA-256 of "A" */
                      ",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":"
                      "\"559aead08264d5795d3909718cdd05abd49572e84fe55590eef31a88a08fdffd\"}")
                    EVENT("content_block_stop", ",\"index\":0") EVENT(
                        "content_block_start",
                        ",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}")
                        EVENT("content_block_delta",
                              ",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"B\"}")
                            EVENT("content_block_stop", ",\"index\":1") EVENT(
                                "message_delta", ",\"delta\":{\"stop_reason\":\"end_turn\","
                                                 "\"stop_sequence\":null}," USAGE)
                                EVENT("message_stop", ""));
    close_session(&s);
}

static void a_failure_in_the_middle_is_an_error_event(void **state)
{
    (void)state;
    struct session s;
    struct lr_error error;
    (void)lr_fail(&error, LR_UNAVAILABLE, "no node is left");
    open_session(&s, ",\"stream\":true", 0);
    feed(&s, "<|channel|>final<|message|>Half");
    chat_response_on_error(s.r, &error, &s.out);
    const char *failed = strstr(lr_buf_z(&s.out), "event: error");
    assert_non_null(failed);
    assert_string_equal(failed, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                                "\"overloaded_error\",\"message\":\"no node is left\"}}\n\n");
    close_session(&s);
}

static void an_answer_past_the_ceiling_is_an_error_and_not_a_part_of_it(void **state)
{
    (void)state;
    struct session s;
    char words[500] = "";
    memset(words, 'x', sizeof(words) - 1);
    open_session(&s, "", 400);
    feed(&s, "<|channel|>final<|message|>");
    feed_split(&s, words, 0, 9);
    done(&s, LR_FINISH_STOP);
    assert_int_equal(chat_response_status(s.r), LR_OUT_OF_RAM);
    assert_non_null(strstr(lr_buf_z(&s.out), "larger than 400 bytes"));
    assert_null(strstr(lr_buf_z(&s.out), "stop_reason"));
    close_session(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_has_blocks_a_reason_and_usage),
        cmocka_unit_test(a_stream_begins_with_the_size_of_the_prompt),
        cmocka_unit_test(the_reason_of_the_end_is_told),
        cmocka_unit_test(reasoning_that_nobody_asked_for_is_hidden),
        cmocka_unit_test(a_stream_is_the_same_however_its_tokens_are_split),
        cmocka_unit_test(the_events_of_a_stream_in_full),
        cmocka_unit_test(a_failure_in_the_middle_is_an_error_event),
        cmocka_unit_test(an_answer_past_the_ceiling_is_an_error_and_not_a_part_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
