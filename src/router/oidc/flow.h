/* router/oidc/flow.h - the texts of a sign-in: secrets, URLs, forms.
 *
 * A sign-in begins with a cookie of the browser: 256 random bits, the time, and a signature
 * with a key that all routers of the database have, so that nobody else can begin a sign-in.
 * State, nonce and PKCE verifier are made from the cookie by HMAC, so no router keeps anything
 * about a sign-in under way, and another router may finish it.
 * No network, no clock, no lock.  Thread: any.
 */
#ifndef ROUTER_OIDC_FLOW_H
#define ROUTER_OIDC_FLOW_H

#include "router/oidc/claims.h"

enum {
    ROUTER_OIDC_TEXT = 43 + 1, /* SHA-256 in base64url, terminated */
    ROUTER_OIDC_LIFE_S = 600,  /* a person has ten minutes at the provider */
    ROUTER_OIDC_COOKIE = 43 + 1 + 20 + 1 + ROUTER_OIDC_TEXT,
};

void router_oidc_cookie_make(struct lr_str key, int64_t now_s, char out[ROUTER_OIDC_COOKIE]);
/* UNAUTHENTICATED: not signed with this key, or older than ROUTER_OIDC_LIFE_S.  The clocks of
 * the router that signed and of this one may differ by skew_s. */
LR_MUST_USE lr_code router_oidc_cookie_check(struct lr_str key, struct lr_str cookie,
                                             int64_t now_s, int64_t skew_s,
                                             struct lr_error *err);

struct router_oidc_flow {
    char state[ROUTER_OIDC_TEXT], nonce[ROUTER_OIDC_TEXT], verifier[ROUTER_OIDC_TEXT];
    char challenge[ROUTER_OIDC_TEXT];
};
void router_oidc_flow_make(struct lr_str cookie, struct router_oidc_flow *out);

/* Where the browser goes to sign in.  out->failed: the URL is too long. */
void router_oidc_authorize_url(const struct router_oidc_config *config,
                               const struct router_oidc_metadata *metadata,
                               const struct router_oidc_flow *flow, const char *redirect_url,
                               struct lr_buf *out);
/* The form that changes a code into tokens. */
void router_oidc_token_form(const struct router_oidc_config *config,
                            const struct router_oidc_metadata *metadata,
                            const struct router_oidc_flow *flow, const char *redirect_url,
                            struct lr_str code, struct lr_buf *out);
/* Where the browser goes to sign out; back_url: where the provider sends the browser then. */
void router_oidc_logout_url(const struct router_oidc_config *config,
                            const struct router_oidc_metadata *metadata, const char *back_url,
                            struct lr_buf *out);

#endif
