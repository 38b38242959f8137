/* router/http/api_info.c - health, metrics, events, usage over time, the audit log. */
#include <stdio.h>

#include "router/http/api.h"

enum { BODY_BYTES = 16 << 20, ROWS_MAX = 10000, AUDIT_DEFAULT = 200 };

void router_api_health(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    struct lr_json_writer w;
    size_t online = 0;
    bool draining = atomic_load(&r->is_draining);
    router_lock(r);
    for (size_t i = 0; i < r->nodes.count; i++)
        online += router_node_is_online(r->nodes.all[i]);
    router_unlock(r);
    w = router_json_begin(&body, 4096);
    lr_json_member_z(&w, "status", draining ? "draining" : "ok");
    lr_json_member_z(&w, "version", r->version);
    lr_json_member_u64(&w, "nodes_online", online);
    lr_json_member_u64(&w, "uptime_ms", lr_clock_ms(NULL) - r->started_ms);
    lr_json_end_object(&w);
    router_respond_json(req, draining ? 503 : 200, &body);
}

void router_api_metrics(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    lr_buf_init(&body, BODY_BYTES);
    router_metrics_write(r, &body);
    net_respond(req, 200, "text/plain; version=0.0.4", lr_buf_str(&body));
    lr_buf_free(&body);
}

void router_api_events(struct router *r, struct net_request *req)
{
    net_bus_subscribe(&r->events, req);
}

/* ---- questions that the database answers ---- */

struct question {
    struct net_request *req;
    struct lr_buf body;
    struct lr_json_writer w;
    int64_t since_ms, until_ms, step_ms;
    int64_t zone_ms; /* where slots begin: a day is another one in Tokyo */
    int64_t limit, offset;
    int64_t rows;      /* that were written */
    struct lr_str key; /* usage of this one; empty: of all */
};

static void answer(void *arg, const struct lr_error *err)
{
    struct question *q = arg;
    if (err != NULL) {
        lr_buf_free(&q->body);
        net_respond_error(q->req, err);
        return;
    }
    router_respond_json(q->req, 200, &q->body);
}

static bool read_number(struct net_request *req, const char *name, int64_t *out)
{
    struct lr_str text;
    if (!net_request_query_get(req, name, &text))
        return true;
    if (lr_str_i64(text, out) && *out >= 0)
        return true;
    router_refuse(req, LR_INVALID_ARGUMENT, "\"%s\" must be a whole number", name);
    return false;
}

static struct question *ask(struct net_request *req)
{
    struct question *q = lr_arena_zalloc(net_request_arena(req), sizeof(*q));
    int64_t now = lr_clock_wall_ms(NULL) / 1000, since = now - 24 * 3600, until = now + 1,
            step = 3600, limit = AUDIT_DEFAULT, offset = 0, zone = 0;
    if (q == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a request");
        return NULL;
    }
    if (!read_number(req, "since", &since) || !read_number(req, "until", &until) ||
        !read_number(req, "step", &step) || !read_number(req, "limit", &limit) ||
        !read_number(req, "offset", &offset) || !read_number(req, "zone", &zone))
        return NULL;
    if (step == 0 || since > INT64_MAX / 1000 || until > INT64_MAX / 1000 ||
        step > INT64_MAX / 1000 || until < since) {
        router_refuse(
            req, LR_INVALID_ARGUMENT,
            "\"since\" and \"until\" are seconds since 1970, in this order; \"step\" is "
            "seconds, at least 1");
        return NULL;
    }
    q->req = req;
    q->since_ms = since * 1000;
    q->until_ms = until * 1000;
    q->step_ms = step * 1000;
    q->limit = limit < ROWS_MAX ? limit : ROWS_MAX;
    q->offset = offset;
    q->zone_ms = zone % 86400 * 1000;
    (void)net_request_query_get(req, "key", &q->key);
    lr_buf_init(&q->body, BODY_BYTES);
    lr_json_writer_init(&q->w, &q->body);
    return q;
}

