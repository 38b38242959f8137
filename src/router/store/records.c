#include "router/store/records.h"

#include <stdlib.h>

#include "router/store/budget.h"

enum { FIRST_ROWS = 64 };

/* ---- rows of each kind ---- */

static lr_code insert_usage(struct router_sql *sql, const void *row, struct lr_error *err)
{
    const struct router_usage *u = row;
    return ROUTER_SQL(sql,
                      "INSERT INTO usage (time_ms, key_id, model, node, request_id, status, "
                      "prompt_tokens, completion_tokens, cached_tokens, wait_ms, total_ms) "
                      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                      NULL, NULL, err, ROUTER_INT(u->time_ms), ROUTER_Z(u->key_id),
                      ROUTER_Z(u->model), ROUTER_Z(u->node), ROUTER_Z(u->request_id),
                      ROUTER_INT(u->status), ROUTER_INT(u->prompt_tokens),
                      ROUTER_INT(u->completion_tokens), ROUTER_INT(u->cached_tokens),
                      ROUTER_INT(u->wait_ms), ROUTER_INT(u->total_ms));
}

static lr_code count_usage(struct router_sql *sql, const void *row, int64_t *count,
                           struct lr_error *err)
{
    const struct router_usage *u = row;
    return ROUTER_SQL(
        sql,
        "SELECT COUNT(*) FROM usage WHERE time_ms = $1 AND request_id = $2 AND key_id = $3",
        router_row_number, count, err, ROUTER_INT(u->time_ms), ROUTER_Z(u->request_id),
        ROUTER_Z(u->key_id));
}

lr_code router_audit_insert(struct router_sql *sql, const void *row, struct lr_error *err)
{
    const struct router_audit *a = row;
    return ROUTER_SQL(sql,
                      "INSERT INTO audit (time_ms, actor, action, target, detail, actor_name, "
                      "address, old_values, new_values) "
                      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                      NULL, NULL, err, ROUTER_INT(a->time_ms), ROUTER_Z(a->actor),
                      ROUTER_Z(a->action), ROUTER_Z(a->target), ROUTER_Z(a->detail),
                      ROUTER_Z(a->name), ROUTER_Z(a->from), ROUTER_Z(a->before),
                      ROUTER_Z(a->after));
}

static lr_code count_audit(struct router_sql *sql, const void *row, int64_t *count,
                           struct lr_error *err)
{
    const struct router_audit *a = row;
    return ROUTER_SQL(sql,
                      "SELECT COUNT(*) FROM audit WHERE time_ms = $1 AND actor = $2 AND "
                      "action = $3 AND target = $4",
                      router_row_number, count, err, ROUTER_INT(a->time_ms), ROUTER_Z(a->actor),
                      ROUTER_Z(a->action), ROUTER_Z(a->target));
}

static const struct {
    size_t bytes, max; /* of a row; rows that may wait */
    lr_code (*insert)(struct router_sql *sql, const void *row, struct lr_error *err);
    lr_code (*count)(struct router_sql *sql, const void *row, int64_t *count,
                     struct lr_error *err);
} kinds[ROUTER_RECORDS] = {
    /* two minutes of 8,000 requests a second */
    [ROUTER_USAGE] = {sizeof(struct router_usage), 1 << 20, insert_usage, count_usage},
    /* 49 MiB */
    [ROUTER_AUDIT] = {sizeof(struct router_audit), 1 << 14, router_audit_insert, count_audit},
};

/* ---- waiting ---- */

size_t router_records_waiting(const struct router_records *records, enum router_record kind)
{
    return records->of[kind].end - records->of[kind].first;
}

/* Moves the rows down where at least half of the memory is free, so that a row is moved once
 * on average; else takes twice the memory. */
static bool records_make_room(struct router_backlog *b, size_t bytes)
{
    if (b->end < b->cap)
        return true;
    if (b->cap != 0 && b->first >= b->cap / 2) {
        memmove(b->rows, b->rows + b->first * bytes, (b->end - b->first) * bytes);
        b->end -= b->first;
        b->first = 0;
        return true;
    }
    size_t cap = b->cap != 0 ? 2 * b->cap : FIRST_ROWS;
    unsigned char *grown = realloc(b->rows, cap * bytes);
    if (grown == NULL)
        return false;
    b->rows = grown;
    b->cap = cap;
    return true;
}

bool router_records_add(struct router_records *records, enum router_record kind,
                        const void *row)
{
    struct router_backlog *b = &records->of[kind];
    size_t bytes = kinds[kind].bytes;
    if (b->end - b->first >= kinds[kind].max || !records_make_room(b, bytes))
        return false;
    memcpy(b->rows + b->end++ * bytes, row, bytes);
    return true;
}

