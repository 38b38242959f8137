/* A turn with a generator and a sink that only record their calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "chat/parse.h"
#include "chat/response_internal.h"
#include "chat/turn.h"
#include "dialects.h"

struct fixture {
    struct lr_arena arena;
    struct chat_turn turn;
    struct lr_buf calls;  /* calls of generator and sink: "start 0,stop 0,..." */
    struct lr_buf bytes;  /* bytes sent to the client */
    struct lr_error told; /* the error given to fail */
    lr_code status;       /* the status given to finish */
    uint32_t refuses_at;  /* starting this generation fails, directly or through the turn */
    bool refuses, fails_the_turn;
    bool knows_usage; /* stop returns the usage */
    bool does_not_read, hides;
    bool keeps; /* takes the record */
    struct chat_record record;
};

static void note(struct fixture *f, const char *what, uint32_t index)
{
    lr_buf_addf(&f->calls, "%s%s %u", f->calls.len > 0 ? "," : "", what, index);
}

static void note_z(struct fixture *f, const char *what)
{
    lr_buf_addf(&f->calls, "%s%s", f->calls.len > 0 ? "," : "", what);
}

static lr_code start(void *owner, uint32_t index, struct lr_error *err)
{
    struct fixture *f = owner;
    note(f, "start", index);
    if (!f->refuses || index != f->refuses_at)
        return LR_OK;
    (void)lr_fail(err, LR_RATE_LIMITED, "no room");
    if (!f->fails_the_turn)
        return LR_RATE_LIMITED;
    chat_turn_fail(&f->turn, err);
    return LR_OK;
}

static bool stop(void *owner, uint32_t index, struct chat_usage *usage)
{
    struct fixture *f = owner;
    note(f, usage != NULL ? "stop" : "cancel", index);
    if (usage != NULL && f->knows_usage)
        *usage = (struct chat_usage){3, 2, 1};
    return f->knows_usage;
}

static lr_code write_piece(void *owner, struct lr_str bytes)
{
    struct fixture *f = owner;
    note_z(f, "write");
    if (f->does_not_read)
        return LR_TOO_LARGE;
    lr_buf_add_str(&f->bytes, bytes);
    return LR_OK;
}

static void finish(void *owner, lr_code status, struct lr_str bytes)
{
    struct fixture *f = owner;
    note_z(f, "finish");
    f->status = status;
    lr_buf_add_str(&f->bytes, bytes);
}

static void fail_turn(void *owner, const struct lr_error *err, struct lr_str bytes)
{
    struct fixture *f = owner;
    note_z(f, err != NULL ? "fail" : "close");
    if (err != NULL)
        f->told = *err;
    lr_buf_add_str(&f->bytes, bytes);
}

static void tell(void *owner, struct lr_error *err)
{
    if (((struct fixture *)owner)->hides)
        (void)lr_fail(err, err->code, "ask an operator");
}

static bool keep(void *owner, struct chat_record *record)
{
    struct fixture *f = owner;
    note_z(f, "keep");
    if (!f->keeps)
        chat_record_free(record);
    f->record = *record;
    return f->keeps;
}

static const struct chat_generator generator = {start, stop};
static const struct chat_sink sink = {write_piece, finish, fail_turn, tell, keep, NULL, NULL};

static void open_fixture(struct fixture *f, const struct chat_codec *codec)
{
    *f = (struct fixture){0};
    lr_arena_init(&f->arena, 16 << 20);
    lr_buf_init(&f->calls, 4096);
    lr_buf_init(&f->bytes, 1 << 20);
    chat_turn_init(&f->turn, codec, &f->arena, &generator, &sink, f);
}

static void close_fixture(struct fixture *f)
{
    lr_buf_free(&f->calls);
    lr_buf_free(&f->bytes);
    lr_arena_free(&f->arena);
}

