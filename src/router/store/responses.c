#include "router/store/responses.h"

#include "base/errors.h"

#include <stdio.h>

enum {
    SWEEP_ROWS = 32,   /* removed in one transaction */
    CHAIN_MAX = 10000, /* responses of one conversation */
    IDS_AT_ONCE = 12,  /* of one statement, which has at most 16 values */
    RENEW_PART = 8,    /* a use is noted if the last one is older than this part of the time */
};

/* ---- one response ---- */

lr_code router_response_insert(struct router_sql *sql, const struct router_response *row,
                               int64_t now_ms, struct lr_error *err)
{
    size_t bytes = row->input.len + row->output.len + row->answer.len;
    lr_code code = ROUTER_SQL(
        sql,
        "INSERT INTO responses (id, key_id, previous, status, running, beats, created_ms, "
        "used_ms, bytes) VALUES ($1, $2, $3, '', $4, $4, $5, $5, $6)",
        NULL, NULL, err, ROUTER_TEXT(row->id), ROUTER_TEXT(row->key),
        ROUTER_TEXT(row->previous), ROUTER_INT(row->is_running), ROUTER_INT(now_ms),
        ROUTER_INT(bytes));
    if (code == LR_OK)
        code = ROUTER_SQL(sql,
                          "INSERT INTO response_texts (id, input, output, answer, output_at) "
                          "VALUES ($1, $2, $3, $4, $5)",
                          NULL, NULL, err, ROUTER_TEXT(row->id), ROUTER_TEXT(row->input),
                          ROUTER_TEXT(row->output), ROUTER_TEXT(row->answer),
                          ROUTER_INT(row->output_at));
    if (code == LR_OK)
        code = ROUTER_SQL(sql,
                          "INSERT INTO response_sums (key_id, bytes) VALUES ($1, $2) ON "
                          "CONFLICT (key_id) DO UPDATE SET bytes = response_sums.bytes + "
                          "excluded.bytes",
                          NULL, NULL, err, ROUTER_TEXT(row->key), ROUTER_INT(bytes));
    return code;
}

struct reading {
    router_response_fn fn;
    void *ctx;
    bool is_found;
};

static lr_code read_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct reading *reading = ctx;
    struct router_response r = {
        .id = router_row_text(row, 0),
        .previous = router_row_text(row, 1),
        .input = router_row_text(row, 2),
        .output = router_row_text(row, 3),
        .answer = router_row_text(row, 4),
        .output_at = (size_t)router_row_int(row, 5),
        .status = router_row_text(row, 6),
        .is_running = router_row_int(row, 7) != 0,
    };
    if (r.output_at > r.answer.len)
        return lr_fail(err, LR_IO, "the database holds a damaged response " LR_STR_FMT,
                       LR_STR_ARG(lr_str_sub(r.id, 0, 60)));
    reading->is_found = true;
    reading->fn(reading->ctx, &r);
    return LR_OK;
}

static lr_code fail_absent(struct lr_str id, struct lr_error *err)
{
    return lr_fail_as(err, response_absent, id);
}

lr_code router_response_read(struct router_sql *sql, const struct router_responses_view *view,
                             struct lr_str id, router_response_fn fn, void *ctx,
                             struct lr_error *err)
{
    struct reading reading = {.fn = fn, .ctx = ctx};
    lr_code code =
        ROUTER_SQL(sql,
                   "SELECT r.id, r.previous, t.input, t.output, t.answer, t.output_at, "
                   "r.status, r.running FROM "
                   "responses r JOIN response_texts t ON t.id = r.id WHERE r.id = $1 AND "
                   "r.key_id = $2 AND r.used_ms > $3",
                   read_row, &reading, err, ROUTER_TEXT(id), ROUTER_TEXT(view->key),
                   ROUTER_INT(view->since_ms));
    return code != LR_OK || reading.is_found ? code : fail_absent(id, err);
}

/* ---- background requests ---- */

lr_code router_response_beat(struct router_sql *sql, struct lr_str id, const char *status,
                             int64_t now_ms, bool *is_running, struct lr_error *err)
{
    int64_t count = 0;
    lr_code code = ROUTER_SQL(sql, "SELECT running FROM responses WHERE id = $1",
                              router_row_number, &count, err, ROUTER_TEXT(id));
    *is_running = count != 0;
    if (code != LR_OK || !*is_running || status == NULL)
        return code;
    return ROUTER_SQL(sql,
                      "UPDATE responses SET beats = beats + 1, used_ms = $1, status = $2 WHERE "
                      "id = $3 AND running = 1",
                      NULL, NULL, err, ROUTER_INT(now_ms), ROUTER_Z(status), ROUTER_TEXT(id));
}

