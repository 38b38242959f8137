/* The prefix cache: a request finds the right pages within its scope, and no page is lost.
 *
 * The tests run the scheduler with a fake device whose cells hold a digest of everything that a
 * key depends on, so a page with any other content is detected.
 */
#include "tests/unit/serving/support.h"

#include "engines/serving/scheduler.h"

enum { PAGE = 4, WINDOW = 8, FULL_PAGES = 40, WINDOW_PAGES = 3 * 6, CONTEXT = 64 };

static const struct serving_plan small = {
    .page_tokens = PAGE,
    .kind_count = KINDS,
    .kinds = {{.pages = FULL_PAGES}, {.window = WINDOW, .pages = WINDOW_PAGES}},
    .max_sequences = 3,
    .max_context = CONTEXT,
    .prefill_chunk = 8,
    .step_tokens = 11,
};

struct fixture {
    struct serving_scheduler s;
    uint64_t full[FULL_PAGES][PAGE];
    uint64_t windowed[WINDOW_PAGES][PAGE];
    uint32_t computed; /* tokens, since the start */
};

static struct fixture *start(void)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    assert_int_equal(serving_scheduler_init(&fixture->s, &small, NULL), LR_OK);
    return fixture;
}

static void stop(struct fixture *fixture)
{
    for (int kind = 0; kind < KINDS; kind++)
        assert_int_equal(fixture->s.cache.pages[kind].free_count,
                         fixture->s.cache.pages[kind].total);
    serving_scheduler_deinit(&fixture->s);
    free(fixture);
}

static struct engine_sequence *add(struct fixture *fixture, const char *scope,
                                   const uint32_t *ids, uint32_t count)
{
    static uint64_t id = 0;
    struct lr_engine_request r = plain_request(++id, ids, count, 0);
    struct engine_sequence *seq;

    r.cache_scope = scope;
    assert_int_equal(engine_sequence_create(&r, ids, count, CONTEXT, 1000, &seq, NULL), LR_OK);
    engine_queue_add(&fixture->s.queue, seq);
    return seq;
}

static void end(struct fixture *fixture, struct engine_sequence *seq)
{
    serving_scheduler_end(&fixture->s, seq);
    engine_sequence_destroy(seq);
}

/* A digest of what the key at `position` depends on. */
static uint64_t digest(const struct engine_sequence *seq, uint32_t position)
{
    uint64_t h = seq->cache_scope;

    for (uint32_t i = 0; i <= position; i++)
        h = (h ^ seq->ids[i]) * 1099511628211u + 7;
    return h;
}

/* Checks every cell that the step reads, then writes the cells that it computes. */
static void compute(struct fixture *fixture, const struct engine_sequence *seq)
{
    const struct serving_slot *slot = &fixture->s.slots[seq->slot];
    uint32_t end_at = seq->computed + seq->take;

    for (uint32_t p = 0; p < end_at; p++) {
        uint64_t want = digest(seq, p),
                 *full = &fixture->full[slot->tables[KIND_FULL][p / PAGE]][p % PAGE];
        bool in_window = p + WINDOW > seq->computed;
        uint64_t *windowed =
            in_window ? &fixture->windowed[slot->tables[KIND_WINDOW][p / PAGE]][p % PAGE]
                      : NULL;
        if (p >= seq->computed) {
            *full = want;
            *windowed = want;
        }
        assert_true(*full == want);
        assert_true(!in_window || *windowed == want);
    }
    fixture->computed += seq->take;
}

static void step(struct fixture *fixture)
{
    (void)serving_scheduler_choose(&fixture->s);
    for (struct engine_sequence *q = fixture->s.queue.running; q != NULL; q = q->next)
        if (q->take > 0)
            compute(fixture, q);
    serving_scheduler_advance(&fixture->s, 0);
    for (struct engine_sequence *q = fixture->s.queue.running; q != NULL; q = q->next) {
        q->reported = q->computed < q->prompt_count ? q->computed : q->prompt_count;
        if (q->computed == q->count)
            assert_true(engine_sequence_append(q, q->ids[q->count - 1] % 5 + 1));
    }
}

