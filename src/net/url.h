/* net/url.h - URLs that a client calls: http and https, a host, a port, a target.
 *
 * Pure.  User names and fragments are refused, because a secret in a URL ends up in logs.
 */
#ifndef NET_URL_H
#define NET_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/str.h"

struct net_url {
    bool is_https;
    char host[254]; /* without brackets */
    uint16_t port;
    char origin[288];     /* "http://host:port", the key of a connection pool */
    char authority[264];  /* for the Host header: the port only where it is not the default */
    struct lr_str target; /* path and query, borrowed from the text; "/" when empty */
};

/* INVALID_ARGUMENT says what is wrong. */
LR_MUST_USE lr_code net_url_parse(const char *text, struct net_url *out, struct lr_error *err);

/* "https://host:port", an IPv6 address in brackets; cut at `size`. */
void net_url_format(char *out, size_t size, bool is_https, const char *host, unsigned port);

#endif
