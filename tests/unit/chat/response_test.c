/* The answers of the OpenAI codec, as a client sees them. */
#include "chat/response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "dialects.h"

/* A client's session: a request, its response, and everything written so far. */
struct session {
    struct lr_arena arena;
    struct lr_buf out;
    struct chat_response *r;
    size_t read; /* of out, by next_event */
    char event[4096];
};

static void open_session(struct session *s, const struct chat_codec *codec, const char *body,
                         bool harmony)
{
    const struct chat_request *req;
    struct chat_error e;

    *s = (struct session){0};
    lr_arena_init(&s->arena, 16 << 20);
    lr_buf_init(&s->out, 16 << 20);
    if (chat_request_parse(&s->arena, codec, lr_str_z(body), &req, &e) != LR_OK)
        fail_msg("%s: %s", e.param, e.error.text);
    struct chat_dialect dialect = dialect_of(GRAMMAR_HARMONY);
    struct chat_response_options o = {.request = req,
                                      .id = LR_STR_LIT("chatcmpl-1"),
                                      .system_fingerprint = LR_STR_LIT("fp"),
                                      .created = 7,
                                      .dialect = harmony ? &dialect : NULL};
    assert_int_equal(chat_response_create(&o, &s->r, NULL), LR_OK);
}

static void close_session(struct session *s)
{
    chat_response_destroy(s->r);
    lr_buf_free(&s->out);
    lr_arena_free(&s->arena);
}

/* Feeds text in which <|name|> is a control token and words are tokens.  False as soon as the
 * response asks to cancel. */
static bool feed(struct session *s, uint32_t choice, const char *p)
{
    while (*p != '\0') {
        const char *close = strncmp(p, "<|", 2) == 0 ? strstr(p, "|>") : NULL;
        size_t n = close != NULL ? (size_t)(close + 2 - p) : 1 + strcspn(p + 1, " <");
        struct wire_token t = {.bytes = {p, n}, .special = close != NULL};
        if (!chat_response_on_token(s->r, choice, &t, &s->out))
            return false;
        p += n;
    }
    return true;
}

static void done(struct session *s, uint32_t choice, enum lr_finish reason)
{
    struct chat_usage usage = {.prompt_tokens = 10, .completion_tokens = 5, .cached_tokens = 8};
    chat_response_on_done(s->r, choice, reason, &usage, &s->out);
}

/* The payload of the next SSE event, or NULL. */
static const char *next_event(struct session *s)
{
    const char *all = lr_buf_z(&s->out);
    const char *p = all + s->read;
    const char *end = strstr(p, "\n\n");
    if (*p == '\0')
        return NULL;
    assert_non_null(end);
    assert_memory_equal(p, "data: ", 6);
    assert_in_range(end - p - 6, 1, sizeof(s->event) - 1);
    memcpy(s->event, p + 6, (size_t)(end - p) - 6);
    s->event[end - p - 6] = '\0';
    s->read = (size_t)(end + 2 - all);
    return s->event;
}

static void expect_event(struct session *s, const char *wanted)
{
    const char *event = next_event(s);
    assert_non_null(event);
    assert_string_equal(event, wanted);
}

#define CHAT "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
#define HEAD                                                                                   \
    "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":7,"               \
    "\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":["
#define DELTA(i, d)                                                                            \
    HEAD "{\"index\":" i ",\"delta\":{" d "},\"logprobs\":null,\"finish_reason\":null}]}"
#define FINISH(i, f)                                                                           \
    HEAD "{\"index\":" i ",\"delta\":{},\"logprobs\":null,\"finish_reason\":\"" f "\"}]}"
#define ROLE "\"role\":\"assistant\",\"content\":\"\""
#define USAGE                                                                                  \
    "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15,"             \
    "\"prompt_tokens_details\":{\"cached_tokens\":8},"                                         \
    "\"completion_tokens_details\":{\"reasoning_tokens\":"

