/* A worker's life with a real plugin (echo), frame by frame, and its answers to frames at the
 * wrong time. */
#include "tests/unit/worker/support.h"
#include "wire/generate.h"
#include "wire/open.h"

#define LIBRARY LR_BINARY_DIR "/testing/engines/echo/echo.so"

static int set_up(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    return access(LIBRARY, R_OK);
}

static int run(void *arg)
{
    struct worker_config config = {.parent = getppid(), .is_probe = arg != NULL};
    return worker_run(&config);
}

static struct place start_worker(bool is_probe)
{
    static int yes;
    struct place p = place_start(run, is_probe ? &yes : NULL);
    struct wire_hello hello;
    assert_int_equal(wire_hello_decode(place_expect(&p, WIRE_HELLO).body, &hello, NULL), LR_OK);
    assert_int_equal(hello.pid, p.pid);
    assert_int_equal(hello.abi, LR_ENGINE_ABI);
    return p;
}

static void send_open(const struct place *p, enum wire_type type, uint32_t abi,
                      const char *extra)
{
    struct wire_open open = {.library = LIBRARY,
                             .engine_id = "echo",
                             .engine_version = "1.0.0",
                             .abi_version = abi,
                             .model_dir = "",
                             .options = {.size = sizeof(open.options), .extra_json = extra}};
    struct lr_buf out;
    lr_buf_init(&out, 1 << 16);
    wire_open_encode(&out, type, &open);
    place_send(p, lr_buf_str(&out));
    lr_buf_free(&out);
}

static void send_constrained(const struct place *p, uint64_t id, const char *text,
                             const char *constraint)
{
    struct lr_segment segment = {.text = text, .len = strlen(text)};
    struct wire_generate g;
    struct lr_buf out;
    wire_generate_defaults(&g);
    g.id = id;
    g.constraint = lr_str_z(constraint);
    g.segments = &segment;
    g.segment_count = 1;
    lr_buf_init(&out, 1 << 16);
    wire_submit_encode(&out, &g);
    place_send(p, lr_buf_str(&out));
    lr_buf_free(&out);
}

static void send_submit(const struct place *p, uint64_t id, const char *text)
{
    send_constrained(p, id, text, "");
}

/* The next frame of this type; others are skipped, except for a failure. */
static struct wire_frame skip_to(struct place *p, enum wire_type type)
{
    struct wire_frame frame = {0};
    do {
        assert_true(place_next(p, &frame));
        assert_int_not_equal(frame.type, WIRE_FAILED);
    } while (frame.type != type);
    return frame;
}

static void send_empty(const struct place *p, enum wire_type type)
{
    struct lr_buf out;
    lr_buf_init(&out, 64);
    wire_empty_encode(&out, type);
    place_send(p, lr_buf_str(&out));
    lr_buf_free(&out);
}

static void expect_failed(struct place *p, lr_code code)
{
    struct wire_frame frame = {0};
    struct wire_error m;
    while (place_next(p, &frame) && frame.type != WIRE_FAILED)
        continue;
    assert_int_equal(frame.type, WIRE_FAILED);
    assert_int_equal(wire_error_decode(frame.body, &m, NULL), LR_OK);
    assert_int_equal(m.error.code, code);
    assert_int_not_equal(m.error.text[0], '\0');
    assert_false(place_next(p, &frame)); /* and it exits */
    assert_int_equal(place_end(p), 1);
}

static void it_opens_generates_and_closes(void **state)
{
    struct place p = start_worker(false);
    struct wire_done done;
    char text[8] = "";
    (void)state;
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, NULL);
    (void)skip_to(&p, WIRE_LOADING);
    (void)skip_to(&p, WIRE_OPENED);
    send_submit(&p, 77, "abc");
    for (int i = 0; i < 3; i++) {
        struct wire_token m;
        assert_int_equal(wire_token_decode(skip_to(&p, WIRE_TOKEN).body, &m, NULL), LR_OK);
        assert_int_equal(m.request, 77);
        (void)strncat(text, m.bytes.ptr, m.bytes.len);
    }
    assert_string_equal(text, "abc");
    assert_int_equal(wire_done_decode(skip_to(&p, WIRE_DONE).body, &done, NULL), LR_OK);
    assert_int_equal(done.reason, LR_FINISH_STOP);
    send_empty(&p, WIRE_CLOSE);
    assert_int_equal(place_finish(&p), 0);
}

