#include "router/observe/limits.h"

#include "base/errors.h"

#include <stdio.h>

void router_limit_duration(uint64_t ms, char out[32])
{
    uint64_t s = (ms + 999) / 1000;
    if (ms < 1000)
        (void)snprintf(out, 32, "%llums", (unsigned long long)ms);
    else if (s < 60)
        (void)snprintf(out, 32, "%llus", (unsigned long long)s);
    else
        (void)snprintf(out, 32, "%llum%llus", (unsigned long long)(s / 60),
                       (unsigned long long)(s % 60));
}

static void put_headers(struct net_request *req, const char *what,
                        const struct router_rate *rate)
{
    char name[64], value[32];
    if (rate->limit == 0)
        return;
    (void)snprintf(name, sizeof(name), "x-ratelimit-limit-%s", what);
    (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)rate->limit);
    net_response_header(req, name, lr_str_z(value));
    (void)snprintf(name, sizeof(name), "x-ratelimit-remaining-%s", what);
    (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)rate->remaining);
    net_response_header(req, name, lr_str_z(value));
    (void)snprintf(name, sizeof(name), "x-ratelimit-reset-%s", what);
    router_limit_duration(rate->reset_ms, value);
    net_response_header(req, name, lr_str_z(value));
}

void router_limit_headers(struct net_request *req, const struct router_rate *requests,
                          const struct router_rate *tokens)
{
    put_headers(req, "requests", requests);
    put_headers(req, "tokens", tokens);
}

/* ---- alerts ---- */

/* *is_open: the alert is. */
static void limits_watch(struct router_alerts *alerts, const struct router_key *key,
                         bool *is_open, bool is_wrong, enum router_alert_kind kind,
                         uint64_t limit, int64_t used)
{
    struct lr_error why;
    char name[64];
    if (is_wrong == *is_open)
        return;
    *is_open = is_wrong;
    if (!is_wrong) {
        router_alert_settle(alerts, kind, NULL, lr_str_z(key->id));
        return;
    }
    (void)snprintf(name, sizeof(name), "%s", key->owner[0] != '\0' ? key->owner : key->name);
    (void)lr_fail_as(
        &why, key_budget, key->id, name, used,
        kind == ROUTER_ALERT_BUDGET_SOFT ? "tokens_per_month_soft" : "tokens_per_month", limit);
    router_alert_raise(alerts, kind, NULL, lr_str_z(key->id), &why);
}

void router_watch_budgets(struct router_keys *keys, struct router_alerts *alerts,
                          int64_t wall_ms)
{
    for (size_t i = 0; i < keys->count; i++) {
        struct router_key *key = keys->all[i];
        uint64_t soft = key->tokens_per_month_soft, hard = key->tokens_per_month;
        if (soft == 0 && hard == 0 && !key->is_near_budget && !key->is_over_budget)
            continue;
        int64_t used = router_budget_used(&key->month, wall_ms);
        bool is_good = router_key_is_good(key, wall_ms);
        limits_watch(alerts, key, &key->is_near_budget,
                     is_good && soft != 0 && used >= (int64_t)soft, ROUTER_ALERT_BUDGET_SOFT,
                     soft, used);
        limits_watch(alerts, key, &key->is_over_budget,
                     is_good && hard != 0 && used >= (int64_t)hard, ROUTER_ALERT_BUDGET_SPENT,
                     hard, used);
    }
}