static void a_stream_has_role_deltas_finish_and_one_done(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT ",\"stream\":true}", true);
    assert_true(feed(&s, 0,
                     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
                     "<|channel|>final<|message|>Hi you<|return|>"));
    done(&s, 0, LR_FINISH_STOP);
    expect_event(&s, DELTA("0", ROLE));
    expect_event(&s, DELTA("0", "\"reasoning_content\":\"Hm.\""));
    expect_event(&s, DELTA("0", "\"content\":\"Hi\""));
    expect_event(&s, DELTA("0", "\"content\":\" you\""));
    expect_event(&s, FINISH("0", "stop"));
    expect_event(&s, "[DONE]");
    assert_null(next_event(&s));
    assert_true(chat_response_is_complete(s.r));
    done(&s, 0, LR_FINISH_STOP); /* a second end writes nothing */
    assert_null(next_event(&s));
    close_session(&s);
}

static void a_tool_call_is_streamed_name_first(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT ",\"stream\":true}", true);
    feed(&s, 0,
         "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}"
         "<|call|>");
    done(&s, 0, LR_FINISH_STOP);
    expect_event(&s, DELTA("0", ROLE));
    const char *event = next_event(&s);
    assert_non_null(strstr(event, "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_"));
    assert_non_null(strstr(event, "\"type\":\"function\",\"function\":{\"name\":\"f\","
                                  "\"arguments\":\"\"}}]}"));
    expect_event(&s, DELTA("0", "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
                                "\"{\\\"a\\\":\"}}]"));
    expect_event(&s, DELTA("0", "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
                                "\" 1}\"}}]"));
    expect_event(&s, FINISH("0", "tool_calls"));
    expect_event(&s, "[DONE]");
    close_session(&s);
}

static void a_whole_answer_holds_what_the_stream_would(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT "}", true);
    feed(&s, 0,
         "<|channel|>analysis<|message|>Hm \"so\".<|end|><|start|>assistant"
         "<|channel|>commentary to=functions.f<|message|>{\"a\": \"b\\n\"}<|call|>");
    assert_int_equal(s.out.len, 0);
    done(&s, 0, LR_FINISH_STOP);
    const char *body = lr_buf_z(&s.out);
    char *id = strstr(body, "call_");
    assert_non_null(id);
    memcpy(id + 5, "XXXXXXXXXXXXXXXXXXXXXXXX", 24);
    assert_string_equal(
        body,
        "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":7,\"model\":\"m\","
        "\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"message\":{"
        "\"role\":\"assistant\",\"content\":null,\"refusal\":null,"
        "\"reasoning_content\":\"Hm \\\"so\\\".\",\"tool_calls\":[{\"id\":"
        "\"call_XXXXXXXXXXXXXXXXXXXXXXXX\",\"type\":\"function\",\"function\":{\"name\":"
        "\"f\",\"arguments\":\"{\\\"a\\\": \\\"b\\\\n\\\"}\"}}]},\"logprobs\":null,"
        "\"finish_reason\":\"tool_calls\"}]," USAGE "2}}}");
    close_session(&s);
}

static void two_calls_have_two_ids(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT "}", true);
    feed(&s, 0,
         "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant"
         "<|channel|>commentary to=functions.g<|message|>{}<|call|>");
    done(&s, 0, LR_FINISH_STOP);
    const char *body = lr_buf_z(&s.out);
    const char *a = strstr(body, "call_");
    const char *b = strstr(a + 5, "\"call_");
    assert_non_null(b);
    assert_memory_not_equal(a, b + 1, 29);
    const struct lr_json *root;
    assert_int_equal(lr_json_parse(&s.arena, lr_buf_str(&s.out), NULL, &root, NULL), LR_OK);
    close_session(&s);
}

static void parallel_tool_calls_false_ends_after_one(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT ",\"parallel_tool_calls\":false}", true);
    assert_false(feed(&s, 0,
                      "<|channel|>commentary to=functions.f<|message|>{}<|call|>"
                      "<|channel|>commentary to=functions.g<|message|>{}<|call|>"));
    done(&s, 0, LR_FINISH_CANCELLED);
    assert_non_null(strstr(lr_buf_z(&s.out), "\"f\""));
    assert_null(strstr(lr_buf_z(&s.out), "\"g\""));
    assert_non_null(strstr(lr_buf_z(&s.out), "\"tool_calls\"}"));
    close_session(&s);
}

