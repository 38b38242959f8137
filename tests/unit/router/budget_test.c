/* Months and budgets: what is known, what is pending, and where a month ends. */
#include "tests/unit/router/support.h"

#include "router/observe/limits.h"
#include "router/store/budget.h"
#include "router/store/keys.h"

static const int64_t dec_1_2026 = 1796083200000; /* 2026-12-01T00:00:00Z */

static void months_are_those_of_the_calendar(void **state)
{
    (void)state;
    assert_int_equal(router_month_of(0), 197001);
    assert_int_equal(router_month_of(dec_1_2026 - 1), 202611);
    assert_int_equal(router_month_of(dec_1_2026), 202612);
    assert_int_equal(router_month_begin_ms(202612), dec_1_2026);
    assert_int_equal(router_month_after(202612), 202701);
    for (int64_t month = 197001; month < 210001; month = router_month_after(month)) {
        int64_t begin = router_month_begin_ms(month);
        assert_int_equal(router_month_of(begin), month);
        if (month != 197001)
            assert_int_equal(router_month_after(router_month_of(begin - 1)), month);
    }
    assert_int_equal(router_month_of(951782400000), 200002); /* 29 February */
}

static void a_budget_counts_each_token_once_and_begins_anew(void **state)
{
    struct router_budget b = {0};
    int64_t now = dec_1_2026 - 5000;
    (void)state;
    router_budget_set(&b, 202611, 100);
    router_budget_count(&b, now, 30);
    router_budget_count(&b, now, -2); /* the engine counted less */
    assert_int_equal(router_budget_used(&b, now), 128);
    router_budget_written(&b, now, 28);
    assert_int_equal(router_budget_used(&b, now), 128);
    router_budget_set(&b, 202611, 178); /* another router has written 50 */
    assert_int_equal(router_budget_used(&b, now), 178);
    router_budget_count(&b, now, 1);
    assert_int_equal(router_budget_used(&b, dec_1_2026), 0);
    router_budget_count(&b, now, 7);   /* of the month before */
    router_budget_written(&b, now, 8); /* likewise */
    assert_int_equal(router_budget_used(&b, dec_1_2026), 0);
}

static void a_month_is_as_it_was_when_the_clock_comes_back(void **state)
{
    struct router_budget b = {0};
    int64_t now = dec_1_2026 - 5000, later = dec_1_2026 + 5000, latest = dec_1_2026 * 2;
    (void)state;
    router_budget_set(&b, 202611, 100);
    router_budget_count(&b, now, 30);
    assert_int_equal(router_budget_used(&b, later), 0);
    assert_false(router_budget_is_read(&b, 202612));
    router_budget_count(&b, later, 7);
    assert_int_equal(router_budget_used(&b, now), 130);
    assert_true(router_budget_is_read(&b, 202611));
    assert_int_equal(router_budget_used(&b, later), 7);
    assert_int_equal(router_budget_used(&b, latest), 0);
    /* Two months were used since: this one is read again, before its tokens are written. */
    assert_int_equal(router_budget_used(&b, now), 0);
    assert_false(router_budget_is_read(&b, 202611));
    router_budget_set(&b, 202611, 100);
    router_budget_written(&b, now, 30);
    assert_int_equal(router_budget_used(&b, now), 130);
    router_budget_keep(&b, 202611);
    assert_int_equal(router_budget_used(&b, now), 130);
}

static void a_key_is_refused_until_the_next_month(void **state)
{
    struct router_key key = {.id = "key-1", .tokens_per_month = 10};
    struct lr_error err;
    uint32_t retry_s;
    (void)state;
    router_budget_count(&key.month, dec_1_2026 - 60000, 9);
    assert_int_equal(router_key_check_month(&key, dec_1_2026 - 60000, &retry_s, &err), LR_OK);
    router_budget_count(&key.month, dec_1_2026 - 60000, 1);
    assert_int_equal(router_key_check_month(&key, dec_1_2026 - 60000, &retry_s, &err),
                     LR_RATE_LIMITED);
    assert_int_equal(retry_s, 61);
    assert_contains(err.text, "2026-12-01 00:00 UTC");
    assert_int_equal(router_key_check_month(&key, dec_1_2026, &retry_s, &err), LR_OK);
}

static void requests_at_once_are_shared_by_routers(void **state)
{
    struct router_key key = {.id = "key-1", .concurrent_requests = 4};
    struct lr_error err;
    (void)state;
    assert_int_equal(router_key_enter(&key, 2, &err), LR_OK);
    assert_int_equal(router_key_enter(&key, 2, &err), LR_OK);
    assert_int_equal(router_key_enter(&key, 2, &err), LR_RATE_LIMITED);
    router_key_leave(&key);
    assert_int_equal(router_key_enter(&key, 2, &err), LR_OK);
    router_key_leave(&key);
    router_key_leave(&key);
    assert_int_equal(router_key_enter(&key, 8, &err), LR_OK); /* at least one */
    assert_int_equal(router_key_enter(&key, 8, &err), LR_RATE_LIMITED);
}

static void durations_are_as_openai_writes_them(void **state)
{
    char text[32];
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {{0, "0ms"}, {20, "20ms"}, {1000, "1s"}, {1001, "2s"}, {360000, "6m0s"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        router_limit_duration(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(months_are_those_of_the_calendar),
        cmocka_unit_test(a_budget_counts_each_token_once_and_begins_anew),
        cmocka_unit_test(a_month_is_as_it_was_when_the_clock_comes_back),
        cmocka_unit_test(a_key_is_refused_until_the_next_month),
        cmocka_unit_test(requests_at_once_are_shared_by_routers),
        cmocka_unit_test(durations_are_as_openai_writes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
