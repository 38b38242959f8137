#include "router/access/key_limits.h"

#include "base/errors.h"

#include <stdio.h>

/* ---- budgets and concurrency ---- */

void router_key_next_month(int64_t wall_ms, char out[16])
{
    int64_t next = router_month_after(router_month_of(wall_ms));
    (void)snprintf(out, 16, "%04d-%02d-01", (int)(next / 100), (int)(next % 100));
}

lr_code router_key_check_month(struct router_key *key, int64_t wall_ms, uint32_t *retry_s,
                               struct lr_error *err)
{
    char next[16];
    int64_t used = router_budget_used(&key->month, wall_ms);
    *retry_s = 0;
    if (key->tokens_per_month == 0 || used < (int64_t)key->tokens_per_month)
        return LR_OK;
    router_key_next_month(wall_ms, next);
    *retry_s = (uint32_t)((router_month_begin_ms(router_month_after(router_month_of(wall_ms))) -
                           wall_ms) /
                          1000) +
               1;
    return lr_fail_as(err, key_month, key->id, used, key->tokens_per_month, next);
}

lr_code router_key_enter(struct router_key *key, uint32_t share, struct lr_error *err)
{
    uint64_t part = key->concurrent_requests / share;
    if (key->concurrent_requests != 0 && key->running >= (part != 0 ? part : 1))
        return lr_fail_as(err, key_together, key->id, key->running, key->concurrent_requests);
    key->running++;
    return LR_OK;
}

void router_key_leave(struct router_key *key)
{
    key->running--;
}

/* ---- rates ---- */

static uint32_t seconds_until(double missing, double per_minute)
{
    double seconds = missing * 60.0 / per_minute;
    return seconds < 1 ? 1 : seconds > 3600 ? 3600 : (uint32_t)seconds + 1;
}

lr_code router_key_take(struct router_key *key, uint64_t now_ms, uint32_t share,
                        uint32_t *retry_s, struct lr_error *err)
{
    double requests = (double)key->requests_per_minute / share;
    double tokens = (double)key->tokens_per_minute / share;
    *retry_s = 0;
    if (key->tokens_per_minute != 0) {
        double level = lr_bucket_refill(&key->tokens, tokens, now_ms);
        if (level <= 0) {
            *retry_s = seconds_until(1 - level, tokens);
            return lr_fail_as(err, key_tokens, key->id, key->tokens_per_minute, *retry_s);
        }
    }
    if (key->requests_per_minute != 0) {
        double level = lr_bucket_refill(&key->requests, requests, now_ms);
        if (level < 1) {
            *retry_s = seconds_until(1 - level, requests);
            return lr_fail_as(err, key_requests, key->id, key->requests_per_minute, *retry_s);
        }
        key->requests.level -= 1;
    }
    return LR_OK;
}

lr_code router_key_admit(struct router_key *key, uint64_t now_ms, int64_t wall_ms,
                         uint32_t share, uint32_t *retry_s, struct lr_error *err)
{
    lr_code code = router_key_check_month(key, wall_ms, retry_s, err);
    if (code == LR_OK)
        code = router_key_take(key, now_ms, share, retry_s, err);
    if (code == LR_OK && (code = router_key_enter(key, share, err)) != LR_OK) {
        router_key_give_back(key);
        *retry_s = 1;
    }
    return code;
}

static struct router_rate rate_of(struct lr_bucket *bucket, uint64_t per_minute,
                                  uint64_t now_ms, uint32_t share)
{
    double part = (double)per_minute / share, level;
    if (per_minute == 0)
        return (struct router_rate){0};
    level = lr_bucket_refill(bucket, part, now_ms);
    return (struct router_rate){
        .limit = per_minute,
        .remaining = level > 0 ? (uint64_t)level : 0,
        .reset_ms = (uint64_t)((part - level) * 60000 / part),
    };
}

void router_key_rates(struct router_key *key, uint64_t now_ms, uint32_t share,
                      struct router_rate *requests, struct router_rate *tokens)
{
    *requests = rate_of(&key->requests, key->requests_per_minute, now_ms, share);
    *tokens = rate_of(&key->tokens, key->tokens_per_minute, now_ms, share);
}

void router_key_give_back(struct router_key *key)
{
    if (key->requests_per_minute != 0)
        key->requests.level += 1; /* the next refill bounds it */
}

void router_key_charge(struct router_key *key, uint64_t now_ms, uint64_t tokens, uint32_t share)
{
    if (key->tokens_per_minute == 0)
        return;
    (void)lr_bucket_refill(&key->tokens, (double)key->tokens_per_minute / share, now_ms);
    key->tokens.level -= (double)tokens;
}
