/* router/access/session.h - sessions of the dashboard.
 *
 * A session is 256 random bits in a cookie; only its SHA-256 is kept, here and in the database
 * (store/sessions.h).  So each router that shares the database knows a session, a restart does
 * not end it, and a sign-out ends it on every router.  A session speaks for the key that it was
 * made with and ends with that key, or for a person who signed in with an OpenID provider.
 *
 * Moves of a session:
 *   free -> new, saved: somebody signed in here; on another router
 *   new -> saved, ended, free
 *   saved -> ended, free
 *   ended -> free: the row in the database is deleted
 *
 * The database does not have a new session yet.  A session is ended when it was signed out.  It
 * is free when it was unused for too long, when another router ended it, and when its place is
 * needed.  The table is bounded, and so are the places of one key or person: a key with too
 * many sessions ends its own.  In a full table the key with the most sessions gives a place. Of
 * its sessions the least recently used one ends.  Admins have a table of their own, so that
 * nobody else signs them out. Thread: the router's lock is held.
 */
#ifndef ROUTER_ACCESS_SESSION_H
#define ROUTER_ACCESS_SESSION_H

#include "router/store/keys.h"
#include "router/store/sessions.h"

enum {
    ROUTER_SESSIONS_EACH = 256, /* of admins, and as many of others */
    ROUTER_SESSIONS_MAX = 2 * ROUTER_SESSIONS_EACH,
    ROUTER_SESSION_RANDOM = 43,      /* base62 characters: 256 bits */
    ROUTER_SIGN_INS_PER_MINUTE = 30, /* of a key or a person, on each router */
};

enum router_session_state {
    ROUTER_SESSION_FREE,
    ROUTER_SESSION_NEW,
    ROUTER_SESSION_SAVED,
    ROUTER_SESSION_ENDED,
};

struct router_session {
    enum router_session_state state;
    uint64_t id;            /* never used twice by this process */
    struct router_key *key; /* or a person */
    unsigned char hash[LR_SHA256_LEN];
    char from[48];            /* the address that signed in */
    int64_t made_ms, used_ms; /* wall */
    int64_t saved_ms;         /* used_ms as the database has it */
};

struct router_sessions {
    struct router_session all[ROUTER_SESSIONS_MAX]; /* the first half is for admins */
    struct router_key **people; /* owned, and never freed before the router: as keys are */
    size_t person_count, person_capacity;
    uint64_t idle_ms, life_ms;
    uint64_t next_id;
    char fleet[ROUTER_FLEET_NAME +
               1]; /* of a database that several share; "": the router's own */
    /* of session_store.c */
    unsigned fetches;    /* sessions that are being read */
    bool is_saving;      /* a transaction of router_sessions_second is under way */
    uint64_t expired_ms; /* monotonic: when rows of sessions that are over were last deleted */
};

void router_sessions_init(struct router_sessions *s, uint64_t idle_ms, uint64_t life_ms);
void router_sessions_free(struct router_sessions *s);

/* The person of an OpenID provider, made at first sight.  subject: the issuer and the
 * provider's name for the person; name: what people read.  The newest sign-in decides about the
 * role.  NULL: no memory. */
struct router_key *router_session_person(struct router_sessions *s, struct lr_str subject,
                                         struct lr_str name, enum router_role role);

/* Counts a sign-in of the key or the person, before the session is made.  RATE_LIMITED: there
 * were too many; *retry_s says when to try again. */
LR_MUST_USE lr_code router_session_take(struct router_key *key, uint64_t now_ms,
                                        uint32_t *retry_s, struct lr_error *err);

/* Writes the cookie's value, which only the browser will know.  replaced: the session that made
 * room; its state is FREE where none did.  Its row is the caller's to delete. */
struct router_session *router_session_make(struct router_sessions *s, struct router_key *key,
                                           const char *from, int64_t now_ms,
                                           char value[ROUTER_SESSION_RANDOM + 1],
                                           struct router_session *replaced);

/* NULL: there is none, or it has ended: unused or alive for too long, its key revoked or
 * expired.  Finding it counts as use. */
struct router_session *router_session_find(struct router_sessions *s, struct lr_str value,
                                           int64_t now_ms);
/* The same by number, for streams that stay open. */
struct router_session *router_session_by_id(struct router_sessions *s, uint64_t id,
                                            int64_t now_ms);
/* The session is over on this router at once; the caller deletes its row. */
void router_session_end(struct router_session *session);
/* The database has written the session that was in state NEW, or deleted one that was ENDED.
 * Nothing happens where the session has left that state meanwhile. */
void router_session_settle(struct router_sessions *s, const unsigned char hash[LR_SHA256_LEN],
                           enum router_session_state state);

/* What unsafe requests repeat in a header: a hash of the cookie's value, which other pages
 * cannot read. */
void router_session_csrf(struct lr_str value, char out[LR_SHA256_HEX_LEN + 1]);

struct router_session_row router_session_describe(const struct router_session *session);
/* A session that the database has and this router does not.  False: it has ended, or its key is
 * not known here. */
bool router_session_adopt(struct router_sessions *s, const struct router_keys *keys,
                          const struct router_session_row *row, int64_t now_ms);
/* Reads every session of the database, with a map from the hash of each row to the row.  rows:
 * ROUTER_SESSIONS_MAX of them, owned by the caller and alive as long as the map.  Thread: any
 * that may use sql. */
LR_MUST_USE lr_code router_sessions_read(struct router_sql *sql,
                                         struct router_session_row *rows, struct lr_strmap *map,
                                         struct lr_error *err);
/* Every session of the database: sessions that are missing there were ended elsewhere.  map: of
 * router_sessions_read. */
void router_sessions_merge(struct router_sessions *s, const struct router_keys *keys,
                           const struct lr_strmap *map, int64_t now_ms);

/* The value of a cookie in a Cookie header. */
bool router_cookie_find(struct lr_str header, struct lr_str name, struct lr_str *out);

#endif