lr_code router_response_end(struct router_sql *sql, const struct router_response *row,
                            size_t old_bytes, int64_t now_ms, struct lr_error *err)
{
    size_t bytes = row->input.len + row->output.len + row->answer.len;
    int64_t count = 0;
    lr_code code = ROUTER_SQL(sql,
                              "UPDATE responses SET running = 0, status = '', used_ms = $1, "
                              "bytes = $2 WHERE id = $3 AND running = 1 RETURNING 1",
                              router_row_number, &count, err, ROUTER_INT(now_ms),
                              ROUTER_INT(bytes), ROUTER_TEXT(row->id));
    if (code != LR_OK || count == 0)
        return code;
    code = ROUTER_SQL(sql,
                      "UPDATE response_texts SET output = $1, answer = $2, output_at = $3 "
                      "WHERE id = $4",
                      NULL, NULL, err, ROUTER_TEXT(row->output), ROUTER_TEXT(row->answer),
                      ROUTER_INT(row->output_at), ROUTER_TEXT(row->id));
    if (code == LR_OK)
        code = ROUTER_SQL(sql, "UPDATE response_sums SET bytes = bytes + $1 WHERE key_id = $2",
                          NULL, NULL, err, ROUTER_INT((int64_t)bytes - (int64_t)old_bytes),
                          ROUTER_TEXT(row->key));
    return code;
}

lr_code router_response_cancel(struct router_sql *sql, const struct router_responses_view *view,
                               struct lr_str id, struct lr_error *err)
{
    return ROUTER_SQL(sql,
                      "UPDATE responses SET running = 0, status = 'cancelled', used_ms = $1 "
                      "WHERE id = $2 AND key_id = $3 AND used_ms > $4 AND running = 1",
                      NULL, NULL, err, ROUTER_INT(view->now_ms), ROUTER_TEXT(id),
                      ROUTER_TEXT(view->key), ROUTER_INT(view->since_ms));
}

/* ---- removing ---- */

struct removed {
    bool is_found;
    char key[64];
    int64_t bytes;
};

static lr_code read_removed(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct removed *removed = ctx;
    (void)err;
    removed->is_found = true;
    LR_COPY(removed->key, router_row_text(row, 0));
    removed->bytes = router_row_int(row, 1);
    return LR_OK;
}

/* Only the statement that removed the row counts its bytes: two routers may try at once. */
static lr_code responses_forget(struct router_sql *sql, struct lr_str id,
                                const struct removed *removed, struct lr_error *err)
{
    if (!removed->is_found)
        return LR_OK;
    lr_code code = ROUTER_SQL(sql, "DELETE FROM response_texts WHERE id = $1", NULL, NULL, err,
                              ROUTER_TEXT(id));
    if (code == LR_OK)
        code = ROUTER_SQL(sql, "UPDATE response_sums SET bytes = bytes - $1 WHERE key_id = $2",
                          NULL, NULL, err, ROUTER_INT(removed->bytes), ROUTER_Z(removed->key));
    return code;
}

lr_code router_response_delete(struct router_sql *sql, const struct router_responses_view *view,
                               struct lr_str id, struct lr_error *err)
{
    struct removed removed = {0};
    lr_code code = ROUTER_SQL(sql,
                              "DELETE FROM responses WHERE id = $1 AND key_id = $2 AND used_ms "
                              "> $3 RETURNING key_id, bytes",
                              read_removed, &removed, err, ROUTER_TEXT(id),
                              ROUTER_TEXT(view->key), ROUTER_INT(view->since_ms));
    if (code == LR_OK && !removed.is_found)
        code = fail_absent(id, err);
    return code == LR_OK ? responses_forget(sql, id, &removed, err) : code;
}

static lr_code remove_any(struct router_sql *sql, const char *id, struct lr_error *err)
{
    struct removed removed = {0};
    lr_code code =
        ROUTER_SQL(sql, "DELETE FROM responses WHERE id = $1 RETURNING key_id, bytes",
                   read_removed, &removed, err, ROUTER_Z(id));
    return code == LR_OK ? responses_forget(sql, lr_str_z(id), &removed, err) : code;
}

lr_code router_responses_expire(struct router_sql *sql, const char *key, struct lr_error *err)
{
    return ROUTER_SQL(sql, "UPDATE responses SET used_ms = 0 WHERE key_id = $1", NULL, NULL,
                      err, ROUTER_Z(key));
}

/* ---- the sweep ---- */

struct ids {
    char list[SWEEP_ROWS][ROUTER_RESPONSE_ID];
    size_t count;
};

