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

/* Days since 1970-01-01 and back, in the proleptic Gregorian calendar.  The year is
 * counted from 1 March, so that the leap day is the last of its year; an era is the
 * 400 years (146097 days) after which the calendar repeats. */
static int64_t days_from_date(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468; /* days from 0000-03-01 to 1970-01-01 */
}

static void date_from_days(int64_t days, int *year, int *month, int *day)
{
    days += 719468;
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

/* Takes exactly `count` digits off the front. */
static bool take_digits(struct lr_str *s, int count, int *out)
{
    if (s->len < (size_t)count)
        return false;
    *out = 0;
    for (int i = 0; i < count; i++) {
        if (s->ptr[i] < '0' || s->ptr[i] > '9')
            return false;
        *out = *out * 10 + (s->ptr[i] - '0');
    }
    *s = lr_str_sub(*s, (size_t)count, s->len);
    return true;
}

static bool take_char(struct lr_str *s, char a, char b)
{
    if (s->len == 0 || (s->ptr[0] != a && s->ptr[0] != b))
        return false;
    *s = lr_str_sub(*s, 1, s->len);
    return true;
}

static bool is_digit(struct lr_str s)
{
    return s.len != 0 && s.ptr[0] >= '0' && s.ptr[0] <= '9';
}

static bool take_offset_minutes(struct lr_str *s, int *out)
{
    int hours, minutes;
    *out = 0;
    if (take_char(s, 'Z', 'z'))
        return true;
    bool west = s->len != 0 && s->ptr[0] == '-';
    if (!take_char(s, '+', '-') || !take_digits(s, 2, &hours) || !take_char(s, ':', ':') ||
        !take_digits(s, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *out = (hours * 60 + minutes) * (west ? -1 : 1);
    return true;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

bool lr_time_parse(struct lr_str text, int64_t *wall_ms)
{
    int year, month, day, hour, minute, second, millis = 0, offset;
    if (!take_digits(&text, 4, &year) || !take_char(&text, '-', '-') ||
        !take_digits(&text, 2, &month) || !take_char(&text, '-', '-') ||
        !take_digits(&text, 2, &day))
        return false;
    if (!take_char(&text, 'T', 't') && !take_char(&text, ' ', ' '))
        return false;
    if (!take_digits(&text, 2, &hour) || !take_char(&text, ':', ':') ||
        !take_digits(&text, 2, &minute) || !take_char(&text, ':', ':') ||
        !take_digits(&text, 2, &second))
        return false;
    if (take_char(&text, '.', ',')) {
        if (!is_digit(text))
            return false;
        for (int weight = 100; is_digit(text); weight /= 10) {
            int digit;
            (void)take_digits(&text, 1, &digit);
            millis += digit * weight;
        }
    }
    /* A leap second is accepted and counted as the next second. */
    if (!take_offset_minutes(&text, &offset) || text.len != 0 || month < 1 || month > 12 ||
        day < 1 || day > days_in_month(year, month) || hour > 23 || minute > 59 || second > 60)
        return false;
    int64_t minutes = days_from_date(year, month, day) * 1440 + hour * 60 + minute - offset;
    *wall_ms = (minutes * 60 + second) * 1000 + millis;
    return true;
}
