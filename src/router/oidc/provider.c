#include "router/oidc/provider.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "hub/url.h"
#include "net/jwt.h"
#include "router/store/clock.h"

enum {
    CALL_MS = 10000,
    KEEP_MS = 3600000,      /* document and keys */
    FETCHES_PER_MINUTE = 6, /* of keys that a token names and nobody knows */
    ARENA_BYTES = 4 << 20,
};

void router_oidc_provider_free(struct router_oidc_provider *p)
{
    net_jwks_free(p->keys);
    p->keys = NULL;
    hub_outbound_close(&p->http);
}

/* ---- calls ---- */

static lr_code call(struct router_oidc_provider *p, struct hub_outbound_call *call,
                    const char *what, struct hub_outbound_reply *reply, struct lr_error *err)
{
    call->timeout_ms = CALL_MS;
    call->cancel = p->cancel;
    if (call->max_bytes == 0)
        call->max_bytes = ROUTER_OIDC_DOCUMENT;
    lr_code code = p->http.easy == NULL ? hub_outbound_open(&p->http, err) : LR_OK;
    if (code == LR_OK)
        code = hub_outbound_send(&p->http, call, reply, err);
    return code == LR_OK ? LR_OK : lr_fail_prefix(err, "%s of the OpenID provider", what);
}

static lr_code provider_get(struct router_oidc_provider *p, const char *url, const char *what,
                            size_t max_bytes, struct hub_outbound_reply *reply,
                            struct lr_error *err)
{
    static const char *const headers[] = {"Accept: application/json"};
    struct hub_outbound_call wanted = {
        .url = url, .headers = headers, .header_count = 1, .max_bytes = max_bytes};
    lr_code code = call(p, &wanted, what, reply, err);
    if (code == LR_OK && reply->status != 200)
        code = lr_fail(err, LR_UPSTREAM, "the OpenID provider answered %d for %s (%.300s)",
                       reply->status, what, url);
    return code;
}

/* ---- document and keys ---- */

static lr_code fetch_keys(struct router_oidc_provider *p, struct lr_error *err)
{
    struct hub_outbound_reply reply = {0};
    struct net_jwks *keys = NULL;
    lr_code code = provider_get(p, p->metadata.keys, "the keys", NET_JWKS_BYTES, &reply, err);
    if (code == LR_OK && net_jwks_parse(lr_buf_str(&reply.body), &keys, err) != LR_OK)
        code =
            lr_fail_prefix(err, "the keys of the OpenID provider (%.300s)", p->metadata.keys);
    hub_outbound_reply_free(&reply);
    if (code != LR_OK)
        return code;
    net_jwks_free(p->keys);
    p->keys = keys;
    lr_log_info(NULL, "oidc.keys count=%zu", net_jwks_count(keys));
    return LR_OK;
}

static lr_code fetch_document(struct router_oidc_provider *p, struct lr_error *err)
{
    struct hub_outbound_reply reply = {0};
    struct router_oidc_metadata metadata;
    char url[ROUTER_OIDC_URL];
    struct lr_str issuer = lr_str_z(p->config->issuer);
    if (lr_str_ends(issuer, "/"))
        issuer.len--;
    (void)snprintf(url, sizeof(url), LR_STR_FMT "/.well-known/openid-configuration",
                   LR_STR_ARG(issuer));
    lr_code code = provider_get(p, url, "the discovery document", 0, &reply, err);
    if (code == LR_OK)
        code = router_oidc_metadata_read(p->config, lr_buf_str(&reply.body), &metadata, err);
    hub_outbound_reply_free(&reply);
    if (code == LR_OK)
        p->metadata = metadata;
    return code;
}

lr_code router_oidc_discover(struct router_oidc_provider *p, struct lr_error *err)
{
    uint64_t now = lr_clock_ms(NULL);
    if (p->keys != NULL && lr_elapsed(p->fetched_ms, now) < KEEP_MS)
        return LR_OK;
    lr_code code = fetch_document(p, err);
    if (code == LR_OK)
        code = fetch_keys(p, err);
    if (code == LR_OK)
        p->fetched_ms = now;
    else
        lr_log_warn(LR_LOG_OF(err), "oidc.unreachable reason=%s", err->text);
    return code != LR_OK && p->keys != NULL ? LR_OK : code; /* with what was known before */
}

/* ---- a code becomes a person ---- */

static lr_code post_code(struct router_oidc_provider *p, const struct router_oidc_flow *flow,
                         const char *redirect_url, const char *code_text,
                         struct hub_outbound_reply *reply, struct lr_error *err)
{
    static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded",
                                          "Accept: application/json"};
    struct lr_buf form, user, password;
    lr_buf_init(&form, 16 << 10);
    lr_buf_init(&user, 4 << 10);
    lr_buf_init(&password, 4 << 10);
    router_oidc_token_form(p->config, &p->metadata, flow, redirect_url, lr_str_z(code_text),
                           &form);
    hub_url_escape(&user, lr_str_z(p->config->client_id), false);
    hub_url_escape(&password, lr_str_z(p->config->secret), false);
    bool is_basic = p->config->secret[0] != '\0' && p->metadata.takes_basic;
    struct hub_outbound_call wanted = {
        .url = p->metadata.token,
        .headers = headers,
        .header_count = 2,
        .body = lr_buf_str(&form),
        .user = is_basic ? lr_buf_z(&user) : NULL,
        .password = is_basic ? lr_buf_z(&password) : NULL,
    };
    lr_code code = call(p, &wanted, "the token endpoint", reply, err);
    lr_buf_free(&form);
    lr_buf_free(&user);
    lr_buf_free(&password);
    return code;
}

