/* router/oidc/provider.h - the requests to an OpenID provider: discovery, keys, tokens,
 * userinfo.
 *
 * Document and keys are kept for an hour.  Where a token names a key that is not known, the
 * keys are fetched again, a few times a minute at most: so a provider may change its keys at
 * any time, and tokens with made-up names of keys cost it little.  Every call waits for the
 * provider. Thread: one.
 */
#ifndef ROUTER_OIDC_PROVIDER_H
#define ROUTER_OIDC_PROVIDER_H

#include "hub/outbound.h"
#include "net/jwk.h"
#include "router/oidc/flow.h"

struct router_oidc_provider {
    const struct router_oidc_config *config; /* borrowed */
    const atomic_bool *cancel;               /* borrowed */
    struct hub_outbound http;
    struct router_oidc_metadata metadata;
    struct net_jwks *keys;    /* owned; NULL: not fetched yet */
    uint64_t fetched_ms;      /* the document, monotonic; 0: never */
    struct lr_bucket fetches; /* of keys, beyond those with the document */
};

void router_oidc_provider_free(struct router_oidc_provider *p);

/* Fetches document and keys unless they are young enough. */
LR_MUST_USE lr_code router_oidc_discover(struct router_oidc_provider *p, struct lr_error *err);

/* Changes a code into a person. */
LR_MUST_USE lr_code router_oidc_exchange(struct router_oidc_provider *p,
                                         const struct router_oidc_flow *flow,
                                         const char *redirect_url, const char *code,
                                         struct router_oidc_person *out, struct lr_error *err);

#endif