/* Runs the turn up to the start.  False: the turn has failed. */
static bool prepare(struct fixture *f, const char *body, bool harmony)
{
    enum grammar_format format = harmony ? GRAMMAR_HARMONY : GRAMMAR_HERMES;
    struct chat_model model = {.dialect = dialect_of(format)};
    struct lr_str name;
    return chat_turn_read(&f->turn, lr_str_z(body), &name) && chat_turn_parse(&f->turn) &&
           chat_turn_prepare(&f->turn, &model, LR_STR_LIT("model-1"));
}

static void run(struct fixture *f, const struct chat_codec *codec, const char *body,
                bool harmony)
{
    open_fixture(f, codec);
    if (!prepare(f, body, harmony) || !chat_turn_start(&f->turn))
        fail_msg("%s", f->told.text);
    assert_int_equal(f->turn.state, CHAT_TURN_RUNNING);
}

#define SAY    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
#define STREAM SAY ",\"stream\":true"

static void token(struct fixture *f, uint32_t index, const char *text)
{
    struct wire_token t = {.bytes = lr_str_z(text), .special = strncmp(text, "<|", 2) == 0};
    chat_turn_token(&f->turn, index, &t);
}

static void done(struct fixture *f, uint32_t index)
{
    struct chat_usage usage = {10, 5, 0};
    chat_turn_done(&f->turn, index, LR_FINISH_STOP, &usage);
}

static void expect_calls(struct fixture *f, const char *wanted)
{
    assert_string_equal(lr_buf_z(&f->calls), wanted);
}

static bool client_has(struct fixture *f, const char *text)
{
    return strstr(lr_buf_z(&f->bytes), text) != NULL;
}

/* ---- a whole turn ---- */

static void a_streamed_turn_passes_through_every_state_and_ends_once(void **state)
{
    struct fixture f;
    struct chat_model model = {0};
    struct lr_str name;
    (void)state;
    open_fixture(&f, &chat_openai_chat);
    assert_int_equal(f.turn.state, CHAT_TURN_NEW);
    assert_true(chat_turn_read(&f.turn, LR_STR_LIT(STREAM "}"), &name));
    assert_true(lr_str_eq_z(name, "m"));
    assert_int_equal(f.turn.state, CHAT_TURN_READ);
    assert_true(chat_turn_parse(&f.turn));
    assert_int_equal(f.turn.state, CHAT_TURN_PARSED);
    assert_true(chat_turn_prepare(&f.turn, &model, LR_STR_LIT("model-1")));
    assert_int_equal(f.turn.state, CHAT_TURN_READY);
    assert_int_equal(f.turn.generations[0], CHAT_GENERATION_IDLE);
    assert_true(chat_turn_start(&f.turn));
    assert_int_equal(f.turn.state, CHAT_TURN_RUNNING);
    assert_int_equal(f.turn.generations[0], CHAT_GENERATION_RUNNING);
    token(&f, 0, "Hi");
    assert_int_equal(f.turn.state, CHAT_TURN_RUNNING);
    chat_turn_flush(&f.turn);
    assert_int_equal(f.turn.state, CHAT_TURN_STREAMING);
    done(&f, 0);
    assert_int_equal(f.turn.generations[0], CHAT_GENERATION_OVER);
    assert_true(chat_turn_is_complete(&f.turn));
    chat_turn_flush(&f.turn);
    assert_int_equal(f.turn.state, CHAT_TURN_ENDED);
    expect_calls(&f, "start 0,write,finish");
    assert_true(client_has(&f, "\"model\":\"model-1\""));
    assert_true(client_has(&f, "\"content\":\"Hi\""));
    assert_true(client_has(&f, "data: [DONE]"));
    chat_turn_flush(&f.turn);
    chat_turn_gone(&f.turn);
    chat_turn_keep_alive(&f.turn);
    token(&f, 0, "late");
    done(&f, 0);
    expect_calls(&f, "start 0,write,finish");
    close_fixture(&f);
}

static void an_answer_in_one_piece_waits_for_its_end(void **state)
{
    struct fixture f;
    (void)state;
    run(&f, &chat_openai_chat, SAY "}", false);
    token(&f, 0, "Hi");
    chat_turn_flush(&f.turn);
    chat_turn_keep_alive(&f.turn);
    assert_int_equal(f.turn.state, CHAT_TURN_RUNNING);
    done(&f, 0);
    chat_turn_flush(&f.turn);
    expect_calls(&f, "start 0,finish");
    assert_int_equal(f.status, LR_OK);
    assert_true(client_has(&f, "\"content\":\"Hi\""));
    close_fixture(&f);
}

