/* net/guard.h - what protects a loopback server without keys from web pages.
 *
 * A page in the operator's browser can send requests to 127.0.0.1.  It cannot choose
 * the Host header (so a rebound DNS name shows), cannot hide its Origin, and cannot
 * send application/json without asking first.  These three are checked (design.md 7).
 * Pure.  Thread: any.
 */
#ifndef NET_GUARD_H
#define NET_GUARD_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/str.h"
#include "net/http.h"

struct net_request;

struct net_guard_input {
    struct lr_str host; /* of the Host header, port included */
    struct net_headers headers;
    bool has_body;
    bool is_trusted_page; /* the operator lets pages of this Origin ask */
};

/* MISDIRECTED (421): the Host is no loopback name.  PERMISSION_DENIED (403): a foreign
 * Origin, or Sec-Fetch-Site: cross-site.  UNSUPPORTED_MEDIA (415): a body, or an
 * announced content type, that is not application/json.  The message says what to do. */
LR_MUST_USE lr_code net_guard_loopback(const struct net_guard_input *in, struct lr_error *err);

/* The same over a request; usable in on_head. */
LR_MUST_USE lr_code net_guard_request(const struct net_request *req, bool is_trusted_page,
                                      struct lr_error *err);

/* localhost, *.localhost, 127.0.0.0/8, [::1], each with or without a port. */
bool net_is_loopback_host(struct lr_str host_and_port);
/* The same for an address to bind: "127.0.0.1", "::1", "localhost". */
bool net_is_loopback_bind(const char *host);

/* application/json, with or without parameters, in any case. */
bool net_is_json_type(struct lr_str content_type);

#endif
