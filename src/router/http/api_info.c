/* router/http/api_info.c - figures, events, usage over time, the audit log. */
#include <stdio.h>

#include "base/errors.h"
#include "net/logs.h"
#include "router/http/records.h"
#include "router/http/state.h"
#include "router/store/clock.h"

enum {
    ROWS_MAX = 10000,
    AUDIT_DEFAULT = 200,
    STEP_DEFAULT = 5,
    STEP_MAX = 60,
};

lr_code router_api_stats(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_str text;
    uint64_t step = STEP_DEFAULT;
    if (net_request_query_get(req, "step", &text) &&
        (!lr_str_u64(text, &step) || step < 1 || step > STEP_MAX))
        return lr_fail_as(err, stats_step, STEP_MAX);
    /* Copied, since writing thousands of numbers takes longer than the lock is held. */
    struct router_stats *stats = router_memory(req, sizeof(*stats), err);
    if (stats == NULL)
        return LR_OUT_OF_RAM;
    router_lock(r);
    *stats = r->stats;
    router_unlock(r);
    router_stats_put_all(stats, (uint32_t)step, router_answer_begin(req));
    return router_answer(req, 200);
}

lr_code router_api_logs(struct router *r, struct net_request *req, struct lr_error *err)
{
    (void)r;
    return net_logs_answer(req, err);
}

lr_code router_api_events(struct router *r, struct net_request *req, struct lr_error *err)
{
    (void)err;
    net_bus_subscribe(&r->events, req);
    return LR_OK;
}

/* ---- questions that the database answers ---- */

struct question {
    struct lr_json_writer *w;
    int64_t since_s, until_s, step_s;
    int64_t zone_s; /* where slots begin: a day is another one in Tokyo */
    int64_t limit, offset;
    int64_t rows;                     /* that were written */
    struct lr_str key, actor, action; /* usage of this one; empty: of all */
};

static lr_code read_question(struct net_request *req, struct question *q, struct lr_error *err)
{
    const struct {
        const char *name;
        int64_t *out;
    } numbers[] = {{"since", &q->since_s}, {"until", &q->until_s}, {"step", &q->step_s},
                   {"limit", &q->limit},   {"offset", &q->offset}, {"zone", &q->zone_s}};
    struct lr_str text;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (net_request_query_get(req, numbers[i].name, &text) &&
            (!lr_str_i64(text, numbers[i].out) || *numbers[i].out < 0))
            return lr_fail_as(err, number_wanted, numbers[i].name);
    if (q->step_s == 0 || q->since_s > INT64_MAX / 1000 || q->until_s > INT64_MAX / 1000 ||
        q->step_s > INT64_MAX / 1000 || q->until_s < q->since_s)
        return lr_fail_plain(err, usage_times);
    q->limit = q->limit < ROWS_MAX ? q->limit : ROWS_MAX;
    q->zone_s %= 86400;
    (void)net_request_query_get(req, "key", &q->key);
    (void)net_request_query_get(req, "actor", &q->actor);
    (void)net_request_query_get(req, "action", &q->action);
    return LR_OK;
}

static lr_code api_info_ask(struct net_request *req, router_store_fn fn, struct lr_error *err)
{
    int64_t now = lr_clock_wall_ms(&router_clock) / 1000;
    struct question *q = router_memory(req, sizeof(*q), err);
    if (q == NULL)
        return LR_OUT_OF_RAM;
    *q = (struct question){
        .since_s = now - 24 * 3600, .until_s = now + 1, .step_s = 3600, .limit = AUDIT_DEFAULT};
    lr_code code = read_question(req, q, err);
    if (code != LR_OK)
        return code;
    q->w = router_answer_begin(req);
    return router_act(req, NULL, fn, NULL, q, err);
}

static lr_code usage_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct question *q = ctx;
    (void)err;
    LR_JSON_ITEM(q->w, LR_INT("time", router_row_int(row, 0) / 1000),
                 LR_STR("key", router_row_text(row, 1)),
                 LR_STR("model", router_row_text(row, 2)),
                 LR_INT("requests", router_row_int(row, 3)),
                 LR_INT("prompt_tokens", router_row_int(row, 4)),
                 LR_INT("completion_tokens", router_row_int(row, 5)),
                 LR_INT("cached_tokens", router_row_int(row, 6)));
    return LR_OK;
}

