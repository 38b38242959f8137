/* How large the prompt chunk of a step is, and which prompts get it: the rules one by one, and
 * a simulation in virtual time with step durations like those of a large GPU. */
#include "tests/unit/gptoss/support.h"

#include "engines/gptoss/model/loader.h"
#include "engines/serving/scheduler.h"
#include "tests/unit/serving/kinds.h"

enum { MS = 1000 * 1000, LONGEST = 131072 };

/* ---- pace ---- */

static struct serving_pace pace_of(uint32_t least, uint32_t most)
{
    struct serving_pace p;

    serving_pace_init(&p, least, most, 25, SERVING_DEPTH_IS_FREE);
    return p;
}

static uint64_t tokens_of(const struct serving_pace *p, enum serving_pace_kind kind)
{
    return p->work[kind] / serving_pace_work(p, 0, 1);
}

static void step_of(struct serving_pace *p, enum serving_pace_kind kind, uint32_t tokens,
                    bool is_full, uint64_t ns)
{
    serving_pace_measured(p, kind, serving_pace_work(p, 0, tokens), is_full, ns);
}

static void a_chunk_grows_while_its_steps_are_shorter_than_the_aim(void **state)
{
    struct serving_pace p = pace_of(64, 2048);

    (void)state;
    assert_int_equal(tokens_of(&p, SERVING_PACE_GAP), 64);
    step_of(&p, SERVING_PACE_GAP, 64, true, 5 * MS); /* a factor of two at most */
    assert_int_equal(tokens_of(&p, SERVING_PACE_GAP), 128);
    step_of(&p, SERVING_PACE_GAP, 128, true, 16 * MS); /* the aim is 20 ms */
    assert_int_equal(tokens_of(&p, SERVING_PACE_GAP), 160);
    assert_int_equal(tokens_of(&p, SERVING_PACE_ALONE), 128); /* such a step was short enough */
    step_of(&p, SERVING_PACE_GAP, 10, false, 1 * MS);
    assert_int_equal(tokens_of(&p, SERVING_PACE_GAP), 160); /* a small step says nothing */
}

static void a_chunk_shrinks_when_its_steps_are_longer_than_the_aim(void **state)
{
    struct serving_pace p = pace_of(64, 2048);

    (void)state;
    for (uint32_t n = 64; n < 1024; n *= 2)
        step_of(&p, SERVING_PACE_GAP, n, true, MS);
    assert_int_equal(tokens_of(&p, SERVING_PACE_GAP), 1024);
    step_of(&p, SERVING_PACE_GAP, 1024, true, 25 * MS);
    assert_in_range(tokens_of(&p, SERVING_PACE_GAP), 818, 820);
    step_of(&p, SERVING_PACE_GAP, 819, true, 9000ull * MS); /* one slow step is not believed */
    assert_in_range(tokens_of(&p, SERVING_PACE_GAP), 408, 410);
    for (int i = 0; i < 20; i++)
        step_of(&p, SERVING_PACE_GAP, 10, false, 30 * MS);
    /* A step cannot be shorter than the target: the smallest chunk. */
    assert_int_equal(tokens_of(&p, SERVING_PACE_GAP), 64);
}

static void
the_first_prompt_has_the_chunk_that_the_device_begins_with_and_streams_the_least(void **state)
{
    struct serving_pace p;

    (void)state;
    serving_pace_init(&p, 64, 2048, 25, 10000);
    serving_pace_begin(&p, 2048);
    assert_int_equal(p.work[SERVING_PACE_ALONE], serving_pace_work(&p, 0, 2048));
    assert_int_equal(p.work[SERVING_PACE_SEVERAL], serving_pace_work(&p, 0, 2048));
    assert_int_equal(p.work[SERVING_PACE_GAP], serving_pace_work(&p, 0, 64));
    serving_pace_begin(&p, 512);
    assert_int_equal(p.work[SERVING_PACE_ALONE], serving_pace_work(&p, 0, 512));
    serving_pace_begin(&p, 0);
    assert_int_equal(p.work[SERVING_PACE_ALONE], serving_pace_work(&p, 0, 64));
    serving_pace_begin(&p, 4096); /* more than a step can have */
    assert_int_equal(p.work[SERVING_PACE_ALONE], serving_pace_work(&p, 0, 2048));
    /* It was too much after all. */
    serving_pace_measured(&p, SERVING_PACE_ALONE, p.work[SERVING_PACE_ALONE], true,
                          10000000000);
    assert_int_equal(p.work[SERVING_PACE_ALONE], serving_pace_work(&p, 0, 1024));
}

