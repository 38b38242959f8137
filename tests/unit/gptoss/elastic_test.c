/* The KV pool grows and shrinks, and no page is lost: ten thousand random steps against a model
 * of the pool, in which every page has its content. */
#include "tests/unit/gptoss/support.h"

#include "engines/serving/scheduler.h"
#include "tests/unit/serving/kinds.h"

enum { PAGE = 4, WINDOW = 8, CONTEXT = 64, FULL = 24, WINDOWS = 20, MOST = 200, SEQUENCES = 3 };

static const struct serving_plan elastic = {
    .page_tokens = PAGE,
    .kind_count = KINDS,
    .kinds =
        {{.page_bytes = 100, .pages = FULL, .least = CONTEXT / PAGE, .most = MOST},
         {.window = WINDOW, .page_bytes = 50, .pages = WINDOWS, .least = 14, .most = MOST}},
    .kv = FULL * 100 + WINDOWS * 50,
    .max_sequences = SEQUENCES,
    .max_context = CONTEXT,
    .prefill_chunk = 8,
    .step_tokens = 11,
};

/* A device whose pages hold a digest of everything that a key depends on. */
struct device {
    struct serving_scheduler s;
    uint64_t cell[KINDS][MOST][PAGE];
    uint32_t usable[KINDS];
    uint32_t grown, shrunk, moved, refused;
    bool is_full; /* refuses to grow */
};

static bool resize(void *ctx, uint32_t kind, uint32_t pages)
{
    struct device *d = ctx;

    assert_true(pages <= MOST && pages >= elastic.kinds[kind].least);
    if (d->is_full && pages > d->usable[kind]) {
        d->refused++;
        return false;
    }
    for (uint32_t i = pages; i < d->usable[kind]; i++) /* whoever reads it gets a wrong key */
        memset(d->cell[kind][i], 0xEE, sizeof(d->cell[kind][i]));
    d->grown += pages > d->usable[kind];
    d->shrunk += pages < d->usable[kind];
    d->usable[kind] = pages;
    return true;
}

static void move(void *ctx, uint32_t kind, const struct serving_move *moves, uint32_t count)
{
    struct device *d = ctx;

    for (uint32_t i = 0; i < count; i++) {
        assert_true(moves[i].from < d->usable[kind] && moves[i].to < moves[i].from);
        memcpy(d->cell[kind][moves[i].to], d->cell[kind][moves[i].from],
               sizeof(d->cell[kind][0]));
    }
    d->moved += count;
}

static struct device *start(void)
{
    struct device *d = calloc(1, sizeof(*d));
    const struct serving_page_device device = {.ctx = d, .resize = resize, .move = move};

    assert_non_null(d);
    d->usable[KIND_FULL] = FULL;
    d->usable[KIND_WINDOW] = WINDOWS;
    assert_int_equal(serving_scheduler_init(&d->s, &elastic, NULL), LR_OK);
    serving_scheduler_set_device(&d->s, &device);
    return d;
}

static struct serving_pages *pages_of(struct device *d, int kind)
{
    return &d->s.cache.pages[kind];
}

/* Every page is held by the tables that name it, or free exactly once. */
static void check_pool(struct device *d)
{
    for (int kind = 0; kind < KINDS; kind++) {
        const struct serving_pages *p = pages_of(d, kind);
        uint32_t holders[MOST] = {0}, listed = 0, cached = 0;
        bool is_free[MOST] = {false};

        assert_int_equal(p->total, d->usable[kind]);
        assert_true(p->total >= p->least && p->total <= p->most);
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            const struct serving_slot *slot = &d->s.slots[i];
            const uint32_t *table = slot->tables[kind];
            for (uint32_t k = 0; k < slot->page_count; k++)
                if (table[k] != SERVING_NO_PAGE) {
                    assert_true(table[k] < p->total);
                    holders[table[k]]++;
                }
        }
        for (uint32_t i = p->oldest, before = SERVING_NO_PAGE; i != SERVING_NO_PAGE;
             before = i, i = p->at[i].newer) {
            assert_true(i < p->total && !is_free[i]);
            assert_int_equal(p->at[i].older, before);
            is_free[i] = true;
            listed++;
            cached += p->at[i].memory != SERVING_NO_PAGE;
        }
        assert_int_equal(listed, p->free_count);
        assert_int_equal(cached, p->cached_count);
        for (uint32_t i = 0; i < p->total; i++) {
            assert_int_equal(p->at[i].holders, holders[i]);
            assert_int_equal(is_free[i], holders[i] == 0);
            if (p->at[i].memory != SERVING_NO_PAGE)
                assert_int_equal(d->s.cache.memories[p->at[i].memory].page[kind], i);
        }
    }
}