static void finish_reason_is_right(void **state)
{
    (void)state;
    static const struct {
        const char *stream;
        enum lr_finish reason;
        const char *wanted;
    } cases[] = {
        {"<|channel|>final<|message|>Hi<|return|>", LR_FINISH_STOP, "stop"},
        {"<|channel|>final<|message|>Hi", LR_FINISH_LENGTH, "length"},
        {"<|channel|>analysis<|message|>Hi", LR_FINISH_LENGTH, "length"},
        {"<|channel|>commentary to=functions.f<|message|>{", LR_FINISH_LENGTH, "length"},
        {"<|channel|>commentary to=functions.f<|message|>{}<|call|>", LR_FINISH_STOP,
         "tool_calls"},
        {"<|channel|>commentary to=functions.f<|message|>{}<|return|>", LR_FINISH_STOP,
         "tool_calls"},
        {"<|return|>", LR_FINISH_STOP, "stop"},
        {"", LR_FINISH_LENGTH, "length"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct session s;
        char wanted[64];
        open_session(&s, &chat_openai_chat, CHAT "}", true);
        feed(&s, 0, cases[i].stream);
        done(&s, 0, cases[i].reason);
        snprintf(wanted, sizeof(wanted), "\"finish_reason\":\"%s\"", cases[i].wanted);
        assert_non_null(strstr(lr_buf_z(&s.out), wanted));
        close_session(&s);
    }
}

static void a_stop_string_over_token_borders_cuts_exactly(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat,
                 CHAT ",\"stream\":true,\"stop\":[\"STOP NOW\"],"
                      "\"stream_options\":{\"include_usage\":true}}",
                 true);
    assert_false(feed(&s, 0,
                      "<|channel|>analysis<|message|>STOP NOW<|end|><|start|>assistant"
                      "<|channel|>final<|message|>One two.STOP NOW three"));
    struct wire_token late = {.bytes = LR_STR_LIT("late")};
    assert_false(chat_response_on_token(s.r, 0, &late, &s.out));
    done(&s, 0, LR_FINISH_CANCELLED);
    const char *all = lr_buf_z(&s.out);
    assert_non_null(strstr(all, "\"content\":\"One\""));
    assert_non_null(strstr(all, "\"content\":\" two.\""));
    assert_null(strstr(all, "{\"content\":\"STOP")); /* only in the reasoning */
    assert_null(strstr(all, "three"));
    assert_null(strstr(all, "late"));
    assert_non_null(strstr(all, "\"finish_reason\":\"stop\""));
    assert_non_null(strstr(all, "\"choices\":[]," USAGE "2}}}\n\ndata: [DONE]"));
    close_session(&s);
}

static void text_held_for_a_stop_string_comes_at_the_end(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT ",\"stop\":\"ENDING\"}", false);
    assert_true(feed(&s, 0, "all END"));
    done(&s, 0, LR_FINISH_STOP);
    assert_non_null(strstr(lr_buf_z(&s.out), "\"content\":\"all END\""));
    close_session(&s);
}

static void include_usage_adds_one_last_chunk(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat,
                 CHAT ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}", false);
    feed(&s, 0, "Hi");
    done(&s, 0, LR_FINISH_STOP);
    expect_event(&s, HEAD "{\"index\":0,\"delta\":{" ROLE "},\"logprobs\":null,"
                          "\"finish_reason\":null}],\"usage\":null}");
    expect_event(&s, HEAD "{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"logprobs\":null,"
                          "\"finish_reason\":null}],\"usage\":null}");
    expect_event(&s, HEAD "{\"index\":0,\"delta\":{},\"logprobs\":null,"
                          "\"finish_reason\":\"stop\"}],\"usage\":null}");
    expect_event(&s, HEAD "]," USAGE "0}}}");
    expect_event(&s, "[DONE]");
    assert_null(next_event(&s));
    close_session(&s);
}

