#include "router/store/sql.h"

int64_t router_row_int(const struct router_row *row, int column)
{
    return row->sql->backend->row_int(row, column);
}

struct lr_str router_row_text(const struct router_row *row, int column)
{
    return row->sql->backend->row_text(row, column);
}

lr_code router_row_number(void *ctx, const struct router_row *row, struct lr_error *err)
{
    (void)err;
    *(int64_t *)ctx = router_row_int(row, 0);
    return LR_OK;
}

lr_code router_sql_run(struct router_sql *sql, const char *text,
                       const struct router_sql_value *values, size_t count, router_row_fn fn,
                       void *ctx, struct lr_error *err)
{
    lr_code code = sql->backend->run(sql, text, values, count, fn, ctx, err);
    atomic_fetch_add(&sql->answers, 1);
    return code;
}

void router_sql_close(struct router_sql *sql)
{
    if (sql != NULL)
        sql->backend->close(sql);
}