static uint64_t digest(const struct engine_sequence *seq, uint32_t position)
{
    uint64_t h = seq->cache_scope;

    for (uint32_t i = 0; i <= position; i++)
        h = (h ^ seq->ids[i]) * 1099511628211u + 7;
    return h;
}

/* Checks every cell that the step reads, then writes the cells that it computes. */
static void compute(struct device *d, const struct engine_sequence *seq)
{
    const struct serving_slot *slot = &d->s.slots[seq->slot];

    for (uint32_t p = 0; p < seq->computed + seq->take; p++) {
        bool is_seen = p + WINDOW > seq->computed;
        uint64_t *full = &d->cell[KIND_FULL][slot->tables[KIND_FULL][p / PAGE]][p % PAGE];
        uint64_t *window =
            is_seen ? &d->cell[KIND_WINDOW][slot->tables[KIND_WINDOW][p / PAGE]][p % PAGE]
                    : NULL;
        if (p < seq->computed) {
            assert_int_equal(*full, digest(seq, p));
            assert_true(window == NULL || *window == digest(seq, p));
        } else {
            *full = *window = digest(seq, p);
        }
    }
}

static void step(struct device *d)
{
    (void)serving_scheduler_choose(&d->s);
    for (struct engine_sequence *seq = d->s.queue.running; seq != NULL; seq = seq->next)
        if (seq->take > 0)
            compute(d, seq);
    serving_scheduler_advance(&d->s, 0);
    for (struct engine_sequence *seq = d->s.queue.running; seq != NULL; seq = seq->next) {
        seq->reported = seq->computed < seq->prompt_count ? seq->computed : seq->prompt_count;
        if (seq->computed == seq->count && seq->count < CONTEXT)
            assert_true(engine_sequence_append(seq, seq->count * 7 % 500));
    }
    serving_scheduler_settle(&d->s);
}

static struct engine_sequence *add(struct device *d, const uint32_t *ids, uint32_t count)
{
    static uint64_t id;
    struct lr_engine_request r = plain_request(++id, ids, count, 0);
    struct engine_sequence *seq;

    r.cache_scope = "key";
    assert_int_equal(engine_sequence_create(&r, ids, count, CONTEXT, 1000, &seq, NULL), LR_OK);
    engine_queue_add(&d->s.queue, seq);
    return seq;
}

static void end(struct device *d, struct engine_sequence **seq)
{
    serving_scheduler_end(&d->s, *seq);
    engine_sequence_destroy(*seq);
    serving_scheduler_settle(&d->s);
    *seq = NULL;
}

static void limit(struct device *d, uint64_t bytes)
{
    const struct serving_kv_share share = serving_elastic_divide(&elastic, bytes);
    uint32_t before[KINDS], excess[KINDS];

    for (int kind = 0; kind < KINDS; kind++) {
        before[kind] = pages_of(d, kind)->total;
        excess[kind] = serving_elastic_excess(pages_of(d, kind), share.pages[kind]);
    }
    serving_scheduler_limit(&d->s, &share);
    for (int kind = 0; kind < KINDS; kind++)
        assert_int_equal(pages_of(d, kind)->total, before[kind] - excess[kind]);
}

