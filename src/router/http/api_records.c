/* router/http/api_records.c - usage by day, model, key and owner, requests one by one, and the
 * audit log, as JSON, CSV or lines of JSON. */
#include <stdio.h>

#include "base/errors.h"
#include "router/http/records.h"
#include "router/http/state.h"
#include "router/store/clock.h"

enum { DAY_S = 86400, BY_DAY = 1, BY_KEY = 2, BY_OWNER = 4, BY_MODEL = 8, BY_REQUEST = 16 };

/* In the request's memory. */
struct question {
    struct router_export export;
    const struct lr_settings *settings;
    bool has_cost;
    unsigned by;
    int64_t since_ms, until_ms, step_ms, zone_ms;
    struct lr_str key, model, owner, actor, action;
    const char *columns[20];
    /* Where the next page begins. */
    int64_t slot_ms, offset; /* the slot that is read, and rows of it that were; -1: none */
    int64_t at_ms;           /* of requests and audits: the newest time that was sent, */
    int64_t at_count;        /* and its rows that were */
    int64_t page_rows;
    /* The group that is summed up: its models follow each other. */
    bool has_group;
    char day[16], group_key[24], key_name[64], group_owner[64], group_model[160];
    int64_t group_ms;
    struct router_tokens tokens;
    double cost;
    bool is_priced;
};

/* ---- the question ---- */

static lr_code read_by(struct net_request *req, unsigned *by, struct lr_error *err)
{
    static const struct {
        const char *name;
        unsigned bit;
    } words[] = {{"day", BY_DAY},
                 {"key", BY_KEY},
                 {"owner", BY_OWNER},
                 {"model", BY_MODEL},
                 {"request", BY_REQUEST}};
    struct lr_str rest, one;
    if (!net_request_query_get(req, "by", &rest)) {
        *by = BY_KEY | BY_MODEL;
        return LR_OK;
    }
    *by = 0;
    while (lr_str_split(&rest, ',', &one)) {
        size_t i = 0;
        while (i < sizeof(words) / sizeof(words[0]) && !lr_str_eq_z(one, words[i].name))
            i++;
        if (i == sizeof(words) / sizeof(words[0]))
            return lr_fail_plain(err, records_by);
        *by |= words[i].bit;
    }
    return (*by & BY_REQUEST) == 0 || *by == BY_REQUEST
               ? LR_OK
               : lr_fail_plain(err, records_by_request);
}

static lr_code read_second(struct net_request *req, const char *name, int64_t *ms,
                           struct lr_error *err)
{
    struct lr_str text;
    int64_t s;
    if (!net_request_query_get(req, name, &text))
        return LR_OK;
    if (!lr_str_i64(text, &s) || s < 0 || s > INT64_MAX / 2000)
        return lr_fail_as(err, records_seconds, name);
    *ms = s * 1000;
    return LR_OK;
}

static lr_code read_question(struct net_request *req, struct question **out, const char *name,
                             struct lr_error *err)
{
    int64_t now_ms = lr_clock_wall_ms(&router_clock);
    struct question *q = *out = router_memory(req, sizeof(*q), err);
    if (q == NULL)
        return LR_OUT_OF_RAM;
    q->export.req = req;
    q->export.name = name;
    q->export.arg = q;
    q->settings = router_access(req)->router->settings;
    q->has_cost = router_prices_are_set(q->settings);
    q->until_ms = now_ms + 1000;
    q->since_ms = now_ms - DAY_S * 1000;
    lr_code code = router_export_format(req, &q->export.format, err);
    if (code == LR_OK)
        code = read_second(req, "since", &q->since_ms, err);
    if (code == LR_OK)
        code = read_second(req, "until", &q->until_ms, err);
    if (code == LR_OK)
        code = read_second(req, "step", &q->step_ms, err);
    if (code == LR_OK)
        code = read_second(req, "zone", &q->zone_ms, err);
    if (code == LR_OK && q->until_ms < q->since_ms)
        code = lr_fail_plain(err, records_order);
    (void)net_request_query_get(req, "key", &q->key);
    (void)net_request_query_get(req, "model", &q->model);
    (void)net_request_query_get(req, "owner", &q->owner);
    (void)net_request_query_get(req, "actor", &q->actor);
    (void)net_request_query_get(req, "action", &q->action);
    q->zone_ms %= DAY_S * 1000;
    q->slot_ms = -1;
    q->at_ms = q->since_ms;
    return code;
}

/* ---- groups ---- */

static void add_cost(struct question *q, struct lr_str model, const struct router_tokens *t)
{
    double cost;
    if (!router_price(q->settings, model, t, &cost))
        return;
    q->cost += cost;
    q->is_priced = true;
}