static void choices_interleave_and_the_prompt_counts_once(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT ",\"stream\":true,\"n\":2}", false);
    feed(&s, 0, "a");
    feed(&s, 1, "b");
    feed(&s, 0, "c");
    done(&s, 0, LR_FINISH_STOP);
    feed(&s, 1, "d");
    done(&s, 1, LR_FINISH_LENGTH);
    expect_event(&s, DELTA("0", ROLE));
    expect_event(&s, DELTA("0", "\"content\":\"a\""));
    expect_event(&s, DELTA("1", ROLE));
    expect_event(&s, DELTA("1", "\"content\":\"b\""));
    expect_event(&s, DELTA("0", "\"content\":\"c\""));
    expect_event(&s, FINISH("0", "stop"));
    expect_event(&s, DELTA("1", "\"content\":\"d\""));
    expect_event(&s, FINISH("1", "length"));
    expect_event(&s, "[DONE]");
    struct chat_response_totals t = chat_response_totals(s.r);
    assert_int_equal(t.prompt_tokens, 10);
    assert_int_equal(t.completion_tokens, 10);
    close_session(&s);
}

static void an_error_inside_a_stream_is_an_event_and_ends_it(void **state)
{
    (void)state;
    struct session s;
    struct lr_error error;
    open_session(&s, &chat_openai_chat, CHAT ",\"stream\":true}", false);
    feed(&s, 0, "a");
    lr_fail(&error, LR_TIMEOUT, "no \"progress\"");
    chat_response_on_error(s.r, &error, &s.out);
    done(&s, 0, LR_FINISH_STOP);
    next_event(&s);
    next_event(&s);
    expect_event(&s,
                 "{\"error\":{\"message\":\"no \\\"progress\\\"\",\"type\":\"server_error\","
                 "\"param\":null,\"code\":\"timeout\"}}");
    expect_event(&s, "[DONE]");
    assert_null(next_event(&s));
    close_session(&s);
}

static void a_character_cut_by_a_token_border_arrives_whole(void **state)
{
    (void)state;
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT ",\"stream\":true}", false);
    struct wire_token a = {.bytes = LR_STR_LIT("\xF0\x9F")};
    struct wire_token b = {.bytes = LR_STR_LIT("\x98\x80!")};
    chat_response_on_token(s.r, 0, &a, &s.out);
    chat_response_on_token(s.r, 0, &b, &s.out);
    expect_event(&s, DELTA("0", ROLE));
    expect_event(&s, DELTA("0", "\"content\":\"\xF0\x9F\x98\x80!\""));
    assert_null(next_event(&s));
    close_session(&s);
}

static void logprobs_travel_with_their_text(void **state)
{
    (void)state;
    struct session s;
    struct wire_alternative top[] = {{1, -0.5F, LR_STR_LIT("Hi")},
                                     {2, -1.5F, LR_STR_LIT("Ho")}};
    struct wire_token t = {.bytes = LR_STR_LIT("Hi"),
                           .has_logprob = true,
                           .logprob = -0.5F,
                           .top = {top[0], top[1]},
                           .top_count = 2};
    open_session(&s, &chat_openai_chat,
                 CHAT ",\"stream\":true,\"logprobs\":true,\"top_logprobs\":2,\"stop\":\"Z!\"}",
                 false);
    chat_response_on_token(s.r, 0, &t, &s.out);
    struct wire_token z = {.bytes = LR_STR_LIT("Z"), .has_logprob = true, .logprob = -2.0F};
    chat_response_on_token(s.r, 0, &z, &s.out);
    struct wire_token end = {.bytes = LR_STR_LIT("!"), .has_logprob = true, .logprob = -3.0F};
    assert_false(chat_response_on_token(s.r, 0, &end, &s.out));
    done(&s, 0, LR_FINISH_CANCELLED);
    expect_event(&s, DELTA("0", ROLE));
    expect_event(&s,
                 HEAD "{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"logprobs\":{\"content\":["
                      "{\"token\":\"Hi\",\"logprob\":-0.5,\"bytes\":[72,105],\"top_logprobs\":["
                      "{\"token\":\"Hi\",\"logprob\":-0.5,\"bytes\":[72,105]},"
                      "{\"token\":\"Ho\",\"logprob\":-1.5,\"bytes\":[72,111]}]}],"
                      "\"refusal\":null},\"finish_reason\":null}]}");
    expect_event(&s, FINISH("0", "stop"));
    close_session(&s);
}

