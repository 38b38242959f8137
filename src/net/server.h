/* net/server.h - the HTTP/1.1 server: one listening socket, bound once, shared by
 * all loops of a group.
 *
 * A connection lives on one loop from accept to close; its requests are handled
 * there, in order (pipelined ones wait).  What no handler should see is answered
 * here, with a JSON error body, and closes the connection:
 *   400  malformed head or chunk, two framings, a missing or second Host
 *   408  the head, or a body, took too long
 *   413  a body over the limit (an announced length is refused unread)
 *   417  an Expect other than 100-continue
 *   431  a head over the limit
 *   501  a Transfer-Encoding other than chunked
 *   505  a version other than 1.0 and 1.1
 */
#ifndef NET_SERVER_H
#define NET_SERVER_H

#include <stdint.h>

#include "base/fail.h"
#include "net/cidr.h"
#include "net/loop.h"
#include "net/request.h"
#include "net/tls.h"

struct net_server;

struct net_server_handler {
    void *arg;
    /* The head has arrived, the body has not.  Optional.  Before it returns it may end the
     * request (a refusal that need not read the body), ask for the body as a stream
     * (the request is the handler's from then on), set the body's limit, or do nothing:
     * then the body is collected and on_request runs.  Should that body never arrive,
     * on_end is all that comes. */
    void (*on_head)(void *arg, struct net_request *req);
    /* The request is complete.  Required unless on_head takes everything. */
    void (*on_request)(void *arg, struct net_request *req);
    /* The request is about to be freed.  Optional: access log, metrics.  Also called for
     * the refusals listed above once a head was read. */
    void (*on_end)(void *arg, const struct net_request *req);
};

/* Zero in a number means its default, given in brackets. */
struct net_server_config {
    const char *host;    /* "127.0.0.1", "::1", "0.0.0.0", a name; borrowed for the call */
    uint16_t port;       /* 0: any free one, see net_server_port */
    struct net_tls *tls; /* NULL: plain.  Borrowed for the call (referenced) */
    struct net_server_handler handler;

    /* Over all loops; lowered to what descriptors allow.  One more takes the place of the
     * oldest that is idle, or is closed unanswered where none is. */
    uint32_t max_connections;        /* [10000] */
    uint32_t max_per_address;        /* [2048] the same for one address (of IPv6: one /64) */
    const struct net_cidrs *proxies; /* without the bound for one address; NULL: none; borrowed
                                        while the server lives */
    uint32_t max_header_bytes;       /* [16 KB] request line and headers */
    uint64_t max_body_bytes;         /* [16 MB] */
    uint64_t max_request_bytes;      /* [64 MB] ceiling of a request's arena, beside its body */
    uint64_t max_stream_bytes;       /* [1 MB] queued for one client */

    uint32_t header_timeout_ms; /* [10 s] for the whole head, from its first byte */
    uint32_t body_timeout_ms;   /* [30 s] for a whole body, and 1 s more for each 64 KB */
    uint32_t idle_timeout_ms;   /* [75 s] between requests */
    uint32_t write_timeout_ms;  /* [60 s] without the client taking a byte that waits */
    uint32_t linger_ms;         /* [2 s] reading on after a refusal, so that it arrives */
};

/* Binds, listens and begins to accept on every loop, as soon as the loops run.
 * INVALID_ARGUMENT or IO name the address and the reason. */
LR_MUST_USE lr_code net_server_start(struct net_loops *loops,
                                     const struct net_server_config *config,
                                     struct net_server **out, struct lr_error *err);

uint16_t net_server_port(const struct net_server *server);

/* Graceful: accepts whoever has come, closes the listening socket, then closes idle
 * connections, lets running requests finish (their answers say Connection: close), and cuts
 * what is left after deadline_ms (those requests get on_gone).  on_stopped(arg) runs on loop 0
 * when no connection and no request is left.  A request that its handler never ends keeps it
 * from coming.  Thread: any; once. */
void net_server_stop(struct net_server *server, uint32_t deadline_ms, net_loop_fn on_stopped,
                     void *arg);

/* After on_stopped (inside it, too).  NULL is fine. */
void net_server_destroy(struct net_server *server);

struct net_server_stats {
    uint64_t accepted;    /* connections since the start */
    uint64_t connections; /* open now */
    uint64_t requests;    /* heads read since the start */
    uint64_t active;      /* requests a handler has not ended */
    uint64_t refused;     /* answered by the server itself (the list above) */
    uint64_t gone;        /* requests whose client left early */
};
/* Until when its certificate is good.  False: it speaks plain HTTP.  Thread: any. */
bool net_server_get_validity(const struct net_server *server, struct net_tls_validity *out);
/* Thread: any. */
void net_server_get_stats(const struct net_server *server, struct net_server_stats *out);

#endif
