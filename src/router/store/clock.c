#include "router/store/clock.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"

enum { LATE_MS = 1000 };

/* The database's clock before this process's monotonic one; 0: there is no such clock. */
static _Atomic int64_t database_ahead_ms;

static uint64_t shared_monotonic_ns(void *ctx)
{
    (void)ctx;
    return lr_clock_ns(NULL);
}

static int64_t shared_wall_ms(void *ctx)
{
    int64_t ahead = atomic_load(&database_ahead_ms);
    (void)ctx;
    return ahead != 0 ? (int64_t)lr_clock_ms(NULL) + ahead : lr_clock_wall_ms(NULL);
}

const struct lr_clock router_clock = {shared_monotonic_ns, shared_wall_ms, NULL};

/* The answer was made somewhere on its way: a difference within that time is no difference, and
 * the time does not go back and forth with the traffic. */
static void take_time(int64_t theirs, uint64_t begun, uint64_t took)
{
    int64_t ahead = theirs - (int64_t)(begun + took / 2);
    int64_t known = atomic_load(&database_ahead_ms), off = ahead - known;
    if (known == 0 || off > (int64_t)took || -off > (int64_t)took)
        atomic_store(&database_ahead_ms, ahead);
}

lr_code router_clock_read(struct router_sql *sql, int64_t *ahead_ms, bool *is_sure,
                          struct lr_error *err)
{
    int64_t theirs = 0, before = lr_clock_wall_ms(NULL);
    uint64_t begun = lr_clock_ms(NULL);
    lr_code code = router_sql_run(sql, "SELECT " ROUTER_DATABASE_MS, NULL, 0, router_row_number,
                                  &theirs, err);
    uint64_t took = lr_elapsed(begun, lr_clock_ms(NULL));
    *is_sure = code == LR_OK && took < LATE_MS;
    *ahead_ms = *is_sure ? before + (int64_t)took / 2 - theirs : 0;
    if (code == LR_OK && (*is_sure || atomic_load(&database_ahead_ms) == 0))
        take_time(theirs, begun, took);
    return code;
}

bool router_clock_watch_look(struct router_clock_watch *watch, int64_t wall_ms, uint64_t ms)
{
    int64_t jump = (wall_ms - watch->wall_ms) - (int64_t)lr_elapsed(watch->ms, ms);
    bool jumps = watch->has_looked &&
                 (jump > ROUTER_CLOCK_JUMP_MS || jump < -(int64_t)ROUTER_CLOCK_JUMP_MS);
    if (jumps) {
        watch->has_jumped = true;
        watch->jumped_ms = ms;
    }
    watch->has_looked = true;
    watch->wall_ms = wall_ms;
    watch->ms = ms;
    return !watch->has_jumped || lr_elapsed(watch->jumped_ms, ms) >= ROUTER_CLOCK_DOUBT_MS;
}

bool router_clock_is_steady(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct router_clock_watch watch;
    (void)pthread_mutex_lock(&lock);
    bool had_jumped = watch.has_jumped;
    uint64_t jumped_ms = watch.jumped_ms;
    bool is_steady =
        router_clock_watch_look(&watch, lr_clock_wall_ms(&router_clock), lr_clock_ms(NULL));
    bool jumps = watch.has_jumped && (!had_jumped || watch.jumped_ms != jumped_ms);
    (void)pthread_mutex_unlock(&lock);
    if (jumps)
        lr_log_warn(NULL, "clock.jumped nothing_old_is_removed_for_s=%d",
                    ROUTER_CLOCK_DOUBT_MS / 1000);
    return is_steady;
}
