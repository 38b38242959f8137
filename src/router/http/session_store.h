/* router/http/session_store.h - sessions of the dashboard between memory (session.h) and the
 * database (store/sessions.h).
 *
 * Thread: any loop, lock not held, unless a comment says otherwise.
 */
#ifndef ROUTER_HTTP_SESSION_STORE_H
#define ROUTER_HTTP_SESSION_STORE_H

#include "router/access/session.h"
#include "router/http/api.h"

/* Begins a session of a key or a person, writes it with its line in the audit log, and then
 * calls fn(arg) on the request's loop.  Where the database does not answer, the session lives
 * on this router and is written later.  Lock held. */
void router_session_begin(struct router *r, struct net_request *req, struct router_key *key,
                          char value[ROUTER_SESSION_RANDOM + 1], struct router_caller *caller,
                          router_store_done fn, void *arg);
/* Ends a session on every router.  by: for the audit log; NULL: no line.  False: the
 * session is unknown, and fn is not called.  fn may be NULL.  Lock held. */
bool router_session_stop(struct router *r, uint64_t id, const struct router_actor *by,
                         struct net_loop *loop, router_store_done fn, void *arg);

/* The request's cookie names a session that this router does not know and the database may. */
bool router_session_is_unread(struct router *r, const struct net_request *req);
/* Reads it, then fn(arg) on the request's loop. */
void router_session_fetch(struct router *r, struct net_request *req, router_store_done fn,
                          void *arg);

/* A browser that signs in again leaves no session behind. */
void router_session_end_before(struct router *r, const struct net_request *req);

/* ---- cookies of an answer ---- */

struct router_cookie {
    const char *name, *value; /* value "": takes the cookie back */
    const char *path, *same_site;
    uint64_t life_s;
};
void router_cookie_set(struct net_request *req, const struct router_cookie *cookie);
/* The session's cookie. */
void router_session_cookie(struct router *r, struct net_request *req, const char *value);

/* Once a second, on loop 0: writes what changed, and what the database could not take. */
void router_sessions_second(struct router *r);

#endif