static void tokens_that_come_together_are_sent_together(void **state)
{
    struct fixture f;
    (void)state;
    run(&f, &chat_openai_chat, STREAM "}", false);
    chat_turn_flush(&f.turn);
    token(&f, 0, "a");
    token(&f, 0, "b");
    chat_turn_flush(&f.turn);
    chat_turn_flush(&f.turn);
    expect_calls(&f, "start 0,write");
    chat_turn_gone(&f.turn);
    close_fixture(&f);
}

/* ---- several choices ---- */

static void each_choice_is_a_generation_with_its_own_seed(void **state)
{
    struct fixture f;
    struct wire_generate ask[3];
    (void)state;
    run(&f, &chat_openai_chat,
        STREAM ",\"n\":3,\"seed\":7,\"max_tokens\":9,\"temperature\":0.5}", false);
    expect_calls(&f, "start 0,start 1,start 2");
    for (uint32_t i = 0; i < 3; i++)
        chat_turn_ask(&f.turn, i, &ask[i]);
    assert_int_equal(ask[0].sampling.seed, 7);
    assert_true(ask[1].sampling.seed != 7 && ask[2].sampling.seed != ask[1].sampling.seed);
    assert_ptr_equal(ask[0].segments, ask[2].segments);
    assert_true(ask[2].segment_count > 0);
    assert_int_equal(ask[2].max_tokens, 9);
    assert_true(ask[2].sampling.temperature == 0.5f);
    done(&f, 2);
    done(&f, 0);
    chat_turn_flush(&f.turn);
    assert_int_equal(f.turn.state, CHAT_TURN_STREAMING);
    done(&f, 1);
    chat_turn_flush(&f.turn);
    expect_calls(&f, "start 0,start 1,start 2,write,finish");
    close_fixture(&f);
}

static void raw_prompts_are_generated_apart(void **state)
{
    struct fixture f;
    struct wire_generate ask;
    (void)state;
    run(&f, &chat_openai_completions,
        "{\"model\":\"m\",\"prompt\":[\"one\",\"two\"],\"n\":2,\"ignore_eos\":true}", true);
    expect_calls(&f, "start 0,start 1,start 2,start 3");
    chat_turn_ask(&f.turn, 1, &ask);
    assert_memory_equal(ask.segments[0].text, "one", 3);
    chat_turn_ask(&f.turn, 2, &ask);
    assert_memory_equal(ask.segments[0].text, "two", 3);
    assert_true(ask.ignore_stop);
    chat_turn_gone(&f.turn);
    close_fixture(&f);
}

static void a_refused_generation_fails_the_turn_and_cancels_those_before_it(void **state)
{
    struct fixture f;
    (void)state;
    for (int through_the_turn = 0; through_the_turn < 2; through_the_turn++) {
        open_fixture(&f, &chat_openai_chat);
        f.refuses = true;
        f.refuses_at = 1;
        f.fails_the_turn = through_the_turn != 0;
        assert_true(prepare(&f, STREAM ",\"n\":3}", false));
        assert_false(chat_turn_start(&f.turn));
        /* A generator that fails the turn itself also gets the stop of the generation that it
         * is starting. */
        expect_calls(&f, through_the_turn ? "start 0,start 1,cancel 0,cancel 1,fail"
                                          : "start 0,start 1,cancel 0,fail");
        assert_int_equal(f.told.code, LR_RATE_LIMITED);
        assert_true(client_has(&f, "{\"error\":{\"message\":\"Rate limit reached: no room\""));
        close_fixture(&f);
    }
}

/* ---- failures ---- */

