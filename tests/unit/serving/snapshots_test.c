/* Models with recurrent state: a request continues where pages and a snapshot are cached, every
 * token goes into a state exactly once and in order, and no snapshot is lost.
 *
 * The tests run the scheduler with a device whose pages, states and snapshots hold a digest of
 * everything that they depend on, so any other content is detected.
 */
#include "tests/unit/serving/support.h"

#include "engines/serving/scheduler.h"

enum { PAGE = 4, CONTEXT = 64, PAGES = 48, SLOTS = 3, SNAPSHOTS = 12, MOST = 64 };
enum { LONG_PAGE = 32, LONGEST = 20000 };

static const struct serving_plan small = {
    .page_tokens = PAGE,
    .kind_count = 1,
    .kinds = {{.page_bytes = 100, .pages = PAGES, .least = CONTEXT / PAGE, .most = MOST}},
    .state_bytes = 100,
    .snapshots = SNAPSHOTS,
    .most_snapshots = MOST,
    .kv = (PAGES + SNAPSHOTS) * 100,
    .max_sequences = SLOTS,
    .max_context = CONTEXT,
    .prefill_chunk = 16,
    .step_tokens = 19,
};

/* Of the tokens before a position. */
struct digest {
    uint64_t of;
    uint32_t position;
};

struct fixture {
    struct serving_scheduler s;
    struct serving_plan plan;
    struct digest slots[SLOTS], kept[MOST];
    uint64_t *cells[SERVING_KINDS_MAX]; /* page_tokens for each page */
    uint32_t usable;                    /* snapshots */
    uint32_t computed;                  /* tokens, since the start */
    uint32_t moved;
    uint32_t steps[32], step_count; /* tokens of the last steps of run() */
};

static const uint32_t *counting(void)
{
    static uint32_t ids[LONGEST];

    for (uint32_t i = 0; i < LONGEST; i++)
        ids[i] = i + 1;
    return ids;
}

static bool resize(void *ctx, uint32_t kind, uint32_t pages)
{
    struct fixture *fixture = ctx;

    if (kind != SERVING_SNAPSHOTS)
        return true;
    assert_true(pages <= MOST);
    for (uint32_t i = pages; i < fixture->usable; i++)
        fixture->kept[i] = (struct digest){.of = 0xEE};
    fixture->usable = pages;
    return true;
}

static void move(void *ctx, uint32_t kind, const struct serving_move *moves, uint32_t count)
{
    struct fixture *fixture = ctx;

    for (uint32_t i = 0; i < count; i++)
        if (kind == SERVING_SNAPSHOTS) {
            assert_true(moves[i].from < fixture->usable && moves[i].to < moves[i].from);
            fixture->kept[moves[i].to] = fixture->kept[moves[i].from];
        } else {
            memcpy(fixture->cells[kind] + moves[i].to * fixture->plan.page_tokens,
                   fixture->cells[kind] + moves[i].from * fixture->plan.page_tokens,
                   fixture->plan.page_tokens * sizeof(uint64_t));
        }
    fixture->moved += kind == SERVING_SNAPSHOTS ? count : 0;
}

static struct fixture *start(const struct serving_plan *plan)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    const struct serving_page_device device = {.ctx = fixture, .resize = resize, .move = move};
    fixture->plan = *plan;
    fixture->usable = plan->snapshots;
    for (uint32_t kind = 0; kind < plan->kind_count; kind++) {
        uint32_t pages = plan->kinds[kind].most;
        pages = pages > plan->kinds[kind].pages ? pages : plan->kinds[kind].pages;
        fixture->cells[kind] = calloc((size_t)pages * plan->page_tokens, sizeof(uint64_t));
        assert_non_null(fixture->cells[kind]);
    }
    assert_int_equal(serving_scheduler_init(&fixture->s, plan, NULL), LR_OK);
    serving_scheduler_set_device(&fixture->s, &device);
    return fixture;
}