/* Runs a prompt alone to its first token and ends it; returns how many tokens were cached. */
static uint32_t run(struct fixture *fixture, const char *scope, const uint32_t *ids,
                    uint32_t count)
{
    struct engine_sequence *seq = add(fixture, scope, ids, count);
    uint32_t before = fixture->computed;

    while (seq->count == count)
        step(fixture);
    uint32_t cached = seq->cached;
    assert_int_equal(fixture->computed - before, count - cached);
    end(fixture, seq);
    return cached;
}

static const uint32_t counting[CONTEXT] = {
    1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
    23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44,
    45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64};

static void a_common_prefix_is_computed_once(void **state)
{
    struct fixture *fixture = start();

    (void)state;
    assert_int_equal(run(fixture, "key", counting, 20), 0);
    assert_int_equal(run(fixture, "key", counting, 20),
                     16); /* the last token is computed again */
    assert_int_equal(run(fixture, "key", counting, 21), 20);
    assert_int_equal(run(fixture, "key", counting, 40), 20);
    assert_int_equal(run(fixture, "key", counting, 3), 0); /* less than a page */
    stop(fixture);
}

static void only_equal_prefixes_are_found(void **state)
{
    struct fixture *fixture = start();
    uint32_t other[40];

    (void)state;
    memcpy(other, counting, sizeof(other));
    other[17] = 99;
    assert_int_equal(run(fixture, "key", counting, 40), 0);
    assert_int_equal(run(fixture, "key", other, 40), 16);
    other[0] = 99;
    assert_int_equal(run(fixture, "key", other, 40), 0);
    stop(fixture);
}

static void a_key_does_not_find_pages_of_another_key(void **state)
{
    struct fixture *fixture = start();

    (void)state;
    assert_int_equal(run(fixture, "one", counting, 20), 0);
    assert_int_equal(run(fixture, "two", counting, 20), 0);
    assert_int_equal(run(fixture, NULL, counting, 20), 0);
    assert_int_equal(run(fixture, NULL, counting, 20), 0);
    assert_int_equal(run(fixture, "one", counting, 20), 16);
    stop(fixture);
}

static void a_prefix_is_shared_with_running_requests(void **state)
{
    struct fixture *fixture = start();
    struct engine_sequence *a = add(fixture, "key", counting, 30);

    (void)state;
    while (a->count == 30)
        step(fixture);
    struct engine_sequence *b = add(fixture, "key", counting, 30);
    step(fixture);
    assert_int_equal(b->cached, 28);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(fixture->s.slots[a->slot].tables[KIND_FULL][i],
                         fixture->s.slots[b->slot].tables[KIND_FULL][i]);
    end(fixture, a); /* b continues with the shared pages */
    while (b->count < 50)
        step(fixture);
    end(fixture, b);
    stop(fixture);
}

static void cache_of(struct serving_cache *c, uint32_t full, uint32_t windowed)
{
    struct serving_plan plan = small;

    plan.kinds[KIND_FULL].pages = full;
    plan.kinds[KIND_WINDOW].pages = windowed;
    assert_int_equal(serving_cache_init(c, &plan, NULL), LR_OK);
}

static uint64_t remember(struct serving_cache *c, uint64_t chain, const uint32_t *ids,
                         uint32_t full, uint32_t windowed)
{
    const uint32_t pages[SERVING_POOLS] = {full, windowed, SERVING_NONE, SERVING_NONE,
                                           SERVING_NONE};

    return serving_cache_remember(c, chain, ids, pages);
}

static void pages_that_are_needed_are_taken_from_the_end_of_the_oldest(void **state)
{
    struct serving_cache c;
    uint32_t full[4], windowed[4];
    uint64_t chain = 2;

    (void)state;
    cache_of(&c, 4, 8);
    for (uint32_t i = 0; i < 4; i++) {
        full[i] = serving_cache_take(&c, KIND_FULL);
        windowed[i] = serving_cache_take(&c, KIND_WINDOW);
        chain = remember(&c, chain, counting + i * PAGE, full[i], windowed[i]);
    }
    for (uint32_t i = 4; i-- > 0;) {
        serving_cache_give(&c, KIND_FULL, full[i]);
        serving_cache_give(&c, KIND_WINDOW, windowed[i]);
    }
    assert_int_equal(c.pages[KIND_FULL].free_count, 4); /* cached, and free */
    for (uint32_t left = 4; left > 0; left--) {
        assert_int_equal(serving_cache_match(&c, 2, counting, 17).pages, left);
        assert_int_equal(serving_cache_take(&c, KIND_FULL), full[left - 1]);
    }
    assert_int_equal(serving_cache_match(&c, 2, counting, 17).pages, 0);
    serving_cache_deinit(&c);
}

