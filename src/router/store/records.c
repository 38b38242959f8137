#include "router/store/records.h"

lr_code router_batch_insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct router_batch *batch = arg;
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < batch->usage_count; i++) {
        const struct router_usage *u = &batch->usage[i];
        code = ROUTER_SQL(
            sql,
            "INSERT INTO usage (time_ms, key_id, model, node, request_id, status, "
            "prompt_tokens, completion_tokens, cached_tokens, wait_ms, total_ms) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            NULL, NULL, err, ROUTER_INT(u->time_ms), ROUTER_Z(u->key_id), ROUTER_Z(u->model),
            ROUTER_Z(u->node), ROUTER_Z(u->request_id), ROUTER_INT(u->status),
            ROUTER_INT(u->prompt_tokens), ROUTER_INT(u->completion_tokens),
            ROUTER_INT(u->cached_tokens), ROUTER_INT(u->wait_ms), ROUTER_INT(u->total_ms));
    }
    for (size_t i = 0; code == LR_OK && i < batch->audit_count; i++)
        code = router_audit_insert(sql, &batch->audits[i], err);
    return code;
}

static lr_code take_count(void *ctx, const struct router_row *row, struct lr_error *err)
{
    (void)err;
    *(int64_t *)ctx = router_row_int(row, 0);
    return LR_OK;
}

static lr_code count_first(struct router_sql *sql, const struct router_batch *batch,
                           int64_t *count, struct lr_error *err)
{
    const struct router_usage *u = &batch->usage[0];
    const struct router_audit *a = &batch->audits[0];
    if (batch->usage_count != 0)
        return ROUTER_SQL(
            sql,
            "SELECT COUNT(*) FROM usage WHERE time_ms = $1 AND request_id = $2 AND "
            "key_id = $3",
            take_count, count, err, ROUTER_INT(u->time_ms), ROUTER_Z(u->request_id),
            ROUTER_Z(u->key_id));
    return ROUTER_SQL(sql,
                      "SELECT COUNT(*) FROM audit WHERE time_ms = $1 AND actor = $2 AND "
                      "action = $3 AND target = $4",
                      take_count, count, err, ROUTER_INT(a->time_ms), ROUTER_Z(a->actor),
                      ROUTER_Z(a->action), ROUTER_Z(a->target));
}

lr_code router_batch_find(struct router_sql *sql, const struct router_batch *batch,
                          bool *is_written, struct lr_error *err)
{
    int64_t count = 0;
    lr_code code = count_first(sql, batch, &count, err);
    *is_written = count != 0;
    return code;
}

lr_code router_audit_insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct router_audit *a = arg;
    return ROUTER_SQL(sql,
                      "INSERT INTO audit (time_ms, actor, action, target, detail) "
                      "VALUES ($1, $2, $3, $4, $5)",
                      NULL, NULL, err, ROUTER_INT(a->time_ms), ROUTER_Z(a->actor),
                      ROUTER_Z(a->action), ROUTER_Z(a->target), ROUTER_Z(a->detail));
}
