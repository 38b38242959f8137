/* router/auth.c - who asks, and whether he may.
 *
 * On loopback a request without a key is the operator's own, guarded against web pages;
 * `--require-key` and every other address ask for a key.  A key that is sent is always
 * checked, also where none is needed: a wrong one is a mistake, not a guest.
 */
#include "net/guard.h"
#include "router/api.h"

bool router_may(enum router_role has, enum router_role wants)
{
    return wants == ROUTER_PUBLIC || has == wants || has == ROUTER_ADMIN;
}

static bool take_bearer(const struct net_request *req, struct lr_str *out)
{
    struct lr_str value;
    if (!net_request_header(req, "Authorization", &value) || value.len < 7 ||
        !lr_str_eq_nocase(lr_str_sub(value, 0, 7), LR_STR_LIT("Bearer ")))
        return false;
    *out = lr_str_trim(lr_str_sub(value, 7, value.len));
    return out->len != 0;
}

static lr_code check_key(struct router *r, struct lr_str text, enum router_role wants,
                         struct router_caller *out, struct lr_error *err)
{
    router_lock(r);
    if (wants == ROUTER_NODE)
        out->node = router_nodes_by_secret(&r->nodes, text);
    lr_code code = LR_OK;
    if (out->node != NULL) {
        out->role = ROUTER_NODE;
    } else {
        code = router_keys_check(&r->keys, text, lr_clock_wall_ms(NULL), &out->key, err);
        if (code == LR_OK)
            out->role = out->key->role;
    }
    router_unlock(r);
    return code;
}

lr_code router_authenticate(struct router *r, const struct net_request *req,
                            const struct router_route *route, struct router_caller *out,
                            struct lr_error *err)
{
    struct lr_str text;
    *out = (struct router_caller){.role = ROUTER_PUBLIC};
    /* A page in a browser holds no key: where one is asked for, it needs no guard, and a
     * server in front may say its own name in Host. */
    if (r->is_loopback && !r->needs_key) {
        lr_code code = net_guard_request(req, err);
        if (code != LR_OK)
            return code;
    }
    if (route->role == ROUTER_PUBLIC)
        return LR_OK;
    if (!take_bearer(req, &text)) {
        if (r->needs_key)
            return lr_fail(err, LR_UNAUTHENTICATED,
                           "send a key: \"Authorization: Bearer lr-...\" (llm-router keys "
                           "create makes one)");
        out->role = ROUTER_ADMIN;
        return LR_OK;
    }
    lr_code code = check_key(r, text, route->role, out, err);
    if (code != LR_OK)
        return code;
    if (!router_may(out->role, route->role))
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "this needs a key of role %s; %s is one of role %s",
                       router_role_name(route->role), router_caller_name(out),
                       router_role_name(out->role));
    return LR_OK;
}
