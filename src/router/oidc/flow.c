#include "router/oidc/flow.h"

#include <stdio.h>

#include "base/base64.h"
#include "base/random.h"
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

static void sign(struct lr_str key, struct lr_str text, char out[ROUTER_OIDC_TEXT])
{
    unsigned char digest[LR_SHA256_LEN];
    lr_hmac_sha256(key, &text, 1, digest);
    encode(digest, out);
}

void router_oidc_cookie_make(struct lr_str key, int64_t now_s, char out[ROUTER_OIDC_COOKIE])
{
    char random[ROUTER_OIDC_TEXT], text[ROUTER_OIDC_COOKIE], signature[ROUTER_OIDC_TEXT];
    lr_random_base62(random, ROUTER_OIDC_TEXT - 1);
    (void)snprintf(text, sizeof(text), "%s.%lld", random, (long long)now_s);
    sign(key, lr_str_z(text), signature);
    (void)snprintf(out, ROUTER_OIDC_COOKIE, "%s.%lld.%s", random, (long long)now_s, signature);
}

lr_code router_oidc_cookie_check(struct lr_str key, struct lr_str cookie, int64_t now_s,
                                 int64_t skew_s, struct lr_error *err)
{
    struct lr_str random = {0}, time = {0}, rest = cookie;
    char signature[ROUTER_OIDC_TEXT];
    int64_t made_s = 0;
    bool has_form = lr_str_split(&rest, '.', &random) && lr_str_split(&rest, '.', &time) &&
                    rest.len == ROUTER_OIDC_TEXT - 1 && lr_str_i64(time, &made_s);
    if (has_form)
        sign(key, lr_str(cookie.ptr, random.len + 1 + time.len), signature);
    if (!has_form || !lr_str_eq_secret(rest, lr_str_z(signature)))
        return lr_fail(err, LR_UNAUTHENTICATED,
                       "this browser has begun no sign-in here in the last %d minutes: begin "
                       "again, and let the browser keep cookies of this site",
                       ROUTER_OIDC_LIFE_S / 60);
    int64_t age_s = now_s - made_s;
    if (age_s < -skew_s || age_s > ROUTER_OIDC_LIFE_S + skew_s)
        return lr_fail(err, LR_UNAUTHENTICATED,
                       "the sign-in began %lld s ago by this router's clock, and takes from 0 "
                       "to %d s (oidc-clock-skew %lld s): begin again",
                       (long long)age_s, ROUTER_OIDC_LIFE_S, (long long)skew_s);
    return LR_OK;
}

void router_oidc_flow_make(struct lr_str cookie, struct router_oidc_flow *out)
{
    unsigned char digest[LR_SHA256_LEN];
    sign(cookie, LR_STR_LIT("state"), out->state);
    sign(cookie, LR_STR_LIT("nonce"), out->nonce);
    sign(cookie, LR_STR_LIT("verifier"), out->verifier);
    lr_sha256_of(lr_str_z(out->verifier), digest);
    encode(digest, out->challenge);
}

static void flow_add(struct lr_buf *out, const char *name, struct lr_str value)
{
    if (out->len != 0 && out->data[out->len - 1] != '?')
        lr_buf_add_char(out, '&');
    lr_buf_add_z(out, name);
    lr_buf_add_char(out, '=');
    hub_url_escape(out, value, false);
}

static void flow_begin(struct lr_buf *out, const char *endpoint)
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
    flow_begin(out, metadata->authorization);
    flow_add(out, "response_type", LR_STR_LIT("code"));
    flow_add(out, "client_id", lr_str_z(config->client_id));
    flow_add(out, "redirect_uri", lr_str_z(redirect_url));
    flow_add(out, "scope", lr_str_z(config->scopes));
    flow_add(out, "state", lr_str_z(flow->state));
    flow_add(out, "nonce", lr_str_z(flow->nonce));
    flow_add(out, "code_challenge", lr_str_z(flow->challenge));
    flow_add(out, "code_challenge_method", LR_STR_LIT("S256"));
}

void router_oidc_token_form(const struct router_oidc_config *config,
                            const struct router_oidc_metadata *metadata,
                            const struct router_oidc_flow *flow, const char *redirect_url,
                            struct lr_str code, struct lr_buf *out)
{
    flow_add(out, "grant_type", LR_STR_LIT("authorization_code"));
    flow_add(out, "code", code);
    flow_add(out, "redirect_uri", lr_str_z(redirect_url));
    flow_add(out, "code_verifier", lr_str_z(flow->verifier));
    if (config->secret[0] != '\0' && metadata->takes_basic)
        return; /* both are in the header Authorization */
    flow_add(out, "client_id", lr_str_z(config->client_id));
    if (config->secret[0] != '\0')
        flow_add(out, "client_secret", lr_str_z(config->secret));
}

void router_oidc_logout_url(const struct router_oidc_config *config,
                            const struct router_oidc_metadata *metadata, const char *back_url,
                            struct lr_buf *out)
{
    flow_begin(out, metadata->end_session);
    flow_add(out, "client_id", lr_str_z(config->client_id));
    flow_add(out, "post_logout_redirect_uri", lr_str_z(back_url));
}