static void what_is_wrong_with_a_request_fails_its_turn_before_anything_starts(void **state)
{
    static const struct {
        const char *body, *says;
        enum chat_turn_state until;
    } cases[] = {
        {"{\"model\":", "\"code\":\"invalid_json\"", CHAT_TURN_NEW},
        {SAY ",\"temprature\":1}", "\"param\":\"temprature\"", CHAT_TURN_READ},
        {"{\"messages\":[]}", "\"param\":\"messages\"", CHAT_TURN_READ},
        {SAY ",\"tool_choice\":\"required\",\"tools\":[{\"type\":\"function\",\"function\":"
             "{\"name\":\"f\"}}]}",
         "whose chat template shows how it calls tools", CHAT_TURN_PARSED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        struct chat_model model = {0};
        struct lr_str name;
        open_fixture(&f, &chat_openai_chat);
        f.turn.terms.is_strict = true;
        enum chat_turn_state before = f.turn.state;
        bool ok = chat_turn_read(&f.turn, lr_str_z(cases[i].body), &name);
        before = ok ? f.turn.state : before;
        ok = ok && chat_turn_parse(&f.turn);
        before = ok ? f.turn.state : before;
        ok = ok && chat_turn_prepare(&f.turn, &model, LR_STR_LIT("m"));
        assert_false(ok);
        assert_int_equal(before, cases[i].until);
        assert_int_equal(f.turn.state, CHAT_TURN_ENDED);
        expect_calls(&f, "fail");
        assert_int_equal(lr_code_http(f.told.code), 400);
        if (!client_has(&f, cases[i].says))
            fail_msg("%s", lr_buf_z(&f.bytes));
        close_fixture(&f);
    }
}

static void a_failure_is_a_status_until_the_stream_has_begun(void **state)
{
    struct fixture f;
    struct lr_error err;
    (void)state;
    (void)lr_fail(&err, LR_UPSTREAM, "the node is gone");
    for (int has_begun = 0; has_begun < 2; has_begun++) {
        run(&f, &chat_openai_chat, STREAM ",\"n\":2}", false);
        token(&f, 0, "Hi");
        if (has_begun)
            chat_turn_flush(&f.turn);
        chat_turn_fail(&f.turn, &err);
        chat_turn_fail(&f.turn, &err);
        expect_calls(&f, has_begun ? "start 0,start 1,write,cancel 0,cancel 1,fail"
                                   : "start 0,start 1,cancel 0,cancel 1,fail");
        assert_int_equal(f.turn.state, CHAT_TURN_ENDED);
        assert_int_equal(client_has(&f, "\"content\":\"Hi\""), has_begun);
        assert_int_equal(client_has(&f, "data: {\"error\":{\"message\":\"the node is gone\""),
                         has_begun);
        assert_int_equal(strncmp(lr_buf_z(&f.bytes), "{\"error\":", 9) == 0, !has_begun);
        close_fixture(&f);
    }
}

static void a_failure_is_reported_in_the_words_of_the_sink(void **state)
{
    struct fixture f;
    struct lr_error err;
    (void)state;
    (void)lr_fail(&err, LR_INTERNAL, "/srv/models/m is broken");
    run(&f, &chat_openai_chat, STREAM "}", false);
    f.hides = true;
    chat_turn_fail(&f.turn, &err);
    assert_string_equal(f.told.text, "ask an operator");
    assert_false(client_has(&f, "/srv"));
    assert_true(client_has(&f, "ask an operator"));
    close_fixture(&f);
}

static void an_engine_that_fails_ends_the_answer_with_an_error(void **state)
{
    struct fixture f;
    (void)state;
    run(&f, &chat_openai_chat, SAY "}", false);
    chat_turn_done(&f.turn, 0, LR_FINISH_ERROR, NULL);
    chat_turn_flush(&f.turn);
    expect_calls(&f, "start 0,finish");
    assert_int_equal(f.status, LR_INTERNAL);
    close_fixture(&f);
}

/* ---- the client leaves ---- */

static void a_client_that_disconnects_cancels_its_running_generations(void **state)
{
    struct fixture f;
    (void)state;
    run(&f, &chat_openai_chat, STREAM ",\"n\":3}", false);
    done(&f, 1);
    chat_turn_gone(&f.turn);
    chat_turn_gone(&f.turn);
    expect_calls(&f, "start 0,start 1,start 2,cancel 0,cancel 2,close");
    assert_int_equal(f.turn.state, CHAT_TURN_ENDED);
    close_fixture(&f);
}

static void a_client_that_does_not_read_gets_what_was_made_and_then_an_error(void **state)
{
    struct fixture f;
    (void)state;
    for (int in_comment = 0; in_comment < 2; in_comment++) {
        run(&f, &chat_openai_chat, STREAM "}", false);
        f.does_not_read = true;
        if (in_comment) {
            chat_turn_keep_alive(&f.turn);
        } else {
            token(&f, 0, "Hi");
            chat_turn_flush(&f.turn);
        }
        expect_calls(&f, "start 0,write,cancel 0,fail");
        assert_int_equal(f.told.code, LR_REQUEST_TIMEOUT);
        const char *made = strstr(f.bytes.data, in_comment ? ": working" : "\"Hi\"");
        assert_true(made != NULL && strstr(made, "the answer ends here") != NULL);
        close_fixture(&f);
    }
}

static void silence_becomes_a_comment_that_begins_the_stream(void **state)
{
    struct fixture f;
    struct lr_error err;
    (void)state;
    run(&f, &chat_openai_chat, STREAM "}", false);
    chat_turn_keep_alive(&f.turn);
    assert_int_equal(f.turn.state, CHAT_TURN_STREAMING);
    assert_string_equal(lr_buf_z(&f.bytes), ": working\n\n");
    (void)lr_fail(&err, LR_TIMEOUT, "too late");
    chat_turn_fail(&f.turn, &err);
    assert_true(client_has(&f, "data: {\"error\":{\"message\":\"too late\""));
    close_fixture(&f);
}

/* ---- stop strings, tools, schemas ---- */

static void a_stop_string_stops_its_generation_and_no_other(void **state)
{
    struct fixture f;
    (void)state;
    run(&f, &chat_openai_chat, STREAM ",\"n\":2,\"stop\":\"END\"}", false);
    token(&f, 0, "one END");
    token(&f, 0, "more");
    assert_int_equal(f.turn.generations[0], CHAT_GENERATION_STOPPED);
    assert_int_equal(f.turn.generations[1], CHAT_GENERATION_RUNNING);
    done(&f, 0);
    assert_int_equal(f.turn.generations[0], CHAT_GENERATION_OVER);
    token(&f, 1, "two");
    done(&f, 1);
    chat_turn_flush(&f.turn);
    expect_calls(&f, "start 0,start 1,stop 0,finish");
    assert_true(client_has(&f, "one "));
    assert_false(client_has(&f, "more"));
    close_fixture(&f);
}

static void a_generator_that_knows_the_usage_ends_a_stopped_generation_at_once(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, &chat_openai_chat);
    f.knows_usage = true;
    assert_true(prepare(&f, SAY ",\"stop\":\"END\"}", false) && chat_turn_start(&f.turn));
    token(&f, 0, "one END");
    assert_int_equal(f.turn.generations[0], CHAT_GENERATION_OVER);
    chat_turn_flush(&f.turn);
    expect_calls(&f, "start 0,stop 0,finish");
    assert_true(client_has(&f, "\"prompt_tokens\":3,\"completion_tokens\":2"));
    close_fixture(&f);
}

