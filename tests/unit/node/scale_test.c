/* How many replicas the traffic asks for, on a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/models/scale.h"

/* Four slots a replica. */
static struct node_scale_view with(uint32_t ready, uint32_t load, bool has_room)
{
    return (struct node_scale_view){
        .ready = ready, .slots = 4 * ready, .load = load, .has_room = has_room};
}

/* Every 100 ms for so long, the first look at `from`. */
static void look(struct node_scale *s, struct node_scale_view view, uint64_t from, uint64_t ms)
{
    for (uint64_t at = 0; at <= ms; at += 100)
        node_scale_look(s, &view, from + at);
}

static void one_more_is_wanted_after_three_seconds_without_a_free_slot(void **state)
{
    struct node_scale s = {0};
    (void)state;
    look(&s, with(1, 4, true), 1000, NODE_SCALE_PRESSED_MS - 100);
    assert_int_equal(s.state, NODE_SCALE_PRESSED);
    assert_int_equal(s.extra, 0);
    node_scale_look(&s, &(struct node_scale_view){1, 4, 9, true}, 1000 + NODE_SCALE_PRESSED_MS);
    assert_int_equal(s.extra, 1);
    assert_int_equal(s.state, NODE_SCALE_STEADY);
    /* Not another one while that one loads, however many wait. */
    look(&s, with(1, 99, true), 5000, 60000);
    assert_int_equal(s.extra, 1);
    look(&s, with(2, 99, true), 70000, NODE_SCALE_PRESSED_MS);
    assert_int_equal(s.extra, 2);
}

static void a_free_slot_in_between_begins_anew(void **state)
{
    struct node_scale s = {0};
    (void)state;
    for (uint64_t t = 1000; t < 60000; t += 2000) {
        look(&s, with(1, 6, true), t, 1900);
        node_scale_look(&s, &(struct node_scale_view){1, 4, 3, true}, t + 1950);
    }
    assert_int_equal(s.extra, 0);
}

static void nothing_is_wanted_that_has_no_room(void **state)
{
    struct node_scale s = {0};
    (void)state;
    look(&s, with(1, 9, false), 1000, 60000);
    assert_int_equal(s.extra, 0);
    assert_int_equal(s.state, NODE_SCALE_PRESSED);
    /* The room has come: the requests have waited for long enough. */
    node_scale_look(&s, &(struct node_scale_view){1, 4, 9, true}, 61100);
    assert_int_equal(s.extra, 1);
}

static void one_less_is_wanted_after_two_minutes_with_little_to_do(void **state)
{
    struct node_scale s = {.extra = 2};
    (void)state;
    /* 4 of 12 requests: half of what two replicas hold. */
    look(&s, with(3, 4, true), 1000, NODE_SCALE_SLACK_MS - 100);
    assert_int_equal(s.state, NODE_SCALE_SLACK);
    assert_int_equal(s.extra, 2);
    look(&s, with(3, 4, true), 1000 + NODE_SCALE_SLACK_MS, 0);
    assert_int_equal(s.extra, 1);
    look(&s, with(2, 3, true), 200000, 10 * NODE_SCALE_SLACK_MS);
    assert_int_equal(s.extra, 1); /* three of four slots of the other one would be taken */
    look(&s, with(2, 0, true), 3000000, 3 * NODE_SCALE_SLACK_MS);
    assert_int_equal(s.extra, 0);
    assert_int_equal(s.state, NODE_SCALE_STEADY);
}

static void a_replica_that_gave_its_memory_away_is_not_wanted_again_at_once(void **state)
{
    struct node_scale s = {.extra = 1};
    (void)state;
    node_scale_gave(&s, 1000);
    assert_int_equal(s.extra, 0);
    look(&s, with(1, 4, true), 2000, NODE_SCALE_PRESSED_MS - 100);
    assert_int_equal(s.extra, 0);
    node_scale_gave(&s, 9000);
    assert_int_equal(s.extra, 0);
    assert_int_equal(s.state, NODE_SCALE_STEADY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_is_wanted_after_three_seconds_without_a_free_slot),
        cmocka_unit_test(a_free_slot_in_between_begins_anew),
        cmocka_unit_test(nothing_is_wanted_that_has_no_room),
        cmocka_unit_test(one_less_is_wanted_after_two_minutes_with_little_to_do),
        cmocka_unit_test(a_replica_that_gave_its_memory_away_is_not_wanted_again_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
