/* net/guard.h - protects a loopback server without API keys from web pages.
 *
 * A page in the operator's browser can send requests to 127.0.0.1.  But a page cannot choose
 * the Host header (so DNS rebinding shows), cannot hide its Origin, and cannot send
 * application/json without a CORS preflight.  These three are checked.
 *
 * A reverse proxy on this machine passes on requests of the whole world, and most proxies put
 * the address they connect to into Host.  Proxies are recognised by the headers they add. nginx
 * adds none by default and is recognised by HTTP/1.0, which operators' tools do not speak.
 * Pure.  Thread: any.
 */
#ifndef NET_GUARD_H
#define NET_GUARD_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/str.h"
#include "net/http.h"

struct net_request;

/* What the server knows about the requested route. */
struct net_guard_rules {
    bool is_trusted_page; /* the operator allows requests from pages of this Origin */
    bool is_management;   /* pages from other ports of this machine are refused too, and so is
                             HTTP/1.0, which proxies speak */
    bool asks_for_secret; /* the route checks a secret, so a proxy may pass on requests of
                             others */
};

struct net_guard_input {
    struct lr_str host; /* of the Host header, port included */
    struct net_headers headers;
    bool has_body;
    bool is_post;
    bool is_tls;
    bool is_http_1_0;
    struct net_guard_rules rules;
};

/* MISDIRECTED (421): the Host is no loopback name; HTTP/1.0 may leave it out. PERMISSION_DENIED
 * (403): a proxy passed the request on, or a foreign Origin or Sec-Fetch-Site.
 * UNSUPPORTED_MEDIA (415): a body, or a POST with a content type, that is not application/json;
 * management aside, `curl -d` may call the body a form.  The message says what to do. */
LR_MUST_USE lr_code net_guard_loopback(const struct net_guard_input *in, struct lr_error *err);

/* The same checks for a request; may be called in on_head. */
LR_MUST_USE lr_code net_guard_request(const struct net_request *req,
                                      const struct net_guard_rules *rules,
                                      struct lr_error *err);

/* localhost, *.localhost, 127.0.0.0/8, [::1], each with or without a port. */
bool net_is_loopback_host(struct lr_str host_and_port);
/* The same for an address to bind: "127.0.0.1", "::1", "localhost". */
bool net_is_loopback_bind(const char *host);

/* application/json, with or without parameters, in any case. */
bool net_is_json_type(struct lr_str content_type);

#endif