static lr_code take_id(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct ids *ids = ctx;
    (void)err;
    if (ids->count < SWEEP_ROWS) {
        LR_COPY(ids->list[ids->count], router_row_text(row, 0));
        ids->count++;
    }
    return LR_OK;
}

static lr_code sweep_old(struct router_sql *sql, int64_t since_ms, struct ids *ids,
                         struct lr_error *err)
{
    lr_code code = ROUTER_SQL(sql,
                              "SELECT id FROM responses WHERE running = 0 AND used_ms <= $1 "
                              "ORDER BY used_ms LIMIT $2",
                              take_id, ids, err, ROUTER_INT(since_ms), ROUTER_INT(SWEEP_ROWS));
    for (size_t i = 0; code == LR_OK && i < ids->count; i++)
        code = remove_any(sql, ids->list[i], err);
    return code;
}

/* The key with the most bytes gives way, so that no key can remove the responses of others.
 * *has_none: it has no response that can be removed. */
static lr_code evict_one(struct router_sql *sql, bool *has_none, struct lr_error *err)
{
    struct removed largest = {0};
    struct ids oldest = {0};
    lr_code code =
        ROUTER_SQL(sql, "SELECT key_id, bytes FROM response_sums ORDER BY bytes DESC LIMIT $1",
                   read_removed, &largest, err, ROUTER_INT(1));
    if (code == LR_OK)
        code = ROUTER_SQL(sql,
                          "SELECT id FROM responses WHERE key_id = $1 AND running = 0 ORDER BY "
                          "used_ms, created_ms LIMIT $2",
                          take_id, &oldest, err, ROUTER_Z(largest.key), ROUTER_INT(1));
    if (code != LR_OK)
        return code;
    *has_none = oldest.count == 0;
    if (!*has_none)
        return remove_any(sql, oldest.list[0], err);
    /* All of them run, or the sum is wrong: it is counted anew. */
    return ROUTER_SQL(sql,
                      "UPDATE response_sums SET bytes = (SELECT COALESCE(SUM(bytes), 0) FROM "
                      "responses WHERE key_id = $1) WHERE key_id = $1",
                      NULL, NULL, err, ROUTER_Z(largest.key));
}

lr_code router_responses_sweep(struct router_sql *sql, int64_t since_ms, uint64_t max_bytes,
                               bool *more, struct lr_error *err)
{
    struct ids ids = {0};
    lr_code code = sweep_old(sql, since_ms, &ids, err);
    size_t count = ids.count;
    bool has_none = false;
    for (bool is_over = true; code == LR_OK && is_over && !has_none && count < SWEEP_ROWS;
         count++) {
        int64_t sum = 0;
        code = router_sql_run(sql, "SELECT COALESCE(SUM(bytes), 0) FROM response_sums", NULL, 0,
                              router_row_number, &sum, err);
        is_over = sum > 0 && (uint64_t)sum > max_bytes;
        if (code == LR_OK && is_over)
            code = evict_one(sql, &has_none, err);
    }
    *more = count == SWEEP_ROWS && !has_none;
    return code;
}

/* ---- conversations ---- */

/* $1: the last response, $2: the key, $3: since when, $4: how many */
#define CHAIN                                                                                  \
    "WITH RECURSIVE chain (id, previous, used_ms, bytes, depth) AS (SELECT id, previous, "     \
    "used_ms, bytes, 1 FROM responses WHERE id = $1 AND key_id = $2 AND used_ms > $3 AND "     \
    "running = 0 UNION ALL SELECT r.id, r.previous, r.used_ms, r.bytes, c.depth + 1 FROM "     \
    "chain c JOIN responses r ON r.id = c.previous WHERE r.key_id = $2 AND r.used_ms > $3 "    \
    "AND c.depth < $4) "

struct chain {
    uint64_t rows, bytes;
    int64_t used_ms;                   /* the oldest */
    char previous[ROUTER_RESPONSE_ID]; /* of the first one; "": the chain is whole */
};

static lr_code responses_measure(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct chain *chain = ctx;
    int64_t used_ms = router_row_int(row, 1);
    (void)err;
    if (chain->rows++ == 0) {
        LR_COPY(chain->previous, router_row_text(row, 0));
        chain->used_ms = used_ms;
    }
    chain->used_ms = used_ms < chain->used_ms ? used_ms : chain->used_ms;
    chain->bytes += (uint64_t)router_row_int(row, 2);
    return LR_OK;
}

static void add_items(struct lr_buf *items, struct lr_str more)
{
    if (items->len > 0 && more.len > 0)
        lr_buf_add_char(items, ',');
    lr_buf_add_str(items, more);
}

static lr_code take_turn(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct lr_str input = router_row_text(row, 0);
    (void)err;
    if (input.len >= 2) /* without the brackets */
        add_items(ctx, lr_str_sub(input, 1, input.len - 1));
    add_items(ctx, router_row_text(row, 1));
    return LR_OK;
}

