/* router/observe/prices.h - what tokens of a model cost, for the cost columns of usage.
 *
 * From the setting `price`: MODEL=PROMPT/COMPLETION or MODEL=PROMPT/COMPLETION/CACHED, for a
 * million tokens each.  Thread: any, after the start.
 */
#ifndef ROUTER_OBSERVE_PRICES_H
#define ROUTER_OBSERVE_PRICES_H

#include "base/fail.h"
#include "base/settings.h"
#include "base/str.h"

/* A sum of tokens of one model. */
struct router_tokens {
    int64_t requests, errors, prompt, completion, cached;
};

/* INVALID_ARGUMENT names the value that is no price. */
LR_MUST_USE lr_code router_prices_check(const struct lr_settings *settings,
                                        struct lr_error *err);
bool router_prices_are_set(const struct lr_settings *settings);
/* False: the model has no price. */
bool router_price(const struct lr_settings *settings, struct lr_str model,
                  const struct router_tokens *tokens, double *cost);

#endif
