/* router/observe/limits.h - what a key may still use, told to its client and to operators. */
#ifndef ROUTER_OBSERVE_LIMITS_H
#define ROUTER_OBSERVE_LIMITS_H

#include "net/request.h"
#include "router/access/key_limits.h"
#include "router/fleet/alerts.h"

/* x-ratelimit-limit-requests, -remaining-, -reset-, and the same for tokens, as OpenAI's
 * clients read them.  Rates without a limit have no headers. */
void router_limit_headers(struct net_request *req, const struct router_rate *requests,
                          const struct router_rate *tokens);
/* "1s", "6m0s", "20ms"; out has room for 32 bytes. */
void router_limit_duration(uint64_t ms, char out[32]);

/* Once a second: raises and ends the alerts of budgets.  Thread: the router's lock is held. */
void router_watch_budgets(struct router_keys *keys, struct router_alerts *alerts,
                          int64_t wall_ms);

#endif
