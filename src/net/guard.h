/* net/guard.h - what protects a loopback server without keys from web pages.
 *
 * A page in the operator's browser can send requests to 127.0.0.1.  It cannot choose
 * the Host header (so a rebound DNS name shows), cannot hide its Origin, and cannot
 * send application/json without asking first.  These three are checked.
 *
 * A reverse proxy on this machine passes requests of the whole world, and most proxies name
 * the address they connect to in Host.  Proxies show by the headers they add, and nginx, which
 * adds none unless told to, by HTTP/1.0, which tools for operators do not speak.
 * Pure.  Thread: any.
 */
#ifndef NET_GUARD_H
#define NET_GUARD_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/str.h"
#include "net/http.h"

struct net_request;

/* What the server says about the route that is asked for. */
struct net_guard_rules {
    bool is_trusted_page; /* the operator lets pages of this Origin ask */
    bool is_management;   /* pages of other ports of this machine are foreign, too, and so is
                             HTTP/1.0, which proxies speak */
    bool asks_for_secret; /* so that a proxy in front may pass requests of others */
};

struct net_guard_input {
    struct lr_str host; /* of the Host header, port included */
    struct net_headers headers;
    bool has_body;
    bool is_tls;
    bool is_http_1_0;
    struct net_guard_rules rules;
};

/* MISDIRECTED (421): the Host is no loopback name.  PERMISSION_DENIED (403): a proxy passed
 * the request, a foreign Origin, or a foreign Sec-Fetch-Site.  UNSUPPORTED_MEDIA (415): a
 * body, or an announced content type, that is not application/json.  The message says what to
 * do. */
LR_MUST_USE lr_code net_guard_loopback(const struct net_guard_input *in, struct lr_error *err);

/* The same over a request; usable in on_head. */
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
