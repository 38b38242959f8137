/* Which sequences are computed when, and that every page is freed. */
#include "tests/unit/serving/support.h"

#include "engines/serving/scheduler.h"

static const struct serving_plan small = {
    .page_tokens = 4,
    .kind_count = KINDS,
    /* windows with both ends, and one chunk */
    .kinds = {{.pages = 16}, {.window = 8, .pages = 3 * (8 / 4 + 2) + 8 / 4}},
    .max_sequences = 3,
    .max_context = 64,
    .prefill_chunk = 8,
    .step_tokens = 11,
};

static struct serving_scheduler start(void)
{
    struct serving_scheduler s;

    assert_int_equal(serving_scheduler_init(&s, &small, NULL), LR_OK);
    return s;
}

static struct engine_sequence *add(struct serving_scheduler *s, uint64_t id, uint32_t prompt,
                                   int32_t priority)
{
    static const uint32_t ids[64];
    struct lr_engine_request r = plain_request(id, ids, prompt, 0);
    struct engine_sequence *seq;

    r.priority = priority;
    assert_int_equal(
        engine_sequence_create(&r, ids, prompt, small.max_context, 100, &seq, NULL), LR_OK);
    engine_queue_add(&s->queue, seq);
    return seq;
}

/* A step in which every sampled sequence gets a token. */
static uint32_t step(struct serving_scheduler *s)
{
    uint32_t tokens = serving_scheduler_choose(s);

    serving_scheduler_advance(s, 0);
    for (struct engine_sequence *q = s->queue.running; q != NULL; q = q->next)
        if (q->computed == q->count)
            assert_true(engine_sequence_append(q, 1));
    return tokens;
}

static void end(struct serving_scheduler *s, struct engine_sequence *seq)
{
    serving_scheduler_end(s, seq);
    engine_sequence_destroy(seq);
}

static void expect_all_free(const struct serving_scheduler *s)
{
    for (int kind = 0; kind < KINDS; kind++)
        assert_int_equal(s->cache.pages[kind].free_count, s->cache.pages[kind].total);
}

static void prompts_go_in_chunks_beside_decoding(void **state)
{
    struct serving_scheduler s = start();

    (void)state;
    struct engine_sequence *a = add(&s, 1, 3, 0);
    assert_int_equal(step(&s), 3);
    assert_true(engine_sequence_decodes(a));
    struct engine_sequence *b = add(&s, 2, 20, 0);
    assert_int_equal(step(&s), 1 + 8);
    assert_int_equal(b->computed, 8);
    assert_int_equal(step(&s), 1 + 8);
    assert_int_equal(step(&s), 1 + 4);
    assert_true(engine_sequence_decodes(b));
    assert_int_equal(step(&s), 2);
    end(&s, a);
    end(&s, b);
    expect_all_free(&s);
    serving_scheduler_deinit(&s);
}

/* Tokens of the next step, which takes this time. */
static uint32_t chunk_of(struct serving_scheduler *s, uint64_t step_ns)
{
    uint32_t chosen = serving_scheduler_choose(s);

    serving_scheduler_advance(s, step_ns);
    return chosen;
}

