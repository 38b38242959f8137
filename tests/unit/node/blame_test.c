/* After a worker's death the guilty request is found, and no other one pays for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/workers/blame.h"

static const struct node_victim newcomer = {.entry = WIRE_ENTRY_NEW, .is_newcomer = true};
static const struct node_victim veteran = {.entry = WIRE_ENTRY_NEW, .has_entered = true};
static const struct node_victim waiting = {.entry = WIRE_ENTRY_NEW};

static void a_newcomer_alone_has_a_strike_and_the_others_go_on(void **state)
{
    struct node_blame blame = {0};
    struct node_victim v[] = {veteran, newcomer, veteran, waiting};
    (void)state;
    node_blame_decide(&blame, v, 4, 1000);
    assert_int_equal(v[0].entry, WIRE_ENTRY_RESUMED);
    assert_int_equal(v[1].entry, WIRE_ENTRY_SUSPECT);
    assert_int_equal(v[2].entry, WIRE_ENTRY_RESUMED);
    assert_int_equal(v[3].entry, WIRE_ENTRY_NEW); /* it was never in a step */
    assert_true(v[1].has_strike);
    assert_false(v[0].has_strike || v[2].has_strike || v[3].has_strike);
}

static void several_newcomers_are_suspects_without_a_strike(void **state)
{
    struct node_blame blame = {0};
    struct node_victim v[] = {newcomer, newcomer, veteran};
    (void)state;
    node_blame_decide(&blame, v, 3, 1000);
    assert_int_equal(v[0].entry, WIRE_ENTRY_SUSPECT);
    assert_int_equal(v[1].entry, WIRE_ENTRY_SUSPECT);
    assert_int_equal(v[2].entry, WIRE_ENTRY_RESUMED);
    assert_false(v[0].has_strike || v[1].has_strike || v[2].has_strike);
}

static void after_one_death_without_newcomers_all_requests_continue_together(void **state)
{
    struct node_blame blame = {0};
    struct node_victim v[] = {veteran, veteran};
    (void)state;
    node_blame_decide(&blame, v, 2, 1000);
    /* A minute later it is the first one again. */
    node_blame_decide(&blame, v, 2, 1000 + NODE_BLAME_WINDOW_MS);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(v[i].entry, WIRE_ENTRY_COHORT);
        assert_int_equal(v[i].cohort, WIRE_COHORT_TOGETHER);
        assert_false(v[i].has_strike);
    }
}

static void a_lone_request_has_a_strike_only_where_it_died_soon_after_it_came_back(void **state)
{
    struct node_blame blame = {0};
    struct node_victim v = veteran;
    (void)state;
    node_blame_decide(&blame, &v, 1, 1000);
    assert_false(v.has_strike);
    node_blame_decide(&blame, &v, 1, 2000); /* it had come further: not on probation */
    assert_false(v.has_strike);
    v.is_on_probation = true;
    node_blame_decide(&blame, &v, 1, 3000);
    assert_true(v.has_strike);
}

static void a_second_death_within_a_minute_divides_those_that_came_further(void **state)
{
    struct node_blame blame = {0};
    struct node_victim v[] = {veteran, veteran, veteran};
    (void)state;
    node_blame_decide(&blame, v, 3, 1000);
    node_blame_decide(&blame, v, 3, 2000);
    assert_int_equal(v[0].cohort, v[1].cohort);
    assert_int_not_equal(v[0].cohort, v[2].cohort);
    assert_false(v[0].has_strike || v[1].has_strike || v[2].has_strike);
}

static void those_on_probation_are_suspected_before_those_that_came_further(void **state)
{
    struct node_blame blame = {0};
    struct node_victim tried = {
        .entry = WIRE_ENTRY_COHORT, .cohort = 7, .has_entered = true, .is_on_probation = true};
    struct node_victim v[] = {veteran, tried, veteran, tried};
    (void)state;
    node_blame_decide(&blame, v, 4, 1000);
    assert_int_equal(v[0].entry, WIRE_ENTRY_RESUMED);
    assert_int_equal(v[2].entry, WIRE_ENTRY_RESUMED);
    assert_int_equal(v[1].entry, WIRE_ENTRY_COHORT);
    assert_int_equal(v[3].entry, WIRE_ENTRY_COHORT);
    assert_int_not_equal(v[1].cohort, v[3].cohort);
}

/* Plays deaths until the request that kills the worker in mid-answer has two strikes.  Cohorts
 * go in by number, each when the one before is cleared.  Gives the deaths it took. */
static unsigned find_culprit(size_t count, size_t culprit)
{
    enum { MOST = 600 };
    struct node_blame blame = {0};
    static struct node_victim all[MOST], in[MOST];
    static size_t who[MOST];
    static unsigned strikes[MOST];
    memset(strikes, 0, sizeof(strikes));
    for (size_t i = 0; i < count; i++)
        all[i] = veteran;
    unsigned deaths = 0;
    for (uint64_t now = 1000; strikes[culprit] < WIRE_STRIKES_MAX; now += 500) {
        /* The culprit's cohort is in, on probation; earlier ones are cleared. */
        size_t live = 0;
        for (size_t i = 0; i < count; i++) {
            bool is_cohort = all[i].entry == WIRE_ENTRY_COHORT;
            if (all[culprit].entry == WIRE_ENTRY_COHORT && is_cohort &&
                all[i].cohort > all[culprit].cohort)
                continue; /* still in the node's queue */
            in[live] = all[i];
            in[live].has_entered = true;
            in[live].is_on_probation = is_cohort && all[i].cohort == all[culprit].cohort;
            who[live++] = i;
        }
        node_blame_decide(&blame, in, live, now);
        deaths++;
        for (size_t i = 0; i < live; i++) {
            all[who[i]] = in[i];
            strikes[who[i]] += in[i].has_strike;
        }
        assert_true(deaths < 30);
    }
    for (size_t i = 0; i < count; i++)
        assert_true(i == culprit || strikes[i] == 0);
    return deaths;
}

static void a_request_that_kills_in_mid_answer_is_found_by_halves(void **state)
{
    (void)state;
    for (size_t culprit = 0; culprit < 16; culprit++)
        assert_true(find_culprit(16, culprit) <= 2 + 4 + 2);
    assert_true(find_culprit(1, 0) == 3);
    assert_true(find_culprit(512, 300) <= 2 + 9 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newcomer_alone_has_a_strike_and_the_others_go_on),
        cmocka_unit_test(several_newcomers_are_suspects_without_a_strike),
        cmocka_unit_test(after_one_death_without_newcomers_all_requests_continue_together),
        cmocka_unit_test(
            a_lone_request_has_a_strike_only_where_it_died_soon_after_it_came_back),
        cmocka_unit_test(a_second_death_within_a_minute_divides_those_that_came_further),
        cmocka_unit_test(those_on_probation_are_suspected_before_those_that_came_further),
        cmocka_unit_test(a_request_that_kills_in_mid_answer_is_found_by_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