static lr_code api_info_read_usage(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct question *q = arg;
    LR_JSON_MEMBERS(q->w, LR_INT("since", q->since_s), LR_INT("until", q->until_s),
                    LR_INT("step", q->step_s));
    lr_json_member_array(q->w, "usage");
    lr_code code = ROUTER_SQL(
        sql,
        "SELECT (time_ms + $5) / $1 * $1 - $5 AS slot, key_id, model, COUNT(*), "
        "CAST(SUM(prompt_tokens) AS BIGINT), CAST(SUM(completion_tokens) AS BIGINT), "
        "CAST(SUM(cached_tokens) AS BIGINT) FROM usage WHERE time_ms >= $2 AND time_ms < $3 "
        "AND ($4 = '' OR key_id = $4) "
        "GROUP BY slot, key_id, model ORDER BY slot, key_id, model LIMIT 10000",
        usage_row, q, err, ROUTER_INT(q->step_s * 1000), ROUTER_INT(q->since_s * 1000),
        ROUTER_INT(q->until_s * 1000), ROUTER_TEXT(q->key), ROUTER_INT(q->zone_s * 1000));
    lr_json_end_array(q->w);
    return code;
}

lr_code router_api_usage(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_str text;
    (void)r;
    return net_request_query_get(req, "by", &text) ||
                   net_request_query_get(req, "format", &text)
               ? router_export_usage(req, err)
               : api_info_ask(req, api_info_read_usage, err);
}

/* JSON that is written already; "": null. */
static void put_json(struct lr_json_writer *w, const char *name, struct lr_str json)
{
    lr_json_key(w, name);
    if (json.len != 0)
        lr_json_put_raw(w, json);
    else
        lr_json_put_null(w);
}

static lr_code audit_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct question *q = ctx;
    (void)err;
    if (q->rows++ == q->limit)
        return LR_OK; /* there is more */
    lr_json_begin_object(q->w);
    LR_JSON_MEMBERS(
        q->w, LR_INT("time", router_row_int(row, 0) / 1000),
        LR_STR("actor", router_row_text(row, 1)), LR_STR("actor_name", router_row_text(row, 2)),
        LR_STR("from", router_row_text(row, 3)), LR_STR("action", router_row_text(row, 4)),
        LR_STR("target", router_row_text(row, 5)), LR_STR("detail", router_row_text(row, 6)));
    put_json(q->w, "before", router_row_text(row, 7));
    put_json(q->w, "after", router_row_text(row, 8));
    lr_json_end_object(q->w);
    return LR_OK;
}

static lr_code read_audit(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct question *q = arg;
    lr_json_member_array(q->w, "audit");
    lr_code code = ROUTER_SQL(
        sql,
        "SELECT time_ms, actor, " ROUTER_AUDIT_NAME ", address, action, target, detail, "
        "old_values, new_values FROM audit WHERE time_ms < $3 AND " ROUTER_AUDIT_FILTER
        " ORDER BY time_ms DESC, action, target, actor LIMIT $4 OFFSET $5",
        audit_row, q, err, ROUTER_TEXT(q->actor), ROUTER_TEXT(q->action),
        ROUTER_INT(q->until_s * 1000), ROUTER_INT(q->limit + 1), ROUTER_INT(q->offset));
    lr_json_end_array(q->w);
    /* The client repeats this `until` for the next page: entries that are written meanwhile do
     * not shift the rows. */
    LR_JSON_MEMBERS(q->w, LR_INT("until", q->until_s), LR_FLAG("more", q->rows > q->limit));
    return code;
}

lr_code router_api_audit(struct router *r, struct net_request *req, struct lr_error *err)
{
    enum router_format format;
    lr_code code = router_export_format(req, &format, err);
    (void)r;
    if (code != LR_OK)
        return code;
    return format == ROUTER_JSON ? api_info_ask(req, read_audit, err)
                                 : router_export_audit(req, err);
}