static void where_more_rows_are_slower_every_sequence_waits_a_step_in_turn(void **state)
{
    struct serving_scheduler s = start();
    struct engine_sequence *all[3];
    uint32_t before[3];

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        all[i] = add(&s, i + 1, 2, 0);
    assert_int_equal(step(&s), 6);
    assert_int_equal(step(&s), 3);
    s.plan.dips[0] = (struct serving_dip){.rows = 2, .enough = 4};
    for (int i = 0; i < 3; i++)
        before[i] = all[i]->count;
    for (int i = 0; i < 6; i++)
        assert_int_equal(step(&s), 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(all[i]->count - before[i], 4);
    end(&s, all[0]);
    assert_int_equal(step(&s), 2);
    end(&s, all[1]);
    end(&s, all[2]);
    serving_scheduler_deinit(&s);
}

static void the_chunk_follows_the_time_of_the_steps(void **state)
{
    struct serving_plan plan = small;
    struct serving_scheduler s;

    (void)state;
    plan.least_chunk = 2;
    assert_int_equal(serving_scheduler_init(&s, &plan, NULL), LR_OK);
    struct engine_sequence *a = add(&s, 1, 50, 0);
    assert_int_equal(chunk_of(&s, 0), 2);
    assert_int_equal(chunk_of(&s, 0), 4);
    assert_int_equal(chunk_of(&s, 0), 8);
    assert_int_equal(chunk_of(&s, UINT64_MAX), 8); /* never more than the plan's */
    assert_int_equal(chunk_of(&s, UINT64_MAX), 4);
    assert_int_equal(chunk_of(&s, UINT64_MAX), 2);
    assert_int_equal(chunk_of(&s, 0), 2); /* never less than the least */
    end(&s, a);
    serving_scheduler_deinit(&s);
}

static void a_short_prompt_passes_a_long_one_and_both_are_computed(void **state)
{
    struct serving_scheduler s = start();
    struct engine_sequence *a = add(&s, 1, 40, 0);

    (void)state;
    assert_int_equal(step(&s), 8);
    struct engine_sequence *b = add(&s, 2, 6, 0);
    assert_int_equal(step(&s), 8);
    assert_true(engine_sequence_decodes(b));
    assert_int_equal(a->computed, 8 + 2); /* the oldest gets a quarter */
    assert_int_equal(step(&s), 1 + 8);
    end(&s, a);
    end(&s, b);
    expect_all_free(&s);
    serving_scheduler_deinit(&s);
}

static void the_queue_goes_by_priority_and_then_by_arrival(void **state)
{
    struct serving_scheduler s = start();
    struct engine_sequence *q[5];

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        q[i] = add(&s, i, 4, i == 4 ? 1 : 0);
    serving_scheduler_choose(&s);
    assert_int_equal(q[4]->state, ENGINE_RUNNING); /* came last, but has a higher priority */
    assert_int_equal(q[4]->take, 4);
    assert_int_equal(q[0]->take, 4);
    assert_int_equal(q[1]->take, 0);              /* running, but the chunk is used up */
    assert_int_equal(q[2]->state, ENGINE_QUEUED); /* three slots */
    for (uint32_t i = 0; i < 5; i++)
        end(&s, q[i]);
    expect_all_free(&s);
    serving_scheduler_deinit(&s);
}

static void a_sliding_layer_keeps_its_window_and_nothing_behind_it(void **state)
{
    struct serving_scheduler s = start();
    struct engine_sequence *a = add(&s, 1, 30, 0);

    (void)state;
    while (a->count < 60) {
        uint32_t from = a->computed;
        serving_scheduler_choose(&s);
        /* Every key that a query of this step sees has its pages. */
        uint32_t oldest = from >= 7 ? from - 7 : 0;
        for (uint32_t p = oldest; p < from + a->take; p++)
            assert_true(s.slots[a->slot].tables[KIND_WINDOW][p / 4] != SERVING_NO_PAGE);
        for (uint32_t p = 0; p < from + a->take; p++)
            assert_true(s.slots[a->slot].tables[KIND_FULL][p / 4] != SERVING_NO_PAGE);
        serving_scheduler_advance(&s, 0);
        const struct serving_pages *windowed = &s.cache.pages[KIND_WINDOW];
        uint32_t held = windowed->total - windowed->free_count;
        assert_true(held <= 4); /* 8 keys in pages of 4, both ends partly used, one ahead */
        if (a->computed == a->count)
            assert_true(engine_sequence_append(a, 1));
    }
    assert_int_equal(s.slots[a->slot].tables[KIND_WINDOW][0], SERVING_NO_PAGE);
    end(&s, a);
    expect_all_free(&s);
    serving_scheduler_deinit(&s);
}

static void when_pages_run_out_the_last_sequence_is_preempted_and_continues_later(void **state)
{
    struct serving_scheduler s = start();
    struct engine_sequence *a = add(&s, 1, 20, 0), *b = add(&s, 2, 20, 0);
    bool stepped_aside = false;

    (void)state;
    /* 16 pages hold 64 ids; together they want up to 120. */
    while (a->count < 60) {
        step(&s);
        stepped_aside = stepped_aside || b->state == ENGINE_QUEUED;
        assert_int_equal(a->state, ENGINE_RUNNING);
        if (b->state == ENGINE_QUEUED)
            assert_int_equal(b->computed, 0);
    }
    assert_true(stepped_aside);
    uint32_t kept = b->count;
    end(&s, a);
    while (b->count < 60)
        assert_true(step(&s) > 0);
    assert_true(kept >= 20 && kept < 60);
    end(&s, b);
    expect_all_free(&s);
    serving_scheduler_deinit(&s);
}

static void a_request_that_fits_alone_waits_for_room_and_is_never_lost(void **state)
{
    struct serving_scheduler s = start();
    struct engine_sequence *a = add(&s, 1, 40, 0), *b = add(&s, 2, 40, 0);

    (void)state;
    step(&s);
    assert_int_equal(a->state, ENGINE_RUNNING);
    assert_int_equal(b->state, ENGINE_QUEUED);
    end(&s, a);
    step(&s);
    assert_int_equal(b->state, ENGINE_RUNNING);
    end(&s, b);
    expect_all_free(&s);
    serving_scheduler_deinit(&s);
}

static void random_arrivals_and_ends_never_lose_a_page(void **state)
{
    struct serving_scheduler s = start();
    struct engine_sequence *live[12] = {0};
    uint32_t seed = 7;

    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        seed = seed * 1664525u + 1013904223u;
        struct engine_sequence **at = &live[(seed >> 8) % 12];
        if (*at == NULL) {
            *at = add(&s, i, 1 + (seed >> 16) % 40, (int32_t)(seed >> 24) % 2);
        } else if ((seed >> 20) % 3 == 0 || (*at)->count > 60) {
            end(&s, *at);
            *at = NULL;
        }
        for (uint32_t k = 0; k < 12; k++)
            if (live[k] != NULL && live[k]->count > 62) {
                end(&s, live[k]);
                live[k] = NULL;
            }
        if (s.queue.live > 0)
            assert_true(step(&s) > 0); /* work is always found */
        uint32_t full = s.cache.pages[KIND_FULL].free_count;
        for (struct engine_sequence *q = s.queue.running; q != NULL; q = q->next)
            full += s.slots[q->slot].page_count;
        assert_int_equal(full, s.cache.pages[KIND_FULL].total);
    }
    for (uint32_t k = 0; k < 12; k++)
        if (live[k] != NULL)
            end(&s, live[k]);
    expect_all_free(&s);
    assert_int_equal(s.queue.live, 0);
    serving_scheduler_deinit(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_go_in_chunks_beside_decoding),
        cmocka_unit_test(where_more_rows_are_slower_every_sequence_waits_a_step_in_turn),
        cmocka_unit_test(the_chunk_follows_the_time_of_the_steps),
        cmocka_unit_test(a_short_prompt_passes_a_long_one_and_both_are_computed),
        cmocka_unit_test(the_queue_goes_by_priority_and_then_by_arrival),
        cmocka_unit_test(a_sliding_layer_keeps_its_window_and_nothing_behind_it),
        cmocka_unit_test(when_pages_run_out_the_last_sequence_is_preempted_and_continues_later),
        cmocka_unit_test(a_request_that_fits_alone_waits_for_room_and_is_never_lost),
        cmocka_unit_test(random_arrivals_and_ends_never_lose_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
