/* Who may go beyond the slots and who gives a slot up, now and over time. */
#include "tests/unit/router/support.h"

#include "router/sched/shares.h"

enum { BIG = 1, SMALL = 2, THIRD = 3, START = 1000, LONG_MS = 60000 };

static struct router_shares shares;

/* `held` slots of this key for so long; then it holds none. */
struct use {
    uint32_t held;
    uint64_t ms;
};

static int setup(void **state)
{
    (void)state;
    router_shares_free(&shares);
    return 0;
}

static void hold(uint64_t key, uint32_t count, uint64_t now)
{
    router_shares_see(&shares, key, now);
    for (uint32_t i = 0; i < count; i++)
        router_shares_hold(&shares, key, now);
}

static void release(uint64_t key, uint32_t count, uint64_t now)
{
    for (uint32_t i = 0; i < count; i++)
        router_shares_release(&shares, key, now);
}

static void use_before(uint64_t key, struct use use, uint64_t until)
{
    if (use.held == 0)
        return;
    hold(key, use.held, until - use.ms);
    release(key, use.held, until);
}

/* One row: eight slots, two keys.  What each used before, what each holds now; whether the big
 * one gives a slot to the small one, the other way round, and who may go beyond the slots. */
static const struct row {
    const char *says;
    struct use big_used, small_used;
    uint32_t big, small;
    bool big_gives, small_gives, big_is_light, small_is_light;
} rows[] = {
    /* clang-format off */
    {"a flood that has just come gives to a key that holds less",
     {0}, {0}, 8, 0, true, false, false, true},
    {"two that have just come keep their halves",
     {0}, {0}, 4, 4, false, false, false, false},
    {"a flood gives to a small key that holds nothing",
     {8, LONG_MS}, {0}, 8, 0, true, false, false, true},
    {"and to its fifth answer at once: over time that key used less than its share",
     {8, LONG_MS}, {1, LONG_MS}, 4, 4, true, false, false, true},
    {"but half of its share the flood keeps",
     {8, LONG_MS}, {1, LONG_MS}, 2, 6, false, false, false, true},
    {"with less it may go beyond the slots, and takes nothing from the small key",
     {8, LONG_MS}, {1, LONG_MS}, 1, 7, false, false, true, true},
    {"of two that used the same the one that holds more than its half gives",
     {4, LONG_MS}, {4, LONG_MS}, 5, 3, true, false, false, true},
    {"and the one that used less does not",
     {4, LONG_MS}, {5, LONG_MS}, 5, 3, false, false, false, false},
    {"who used less than its share and holds more gives to another such key",
     {1, LONG_MS}, {2, LONG_MS}, 5, 1, true, false, false, true},
    /* clang-format on */
};

static void who_gives_a_slot_up_is_judged_by_use_over_time_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        uint64_t now = START + LONG_MS;
        router_shares_free(&shares);
        use_before(BIG, row->big_used, now);
        use_before(SMALL, row->small_used, now);
        hold(BIG, row->big, now);
        hold(SMALL, row->small, now);
        bool as_said = router_shares_gives(&shares, BIG, SMALL, 8, now) == row->big_gives &&
                       router_shares_gives(&shares, SMALL, BIG, 8, now) == row->small_gives &&
                       router_shares_is_light(&shares, BIG, 8, now) == row->big_is_light &&
                       router_shares_is_light(&shares, SMALL, 8, now) == row->small_is_light;
        if (!as_said)
            fail_msg("%s", row->says);
    }
}

static void a_key_alone_may_have_everything(void **state)
{
    (void)state;
    hold(BIG, 10, START);
    assert_true(router_shares_is_light(&shares, BIG, 8, START + LONG_MS));
    assert_false(router_shares_gives(&shares, BIG, SMALL, 8, START + LONG_MS));
}