static void a_larger_target_gap_gives_longer_steps_and_larger_chunks(void **state)
{
    struct serving_pace small, large;

    (void)state;
    serving_pace_init(&small, 64, 2048, 25, SERVING_DEPTH_IS_FREE);
    serving_pace_init(&large, 64, 2048, 100, SERVING_DEPTH_IS_FREE);
    for (int kind = 0; kind < SERVING_PACE_KINDS; kind++)
        assert_int_equal(large.aim_ns[kind], 4 * small.aim_ns[kind]);
    for (uint32_t n = 64; n < 512; n *= 2) { /* steps of 10 ms for 64 tokens */
        step_of(&small, SERVING_PACE_GAP, (uint32_t)tokens_of(&small, SERVING_PACE_GAP), true,
                tokens_of(&small, SERVING_PACE_GAP) * 10 * MS / 64);
        step_of(&large, SERVING_PACE_GAP, (uint32_t)tokens_of(&large, SERVING_PACE_GAP), true,
                tokens_of(&large, SERVING_PACE_GAP) * 10 * MS / 64);
    }
    assert_int_equal(tokens_of(&small, SERVING_PACE_GAP), 128); /* 20 ms */
    assert_int_equal(tokens_of(&large, SERVING_PACE_GAP), 512); /* 80 ms */
}

static void a_chunk_that_the_operator_set_is_fixed(void **state)
{
    struct serving_pace p = pace_of(0, 512);

    (void)state;
    step_of(&p, SERVING_PACE_GAP, 512, true, 900ull * MS);
    assert_int_equal(tokens_of(&p, SERVING_PACE_GAP), 512);
    step_of(&p, SERVING_PACE_ALONE, 512, true, MS);
    assert_int_equal(tokens_of(&p, SERVING_PACE_ALONE), 512);
}

static void the_kind_of_a_step_depends_on_who_waits_for_its_end(void **state)
{
    struct serving_pace p = pace_of(64, 2048);
    uint64_t token = serving_pace_work(&p, 0, 1);
    struct serving_crowd alone = {.live = 1, .least_work = 9000 * token},
                         stream = {.live = 2, .decoding = 1, .least_work = 9000 * token},
                         several = {.live = 2, .least_work = 9000 * token},
                         ending = {.live = 2, .least_work = 48 * token};

    (void)state;
    assert_int_equal(serving_pace_kind(&p, &alone), SERVING_PACE_ALONE);
    assert_int_equal(serving_pace_kind(&p, &stream), SERVING_PACE_GAP);
    assert_int_equal(serving_pace_kind(&p, &several), SERVING_PACE_SEVERAL);
    assert_int_equal(serving_pace_kind(&p, &ending), SERVING_PACE_GAP);
}

/* ---- share ---- */

static struct engine_sequence prompt_of(uint64_t arrival, uint32_t computed, uint32_t left)
{
    return (struct engine_sequence){
        .arrival = arrival, .computed = computed, .count = computed + left};
}

static struct serving_shared share_out(const struct serving_pace *p,
                                       struct engine_sequence *prompts, uint32_t count)
{
    struct serving_claim claims[8];

