/* router/store/budget.h - tokens of a key in a calendar month (UTC), and its monthly budget.
 *
 *   usage_months  requests and tokens by month, key and model
 *
 * The sums are written in the transaction of the usage records, so they are the sums of the
 * records, whatever process is killed when, and they stay when old records are removed.  In
 * memory the tokens of a key are in two parts:
 *
 *   known    what the database had when it was last read, and what this router wrote since
 *   pending  what this router has counted and the database does not have yet
 *
 * A request counts when its answer ends.  A key whose tokens have reached its budget gets no
 * further request; requests that run go on.  So a budget is exceeded by at most the tokens of
 * the requests that ran when it was reached, and with several routers also by those of requests
 * that began in the up to three seconds in which a router hears of the others' tokens.
 *
 * A clock may jump to another month and come back, so the two months that were used last are
 * kept.  A month that was not kept is read from the database within a second or so
 * (router_sync_second).
 * Thread: the router's lock is held, unless a comment says otherwise.
 */
#ifndef ROUTER_STORE_BUDGET_H
#define ROUTER_STORE_BUDGET_H

#include "router/store/sql.h"

/* Months are numbers like 202612. */
int64_t router_month_of(int64_t wall_ms);
int64_t router_month_begin_ms(int64_t month);
int64_t router_month_after(int64_t month);

struct router_budget {
    struct router_month {
        int64_t month; /* 0: nothing yet */
        int64_t known, pending;
        bool is_read; /* `known` came from the database */
    } months[2];      /* the first is the one that was used last */
};

/* Tokens of the month of wall_ms. */
int64_t router_budget_used(struct router_budget *budget, int64_t wall_ms);
/* Tokens were counted at that time; `tokens` may be less than 0, to correct an earlier count.
 */
void router_budget_count(struct router_budget *budget, int64_t wall_ms, int64_t tokens);
/* The database has them now. */
void router_budget_written(struct router_budget *budget, int64_t wall_ms, int64_t tokens);
/* What the database has. */
void router_budget_set(struct router_budget *budget, int64_t month, int64_t known);
/* The database was read, and has nothing else of this key than what is known. */
void router_budget_keep(struct router_budget *budget, int64_t month);
bool router_budget_is_read(const struct router_budget *budget, int64_t month);

/* ---- the database.  Thread: its own, inside a transaction ---- */

struct router_month_row {
    int64_t month;
    struct lr_str key, model;
    int64_t requests, prompt_tokens, completion_tokens, cached_tokens;
};
LR_MUST_USE lr_code router_month_add(struct router_sql *sql, const struct router_month_row *row,
                                     struct lr_error *err);
/* The rows of a month; key NULL: one row for each key, without a model.  Else the key's rows,
 * one for each model. */
typedef lr_code (*router_month_fn)(void *ctx, const struct router_month_row *row,
                                   struct lr_error *err);
LR_MUST_USE lr_code router_month_read(struct router_sql *sql, int64_t month, const char *key,
                                      router_month_fn fn, void *ctx, struct lr_error *err);
/* For a schema step: the sums of the running month. */
LR_MUST_USE lr_code router_month_begin(struct router_sql *sql, struct lr_error *err);

#endif
