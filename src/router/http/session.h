/* router/http/session.h - sessions of the dashboard.
 *
 * A session is 256 random bits in a cookie; only its SHA-256 is kept, here, in memory: a
 * router that restarts has none, and of several routers that share a database each has
 * its own (a balancer in front must keep a browser on one router, or it is asked to sign
 * in again).  A session speaks for the key it was made with and ends with it.
 *
 * Sessions and the addresses that guess are bounded tables: the least recently used entry
 * makes room.  Admins have a table of their own, so that nobody else signs them out.
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_HTTP_SESSION_H
#define ROUTER_HTTP_SESSION_H

#include "router/store/keys.h"

enum {
    ROUTER_SESSIONS_EACH = 256, /* of admins, and as many of others */
    ROUTER_SESSIONS_MAX = 2 * ROUTER_SESSIONS_EACH,
    ROUTER_SESSION_RANDOM = 43, /* base62 characters: 256 bits */
    ROUTER_GUESSERS_MAX = 256,
    ROUTER_GUESSES_PER_MINUTE = 10,
};

struct router_session {
    uint64_t id;            /* never used twice */
    struct router_key *key; /* NULL: free */
    unsigned char hash[LR_SHA256_LEN];
    char csrf[ROUTER_SESSION_RANDOM + 1]; /* what unsafe requests repeat in a header */
    uint64_t made_ms, used_ms;            /* monotonic */
};

/* An address that sent wrong keys; of IPv6 the network, which one person may own whole. */
struct router_guesser {
    char network[48];
    struct router_bucket left;
};

struct router_sessions {
    struct router_session all[ROUTER_SESSIONS_MAX]; /* the first half is for admins */
    struct router_guesser guessers[ROUTER_GUESSERS_MAX];
    uint64_t idle_ms, life_ms;
    uint64_t next_id;
};

void router_sessions_init(struct router_sessions *s, uint64_t idle_ms, uint64_t life_ms);

/* Writes the cookie's value, which only the browser will know. */
struct router_session *router_session_make(struct router_sessions *s, struct router_key *key,
                                           uint64_t now_ms,
                                           char value[ROUTER_SESSION_RANDOM + 1]);

/* NULL: there is none, or it has ended: unused or alive for too long, its key revoked or
 * expired.  Finding it counts as use. */
struct router_session *router_session_find(struct router_sessions *s, struct lr_str value,
                                           uint64_t now_ms, int64_t wall_ms);
/* The same by number, for streams that stay open. */
struct router_session *router_session_by_id(struct router_sessions *s, uint64_t id,
                                            uint64_t now_ms, int64_t wall_ms);
void router_session_end(struct router_sessions *s, uint64_t id);

/* RATE_LIMITED after too many wrong keys from there, with the seconds to wait. */
LR_MUST_USE lr_code router_guess_check(struct router_sessions *s, const char *address,
                                       uint64_t now_ms, uint32_t *retry_s,
                                       struct lr_error *err);
void router_guess_count(struct router_sessions *s, const char *address, uint64_t now_ms);

/* The value of a cookie in a Cookie header. */
bool router_cookie_find(struct lr_str header, struct lr_str name, struct lr_str *out);

#endif
