/* The fake clock, the system clock and the text form of times. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fake_clock_moves_only_when_told),
        cmocka_unit_test(the_system_clock_does_not_go_back),
        cmocka_unit_test(times_are_written_as_libc_would),
        cmocka_unit_test(times_out_of_range_are_clamped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
