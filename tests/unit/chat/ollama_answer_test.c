/* The answers of POST /api/chat and POST /api/generate, as a client sees them: lines of JSON,
 * and the same answer however the tokens are split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "chat/response.h"
#include "chat/turn.h"
#include "dialects.h"

struct session {
    struct lr_arena arena;
    struct lr_buf out;
    struct chat_response *r;
};

static void open_session(struct session *s, const struct chat_codec *codec, const char *members,
                         size_t max_bytes)
{
    static char body[4096];
    const struct chat_request *req;
    struct chat_error e;
    *s = (struct session){0};
    lr_arena_init(&s->arena, 64 << 20);
    lr_buf_init(&s->out, 16 << 20);
    snprintf(body, sizeof(body), "{\"model\":\"m\"%s}", members);
    if (chat_request_parse(&s->arena, codec, lr_str_z(body), &req, &e) != LR_OK)
        fail_msg("%s: %s", e.param, e.error.text);
    struct chat_dialect dialect = dialect_of(GRAMMAR_HARMONY);
    struct chat_response_options o = {.request = req,
                                      .id = LR_STR_LIT("ol-1"),
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

/* Feeds text in which <|name|> is a control token.  Other text is split after every `step`
 * bytes. */
static void feed(struct session *s, const char *text, size_t step)
{
    for (const char *p = text; *p != '\0';) {
        const char *close = strncmp(p, "<|", 2) == 0 ? strstr(p, "|>") : NULL;
        size_t n = close != NULL ? (size_t)(close + 2 - p) : strcspn(p + 1, "<") + 1;
        if (close == NULL && n > step)
            n = step;
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

/* Makes the ids of calls and the durations equal. */
static const char *plain(struct session *s)
{
    static char text[8192];
    const char *from = lr_buf_z(&s->out);
    char *to = text;
    assert_true(strlen(from) < sizeof(text));
    while (*from != '\0') {
        bool is_duration = strncmp(from, "_duration\":", 11) == 0;
        if (strncmp(from, "\"call_", 6) == 0) {
            from += 30;
            to += sprintf(to, "\"ID");
        } else if (is_duration) {
            from += 11;
            from += strspn(from, "0123456789");
            to += sprintf(to, "_duration\":N");
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return text;
}

#define MESSAGES    ",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
#define ONE         ",\"stream\":false"
#define THINK(text) "<|channel|>analysis<|message|>" text "<|end|>"
#define NEXT        "<|start|>assistant"
#define FINAL(text) "<|channel|>final<|message|>" text "<|return|>"
#define CALL(name, arguments)                                                                  \
    "<|channel|>commentary to=functions." name " <|constrain|>json<|message|>" arguments       \
    "<|call|>"
#define HEAD "{\"model\":\"m\",\"created_at\":\"1970-01-01T00:00:07.000Z\","
#define FIGURES(reason)                                                                        \
    ",\"done\":true,\"done_reason\":\"" reason                                                 \
    "\",\"total_duration\":N,\"load_duration\":N,\"prompt_eval_count\":10,"                    \
    "\"prompt_eval_duration\":N,\"eval_count\":5,\"eval_duration\":N}"
#define SAID(content) HEAD "\"message\":{\"role\":\"assistant\",\"content\":" content "}"
#define MADE(index, name, arguments)                                                           \
    "{\"id\":\"ID\",\"function\":{\"index\":" index ",\"name\":\"" name                        \
    "\",\"arguments\":" arguments "}}"

static void expect(const struct chat_codec *codec, const char *members, const char *text,
                   enum lr_finish reason, const char *wanted)
{
    struct session s;
    open_session(&s, codec, members, 0);
    feed(&s, text, SIZE_MAX);
    done(&s, reason);
    assert_string_equal(plain(&s), wanted);
    close_session(&s);
}

static void an_answer_has_a_message_a_reason_and_figures(void **state)
{
    (void)state;
    const struct chat_codec *chat = &chat_ollama_chat, *generate = &chat_ollama_generate;
    expect(chat, MESSAGES ONE, THINK("A") NEXT FINAL("B"), LR_FINISH_STOP,
           SAID("\"B\",\"thinking\":\"A\"") FIGURES("stop"));
    expect(chat, MESSAGES ONE, FINAL("B"), LR_FINISH_LENGTH, SAID("\"B\"") FIGURES("length"));
    expect(chat, MESSAGES ONE, CALL("f", "{\"a\":\n 1}") NEXT CALL("g", ""), LR_FINISH_STOP,
           SAID("\"\",\"tool_calls\":[" MADE("0", "f", "{\"a\":  1}") "," MADE(
               "1", "g", "{}") "]") FIGURES("stop"));
    /* a call that was cut */
    expect(chat, MESSAGES ONE,
           "<|channel|>commentary to=functions.f<|message|>{\"a\": ", LR_FINISH_LENGTH,
           SAID("\"\",\"tool_calls\":[" MADE(
               "0", "f", "{\"INVALID_JSON\":\"{\\\"a\\\": \"}") "]") FIGURES("length"));
    expect(generate, ",\"prompt\":\"x\"" ONE, THINK("A") NEXT FINAL("B"), LR_FINISH_STOP,
           HEAD "\"response\":\"B\",\"thinking\":\"A\"" FIGURES("stop"));
    expect(chat, MESSAGES ONE ",\"think\":false", THINK("A") NEXT FINAL("B"), LR_FINISH_STOP,
           SAID("\"B\"") FIGURES("stop"));
    expect(chat, ONE, "one", LR_FINISH_LENGTH,
           SAID("\"\"") ",\"done\":true,\"done_reason\":\"load\",\"total_duration\":N,"
                        "\"load_duration\":N}");
}

static void a_stream_is_one_line_for_each_piece_and_one_for_the_end(void **state)
{
    (void)state;
#define MORE ",\"done\":false}\n"
    expect(&chat_ollama_chat, MESSAGES,
           THINK("A") NEXT CALL("f", "{\"a\":\r\n1}") NEXT FINAL("B"), LR_FINISH_STOP,
           SAID("\"\",\"thinking\":\"A\"")
               MORE SAID("\"\",\"tool_calls\":[" MADE("0", "f", "{\"a\":  1}") "]")
                   MORE SAID("\"B\"") MORE SAID("\"\"") FIGURES("stop") "\n");
    expect(&chat_ollama_generate, ",\"prompt\":\"x\"", FINAL("B"), LR_FINISH_STOP,
           HEAD "\"response\":\"B\"" MORE HEAD "\"response\":\"\"" FIGURES("stop") "\n");
    expect(&chat_ollama_generate, "", "one", LR_FINISH_LENGTH,
           HEAD "\"response\":\"\",\"done\":true,\"done_reason\":\"load\",\"total_duration\":N,"
                "\"load_duration\":N}\n");
}

static void lines_are_json_however_tokens_are_split(void **state)
{
    (void)state;
    static const char text[] =
        THINK("Thought \xC3\xA9") NEXT CALL("f", "{\"city\":\n \"Z\xC3\xBCrich\"}")
            NEXT FINAL("I \xF0\x9F\x98\x80 look.");
    for (size_t step = 1; step < sizeof(text); step++) {
        struct session s;
        struct lr_str rest, line, part;
        struct lr_buf thinking, content;
        uint32_t calls = 0;
        lr_buf_init(&thinking, 4096);
        lr_buf_init(&content, 4096);
        open_session(&s, &chat_ollama_chat, MESSAGES, 0);
        feed(&s, text, step);
        done(&s, LR_FINISH_STOP);
        rest = lr_buf_str(&s.out);
        while (lr_str_split(&rest, '\n', &line) && line.len > 0) {
            const struct lr_json *root, *message, *made;
            assert_int_equal(lr_json_parse(&s.arena, line, NULL, &root, NULL), LR_OK);
            message = lr_json_get(root, "message");
            if (lr_json_str(lr_json_get(message, "content"), &part))
                lr_buf_add_str(&content, part);
            if (lr_json_str(lr_json_get(message, "thinking"), &part))
                lr_buf_add_str(&thinking, part);
            made = lr_json_get(message, "tool_calls");
            if (made == NULL)
                continue;
            const struct lr_json *function = lr_json_get(&made->items[0], "function");
            assert_true(
                lr_json_str(lr_json_get(lr_json_get(function, "arguments"), "city"), &part));
            assert_true(lr_str_eq_z(part, "Z\xC3\xBCrich"));
            calls++;
        }
        assert_int_equal(calls, 1);
        assert_string_equal(lr_buf_z(&thinking), "Thought \xC3\xA9");
        assert_string_equal(lr_buf_z(&content), "I \xF0\x9F\x98\x80 look.");
        lr_buf_free(&thinking);
        lr_buf_free(&content);
        close_session(&s);
    }
}

static void a_failure_in_the_middle_is_a_last_line_with_the_error(void **state)
{
    (void)state;
    struct session s;
    struct lr_error error;
    (void)lr_fail(&error, LR_UNAVAILABLE, "no node is left");
    open_session(&s, &chat_ollama_chat, MESSAGES, 0);
    feed(&s, "<|channel|>final<|message|>Half", SIZE_MAX);
    chat_response_on_error(s.r, &error, &s.out);
    assert_string_equal(plain(&s), SAID("\"Half\"") MORE "{\"error\":\"no node is left\"}\n");
    close_session(&s);
}

static void an_answer_past_the_ceiling_is_an_error_and_not_a_part_of_it(void **state)
{
    (void)state;
    struct session s;
    char words[500] = "";
    memset(words, 'x', sizeof(words) - 1);
    open_session(&s, &chat_ollama_chat, MESSAGES ONE, 400);
    feed(&s, "<|channel|>final<|message|>", SIZE_MAX);
    feed(&s, words, 9);
    done(&s, LR_FINISH_STOP);
    assert_int_equal(chat_response_status(s.r), LR_OUT_OF_RAM);
    assert_string_equal(lr_buf_z(&s.out), "{\"error\":\"the answer is larger than 400 bytes; "
                                          "ask for fewer tokens\"}");
    close_session(&s);
}

/* ---- a turn that only records its bytes ---- */

static lr_code start(void *owner, uint32_t index, struct lr_error *err)
{
    (void)owner;
    (void)index;
    (void)err;
    return LR_OK;
}

static bool stop(void *owner, uint32_t index, struct chat_usage *usage)
{
    (void)owner;
    (void)index;
    (void)usage;
    return false;
}

static lr_code write_piece(void *owner, struct lr_str bytes)
{
    lr_buf_add_str(owner, bytes);
    return LR_OK;
}

static void fail_turn(void *owner, const struct lr_error *err, struct lr_str bytes)
{
    (void)owner;
    (void)err;
    (void)bytes;
}

static void silence_is_white_space_before_the_next_line(void **state)
{
    static const struct chat_generator generator = {.start = start, .stop = stop};
    static const struct chat_sink sink = {.write = write_piece, .fail = fail_turn};
    struct chat_model model = {0};
    struct wire_token token = {.bytes = LR_STR_LIT("Hi")};
    struct chat_turn turn;
    struct lr_arena arena;
    struct lr_buf out;
    struct lr_str name;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&out, 1 << 20);
    chat_turn_init(&turn, &chat_ollama_chat, &arena, &generator, &sink, &out);
    assert_true(chat_turn_read(&turn, LR_STR_LIT("{\"model\":\"m\"" MESSAGES "}"), &name) &&
                chat_turn_parse(&turn) && chat_turn_prepare(&turn, &model, name) &&
                chat_turn_start(&turn));
    chat_turn_keep_alive(&turn);
    assert_string_equal(lr_buf_z(&out), " ");
    chat_turn_token(&turn, 0, &token);
    chat_turn_flush(&turn);
    assert_int_equal(strncmp(lr_buf_z(&out), " {\"model\":\"m\",", 14), 0);
    chat_turn_gone(&turn);
    lr_buf_free(&out);
    lr_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_has_a_message_a_reason_and_figures),
        cmocka_unit_test(a_stream_is_one_line_for_each_piece_and_one_for_the_end),
        cmocka_unit_test(lines_are_json_however_tokens_are_split),
        cmocka_unit_test(a_failure_in_the_middle_is_a_last_line_with_the_error),
        cmocka_unit_test(an_answer_past_the_ceiling_is_an_error_and_not_a_part_of_it),
        cmocka_unit_test(silence_is_white_space_before_the_next_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
