/* Who must go so that another fits: the least recently used, and nobody needlessly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/models/ledger.h"

/* A pool of 1000 bytes of which 900 may be used. */
static const struct node_pool_state pool = {.total = 1000, .limit_percent = 90};

#define IDLE(b, t)                                                                             \
    {                                                                                          \
        .bytes = (b), .last_used_ms = (t), .kind = NODE_CLAIM_IDLE                             \
    }
#define BUSY(b, t)                                                                             \
    {                                                                                          \
        .bytes = (b), .last_used_ms = (t), .kind = NODE_CLAIM_BUSY                             \
    }
#define PINNED(b, t)                                                                           \
    {                                                                                          \
        .bytes = (b), .last_used_ms = (t), .kind = NODE_CLAIM_PINNED                           \
    }

static void an_empty_pool_takes_what_fits(void **state)
{
    uint64_t available;
    (void)state;
    assert_int_equal(node_ledger_plan(&pool, NULL, 0, 900, &available), NODE_PLAN_FITS);
    assert_int_equal(available, 900);
    assert_int_equal(node_ledger_plan(&pool, NULL, 0, 901, &available), NODE_PLAN_NEVER);
}

static void the_least_recently_used_model_is_evicted(void **state)
{
    struct node_claim claims[] = {IDLE(300, 5), IDLE(300, 1), IDLE(300, 9)};
    uint64_t available;
    (void)state;
    assert_int_equal(node_ledger_plan(&pool, claims, 3, 200, &available), NODE_PLAN_EVICT);
    assert_false(claims[0].is_victim);
    assert_true(claims[1].is_victim);
    assert_false(claims[2].is_victim);
}

static void only_as_many_models_as_needed_are_evicted(void **state)
{
    /* By age the small one comes first, but the large one alone makes enough room. */
    struct node_claim claims[] = {IDLE(10, 1), IDLE(800, 2)};
    uint64_t available;
    (void)state;
    assert_int_equal(node_ledger_plan(&pool, claims, 2, 500, &available), NODE_PLAN_EVICT);
    assert_false(claims[0].is_victim);
    assert_true(claims[1].is_victim);
}

static void idle_models_are_evicted_before_busy_ones(void **state)
{
    struct node_claim claims[] = {BUSY(400, 1), IDLE(400, 9)};
    uint64_t available;
    (void)state;
    assert_int_equal(node_ledger_plan(&pool, claims, 2, 400, &available), NODE_PLAN_EVICT);
    assert_false(claims[0].is_victim);
    assert_true(claims[1].is_victim);
    assert_int_equal(node_ledger_plan(&pool, claims, 2, 900, &available), NODE_PLAN_WAIT);
    assert_true(claims[0].is_victim);
}

/* Reserved, and the part that could be given back. */
#define CACHE(b, r, t)                                                                         \
    {                                                                                          \
        .bytes = (b), .reclaimable = (r), .last_used_ms = (t), .kind = NODE_CLAIM_BUSY         \
    }

static void reclaimable_memory_counts_as_free_and_nobody_is_evicted(void **state)
{
    struct node_claim claims[] = {CACHE(500, 200, 5), CACHE(300, 250, 1), IDLE(50, 0)};
    uint64_t available;
    (void)state;
    assert_int_equal(node_ledger_plan(&pool, claims, 3, 50, &available), NODE_PLAN_FITS);
    assert_int_equal(claims[0].gives + claims[1].gives, 0);
    assert_int_equal(node_ledger_plan(&pool, claims, 3, 200, &available), NODE_PLAN_RECLAIM);
    assert_int_equal(claims[0].gives, 0); /* the least recently used gives first */
    assert_int_equal(claims[1].gives, 150);
    assert_int_equal(node_ledger_plan(&pool, claims, 3, 500, &available), NODE_PLAN_RECLAIM);
    assert_int_equal(claims[0].gives, 200);
    assert_int_equal(claims[1].gives, 250);
    assert_int_equal(claims[2].gives, 0);
    assert_false(claims[2].is_victim);
    assert_int_equal(node_ledger_plan(&pool, claims, 3, 550, &available), NODE_PLAN_EVICT);
    assert_true(claims[2].is_victim);
    assert_int_equal(claims[0].gives + claims[1].gives, 450); /* and both give all */
}

static void a_pinned_model_gives_memory_back_too(void **state)
{
    struct node_claim claims[] = {PINNED(800, 1)};
    uint64_t available;
    (void)state;
    claims[0].reclaimable = 500;
    assert_int_equal(node_ledger_plan(&pool, claims, 1, 600, &available), NODE_PLAN_RECLAIM);
    assert_int_equal(available, 600);
    assert_int_equal(claims[0].gives, 500);
    assert_int_equal(node_ledger_plan(&pool, claims, 1, 601, &available), NODE_PLAN_NEVER);
}

