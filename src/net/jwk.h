/* net/jwk.h - public keys of another server (JSON Web Key Set, RFC 7517) and signatures by
 * them.
 *
 * RSA (RS256, RS384, RS512, PS256, PS384, PS512), P-256 and P-384 (ES256, ES384), Ed25519
 * (EdDSA). Keys for encryption, of unknown kinds or of unsafe sizes are left out.  Neither
 * "none" nor a symmetric algorithm exists here.  Thread: read only after parsing, so any.
 */
#ifndef NET_JWK_H
#define NET_JWK_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/str.h"

enum {
    NET_JWKS_BYTES = 512 << 10, /* of the text */
    NET_JWKS_MAX = 64,          /* keys */
    NET_JWK_ID = 256,           /* letters of a key's id */
};

struct net_jwks; /* owned by the caller of net_jwks_parse */

/* INVALID_ARGUMENT: it is no key set; an empty set is one.  TOO_LARGE: more than
 * NET_JWKS_BYTES. */
LR_MUST_USE lr_code net_jwks_parse(struct lr_str text, struct net_jwks **out,
                                   struct lr_error *err);
void net_jwks_free(struct net_jwks *set); /* NULL is fine */
size_t net_jwks_count(const struct net_jwks *set);

/* Whether a key of the set could have signed: the same id (an empty id: any key) and the kind
 * of the algorithm. */
bool net_jwks_has(const struct net_jwks *set, struct lr_str algorithm, struct lr_str id);
/* UNSUPPORTED: the algorithm is not in the list above.  NOT_FOUND: no key of the set fits.
 * UNAUTHENTICATED: the signature is wrong. */
LR_MUST_USE lr_code net_jwks_verify(const struct net_jwks *set, struct lr_str algorithm,
                                    struct lr_str id, struct lr_str text,
                                    struct lr_str signature, struct lr_error *err);

#endif
