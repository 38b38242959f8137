/* router/oidc/flow.h - the texts of a sign-in: secrets, URLs, forms.
 *
 * A sign-in begins with 256 random bits in a cookie of the browser.  State, nonce and PKCE
 * verifier are made from these bits by HMAC, so no router keeps anything about a sign-in under
 * way, and another router may finish it.  Pure.  Thread: any.
 */
#ifndef ROUTER_OIDC_FLOW_H
#define ROUTER_OIDC_FLOW_H

#include "router/oidc/claims.h"

enum { ROUTER_OIDC_TEXT = 43 + 1 }; /* SHA-256 in base64url, terminated */

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