/* ---- tests ---- */

static void ten_thousand_random_steps_lose_no_page_and_change_no_key(void **state)
{
    struct device *d = start();
    struct engine_sequence *live[4] = {0};
    uint32_t seed = 5;

    (void)state;
    for (uint32_t i = 0; i < 10000; i++) {
        seed = seed * 1664525u + 1013904223u;
        struct engine_sequence **at = &live[(seed >> 8) % 4];
        if ((seed >> 14) % 8 == 0)
            limit(d, (seed >> 17) % 3 == 0 ? 0 : (seed >> 10) % 12000);
        if ((seed >> 26) % 16 == 0)
            d->is_full = !d->is_full;
        if (*at == NULL) {
            uint32_t ids[CONTEXT], n = 1 + (seed >> 16) % 55, fork = (seed >> 12) % 50;
            for (uint32_t k = 0; k < n; k++)
                ids[k] = k < fork ? (seed >> 28) % 2 + k : 1 + (seed >> 5) % 400 + k;
            *at = add(d, ids, n);
        } else if ((seed >> 18) % 12 == 0) {
            end(d, at);
        }
        for (uint32_t k = 0; k < 4; k++)
            if (live[k] != NULL && live[k]->count > 62)
                end(d, &live[k]);
        step(d);
        check_pool(d);
    }
    for (uint32_t k = 0; k < 4; k++)
        if (live[k] != NULL)
            end(d, &live[k]);
    limit(d, 0);
    check_pool(d);
    for (int kind = 0; kind < KINDS; kind++) {
        assert_int_equal(pages_of(d, kind)->total, elastic.kinds[kind].least);
        assert_int_equal(pages_of(d, kind)->free_count, elastic.kinds[kind].least);
    }
    assert_true(d->grown > 50 && d->shrunk > 50 && d->moved > 500 && d->refused > 5);
    serving_scheduler_deinit(&d->s);
    free(d);
}

/* Runs a prompt to its end and returns how much of it was cached. */
static uint32_t run(struct device *d, uint32_t from, uint32_t count)
{
    uint32_t ids[CONTEXT];

    for (uint32_t i = 0; i < count; i++)
        ids[i] = from + i;
    struct engine_sequence *seq = add(d, ids, count);
    while (seq->count == count)
        step(d);
    uint32_t cached = seq->cached;
    end(d, &seq);
    return cached;
}

static void
the_pool_grows_before_a_prefix_is_lost_and_shrinks_by_the_oldest_prefixes(void **state)
{
    struct device *d = start();

    (void)state;
    limit(d, 40000);
    assert_int_equal(pages_of(d, KIND_FULL)->total, FULL); /* only when it is needed */
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(run(d, i * 100, 40), 0); /* 10 pages each */
    assert_true(pages_of(d, KIND_FULL)->total >= 80);
    assert_int_equal(run(d, 0, 40), 36); /* the first is cached still, and now the newest */
    check_pool(d);
    limit(d, 0);
    assert_int_equal(pages_of(d, KIND_FULL)->total, elastic.kinds[KIND_FULL].least);
    check_pool(d);
    assert_int_equal(run(d, 0, 40), 36);  /* moved, and the same */
    assert_int_equal(run(d, 100, 40), 0); /* the oldest is gone */
    serving_scheduler_deinit(&d->s);
    free(d);
}

static void memory_of_live_sequences_stays_and_goes_when_they_end(void **state)
{
    struct device *d = start();
    struct engine_sequence *seq[3];
    uint32_t ids[CONTEXT];

    (void)state;
    limit(d, 20000);
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < CONTEXT; k++)
            ids[k] = 100 * i + k;
        seq[i] = add(d, ids, 60);
    }
    for (int i = 0; i < 40; i++)
        step(d);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(seq[i]->count > 60);
    limit(d, 0);
    assert_true(pages_of(d, KIND_FULL)->total >= 45);
    assert_int_equal(serving_elastic_excess(pages_of(d, KIND_FULL), 0), 0);
    step(d);
    check_pool(d);
    end(d, &seq[1]);
    assert_true(pages_of(d, KIND_FULL)->total < 45);
    check_pool(d);
    end(d, &seq[0]);
    end(d, &seq[2]);
    assert_int_equal(pages_of(d, KIND_FULL)->total, elastic.kinds[KIND_FULL].least);
    serving_scheduler_deinit(&d->s);
    free(d);
}

