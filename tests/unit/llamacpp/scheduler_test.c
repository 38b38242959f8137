/* tests/unit/llamacpp/scheduler_test.c - which sequence is computed next, without libllama. */
#include "tests/unit/llamacpp/support.h"

#include "engines/llamacpp/scheduler.h"

struct fixture {
    struct llamacpp_plan plan;
    struct llamacpp_scheduler s;
    uint32_t forgotten;
};

static void on_forget(void *ctx, uint32_t slot)
{
    struct fixture *b = ctx;

    assert_true(slot < b->plan.max_sequences);
    b->forgotten++;
}

static void start(struct fixture *b, uint32_t sequences, uint32_t kv_tokens, uint32_t chunk)
{
    *b = (struct fixture){.plan = {.max_sequences = sequences,
                                   .kv_tokens = kv_tokens,
                                   .max_context = kv_tokens,
                                   .prefill_chunk = chunk}};
    assert_true(llamacpp_scheduler_init(&b->s, &b->plan, on_forget, b));
}

static struct engine_sequence *add(struct fixture *b, uint64_t id, uint32_t prompt,
                                   int32_t priority)
{
    static const uint32_t ids[1024];
    struct lr_engine_request request = endless_request(id, NULL, 0, 0);
    struct engine_sequence *seq;
    struct lr_error err;

    request.priority = priority;
    assert_int_equal(
        engine_sequence_create(&request, ids, prompt, b->plan.max_context, 8, &seq, &err),
        LR_OK);
    engine_queue_add(&b->s.queue, seq);
    return seq;
}

/* What the engine does after a decode: a token for every sequence that is computed. */
static void advance(struct fixture *b)
{
    for (struct engine_sequence *seq = b->s.queue.running; seq != NULL; seq = seq->next) {
        seq->computed += seq->take;
        if (seq->take > 0 && seq->computed == seq->count)
            assert_true(engine_sequence_append(seq, 1));
        seq->take = 0;
    }
}

static void test_decoding_goes_on_while_a_prompt_is_read_in_chunks(void **state)
{
    (void)state;
    struct fixture b;
    start(&b, 4, 1000, 10);
    struct engine_sequence *early = add(&b, 1, 5, 0);
    assert_int_equal(llamacpp_scheduler_choose(&b.s), 5);
    advance(&b);
    struct engine_sequence *late = add(&b, 2, 25, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(llamacpp_scheduler_choose(&b.s), 11);
        assert_int_equal(early->take, 1);
        assert_int_equal(late->take, 10);
        advance(&b);
    }
    assert_int_equal(llamacpp_scheduler_choose(&b.s), 6);
    llamacpp_scheduler_deinit(&b.s);
}

static void test_priority_then_arrival_decides_which_request_gets_a_slot(void **state)
{
    (void)state;
    struct fixture b;
    start(&b, 2, 1000, 100);
    struct engine_sequence *first = add(&b, 1, 5, 0), *second = add(&b, 2, 5, 0);
    struct engine_sequence *urgent = add(&b, 3, 5, 7);
    assert_int_equal(llamacpp_scheduler_choose(&b.s), 10);
    assert_int_equal(urgent->state, ENGINE_RUNNING);
    assert_int_equal(first->state, ENGINE_RUNNING);
    assert_int_equal(second->state, ENGINE_QUEUED);
    llamacpp_scheduler_end(&b.s, first);
    assert_int_equal(b.forgotten, 1);
    engine_sequence_destroy(first);
    (void)llamacpp_scheduler_choose(&b.s);
    assert_int_equal(second->state, ENGINE_RUNNING);
    llamacpp_scheduler_deinit(&b.s);
}

static void test_the_last_sequence_is_preempted_when_the_cells_run_out(void **state)
{
    (void)state;
    struct fixture b;
    uint64_t used;
    start(&b, 3, 100, 100);
    struct engine_sequence *first = add(&b, 1, 30, 0), *last = add(&b, 2, 30, 0);
    for (int step = 0; step < 60; step++) {
        (void)llamacpp_scheduler_choose(&b.s);
        used = 0;
        for (const struct engine_sequence *q = b.s.queue.running; q != NULL; q = q->next)
            used += q->count;
        assert_true(used <= 100);
        assert_int_equal(first->state, ENGINE_RUNNING);
        advance(&b);
    }
    assert_int_equal(last->state, ENGINE_QUEUED);
    assert_int_equal(last->computed, 0);
    assert_true(last->count > 30); /* its generated tokens are kept */
    assert_int_equal(b.forgotten, 1);
    llamacpp_scheduler_deinit(&b.s);
}

static void test_a_sequence_that_runs_alone_is_never_preempted(void **state)
{
    (void)state;
    struct fixture b;
    start(&b, 2, 50, 100);
    struct engine_sequence *only = add(&b, 1, 49, 0);
    assert_int_equal(llamacpp_scheduler_choose(&b.s), 49);
    assert_false(llamacpp_scheduler_preempt(&b.s));
    assert_int_equal(only->state, ENGINE_RUNNING);
    llamacpp_scheduler_deinit(&b.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoding_goes_on_while_a_prompt_is_read_in_chunks),
        cmocka_unit_test(test_priority_then_arrival_decides_which_request_gets_a_slot),
        cmocka_unit_test(test_the_last_sequence_is_preempted_when_the_cells_run_out),
        cmocka_unit_test(test_a_sequence_that_runs_alone_is_never_preempted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