static void a_cap_holds_for_our_models_and_not_for_others(void **state)
{
    struct node_pool_state capped = pool;
    struct node_claim claims[] = {IDLE(100, 1)};
    uint64_t available;
    (void)state;
    capped.cap = 300;
    assert_int_equal(node_ledger_limit(&capped), 300);
    assert_int_equal(node_ledger_plan(&capped, claims, 1, 200, &available), NODE_PLAN_FITS);
    assert_int_equal(node_ledger_plan(&capped, claims, 1, 201, &available), NODE_PLAN_EVICT);
    assert_int_equal(node_ledger_plan(&capped, claims, 1, 301, &available), NODE_PLAN_NEVER);
    capped.used = 500; /* by others: 400 are left */
    assert_int_equal(node_ledger_capacity(&capped, claims, 0), 300);
    capped.used = 700;
    assert_int_equal(node_ledger_capacity(&capped, claims, 0), 200);
    capped.cap = 2000; /* more than there is */
    assert_int_equal(node_ledger_limit(&capped), 900);
}

static void pinned_models_are_never_evicted(void **state)
{
    struct node_claim claims[] = {PINNED(500, 1), IDLE(100, 9)};
    uint64_t available;
    (void)state;
    assert_int_equal(node_ledger_plan(&pool, claims, 2, 401, &available), NODE_PLAN_NEVER);
    assert_int_equal(available, 400);
    assert_int_equal(node_ledger_plan(&pool, claims, 2, 400, &available), NODE_PLAN_EVICT);
    assert_false(claims[0].is_victim);
}

static void memory_of_other_programs_is_not_available(void **state)
{
    /* 600 in use, 200 of it by us: 400 are foreign, so 500 are left for our models. */
    const struct node_pool_state shared = {.total = 1000, .used = 600, .limit_percent = 90};
    struct node_claim claims[] = {IDLE(200, 1)};
    uint64_t available;
    (void)state;
    claims[0].measured = 200;
    assert_int_equal(node_ledger_foreign(&shared, claims, 1), 400);
    assert_int_equal(node_ledger_plan(&shared, claims, 1, 300, &available), NODE_PLAN_FITS);
    assert_int_equal(node_ledger_plan(&shared, claims, 1, 301, &available), NODE_PLAN_EVICT);
    assert_int_equal(node_ledger_plan(&shared, claims, 1, 501, &available), NODE_PLAN_NEVER);
}

static void an_unknown_pool_holds_everything(void **state)
{
    const struct node_pool_state unknown = {0};
    uint64_t available;
    (void)state;
    assert_int_equal(node_ledger_plan(&unknown, NULL, 0, UINT64_MAX / 2, &available),
                     NODE_PLAN_FITS);
    assert_false(node_ledger_over(&unknown));
}

static void memory_pressure_evicts_only_idle_models_that_are_not_tiny(void **state)
{
    const struct node_pool_state full = {.total = 1000, .used = 950, .limit_percent = 90};
    struct node_claim claims[] = {BUSY(300, 1), PINNED(300, 2), IDLE(9, 3), IDLE(200, 8),
                                  IDLE(100, 7)};
    (void)state;
    assert_true(node_ledger_over(&full));
    assert_int_equal(node_ledger_pressure(&full, claims, 5), 4);
    assert_int_equal(node_ledger_pressure(&full, claims, 3), 3);
}

static void ninety_percent_is_over_and_a_little_less_is_not(void **state)
{
    struct node_pool_state p = {.total = 1000000, .limit_percent = 90};
    (void)state;
    p.used = 899999;
    assert_false(node_ledger_over(&p));
    p.used = 900000;
    assert_true(node_ledger_over(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_pool_takes_what_fits),
        cmocka_unit_test(the_least_recently_used_model_is_evicted),
        cmocka_unit_test(only_as_many_models_as_needed_are_evicted),
        cmocka_unit_test(idle_models_are_evicted_before_busy_ones),
        cmocka_unit_test(pinned_models_are_never_evicted),
        cmocka_unit_test(reclaimable_memory_counts_as_free_and_nobody_is_evicted),
        cmocka_unit_test(a_pinned_model_gives_memory_back_too),
        cmocka_unit_test(a_cap_holds_for_our_models_and_not_for_others),
        cmocka_unit_test(memory_of_other_programs_is_not_available),
        cmocka_unit_test(an_unknown_pool_holds_everything),
        cmocka_unit_test(memory_pressure_evicts_only_idle_models_that_are_not_tiny),
        cmocka_unit_test(ninety_percent_is_over_and_a_little_less_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