static lr_code check_items(const struct lr_buf *items, struct lr_error *err)
{
    return items->failed ? lr_fail_as(err, stored_items_over, ROUTER_LOAD_BYTES) : LR_OK;
}

/* The time before which a use is noted. */
static int64_t renew_ms(const struct router_responses_view *view)
{
    return view->now_ms - (view->now_ms - view->since_ms) / RENEW_PART;
}

lr_code router_responses_chain(struct router_sql *sql, const struct router_responses_view *view,
                               struct lr_str id, struct lr_buf *items,
                               char missing[ROUTER_RESPONSE_ID], struct lr_error *err)
{
    struct chain chain = {0};
    lr_code code =
        ROUTER_SQL(sql, CHAIN "SELECT previous, used_ms, bytes FROM chain ORDER BY depth DESC",
                   responses_measure, &chain, err, ROUTER_TEXT(id), ROUTER_TEXT(view->key),
                   ROUTER_INT(view->since_ms), ROUTER_INT(CHAIN_MAX));
    lr_str_copy(missing, ROUTER_RESPONSE_ID, chain.rows == 0 ? id : lr_str_z(chain.previous));
    if (code != LR_OK || missing[0] != '\0')
        return code;
    if (chain.bytes > ROUTER_LOAD_BYTES)
        items->failed = true;
    else
        code = ROUTER_SQL(sql,
                          CHAIN "SELECT t.input, t.output FROM chain c JOIN response_texts t "
                                "ON t.id = c.id ORDER BY c.depth DESC",
                          take_turn, items, err, ROUTER_TEXT(id), ROUTER_TEXT(view->key),
                          ROUTER_INT(view->since_ms), ROUTER_INT(CHAIN_MAX));
    if (code == LR_OK && chain.used_ms < renew_ms(view))
        code = ROUTER_SQL(sql,
                          CHAIN "UPDATE responses SET used_ms = $5 WHERE id IN (SELECT id FROM "
                                "chain)",
                          NULL, NULL, err, ROUTER_TEXT(id), ROUTER_TEXT(view->key),
                          ROUTER_INT(view->since_ms), ROUTER_INT(CHAIN_MAX),
                          ROUTER_INT(view->now_ms));
    return code == LR_OK ? check_items(items, err) : code;
}

/* ---- items ---- */

#define IDS "($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"

struct found {
    struct lr_buf *items;
    int64_t used_ms; /* the oldest */
};

static lr_code take_output(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct found *found = ctx;
    int64_t used_ms = router_row_int(row, 1);
    (void)err;
    add_items(found->items, router_row_text(row, 0));
    found->used_ms = used_ms < found->used_ms ? used_ms : found->used_ms;
    return LR_OK;
}

static lr_code some_items(struct router_sql *sql, const struct router_responses_view *view,
                          const struct lr_str *ids, size_t count, struct lr_buf *items,
                          struct lr_error *err)
{
    struct found found = {.items = items, .used_ms = view->now_ms};
    struct router_sql_value values[3 + IDS_AT_ONCE] = {
        ROUTER_TEXT(view->key), ROUTER_INT(view->since_ms), ROUTER_INT(0)};
    for (size_t i = 0; i < IDS_AT_ONCE; i++)
        values[3 + i] = ROUTER_TEXT(ids[i < count ? i : 0]);
    lr_code code = router_sql_run(
        sql,
        "SELECT t.output, r.used_ms FROM responses r JOIN response_texts t ON t.id = r.id "
        "WHERE r.key_id = $1 AND r.used_ms > $2 AND r.running = $3 AND r.id IN " IDS,
        values, 3 + IDS_AT_ONCE, take_output, &found, err);
    if (code != LR_OK || found.used_ms >= renew_ms(view))
        return code;
    values[2] = ROUTER_INT(view->now_ms);
    return router_sql_run(sql,
                          "UPDATE responses SET used_ms = $3 WHERE key_id = $1 AND used_ms > "
                          "$2 AND id IN " IDS,
                          values, 3 + IDS_AT_ONCE, NULL, NULL, err);
}

lr_code router_responses_items(struct router_sql *sql, const struct router_responses_view *view,
                               const struct lr_str *ids, size_t count, struct lr_buf *items,
                               struct lr_error *err)
{
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < count; i += IDS_AT_ONCE) {
        code = some_items(sql, view, ids + i, count - i < IDS_AT_ONCE ? count - i : IDS_AT_ONCE,
                          items, err);
        if (code == LR_OK)
            code = check_items(items, err);
    }
    return code;
}