static void a_cancelled_request_gives_its_pages_back_and_says_so(void **state)
{
    struct place p = start_worker(false);
    struct lr_engine_stats stats = {0};
    struct lr_buf out;
    (void)state;
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, "{\"step_ms\":5}");
    (void)skip_to(&p, WIRE_OPENED);
    send_submit(&p, 1, "a long answer, of which only the beginning is wanted");
    (void)skip_to(&p, WIRE_TOKEN);
    lr_buf_init(&out, 64);
    wire_u64_encode(&out, WIRE_CANCEL, 1);
    place_send(&p, lr_buf_str(&out));
    lr_buf_free(&out);
    (void)skip_to(&p, WIRE_DONE);
    assert_int_equal(wire_tick_decode(skip_to(&p, WIRE_TICK).body, &stats, NULL), LR_OK);
    assert_int_equal(stats.pages_in_use, 0);
    assert_int_equal(stats.sequences, 0);
    assert_int_equal(place_finish(&p), 0); /* the end of the stream also ends the worker */
}

/* Prompts beyond the context: the worker has read one when it refuses it. */
static void long_prompts_are_read_before_the_next_step_however_small_the_pipe_is(void **state)
{
    enum { PROMPTS = 8, BYTES = 300000 };
    struct place p = start_worker(false);
    struct lr_segment segment = {.len = BYTES};
    struct wire_frame frame = {0};
    uint32_t tokens = 0, refused = 0;
    struct lr_buf out;
    char *text = malloc(BYTES);
    (void)state;
    assert_non_null(text);
    memset(text, 'x', BYTES);
    segment.text = text;
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, "{\"step_ms\":200}");
    (void)skip_to(&p, WIRE_OPENED);
    send_submit(&p, 1, "an answer with so many letters that it does not end before the test");
    (void)skip_to(&p, WIRE_TOKEN);
    lr_buf_init(&out, PROMPTS * (BYTES + 4096));
    for (uint64_t id = 2; id < 2 + PROMPTS; id++) {
        struct wire_generate g;
        wire_generate_defaults(&g);
        g.id = id;
        g.segments = &segment;
        g.segment_count = 1;
        wire_submit_encode(&out, &g);
    }
    place_send(&p, lr_buf_str(&out));
    while (refused < PROMPTS) {
        assert_true(place_next(&p, &frame));
        tokens += frame.type == WIRE_TOKEN;
        refused += frame.type == WIRE_DONE;
    }
    /* A pipe holds a fifth of a prompt; with one pipe a step this took 37 steps. */
    if (tokens > 18)
        fail_msg("%u steps passed before %u prompts were read", tokens, PROMPTS);
    lr_buf_free(&out);
    free(text);
    assert_int_equal(place_finish(&p), 0);
}

static void a_limit_for_kv_memory_is_obeyed_and_answered(void **state)
{
    struct place p = start_worker(false);
    struct lr_engine_stats before = {0}, after = {0};
    uint64_t limit = 0;
    struct lr_buf out;
    (void)state;
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, NULL);
    assert_int_equal(wire_tick_decode(skip_to(&p, WIRE_TICK).body, &before, NULL), LR_OK);
    assert_true(before.kv_bytes_reclaimable > 0);
    lr_buf_init(&out, 64);
    wire_u64_encode(&out, WIRE_LIMIT_KV, 0);
    place_send(&p, lr_buf_str(&out));
    lr_buf_free(&out);
    assert_int_equal(wire_tick_decode(skip_to(&p, WIRE_TICK).body, &after, NULL), LR_OK);
    assert_int_equal(after.kv_bytes, before.kv_bytes - before.kv_bytes_reclaimable);
    assert_int_equal(wire_u64_decode(skip_to(&p, WIRE_LIMITED).body, &limit, NULL), LR_OK);
    assert_int_equal(limit, 0);
    assert_int_equal(place_finish(&p), 0);
}

static void a_constraint_that_cannot_be_kept_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *constraint, *says;
        lr_code code;
    } cases[] = {
        {"{}", "\"format\"", LR_INVALID_ARGUMENT},
        {"{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"format\":\"regex\"}}",
         "\"regex\"", LR_UNSUPPORTED},
        {"{\"format\":\"harmony\",\"answer\":\"object\"}", "<|constrain|>", LR_UNSUPPORTED},
        {"{\"format\":\"plain\",\"answer\":\"object\"}", "cannot be constrained",
         LR_UNSUPPORTED}, /* by the engine */
    };
    struct place p = start_worker(false);
    (void)state;
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, NULL);
    (void)skip_to(&p, WIRE_OPENED);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire_done done;
        send_constrained(&p, 7 + i, "abc", cases[i].constraint);
        assert_int_equal(wire_done_decode(skip_to(&p, WIRE_DONE).body, &done, NULL), LR_OK);
        assert_int_equal(done.reason, LR_FINISH_ERROR);
        assert_int_equal(done.error.code, cases[i].code);
        if (strstr(done.error.text, cases[i].says) == NULL)
            fail_msg("%s", done.error.text);
    }
    send_submit(&p, 7, "abc"); /* the worker lives on */
    (void)skip_to(&p, WIRE_TOKEN);
    (void)skip_to(&p, WIRE_DONE);
    assert_int_equal(place_finish(&p), 0);
}

