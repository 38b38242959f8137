/* What the clock promises. */
#include "base/clock.h"
#include "tests/unit/base/support.h"

#include <time.h>

static void a_fake_clock_moves_only_when_told(void **state)
{
    (void)state;
    struct lr_fake_clock fake;
    lr_fake_clock_init(&fake, 5, 1000);
    assert_int_equal(lr_clock_ms(&fake.clock), 5);
    lr_fake_clock_advance_ms(&fake, 30000);
    assert_int_equal(lr_clock_ms(&fake.clock), 30005);
    assert_int_equal(lr_clock_ns(&fake.clock), 30005000000);
    assert_int_equal(lr_clock_wall_ms(&fake.clock), 31000);
}

static void the_system_clock_does_not_go_back(void **state)
{
    (void)state;
    uint64_t before = lr_clock_ns(NULL);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = lr_clock_ns(NULL);
        assert_true(now >= before);
        before = now;
    }
    assert_true(lr_clock_wall_ms(NULL) / 1000 >= (int64_t)time(NULL) - 1);
}

static void times_are_written_as_libc_would(void **state)
{
    (void)state;
    for (int64_t day = -719528; day < 2932896; day += 97) {
        char ours[LR_TIME_TEXT_LEN + 1], theirs[64];
        int64_t ms = day * 86400000 + 45296789;
        time_t seconds = (time_t)(day * 86400 + 45296);
        struct tm parts;
        assert_non_null(gmtime_r(&seconds, &parts));
        (void)snprintf(theirs, sizeof(theirs), "%04d-%02d-%02dT%02d:%02d:%02d.789Z",
                       parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                       parts.tm_min, parts.tm_sec);
        lr_time_format(ms, ours);
        assert_string_equal(ours, theirs);
        int64_t back;
        assert_true(lr_time_parse(lr_str_z(ours), &back));
        assert_int_equal(back, ms);
    }
}

static void times_out_of_range_are_clamped(void **state)
{
    (void)state;
    char text[LR_TIME_TEXT_LEN + 1];
    lr_time_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    lr_time_format(INT64_MIN, text);
    assert_string_equal(text, "0000-01-01T00:00:00.000Z");
    lr_time_format(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
}

static void offsets_and_fractions_are_understood(void **state)
{
    (void)state;
    int64_t a, b;
    assert_true(lr_time_parse(lr_str_z("2026-11-15T12:00:00+09:00"), &a));
    assert_true(lr_time_parse(lr_str_z("2026-11-15 03:00:00.0009z"), &b));
    assert_int_equal(a, b);
    assert_true(lr_time_parse(lr_str_z("2026-11-14T21:30:00.5-05:30"), &b));
    assert_int_equal(a + 500, b);
    assert_true(lr_time_parse(lr_str_z("2024-02-29T00:00:00Z"), &a));
}

static void malformed_times_are_refused(void **state)
{
    (void)state;
    const char *bad[] = {
        "",
        "2026-11-15",
        "2026-11-15T12:00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-00-10T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00Zx",
        "2026-01-01T00:00:00+0900",
        "2026-01-01T00:00:00+24:00",
        "26-01-01T00:00:00Z",
        "2026-1-01T00:00:00Z",
        "2026-01-01X00:00:00Z",
    };
    int64_t ms;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (lr_time_parse(lr_str_z(bad[i]), &ms))
            fail_msg("accepted \"%s\"", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fake_clock_moves_only_when_told),
        cmocka_unit_test(the_system_clock_does_not_go_back),
        cmocka_unit_test(times_are_written_as_libc_would),
        cmocka_unit_test(times_out_of_range_are_clamped),
        cmocka_unit_test(offsets_and_fractions_are_understood),
        cmocka_unit_test(malformed_times_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