static void logprobs_of_text_that_was_cut_are_cut_too(void **state)
{
    (void)state;
    static const char *const words[] = {"Hi", "Z", "!"};
    struct session s;
    open_session(&s, &chat_openai_chat, CHAT ",\"logprobs\":true,\"stop\":\"Z!\"}", false);
    for (size_t i = 0; i < 3; i++) {
        struct wire_token t = {.bytes = lr_str_z(words[i]), .has_logprob = true};
        assert_int_equal(chat_response_on_token(s.r, 0, &t, &s.out), i < 2);
    }
    done(&s, 0, LR_FINISH_CANCELLED);
    assert_non_null(strstr(lr_buf_z(&s.out), "\"token\":\"Hi\""));
    assert_null(strstr(lr_buf_z(&s.out), "\"token\":\"Z\""));
    close_session(&s);
}

static void completions_have_their_own_shape(void **state)
{
    (void)state;
    struct session s;
    struct wire_alternative top[] = {{1, -0.5F, LR_STR_LIT("\xC3\xA4")}};
    struct wire_token t = {.bytes = LR_STR_LIT("\xC3\xA4"),
                           .has_logprob = true,
                           .logprob = -0.5F,
                           .top = {top[0]},
                           .top_count = 1};
    open_session(&s, &chat_openai_completions,
                 "{\"model\":\"m\",\"prompt\":[\"x\",\"y\"],\"logprobs\":1}", true);
    struct wire_token rare = t;
    rare.bytes = LR_STR_LIT("z"); /* sampled, and not among the most likely */
    rare.logprob = -4.0F;
    chat_response_on_token(s.r, 0, &t, &s.out);
    chat_response_on_token(s.r, 0, &rare, &s.out);
    done(&s, 0, LR_FINISH_STOP);
    feed(&s, 1, "<|channel|>b");
    done(&s, 1, LR_FINISH_LENGTH);
    assert_string_equal(
        lr_buf_z(&s.out),
        "{\"id\":\"chatcmpl-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\","
        "\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"text\":\"\xC3\xA4z\","
        "\"logprobs\":{\"tokens\":[\"\xC3\xA4\",\"z\"],\"token_logprobs\":[-0.5,-4],"
        "\"top_logprobs\":[{\"\xC3\xA4\":-0.5},{\"\xC3\xA4\":-0.5,\"z\":-4}],\"text_offset\":["
        "0,1]},"
        "\"finish_reason\":\"stop\"},{\"index\":1,\"text\":\"b\",\"logprobs\":null,"
        "\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":20,"
        "\"completion_tokens\":10,\"total_tokens\":30,\"prompt_tokens_details\":{"
        "\"cached_tokens\":16},\"completion_tokens_details\":{\"reasoning_tokens\":0}}}");
    close_session(&s);

    open_session(&s, &chat_openai_completions,
                 "{\"model\":\"m\",\"prompt\":\"x\",\"stream\":true}", false);
    feed(&s, 0, "b");
    done(&s, 0, LR_FINISH_LENGTH);
#define TEXT                                                                                   \
    "{\"id\":\"chatcmpl-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\","     \
    "\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"text\":"
    expect_event(&s, TEXT "\"b\",\"logprobs\":null,\"finish_reason\":null}]}");
    expect_event(&s, TEXT "\"\",\"logprobs\":null,\"finish_reason\":\"length\"}]}");
    expect_event(&s, "[DONE]");
    close_session(&s);
}

static void reasoning_goes_where_the_client_reads_it(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        bool content;
        bool plain;
    } cases[] = {{"auto", true, false},
                 {"reasoning", false, true},
                 {"both", true, true},
                 {"hidden", false, false}};
    for (size_t i = 0; i < 4; i++) {
        struct session s;
        char body[256];
        snprintf(body, sizeof(body), CHAT ",\"reasoning_format\":\"%s\"}", cases[i].format);
        open_session(&s, &chat_openai_chat, body, true);
        feed(&s, 0, "<|channel|>analysis<|message|>Hm<|end|>");
        done(&s, 0, LR_FINISH_STOP);
        const char *all = lr_buf_z(&s.out);
        assert_int_equal(strstr(all, "\"reasoning_content\":\"Hm\"") != NULL, cases[i].content);
        assert_int_equal(strstr(all, "\"reasoning\":\"Hm\"") != NULL, cases[i].plain);
        assert_non_null(strstr(all, "\"reasoning_tokens\":1"));
        close_session(&s);
    }
}