static void put_group(struct question *q)
{
    if (!q->has_group)
        return;
    struct router_line *r = router_export_row(&q->export, q->columns);
    router_line_int(r, "time", q->group_ms / 1000);
    if ((q->by & BY_DAY) != 0)
        router_line_text(r, "day", lr_str_z(q->day));
    if ((q->by & BY_KEY) != 0) {
        router_line_text(r, "key", lr_str_z(q->group_key));
        router_line_text(r, "key_name", lr_str_z(q->key_name));
    }
    if ((q->by & BY_OWNER) != 0)
        router_line_text(r, "owner", lr_str_z(q->group_owner));
    if ((q->by & BY_MODEL) != 0)
        router_line_text(r, "model", lr_str_z(q->group_model));
    router_line_int(r, "requests", q->tokens.requests);
    router_line_int(r, "errors", q->tokens.errors);
    router_line_int(r, "prompt_tokens", q->tokens.prompt);
    router_line_int(r, "completion_tokens", q->tokens.completion);
    router_line_int(r, "cached_tokens", q->tokens.cached);
    if (q->has_cost)
        router_line_cost(r, q->is_priced ? &q->cost : NULL);
    router_line_end(r);
    q->has_group = q->is_priced = false;
    q->tokens = (struct router_tokens){0};
    q->cost = 0;
}

static lr_code take_group(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct question *q = ctx;
    struct lr_str key = router_row_text(row, 0), owner = router_row_text(row, 2),
                  model = router_row_text(row, 3);
    struct router_tokens t = {router_row_int(row, 4), router_row_int(row, 5),
                              router_row_int(row, 6), router_row_int(row, 7),
                              router_row_int(row, 8)};
    (void)err;
    q->page_rows++;
    bool is_same = q->has_group && q->group_ms == q->slot_ms &&
                   lr_str_eq_z(key, q->group_key) && lr_str_eq_z(owner, q->group_owner) &&
                   ((q->by & BY_MODEL) == 0 || lr_str_eq_z(model, q->group_model));
    if (!is_same) {
        char time[LR_TIME_TEXT_LEN + 1];
        put_group(q);
        LR_COPY(q->group_key, key);
        LR_COPY(q->key_name, router_row_text(row, 1));
        LR_COPY(q->group_owner, owner);
        LR_COPY(q->group_model, model);
        q->group_ms = q->slot_ms;
        lr_time_format(q->slot_ms + q->zone_ms, time);
        (void)snprintf(q->day, sizeof(q->day), "%.10s", time);
        q->has_group = true;
    }
    q->tokens.requests += t.requests;
    q->tokens.errors += t.errors;
    q->tokens.prompt += t.prompt;
    q->tokens.completion += t.completion;
    q->tokens.cached += t.cached;
    add_cost(q, model, &t);
    return LR_OK;
}

/* The slot of the oldest record from `from_ms` on; -1: there is none. */
static lr_code find_slot(struct question *q, struct router_sql *sql, int64_t from_ms,
                         struct lr_error *err)
{
    int64_t first_ms = -1;
    lr_code code = ROUTER_SQL(
        sql,
        "SELECT COALESCE(MIN(time_ms), -1) FROM usage WHERE time_ms >= $1 "
        "AND time_ms < $2",
        router_row_number, &first_ms, err, ROUTER_INT(from_ms), ROUTER_INT(q->until_ms));
    q->slot_ms = first_ms < 0 ? -1
                 : q->step_ms == 0
                     ? q->since_ms
                     : (first_ms + q->zone_ms) / q->step_ms * q->step_ms - q->zone_ms;
    q->offset = 0;
    return code;
}

static lr_code read_groups(struct question *q, struct router_sql *sql, struct lr_error *err)
{
    int64_t begin_ms = q->slot_ms > q->since_ms ? q->slot_ms : q->since_ms;
    int64_t end_ms = q->step_ms != 0 && q->slot_ms + q->step_ms < q->until_ms
                         ? q->slot_ms + q->step_ms
                         : q->until_ms;
    return ROUTER_SQL(
        sql,
        "SELECT CASE WHEN $1 = 1 THEN u.key_id ELSE '' END AS by_key, "
        "CASE WHEN $1 = 1 THEN COALESCE(k.name, '') ELSE '' END AS key_name, "
        "CASE WHEN $2 = 1 THEN COALESCE(k.owner, '') ELSE '' END AS by_owner, u.model, "
        "COUNT(*), CAST(SUM(CASE WHEN u.status = 429 OR u.status >= 500 THEN 1 ELSE 0 END) AS "
        "BIGINT), CAST(SUM(u.prompt_tokens) AS BIGINT), "
        "CAST(SUM(u.completion_tokens) AS BIGINT), CAST(SUM(u.cached_tokens) AS BIGINT) "
        "FROM usage u LEFT JOIN keys k ON k.id = u.key_id WHERE u.time_ms >= $3 AND "
        "u.time_ms < $4 AND ($5 = '' OR u.key_id = $5) AND ($6 = '' OR u.model = $6) AND "
        "($7 = '' OR k.owner = $7) GROUP BY by_key, key_name, by_owner, u.model ORDER BY "
        "by_key, key_name, by_owner, u.model LIMIT $8 OFFSET $9",
        take_group, q, err, ROUTER_INT((q->by & BY_KEY) != 0),
        ROUTER_INT((q->by & BY_OWNER) != 0), ROUTER_INT(begin_ms), ROUTER_INT(end_ms),
        ROUTER_TEXT(q->key), ROUTER_TEXT(q->model), ROUTER_TEXT(q->owner),
        ROUTER_INT(ROUTER_PAGE_ROWS), ROUTER_INT(q->offset));
}

