/* router/store/sessions.h - the sessions of the dashboard as the database has them, so that
 * each router that shares the database knows them, also after a restart.
 *
 * Only the SHA-256 of a session's cookie is kept.  Thread: the database's, inside a
 * transaction.
 */
#ifndef ROUTER_STORE_SESSIONS_H
#define ROUTER_STORE_SESSIONS_H

#include "base/sha256.h"
#include "router/store/keys.h"

enum { ROUTER_SESSIONS_OF_KEY = 32 }; /* at once, of a key or a person */

struct router_session_row {
    unsigned char hash[LR_SHA256_LEN];
    char key_id[24];          /* of a key, or of a person */
    char name[64];            /* of a person who signed in with an OpenID provider; "": a key */
    enum router_role role;    /* of that person */
    char from[48];            /* the address that signed in */
    int64_t made_ms, used_ms; /* wall */
};

/* Deletes the least recently used sessions of the same key or person where there are more than
 * ROUTER_SESSIONS_OF_KEY. */
LR_MUST_USE lr_code router_session_insert(struct router_sql *sql,
                                          const struct router_session_row *row,
                                          struct lr_error *err);
/* A session that was deleted meanwhile stays deleted. */
LR_MUST_USE lr_code router_session_touch(struct router_sql *sql,
                                         const unsigned char hash[LR_SHA256_LEN],
                                         int64_t used_ms, struct lr_error *err);
LR_MUST_USE lr_code router_session_delete(struct router_sql *sql,
                                          const unsigned char hash[LR_SHA256_LEN],
                                          struct lr_error *err);
/* The sessions of a key. */
LR_MUST_USE lr_code router_session_delete_of(struct router_sql *sql, const char *key_id,
                                             struct lr_error *err);
/* Sessions that were begun or last used before these times. */
LR_MUST_USE lr_code router_session_expire(struct router_sql *sql, int64_t made_ms,
                                          int64_t used_ms, struct lr_error *err);

/* At most `most` sessions, those that were used last; the older sign-in comes first. */
LR_MUST_USE lr_code router_session_read_all(struct router_sql *sql,
                                            struct router_session_row *out, size_t most,
                                            size_t *count, struct lr_error *err);
/* *is_found: the database has the session. */
LR_MUST_USE lr_code router_session_read(struct router_sql *sql,
                                        const unsigned char hash[LR_SHA256_LEN],
                                        struct router_session_row *out, bool *is_found,
                                        struct lr_error *err);

/* Letters that stand for this database: the same for every router that shares it. */
enum { ROUTER_FLEET_NAME = 8 };
LR_MUST_USE lr_code router_fleet_name(struct router_sql *sql, char out[ROUTER_FLEET_NAME + 1],
                                      struct lr_error *err);

#endif
