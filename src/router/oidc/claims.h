/* router/oidc/claims.h - what an OpenID provider says: about itself (the discovery document)
 * and about a person (the claims of an ID token).
 *
 * Pure: no network, no clock, no lock.  Every text comes from outside; sizes are bounded.
 * Thread: any.
 */
#ifndef ROUTER_OIDC_CLAIMS_H
#define ROUTER_OIDC_CLAIMS_H

#include "base/json.h"
#include "base/settings.h"
#include "router/store/keys.h"

enum {
    ROUTER_OIDC_URL = 2048,
    ROUTER_OIDC_DOCUMENT = 256 << 10, /* bytes of an answer of the provider */
    ROUTER_OIDC_SUBJECT = 1024,       /* issuer and subject */
};

/* The settings; texts are borrowed from them. */
struct router_oidc_config {
    const struct lr_settings *settings; /* for the lists of groups; NULL: sign-in is off */
    const char *issuer, *client_id, *scopes, *groups_claim, *title;
    const char *redirect_url; /* NULL: derived from each request */
    char secret[512];         /* "": a public client */
    int64_t skew_ms;
    enum router_role default_role; /* PUBLIC: a person without a known group may not sign in */
};

/* What is used of the discovery document.  "": the provider does not offer it. */
struct router_oidc_metadata {
    char authorization[ROUTER_OIDC_URL], token[ROUTER_OIDC_URL], keys[ROUTER_OIDC_URL];
    char userinfo[ROUTER_OIDC_URL], end_session[ROUTER_OIDC_URL];
    bool takes_basic; /* the client's secret in the header Authorization; else in the body */
};

/* https, or http to this machine. */
bool router_oidc_is_safe_url(const char *url);

/* UPSTREAM: the document is broken, of another issuer, or lacks an endpoint. */
LR_MUST_USE lr_code router_oidc_metadata_read(const struct router_oidc_config *config,
                                              struct lr_str text,
                                              struct router_oidc_metadata *out,
                                              struct lr_error *err);

/* A person who signed in. */
struct router_oidc_person {
    char subject[ROUTER_OIDC_SUBJECT]; /* unique: the issuer and the provider's name */
    char name[64];                     /* for people */
    enum router_role role;
};

/* Issuer, audience, times and nonce of an ID token whose signature was checked already.
 * UNAUTHENTICATED names the claim. */
LR_MUST_USE lr_code router_oidc_claims_check(const struct router_oidc_config *config,
                                             const struct lr_json *claims, const char *nonce,
                                             int64_t now_ms, struct lr_error *err);
/* The claim with the groups; its name may be a path with dots (realm_access.roles).  NULL: the
 * claims have none. */
const struct lr_json *router_oidc_groups(const struct router_oidc_config *config,
                                         const struct lr_json *claims);
/* userinfo: claims of the userinfo endpoint about the same person; NULL: none.
 * PERMISSION_DENIED: no group of the person has a role. */
LR_MUST_USE lr_code router_oidc_person_read(const struct router_oidc_config *config,
                                            const struct lr_json *claims,
                                            const struct lr_json *userinfo,
                                            struct router_oidc_person *out,
                                            struct lr_error *err);

#endif