/* {"error":"invalid_client","error_description":"..."} */
static lr_code explain(struct lr_arena *arena, const struct hub_outbound_reply *reply,
                       struct lr_error *err)
{
    const struct lr_json *root = NULL;
    struct lr_str word = LR_STR_LIT("no reason"), text = {0};
    if (lr_json_parse(arena, lr_buf_str(&reply->body), NULL, &root, NULL) == LR_OK) {
        (void)lr_json_str(lr_json_get(root, "error"), &word);
        (void)lr_json_str(lr_json_get(root, "error_description"), &text);
    }
    bool is_client = lr_str_eq_z(word, "invalid_client");
    return lr_fail(err, is_client ? LR_UPSTREAM : LR_UNAUTHENTICATED,
                   "the OpenID provider refused the sign-in (%d, " LR_STR_FMT ") " LR_STR_FMT
                   "%s",
                   reply->status, LR_STR_ARG(lr_str_sub(word, 0, 60)),
                   LR_STR_ARG(lr_str_sub(text, 0, 200)),
                   is_client ? "; check oidc-client-id and oidc-client-secret-file"
                             : "; begin the sign-in again");
}

/* Keys that were changed since they were fetched are fetched again. */
static lr_code verify(struct router_oidc_provider *p, const struct net_jwt *token,
                      struct lr_error *err)
{
    lr_code code = net_jwks_verify(p->keys, token->algorithm, token->key_id, token->signed_text,
                                   token->signature, err);
    uint64_t now = lr_clock_ms(NULL);
    if (code == LR_OK || code == LR_UNSUPPORTED ||
        lr_bucket_refill(&p->fetches, FETCHES_PER_MINUTE, now) < 1)
        return code;
    p->fetches.level -= 1;
    code = fetch_keys(p, err);
    return code == LR_OK ? net_jwks_verify(p->keys, token->algorithm, token->key_id,
                                           token->signed_text, token->signature, err)
                         : code;
}

static lr_code read_userinfo(struct router_oidc_provider *p, struct lr_arena *arena,
                             struct lr_str access_token, struct hub_outbound_reply *reply,
                             const struct lr_json **out, struct lr_error *err)
{
    struct lr_buf bearer;
    lr_buf_init(&bearer, 64 << 10);
    lr_buf_addf(&bearer, "Authorization: Bearer " LR_STR_FMT, LR_STR_ARG(access_token));
    const char *const headers[] = {"Accept: application/json", lr_buf_z(&bearer)};
    struct hub_outbound_call wanted = {
        .url = p->metadata.userinfo, .headers = headers, .header_count = 2};
    lr_code code = call(p, &wanted, "the userinfo endpoint", reply, err);
    lr_buf_free(&bearer);
    if (code == LR_OK && reply->status != 200)
        code = lr_fail(err, LR_UPSTREAM, "the OpenID provider answered %d for userinfo",
                       reply->status);
    if (code == LR_OK &&
        lr_json_parse(arena, lr_buf_str(&reply->body), NULL, out, err) != LR_OK)
        code = lr_fail(err, LR_UPSTREAM,
                       "the userinfo endpoint of the OpenID provider must answer in JSON");
    return code;
}

static lr_code read_tokens(struct router_oidc_provider *p, struct lr_arena *arena,
                           const struct hub_outbound_reply *reply, const char *nonce,
                           struct router_oidc_person *out, struct lr_error *err)
{
    const struct lr_json *root, *userinfo = NULL;
    struct hub_outbound_reply about = {0};
    struct lr_str id_token, access_token;
    struct net_jwt token;
    if (reply->status != 200)
        return explain(arena, reply, err);
    if (lr_json_parse(arena, lr_buf_str(&reply->body), NULL, &root, err) != LR_OK ||
        !lr_json_str(lr_json_get(root, "id_token"), &id_token))
        return lr_fail(err, LR_UPSTREAM,
                       "the answer of the OpenID provider has no ID token: the setting "
                       "oidc-scopes must contain openid");
    lr_code code = net_jwt_parse(arena, id_token, &token, err);
    if (code == LR_OK)
        code = verify(p, &token, err);
    if (code != LR_OK)
        return lr_fail_prefix(err, "the ID token of the OpenID provider");
    code = router_oidc_claims_check(p->config, token.claims, nonce,
                                    lr_clock_wall_ms(&router_clock), err);
    if (code == LR_OK && router_oidc_groups(p->config, token.claims) == NULL &&
        p->metadata.userinfo[0] != '\0' &&
        lr_json_str(lr_json_get(root, "access_token"), &access_token))
        code = read_userinfo(p, arena, access_token, &about, &userinfo, err);
    if (code == LR_OK)
        code = router_oidc_person_read(p->config, token.claims, userinfo, out, err);
    hub_outbound_reply_free(&about);
    return code;
}

lr_code router_oidc_exchange(struct router_oidc_provider *p,
                             const struct router_oidc_flow *flow, const char *redirect_url,
                             const char *code_text, struct router_oidc_person *out,
                             struct lr_error *err)
{
    struct hub_outbound_reply reply = {0};
    struct lr_arena arena;
    lr_code code = router_oidc_discover(p, err);
    if (code != LR_OK)
        return code;
    lr_arena_init(&arena, ARENA_BYTES);
    code = post_code(p, flow, redirect_url, code_text, &reply, err);
    if (code == LR_OK)
        code = read_tokens(p, &arena, &reply, flow->nonce, out, err);
    hub_outbound_reply_free(&reply);
    lr_arena_free(&arena);
    return code;
}
