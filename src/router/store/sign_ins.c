#include "router/store/sign_ins.h"

#include "base/random.h"
#include "base/sha256.h"

static lr_code take_key(void *ctx, const struct router_row *row, struct lr_error *err)
{
    (void)err;
    lr_str_copy(ctx, ROUTER_SIGN_IN_KEY + 1, router_row_text(row, 0));
    return LR_OK;
}

lr_code router_sign_in_key(struct router_sql *sql, char out[ROUTER_SIGN_IN_KEY + 1],
                           struct lr_error *err)
{
    char drawn[ROUTER_SIGN_IN_KEY + 1];
    lr_random_base62(drawn, ROUTER_SIGN_IN_KEY);
    out[0] = '\0';
    lr_code code = ROUTER_SQL(sql,
                              "INSERT INTO facts (name, value) VALUES ('sign_in_key', $1) ON "
                              "CONFLICT (name) DO NOTHING",
                              NULL, NULL, err, ROUTER_Z(drawn));
    return code == LR_OK
               ? router_sql_run(sql, "SELECT value FROM facts WHERE name = 'sign_in_key'", NULL,
                                0, take_key, out, err)
               : code;
}

lr_code router_sign_in_use(struct router_sql *sql, struct lr_str state, int64_t until_ms,
                           int64_t now_ms, bool *is_first, struct lr_error *err)
{
    unsigned char hash[LR_SHA256_LEN];
    char text[LR_SHA256_HEX_LEN + 1];
    int64_t written = 0;
    lr_sha256_of(state, hash);
    lr_sha256_hex(hash, text);
    lr_code code = ROUTER_SQL(sql, "DELETE FROM sign_ins WHERE until_ms < $1", NULL, NULL, err,
                              ROUTER_INT(now_ms));
    if (code == LR_OK)
        code =
            ROUTER_SQL(sql,
                       "INSERT INTO sign_ins (state, until_ms) VALUES ($1, $2) ON CONFLICT "
                       "(state) DO NOTHING RETURNING 1",
                       router_row_number, &written, err, ROUTER_Z(text), ROUTER_INT(until_ms));
    *is_first = written == 1;
    return code;
}