static void what_was_used_is_forgotten_within_seconds(void **state)
{
    uint64_t end = START + LONG_MS;
    (void)state;
    use_before(BIG, (struct use){8, LONG_MS}, end);
    use_before(SMALL, (struct use){1, LONG_MS}, end);
    hold(SMALL, 4, end);
    assert_true(router_shares_is_light(&shares, SMALL, 8, end));
    router_shares_see(&shares, BIG, end + 9000);
    assert_false(router_shares_is_light(&shares, SMALL, 8, end + 10000));
    hold(BIG, 4, end + 10000);
    assert_false(router_shares_gives(&shares, BIG, SMALL, 8, end + 10000));
}

static void a_flood_counts_as_one_from_its_first_second(void **state)
{
    uint64_t now = START + LONG_MS;
    (void)state;
    hold(SMALL, 1, START);
    hold(BIG, 8, now - 1000);
    release(BIG, 4, now);
    hold(SMALL, 3, now);
    assert_true(router_shares_is_light(&shares, SMALL, 8, now));
    assert_true(router_shares_gives(&shares, BIG, SMALL, 8, now));
}

static void who_comes_again_after_a_pause_begins_anew(void **state)
{
    uint64_t now = START + LONG_MS;
    (void)state;
    use_before(BIG, (struct use){1, LONG_MS / 2}, START + LONG_MS / 2);
    hold(SMALL, 4, now - 20000);
    hold(BIG, 8, now - 100);
    assert_true(router_shares_gives(&shares, BIG, SMALL, 8, now) &&
                router_shares_used(&shares, BIG, now) > 7);
}

static void a_burst_beside_a_key_that_uses_little_gets_no_more_than_its_share(void **state)
{
    uint64_t now = START + LONG_MS;
    (void)state;
    use_before(SMALL, (struct use){1, LONG_MS}, now);
    hold(SMALL, 1, now);
    hold(BIG, 4, now); /* it used nothing before, but nobody used much */
    assert_false(router_shares_is_light(&shares, BIG, 8, now));
}

static void who_was_asked_has_one_less_to_give(void **state)
{
    uint64_t now = START + LONG_MS;
    (void)state;
    use_before(BIG, (struct use){8, LONG_MS}, now);
    hold(BIG, 8, now);
    hold(SMALL, 0, now);
    int given = 0;
    for (; router_shares_gives(&shares, BIG, SMALL, 8, now); given++)
        router_shares_preempt(&shares, BIG, true);
    assert_int_equal(given, 6); /* it keeps half of its half */
    router_shares_preempt(&shares, BIG, false);
    assert_true(router_shares_gives(&shares, BIG, SMALL, 8, now));
}

static void with_more_keys_each_share_is_less(void **state)
{
    uint64_t now = START + LONG_MS;
    (void)state;
    use_before(BIG, (struct use){4, LONG_MS}, now);
    hold(BIG, 3, now);
    hold(SMALL, 2, now);
    assert_false(router_shares_gives(&shares, BIG, SMALL, 8, now));
    hold(THIRD, 2, now); /* four of eight are more than a third now */
    assert_true(router_shares_gives(&shares, BIG, SMALL, 8, now));
    assert_false(router_shares_gives(&shares, SMALL, THIRD, 8, now));
}

static void with_one_slot_nobody_gives_its_only_slot(void **state)
{
    uint64_t now = START + LONG_MS;
    (void)state;
    use_before(BIG, (struct use){1, LONG_MS}, now);
    hold(BIG, 1, now);
    hold(SMALL, 0, now);
    assert_false(router_shares_gives(&shares, BIG, SMALL, 1, now));
    hold(BIG, 1, now);
    assert_true(router_shares_gives(&shares, BIG, SMALL, 1, now));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(who_gives_a_slot_up_is_judged_by_use_over_time_too),
        TEST(a_key_alone_may_have_everything),
        TEST(what_was_used_is_forgotten_within_seconds),
        TEST(a_flood_counts_as_one_from_its_first_second),
        TEST(who_comes_again_after_a_pause_begins_anew),
        TEST(a_burst_beside_a_key_that_uses_little_gets_no_more_than_its_share),
        TEST(who_was_asked_has_one_less_to_give),
        TEST(with_more_keys_each_share_is_less),
        TEST(with_one_slot_nobody_gives_its_only_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
