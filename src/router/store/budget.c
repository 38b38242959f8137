#include "router/store/budget.h"

#include "router/store/clock.h"

/* ---- months ---- */

static const int64_t day_ms = 86400000;

/* Days of the months before this one since the first of January 1970.  The year begins in March
 * here, so that the leap day is its last day. */
static int64_t days_before(int64_t month)
{
    int64_t year = month / 100 - (month % 100 < 3), since_march = (month % 100 + 9) % 12;
    int64_t of_year = (153 * since_march + 2) / 5; /* 31, 30, 31, 30, 31 days, and again */
    return year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719468;
}

int64_t router_month_of(int64_t wall_ms)
{
    int64_t days = wall_ms > 0 ? wall_ms / day_ms : 0;
    int64_t months =
        days * 4800 / 146097; /* 400 years have 146,097 days: at most one too few */
    int64_t month = (1970 + months / 12) * 100 + months % 12 + 1;
    while (days >= days_before(router_month_after(month)))
        month = router_month_after(month);
    while (days < days_before(month))
        month = month % 100 == 1 ? month - 89 : month - 1;
    return month;
}

int64_t router_month_begin_ms(int64_t month)
{
    return days_before(month) * day_ms;
}

int64_t router_month_after(int64_t month)
{
    return month % 100 == 12 ? (month / 100 + 1) * 100 + 1 : month + 1;
}

/* ---- in memory ---- */

/* NULL: the month is neither of the two. */
static struct router_month *budget_find(struct router_budget *budget, int64_t month)
{
    if (budget->months[0].month == month)
        return &budget->months[0];
    return budget->months[1].month == month ? &budget->months[1] : NULL;
}

/* The month that was not used last makes room for another one. */
static struct router_month *budget_enter(struct router_budget *budget, int64_t month)
{
    const struct router_month *known = budget_find(budget, month);
    struct router_month first = known != NULL ? *known : (struct router_month){.month = month};
    if (known != &budget->months[0]) {
        budget->months[1] = budget->months[0];
        budget->months[0] = first;
    }
    return &budget->months[0];
}

int64_t router_budget_used(struct router_budget *budget, int64_t wall_ms)
{
    const struct router_month *month = budget_enter(budget, router_month_of(wall_ms));
    int64_t used = month->known + month->pending;
    return used > 0 ? used : 0;
}

/* The time is that of a record: near the end of a month it may be of the month before. */
void router_budget_count(struct router_budget *budget, int64_t wall_ms, int64_t tokens)
{
    int64_t number = router_month_of(wall_ms);
    struct router_month *month = budget_find(budget, number);
    if (month == NULL)
        month = budget_enter(budget, number);
    month->pending += tokens;
}

void router_budget_written(struct router_budget *budget, int64_t wall_ms, int64_t tokens)
{
    struct router_month *month = budget_find(budget, router_month_of(wall_ms));
    if (month == NULL)
        return;
    /* Less is pending where the month was forgotten meanwhile. */
    month->pending = month->pending > tokens ? month->pending - tokens : 0;
    month->known += tokens;
}

void router_budget_set(struct router_budget *budget, int64_t month, int64_t known)
{
    router_budget_keep(budget, month);
    budget_find(budget, month)->known = known;
}

void router_budget_keep(struct router_budget *budget, int64_t month)
{
    struct router_month *kept = budget_find(budget, month);
    if (kept == NULL)
        kept = budget_enter(budget, month);
    kept->is_read = true;
}

bool router_budget_is_read(const struct router_budget *budget, int64_t month)
{
    for (int i = 0; i < 2; i++)
        if (budget->months[i].month == month)
            return budget->months[i].is_read;
    return false;
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

static lr_code budget_take_row(void *ctx, const struct router_row *row, struct lr_error *err)
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
                          budget_take_row, &reading, err, ROUTER_INT(month), ROUTER_Z(key));
    return ROUTER_SQL(sql,
                      "SELECT key_id, '', CAST(SUM(requests) AS BIGINT), "
                      "CAST(SUM(prompt_tokens) AS BIGINT), "
                      "CAST(SUM(completion_tokens) AS BIGINT), "
                      "CAST(SUM(cached_tokens) AS BIGINT) FROM usage_months WHERE month = $1 "
                      "GROUP BY key_id",
                      budget_take_row, &reading, err, ROUTER_INT(month));
}

lr_code router_month_begin(struct router_sql *sql, struct lr_error *err)
{
    int64_t month = router_month_of(lr_clock_wall_ms(&router_clock));
    return ROUTER_SQL(sql,
                      "INSERT INTO usage_months (month, key_id, model, requests, "
                      "prompt_tokens, completion_tokens, cached_tokens) SELECT $1, key_id, "
                      "model, COUNT(*), CAST(SUM(prompt_tokens) AS BIGINT), "
                      "CAST(SUM(completion_tokens) AS BIGINT), CAST(SUM(cached_tokens) AS "
                      "BIGINT) FROM usage WHERE time_ms >= $2 GROUP BY key_id, model",
                      NULL, NULL, err, ROUTER_INT(month),
                      ROUTER_INT(router_month_begin_ms(month)));
}
