/* The worker's side of engine.h: every callback is one frame; a token is sent before its
 * callback ends. */
#include "base/errors.h"
#include "tests/unit/worker/support.h"
#include "worker/host.h"

static lr_code vocab(const struct lr_engine_model *model, uint32_t id, const char **bytes,
                     uint32_t *len, uint32_t *flags)
{
    (void)model;
    *bytes = id == 5 ? "five" : "";
    *len = id == 5 ? 4 : 0;
    *flags = 0;
    return id == 5 ? LR_OK : LR_INVALID_ARGUMENT;
}

static const struct lr_engine_api api = {.size = sizeof(api), .vocab = vocab};

struct stage {
    struct worker_pipes pipes;
    struct worker_host host;
};

static void set_stage(struct stage *s)
{
    worker_pipes_init(&s->pipes);
    worker_host_init(&s->host, &s->pipes);
    s->host.api = &api;
    s->host.model = (const struct lr_engine_model *)s; /* never dereferenced */
}

static int clear_stage(struct stage *s)
{
    worker_host_free(&s->host);
    worker_pipes_free(&s->pipes);
    return 0;
}

static int generate(void *arg)
{
    struct stage s;
    struct lr_logprob top[] = {{.token = 5, .logprob = -1}, {.token = 6, .logprob = -2}};
    struct lr_token token = {.size = sizeof(token), .id = 5, .bytes = "five", .len = 4};
    struct lr_usage usage = {
        .size = sizeof(usage), .prompt_tokens = 3, .completion_tokens = 2, .cached_tokens = 1};
    (void)arg;
    set_stage(&s);
    const struct lr_engine_host *h = &s.host.table;
    worker_host_wants_logprobs(&s.host, 2);
    h->on_prefill(h->ctx, 1, 8, 16);
    h->on_token(h->ctx, 1, &token);
    token.logprob = -1;
    token.top = top;
    token.top_count = 2;
    h->on_token(h->ctx, 2, &token);
    h->on_done(h->ctx, 2, LR_FINISH_STOP, &usage, NULL);
    token.top_count = 0;
    token.logprob = 0;
    h->on_token(h->ctx, 2, &token); /* a new request with that number asked for none */
    struct lr_error err = {.code = LR_OUT_OF_VRAM, .text = "full"};
    h->on_done(h->ctx, 1, LR_FINISH_ERROR, NULL, &err);
    worker_host_flush(&s.host); /* as at the end of a step */
    return clear_stage(&s);
}

static struct wire_token token_of(struct place *p)
{
    struct wire_token m;
    assert_int_equal(wire_token_decode(place_expect(p, WIRE_TOKEN).body, &m, NULL), LR_OK);
    return m;
}

static struct wire_done done_of(struct place *p)
{
    struct wire_done m;
    assert_int_equal(wire_done_decode(place_expect(p, WIRE_DONE).body, &m, NULL), LR_OK);
    return m;
}

static void each_callback_is_one_frame_in_order(void **state)
{
    struct place p = place_start(generate, NULL);
    struct wire_prefill prefill;
    (void)state;
    assert_int_equal(wire_prefill_decode(place_expect(&p, WIRE_PREFILL).body, &prefill, NULL),
                     LR_OK);
    assert_int_equal(prefill.request, 1);
    assert_int_equal(prefill.done, 8);
    struct wire_token plain = token_of(&p);
    assert_int_equal(plain.request, 1);
    assert_true(lr_str_eq_z(plain.bytes, "five"));
    assert_false(plain.has_logprob);
    struct wire_token rich = token_of(&p);
    assert_true(rich.has_logprob);
    assert_int_equal(rich.top_count, 2);
    assert_true(lr_str_eq_z(rich.top[0].bytes, "five"));
    assert_int_equal(rich.top[1].bytes.len, 0); /* an id outside of the vocabulary */
    struct wire_done done = done_of(&p);
    assert_int_equal(done.reason, LR_FINISH_STOP);
    assert_int_equal(done.prompt_tokens, 3);
    assert_int_equal(done.completion_tokens, 2);
    assert_int_equal(done.cached_tokens, 1);
    assert_false(token_of(&p).has_logprob);
    done = done_of(&p);
    assert_int_equal(done.error.code, LR_OUT_OF_VRAM);
    assert_string_equal(done.error.text, "full");
    assert_int_equal(place_end(&p), 0);
}

/* ---- an engine tells which error comes ---- */

