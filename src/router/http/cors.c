/* router/http/cors.c - web pages of other origins that the operator lets ask (cors-origin).
 *
 * They reach the routes of clients in /v1 and /api only, with a key in a header or on loopback
 * without one; never with a session's cookie, which is why credentials are not allowed.
 * Without the setting a browser keeps every other page from reading an answer.
 */
#include <stdio.h>

#include "router/http/api.h"

enum { REMEMBER_S = 600 };

lr_code router_cors_check(const struct lr_settings *s, bool needs_key, struct lr_error *err)
{
    for (size_t i = 0; i < lr_settings_list_count(s, "cors-origin"); i++) {
        const char *origin = lr_settings_list_item(s, "cors-origin", i);
        struct lr_str text = lr_str_z(origin);
        bool is_any = strcmp(origin, "*") == 0;
        size_t from = lr_str_starts(text, "https://")  ? 8
                      : lr_str_starts(text, "http://") ? 7
                                                       : 0;
        if (is_any && !needs_key)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "cors-origin: \"*\" would let every web page use this router: name "
                           "the pages, or ask for keys (--require-key)");
        if (!is_any && (from == 0 || text.len == from ||
                        lr_str_find_char(lr_str_sub(text, from, text.len), '/') != LR_STR_NONE))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "cors-origin: \"%.100s\" is no origin: write https://host or "
                           "https://host:port, without a path",
                           origin);
    }
    return LR_OK;
}

static bool is_listed(const struct lr_settings *s, struct lr_str origin)
{
    for (size_t i = 0; i < lr_settings_list_count(s, "cors-origin"); i++) {
        const char *listed = lr_settings_list_item(s, "cors-origin", i);
        if (strcmp(listed, "*") == 0 || lr_str_eq_nocase(origin, lr_str_z(listed)))
            return true;
    }
    return false;
}

bool router_cors_trusts(const struct lr_settings *s, const struct net_request *req,
                        const struct router_route *route)
{
    struct lr_str origin;
    return route->is_for_pages && net_request_header(req, "Origin", &origin) &&
           is_listed(s, origin);
}

void router_cors_answer(const struct lr_settings *s, struct net_request *req,
                        const struct router_route *route)
{
    struct lr_str origin;
    if (!router_cors_trusts(s, req, route) || !net_request_header(req, "Origin", &origin))
        return;
    net_response_header(req, "Access-Control-Allow-Origin", origin);
    net_response_header(req, "Vary", LR_STR_LIT("Origin"));
    net_response_header(
        req, "Access-Control-Expose-Headers",
        LR_STR_LIT("X-Request-Id, Retry-After, X-LLM-Router-Node, "
                   "X-LLM-Router-Reason, X-LLM-Router-Ignored, " NET_ERROR_HEADER));
}

/* A browser asks first what a page may send; clients in pages bring headers of their own. */
void router_cors_preflight(const struct lr_settings *s, struct net_request *req,
                           const struct router_route *route, struct lr_str methods)
{
    struct lr_str wanted;
    if (router_cors_trusts(s, req, route)) {
        char seconds[16];
        (void)snprintf(seconds, sizeof(seconds), "%d", REMEMBER_S);
        net_response_header(req, "Access-Control-Allow-Methods", methods);
        if (net_request_header(req, "Access-Control-Request-Headers", &wanted))
            net_response_header(req, "Access-Control-Allow-Headers", wanted);
        net_response_header(req, "Access-Control-Max-Age", lr_str_z(seconds));
    }
    net_response_header(req, "Allow", methods);
    net_respond(req, 204, NULL, lr_str("", 0));
}