static void stop(struct fixture *fixture)
{
    for (uint32_t pool = 0; pool < SERVING_POOLS; pool++)
        assert_int_equal(fixture->s.cache.pages[pool].free_count,
                         fixture->s.cache.pages[pool].total);
    serving_scheduler_deinit(&fixture->s);
    for (uint32_t kind = 0; kind < SERVING_KINDS_MAX; kind++)
        free(fixture->cells[kind]);
    free(fixture);
}

static struct engine_sequence *add(struct fixture *fixture, const char *scope,
                                   const uint32_t *ids, uint32_t count)
{
    static uint64_t id = 0;
    struct lr_engine_request r = plain_request(++id, ids, count, 0);
    struct engine_sequence *seq;

    r.cache_scope = scope;
    assert_int_equal(
        engine_sequence_create(&r, ids, count, fixture->plan.max_context, 1 << 20, &seq, NULL),
        LR_OK);
    engine_queue_add(&fixture->s.queue, seq);
    return seq;
}

static void end(struct fixture *fixture, struct engine_sequence *seq)
{
    serving_scheduler_end(&fixture->s, seq);
    engine_sequence_destroy(seq);
    serving_scheduler_settle(&fixture->s);
}

static struct digest take_in(struct digest d, const struct engine_sequence *seq, uint32_t ids)
{
    for (; d.position < ids; d.position++)
        d.of = (d.of ^ seq->ids[d.position]) * 1099511628211u + 7;
    return d;
}

static void expect(struct digest have, const struct engine_sequence *seq, uint32_t position)
{
    const struct digest want = take_in((struct digest){.of = seq->cache_scope}, seq, position);

    assert_int_equal(have.position, position);
    assert_true(have.of == want.of);
}

/* The cells that the step reads are right; it writes those of its tokens. */
static void compute_pages(struct fixture *fixture, const struct engine_sequence *seq,
                          const struct serving_step *step)
{
    struct digest at = {.of = seq->cache_scope};
    uint32_t page = fixture->plan.page_tokens;

    for (uint32_t p = 0; p < step->position + step->count; p++) {
        at = take_in(at, seq, p + 1);
        for (uint32_t kind = 0; kind < fixture->plan.kind_count; kind++) {
            uint32_t window = fixture->plan.kinds[kind].window;
            if (window != 0 && p + window <= step->position)
                continue;
            uint64_t *cell =
                &fixture->cells[kind][step->pages[kind][p / page] * page + p % page];
            if (p >= step->position)
                *cell = at.of;
            assert_true(*cell == at.of);
        }
    }
}

static void compute(struct fixture *fixture, const struct engine_sequence *seq,
                    const struct serving_step *step)
{
    struct digest *state = &fixture->slots[step->slot];

    compute_pages(fixture, seq, step);
    if (step->snapshot_load != SERVING_NONE) {
        assert_true(step->snapshot_load < fixture->usable);
        *state = fixture->kept[step->snapshot_load];
    } else if (step->position == 0) {
        *state = (struct digest){.of = seq->cache_scope};
    }
    expect(*state, seq, step->position);
    *state = take_in(*state, seq, step->position + step->count);
    if (step->snapshot_save != SERVING_NONE) {
        assert_true(step->snapshot_save < fixture->usable);
        fixture->kept[step->snapshot_save] = *state;
    }
    fixture->computed += step->count;
    fixture->steps[fixture->step_count++ % 32] = step->count;
}

