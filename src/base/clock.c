#include "base/clock.h"

#include <stdio.h>
#include <time.h>

#include "base/failpoint.h"

static uint64_t system_monotonic_ns(void *ctx)
{
    struct timespec now;
    (void)ctx;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int64_t system_wall_ms(void *ctx)
{
    struct timespec now;
    (void)ctx;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (LR_FAILPOINT("clock.ahead"))
        now.tv_sec += 60; /* test mode: the wall clock of a machine that is a minute ahead */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const struct lr_clock lr_clock_system = {system_monotonic_ns, system_wall_ms, NULL};

uint64_t lr_clock_ns(const struct lr_clock *clock)
{
    if (clock == NULL)
        clock = &lr_clock_system;
    return clock->monotonic_ns(clock->ctx);
}

uint64_t lr_clock_ms(const struct lr_clock *clock)
{
    return lr_clock_ns(clock) / 1000000u;
}

int64_t lr_clock_wall_ms(const struct lr_clock *clock)
{
    if (clock == NULL)
        clock = &lr_clock_system;
    return clock->wall_ms(clock->ctx);
}

static uint64_t fake_monotonic_ns(void *ctx)
{
    return ((struct lr_fake_clock *)ctx)->now_ns;
}

static int64_t fake_wall_ms(void *ctx)
{
    return ((struct lr_fake_clock *)ctx)->wall_ms;
}

void lr_fake_clock_init(struct lr_fake_clock *fake, uint64_t now_ms, int64_t wall_ms)
{
    *fake = (struct lr_fake_clock){
        .clock = {fake_monotonic_ns, fake_wall_ms, fake},
        .now_ns = now_ms * 1000000u,
        .wall_ms = wall_ms,
    };
}

void lr_fake_clock_advance_ms(struct lr_fake_clock *fake, uint64_t ms)
{
    fake->now_ns += ms * 1000000u;
    fake->wall_ms += (int64_t)ms;
}

/* The date of a day since 1970-01-01, in the proleptic Gregorian calendar.  The year is counted
 * from 1 March, so that the leap day is the last of its year; an era is the 400 years (146097
 * days) after which the calendar repeats. */
static void date_from_days(int64_t days, int *year, int *month, int *day)
{
    days += 719468; /* days from 0000-03-01 to 1970-01-01 */
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153; /* 0 is March */
    *day = (int)(day_of_year - (153 * shifted + 2) / 5 + 1);
    *month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = (int)(year_of_era + era * 400 + (*month <= 2));
}

enum { DAY_MS = 86400000 };
static const int64_t EARLIEST_MS = -62167219200000; /* 0000-01-01T00:00:00.000Z */
static const int64_t LATEST_MS = 253402300799999;   /* 9999-12-31T23:59:59.999Z */

void lr_time_format(int64_t wall_ms, char out[LR_TIME_TEXT_LEN + 1])
{
    if (wall_ms < EARLIEST_MS)
        wall_ms = EARLIEST_MS;
    if (wall_ms > LATEST_MS)
        wall_ms = LATEST_MS;
    int64_t days = wall_ms / DAY_MS;
    if (wall_ms % DAY_MS < 0)
        days--;
    unsigned rest = (unsigned)(wall_ms - days * DAY_MS);
    int year, month, day;
    date_from_days(days, &year, &month, &day);
    char text[64]; /* larger than needed: the compiler cannot see the clamp */
    (void)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02u:%02u:%02u.%03uZ", year, month, day,
                   rest / 3600000, rest / 60000 % 60, rest / 1000 % 60, rest % 1000);
    memcpy(out, text, LR_TIME_TEXT_LEN);
    out[LR_TIME_TEXT_LEN] = '\0';
}
