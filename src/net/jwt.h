/* net/jwt.h - a signed JSON Web Token in its compact form (RFC 7515, RFC 7519).
 *
 * net_jwt_parse takes the token apart and checks nothing but its form: whether the signature is
 * right says net_jwks_verify (net/jwk.h), and what the claims mean says the caller.  The cost
 * is linear in the token's length.  Pure.  Thread: any.
 */
#ifndef NET_JWT_H
#define NET_JWT_H

#include "base/json.h"

enum { NET_JWT_BYTES = 64 << 10 };

/* All slices lie in the token or in the arena. */
struct net_jwt {
    struct lr_str algorithm;
    struct lr_str key_id; /* "": the header names no key */
    const struct lr_json *claims;
    struct lr_str signed_text; /* header and claims as they were sent */
    struct lr_str signature;
};

/* INVALID_ARGUMENT: it is no such token, or its header has an extension that must be understood
 * ("crit").  TOO_LARGE: more than NET_JWT_BYTES. */
LR_MUST_USE lr_code net_jwt_parse(struct lr_arena *arena, struct lr_str token,
                                  struct net_jwt *out, struct lr_error *err);

#endif
