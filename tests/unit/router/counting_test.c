/* Turns of requests that count tokens. */
#include "tests/unit/router/support.h"

#include "router/sched/counting.h"

enum {
    BIG = 1,
    SMALL = 2,
    MANY = ROUTER_COUNTS_WAITING + ROUTER_COUNTS_RUNNING,
    BYTES = 1 << 20
};

static struct router_counting counting;
static struct router_count_ask big[MANY + 1], small;

static lr_code enter(struct router_count_ask *ask, uint64_t key, uint64_t now,
                     struct router_count_ask **pushed_out)
{
    struct lr_error err;
    *ask = (struct router_count_ask){.key = key, .waiter.bytes = 100};
    return router_counting_enter(&counting, ask, BYTES, now, pushed_out, &err);
}

static void fill(void)
{
    struct router_count_ask *none;
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(enter(&big[i], BIG, 0, &none), LR_OK);
        assert_int_equal(big[i].state, i < ROUTER_COUNTS_RUNNING ? ROUTER_COUNT_RUNNING
                                                                 : ROUTER_COUNT_WAITING);
    }
}

static void empty(void)
{
    for (size_t i = 0; i < MANY; i++)
        if (big[i].state != ROUTER_COUNT_OVER)
            router_counting_leave(&counting, &big[i]);
    if (small.state == ROUTER_COUNT_RUNNING)
        router_counting_leave(&counting, &small);
    assert_int_equal(counting.running, 0);
    assert_int_equal(counting.waiting.count, 0);
}

static void a_key_with_many_requests_delays_anothers_by_one(void **state)
{
    struct router_count_ask *pushed_out;
    (void)state;
    fill();
    assert_int_equal(enter(&big[MANY], BIG, 0, &pushed_out), LR_RATE_LIMITED);
    assert_int_equal(big[MANY].state, ROUTER_COUNT_NEW);
    assert_int_equal(enter(&small, SMALL, 0, &pushed_out), LR_OK);
    assert_ptr_equal(pushed_out, &big[MANY - 1]); /* the newest */
    assert_int_equal(pushed_out->state, ROUTER_COUNT_REFUSED);
    assert_null(router_counting_next(&counting, 0));
    size_t before = 0;
    for (size_t over = 0; small.state == ROUTER_COUNT_WAITING; over++) {
        router_counting_leave(&counting, &big[over]);
        before += router_counting_next(&counting, 0) != &small;
    }
    assert_true(before <= 1);
    assert_int_equal(small.state, ROUTER_COUNT_RUNNING);
    assert_int_equal(counting.running, ROUTER_COUNTS_RUNNING);
    empty();
}

static void who_waited_too_long_is_refused_and_takes_no_place(void **state)
{
    (void)state;
    fill();
    struct router_count_ask *next;
    size_t refused = 0;
    assert_null(router_counting_next(&counting, ROUTER_COUNTS_WAIT_MS));
    router_counting_leave(&counting, &big[0]);
    while ((next = router_counting_next(&counting, ROUTER_COUNTS_WAIT_MS)) != NULL) {
        assert_int_equal(next->state, ROUTER_COUNT_REFUSED);
        refused++;
    }
    assert_int_equal(refused, ROUTER_COUNTS_WAITING);
    assert_int_equal(counting.running, ROUTER_COUNTS_RUNNING - 1);
    empty();
}

static void a_client_that_leaves_gives_its_place_back(void **state)
{
    (void)state;
    fill();
    router_counting_leave(&counting, &big[5]);
    assert_int_equal(counting.waiting.count, ROUTER_COUNTS_WAITING - 1);
    router_counting_leave(&counting, &big[0]);
    assert_ptr_equal(router_counting_next(&counting, 0), &big[2]);
    empty();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_with_many_requests_delays_anothers_by_one),
        cmocka_unit_test(who_waited_too_long_is_refused_and_takes_no_place),
        cmocka_unit_test(a_client_that_leaves_gives_its_place_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