static void a_stopped_generation_is_cancelled_where_the_client_leaves(void **state)
{
    struct fixture f;
    (void)state;
    run(&f, &chat_openai_chat, STREAM ",\"n\":2,\"stop\":\"END\"}", false);
    token(&f, 0, "END");
    chat_turn_gone(&f.turn);
    expect_calls(&f, "start 0,start 1,stop 0,cancel 0,cancel 1,close");
    close_fixture(&f);
}

static void a_call_of_a_tool_comes_through(void **state)
{
    static const char *const said[] = {"<|channel|>",   "commentary to=functions.f ",
                                       "<|constrain|>", "json",
                                       "<|message|>",   "{\"a\":1}",
                                       "<|call|>"};
    struct fixture f;
    (void)state;
    run(&f, &chat_openai_chat,
        SAY ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}", true);
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        token(&f, 0, said[i]);
    done(&f, 0);
    chat_turn_flush(&f.turn);
    assert_true(client_has(&f, "\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\""));
    assert_true(client_has(&f, "\"finish_reason\":\"tool_calls\""));
    close_fixture(&f);
}

static void a_schema_becomes_the_constraint_of_every_generation(void **state)
{
    struct fixture f;
    struct wire_generate ask;
    (void)state;
    run(&f, &chat_openai_chat,
        SAY ",\"n\":2,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":"
            "{\"name\":\"x\",\"schema\":{\"type\":\"integer\"}}}}",
        false);
    for (uint32_t i = 0; i < 2; i++) {
        chat_turn_ask(&f.turn, i, &ask);
        assert_true(ask.constraint.len > 0);
    }
    chat_turn_gone(&f.turn);
    close_fixture(&f);
    run(&f, &chat_openai_chat, SAY "}", false);
    chat_turn_ask(&f.turn, 0, &ask);
    assert_int_equal(ask.constraint.len, 0);
    chat_turn_gone(&f.turn);
    close_fixture(&f);
}

