#include "router/store/outbox.h"

#include <stdio.h>

#include "base/log.h"

struct reading {
    router_told_fn fn;
    void *ctx;
};

static lr_code told_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    const struct reading *reading = ctx;
    (void)err;
    reading->fn(reading->ctx, (uint64_t)router_row_int(row, 0), router_row_text(row, 1),
                router_row_text(row, 2));
    return LR_OK;
}

lr_code router_told_read(struct router_sql *sql, const char *router, router_told_fn fn,
                         void *ctx, struct lr_error *err)
{
    struct reading reading = {fn, ctx};
    return ROUTER_SQL(sql, "SELECT alert, kind, subject FROM alert_told WHERE router = $1",
                      told_row, &reading, err, ROUTER_Z(router));
}

/* The number of the next message.  The row that is changed also makes two routers wait for each
 * other, so that each sees what the other has told. */
static lr_code next_number(struct router_sql *sql, int64_t *out, struct lr_error *err)
{
    lr_code code = router_sql_plain(
        sql, "UPDATE counters SET value = value + 1 WHERE name = 'message'", err);
    if (code == LR_OK)
        code = router_sql_run(sql, "SELECT value FROM counters WHERE name = 'message'", NULL, 0,
                              router_row_number, out, err);
    return code;
}

static lr_code count_told(struct router_sql *sql, uint64_t alert, int64_t *out,
                          struct lr_error *err)
{
    return ROUTER_SQL(sql, "SELECT COUNT(*) FROM alert_told WHERE alert = $1",
                      router_row_number, out, err, ROUTER_INT(alert));
}

static lr_code add_message(struct router_sql *sql, int64_t id, const char *body,
                           struct lr_error *err)
{
    int64_t dropped = 0;
    lr_code code = ROUTER_SQL(sql, "INSERT INTO alert_outbox (id, body) VALUES ($1, $2)", NULL,
                              NULL, err, ROUTER_INT(id), ROUTER_Z(body));
    if (code == LR_OK)
        code = ROUTER_SQL(sql, "SELECT COUNT(*) FROM alert_outbox WHERE id <= $1",
                          router_row_number, &dropped, err, ROUTER_INT(id - ROUTER_OUTBOX_MAX));
    if (code != LR_OK || dropped == 0)
        return code;
    lr_log_warn(NULL, "webhook.dropped messages=%lld reason=more than %d wait",
                (long long)dropped, ROUTER_OUTBOX_MAX);
    return ROUTER_SQL(sql, "DELETE FROM alert_outbox WHERE id <= $1", NULL, NULL, err,
                      ROUTER_INT(id - ROUTER_OUTBOX_MAX));
}

lr_code router_told_open(struct router_sql *sql, const char *router,
                         const struct router_told *told, struct lr_error *err)
{
    int64_t id = 0, others = 0;
    lr_code code = next_number(sql, &id, err);
    if (code == LR_OK)
        code = count_told(sql, told->alert, &others, err);
    if (code == LR_OK)
        code = ROUTER_SQL(sql,
                          "INSERT INTO alert_told (alert, router, kind, subject) VALUES ($1, "
                          "$2, $3, $4) ON CONFLICT (alert, router) DO NOTHING",
                          NULL, NULL, err, ROUTER_INT(told->alert), ROUTER_Z(router),
                          ROUTER_Z(told->kind), ROUTER_Z(told->subject));
    return code == LR_OK && others == 0 ? add_message(sql, id, told->body, err) : code;
}

lr_code router_told_end(struct router_sql *sql, const char *router,
                        const struct router_told *told, struct lr_error *err)
{
    int64_t id = 0, others = 0;
    lr_code code = next_number(sql, &id, err);
    if (code == LR_OK)
        code = ROUTER_SQL(sql, "DELETE FROM alert_told WHERE alert = $1 AND router = $2", NULL,
                          NULL, err, ROUTER_INT(told->alert), ROUTER_Z(router));
    if (code == LR_OK)
        code = count_told(sql, told->alert, &others, err);
    return code == LR_OK && others == 0 ? add_message(sql, id, told->body, err) : code;
}

struct others {
    const char *const *alive;
    size_t count;
    char gone[300]; /* a router that is not alive; "": none */
};

static lr_code look_at_router(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct others *others = ctx;
    struct lr_str url = router_row_text(row, 0);
    bool is_alive = false;
    (void)err;
    for (size_t i = 0; i < others->count; i++)
        is_alive = is_alive || lr_str_eq_z(url, others->alive[i]);
    if (!is_alive)
        LR_COPY(others->gone, url);
    return LR_OK;
}

/* One router at a time: the next call finds the next one. */
lr_code router_told_claim_orphans(struct router_sql *sql, const char *router,
                                  const char *const *alive, size_t count, struct lr_error *err)
{
    struct others others = {.alive = alive, .count = count};
    lr_code code = ROUTER_SQL(sql, "SELECT DISTINCT router FROM alert_told WHERE router <> $1",
                              look_at_router, &others, err, ROUTER_Z(router));
    if (code != LR_OK || others.gone[0] == '\0')
        return code;
    code = ROUTER_SQL(sql,
                      "INSERT INTO alert_told (alert, router, kind, subject) SELECT alert, $1, "
                      "kind, subject FROM alert_told WHERE router = $2 "
                      "ON CONFLICT (alert, router) DO NOTHING",
                      NULL, NULL, err, ROUTER_Z(router), ROUTER_Z(others.gone));
    return code == LR_OK ? ROUTER_SQL(sql, "DELETE FROM alert_told WHERE router = $1", NULL,
                                      NULL, err, ROUTER_Z(others.gone))
                         : code;
}

struct first {
    router_outbox_fn fn;
    void *ctx;
};

static lr_code first_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    const struct first *first = ctx;
    (void)err;
    first->fn(first->ctx, router_row_int(row, 0), router_row_text(row, 1));
    return LR_OK;
}

lr_code router_outbox_first(struct router_sql *sql, router_outbox_fn fn, void *ctx,
                            int64_t *waiting, struct lr_error *err)
{
    struct first first = {fn, ctx};
    *waiting = 0;
    lr_code code = router_sql_run(sql, "SELECT COUNT(*) FROM alert_outbox", NULL, 0,
                                  router_row_number, waiting, err);
    if (code != LR_OK || *waiting == 0)
        return code;
    return router_sql_run(sql, "SELECT id, body FROM alert_outbox ORDER BY id LIMIT 1", NULL, 0,
                          first_row, &first, err);
}

lr_code router_outbox_remove(struct router_sql *sql, int64_t id, struct lr_error *err)
{
    return ROUTER_SQL(sql, "DELETE FROM alert_outbox WHERE id = $1", NULL, NULL, err,
                      ROUTER_INT(id));
}
