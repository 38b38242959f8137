/* How many wrong keys may come from an address. */
#include "tests/unit/router/support.h"

#include "router/access/tries.h"

enum { NOW = 100000 };

static struct router_tries tries; /* large */

static void begin(void)
{
    tries = (struct router_tries){.per_minute = 10, .what = "wrong keys"};
}

static lr_code try_from(const char *address, uint64_t now_ms)
{
    uint32_t retry;
    return router_try(&tries, address, now_ms, &retry, NULL);
}

static void ten_tries_a_minute_then_a_wait(void **state)
{
    struct lr_error err;
    uint32_t retry;
    (void)state;
    begin();
    for (int i = 0; i < 10; i++)
        assert_int_equal(try_from("10.0.0.1", NOW), LR_OK);
    assert_int_equal(router_try(&tries, "10.0.0.1", NOW, &retry, &err), LR_RATE_LIMITED);
    assert_in_range(retry, 1, 7);
    assert_contains(err.text, "10 wrong keys a minute came from 10.0.0.1");
    assert_int_equal(try_from("10.0.0.2", NOW), LR_OK);
    assert_int_equal(try_from("10.0.0.1", NOW + 6001), LR_OK);
    assert_int_equal(try_from("10.0.0.1", NOW + 6001), LR_RATE_LIMITED);
}

static void tries_from_one_ipv6_network_count_together(void **state)
{
    char address[48];
    (void)state;
    begin();
    for (int i = 0; i < 10; i++) {
        (void)snprintf(address, sizeof(address), "2001:db8::%x", i + 1);
        assert_int_equal(try_from(address, NOW), LR_OK);
    }
    assert_int_equal(try_from("2001:db8::ffff", NOW), LR_RATE_LIMITED);
    assert_int_equal(try_from("2001:db8:0:1::1", NOW), LR_OK);
    for (int i = 0; i < 10; i++)
        assert_int_equal(try_from("::ffff:10.0.0.1", NOW), LR_OK);
    assert_int_equal(try_from("::ffff:10.0.0.2", NOW), LR_OK);
}

static void the_address_that_tried_longest_ago_makes_room(void **state)
{
    char address[48];
    (void)state;
    begin();
    for (int i = 0; i < 10; i++)
        assert_int_equal(try_from("10.0.0.1", NOW), LR_OK);
    for (int i = 0; i < ROUTER_TRIERS_MAX - 1; i++) {
        (void)snprintf(address, sizeof(address), "10.1.%d.1", i);
        assert_int_equal(try_from(address, NOW + 1), LR_OK);
    }
    assert_int_equal(try_from("10.0.0.1", NOW + 2), LR_RATE_LIMITED); /* tried last */
    for (int i = 0; i < ROUTER_TRIERS_MAX - 1; i++) {
        (void)snprintf(address, sizeof(address), "10.2.%d.1", i);
        assert_int_equal(try_from(address, NOW + 2), LR_OK);
    }
    assert_int_equal(try_from("10.0.0.1", NOW + 2), LR_RATE_LIMITED);
    for (int i = 0; i < ROUTER_TRIERS_MAX; i++) {
        (void)snprintf(address, sizeof(address), "10.3.%d.1", i);
        assert_int_equal(try_from(address, NOW + 3), LR_OK);
    }
    assert_int_equal(try_from("10.0.0.1", NOW + 3), LR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_tries_a_minute_then_a_wait),
        cmocka_unit_test(tries_from_one_ipv6_network_count_together),
        cmocka_unit_test(the_address_that_tried_longest_ago_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