static void step(struct fixture *fixture)
{
    struct serving_step steps[SLOTS];
    const struct engine_sequence *of[SLOTS];
    uint32_t count = 0;

    (void)serving_scheduler_choose(&fixture->s);
    for (struct engine_sequence *q = fixture->s.queue.running; q != NULL; q = q->next)
        if (q->take > 0) {
            of[count] = q;
            steps[count++] = serving_scheduler_part(&fixture->s, q);
        }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            assert_true(steps[i].snapshot_save == SERVING_NONE ||
                        (steps[i].snapshot_save != steps[k].snapshot_load &&
                         (i == k || steps[i].snapshot_save != steps[k].snapshot_save)));
    for (uint32_t i = 0; i < count; i++)
        compute(fixture, of[i], &steps[i]);
    serving_scheduler_advance(&fixture->s, 0);
    for (struct engine_sequence *q = fixture->s.queue.running; q != NULL; q = q->next) {
        q->reported = q->computed < q->prompt_count ? q->computed : q->prompt_count;
        if (q->computed == q->count)
            assert_true(engine_sequence_append(q, q->ids[q->count - 1] % 5 + 1));
    }
    serving_scheduler_settle(&fixture->s);
}

/* Runs a prompt alone until it has so many ids; returns how many of the prompt were cached. */
static uint32_t run_to(struct fixture *fixture, const char *scope, const uint32_t *ids,
                       uint32_t count, uint32_t ids_at_end)
{
    struct engine_sequence *seq = add(fixture, scope, ids, count);
    uint32_t before = fixture->computed;

    fixture->step_count = 0;
    while (seq->count < ids_at_end)
        step(fixture);
    uint32_t cached = seq->cached;
    assert_int_equal(fixture->computed - before, ids_at_end - 1 - cached);
    end(fixture, seq);
    return cached;
}

static uint32_t run(struct fixture *fixture, const char *scope, const uint32_t *ids,
                    uint32_t count)
{
    return run_to(fixture, scope, ids, count, count + 1);
}

static uint32_t cached_snapshots(const struct fixture *fixture)
{
    return fixture->s.cache.pages[SERVING_SNAPSHOTS].cached_count;
}

/* ---- tests ---- */

static void a_prompt_continues_from_the_last_two_ends_of_pages_of_an_earlier_one(void **state)
{
    struct fixture *fixture = start(&small);
    uint32_t other[20];

    (void)state;
    assert_int_equal(run(fixture, "key", counting(), 20), 0);
    assert_int_equal(cached_snapshots(fixture), 2);
    assert_int_equal(run(fixture, "key", counting(), 20), 16);
    assert_int_equal(run(fixture, "key", counting(), 40), 16); /* pages to 20, but no state */
    memcpy(other, counting(), sizeof(other));
    other[14] = 99; /* the end of the prompt differs, as a template's does */
    assert_int_equal(run(fixture, "key", other, 20), 12);
    stop(fixture);
}

static void chunks_end_where_a_snapshot_is_kept(void **state)
{
    struct fixture *fixture = start(&small);
    static const uint32_t want[] = {16, 16, 8, 4, 3};

    (void)state;
    assert_int_equal(run(fixture, "key", counting(), 47), 0); /* ends at 40 and 44 */
    assert_int_equal(fixture->step_count, 5);
    assert_memory_equal(fixture->steps, want, sizeof(want));
    stop(fixture);
}

static void the_next_prompt_of_a_conversation_continues_behind_the_answer(void **state)
{
    struct fixture *fixture = start(&small);
    uint32_t next[40];
    struct engine_sequence *seq = add(fixture, "key", counting(), 18);

    (void)state;
    while (seq->count < 31)
        step(fixture);
    memcpy(next, counting(), sizeof(next));
    memcpy(next, seq->ids, 30 * sizeof(*next));
    end(fixture, seq);
    assert_int_equal(cached_snapshots(fixture), 3); /* 12, 16, and only the newest: 28 */
    assert_int_equal(run(fixture, "key", next, 40), 28);
    stop(fixture);
}

static void a_branch_that_was_met_twice_is_computed_once_more_and_then_found(void **state)
{
    struct fixture *fixture = start(&small);
    uint32_t ids[3][40];

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        memcpy(ids[i], counting(), sizeof(ids[i]));
        for (uint32_t k = 18; k < 40; k++)
            ids[i][k] += 1000 * i;
    }
    assert_int_equal(run(fixture, "key", ids[0], 40), 0);
    assert_int_equal(run(fixture, "key", ids[1], 40), 0);
    assert_int_equal(run(fixture, "key", ids[2], 40), 16);
    stop(fixture);
}

