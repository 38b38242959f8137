/* When what has failed is tried again, on a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/models/breaker.h"

enum { LIMIT = 3 };

static void one_or_two_deaths_are_retried_at_once_and_the_third_opens_the_breaker(void **state)
{
    struct node_breaker b = {0};
    (void)state;
    assert_false(node_breaker_died(&b, LIMIT, 100));
    assert_false(node_breaker_died(&b, LIMIT, 200));
    assert_int_equal(b.due_ms, 0);
    assert_true(node_breaker_died(&b, LIMIT, 300));
    assert_int_equal(b.failures, 3);
    assert_false(node_breaker_is_due(&b, 300 + 999));
    assert_true(node_breaker_is_due(&b, 300 + 1000));
    /* And each one after it. */
    assert_true(node_breaker_died(&b, LIMIT, 2000));
    assert_int_equal(node_breaker_wait_ms(&b, 2000), 2000);
}

static void a_failure_with_a_reason_opens_the_breaker_at_once(void **state)
{
    struct node_breaker b = {0};
    (void)state;
    node_breaker_failed(&b, 50);
    assert_int_equal(node_breaker_wait_ms(&b, 50), 1000);
    assert_int_equal(b.failures, 1);
    /* A death in the try is no chance any more. */
    assert_true(node_breaker_died(&b, LIMIT, 1050));
    assert_int_equal(node_breaker_wait_ms(&b, 1050), 2000);
}

static void the_model_is_retried_after_one_second_growing_to_five_minutes(void **state)
{
    static const uint64_t seconds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300};
    struct node_breaker b = {0};
    uint64_t now = 1000000;
    (void)state;
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        node_breaker_failed(&b, now);
        assert_int_equal(node_breaker_wait_ms(&b, now), seconds[i] * 1000);
        assert_false(node_breaker_is_due(&b, now + seconds[i] * 1000 - 1));
        now += seconds[i] * 1000;
        assert_true(node_breaker_is_due(&b, now));
    }
    for (int i = 0; i < 10000; i++)
        node_breaker_failed(&b, now);
    assert_int_equal(node_breaker_wait_ms(&b, now), NODE_BREAKER_MOST_MS);
}

static void while_requests_come_tries_are_at_most_five_seconds_apart(void **state)
{
    struct node_breaker b = {0};
    uint64_t now = 0, tried = 0, longest = 0;
    unsigned tries = 0;
    (void)state;
    node_breaker_failed(&b, now);
    for (now = 100; now <= 120000; now += 100) { /* a request every 100 ms */
        if (!node_breaker_takes_request(&b, now))
            continue;
        longest = now - tried > longest ? now - tried : longest;
        tried = now;
        tries++;
        node_breaker_failed(&b, now);
    }
    assert_true(longest <= 5000);
    assert_in_range(tries, 24, 28); /* and not one for each request */
}

static void nothing_is_due_while_a_try_is_under_way(void **state)
{
    struct node_breaker b = {0};
    (void)state;
    node_breaker_failed(&b, 1000);
    node_breaker_try(&b);
    assert_false(node_breaker_is_due(&b, 900000));
    node_breaker_failed(&b, 3000);
    assert_int_equal(node_breaker_wait_ms(&b, 3000), 2000);
}

static void success_resets_the_breaker(void **state)
{
    struct node_breaker b = {0};
    (void)state;
    for (int i = 0; i < 9; i++)
        node_breaker_failed(&b, 1000);
    node_breaker_succeeded(&b);
    assert_false(node_breaker_is_due(&b, UINT64_MAX / 2));
    assert_int_equal(b.failures, 0);
    assert_false(node_breaker_died(&b, LIMIT, 2000));
    assert_false(node_breaker_died(&b, LIMIT, 2001));
    assert_true(node_breaker_died(&b, LIMIT, 2002));
    assert_int_equal(node_breaker_wait_ms(&b, 2002), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_or_two_deaths_are_retried_at_once_and_the_third_opens_the_breaker),
        cmocka_unit_test(a_failure_with_a_reason_opens_the_breaker_at_once),
        cmocka_unit_test(the_model_is_retried_after_one_second_growing_to_five_minutes),
        cmocka_unit_test(while_requests_come_tries_are_at_most_five_seconds_apart),
        cmocka_unit_test(nothing_is_due_while_a_try_is_under_way),
        cmocka_unit_test(success_resets_the_breaker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
