#include "router/store/running.h"

#include <stdlib.h>

enum { FAILED_AT_ONCE = 32 }; /* in one transaction */

struct row {
    int64_t beats;     /* the counter, as it was read last */
    uint64_t still_ms; /* time without a change */
    uint64_t look;     /* the last look that found the row */
};

void router_running_init(struct router_running *running)
{
    *running = (struct router_running){0};
    lr_strmap_init(&running->rows);
}

void router_running_free(struct router_running *running)
{
    struct lr_str id;
    void *row;
    for (size_t i = 0; lr_strmap_at(&running->rows, i, &id, &row); i++)
        free(row);
    lr_strmap_free(&running->rows);
}

struct look {
    struct router_running *running;
    uint64_t ms; /* since the look before */
};

/* Without memory the row is met for the first time once more. */
static lr_code running_take_row(void *ctx, const struct router_row *from, struct lr_error *err)
{
    struct look *look = ctx;
    struct router_running *running = look->running;
    struct lr_str id = router_row_text(from, 0);
    int64_t beats = router_row_int(from, 1);
    struct row *row = lr_strmap_get(&running->rows, id);
    (void)err;
    if (row == NULL) {
        row = calloc(1, sizeof(*row));
        if (row == NULL || !lr_strmap_put(&running->rows, id, row, NULL)) {
            free(row);
            return LR_OK;
        }
    } else {
        row->still_ms = row->beats == beats ? row->still_ms + look->ms : 0;
    }
    row->beats = beats;
    row->look = running->looks;
    return LR_OK;
}

/* The row stays as it is where it was given a sign of life meanwhile. */
static lr_code fail_lost(struct router_sql *sql, struct lr_str id, int64_t beats,
                         struct lr_error *err)
{
    return ROUTER_SQL(sql,
                      "UPDATE responses SET running = 0, status = 'failed' WHERE id = $1 AND "
                      "running = 1 AND beats = $2",
                      NULL, NULL, err, ROUTER_TEXT(id), ROUTER_INT(beats));
}

/* Forgets the rows that do not run any more. */
static lr_code running_judge(struct router_running *running, struct router_sql *sql, bool *more,
                             struct lr_error *err)
{
    lr_code code = LR_OK;
    size_t failed = 0;
    struct lr_str id;
    void *at;
    for (size_t i = 0; code == LR_OK && lr_strmap_at(&running->rows, i, &id, &at);) {
        const struct row *row = at;
        if (row->look != running->looks) {
            (void)lr_strmap_remove(&running->rows, id);
            free(at);
            continue;
        }
        i++;
        if (row->still_ms < ROUTER_RESPONSE_LOST_MS)
            continue;
        *more = failed == FAILED_AT_ONCE;
        if (*more)
            break;
        failed++;
        code = fail_lost(sql, id, row->beats, err);
    }
    return code;
}

lr_code router_running_look(struct router_running *running, struct router_sql *sql,
                            uint64_t now_ms, int64_t wall_ms, bool *more, struct lr_error *err)
{
    uint64_t ms = running->looked_ms != 0 ? now_ms - running->looked_ms : 0;
    struct look look = {running, ms < ROUTER_LOOK_MS ? ms : ROUTER_LOOK_MS};
    *more = false;
    running->looks++;
    running->looked_ms = now_ms;
    lr_code code =
        ROUTER_SQL(sql, "SELECT id, beats FROM responses WHERE running = 1 AND beats > $1",
                   running_take_row, &look, err, ROUTER_INT(0));
    if (code == LR_OK)
        code = running_judge(running, sql, more, err);
    if (code != LR_OK)
        return code;
    return ROUTER_SQL(sql,
                      "UPDATE responses SET running = 0, status = 'failed' WHERE running = 1 "
                      "AND beats = 0 AND used_ms <= $1",
                      NULL, NULL, err, ROUTER_INT(wall_ms - ROUTER_RESPONSE_LOST_MS));
}