void router_records_free(struct router_records *records)
{
    for (size_t k = 0; k < ROUTER_RECORDS; k++)
        free(records->of[k].rows);
    *records = (struct router_records){0};
}

/* ---- batches ---- */

bool router_batch_take(const struct router_records *records, struct router_batch *out)
{
    bool has_all = true;
    *out = (struct router_batch){
        .is_doubtful =
            records->of[ROUTER_USAGE].doubtful + records->of[ROUTER_AUDIT].doubtful != 0};
    for (size_t k = 0; k < ROUTER_RECORDS; k++) {
        const struct router_backlog *b = &records->of[k];
        size_t count = b->end - b->first, bytes = kinds[k].bytes;
        count = out->is_doubtful            ? b->doubtful
                : count > ROUTER_BATCH_ROWS ? ROUTER_BATCH_ROWS
                                            : count;
        out->count[k] = count;
        out->rows[k] = count != 0 ? malloc(count * bytes) : NULL;
        has_all = has_all && (count == 0 || out->rows[k] != NULL);
        if (out->rows[k] != NULL)
            memcpy(out->rows[k], b->rows + b->first * bytes, count * bytes);
    }
    for (size_t k = 0; !has_all && k < ROUTER_RECORDS; k++)
        free(out->rows[k]);
    return has_all;
}

void router_batch_end(struct router_records *records, struct router_batch *batch,
                      bool is_written)
{
    for (size_t k = 0; k < ROUTER_RECORDS; k++) {
        struct router_backlog *b = &records->of[k];
        b->doubtful = is_written ? 0 : batch->count[k];
        b->first += is_written ? batch->count[k] : 0;
        free(batch->rows[k]);
        if (b->first == b->end) { /* the memory of a long queue is given back */
            free(b->rows);
            *b = (struct router_backlog){0};
        }
    }
}

static int by_month(const void *a, const void *b)
{
    const struct router_month_row *x = a, *y = b;
    int order = (x->month > y->month) - (x->month < y->month);
    if (order == 0)
        order = lr_str_cmp(x->key, y->key);
    return order != 0 ? order : lr_str_cmp(x->model, y->model);
}

/* Adds the rows to the sums of their months, each sum once and all in one order: two routers
 * that add to the same sums wait for each other and never in a circle. */
static lr_code add_months(struct router_sql *sql, const struct router_usage *rows, size_t count,
                          struct lr_error *err)
{
    struct router_month_row *sums = count != 0 ? malloc(count * sizeof(*sums)) : NULL;
    lr_code code = LR_OK;
    if (sums == NULL)
        return count == 0 ? LR_OK : lr_fail(err, LR_OUT_OF_RAM, "no memory for sums of usage");
    for (size_t i = 0; i < count; i++)
        sums[i] = (struct router_month_row){
            .month = router_month_of(rows[i].time_ms),
            .key = lr_str_z(rows[i].key_id),
            .model = lr_str_z(rows[i].model),
            .requests = 1,
            .prompt_tokens = (int64_t)rows[i].prompt_tokens,
            .completion_tokens = (int64_t)rows[i].completion_tokens,
            .cached_tokens = (int64_t)rows[i].cached_tokens,
        };
    qsort(sums, count, sizeof(*sums), by_month);
    for (size_t i = 0, next; code == LR_OK && i < count; i = next) {
        for (next = i + 1; next < count && by_month(&sums[i], &sums[next]) == 0; next++) {
            sums[i].requests++;
            sums[i].prompt_tokens += sums[next].prompt_tokens;
            sums[i].completion_tokens += sums[next].completion_tokens;
            sums[i].cached_tokens += sums[next].cached_tokens;
        }
        code = router_month_add(sql, &sums[i], err);
    }
    free(sums);
    return code;
}

lr_code router_batch_insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct router_batch *batch = arg;
    lr_code code = add_months(sql, (const void *)batch->rows[ROUTER_USAGE],
                              batch->count[ROUTER_USAGE], err);
    for (size_t k = 0; k < ROUTER_RECORDS; k++)
        for (size_t i = 0; code == LR_OK && i < batch->count[k]; i++)
            code = kinds[k].insert(sql, batch->rows[k] + i * kinds[k].bytes, err);
    return code;
}

lr_code router_batch_find(struct router_sql *sql, const struct router_batch *batch,
                          bool *is_written, struct lr_error *err)
{
    size_t k = batch->count[ROUTER_USAGE] != 0 ? ROUTER_USAGE : ROUTER_AUDIT;
    int64_t count = 0;
    lr_code code = kinds[k].count(sql, batch->rows[k], &count, err);
    *is_written = count != 0;
    return code;
}
