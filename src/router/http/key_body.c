/* router/http/key_body.c - what a request may say of a key: its name, its limits, its end. */
#include <stdio.h>

#include "base/json.h"
#include "router/fleet/registry.h"
#include "router/store/keys.h"

static lr_code read_name(const struct lr_json *v, struct router_key *key, struct lr_error *err)
{
    struct lr_str name;
    bool is_text = lr_json_str(v, &name) && name.len < sizeof(key->name);
    for (size_t i = 0; is_text && i < name.len; i++)
        is_text = (unsigned char)name.ptr[i] >= ' ' && name.ptr[i] != 0x7f; /* terminals */
    if (!is_text)
        return lr_fail(
            err, LR_INVALID_ARGUMENT,
            "\"name\" must be a string of up to %zu bytes without control characters",
            sizeof(key->name) - 1);
    (void)snprintf(key->name, sizeof(key->name), LR_STR_FMT, LR_STR_ARG(name));
    return LR_OK;
}

static lr_code read_limit(const struct lr_json *v, const char *name, const char *zero,
                          uint64_t *out, struct lr_error *err)
{
    if (!lr_json_u64(v, out) || *out > 1000000000)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"%s\" must be a whole number from 0 (%s) to 1000000000", name, zero);
    return LR_OK;
}

/* Models that are not registered yet may be named, too. */
static lr_code read_models(const struct lr_json *v, struct router_key *key,
                           struct lr_error *err)
{
    size_t len = 0;
    if (v->type != LR_JSON_ARRAY)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"models\" must be an array of model ids; empty: every model");
    key->models[0] = '\0';
    for (uint32_t i = 0; i < v->count; i++) {
        struct lr_str id;
        if (!lr_json_str(&v->items[i], &id))
            return lr_fail(err, LR_INVALID_ARGUMENT, "\"models\" must hold strings");
        lr_code code = router_check_model_id(id, err);
        if (code != LR_OK)
            return lr_fail_prefix(err, "\"models\"");
        if (len + id.len + 2 > sizeof(key->models))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "\"models\" may have %zu bytes of ids in all: make several keys",
                           sizeof(key->models) - 1);
        len += (size_t)snprintf(key->models + len, sizeof(key->models) - len, "%s" LR_STR_FMT,
                                i != 0 ? " " : "", LR_STR_ARG(id));
    }
    return LR_OK;
}

static lr_code read_role(const struct lr_json *v, enum router_role *role, struct lr_error *err)
{
    struct lr_str name;
    if (role == NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"role\" of a key cannot be changed: make a new key");
    if (!lr_json_str(v, &name) || !router_role_find(name, role))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"role\" must be admin, api, node or metrics");
    return LR_OK;
}

static lr_code read_member(struct lr_str name, const struct lr_json *v, enum router_role *role,
                           int64_t now_ms, struct router_key_change *out, struct lr_error *err)
{
    struct router_key *to = &out->to;
    uint64_t seconds;
    if (lr_str_eq_z(name, "role"))
        return read_role(v, role, err);
    if (lr_str_eq_z(name, "name")) {
        out->given |= ROUTER_KEY_NAME;
        return read_name(v, to, err);
    }
    if (lr_str_eq_z(name, "models")) {
        out->given |= ROUTER_KEY_MAY_USE;
        return read_models(v, to, err);
    }
    if (lr_str_eq_z(name, "requests_per_minute")) {
        out->given |= ROUTER_KEY_REQUESTS;
        return read_limit(v, "requests_per_minute", "no limit", &to->requests_per_minute, err);
    }
    if (lr_str_eq_z(name, "tokens_per_minute")) {
        out->given |= ROUTER_KEY_TOKENS;
        return read_limit(v, "tokens_per_minute", "no limit", &to->tokens_per_minute, err);
    }
    if (lr_str_eq_z(name, "expires_in")) {
        out->given |= ROUTER_KEY_EXPIRY;
        lr_code code = read_limit(v, "expires_in", "never", &seconds, err);
        if (code == LR_OK && seconds != 0)
            to->expires_ms = now_ms + (int64_t)seconds * 1000;
        return code;
    }
    if (lr_str_eq_z(name, "uses") && role != NULL) {
        out->given |= ROUTER_KEY_USES;
        return read_limit(v, "uses", "any number of nodes", &to->uses, err);
    }
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "\"" LR_STR_FMT "\" is not known here: name, models, expires_in, "
                   "requests_per_minute, tokens_per_minute%s are",
                   LR_STR_ARG(lr_str_sub(name, 0, 80)), role != NULL ? ", role, uses" : "");
}

lr_code router_key_read(const struct lr_json *body, enum router_role *role, int64_t now_ms,
                        struct router_key_change *out, struct lr_error *err)
{
    *out = (struct router_key_change){0};
    for (uint32_t i = 0; i < body->count; i++) {
        lr_code code =
            read_member(body->members[i].key, &body->members[i].value, role, now_ms, out, err);
        if (code != LR_OK)
            return code;
    }
    if (role != NULL && *role != ROUTER_NODE && (out->given & ROUTER_KEY_USES) != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"uses\" is for keys of role node");
    if (role == NULL && out->given == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "say what to change: name, models, expires_in, requests_per_minute or "
                       "tokens_per_minute");
    return LR_OK;
}
