/* net/server.h - the HTTP/1.1 server: its listening sockets are shared by all loops of a
 * group.
 *
 * A connection lives on one loop from accept to close; its requests are handled there, in order
 * (pipelined requests wait).  The server answers these cases itself, with a JSON error body,
 * and closes the connection; handlers never see them:
 *
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
#include "net/listen.h"
#include "net/loop.h"
#include "net/request.h"
#include "net/tls.h"

struct net_server;

struct net_server_handler {
    void *arg;
    /* The head has arrived, the body has not.  Optional.  Before it returns it may end the
     * request (a refusal that need not read the body), ask for the body as a stream (the
     * request then belongs to the handler), set the body's limit, or do nothing: then the body
     * is collected and on_request runs.  If that body never arrives, only on_end is called. */
    void (*on_head)(void *arg, struct net_request *req);
    /* The request is complete.  Required unless on_head takes everything. */
    void (*on_request)(void *arg, struct net_request *req);
    /* The request is about to be freed.  Optional: access log, metrics.  Also called for the
     * refusals listed above if a head was read. */
    void (*on_end)(void *arg, const struct net_request *req);
};

/* Zero in a number means its default, given in brackets. */
struct net_server_config {
    const char *host; /* "127.0.0.1", "::1", "0.0.0.0", a name; borrowed for the call */
    uint16_t port;    /* 0: any free one, see net_server_port */
    struct net_listeners *listeners; /* instead of host and port; the sockets become the
                                        server's; NULL: none */
    struct net_tls *tls; /* NULL: plain.  Borrowed for the call (referenced).  Connections of
                            Unix sockets are plain in any case */
    struct net_server_handler handler;

    /* Limit over all loops, lowered to the available descriptors.  A connection over the limit
     * replaces the oldest idle connection, or is closed unanswered if none is idle. */
    uint32_t max_connections;        /* [10000] */
    uint32_t max_per_address;        /* [2048] the same for one address (for IPv6: one /64) */
    const struct net_cidrs *proxies; /* addresses without a limit of their own; NULL: none;
                                        borrowed while the server lives */
    uint32_t max_header_bytes;       /* [16 KB] request line and headers */
    uint64_t max_body_bytes;         /* [16 MB] */
    uint64_t max_request_bytes;      /* [64 MB] limit of a request's arena, without the body */
    uint64_t max_stream_bytes;       /* [1 MB] queued for one client */

    uint32_t header_timeout_ms; /* [10 s] for the whole head, from its first byte */
    uint32_t body_timeout_ms;   /* [30 s] for a whole body, plus 1 s for each 64 KB */
    uint32_t idle_timeout_ms;   /* [75 s] between requests */
    uint32_t write_timeout_ms;  /* [60 s] how long a client may take no byte of queued data */
    uint32_t linger_ms; /* [2 s] reading on after a refusal, so that the refusal arrives */
};

/* Binds, listens and begins to accept on every loop, as soon as the loops run.
 * INVALID_ARGUMENT or IO name the address and the reason. */
LR_MUST_USE lr_code net_server_start(struct net_loops *loops,
                                     const struct net_server_config *config,
                                     struct net_server **out, struct lr_error *err);

/* Of the first listener that is not a Unix socket. */
uint16_t net_server_port(const struct net_server *server);
/* Valid until the server stops. */
const struct net_listeners *net_server_listeners(const struct net_server *server);

/* No other process has the listening sockets any more: the server removes the files of its Unix
 * sockets when it stops.  Before the loops run. */
void net_server_own_sockets(struct net_server *server);

/* Graceful stop: accepts waiting connections, closes the listening socket, closes idle
 * connections, and lets running requests finish (their answers say Connection: close).  After
 * deadline_ms the remaining connections are cut (their requests get on_gone). on_stopped(arg)
 * runs on loop 0 when no connection and no request is left; it never runs if a handler never
 * ends its request.  A second call, from the same thread, sets another
 * deadline.  Thread: any. */
#define NET_SERVER_NO_DEADLINE UINT32_MAX /* too large for an enumerator */
void net_server_stop(struct net_server *server, uint32_t deadline_ms, net_loop_fn on_stopped,
                     void *arg);

/* The same for a server whose listening sockets another process has, too: waiting connections
 * are left to that process, requests on open connections are answered, and an idle connection
 * is closed after two quiet seconds. */
void net_server_leave(struct net_server *server, uint32_t deadline_ms, net_loop_fn on_stopped,
                      void *arg);

/* After on_stopped, or inside it.  NULL is fine. */
void net_server_destroy(struct net_server *server);

struct net_server_stats {
    uint64_t accepted;    /* connections since the start */
    uint64_t connections; /* open now */
    uint64_t requests;    /* heads read since the start */
    uint64_t active;      /* requests not yet ended by their handlers */
    uint64_t refused;     /* answered by the server itself (see above) */
    uint64_t gone;        /* requests whose client left early */
};
/* Validity of the server's certificate.  False: the server speaks plain HTTP. Thread: any. */
bool net_server_get_validity(const struct net_server *server, struct net_tls_validity *out);
/* Thread: any. */
void net_server_get_stats(const struct net_server *server, struct net_server_stats *out);

#endif
