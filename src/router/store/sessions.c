#include "router/store/sessions.h"

#include "base/random.h"

#define COLUMNS "hash, key_id, name, role, address, made_ms, used_ms"

struct reading {
    struct router_session_row *rows;
    size_t count, most;
};

/* A row that cannot be read is no session. */
static lr_code sessions_take_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct reading *reading = ctx;
    struct router_session_row *out = &reading->rows[reading->count];
    (void)err;
    if (reading->count == reading->most)
        return LR_OK;
    *out = (struct router_session_row){0};
    if (!lr_sha256_parse(router_row_text(row, 0), out->hash))
        return LR_OK;
    LR_COPY(out->key_id, router_row_text(row, 1));
    LR_COPY(out->name, router_row_text(row, 2));
    if (out->name[0] != '\0' && !router_role_find(router_row_text(row, 3), &out->role))
        return LR_OK;
    LR_COPY(out->from, router_row_text(row, 4));
    out->made_ms = router_row_int(row, 5);
    out->used_ms = router_row_int(row, 6);
    reading->count++;
    return LR_OK;
}

/* Routers that share the database may have begun sessions of one key at the same time.  The new
 * session stays, whatever the clocks of the others say. */
static lr_code trim(struct router_sql *sql, const struct router_session_row *row,
                    const char *hash, struct lr_error *err)
{
    return ROUTER_SQL(sql,
                      "DELETE FROM sessions WHERE key_id = $1 AND hash <> $2 AND hash NOT IN "
                      "(SELECT hash FROM sessions WHERE key_id = $1 AND hash <> $2 "
                      "ORDER BY used_ms DESC LIMIT $3)",
                      NULL, NULL, err, ROUTER_Z(row->key_id), ROUTER_Z(hash),
                      ROUTER_INT(ROUTER_SESSIONS_OF_KEY - 1));
}

lr_code router_session_insert(struct router_sql *sql, const struct router_session_row *row,
                              struct lr_error *err)
{
    char hash[LR_SHA256_HEX_LEN + 1];
    lr_sha256_hex(row->hash, hash);
    lr_code code =
        ROUTER_SQL(sql,
                   "INSERT INTO sessions (" COLUMNS
                   ") VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (hash) DO NOTHING",
                   NULL, NULL, err, ROUTER_Z(hash), ROUTER_Z(row->key_id), ROUTER_Z(row->name),
                   ROUTER_Z(row->name[0] != '\0' ? router_role_name(row->role) : ""),
                   ROUTER_Z(row->from), ROUTER_INT(row->made_ms), ROUTER_INT(row->used_ms));
    return code == LR_OK ? trim(sql, row, hash, err) : code;
}

lr_code router_session_touch(struct router_sql *sql, const unsigned char hash[LR_SHA256_LEN],
                             int64_t used_ms, struct lr_error *err)
{
    char text[LR_SHA256_HEX_LEN + 1];
    lr_sha256_hex(hash, text);
    return ROUTER_SQL(sql, "UPDATE sessions SET used_ms = $1 WHERE hash = $2 AND used_ms < $1",
                      NULL, NULL, err, ROUTER_INT(used_ms), ROUTER_Z(text));
}

lr_code router_session_delete(struct router_sql *sql, const unsigned char hash[LR_SHA256_LEN],
                              struct lr_error *err)
{
    char text[LR_SHA256_HEX_LEN + 1];
    lr_sha256_hex(hash, text);
    return ROUTER_SQL(sql, "DELETE FROM sessions WHERE hash = $1", NULL, NULL, err,
                      ROUTER_Z(text));
}

lr_code router_session_delete_of(struct router_sql *sql, const char *key_id,
                                 struct lr_error *err)
{
    return ROUTER_SQL(sql, "DELETE FROM sessions WHERE key_id = $1", NULL, NULL, err,
                      ROUTER_Z(key_id));
}

lr_code router_session_expire(struct router_sql *sql, int64_t made_ms, int64_t used_ms,
                              struct lr_error *err)
{
    return ROUTER_SQL(sql, "DELETE FROM sessions WHERE made_ms < $1 OR used_ms < $2", NULL,
                      NULL, err, ROUTER_INT(made_ms), ROUTER_INT(used_ms));
}

lr_code router_session_read_all(struct router_sql *sql, struct router_session_row *out,
                                size_t most, size_t *count, struct lr_error *err)
{
    struct reading reading = {.rows = out, .most = most};
    lr_code code = ROUTER_SQL(sql,
                              "SELECT " COLUMNS " FROM (SELECT " COLUMNS
                              " FROM sessions ORDER BY used_ms DESC LIMIT $1) AS newest "
                              "ORDER BY made_ms",
                              sessions_take_row, &reading, err, ROUTER_INT(most));
    *count = reading.count;
    return code;
}

lr_code router_session_read(struct router_sql *sql, const unsigned char hash[LR_SHA256_LEN],
                            struct router_session_row *out, bool *is_found,
                            struct lr_error *err)
{
    struct reading reading = {.rows = out, .most = 1};
    char text[LR_SHA256_HEX_LEN + 1];
    lr_sha256_hex(hash, text);
    lr_code code = ROUTER_SQL(sql, "SELECT " COLUMNS " FROM sessions WHERE hash = $1",
                              sessions_take_row, &reading, err, ROUTER_Z(text));
    *is_found = reading.count == 1;
    return code;
}

static lr_code sessions_take_name(void *ctx, const struct router_row *row, struct lr_error *err)
{
    (void)err;
    lr_str_copy(ctx, ROUTER_FLEET_NAME + 1, router_row_text(row, 0));
    return LR_OK;
}

lr_code router_fleet_name(struct router_sql *sql, char out[ROUTER_FLEET_NAME + 1],
                          struct lr_error *err)
{
    char drawn[ROUTER_FLEET_NAME + 1];
    lr_random_base62(drawn, ROUTER_FLEET_NAME);
    out[0] = '\0';
    lr_code code = ROUTER_SQL(sql,
                              "INSERT INTO facts (name, value) VALUES ('fleet', $1) ON "
                              "CONFLICT (name) DO NOTHING",
                              NULL, NULL, err, ROUTER_Z(drawn));
    return code == LR_OK ? router_sql_run(sql, "SELECT value FROM facts WHERE name = 'fleet'",
                                          NULL, 0, sessions_take_name, out, err)
                         : code;
}
