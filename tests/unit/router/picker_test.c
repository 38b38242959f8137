/* The node that will be quickest gets the request: by table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "router/sched/picker.h"

static const struct router_demand demand = {.prompt_tokens = 100};

#define LOADED .is_loaded = true, .slots = 4

static void no_node_is_picked_if_there_are_none_or_all_are_full(void **state)
{
    struct router_candidate full[] = {{LOADED, .inflight = 6}, {LOADED, .inflight = 7}};
    (void)state;
    assert_true(router_pick(full, 0, &demand) == ROUTER_NOBODY);
    assert_true(router_pick(full, 2, &demand) == ROUTER_NOBODY);
    full[1].inflight = 5;
    assert_int_equal(router_pick(full, 2, &demand), 1);
}

static void slots_and_two_beyond_is_the_limit(void **state)
{
    struct router_candidate n = {LOADED, .inflight = 5};
    (void)state;
    assert_true(router_has_room(&n));
    n.inflight = 6;
    assert_false(router_has_room(&n));
    n.slots = 0; /* not known yet */
    n.inflight = ROUTER_SLOTS_UNKNOWN + ROUTER_SLOTS_BEYOND;
    assert_false(router_has_room(&n));
    n.inflight--;
    assert_true(router_has_room(&n));
}

static void the_cheapest_by_each_part_of_the_cost(void **state)
{
    static const struct {
        struct router_candidate nodes[3];
        size_t best;
    } rows[] = {
        /* loaded before not loaded */
        {{{.weight_bytes = 1000000000, .slots = 4}, {LOADED}, {LOADED, .active = 1}}, 1},
        /* fewer active */
        {{{LOADED, .active = 3}, {LOADED, .active = 1}, {LOADED, .active = 2}}, 1},
        /* a faster step makes up for one more */
        {{{LOADED, .active = 1, .step_ms = 50},
          {LOADED, .active = 2, .step_ms = 5},
          {LOADED, .active = 3, .step_ms = 50}},
         1},
        /* a faster prefill */
        {{{LOADED, .prefill_ms = 2}, {LOADED, .prefill_ms = 0.1}, {LOADED, .prefill_ms = 1}},
         1},
        /* what is cached need not be computed, and outweighs a little load, not much of it */
        {{{LOADED}, {LOADED, .cached = 0.9, .active = 1}, {LOADED, .cached = 0.5}}, 1},
        {{{LOADED}, {LOADED, .cached = 0.9, .active = 3}, {LOADED, .active = 1}}, 0},
        /* a full one costs the wait for somebody's end */
        {{{LOADED, .active = 4, .step_ms = 1, .inflight = 4},
          {LOADED, .active = 3, .step_ms = 10},
          {LOADED, .active = 4, .step_ms = 10, .inflight = 4}},
         1},
        /* who has just failed comes last, even idle */
        {{{LOADED, .is_avoided = true}, {LOADED, .active = 3}, {LOADED, .is_avoided = true}},
         1},
        /* a measured load time counts, not the guess */
        {{{.slots = 4, .weight_bytes = 100, .load_ms = 9000},
          {.slots = 4, .weight_bytes = 100, .load_ms = 100},
          {.slots = 4, .weight_bytes = 100}},
         1},
        /* equal costs: the first */
        {{{LOADED, .active = 1}, {LOADED}, {LOADED}}, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct router_candidate nodes[3] = {rows[i].nodes[0], rows[i].nodes[1],
                                            rows[i].nodes[2]};
        size_t best = router_pick(nodes, 3, &demand);
        if (best != rows[i].best)
            print_error("row %zu: %zu instead of %zu\n", i, best, rows[i].best);
        assert_int_equal(best, rows[i].best);
    }
}

static void a_node_never_measured_gets_the_median_not_zero(void **state)
{
    /* Zero would make the new node (0) look better than the fast one (1). */
    struct router_candidate nodes[] = {{LOADED},
                                       {LOADED, .prefill_ms = 0.1},
                                       {LOADED, .prefill_ms = 1},
                                       {LOADED, .prefill_ms = 5}};
    (void)state;
    assert_int_equal(router_pick(nodes, 4, &demand), 1);
    assert_true(nodes[0].cost == nodes[2].cost);
}

static void an_avoided_node_gets_requests_if_no_other_node_is_left(void **state)
{
    struct router_candidate nodes[] = {{LOADED, .inflight = 6}, {LOADED, .is_avoided = true}};
    (void)state;
    assert_int_equal(router_pick(nodes, 2, &demand), 1);
}

static void a_barred_node_gets_no_request_even_if_it_is_the_last(void **state)
{
    struct router_candidate nodes[] = {{LOADED, .is_barred = true}, {LOADED, .inflight = 6}};
    (void)state;
    assert_true(router_pick(nodes, 2, &demand) == ROUTER_NOBODY);
    nodes[1].inflight = 0;
    nodes[1].is_avoided = true;
    assert_int_equal(router_pick(nodes, 2, &demand), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_node_is_picked_if_there_are_none_or_all_are_full),
        cmocka_unit_test(slots_and_two_beyond_is_the_limit),
        cmocka_unit_test(the_cheapest_by_each_part_of_the_cost),
        cmocka_unit_test(a_node_never_measured_gets_the_median_not_zero),
        cmocka_unit_test(an_avoided_node_gets_requests_if_no_other_node_is_left),
        cmocka_unit_test(a_barred_node_gets_no_request_even_if_it_is_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