    for (uint32_t i = 0; i < count; i++)
        claims[i] = serving_claim_of(p, &prompts[i], UINT32_MAX);
    return serving_share(p, SERVING_PACE_GAP, claims, count);
}

static void a_short_prompt_passes_long_ones_and_the_oldest_gets_a_quarter(void **state)
{
    struct serving_pace p = pace_of(0, 100);
    struct engine_sequence prompts[] = {prompt_of(1, 0, 9000), prompt_of(2, 500, 400),
                                        prompt_of(3, 0, 60)};

    (void)state;
    struct serving_shared shared = share_out(&p, prompts, 3);
    assert_int_equal(prompts[0].take, 25);
    assert_int_equal(prompts[1].take, 15);
    assert_int_equal(prompts[2].take, 60);
    assert_int_equal(shared.tokens, 100);
    assert_true(shared.is_full);
}

static void nothing_of_a_step_is_left_unused(void **state)
{
    struct serving_pace p = pace_of(0, 100);
    struct engine_sequence old_short[] = {prompt_of(1, 0, 5), prompt_of(2, 0, 900)};
    struct engine_sequence all_short[] = {prompt_of(1, 0, 5), prompt_of(2, 0, 6)};

    (void)state;
    assert_int_equal(share_out(&p, old_short, 2).tokens, 100);
    assert_int_equal(old_short[0].take, 5);
    assert_int_equal(old_short[1].take, 95);
    assert_false(share_out(&p, all_short, 2).is_full);
    assert_int_equal(all_short[0].take + all_short[1].take, 11);
}

static void a_higher_priority_comes_before_less_work(void **state)
{
    struct serving_pace p = pace_of(0, 100);
    struct engine_sequence prompts[] = {prompt_of(9, 0, 98), prompt_of(1, 0, 1000),
                                        prompt_of(2, 0, 10)};

    (void)state;
    prompts[0].priority = 1;
    share_out(&p, prompts, 3);
    assert_int_equal(prompts[0].take, 98);
    assert_int_equal(prompts[1].take + prompts[2].take, 2);
}

static void the_chunk_has_fewer_tokens_at_depth_but_never_less_than_the_least(void **state)
{
    struct serving_pace p;
    struct engine_sequence early = prompt_of(1, 0, 50000), deep = prompt_of(1, 30000, 20000),
                           deepest = prompt_of(1, 900000, 20000);

    (void)state;
    serving_pace_init(&p, 64, 2048, 25, 10000);
    for (uint32_t n = 64; n < 1024; n *= 2)
        step_of(&p, SERVING_PACE_GAP, n, true, MS);
    assert_in_range(share_out(&p, &early, 1).tokens, 1000, 1024);
    assert_in_range(share_out(&p, &deep, 1).tokens, 250, 256);
    assert_int_equal(share_out(&p, &deepest, 1).tokens, 64);
}

static void depth_counts_as_much_as_the_arithmetic_of_the_model_says(void **state)
{
    struct model_config c = {.layers = 24,
                             .hidden = 2880,
                             .intermediate = 2880,
                             .heads = 64,
                             .kv_heads = 8,
                             .head_dim = 64,
                             .experts = 32,
                             .experts_per_token = 4,
                             .window = 128};

    (void)state;
    for (uint32_t i = 0; i < c.layers; i += 2)
        c.sliding[i] = true;
    /* The prefill rates of gpt-oss-20b on an H200 give about 24,000. */
    assert_in_range(gptoss_depth_unit(&c), 24000, 36000);
    for (uint32_t i = 0; i < c.layers; i++)
        c.sliding[i] = true;
    assert_int_equal(gptoss_depth_unit(&c), SERVING_DEPTH_IS_FREE);
}

/* ---- simulation ---- */

static const struct serving_plan large = {
    .page_tokens = 64,
    .kind_count = KINDS,
    .kinds = {{.pages = 16384}, {.window = 128, .pages = 64 * 40}},
    .max_sequences = 64,
    .max_context = LONGEST,
    .prefill_chunk = 2048,
    .least_chunk = 64,
    .step_tokens = 2048 + 64,
};