/* The cancel comes before, while or after the constraint is compiled. */
static void a_constrained_request_that_is_cancelled_ends_once(void **state)
{
    enum { REQUESTS = 20 };
    struct place p = start_worker(false);
    uint32_t ended[REQUESTS + 1] = {0};
    struct lr_buf out;
    (void)state;
    lr_buf_init(&out, 64);
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, NULL);
    (void)skip_to(&p, WIRE_OPENED);
    for (uint64_t id = 0; id < REQUESTS; id++) {
        send_constrained(&p, id, "abc", "{\"format\":\"plain\",\"answer\":\"object\"}");
        wire_u64_encode(&out, WIRE_CANCEL, id);
        place_send(&p, lr_buf_str(&out));
        lr_buf_clear(&out);
    }
    send_submit(&p, REQUESTS, "abc");
    for (uint32_t i = 0; i <= REQUESTS; i++) {
        struct wire_done done;
        assert_int_equal(wire_done_decode(skip_to(&p, WIRE_DONE).body, &done, NULL), LR_OK);
        assert_in_range(done.request, 0, REQUESTS);
        assert_int_equal(++ended[done.request], 1);
        if (done.request == REQUESTS)
            assert_int_equal(done.reason, LR_FINISH_STOP);
        else /* the engine has no constrained output */
            assert_true(done.reason == LR_FINISH_CANCELLED || done.reason == LR_FINISH_ERROR);
    }
    lr_buf_free(&out);
    assert_int_equal(place_finish(&p), 0);
}

static void a_probe_answers_one_question_and_leaves(void **state)
{
    struct place p = start_worker(true);
    struct lr_engine_need need = {0};
    struct wire_frame frame;
    (void)state;
    send_open(&p, WIRE_PROBE, LR_ENGINE_ABI, "{\"weights_bytes\":123456789}");
    assert_int_equal(wire_need_decode(place_expect(&p, WIRE_PROBED).body, &need, NULL), LR_OK);
    assert_int_equal(need.weights, 123456789);
    assert_true(need.total > need.weights);
    assert_false(place_next(&p, &frame));
    assert_int_equal(place_end(&p), 0);
}

static void what_cannot_be_opened_fails_with_the_reason(void **state)
{
    (void)state;
    struct place p = start_worker(false);
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI + 1, NULL);
    expect_failed(&p, LR_ABI_MISMATCH);
    p = start_worker(false);
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, "{\"no_such_option\":1}");
    expect_failed(&p, LR_INVALID_ARGUMENT);
    p = start_worker(false);
    send_empty(&p, WIRE_OPEN); /* the body is not JSON */
    expect_failed(&p, LR_INVALID_ARGUMENT);
    p = start_worker(true); /* a probe cannot open a model */
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, NULL);
    expect_failed(&p, LR_INTERNAL);
    p = start_worker(false); /* a worker cannot open two models */
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, NULL);
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, NULL);
    expect_failed(&p, LR_INTERNAL);
}

static void frames_at_the_wrong_time_are_refused_or_passed_over(void **state)
{
    struct place p = start_worker(false);
    struct wire_done done;
    (void)state;
    send_submit(&p, 3, "too early");
    assert_int_equal(wire_done_decode(skip_to(&p, WIRE_DONE).body, &done, NULL), LR_OK);
    assert_int_equal(done.reason, LR_FINISH_ERROR);
    assert_int_equal(done.request, 3);
    send_empty(&p, WIRE_CANCEL);        /* without a number */
    send_empty(&p, (enum wire_type)99); /* of a later version */
    send_open(&p, WIRE_OPEN, LR_ENGINE_ABI, NULL);
    (void)skip_to(&p, WIRE_OPENED);
    send_empty(&p, WIRE_CLOSE);
    assert_int_equal(place_finish(&p), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_opens_generates_and_closes),
        cmocka_unit_test(a_cancelled_request_gives_its_pages_back_and_says_so),
        cmocka_unit_test(long_prompts_are_read_before_the_next_step_however_small_the_pipe_is),
        cmocka_unit_test(a_limit_for_kv_memory_is_obeyed_and_answered),
        cmocka_unit_test(a_constraint_that_cannot_be_kept_is_refused_with_the_reason),
        cmocka_unit_test(a_constrained_request_that_is_cancelled_ends_once),
        cmocka_unit_test(a_probe_answers_one_question_and_leaves),
        cmocka_unit_test(what_cannot_be_opened_fails_with_the_reason),
        cmocka_unit_test(frames_at_the_wrong_time_are_refused_or_passed_over),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