static void the_error_that_an_engine_tells_of_is_said_by_the_catalogue(void **state)
{
    (void)state;
    struct stage s;
    struct lr_error err;
    const struct lr_error_value values[] = {
        {"limit", "50"}, {"unit", "tokens"}, {"count", "70"}};
    set_stage(&s);
    const struct lr_engine_host *h = &s.host.table;
    assert_true(LR_HOST_HAS(h, tell_error));
    (void)lr_fail(&err, LR_INVALID_ARGUMENT, "far too many words");
    h->tell_error(h->ctx, "prompt_too_long", values, 3);
    worker_host_identify(&s.host, &err);
    assert_string_equal(
        err.text, "the prompt has 70 tokens; the context holds 50 tokens, and at least one "
                  "must be left for the answer: shorten the conversation");
    assert_true(lr_error_is(&err, LR_ERROR_prompt_too_long));
    /* It was that error alone, and what is not known changes nothing. */
    static const char *const ids[] = {NULL, "no_such_error", "prompt_too_long"};
    for (size_t i = 0; i < 3; i++) {
        (void)lr_fail(&err, LR_INVALID_ARGUMENT, "far too many words");
        if (ids[i] != NULL)
            h->tell_error(h->ctx, ids[i], values, 2); /* the last lacks a hole */
        worker_host_identify(&s.host, &err);
        assert_string_equal(err.text, "far too many words");
        assert_int_equal(lr_error_identity_of(&err).len, 0);
    }
    (void)clear_stage(&s);
}

/* The exit status has a bit for each callback after which a frame waits for the next write. */
static int hold_back(void *arg)
{
    struct stage s;
    struct lr_token token = {.size = sizeof(token), .id = 5, .bytes = "five", .len = 4};
    int status = 0;
    (void)arg;
    set_stage(&s);
    const struct lr_engine_host *h = &s.host.table;
    h->on_prefill(h->ctx, 1, 8, 16);
    status |= s.host.out.len != 0 ? 1 : 0;
    h->on_prefill(h->ctx, 1, 16, 16);
    status |= s.host.out.len != 0 ? 2 : 0;
    h->on_token(h->ctx, 1, &token);
    status |= s.host.out.len != 0 ? 4 : 0;
    h->on_done(h->ctx, 1, LR_FINISH_STOP, NULL, NULL);
    status |= s.host.out.len != 0 ? 8 : 0;
    worker_host_enter(&s.host, (uint64_t[]){2}, 1);
    status |= s.host.out.len != 0 ? 16 : 0;
    (void)clear_stage(&s);
    return status;
}

static void only_the_end_and_the_last_prefill_report_wait_for_the_next_write(void **state)
{
    struct place p = place_start(hold_back, NULL);
    (void)state;
    (void)place_expect(&p, WIRE_PREFILL);
    (void)place_expect(&p, WIRE_PREFILL);
    (void)place_expect(&p, WIRE_TOKEN);
    (void)place_expect(&p, WIRE_DONE);
    (void)place_expect(&p, WIRE_ENTER);
    assert_int_equal(place_end(&p), 2 | 8);
}

/* Reports progress until the node no longer listens; the exit status counts the steps. */
static int load(void *arg)
{
    struct stage s;
    int steps = 0;
    (void)arg;
    set_stage(&s);
    const struct lr_engine_host *h = &s.host.table;
    while (h->progress(h->ctx, "read", (uint64_t)steps, 0) == 0)
        steps++;
    return steps > 0 ? 42 : 0;
}

static void a_load_nobody_wants_any_more_is_told_so(void **state)
{
    struct place p = place_start(load, NULL);
    struct wire_loading m;
    struct wire_frame frame;
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(wire_loading_decode(place_expect(&p, WIRE_LOADING).body, &m, NULL),
                         LR_OK);
    assert_true(lr_str_eq_z(m.phase, "read"));
    assert_int_equal(m.done, 2);
    (void)close(p.to);
    p.to = -1;
    while (place_next(&p, &frame)) /* the worker ends by itself */
        assert_int_equal(frame.type, WIRE_LOADING);
    assert_int_equal(place_end(&p), 42);
}

static int log_much(void *arg)
{
    static char text[100000];
    struct stage s;
    (void)arg;
    set_stage(&s);
    memset(text, 'x', sizeof(text) - 1);
    s.host.table.log(s.host.table.ctx, 2, "engine.note", text);
    s.host.table.log(s.host.table.ctx, 1, "engine.note", "short");
    return clear_stage(&s);
}

static void a_long_line_of_an_engine_is_cut(void **state)
{
    struct place p = place_start(log_much, NULL);
    struct wire_log m;
    (void)state;
    assert_int_equal(wire_log_decode(place_expect(&p, WIRE_LOG).body, &m, NULL), LR_OK);
    assert_int_equal(m.level, 2);
    assert_true(m.text.len >= 1024 && m.text.len <= 4096);
    assert_int_equal(wire_log_decode(place_expect(&p, WIRE_LOG).body, &m, NULL), LR_OK);
    assert_true(lr_str_eq_z(m.text, "short"));
    assert_int_equal(place_end(&p), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_that_an_engine_tells_of_is_said_by_the_catalogue),
        cmocka_unit_test(each_callback_is_one_frame_in_order),
        cmocka_unit_test(only_the_end_and_the_last_prefill_report_wait_for_the_next_write),
        cmocka_unit_test(a_load_nobody_wants_any_more_is_told_so),
        cmocka_unit_test(a_long_line_of_an_engine_is_cut),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