static void an_answer_past_its_limit_is_an_error_not_a_crash(void **state)
{
    (void)state;
    struct session s;
    const struct chat_request *req;
    struct chat_error e;
    lr_arena_init(&s.arena, 1 << 20);
    lr_buf_init(&s.out, 1 << 20);
    assert_int_equal(
        chat_request_parse(&s.arena, &chat_openai_chat, LR_STR_LIT(CHAT "}"), &req, &e), LR_OK);
    struct chat_response_options o = {.request = req, .id = LR_STR_LIT("x"), .max_bytes = 100};
    assert_int_equal(chat_response_create(&o, &s.r, NULL), LR_OK);
    for (int i = 0; i < 100; i++)
        feed(&s, 0, "abc");
    done(&s, 0, LR_FINISH_STOP);
    assert_int_equal(chat_response_status(s.r), LR_OUT_OF_RAM);
    assert_non_null(strstr(lr_buf_z(&s.out), "{\"error\":"));
    close_session(&s);
}

static void an_answer_without_room_for_all_of_it_is_an_error_not_a_part(void **state)
{
    (void)state;
    static const char *const requests[] = {CHAT "}", CHAT ",\"stream\":true}"};
    for (size_t i = 0; i < 2; i++) {
        struct session s;
        const struct chat_request *req;
        struct chat_error e;
        lr_arena_init(&s.arena, 1 << 20);
        lr_buf_init(&s.out, 400);
        assert_int_equal(
            chat_request_parse(&s.arena, &chat_openai_chat, lr_str_z(requests[i]), &req, &e),
            LR_OK);
        struct chat_response_options o = {
            .request = req, .id = LR_STR_LIT("x"), .max_bytes = 1 << 20};
        assert_int_equal(chat_response_create(&o, &s.r, NULL), LR_OK);
        for (int k = 0; k < 100; k++)
            feed(&s, 0, "abc");
        done(&s, 0, LR_FINISH_STOP);
        assert_true(chat_response_is_complete(s.r));
        assert_int_equal(chat_response_status(s.r), LR_OUT_OF_RAM);
        assert_non_null(strstr(lr_buf_z(&s.out), "{\"error\":"));
        assert_null(strstr(lr_buf_z(&s.out), "choices"));
        close_session(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_has_role_deltas_finish_and_one_done),
        cmocka_unit_test(a_tool_call_is_streamed_name_first),
        cmocka_unit_test(a_whole_answer_holds_what_the_stream_would),
        cmocka_unit_test(two_calls_have_two_ids),
        cmocka_unit_test(parallel_tool_calls_false_ends_after_one),
        cmocka_unit_test(finish_reason_is_right),
        cmocka_unit_test(a_stop_string_over_token_borders_cuts_exactly),
        cmocka_unit_test(text_held_for_a_stop_string_comes_at_the_end),
        cmocka_unit_test(include_usage_adds_one_last_chunk),
        cmocka_unit_test(choices_interleave_and_the_prompt_counts_once),
        cmocka_unit_test(an_error_inside_a_stream_is_an_event_and_ends_it),
        cmocka_unit_test(a_character_cut_by_a_token_border_arrives_whole),
        cmocka_unit_test(logprobs_travel_with_their_text),
        cmocka_unit_test(logprobs_of_text_that_was_cut_are_cut_too),
        cmocka_unit_test(completions_have_their_own_shape),
        cmocka_unit_test(reasoning_goes_where_the_client_reads_it),
        cmocka_unit_test(an_answer_past_its_limit_is_an_error_not_a_crash),
        cmocka_unit_test(an_answer_without_room_for_all_of_it_is_an_error_not_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
