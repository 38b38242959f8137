/* router/http/auth.c - the caller of a request, and whether it may.
 *
 * On loopback a request without a key is the operator's own, guarded against web pages;
 * `--require-key` and every other address ask for a key.  A key that is sent is always
 * checked, also where none is needed: an expired or revoked one is refused.  Only a key that
 * was never issued counts as none there, because most clients do not start without a key and
 * people make one up.  A browser that signed in sends a cookie instead; since it sends that
 * for any page that asks, a request that changes something must also repeat the session's
 * token in a header, which only our own pages can read.
 */
#include <stdio.h>

#include "base/errors.h"
#include "base/log.h"
#include "net/guard.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "router/store/clock.h"

/* A key that was issued once is a client's mistake and no guess: it counts as a wrong key once
 * in this time. */
enum { REFUSED_MS = 60000 };

static bool is_safe(struct lr_str method)
{
    return lr_str_eq_z(method, "GET") || lr_str_eq_z(method, "HEAD");
}

/* A viewer reads what an admin reads, and may sign out. */
static bool may(const struct net_request *req, const struct router_route *route,
                enum router_role has)
{
    enum router_role wants = route->role;
    if (wants == ROUTER_PUBLIC || has == wants || has == ROUTER_ADMIN)
        return true;
    return has == ROUTER_VIEWER && wants != ROUTER_NODE &&
           (is_safe(net_request_method(req)) || route->fn == router_api_sign_out);
}

/* "Authorization: Bearer KEY", or "x-api-key: KEY" as clients of Anthropic's API send it. */
static bool take_key(const struct net_request *req, struct lr_str *out)
{
    struct lr_str value;
    if (net_request_header(req, "Authorization", &value) && value.len >= 7 &&
        lr_str_eq_nocase(lr_str_sub(value, 0, 7), LR_STR_LIT("Bearer ")))
        *out = lr_str_trim(lr_str_sub(value, 7, value.len));
    else if (net_request_header(req, "x-api-key", &value))
        *out = lr_str_trim(value);
    else
        return false;
    return out->len != 0;
}

/* The caller is the holder of this key.  Lock held. */
static void become(struct router_caller *caller, struct router_key *key)
{
    caller->key = key;
    caller->role = key->role;
    caller->request_bytes = key->request_bytes;
    LR_COPY(caller->name, lr_str_z(key->name));
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
        LR_COPY(out->name, lr_str_z(out->node->name));
    } else {
        code =
            router_keys_check(&r->keys, text, lr_clock_wall_ms(&router_clock), &out->key, err);
        if (code == LR_OK)
            become(out, out->key);
    }
    router_unlock(r);
    return code;
}

struct lr_str router_cookie_name(const struct router *r, char out[32])
{
    if (r->sessions.fleet[0] != '\0')
        (void)snprintf(out, 32, "llm-router-%s", r->sessions.fleet);
    else
        (void)snprintf(out, 32, "llm-router-%u", r->address.port);
    return lr_str_z(out);
}

static bool find_cookie(const struct router *r, const struct net_request *req,
                        struct lr_str *out)
{
    char name[32];
    struct lr_str header;
    return net_request_header(req, "Cookie", &header) &&
           router_cookie_find(header, router_cookie_name(r, name), out);
}

void router_identify_session(struct router *r, const struct net_request *req,
                             struct router_caller *out)
{
    struct lr_str value;
    *out = (struct router_caller){.role = ROUTER_PUBLIC};
    if (!find_cookie(r, req, &value))
        return;
    router_lock(r);
    const struct router_session *session =
        router_session_find(&r->sessions, value, lr_clock_wall_ms(&router_clock));
    if (session != NULL) {
        become(out, session->key);
        out->session = session->id;
    }
    router_unlock(r);
}

/* Another router of the database may have issued the key a moment ago. */
static bool may_be_unread(const struct router *r, struct lr_str text)
{
    return router_store_is_shared(r->store) && text.len == ROUTER_KEY_TEXT - 1 &&
           lr_str_starts(text, "lr-");
}

/* A node with an unknown secret must learn that it has to join again, so its routes have no
 * made-up keys.  Logged once, for an operator who meant to send a real key. */
static bool is_made_up(struct router *r, struct lr_str text, enum router_role wants)
{
    if (r->needs_key || wants == ROUTER_NODE || may_be_unread(r, text))
        return false;
    router_lock(r);
    bool is_issued = router_keys_issued(&r->keys, text) != NULL;
    router_unlock(r);
    if (!is_issued && !atomic_exchange(&r->has_ignored_key, true))
        lr_log_info(NULL, "auth.key_ignored reason=a key that was never issued counts as none, "
                          "because no key is required; logged once");
    return !is_issued;
}

/* A key of some networks, by itself or through a session, is no good anywhere else. */
static lr_code check_address(struct router *r, struct net_request *req,
                             struct router_caller *caller, struct lr_error *err)
{
    const struct router_access *access = router_access(req);
    if (caller->key == NULL)
        return LR_OK;
    router_lock(r);
    lr_code code = router_key_check_address(caller->key, access->from, err);
    router_unlock(r);
    return code;
}

