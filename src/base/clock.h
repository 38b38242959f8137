/* base/clock.h - time that tests can replace.
 *
 * Code that waits or measures takes a const struct lr_clock * (NULL: the system's clock), so
 * that a test moves the time instead of sleeping.  Monotonic time orders events within one
 * process; wall time is for people and for other machines.  Thread: any.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct lr_clock {
    uint64_t (*monotonic_ns)(void *ctx);
    int64_t (*wall_ms)(void *ctx); /* since 1970-01-01T00:00:00Z */
    void *ctx;
};

extern const struct lr_clock lr_clock_system;

uint64_t lr_clock_ns(const struct lr_clock *clock);     /* monotonic */
uint64_t lr_clock_ms(const struct lr_clock *clock);     /* monotonic */
int64_t lr_clock_wall_ms(const struct lr_clock *clock); /* UTC */

/* The time between two readings of one clock, never negative: 0 where `to` is earlier than
 * `from`. */
static inline uint64_t lr_elapsed(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

/* A clock that only moves when a test moves it.  Pass &fake->clock.  Thread: one at a time. */
struct lr_fake_clock {
    struct lr_clock clock;
    uint64_t now_ns;
    int64_t wall_ms;
};

void lr_fake_clock_init(struct lr_fake_clock *fake, uint64_t now_ms, int64_t wall_ms);
void lr_fake_clock_advance_ms(struct lr_fake_clock *fake, uint64_t ms); /* both times */

/* "2026-11-15T02:40:01.123Z", terminated; years 0000 to 9999, clamped. */
enum { LR_TIME_TEXT_LEN = 24 };
void lr_time_format(int64_t wall_ms, char out[LR_TIME_TEXT_LEN + 1]);

#endif
