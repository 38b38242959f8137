#include "router/oidc/flow.h"

#include "base/base64.h"
#include "base/sha256.h"
#include "hub/url.h"

static void encode(const unsigned char digest[LR_SHA256_LEN], char out[ROUTER_OIDC_TEXT])
{
    struct lr_buf text;
    lr_buf_init(&text, 64);
    lr_base64url_add(&text, digest, LR_SHA256_LEN);
    lr_str_copy(out, ROUTER_OIDC_TEXT, lr_buf_str(&text));
    lr_buf_free(&text);
}

static void derive(struct lr_str cookie, const char *use, char out[ROUTER_OIDC_TEXT])
{
    unsigned char digest[LR_SHA256_LEN];
    struct lr_str part = lr_str_z(use);
    lr_hmac_sha256(cookie, &part, 1, digest);
    encode(digest, out);
}

void router_oidc_flow_make(struct lr_str cookie, struct router_oidc_flow *out)
{
    unsigned char digest[LR_SHA256_LEN];
    derive(cookie, "state", out->state);
    derive(cookie, "nonce", out->nonce);
    derive(cookie, "verifier", out->verifier);
    lr_sha256_of(lr_str_z(out->verifier), digest);
    encode(digest, out->challenge);
}

static void add(struct lr_buf *out, const char *name, struct lr_str value)
{
    if (out->len != 0 && out->data[out->len - 1] != '?')
        lr_buf_add_char(out, '&');
    lr_buf_add_z(out, name);
    lr_buf_add_char(out, '=');
    hub_url_escape(out, value, false);
}

static void begin(struct lr_buf *out, const char *endpoint)
{
    lr_buf_add_z(out, endpoint);
    if (strchr(endpoint, '?') == NULL)
        lr_buf_add_char(out, '?');
}

void router_oidc_authorize_url(const struct router_oidc_config *config,
                               const struct router_oidc_metadata *metadata,
                               const struct router_oidc_flow *flow, const char *redirect_url,
                               struct lr_buf *out)
{
    begin(out, metadata->authorization);
    add(out, "response_type", LR_STR_LIT("code"));
    add(out, "client_id", lr_str_z(config->client_id));
    add(out, "redirect_uri", lr_str_z(redirect_url));
    add(out, "scope", lr_str_z(config->scopes));
    add(out, "state", lr_str_z(flow->state));
    add(out, "nonce", lr_str_z(flow->nonce));
    add(out, "code_challenge", lr_str_z(flow->challenge));
    add(out, "code_challenge_method", LR_STR_LIT("S256"));
}

void router_oidc_token_form(const struct router_oidc_config *config,
                            const struct router_oidc_metadata *metadata,
                            const struct router_oidc_flow *flow, const char *redirect_url,
                            struct lr_str code, struct lr_buf *out)
{
    add(out, "grant_type", LR_STR_LIT("authorization_code"));
    add(out, "code", code);
    add(out, "redirect_uri", lr_str_z(redirect_url));
    add(out, "code_verifier", lr_str_z(flow->verifier));
    if (config->secret[0] != '\0' && metadata->takes_basic)
        return; /* both are in the header Authorization */
    add(out, "client_id", lr_str_z(config->client_id));
    if (config->secret[0] != '\0')
        add(out, "client_secret", lr_str_z(config->secret));
}

void router_oidc_logout_url(const struct router_oidc_config *config,
                            const struct router_oidc_metadata *metadata, const char *back_url,
                            struct lr_buf *out)
{
    begin(out, metadata->end_session);
    add(out, "client_id", lr_str_z(config->client_id));
    add(out, "post_logout_redirect_uri", lr_str_z(back_url));
}
