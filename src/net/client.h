/* net/client.h - HTTP/1.1 client: calls to other servers from a loop, on pooled connections.
 *
 * A client belongs to one loop and keeps idle connections per origin.  A call runs on_headers
 * once, on_body any number of times, and on_done exactly once, last.  A cancelled call runs no
 * further callback.  The call is freed when on_done returns.  No callback runs inside
 * net_call_start.  Thread: the client's loop.
 */
#ifndef NET_CLIENT_H
#define NET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/str.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/tls.h"

struct net_client;
struct net_call;

/* Zero in a number means its default, given in brackets. */
struct net_client_config {
    struct net_tls *tls; /* for https; NULL: the system's trusted CAs, loaded at first use */
    uint32_t max_idle_per_origin; /* [32] */
    uint32_t idle_timeout_ms;     /* [50 s] an unused connection is closed; less than the
                                     server's, so that we close first */
};

LR_MUST_USE lr_code net_client_create(struct net_loop *loop,
                                      const struct net_client_config *config,
                                      struct net_client **out, struct lr_error *err);
/* Cancels every call and closes every connection.  NULL is fine. */
void net_client_destroy(struct net_client *client);

struct net_call_callbacks {
    void *arg;
    /* The final answer's head (1xx are skipped).  Optional.  Headers live until on_done. */
    void (*on_headers)(void *arg, int status, struct net_headers headers);
    /* Body bytes without chunk framing, borrowed for the call.  Optional. */
    void (*on_body)(void *arg, struct lr_str bytes);
    /* The queue of a streamed request body has become empty: more may be written.  Optional. */
    void (*on_drain)(void *arg);
    /* err NULL: the answer is complete, whatever its status.  Otherwise
     *   UPSTREAM   the transport failed: name, connection, TLS, a malformed or cut answer
     *   TIMEOUT    one of the times below
     *   TOO_LARGE  max_response_bytes, or a head over 32 KB
     * and the text names the origin and what went wrong.  Required. */
    void (*on_done)(void *arg, const struct lr_error *err);
};

/* Strings and headers are borrowed for net_call_start. */
struct net_call_config {
    const char *method;               /* NULL: GET, or POST with a body */
    const char *url;                  /* http://host[:port]/path?query or https://... */
    const struct net_header *headers; /* beside Host, Content-Length, Connection */
    size_t header_count;
    const char *bearer;       /* "Authorization: Bearer ..."; NULL: none */
    const char *content_type; /* NULL: none */
    struct lr_str body;       /* sent whole; copied */
    bool stream_body;         /* chunked; net_call_write and net_call_end_body follow */
    /* Asks for another protocol (HTTP Upgrade). on_headers with status 101: from here on the
     * connection is a stream of bytes; net_call_write sends, on_body receives, on_done reports
     * the server's end.  Any other status is an ordinary answer.  NULL: no upgrade. */
    const char *upgrade;
    uint64_t max_response_bytes; /* [unlimited] of body */
    uint64_t max_send_bytes;     /* [1 MB] queued by net_call_write */
    /* Optional: called for each address of the host before a connection is made, not for a
     * pooled connection.  False refuses the address.  `may_connect_arg` must live until
     * on_done. */
    bool (*may_connect)(void *arg, const char *address);
    void *may_connect_arg;
    uint32_t connect_timeout_ms;  /* [10 s] name, TCP and TLS together */
    uint32_t response_timeout_ms; /* [60 s] from the request's last byte to the answer's head */
    uint32_t idle_timeout_ms;     /* [60 s] between two pieces of the answer's body */
    struct net_call_callbacks callbacks;
};

/* INVALID_ARGUMENT for a URL, method or header that cannot be sent.  All other errors are
 * reported by on_done.  If a pooled connection turns out to have died before any answer, the
 * call silently retries once on another connection; the body must not be streamed, and the
 * method must be idempotent or nothing of the request sent. */
LR_MUST_USE lr_code net_call_start(struct net_client *client,
                                   const struct net_call_config *config, struct net_call **out,
                                   struct lr_error *err);

/* No callback runs after this, and the connection is closed.  May be called inside a callback
 * (the call is freed when the callback returns), but not after on_done. */
void net_call_cancel(struct net_call *call);

/* Back-pressure: a paused socket is not read, and the idle timeout is suspended. */
void net_call_pause(struct net_call *call);
void net_call_resume(struct net_call *call);

/* For stream_body, and after an upgrade.  TOO_LARGE: the queue would exceed max_send_bytes,
 * nothing was taken, wait for on_drain.  CANCELLED: the call is over or its body was ended. */
LR_MUST_USE lr_code net_call_write(struct net_call *call, struct lr_str bytes);
/* Bytes taken by net_call_write that the socket has not taken yet. */
size_t net_call_queued(const struct net_call *call);
void net_call_end_body(struct net_call *call);

/* ---- a whole answer at once ---- */

struct net_reply {
    int status;
    struct net_headers headers;
    struct lr_str body;
};
/* err as in on_done; reply is NULL then.  Both are borrowed for the call. */
typedef void (*net_fetch_fn)(void *arg, const struct lr_error *err,
                             const struct net_reply *reply);

/* Like net_call_start, but collects the answer, at most config->max_response_bytes [16 MB];
 * config->callbacks is not used.  *out may be cancelled until fn was called; fn and out may be
 * NULL. */
LR_MUST_USE lr_code net_fetch(struct net_client *client, const struct net_call_config *config,
                              net_fetch_fn fn, void *arg, struct net_call **out,
                              struct lr_error *err);

/* ---- for tests and metrics ---- */
struct net_client_stats {
    uint64_t connections_opened; /* since the start */
    uint64_t connections_reused;
    uint64_t idle;  /* now */
    uint64_t calls; /* now */
};
void net_client_get_stats(const struct net_client *client, struct net_client_stats *out);

#endif
