/* net/cidr.h - networks in CIDR notation, and the client's address behind trusted proxies.
 *
 * Addresses of both families are compared as IPv6; IPv4 as mapped addresses.  Pure.  Thread:
 * any.
 */
#ifndef NET_CIDR_H
#define NET_CIDR_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/settings.h"
#include "base/str.h"
#include "net/http.h"

enum { NET_ADDRESS_TEXT = 48, NET_CIDRS_MAX = 32 };

struct net_cidr {
    unsigned char address[16];
    unsigned bits; /* of 128 */
};

struct net_cidrs {
    struct net_cidr items[NET_CIDRS_MAX];
    size_t count;
};

/* "10.0.0.0/8", "fd00::/8", or one address.  INVALID_ARGUMENT says what is wrong. */
LR_MUST_USE lr_code net_cidr_parse(const char *text, struct net_cidr *out,
                                   struct lr_error *err);
/* Parses all values of a list setting. */
LR_MUST_USE lr_code net_cidrs_read(const struct lr_settings *settings, const char *name,
                                   struct net_cidrs *out, struct lr_error *err);

/* False also for a text that is no address. */
bool net_cidrs_have(const struct net_cidrs *cidrs, const char *address);

/* True for the same address in any notation; all loopback addresses count as the same. */
bool net_same_address(const char *a, const char *b);

/* The client's address: `remote`, or, if that is a trusted proxy, the last address of
 * X-Forwarded-For (else of Forwarded) that is not a trusted proxy.  Addresses before that one
 * could be forged by the client. */
void net_forwarded_client(struct net_headers headers, const char *remote,
                          const struct net_cidrs *trusted, char out[NET_ADDRESS_TEXT]);

/* A header that proxies add (Forwarded, Via, X-Real-IP, X-Forwarded-*); NULL: the request has
 * none. */
const struct net_header *net_forwarded_header(struct net_headers headers);

#endif
