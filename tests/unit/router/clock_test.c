/* A clock that jumps is in doubt for a while: what is old by it is not removed. */
#include "tests/unit/router/support.h"

#include "router/store/clock.h"

enum { SECOND = 1000, DAY = 86400 * 1000 };

static struct lr_fake_clock now;
static struct router_clock_watch watch;

static int set_up(void **state)
{
    (void)state;
    lr_fake_clock_init(&now, SECOND, 1700000000000);
    watch = (struct router_clock_watch){0};
    return 0;
}

static bool is_steady(void)
{
    return router_clock_watch_look(&watch, lr_clock_wall_ms(&now.clock),
                                   lr_clock_ms(&now.clock));
}

static void a_clock_that_goes_evenly_is_steady(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(is_steady());
        lr_fake_clock_advance_ms(&now, i % 2 != 0 ? SECOND : 3600 * SECOND);
        now.wall_ms += i % 3 * SECOND; /* it is corrected a little */
    }
}

static void after_a_jump_in_either_direction_it_is_in_doubt_for_an_hour(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        set_up(state);
        assert_true(is_steady());
        lr_fake_clock_advance_ms(&now, SECOND);
        now.wall_ms += sign * (ROUTER_CLOCK_JUMP_MS + 1);
        assert_false(is_steady());
        lr_fake_clock_advance_ms(&now, ROUTER_CLOCK_DOUBT_MS - 1);
        assert_false(is_steady());
        lr_fake_clock_advance_ms(&now, 1);
        assert_true(is_steady());
    }
}

static void a_jump_back_begins_the_hour_anew(void **state)
{
    (void)state;
    assert_true(is_steady());
    now.wall_ms += 40LL * DAY;
    assert_false(is_steady());
    lr_fake_clock_advance_ms(&now, ROUTER_CLOCK_DOUBT_MS - SECOND);
    now.wall_ms -= 40LL * DAY;
    assert_false(is_steady());
    lr_fake_clock_advance_ms(&now, ROUTER_CLOCK_DOUBT_MS - 1);
    assert_false(is_steady());
    lr_fake_clock_advance_ms(&now, 1);
    assert_true(is_steady());
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_clock_that_goes_evenly_is_steady),
        TEST(after_a_jump_in_either_direction_it_is_in_doubt_for_an_hour),
        TEST(a_jump_back_begins_the_hour_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
