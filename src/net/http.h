/* net/http.h - the parts of HTTP that server and client share: header lists, status texts.
 *
 * Header lists are borrowed from their message and live as long as it.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct net_header {
    struct lr_str name;  /* as sent, compared without case */
    struct lr_str value; /* without surrounding blanks */
};

struct net_headers {
    const struct net_header *items;
    size_t count;
};

/* The first value of that name; false, with an empty *out, when there is none. */
bool net_headers_get(struct net_headers headers, const char *name, struct lr_str *out);
size_t net_headers_count(struct net_headers headers, const char *name);

/* Whether a comma-separated list header (Connection, Accept, ...) holds `token`. */
bool net_headers_has_token(struct net_headers headers, const char *name, const char *token);

/* "Not Found"; "Unknown" for a number without a name. */
const char *net_status_text(int status);

/* A valid name is a token; a valid value holds no control byte. */
bool net_header_name_ok(struct lr_str name);
bool net_header_value_ok(struct lr_str value);

#endif