static void alternatives_of_a_token_reach_the_client(void **state)
{
    struct fixture f;
    struct wire_token t = {.bytes = LR_STR_LIT("a"), .has_logprob = true, .top_count = 2};
    (void)state;
    run(&f, &chat_openai_chat, SAY ",\"logprobs\":true,\"top_logprobs\":2}", false);
    t.top[0].bytes = LR_STR_LIT("first");
    t.top[1].bytes = LR_STR_LIT("second");
    chat_turn_token(&f.turn, 0, &t);
    done(&f, 0);
    chat_turn_flush(&f.turn);
    assert_true(client_has(&f, "\"token\":\"first\""));
    assert_true(client_has(&f, "\"token\":\"second\""));
    close_fixture(&f);
}

/* ---- APIs ---- */

static void every_api_of_the_table_is_found_by_its_path(void **state)
{
    (void)state;
    assert_ptr_equal(chat_codec_of(LR_STR_LIT("/v1/chat/completions")), &chat_openai_chat);
    assert_ptr_equal(chat_codec_of(LR_STR_LIT("/v1/completions")), &chat_openai_completions);
    assert_ptr_equal(chat_codec_of(LR_STR_LIT("/v1/responses")), &chat_responses);
    assert_ptr_equal(chat_codec_of(LR_STR_LIT("/v1/messages")), &chat_anthropic);
    assert_ptr_equal(chat_codec_of(LR_STR_LIT("/api/chat")), &chat_ollama_chat);
    assert_ptr_equal(chat_codec_of(LR_STR_LIT("/api/generate")), &chat_ollama_generate);
    assert_null(chat_codec_of(LR_STR_LIT("/v1/responses/")));
    assert_null(chat_codec_of(LR_STR_LIT("v1/responses")));
    assert_null(chat_codec_of(LR_STR_LIT("")));
}

static void the_responses_api_runs_in_the_same_turn(void **state)
{
    struct fixture f;
    struct lr_error err;
    (void)state;
    run(&f, &chat_responses, "{\"model\":\"m\",\"input\":\"x\",\"stream\":true}", false);
    token(&f, 0, "Hi");
    chat_turn_flush(&f.turn);
    (void)lr_fail(&err, LR_UPSTREAM, "the node is gone");
    chat_turn_fail(&f.turn, &err);
    expect_calls(&f, "start 0,write,cancel 0,fail");
    assert_true(client_has(&f, "event: response.failed"));
    close_fixture(&f);
}

/* An API with two fields, to show that the core needs no change for a new API. */
static lr_code parse_say(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    static struct chat_raw_prompt prompt;
    if (!lr_json_str(value, &prompt.text))
        return chat_parse_type(p, name, "a string", value);
    p->req->prompts = &prompt;
    return LR_OK;
}

static void plain_head(const struct chat_response_options *o, struct lr_buf *out)
{
    lr_buf_add_str(out, o->id);
}