static lr_code usage_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct question *q = ctx;
    (void)err;
    lr_json_begin_object(&q->w);
    lr_json_member_i64(&q->w, "time", router_row_int(row, 0) / 1000);
    lr_json_member_str(&q->w, "key", router_row_text(row, 1));
    lr_json_member_str(&q->w, "model", router_row_text(row, 2));
    lr_json_member_i64(&q->w, "requests", router_row_int(row, 3));
    lr_json_member_i64(&q->w, "prompt_tokens", router_row_int(row, 4));
    lr_json_member_i64(&q->w, "completion_tokens", router_row_int(row, 5));
    lr_json_member_i64(&q->w, "cached_tokens", router_row_int(row, 6));
    lr_json_end_object(&q->w);
    return LR_OK;
}

static lr_code read_usage(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct question *q = arg;
    lr_json_begin_object(&q->w);
    lr_json_member_i64(&q->w, "since", q->since_ms / 1000);
    lr_json_member_i64(&q->w, "until", q->until_ms / 1000);
    lr_json_member_i64(&q->w, "step", q->step_ms / 1000);
    lr_json_key(&q->w, "usage");
    lr_json_begin_array(&q->w);
    lr_code code = ROUTER_SQL(
        sql,
        "SELECT (time_ms + $5) / $1 * $1 - $5 AS slot, key_id, model, COUNT(*), "
        "CAST(SUM(prompt_tokens) AS BIGINT), CAST(SUM(completion_tokens) AS BIGINT), "
        "CAST(SUM(cached_tokens) AS BIGINT) FROM usage WHERE time_ms >= $2 AND time_ms < $3 "
        "AND ($4 = '' OR key_id = $4) "
        "GROUP BY slot, key_id, model ORDER BY slot, key_id, model LIMIT 10000",
        usage_row, q, err, ROUTER_INT(q->step_ms), ROUTER_INT(q->since_ms),
        ROUTER_INT(q->until_ms), ROUTER_TEXT(q->key), ROUTER_INT(q->zone_ms));
    lr_json_end_array(&q->w);
    lr_json_end_object(&q->w);
    return code;
}

void router_api_usage(struct router *r, struct net_request *req)
{
    struct question *q = ask(req);
    if (q != NULL)
        router_store_submit(r->store, read_usage, net_request_loop(req), answer, q);
}

static lr_code audit_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct question *q = ctx;
    (void)err;
    if (q->rows++ == q->limit)
        return LR_OK; /* there is more */
    lr_json_begin_object(&q->w);
    lr_json_member_i64(&q->w, "time", router_row_int(row, 0) / 1000);
    lr_json_member_str(&q->w, "actor", router_row_text(row, 1));
    lr_json_member_str(&q->w, "action", router_row_text(row, 2));
    lr_json_member_str(&q->w, "target", router_row_text(row, 3));
    lr_json_member_str(&q->w, "detail", router_row_text(row, 4));
    lr_json_end_object(&q->w);
    return LR_OK;
}

static lr_code read_audit(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct question *q = arg;
    lr_json_begin_object(&q->w);
    lr_json_key(&q->w, "audit");
    lr_json_begin_array(&q->w);
    lr_code code = ROUTER_SQL(
        sql,
        "SELECT time_ms, actor, action, target, detail FROM audit WHERE time_ms < $1 "
        "ORDER BY time_ms DESC, action, target, actor LIMIT $2 OFFSET $3",
        audit_row, q, err, ROUTER_INT(q->until_ms), ROUTER_INT(q->limit + 1),
        ROUTER_INT(q->offset));
    lr_json_end_array(&q->w);
    /* The next page: this until again, so that what happens meanwhile moves no row. */
    lr_json_member_i64(&q->w, "until", q->until_ms / 1000);
    lr_json_member_bool(&q->w, "more", q->rows > q->limit);
    lr_json_end_object(&q->w);
    return code;
}

void router_api_audit(struct router *r, struct net_request *req)
{
    struct question *q = ask(req);
    if (q != NULL)
        router_store_submit(r->store, read_audit, net_request_loop(req), answer, q);
}
