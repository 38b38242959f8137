#include "router/oidc/claims.h"

#include <stdio.h>

#include "net/guard.h"
#include "net/url.h"

enum { ARENA_BYTES = 16 * ROUTER_OIDC_DOCUMENT };

bool router_oidc_is_safe_url(const char *url)
{
    struct net_url parts;
    return net_url_parse(url, &parts, NULL) == LR_OK &&
           (parts.is_https || net_is_loopback_host(lr_str_z(parts.host)));
}

/* ---- the discovery document ---- */

static lr_code read_url(const struct lr_json *root, const char *name, bool is_required,
                        char out[ROUTER_OIDC_URL], struct lr_error *err)
{
    const struct lr_json *member = lr_json_get(root, name);
    struct lr_str text;
    out[0] = '\0';
    if (member == NULL && !is_required)
        return LR_OK;
    if (!lr_json_str(member, &text) || text.len >= ROUTER_OIDC_URL)
        return lr_fail(err, LR_UPSTREAM, "the provider's document has no \"%s\"", name);
    lr_str_copy(out, ROUTER_OIDC_URL, text);
    return strlen(out) == text.len && router_oidc_is_safe_url(out)
               ? LR_OK
               : lr_fail(err, LR_UPSTREAM,
                         "\"%s\" of the provider's document must be an https URL", name);
}

static bool has(const struct lr_json *list, const char *word)
{
    struct lr_str text;
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
        if (lr_json_str(&list->items[i], &text) && lr_str_eq_z(text, word))
            return true;
    return false;
}

static lr_code read_document(const struct router_oidc_config *config,
                             const struct lr_json *root, struct router_oidc_metadata *out,
                             struct lr_error *err)
{
    const struct lr_json *methods = lr_json_get(root, "token_endpoint_auth_methods_supported");
    struct lr_str issuer;
    if (!lr_json_str(lr_json_get(root, "issuer"), &issuer))
        return lr_fail(err, LR_UPSTREAM, "the provider's document has no \"issuer\"");
    if (!lr_str_eq_z(issuer, config->issuer))
        return lr_fail(err, LR_UPSTREAM,
                       "the provider calls itself \"" LR_STR_FMT
                       "\" and the setting oidc-issuer says \"%.300s\": set oidc-issuer to the "
                       "provider's own name, letter by letter",
                       LR_STR_ARG(lr_str_sub(issuer, 0, 300)), config->issuer);
    out->takes_basic = methods == NULL || has(methods, "client_secret_basic");
    lr_code code = read_url(root, "authorization_endpoint", true, out->authorization, err);
    if (code == LR_OK)
        code = read_url(root, "token_endpoint", true, out->token, err);
    if (code == LR_OK)
        code = read_url(root, "jwks_uri", true, out->keys, err);
    if (code == LR_OK)
        code = read_url(root, "userinfo_endpoint", false, out->userinfo, err);
    if (code == LR_OK)
        code = read_url(root, "end_session_endpoint", false, out->end_session, err);
    return code;
}

lr_code router_oidc_metadata_read(const struct router_oidc_config *config, struct lr_str text,
                                  struct router_oidc_metadata *out, struct lr_error *err)
{
    const struct lr_json_limits limits = {.max_depth = 16, .max_bytes = ROUTER_OIDC_DOCUMENT};
    const struct lr_json *root;
    struct lr_arena arena;
    *out = (struct router_oidc_metadata){0};
    lr_arena_init(&arena, ARENA_BYTES);
    lr_code code = lr_json_parse(&arena, text, &limits, &root, err) == LR_OK
                       ? read_document(config, root, out, err)
                       : lr_fail(err, LR_UPSTREAM, "the provider's document is no JSON");
    lr_arena_free(&arena);
    return code;
}

/* ---- claims ---- */

static lr_code claims_refuse(struct lr_error *err, const char *claim, const char *why)
{
    return lr_fail(err, LR_UNAUTHENTICATED, "the claim \"%s\" of the ID token %s", claim, why);
}

/* Seconds since 1970; some providers write fractions. */
static bool read_time(const struct lr_json *claims, const char *name, int64_t *ms)
{
    double seconds;
    if (!lr_json_double(lr_json_get(claims, name), &seconds) || seconds < 0 || seconds > 1e11)
        return false;
    *ms = (int64_t)(seconds * 1000);
    return true;
}

static bool is(const struct lr_json *claims, const char *name, const char *value)
{
    struct lr_str text;
    return lr_json_str(lr_json_get(claims, name), &text) && lr_str_eq_z(text, value);
}

static lr_code check_audience(const struct router_oidc_config *config,
                              const struct lr_json *claims, struct lr_error *err)
{
    const struct lr_json *audience = lr_json_get(claims, "aud");
    bool is_list = lr_json_is(audience, LR_JSON_ARRAY);
    if (is_list ? !has(audience, config->client_id) : !is(claims, "aud", config->client_id))
        return claims_refuse(err, "aud",
                             "is not this client: check the setting oidc-client-id");
    bool needs_party = is_list && audience->count > 1;
    if ((needs_party || lr_json_get(claims, "azp") != NULL) &&
        !is(claims, "azp", config->client_id))
        return claims_refuse(err, "azp", "is not this client");
    return LR_OK;
}