static void plain_text(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
                       struct lr_str text)
{
    (void)kind;
    (void)tool;
    lr_buf_add_str(&c->content, text);
}

static void plain_call(struct chat_choice *c, uint32_t tool, struct lr_str name)
{
    (void)c;
    (void)tool;
    (void)name;
}

static void plain_complete(struct chat_response *r)
{
    lr_buf_addf(r->out, "said: " LR_STR_FMT, LR_STR_ARG(lr_buf_str(&r->choices[0].content)));
}

static void plain_fail(struct chat_response *r, const struct lr_error *error)
{
    lr_buf_addf(r->out, "sorry: %s", error->text);
}

static void plain_error(struct lr_buf *out, const struct chat_codec *codec,
                        const struct chat_error *e)
{
    lr_buf_addf(out, "%s: %s at %s", codec->name, e->error.text, e->param);
}

static const struct chat_field plain_rows[] = {
    {{"model", CHAT_FIELD_HONOURED, 1, ""}, chat_parse_model},
    {{"say", CHAT_FIELD_HONOURED, 1, ""}, parse_say},
};
static const struct chat_fields plain_fields = {plain_rows, 2, 1, "plain.md"};
static const struct chat_writer plain_writer = {.head = plain_head,
                                                .text = plain_text,
                                                .call = plain_call,
                                                .complete = plain_complete,
                                                .fail = plain_fail};
static const struct chat_codec plain_codec = {
    .name = "plain",
    .id_prefix = "plain-",
    .prompt_field = "say",
    .fields = &plain_fields,
    .parse = chat_parse_members,
    .body = &plain_writer,
    .stream = &plain_writer,
    .error = plain_error,
};

static void an_api_of_its_own_needs_a_codec_and_nothing_else(void **state)
{
    struct fixture f;
    struct lr_str name;
    (void)state;
    run(&f, &plain_codec, "{\"model\":\"m\",\"say\":\"x\"}", true);
    token(&f, 0, "Hi");
    done(&f, 0);
    chat_turn_flush(&f.turn);
    assert_string_equal(lr_buf_z(&f.bytes), "said: Hi");
    close_fixture(&f);

    open_fixture(&f, &plain_codec);
    f.turn.terms.is_strict = true;
    assert_true(chat_turn_read(&f.turn, LR_STR_LIT("{\"sya\":1}"), &name));
    assert_false(chat_turn_parse(&f.turn));
    assert_string_equal(lr_buf_z(&f.bytes),
                        "plain: Unrecognized request argument supplied: sya. docs/plain.md "
                        "lists what is understood. at sya");
    close_fixture(&f);
}

/* ---- stored answers ---- */

static void keep_answer(struct fixture *f, const char *more, bool keeps)
{
    char body[200];
    (void)snprintf(body, sizeof(body), "{\"model\":\"m\",\"input\":\"x\"%s}", more);
    open_fixture(f, &chat_responses);
    f->turn.terms.can_keep = true;
    f->keeps = keeps;
    assert_true(prepare(f, body, false) && chat_turn_start(&f->turn));
    token(f, 0, "Hi");
    chat_turn_flush(&f->turn);
    done(f, 0);
    assert_true(chat_turn_is_complete(&f->turn));
    chat_turn_flush(&f->turn);
}

static void the_end_of_an_answer_waits_until_it_is_stored(void **state)
{
    static const bool results[] = {true, false};
    struct lr_error err = {.code = LR_INTERNAL, .text = "too late"};
    struct fixture f;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        keep_answer(&f, ",\"stream\":true", true);
        assert_int_equal(f.turn.state, CHAT_TURN_KEEPING);
        assert_true(client_has(&f, "\"delta\":\"Hi\""));
        assert_false(client_has(&f, "response.completed"));
        assert_non_null(strstr(lr_buf_z(&f.record.output), "\"text\":\"Hi\""));
        assert_non_null(strstr(lr_buf_z(&f.record.input), "\"text\":\"x\""));
        chat_turn_fail(&f.turn, &err);
        chat_turn_keep_alive(&f.turn);
        assert_int_equal(f.turn.state, CHAT_TURN_KEEPING);
        chat_turn_kept(&f.turn, results[i]);
        assert_int_equal(f.turn.state, CHAT_TURN_ENDED);
        expect_calls(&f, "start 0,write,write,keep,finish");
        const char *last = strstr(lr_buf_z(&f.bytes), "response.completed");
        assert_non_null(strstr(last, results[i] ? "\"store\":true" : "\"store\":false"));
        chat_turn_kept(&f.turn, true); /* ignored */
        chat_record_free(&f.record);
        close_fixture(&f);
    }
}