static lr_code page_of_groups(struct router_export *e, struct router_sql *sql, bool *is_last,
                              struct lr_error *err)
{
    struct question *q = e->arg;
    lr_code code = q->slot_ms < 0 ? find_slot(q, sql, q->since_ms, err) : LR_OK;
    q->page_rows = 0;
    if (code == LR_OK && q->slot_ms >= 0)
        code = read_groups(q, sql, err);
    q->offset += q->page_rows;
    if (code == LR_OK && q->slot_ms >= 0 && q->page_rows < ROUTER_PAGE_ROWS) {
        if (q->step_ms == 0)
            q->slot_ms = -1;
        else
            code = find_slot(q, sql, q->slot_ms + q->step_ms, err);
    }
    *is_last = q->slot_ms < 0;
    if (*is_last)
        put_group(q);
    return code;
}

/* ---- requests, one by one ---- */

static void note_time(struct question *q, int64_t ms)
{
    q->page_rows++;
    q->at_count = ms == q->at_ms ? q->at_count + 1 : 1;
    q->at_ms = ms;
}

static lr_code take_request(void *ctx, const struct router_row *row, struct lr_error *err)
{
    static const char *const names[] = {"prompt_tokens", "completion_tokens", "cached_tokens",
                                        "wait_ms", "total_ms"};
    struct question *q = ctx;
    double cost;
    struct router_tokens t = {.prompt = router_row_int(row, 8),
                              .completion = router_row_int(row, 9),
                              .cached = router_row_int(row, 10)};
    (void)err;
    note_time(q, router_row_int(row, 0));
    struct router_line *r = router_export_row(&q->export, q->columns);
    router_line_int(r, "time_ms", router_row_int(row, 0));
    router_line_text(r, "request_id", router_row_text(row, 1));
    router_line_text(r, "key", router_row_text(row, 2));
    router_line_text(r, "key_name", router_row_text(row, 3));
    router_line_text(r, "owner", router_row_text(row, 4));
    router_line_text(r, "model", router_row_text(row, 5));
    router_line_text(r, "node", router_row_text(row, 6));
    router_line_int(r, "status", router_row_int(row, 7));
    for (int i = 0; i < 5; i++)
        router_line_int(r, names[i], router_row_int(row, 8 + i));
    if (q->has_cost)
        router_line_cost(
            r, router_price(q->settings, router_row_text(row, 5), &t, &cost) ? &cost : NULL);
    router_line_end(r);
    return LR_OK;
}

static lr_code page_of_requests(struct router_export *e, struct router_sql *sql, bool *is_last,
                                struct lr_error *err)
{
    struct question *q = e->arg;
    q->page_rows = 0;
    lr_code code = ROUTER_SQL(
        sql,
        "SELECT u.time_ms, u.request_id, u.key_id, COALESCE(k.name, ''), "
        "COALESCE(k.owner, ''), u.model, u.node, u.status, u.prompt_tokens, "
        "u.completion_tokens, u.cached_tokens, u.wait_ms, u.total_ms FROM usage u LEFT JOIN "
        "keys k ON k.id = u.key_id WHERE u.time_ms >= $1 AND u.time_ms < $2 AND ($3 = '' OR "
        "u.key_id = $3) AND ($4 = '' OR u.model = $4) AND ($5 = '' OR k.owner = $5) ORDER BY "
        "u.time_ms, u.request_id, u.key_id, u.total_ms LIMIT $6 OFFSET $7",
        take_request, q, err, ROUTER_INT(q->at_ms), ROUTER_INT(q->until_ms),
        ROUTER_TEXT(q->key), ROUTER_TEXT(q->model), ROUTER_TEXT(q->owner),
        ROUTER_INT(ROUTER_PAGE_ROWS), ROUTER_INT(q->at_count));
    *is_last = q->page_rows < ROUTER_PAGE_ROWS;
    return code;
}

