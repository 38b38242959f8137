/* router/access/key_limits.h - what a key may use: tokens a month, requests at once, requests
 * and tokens a minute.
 *
 * `share` is the number of routers that share the database: each grants its part of a limit.
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_ACCESS_KEY_LIMITS_H
#define ROUTER_ACCESS_KEY_LIMITS_H

#include "router/store/keys.h"

/* RATE_LIMITED: the key has used its tokens of this month (store/budget.h), with the seconds
 * until the next. */
LR_MUST_USE lr_code router_key_check_month(struct router_key *key, int64_t wall_ms,
                                           uint32_t *retry_s, struct lr_error *err);
/* A request begins, and ends.  RATE_LIMITED: as many run as the key may have at once. */
LR_MUST_USE lr_code router_key_enter(struct router_key *key, uint32_t share,
                                     struct lr_error *err);
void router_key_leave(struct router_key *key);
/* "2026-12-01": the day on which the budget begins anew. */
void router_key_next_month(int64_t wall_ms, char out[16]);

/* One request now.  RATE_LIMITED sets *retry_s. */
LR_MUST_USE lr_code router_key_take(struct router_key *key, uint64_t now_ms, uint32_t share,
                                    uint32_t *retry_s, struct lr_error *err);
/* The checks of a request that a model computes, as above: budget, rate, requests at once.  OK:
 * the request has entered. */
LR_MUST_USE lr_code router_key_admit(struct router_key *key, uint64_t now_ms, int64_t wall_ms,
                                     uint32_t share, uint32_t *retry_s, struct lr_error *err);
/* A rate as it is now: what may be used at once, and when all of it may be used again. */
struct router_rate {
    uint64_t limit; /* 0: none */
    uint64_t remaining, reset_ms;
};
void router_key_rates(struct router_key *key, uint64_t now_ms, uint32_t share,
                      struct router_rate *requests, struct router_rate *tokens);
/* What router_key_take took: the request was refused for want of a node, which is no fault of
 * the key's. */
void router_key_give_back(struct router_key *key);
/* Tokens are charged when they are known; the bucket may go below empty. */
void router_key_charge(struct router_key *key, uint64_t now_ms, uint64_t tokens,
                       uint32_t share);

#endif