struct user {
    struct engine_sequence *seq;
    uint32_t answer;        /* tokens after which the sequence ends */
    uint64_t came_ns, step; /* time and step of its arrival */
    uint64_t began;         /* work of all prompts until then */
    uint64_t ahead;         /* its own work, and that of the older prompts */
};

struct sim {
    struct serving_scheduler s;
    struct user users[64];
    uint64_t now_ns, steps, work;
    uint64_t ids;
    /* results */
    uint64_t gaps, long_gaps;                       /* of streams; longer than the target gap */
    uint64_t slowest_first_ns, slowest_first_steps; /* of prompts up to 100 tokens */
    double worst_delay;                             /* work until the end / ahead */
};

static void sim_open(struct sim *sim, const struct serving_plan *plan, uint32_t depth_unit)
{
    *sim = (struct sim){0};
    assert_int_equal(serving_scheduler_init(&sim->s, plan, NULL), LR_OK);
    serving_scheduler_set_pace(&sim->s, 25, depth_unit);
}

static uint64_t work_left(const struct sim *sim, struct engine_sequence *seq)
{
    return serving_claim_of(&sim->s.pace, seq, UINT32_MAX).work;
}

static struct user *arrive(struct sim *sim, uint32_t prompt, uint32_t answer)
{
    static const uint32_t ids[LONGEST];
    struct lr_engine_request r = plain_request(++sim->ids, ids, prompt, 0);
    struct user *u = sim->users;

    while (u->seq != NULL)
        u++;
    assert_true(u < sim->users + 64);
    *u = (struct user){
        .answer = answer, .came_ns = sim->now_ns, .step = sim->steps, .began = sim->work};
    assert_int_equal(engine_sequence_create(&r, ids, prompt, LONGEST, 100, &u->seq, NULL),
                     LR_OK);
    engine_queue_add(&sim->s.queue, u->seq);
    for (struct user *v = sim->users; v < sim->users + 64; v++)
        if (v->seq != NULL && v->seq->count == v->seq->prompt_count)
            u->ahead += work_left(sim, v->seq);
    return u;
}

static void leave(struct sim *sim, struct user *u)
{
    serving_scheduler_end(&sim->s, u->seq);
    engine_sequence_destroy(u->seq);
    u->seq = NULL;
}

/* Nanoseconds of the chosen step: a model of gpt-oss-20b on an H200, made from its rates. */
static uint64_t duration(const struct sim *sim)
{
    double us = 1200;
    bool has_prompt = false;

    for (struct engine_sequence *q = sim->s.queue.running; q != NULL; q = q->next) {
        if (engine_sequence_decodes(q))
            us += 62;
        else
            us += q->take * (10 + 0.00062 * q->computed);
        has_prompt = has_prompt || (q->take > 0 && !engine_sequence_decodes(q));
    }
    return (uint64_t)((us + (has_prompt ? 9300 : 0)) * 1000);
}

static void first_token(struct sim *sim, const struct user *u)
{
    uint64_t ns = sim->now_ns - u->came_ns, steps = sim->steps - u->step;
    double delay = (double)(sim->work - u->began) / (double)u->ahead;

    if (delay > sim->worst_delay)
        sim->worst_delay = delay;
    if (u->seq->prompt_count > 100)
        return;
    if (ns > sim->slowest_first_ns)
        sim->slowest_first_ns = ns;
    if (steps > sim->slowest_first_steps)
        sim->slowest_first_steps = steps;
}