static void an_answer_that_cannot_be_stored_is_sent_at_once(void **state)
{
    struct fixture f;
    (void)state;
    keep_answer(&f, "", false);
    expect_calls(&f, "start 0,keep,finish");
    assert_true(client_has(&f, "\"store\":false"));
    close_fixture(&f);
    keep_answer(&f, ",\"store\":false", true);
    expect_calls(&f, "start 0,finish");
    assert_true(client_has(&f, "\"store\":false"));
    close_fixture(&f);
}

static void a_client_that_leaves_while_its_answer_is_stored_ends_the_turn(void **state)
{
    struct fixture f;
    (void)state;
    keep_answer(&f, "", true);
    chat_turn_gone(&f.turn);
    expect_calls(&f, "start 0,keep,close");
    chat_turn_kept(&f.turn, true);
    expect_calls(&f, "start 0,keep,close");
    chat_record_free(&f.record);
    close_fixture(&f);
}

/* ---- illegal moves ---- */

#ifndef NDEBUG
static void a_debug_build_stops_at_a_move_that_does_not_exist(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct fixture f;
        (void)freopen("/dev/null", "w", stderr);
        open_fixture(&f, &chat_openai_chat);
        (void)chat_turn_start(&f.turn);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_streamed_turn_passes_through_every_state_and_ends_once),
        cmocka_unit_test(an_answer_in_one_piece_waits_for_its_end),
        cmocka_unit_test(tokens_that_come_together_are_sent_together),
        cmocka_unit_test(each_choice_is_a_generation_with_its_own_seed),
        cmocka_unit_test(raw_prompts_are_generated_apart),
        cmocka_unit_test(a_refused_generation_fails_the_turn_and_cancels_those_before_it),
        cmocka_unit_test(what_is_wrong_with_a_request_fails_its_turn_before_anything_starts),
        cmocka_unit_test(a_failure_is_a_status_until_the_stream_has_begun),
        cmocka_unit_test(a_failure_is_reported_in_the_words_of_the_sink),
        cmocka_unit_test(an_engine_that_fails_ends_the_answer_with_an_error),
        cmocka_unit_test(a_client_that_disconnects_cancels_its_running_generations),
        cmocka_unit_test(a_client_that_does_not_read_gets_what_was_made_and_then_an_error),
        cmocka_unit_test(silence_becomes_a_comment_that_begins_the_stream),
        cmocka_unit_test(a_stop_string_stops_its_generation_and_no_other),
        cmocka_unit_test(a_generator_that_knows_the_usage_ends_a_stopped_generation_at_once),
        cmocka_unit_test(a_stopped_generation_is_cancelled_where_the_client_leaves),
        cmocka_unit_test(a_call_of_a_tool_comes_through),
        cmocka_unit_test(a_schema_becomes_the_constraint_of_every_generation),
        cmocka_unit_test(alternatives_of_a_token_reach_the_client),
        cmocka_unit_test(every_api_of_the_table_is_found_by_its_path),
        cmocka_unit_test(the_responses_api_runs_in_the_same_turn),
        cmocka_unit_test(an_api_of_its_own_needs_a_codec_and_nothing_else),
        cmocka_unit_test(the_end_of_an_answer_waits_until_it_is_stored),
        cmocka_unit_test(an_answer_that_cannot_be_stored_is_sent_at_once),
        cmocka_unit_test(a_client_that_leaves_while_its_answer_is_stored_ends_the_turn),
#ifndef NDEBUG
        cmocka_unit_test(a_debug_build_stops_at_a_move_that_does_not_exist),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