static void name_columns(struct question *q)
{
    static const char *const requests[] = {
        "time_ms",       "request_id", "key",     "key_name",      "owner",
        "model",         "node",       "status",  "prompt_tokens", "completion_tokens",
        "cached_tokens", "wait_ms",    "total_ms"};
    static const char *const sums[] = {"requests", "errors", "prompt_tokens",
                                       "completion_tokens", "cached_tokens"};
    size_t n = 0;
    bool is_single = (q->by & BY_REQUEST) != 0;
    for (size_t i = 0; is_single && i < sizeof(requests) / sizeof(requests[0]); i++)
        q->columns[n++] = requests[i];
    if (!is_single) {
        q->columns[n++] = "time";
        if ((q->by & BY_DAY) != 0)
            q->columns[n++] = "day";
        if ((q->by & BY_KEY) != 0) {
            q->columns[n++] = "key";
            q->columns[n++] = "key_name";
        }
        if ((q->by & BY_OWNER) != 0)
            q->columns[n++] = "owner";
        if ((q->by & BY_MODEL) != 0)
            q->columns[n++] = "model";
        for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
            q->columns[n++] = sums[i];
    }
    if (q->has_cost)
        q->columns[n++] = "cost";
    q->columns[n] = NULL;
}

lr_code router_export_usage(struct net_request *req, struct lr_error *err)
{
    struct question *q;
    lr_code code = read_question(req, &q, "usage", err);
    if (code == LR_OK)
        code = read_by(req, &q->by, err);
    if (code == LR_OK && q->by == BY_REQUEST && q->export.format == ROUTER_JSON)
        code = lr_fail_plain(err, records_request_format);
    if (code != LR_OK)
        return code;
    struct lr_str text;
    if ((q->by & BY_DAY) != 0)
        q->step_ms = DAY_S * 1000;
    else if (q->step_ms == 0 && !net_request_query_get(req, "by", &text))
        q->step_ms = 3600 * 1000;
    name_columns(q);
    q->export.page = q->by == BY_REQUEST ? page_of_requests : page_of_groups;
    const char *currency = lr_settings_str(q->settings, "currency");
    lr_buf_init(&q->export.head, 4096);
    lr_buf_addf(&q->export.head, "{\"since\":%lld,\"until\":%lld,\"step\":%lld,\"currency\":",
                (long long)q->since_ms / 1000, (long long)q->until_ms / 1000,
                (long long)q->step_ms / 1000);
    lr_json_quote(&q->export.head, lr_str_z(currency != NULL ? currency : ""));
    lr_buf_add_z(&q->export.head, ",\"usage\":[");
    return router_export_start(&q->export, err);
}

/* ---- the audit log, oldest line first ---- */

enum { AUDIT_JSON = 7 }; /* the first of the columns that are JSON */
static const char *const audit_columns[] = {"time_ms", "actor",  "actor_name", "action",
                                            "target",  "detail", "from",       "before",
                                            "after",   NULL};

static lr_code take_audit(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct question *q = ctx;
    (void)err;
    note_time(q, router_row_int(row, 0));
    struct router_line *r = router_export_row(&q->export, audit_columns);
    router_line_int(r, audit_columns[0], router_row_int(row, 0));
    for (int i = 1; audit_columns[i] != NULL; i++)
        (i < AUDIT_JSON ? router_line_text : router_line_json)(r, audit_columns[i],
                                                               router_row_text(row, i));
    router_line_end(r);
    return LR_OK;
}

static lr_code page_of_audits(struct router_export *e, struct router_sql *sql, bool *is_last,
                              struct lr_error *err)
{
    struct question *q = e->arg;
    q->page_rows = 0;
    lr_code code = ROUTER_SQL(
        sql,
        "SELECT time_ms, actor, " ROUTER_AUDIT_NAME ", action, target, detail, address, "
        "old_values, new_values FROM audit WHERE time_ms >= $3 AND time_ms < $4 "
        "AND " ROUTER_AUDIT_FILTER
        " ORDER BY time_ms, action, target, actor, detail LIMIT $5 OFFSET $6",
        take_audit, q, err, ROUTER_TEXT(q->actor), ROUTER_TEXT(q->action), ROUTER_INT(q->at_ms),
        ROUTER_INT(q->until_ms), ROUTER_INT(ROUTER_PAGE_ROWS), ROUTER_INT(q->at_count));
    *is_last = q->page_rows < ROUTER_PAGE_ROWS;
    return code;
}

lr_code router_export_audit(struct net_request *req, struct lr_error *err)
{
    struct question *q;
    struct lr_str text;
    lr_code code = read_question(req, &q, "audit", err);
    if (code != LR_OK)
        return code;
    if (!net_request_query_get(req, "since", &text))
        q->since_ms = q->at_ms = 0; /* the whole log */
    q->export.page = page_of_audits;
    return router_export_start(&q->export, err);
}