static void step(struct sim *sim)
{
    assert_true(serving_scheduler_choose(&sim->s) > 0);
    uint64_t ns = duration(sim);
    sim->now_ns += ns;
    sim->steps++;
    sim->work += sim->s.shared.work;
    serving_scheduler_advance(&sim->s, ns);
    for (struct user *u = sim->users; u < sim->users + 64; u++) {
        if (u->seq == NULL || u->seq->computed < u->seq->count)
            continue;
        if (u->seq->count == u->seq->prompt_count) {
            first_token(sim, u);
        } else {
            sim->gaps++;
            sim->long_gaps += ns > 25 * MS;
        }
        assert_true(engine_sequence_append(u->seq, 1));
        if (engine_sequence_generated(u->seq) >= u->answer)
            leave(sim, u);
    }
}

static void sim_close(struct sim *sim)
{
    for (struct user *u = sim->users; u < sim->users + 64; u++)
        if (u->seq != NULL)
            leave(sim, u);
    for (int kind = 0; kind < KINDS; kind++)
        assert_int_equal(sim->s.cache.pages[kind].free_count, sim->s.cache.pages[kind].total);
    serving_scheduler_deinit(&sim->s);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void a_short_prompt_beside_four_long_ones_has_its_token_within_two_steps(void **state)
{
    struct sim sim;
    uint64_t next = 300 * MS;

    (void)state;
    sim_open(&sim, &large, 30000);
    for (int i = 0; i < 4; i++)
        arrive(&sim, 40000, 4);
    while (sim.s.queue.live > 0) {
        if (sim.now_ns >= next) {
            arrive(&sim, 70, 20);
            next += 177 * MS;
        }
        step(&sim);
        assert_true(sim.now_ns < 60000ull * MS); /* the long prompts end */
        if (sim.users[0].seq == NULL && sim.users[3].seq == NULL)
            next = UINT64_MAX;
    }
    assert_in_range(sim.slowest_first_steps, 1, 2);
    assert_true(sim.slowest_first_ns <= 40 * MS); /* from the first step after its arrival */
    sim_close(&sim);
}

static void a_stream_keeps_its_gap_beside_prompts_of_every_length(void **state)
{
    struct sim sim;
    uint32_t seed = 3;

    (void)state;
    sim_open(&sim, &large, 30000);
    while (sim.steps < 4000) {
        while (sim.s.queue.live < 60) {
            uint32_t kind = next_random(&seed) % 10, size = next_random(&seed);
            arrive(&sim, kind == 0 ? 8000 + size % 30000 : 20 + size % (kind < 5 ? 100 : 2000),
                   50 + size % 200);
        }
        step(&sim);
    }
    assert_true(sim.gaps > 10000);
    assert_true(sim.long_gaps * 100 < sim.gaps);
    sim_close(&sim);
}

static void no_prompt_takes_longer_than_four_times_the_order_of_arrival(void **state)
{
    struct serving_plan plan = large;
    uint32_t seed = 11;
    struct sim sim;

    (void)state;
    plan.prefill_chunk = 200; /* fixed */
    plan.least_chunk = 0;
    sim_open(&sim, &plan, SERVING_DEPTH_IS_FREE);
    struct user *victim = arrive(&sim, 20000, 1);
    while (sim.steps < 6000) {
        /* There are always more short prompts than a step can compute. */
        while (sim.s.queue.live < 20)
            arrive(&sim, 1 + next_random(&seed) % 150, 1);
        if (victim->seq == NULL || victim->seq->prompt_count != 20000)
            victim = arrive(&sim, 20000, 1);
        step(&sim);
        /* A step is counted as a whole: the work of one step more. */
        assert_true(sim.worst_delay < 4.0 + 4.0 * 200 / 20000 || sim.steps < 10);
    }
    assert_true(sim.worst_delay > 3.5); /* the short prompts did pass */
    sim_close(&sim);
}

static void random_crowds_keep_the_bound(void **state)
{
    struct serving_plan plan = large;
    uint32_t seed = 5;

    (void)state;
    plan.prefill_chunk = 64;
    plan.least_chunk = 0;
    for (int round = 0; round < 20; round++) {
        struct sim sim;
        sim_open(&sim, &plan, SERVING_DEPTH_IS_FREE);
        for (int i = 0; i < 2000; i++) {
            uint32_t r = next_random(&seed);
            if (sim.s.queue.live == 0 || (r % 4 == 0 && sim.s.queue.live < 64)) {
                /* Steps are whole: only a prompt of many steps shows its delay exactly. */
                struct user *u = arrive(&sim, r % 7 == 0 ? 6400 : 1 + r % 200, 1);
                if (u->seq->prompt_count < 6400)
                    u->ahead += 64 * serving_pace_work(&sim.s.pace, 0, 1);
            }
            step(&sim);
        }
        assert_true(sim.worst_delay <= 4.05);
        sim_close(&sim);
    }
}

static void a_prompt_alone_is_computed_in_the_largest_chunks(void **state)
{
    struct sim sim;

    (void)state;
    sim_open(&sim, &large, 30000);
    struct user *u = arrive(&sim, 120000, 1);
    while (u->seq != NULL)
        step(&sim);
    assert_in_range(sim.steps, 120000 / 2048, 120000 / 2048 + 6); /* the first chunks grow */
    sim.steps = 0;
    u = arrive(&sim, 120000, 1);
    while (u->seq != NULL)
        step(&sim);
    assert_int_equal(sim.steps, 120000 / 2048 + 1);
    sim_close(&sim);
}

static void on_a_slow_device_no_step_of_a_long_prompt_reaches_the_step_timeout(void **state)
{
    struct sim sim;

    (void)state;
    sim_open(&sim, &large, SERVING_DEPTH_IS_FREE);
    arrive(&sim, 8000, 1);
    while (sim.s.queue.live > 0) {
        assert_true(serving_scheduler_choose(&sim.s) > 0);
        /* 75 ms a token: gpt-oss-20b at 0.04 T multiply-adds a second. */
        uint64_t ns = sim.users[0].seq->take * 75ull * MS;
        assert_true(ns < 30000ull * MS);
        serving_scheduler_advance(&sim.s, ns);
        if (sim.users[0].seq->computed == sim.users[0].seq->count)
            leave(&sim, &sim.users[0]);
    }
    sim_close(&sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_grows_while_its_steps_are_shorter_than_the_aim),
        cmocka_unit_test(a_chunk_shrinks_when_its_steps_are_longer_than_the_aim),
        cmocka_unit_test(
            the_first_prompt_has_the_chunk_that_the_device_begins_with_and_streams_the_least),
        cmocka_unit_test(a_larger_target_gap_gives_longer_steps_and_larger_chunks),
        cmocka_unit_test(a_chunk_that_the_operator_set_is_fixed),
        cmocka_unit_test(the_kind_of_a_step_depends_on_who_waits_for_its_end),
        cmocka_unit_test(a_short_prompt_passes_long_ones_and_the_oldest_gets_a_quarter),
        cmocka_unit_test(nothing_of_a_step_is_left_unused),
        cmocka_unit_test(a_higher_priority_comes_before_less_work),
        cmocka_unit_test(the_chunk_has_fewer_tokens_at_depth_but_never_less_than_the_least),
        cmocka_unit_test(depth_counts_as_much_as_the_arithmetic_of_the_model_says),
        cmocka_unit_test(a_short_prompt_beside_four_long_ones_has_its_token_within_two_steps),
        cmocka_unit_test(a_stream_keeps_its_gap_beside_prompts_of_every_length),
        cmocka_unit_test(no_prompt_takes_longer_than_four_times_the_order_of_arrival),
        cmocka_unit_test(random_crowds_keep_the_bound),
        cmocka_unit_test(a_prompt_alone_is_computed_in_the_largest_chunks),
        cmocka_unit_test(on_a_slow_device_no_step_of_a_long_prompt_reaches_the_step_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