static void a_long_prompt_is_kept_every_8192_tokens(void **state)
{
    struct serving_plan plan = small;
    static uint32_t other[LONGEST];

    (void)state;
    plan.page_tokens = LONG_PAGE;
    plan.max_context = LONGEST + 8;
    plan.kinds[0].pages = plan.kinds[0].most = plan.kinds[0].least = 3 * LONGEST / LONG_PAGE;
    plan.prefill_chunk = 5000;
    plan.step_tokens = 5003;
    struct fixture *fixture = start(&plan);
    assert_int_equal(run(fixture, "key", counting(), LONGEST), 0);
    assert_int_equal(cached_snapshots(fixture), 4);
    memcpy(other, counting(), sizeof(other));
    other[17000] = 9;
    assert_int_equal(run(fixture, "key", other, LONGEST), 16384);
    other[9000] = 9;
    assert_int_equal(run(fixture, "key", other, 12000), 8192);
    stop(fixture);
}

static void a_request_without_a_scope_or_of_another_key_finds_no_snapshot(void **state)
{
    struct fixture *fixture = start(&small);

    (void)state;
    assert_int_equal(run(fixture, "one", counting(), 20), 0);
    assert_int_equal(run(fixture, "two", counting(), 20), 0);
    uint32_t before = cached_snapshots(fixture);
    assert_int_equal(run(fixture, NULL, counting(), 20), 0);
    assert_int_equal(run(fixture, NULL, counting(), 20), 0);
    assert_int_equal(cached_snapshots(fixture), before);
    stop(fixture);
}

static void a_preempted_request_is_computed_again_from_its_last_snapshot(void **state)
{
    struct fixture *fixture = start(&small);
    struct engine_sequence *q[SLOTS];
    uint32_t ids[SLOTS][CONTEXT];

    (void)state;
    const struct serving_kv_share share = {.pages = {40, [SERVING_SNAPSHOTS] = SNAPSHOTS}};
    serving_scheduler_limit(&fixture->s, &share);
    for (uint32_t i = 0; i < SLOTS; i++) {
        for (uint32_t k = 0; k < CONTEXT; k++)
            ids[i][k] = 100 * i + k;
        q[i] = add(fixture, "key", ids[i], 30);
    }
    while (q[2]->count == 30 || q[2]->state == ENGINE_RUNNING)
        step(fixture);
    uint32_t count = q[2]->count, before = fixture->computed;
    assert_true(count > 40); /* 40 pages hold 160 ids */
    end(fixture, q[0]);
    end(fixture, q[1]);
    step(fixture);
    assert_int_equal(q[2]->state, ENGINE_RUNNING);
    assert_true(fixture->computed - before <= PAGE); /* one page instead of ten */
    while (q[2]->count < 60)
        step(fixture);
    end(fixture, q[2]);
    stop(fixture);
}

static void a_model_without_attention_shares_prefixes_by_its_state_alone(void **state)
{
    struct serving_plan plan = small;

    (void)state;
    plan.kind_count = 0;
    struct fixture *fixture = start(&plan);
    assert_int_equal(run(fixture, "key", counting(), 20), 0);
    assert_int_equal(run(fixture, "key", counting(), 40), 16);
    assert_int_equal(run(fixture, "key", counting(), 40), 36);
    stop(fixture);
}

