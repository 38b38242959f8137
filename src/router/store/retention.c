#include "router/store/retention.h"

#include "base/clock.h"
#include "router/store/clock.h"

enum {
    SWEEP_S = 60,
    SLICE_MS = 60 * 1000, /* of the oldest records: how much goes in one transaction */
};

enum table { USAGE, AUDIT };

/* The oldest minute that is too old goes, and *has_more says whether another one is. */
static lr_code sweep_table(struct router_sql *sql, enum table table, int64_t before_ms,
                           bool *has_more, struct lr_error *err)
{
    static const char *const oldest[] = {
        [USAGE] = "SELECT COALESCE(MIN(time_ms), -1) FROM usage WHERE time_ms < $1",
        [AUDIT] = "SELECT COALESCE(MIN(time_ms), -1) FROM audit WHERE time_ms < $1"};
    static const char *const remove[] = {
        [USAGE] = "DELETE FROM usage WHERE time_ms >= $1 AND time_ms < $2",
        [AUDIT] = "DELETE FROM audit WHERE time_ms >= $1 AND time_ms < $2"};
    int64_t first_ms = -1;
    lr_code code = ROUTER_SQL(sql, oldest[table], router_row_number, &first_ms, err,
                              ROUTER_INT(before_ms));
    if (code != LR_OK || first_ms < 0)
        return code;
    int64_t end_ms = first_ms + SLICE_MS < before_ms ? first_ms + SLICE_MS : before_ms;
    *has_more = true;
    return ROUTER_SQL(sql, remove[table], NULL, NULL, err, ROUTER_INT(first_ms),
                      ROUTER_INT(end_ms));
}

static lr_code sweep(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct router_retention *retention = arg;
    int64_t now_ms = lr_clock_wall_ms(&router_clock);
    lr_code code = LR_OK;
    retention->has_more = false;
    if (!router_clock_is_steady())
        return LR_OK;
    if (retention->keep_usage_ms != 0)
        code = sweep_table(sql, USAGE, now_ms - (int64_t)retention->keep_usage_ms,
                           &retention->has_more, err);
    if (code == LR_OK && retention->keep_audit_ms != 0)
        code = sweep_table(sql, AUDIT, now_ms - (int64_t)retention->keep_audit_ms,
                           &retention->has_more, err);
    return code;
}

static void swept(void *arg, const struct lr_error *err)
{
    struct router_retention *retention = arg;
    if (err == NULL && retention->has_more && !atomic_load(&retention->is_stopping))
        router_store_quietly(retention->store, sweep, NULL, swept, retention);
    else
        atomic_store(&retention->is_sweeping, false);
}

void router_retention_second(struct router_retention *retention)
{
    bool is_wanted = retention->keep_usage_ms != 0 || retention->keep_audit_ms != 0;
    if (!is_wanted || retention->seconds++ % SWEEP_S != 0 ||
        atomic_exchange(&retention->is_sweeping, true))
        return;
    router_store_quietly(retention->store, sweep, NULL, swept, retention);
}