static lr_code check_times(const struct router_oidc_config *config,
                           const struct lr_json *claims, int64_t now_ms, struct lr_error *err)
{
    const char *clocks = "compare the clocks of this machine and of the provider, or raise the "
                         "setting oidc-clock-skew";
    int64_t at;
    if (!read_time(claims, "exp", &at))
        return claims_refuse(err, "exp", "is missing");
    if (at + config->skew_ms <= now_ms)
        return lr_fail(err, LR_UNAUTHENTICATED, "the ID token expired %lld s ago: %s",
                       (long long)(now_ms - at) / 1000, clocks);
    if (!read_time(claims, "iat", &at))
        return claims_refuse(err, "iat", "is missing");
    if (at > now_ms + config->skew_ms)
        return lr_fail(err, LR_UNAUTHENTICATED,
                       "the ID token was issued %lld s in the future: %s",
                       (long long)(at - now_ms) / 1000, clocks);
    if (lr_json_get(claims, "nbf") != NULL &&
        (!read_time(claims, "nbf", &at) || at > now_ms + config->skew_ms))
        return lr_fail(err, LR_UNAUTHENTICATED, "the ID token is not valid yet: %s", clocks);
    return LR_OK;
}

lr_code router_oidc_claims_check(const struct router_oidc_config *config,
                                 const struct lr_json *claims, const char *nonce,
                                 int64_t now_ms, struct lr_error *err)
{
    struct lr_str text;
    if (!is(claims, "iss", config->issuer))
        return claims_refuse(err, "iss", "is not the setting oidc-issuer");
    lr_code code = check_audience(config, claims, err);
    if (code == LR_OK)
        code = check_times(config, claims, now_ms, err);
    if (code != LR_OK)
        return code;
    if (!lr_json_str(lr_json_get(claims, "nonce"), &text) ||
        !lr_str_eq_secret(text, lr_str_z(nonce)))
        return claims_refuse(err, "nonce",
                             "is not the one of this sign-in: begin the sign-in again");
    if (!lr_json_str(lr_json_get(claims, "sub"), &text) || text.len == 0 || text.len > 255)
        return claims_refuse(err, "sub", "must have 1 to 255 letters");
    return LR_OK;
}

const struct lr_json *router_oidc_groups(const struct router_oidc_config *config,
                                         const struct lr_json *claims)
{
    const struct lr_json *found = lr_json_get(claims, config->groups_claim);
    struct lr_str rest = lr_str_z(config->groups_claim), part;
    if (found != NULL)
        return found;
    for (found = claims; found != NULL && lr_str_split(&rest, '.', &part);)
        found = lr_json_get_str(found, part);
    return found != claims ? found : NULL;
}

/* One name, or a list of names. */
static bool is_member(const struct lr_json *groups, const char *group)
{
    struct lr_str text;
    if (lr_json_str(groups, &text))
        return lr_str_eq_z(text, group);
    return has(groups, group);
}

static enum router_role find_role(const struct router_oidc_config *config,
                                  const struct lr_json *groups)
{
    static const struct {
        const char *setting;
        enum router_role role;
    } rows[] = {{"oidc-admin-group", ROUTER_ADMIN},
                {"oidc-viewer-group", ROUTER_VIEWER},
                {"oidc-api-group", ROUTER_API}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t k = 0; k < lr_settings_list_count(config->settings, rows[i].setting); k++)
            if (is_member(groups, lr_settings_list_item(config->settings, rows[i].setting, k)))
                return rows[i].role;
    return config->default_role;
}

/* Control characters would reach the log. */
static bool claims_take_name(const struct lr_json *claims, const char *claim, char out[64])
{
    struct lr_str text;
    if (!lr_json_str(lr_json_get(claims, claim), &text) || text.len == 0)
        return false;
    lr_str_copy(out, 64, text);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return out[0] != '\0';
}

/* An address that the provider has not checked may be anybody's. */
static bool take_any_name(const struct lr_json *claims, char out[64])
{
    bool is_verified = true;
    (void)lr_json_bool(lr_json_get(claims, "email_verified"), &is_verified);
    return (is_verified && claims_take_name(claims, "email", out)) ||
           claims_take_name(claims, "preferred_username", out) ||
           claims_take_name(claims, "name", out);
}

lr_code router_oidc_person_read(const struct router_oidc_config *config,
                                const struct lr_json *claims, const struct lr_json *userinfo,
                                struct router_oidc_person *out, struct lr_error *err)
{
    const struct lr_json *groups = router_oidc_groups(config, claims);
    struct lr_str subject, other;
    *out = (struct router_oidc_person){0};
    if (!lr_json_str(lr_json_get(claims, "sub"), &subject))
        return claims_refuse(err, "sub", "is missing");
    if (userinfo != NULL &&
        (!lr_json_str(lr_json_get(userinfo, "sub"), &other) || !lr_str_eq(subject, other)))
        return lr_fail(err, LR_UNAUTHENTICATED,
                       "the userinfo endpoint answered about another person");
    if (groups == NULL)
        groups = router_oidc_groups(config, userinfo);
    (void)snprintf(out->subject, sizeof(out->subject), "%.600s " LR_STR_FMT, config->issuer,
                   LR_STR_ARG(lr_str_sub(subject, 0, 255)));
    if (!take_any_name(claims, out->name) && !take_any_name(userinfo, out->name) &&
        !claims_take_name(claims, "sub", out->name))
        return claims_refuse(err, "sub", "must be a name");
    out->role = find_role(config, groups);
    if (out->role != ROUTER_PUBLIC)
        return LR_OK;
    return lr_fail(err, LR_PERMISSION_DENIED,
                   "%s is in no group that may sign in: %s; an operator names groups with the "
                   "settings oidc-admin-group, oidc-viewer-group and oidc-api-group",
                   out->name,
                   groups == NULL ? "the provider sent no groups (setting oidc-groups-claim, "
                                    "and the scopes in oidc-scopes)"
                                  : "none of the groups that the provider sent has a role");
}