static void a_prefix_without_its_window_pages_is_not_used(void **state)
{
    struct serving_cache c;
    uint64_t chain = 2;

    (void)state;
    cache_of(&c, 8, 8);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t windowed = serving_cache_take(&c, KIND_WINDOW);
        chain = remember(&c, chain, counting + i * PAGE, serving_cache_take(&c, KIND_FULL),
                         i == 3 ? SERVING_NO_PAGE : windowed);
    }
    /* A query at 24 sees 17 to 24, one at 20 sees 13 on, which lies in the missing page. */
    assert_int_equal(serving_cache_match(&c, 2, counting, 40).pages, 6);
    assert_int_equal(serving_cache_match(&c, 2, counting, 24).pages, 3);
    serving_cache_deinit(&c);
}

static void a_preempted_request_finds_its_own_prefix_again(void **state)
{
    struct fixture *fixture = start();
    struct engine_sequence *q[3];
    uint32_t ids[3][CONTEXT];

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < CONTEXT; k++)
            ids[i][k] = 100 * i + k;
        q[i] = add(fixture, "key", ids[i], 30);
    }
    while (q[2]->count == 30 || q[2]->state == ENGINE_RUNNING)
        step(fixture);
    uint32_t count = q[2]->count;
    assert_true(count > 40); /* 40 pages hold 160 ids */
    end(fixture, q[0]);
    step(fixture);
    assert_int_equal(q[2]->state, ENGINE_RUNNING);
    assert_true(q[2]->computed + PAGE >= count); /* one step instead of six */
    assert_int_equal(q[2]->cached,
                     0); /* pages that it computed itself do not count as cached */
    end(fixture, q[1]);
    end(fixture, q[2]);
    stop(fixture);
}

static uint32_t finish(struct fixture *fixture, struct engine_sequence **seq)
{
    uint32_t cached = (*seq)->cached;

    end(fixture, *seq);
    *seq = NULL;
    return cached;
}

static void random_conversations_never_read_a_wrong_page(void **state)
{
    static const char *const scopes[] = {"one", "two", NULL};
    struct fixture *fixture = start();
    struct engine_sequence *live[4] = {0};
    uint32_t seed = 11, cached = 0;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        struct engine_sequence **at = &live[(seed >> 8) % 4];
        if (*at == NULL) {
            uint32_t ids[CONTEXT], n = 1 + (seed >> 16) % 55, fork = (seed >> 12) % 50;
            for (uint32_t k = 0; k < n; k++) /* few common prefixes, different ends */
                ids[k] = k < fork ? (seed >> 28) % 2 + k : 1 + (seed >> 5) % 400 + k;
            *at = add(fixture, scopes[(seed >> 20) % 3], ids, n);
        } else if ((seed >> 18) % 16 == 0) {
            cached += finish(fixture, at);
        }
        for (uint32_t k = 0; k < 4; k++)
            if (live[k] != NULL && live[k]->count > 62)
                cached += finish(fixture, &live[k]);
        step(fixture);
    }
    for (uint32_t k = 0; k < 4; k++)
        if (live[k] != NULL)
            cached += finish(fixture, &live[k]);
    assert_true(cached > 1000); /* otherwise the test would show nothing */
    stop(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_common_prefix_is_computed_once),
        cmocka_unit_test(only_equal_prefixes_are_found),
        cmocka_unit_test(a_key_does_not_find_pages_of_another_key),
        cmocka_unit_test(a_prefix_is_shared_with_running_requests),
        cmocka_unit_test(pages_that_are_needed_are_taken_from_the_end_of_the_oldest),
        cmocka_unit_test(a_prefix_without_its_window_pages_is_not_used),
        cmocka_unit_test(a_preempted_request_finds_its_own_prefix_again),
        cmocka_unit_test(random_conversations_never_read_a_wrong_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