static void a_limit_is_divided_within_its_bytes_and_the_bounds_of_the_plan(void **state)
{
    (void)state;
    for (uint64_t bytes = 0; bytes < 40000; bytes += 37) {
        struct serving_kv_share s = serving_elastic_divide(&elastic, bytes);
        uint64_t sum = s.pages[KIND_FULL] * elastic.kinds[KIND_FULL].page_bytes +
                       s.pages[KIND_WINDOW] * elastic.kinds[KIND_WINDOW].page_bytes;
        for (int kind = 0; kind < KINDS; kind++)
            assert_true(s.pages[kind] >= elastic.kinds[kind].least && s.pages[kind] <= MOST);
        assert_true(sum <= bytes || s.pages[KIND_FULL] == elastic.kinds[KIND_FULL].least);
    }
    struct serving_kv_share s = serving_elastic_divide(&elastic, elastic.kv);
    assert_int_equal(s.pages[KIND_FULL], FULL);
    assert_int_equal(s.pages[KIND_WINDOW], WINDOWS);
}

/* ---- the engine ---- */

static void a_real_model_gives_the_same_answer_from_moved_pages(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    const struct lr_engine_api *api = gptoss_engine_api();
    struct lr_error err = {0};
    uint32_t ids[700];
    uint64_t kv_bytes, base = recorder_stats(r).kv_bytes;
    int32_t busy;

    (void)state;
    for (uint32_t i = 0; i < 700; i++)
        ids[i] = 5 + i * 31 % 1900;
    for (uint64_t id = 1; id <= 3; id++) {
        struct lr_engine_request q = plain_request(id, ids + id, 600, 40);
        q.ignore_stop = 1;
        must_submit(r, &q);
        if (id == 1)
            recorder_run(r);
    }
    assert_int_equal(api->limit_kv(r->model, 4 * base, &kv_bytes, &err), LR_OK);
    assert_int_equal(kv_bytes, base);
    struct lr_engine_request again = plain_request(4, ids + 1, 600, 40);
    again.ignore_stop = 1;
    must_submit(r, &again);
    do { /* the limit goes up and down while they run */
        assert_int_equal(api->step(r->model, &busy, &err), LR_OK);
        struct lr_engine_stats st = recorder_stats(r);
        uint64_t promised = st.kv_bytes_reclaimable;
        assert_int_equal(api->limit_kv(r->model, st.steps % 3 * base, &kv_bytes, &err), LR_OK);
        assert_true(st.steps % 3 != 0 || kv_bytes == st.kv_bytes - promised);
    } while (busy);
    for (uint64_t id = 2; id <= 4; id++)
        assert_int_equal(record_of(r, id)->count, 40);
    assert_memory_equal(record_of(r, 1)->tokens, record_of(r, 4)->tokens,
                        40 * sizeof(uint32_t));
    assert_int_equal(recorder_stats(r).kv_bytes_in_use, 0);
    recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_random_steps_lose_no_page_and_change_no_key),
        cmocka_unit_test(
            the_pool_grows_before_a_prefix_is_lost_and_shrinks_by_the_oldest_prefixes),
        cmocka_unit_test(memory_of_live_sequences_stays_and_goes_when_they_end),
        cmocka_unit_test(a_limit_is_divided_within_its_bytes_and_the_bounds_of_the_plan),
        cmocka_unit_test(a_real_model_gives_the_same_answer_from_moved_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
