/* Many requests, random cancels: every request ends once, every page is freed.
 *
 * LR_STRESS_SECONDS sets the duration (3 by default; 60 in the long tests).
 */
#include "tests/unit/gptoss/support.h"

#include "base/clock.h"

enum { LIVE = 32 };

struct stress {
    struct lr_engine_model *model;
    struct {
        uint64_t id; /* 0: free */
        uint32_t tokens;
    } slots[LIVE];
    uint64_t done, tokens, cancelled;
};

static void on_token(void *ctx, uint64_t id, const struct lr_token *token)
{
    struct stress *s = ctx;

    (void)token;
    assert_int_equal(s->slots[id % LIVE].id, id);
    s->slots[id % LIVE].tokens++;
    s->tokens++;
}

static void on_done(void *ctx, uint64_t id, enum lr_finish reason, const struct lr_usage *usage,
                    const struct lr_error *error)
{
    struct stress *s = ctx;

    (void)error;
    assert_int_equal(s->slots[id % LIVE].id, id);
    assert_int_equal(usage->completion_tokens, s->slots[id % LIVE].tokens);
    assert_true(reason != LR_FINISH_ERROR);
    s->cancelled += reason == LR_FINISH_CANCELLED;
    s->slots[id % LIVE].id = 0;
    s->done++;
}

static uint32_t next_word(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void submit_one(struct stress *s, uint64_t id, uint32_t *seed)
{
    uint32_t ids[300], count = 1 + next_word(seed) % (next_word(seed) % 8 == 0 ? 300 : 40);
    struct lr_error err = {0};

    for (uint32_t i = 0; i < count; i++)
        ids[i] = next_word(seed) % 2000;
    struct lr_engine_request request = plain_request(id, ids, count, 1 + next_word(seed) % 60);
    request.sampling.temperature = (float)(next_word(seed) % 3) * 0.7f;
    request.sampling.top_k = next_word(seed) % 4 * 20;
    request.sampling.seed = id;
    request.priority = (int32_t)(next_word(seed) % 3) - 1;
    s->slots[id % LIVE].id = id;
    s->slots[id % LIVE].tokens = 0;
    if (gptoss_engine_api()->submit(s->model, &request, &err) != LR_OK)
        fail_msg("%s", err.text);
}

static void thirty_two_requests_with_random_cancels_give_every_page_back(void **state)
{
    const struct lr_engine_api *api = gptoss_engine_api();
    /* Fewer pages and slots than requests: requests wait, are preempted, and resume. */
    const struct lr_engine_options options = {.size = sizeof(options),
                                              .max_tokens = 1024,
                                              .max_context = 512,
                                              .max_sequences = 12,
                                              .prefill_chunk = 24};
    struct stress s = {0};
    const struct lr_engine_host host = {
        .size = sizeof(host), .ctx = &s, .on_token = on_token, .on_done = on_done};
    const char *text = getenv("LR_STRESS_SECONDS");
    uint64_t seconds = text != NULL ? strtoull(text, NULL, 10) : 3, round = 1;
    uint64_t until = lr_clock_ms(NULL) + seconds * 1000;
    struct lr_engine_stats st = {.size = sizeof(st)};
    struct lr_error err = {0};
    uint32_t seed = 42;
    int32_t busy;

    (void)state;
    assert_int_equal(api->open(&host, DEMO_MODEL, &options, &s.model, &err), LR_OK);
    while (lr_clock_ms(NULL) < until) {
        for (uint32_t i = 0; i < LIVE; i++)
            if (s.slots[i].id == 0)
                submit_one(&s, round++ * LIVE + i, &seed);
        if (next_word(&seed) % 3 == 0)
            api->cancel(s.model, s.slots[next_word(&seed) % LIVE].id);
        assert_int_equal(api->step(s.model, &busy, &err), LR_OK);
        assert_int_equal(busy, 1);
    }
    for (uint32_t i = 0; i < LIVE; i++)
        if (s.slots[i].id != 0 && i % 2 == 0)
            api->cancel(s.model, s.slots[i].id);
    for (busy = 1; busy;)
        assert_int_equal(api->step(s.model, &busy, &err), LR_OK);
    for (uint32_t i = 0; i < LIVE; i++)
        assert_int_equal(s.slots[i].id, 0);
    api->stats(s.model, &st);
    assert_int_equal(st.pages_in_use, 0);
    assert_int_equal(st.kv_bytes_in_use, 0);
    assert_int_equal(st.sequences, 0);
    assert_true(s.cancelled > 0 && s.done > s.cancelled);
    print_message("%llu requests, %llu cancelled, %llu tokens\n", (unsigned long long)s.done,
                  (unsigned long long)s.cancelled, (unsigned long long)s.tokens);
    api->close(s.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thirty_two_requests_with_random_cancels_give_every_page_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
