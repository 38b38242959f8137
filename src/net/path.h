/* net/path.h - request paths and query strings, decoded once and safely.
 *
 * Pure functions; results are terminated copies in the caller's arena.
 */
#ifndef NET_PATH_H
#define NET_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/fail.h"
#include "base/str.h"

enum { NET_PATH_MAX_SEGMENTS = 32 };

struct net_path {
    struct lr_str segments[NET_PATH_MAX_SEGMENTS];
    size_t count; /* "/" has 0; "/a/" is "/a" */
};

/* Splits at '/', without a '/' at the end, then decodes each segment, so that %2F becomes a '/'
 * inside its segment: "/v0/models/org%2Fname" is v0, models, org/name.  INVALID_ARGUMENT for a
 * broken escape, a control byte, bytes that are not UTF-8, "." or ".." as a segment
 * (also escaped), an empty segment inside, or too many. */
LR_MUST_USE lr_code net_path_split(struct lr_arena *arena, struct lr_str raw_path,
                                   struct net_path *out, struct lr_error *err);

/* Decodes %XX except %2F and drops a '/' at the end; refuses the same paths as net_path_split.
 */
LR_MUST_USE lr_code net_path_decode(struct lr_arena *arena, struct lr_str raw_path,
                                    struct lr_str *out, struct lr_error *err);

/* The first value of `name` in "a=1&b=x+y"; '+' is a blank.  A name without '=' has an
 * empty value.  False when absent, badly escaped, or out of memory. */
bool net_query_get(struct lr_arena *arena, struct lr_str query, const char *name,
                   struct lr_str *out);

#endif