static void a_model_may_have_windows_only_and_kinds_of_all_positions_side_by_side(void **state)
{
    static const struct serving_kind whole = {.page_bytes = 50, .pages = 20},
                                     windowed = {.window = 8, .pages = 30};
    const struct serving_kind kinds[][2] = {
        {windowed, windowed}, {whole, whole}, {whole, windowed}};

    for (uint32_t i = 0; i < 3; i++) {
        struct serving_plan plan = small;
        struct engine_sequence *a, *b;
        (void)state;
        plan.kind_count = 2;
        memcpy(plan.kinds, kinds[i], sizeof(kinds[i]));
        for (uint32_t k = 0; k < 2; k++)
            plan.kinds[k].least = plan.kinds[k].most = plan.kinds[k].pages;
        struct fixture *fixture = start(&plan);
        assert_int_equal(run(fixture, "key", counting(), 20), 0);
        assert_int_equal(run(fixture, "key", counting(), 40), 16);
        a = add(fixture, "key", counting(), 40);
        b = add(fixture, NULL, counting(), 40); /* 20 pages of all positions are for one */
        while (a->count < 60)
            step(fixture);
        end(fixture, a);
        while (b->count < 60)
            step(fixture);
        end(fixture, b);
        stop(fixture);
    }
}

static void a_model_without_room_for_snapshots_computes_everything(void **state)
{
    struct serving_plan plan = small;

    (void)state;
    plan.snapshots = plan.most_snapshots = 0;
    struct fixture *fixture = start(&plan);
    assert_int_equal(run(fixture, "key", counting(), 40), 0);
    assert_int_equal(run(fixture, "key", counting(), 40), 0);
    assert_int_equal(fixture->steps[0], 16); /* and no chunk is cut */
    stop(fixture);
}

static void snapshots_have_a_quarter_of_a_limit_and_go_with_it(void **state)
{
    struct fixture *fixture = start(&small);
    const struct serving_pages *pool = &fixture->s.cache.pages[SERVING_SNAPSHOTS];

    (void)state;
    for (uint64_t bytes = 0; bytes < 20000; bytes += 50) {
        struct serving_kv_share s = serving_elastic_divide(&small, bytes);
        uint64_t quarter = bytes / 4 > small.kv / 4 ? bytes / 4 : small.kv / 4;
        assert_true(s.pages[SERVING_SNAPSHOTS] * small.state_bytes <= quarter);
        assert_true(bytes > 1200 || s.pages[SERVING_SNAPSHOTS] < 3);
    }
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(run(fixture, "key", counting() + i * 100, 12), 0);
    assert_int_equal(pool->total, SNAPSHOTS);
    struct serving_kv_share large = serving_elastic_divide(&small, 12000);
    serving_scheduler_limit(&fixture->s, &large);
    for (uint32_t i = 0; i < 10; i++)
        (void)run(fixture, "key", counting() + i * 100, 12);
    assert_true(pool->total > SNAPSHOTS); /* grows before a snapshot is lost */
    struct serving_kv_share none = serving_elastic_divide(&small, 0);
    serving_scheduler_limit(&fixture->s, &none);
    assert_int_equal(pool->total, 0);
    assert_int_equal(fixture->usable, 0);
    stop(fixture);
}

static void a_snapshot_that_waits_to_be_loaded_may_move(void **state)
{
    struct fixture *fixture = start(&small);

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(run(fixture, "key", counting() + i * 100, 12), 0);
    struct engine_sequence *first = add(fixture, "key", counting() + 1000, 40);
    struct engine_sequence *waits = add(fixture, "key", counting() + 300, 20);
    first->priority = 1; /* gets the whole chunk */
    step(fixture);
    assert_int_equal(waits->computed, 8);
    uint32_t load = fixture->s.slots[waits->slot].state.load;
    assert_true(load != SERVING_NONE && load != 0);
    struct serving_kv_share none = serving_elastic_divide(&small, 0);
    serving_scheduler_limit(&fixture->s, &none);
    assert_int_equal(fixture->s.slots[waits->slot].state.load, 0);
    end(fixture, first);
    while (waits->count < 30)
        step(fixture);
    end(fixture, waits);
    stop(fixture);
}

