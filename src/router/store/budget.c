#include "router/store/budget.h"

#include "base/clock.h"

/* ---- months ---- */

static const int64_t day_ms = 86400000;

static int64_t days_of_year(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365;
}

static int64_t days_of_month(int64_t year, int64_t month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && days_of_year(year) == 366);
}

int64_t router_month_of(int64_t wall_ms)
{
    int64_t days = wall_ms > 0 ? wall_ms / day_ms : 0, year = 1970, month = 1;
    while (days >= days_of_year(year))
        days -= days_of_year(year++);
    while (days >= days_of_month(year, month))
        days -= days_of_month(year, month++);
    return year * 100 + month;
}

int64_t router_month_begin_ms(int64_t month)
{
    int64_t days = 0;
    for (int64_t year = 1970; year < month / 100; year++)
        days += days_of_year(year);
    for (int64_t i = 1; i < month % 100; i++)
        days += days_of_month(month / 100, i);
    return days * day_ms;
}

int64_t router_month_after(int64_t month)
{
    return month % 100 == 12 ? (month / 100 + 1) * 100 + 1 : month + 1;
}

/* ---- in memory ---- */

static void enter(struct router_budget *budget, int64_t month)
{
    if (month > budget->month)
        *budget = (struct router_budget){.month = month};
}

int64_t router_budget_used(struct router_budget *budget, int64_t wall_ms)
{
    enter(budget, router_month_of(wall_ms));
    int64_t used = budget->known + budget->pending;
    return used > 0 ? used : 0;
}

void router_budget_count(struct router_budget *budget, int64_t wall_ms, int64_t tokens)
{
    int64_t month = router_month_of(wall_ms);
    enter(budget, month);
    if (month == budget->month)
        budget->pending += tokens;
}

void router_budget_written(struct router_budget *budget, int64_t wall_ms, int64_t tokens)
{
    if (router_month_of(wall_ms) != budget->month)
        return;
    budget->pending -= tokens;
    budget->known += tokens;
}

void router_budget_set(struct router_budget *budget, int64_t month, int64_t known)
{
    enter(budget, month);
    if (month == budget->month)
        budget->known = known;
}

/* ---- the database ---- */

lr_code router_month_add(struct router_sql *sql, const struct router_month_row *row,
                         struct lr_error *err)
{
    return ROUTER_SQL(
        sql,
        "INSERT INTO usage_months (month, key_id, model, requests, prompt_tokens, "
        "completion_tokens, cached_tokens) VALUES ($1, $2, $3, $4, $5, $6, $7) "
        "ON CONFLICT (month, key_id, model) DO UPDATE SET "
        "requests = usage_months.requests + excluded.requests, "
        "prompt_tokens = usage_months.prompt_tokens + excluded.prompt_tokens, "
        "completion_tokens = usage_months.completion_tokens + excluded.completion_tokens, "
        "cached_tokens = usage_months.cached_tokens + excluded.cached_tokens",
        NULL, NULL, err, ROUTER_INT(row->month), ROUTER_TEXT(row->key), ROUTER_TEXT(row->model),
        ROUTER_INT(row->requests), ROUTER_INT(row->prompt_tokens),
        ROUTER_INT(row->completion_tokens), ROUTER_INT(row->cached_tokens));
}

struct reading {
    int64_t month;
    router_month_fn fn;
    void *ctx;
};

static lr_code take_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    const struct reading *r = ctx;
    struct router_month_row out = {.month = r->month,
                                   .key = router_row_text(row, 0),
                                   .model = router_row_text(row, 1),
                                   .requests = router_row_int(row, 2),
                                   .prompt_tokens = router_row_int(row, 3),
                                   .completion_tokens = router_row_int(row, 4),
                                   .cached_tokens = router_row_int(row, 5)};
    return r->fn(r->ctx, &out, err);
}

lr_code router_month_read(struct router_sql *sql, int64_t month, const char *key,
                          router_month_fn fn, void *ctx, struct lr_error *err)
{
    struct reading reading = {month, fn, ctx};
    if (key != NULL)
        return ROUTER_SQL(sql,
                          "SELECT key_id, model, requests, prompt_tokens, completion_tokens, "
                          "cached_tokens FROM usage_months WHERE month = $1 AND key_id = $2 "
                          "ORDER BY model LIMIT 1000",
                          take_row, &reading, err, ROUTER_INT(month), ROUTER_Z(key));
    return ROUTER_SQL(sql,
                      "SELECT key_id, '', CAST(SUM(requests) AS BIGINT), "
                      "CAST(SUM(prompt_tokens) AS BIGINT), "
                      "CAST(SUM(completion_tokens) AS BIGINT), "
                      "CAST(SUM(cached_tokens) AS BIGINT) FROM usage_months WHERE month = $1 "
                      "GROUP BY key_id",
                      take_row, &reading, err, ROUTER_INT(month));
}

lr_code router_month_begin(struct router_sql *sql, struct lr_error *err)
{
    int64_t month = router_month_of(lr_clock_wall_ms(NULL));
    return ROUTER_SQL(sql,
                      "INSERT INTO usage_months (month, key_id, model, requests, "
                      "prompt_tokens, completion_tokens, cached_tokens) SELECT $1, key_id, "
                      "model, COUNT(*), CAST(SUM(prompt_tokens) AS BIGINT), "
                      "CAST(SUM(completion_tokens) AS BIGINT), CAST(SUM(cached_tokens) AS "
                      "BIGINT) FROM usage WHERE time_ms >= $2 GROUP BY key_id, model",
                      NULL, NULL, err, ROUTER_INT(month),
                      ROUTER_INT(router_month_begin_ms(month)));
}