/* The secret of a node is no key: a node that joins shows a secret that no router knows yet. */
static bool is_counted(const struct router *r, struct lr_str text, enum router_role wants)
{
    return wants == ROUTER_NODE ? lr_str_starts(text, "lr-") : r->needs_key;
}

lr_code router_refuse_key(struct router *r, struct net_request *req, struct lr_str text,
                          struct lr_error *err)
{
    uint64_t now = lr_clock_ms(NULL);
    struct lr_error limited;
    uint32_t retry_s = 0;
    lr_code code = LR_OK;
    router_lock(r);
    struct router_key *key = router_keys_issued(&r->keys, text);
    if (key == NULL || key->refused_ms == 0 || now - key->refused_ms >= REFUSED_MS)
        code = router_try(&r->wrong_keys, router_access(req)->from, now, &retry_s, &limited);
    if (key != NULL && code == LR_OK)
        key->refused_ms = now;
    router_unlock(r);
    if (key != NULL || code == LR_OK)
        return err->code;
    net_response_retry_after(req, retry_s);
    *err = limited;
    return code;
}

lr_code router_identify(struct router *r, struct net_request *req, enum router_role wants,
                        struct router_caller *out, struct lr_error *err)
{
    struct lr_str text;
    *out = (struct router_caller){.role = ROUTER_PUBLIC};
    if (take_key(req, &text)) {
        lr_code code = check_key(r, text, wants, out, err);
        if (code == LR_UNAUTHENTICATED && is_counted(r, text, wants))
            code = router_refuse_key(r, req, text, err);
        if (code == LR_OK)
            code = check_address(r, req, out, err);
        if (code == LR_OK || !is_made_up(r, text, wants))
            return code;
    }
    router_identify_session(r, req, out);
    if (out->session == 0 && !r->needs_key)
        out->role = ROUTER_ADMIN;
    return check_address(r, req, out, err);
}

/* SameSite keeps other sites out; the token also keeps out other ports of this host. */
static lr_code check_page(struct router *r, const struct net_request *req, struct lr_error *err)
{
    char csrf[LR_SHA256_HEX_LEN + 1];
    struct lr_str given, cookie;
    if (is_safe(net_request_method(req)))
        return LR_OK;
    if (!net_request_header(req, "X-CSRF-Token", &given))
        return lr_fail_plain(err, csrf_missing);
    if (find_cookie(r, req, &cookie)) {
        router_session_csrf(cookie, csrf);
        if (lr_str_eq_secret(given, lr_str_z(csrf)))
            return LR_OK;
    }
    return lr_fail_plain(err, csrf_wrong);
}

lr_code router_authenticate(struct router *r, struct net_request *req,
                            const struct router_route *route, struct router_caller *out,
                            struct lr_error *err)
{
    *out = (struct router_caller){.role = ROUTER_PUBLIC};
    /* A page in a browser holds no key: where one is asked for, it needs no guard, and a
     * server in front may say its own name in Host. */
    if (r->is_loopback && !r->needs_key) {
        struct net_guard_rules rules = {
            .is_trusted_page = router_cors_trusts(r->settings, req, route),
            .is_management = strncmp(route->at.pattern, "v0/", 3) == 0 ||
                             route->role == ROUTER_ADMIN || route->role == ROUTER_METRICS,
        };
        lr_code code = net_guard_request(req, &rules, err);
        if (code != LR_OK)
            return code;
    }
    if (route->role == ROUTER_PUBLIC ||
        (route->role == ROUTER_METRICS && lr_settings_bool(r->settings, "public-metrics")))
        return LR_OK;
    lr_code code = router_identify(r, req, route->role, out, err);
    if (code != LR_OK)
        return code;
    if (out->role == ROUTER_PUBLIC)
        return lr_fail_plain(err, key_wanted);
    if (!may(req, route, out->role))
        return lr_fail_as(err, role_needed, router_role_name(route->role),
                          router_caller_name(out), router_role_name(out->role));
    /* A node that lost the answer to its join may repeat it. */
    if (out->key != NULL && out->key->uses != 0 && route->fn != router_api_join) {
        router_lock(r);
        if (router_key_is_spent(out->key))
            code = router_key_fail_spent(out->key, err);
        router_unlock(r);
        if (code != LR_OK)
            return code;
    }
    return out->session != 0 ? check_page(r, req, err) : LR_OK;
}

bool router_may_listen(void *arg, struct net_request *req)
{
    struct router *r = arg;
    const struct router_caller *caller = &router_access(req)->caller;
    int64_t wall_ms = lr_clock_wall_ms(&router_clock);
    router_lock(r);
    bool may = caller->session != 0
                   ? router_session_by_id(&r->sessions, caller->session, wall_ms) != NULL
                   : caller->key == NULL || router_key_is_good(caller->key, wall_ms);
    router_unlock(r);
    return may;
}