/* Every snapshot is free once, or held by a slot, and its block knows it. */
static void check_snapshots(const struct fixture *fixture)
{
    const struct serving_cache *c = &fixture->s.cache;
    const struct serving_pages *p = &c->pages[SERVING_SNAPSHOTS];
    uint32_t held = 0, listed = 0, cached = 0;

    assert_int_equal(p->total, fixture->usable);
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_int_equal(fixture->s.slots[i].state.save, SERVING_NONE);
        held += fixture->s.slots[i].state.load != SERVING_NONE ? 1 : 0;
    }
    for (uint32_t i = p->oldest; i != SERVING_NONE; i = p->at[i].newer) {
        assert_true(i < p->total && p->at[i].holders == 0);
        listed++;
        cached += p->at[i].memory != SERVING_NONE ? 1 : 0;
    }
    assert_int_equal(listed, p->free_count);
    assert_int_equal(cached, p->cached_count);
    for (uint32_t i = 0; i < p->total; i++) {
        held -= p->at[i].holders;
        if (p->at[i].memory != SERVING_NONE)
            assert_int_equal(c->memories[p->at[i].memory].page[SERVING_SNAPSHOTS], i);
    }
    assert_int_equal(held, 0);
}

static void random_conversations_never_continue_from_a_wrong_state(void **state)
{
    static const char *const scopes[] = {"one", "two", NULL};
    struct fixture *fixture = start(&small);
    struct engine_sequence *live[4] = {0};
    uint32_t seed = 11, cached = 0;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        struct engine_sequence **at = &live[(seed >> 8) % 4];
        if ((seed >> 14) % 64 == 0) {
            struct serving_kv_share share =
                serving_elastic_divide(&small, (seed >> 17) % 3 == 0 ? 0 : seed >> 18);
            serving_scheduler_limit(&fixture->s, &share);
        }
        if (*at == NULL) {
            uint32_t ids[CONTEXT], n = 1 + (seed >> 16) % 55, fork = (seed >> 12) % 50;
            for (uint32_t k = 0; k < n; k++) /* few common prefixes, different ends */
                ids[k] = k < fork ? (seed >> 28) % 2 + k : 1 + (seed >> 5) % 400 + k;
            *at = add(fixture, scopes[(seed >> 20) % 3], ids, n);
        } else if ((seed >> 18) % 16 == 0) {
            cached += (*at)->cached;
            end(fixture, *at);
            *at = NULL;
        }
        for (uint32_t k = 0; k < 4; k++)
            if (live[k] != NULL && live[k]->count > 62) {
                cached += live[k]->cached;
                end(fixture, live[k]);
                live[k] = NULL;
            }
        step(fixture);
        check_snapshots(fixture);
    }
    for (uint32_t k = 0; k < 4; k++)
        if (live[k] != NULL)
            end(fixture, live[k]);
    assert_true(cached > 1000 && fixture->moved > 10); /* otherwise it would show nothing */
    stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_continues_from_the_last_two_ends_of_pages_of_an_earlier_one),
        cmocka_unit_test(chunks_end_where_a_snapshot_is_kept),
        cmocka_unit_test(the_next_prompt_of_a_conversation_continues_behind_the_answer),
        cmocka_unit_test(a_branch_that_was_met_twice_is_computed_once_more_and_then_found),
        cmocka_unit_test(a_long_prompt_is_kept_every_8192_tokens),
        cmocka_unit_test(a_request_without_a_scope_or_of_another_key_finds_no_snapshot),
        cmocka_unit_test(a_preempted_request_is_computed_again_from_its_last_snapshot),
        cmocka_unit_test(a_model_without_attention_shares_prefixes_by_its_state_alone),
        cmocka_unit_test(a_model_may_have_windows_only_and_kinds_of_all_positions_side_by_side),
        cmocka_unit_test(a_model_without_room_for_snapshots_computes_everything),
        cmocka_unit_test(snapshots_have_a_quarter_of_a_limit_and_go_with_it),
        cmocka_unit_test(a_snapshot_that_waits_to_be_loaded_may_move),
        cmocka_unit_test(random_conversations_never_continue_from_a_wrong_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
