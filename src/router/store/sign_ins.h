/* router/store/sign_ins.h - what routers that share the database keep of sign-ins with an
 * OpenID provider, so that one router can finish what another has begun, and only once.
 *
 * Of a state only the SHA-256 is kept.  Thread: the database's, inside a transaction.
 */
#ifndef ROUTER_STORE_SIGN_INS_H
#define ROUTER_STORE_SIGN_INS_H

#include "router/store/sql.h"

enum { ROUTER_SIGN_IN_KEY = 43 }; /* letters: more than 256 bits */

/* The key that signs the cookies of sign-ins under way.  The first router draws it. */
LR_MUST_USE lr_code router_sign_in_key(struct router_sql *sql, char out[ROUTER_SIGN_IN_KEY + 1],
                                       struct lr_error *err);

/* The state of a sign-in is used now.  *is_first: it was not used before.  The row is kept
 * until until_ms; rows whose time is over at now_ms (both wall) are deleted. */
LR_MUST_USE lr_code router_sign_in_use(struct router_sql *sql, struct lr_str state,
                                       int64_t until_ms, int64_t now_ms, bool *is_first,
                                       struct lr_error *err);

#endif
