/* net/client_internal.h - clients, their connections, their calls.
 *
 * A client owns its connections and calls.  A connection serves one call at a time or waits in
 * the pool; a call has at most one connection.  A connection frees itself when its handles are
 * closed; a call is freed at the end of the turn in which it is done or cancelled.
 */
#ifndef NET_CLIENT_INTERNAL_H
#define NET_CLIENT_INTERNAL_H

#include "net/body.h"
#include "net/client.h"
#include "net/conn.h"
#include "net/head.h"
#include "net/url.h"

struct client_conn;
struct client_resolve;

struct net_client {
    struct net_loop *loop;           /* borrowed */
    struct net_client_config config; /* defaults filled in */
    struct net_tls *tls;             /* owned; NULL until https needs it */
    struct client_conn *idle;        /* the pool, most recently used first */
    struct net_call *calls;          /* all calls that are not over */
    struct net_client_stats stats;
};

struct client_conn {
    struct net_conn conn;      /* first */
    struct net_client *client; /* NULL once the client is destroyed */
    struct net_call *call;     /* NULL: in the pool, or closing */
    struct client_conn *prev;  /* in client->idle */
    struct client_conn *next;
    uv_connect_t connect;
    bool is_idle;
    bool is_reused;
    char origin[288];
};

enum call_state {
    CALL_STARTING,   /* waits for the next turn */
    CALL_CONNECTING, /* name, TCP, TLS */
    CALL_HEAD,       /* sending, or waiting for the answer's head */
    CALL_BODY,       /* reading the answer */
    CALL_OVER,       /* done or cancelled; freed at the end of the turn */
};

struct net_call {
    struct net_client *client;
    struct net_call *prev; /* in client->calls */
    struct net_call *next;
    enum call_state state;
    struct net_call_callbacks callbacks;
    struct net_url url;
    char method[16];
    bool stream_body;
    bool wants_upgrade;
    bool body_ended; /* the request is complete (at once unless stream_body) */
    bool is_paused;
    bool was_retried;
    bool got_bytes; /* of an answer */
    uint64_t max_response_bytes;
    uint64_t max_send_bytes;
    bool (*may_connect)(void *arg, const char *address); /* NULL: every address is allowed */
    void *may_connect_arg;
    uint32_t connect_timeout_ms;
    uint32_t response_timeout_ms;
    uint32_t idle_timeout_ms;
    struct lr_buf request;   /* head and body, until an answer begins */
    struct net_timer *timer; /* of connecting */
    struct net_task go_on;   /* starts the call; later: processes bytes kept while paused */
    struct client_resolve *resolve; /* shared with libuv's thread until it reports */
    struct addrinfo *addresses;     /* owned, of uv_getaddrinfo */
    const struct addrinfo *next_address;
    struct lr_error last_error; /* of the address tried last */
    struct client_conn *conn;
    uint64_t sent_mark; /* conn->sent_total + queued_total when the call began */
    struct lr_buf in;   /* part of a head, or bytes kept while paused */
    struct net_head_scan scan;
    struct lr_arena arena; /* the answer's head */
    struct net_head head;
    struct net_body body;
    void *owned; /* of net_fetch, freed with the call */
    void (*free_owned)(void *owned);
};

/* ---- client_dial.c ---- */
/* Gives the call a new connection; ends in net_call_connected or net_call_fail. */
void net_client_dial(struct net_call *call);
void net_client_dial_cancel(struct net_call *call);

/* ---- client.c (the pool) ---- */
struct client_conn *net_client_conn_create(struct net_call *call); /* NULL: no memory */
struct client_conn *net_client_take_idle(struct net_client *client, const char *origin);
/* Separates the connection from its call and puts it into the pool or closes it. */
void net_client_conn_release(struct client_conn *cc, bool keep);
lr_code net_client_need_tls(struct net_client *client, struct lr_error *err);

/* ---- call.c ---- */
void net_call_connected(struct net_call *call);
void net_call_fail(struct net_call *call, lr_code code, const char *why);
void net_call_on_data(struct net_call *call, struct lr_str bytes);
void net_call_on_end(struct net_call *call, const struct lr_error *err);
void net_call_on_drain(struct net_call *call);
void net_call_on_deadline(struct net_call *call);

#endif
