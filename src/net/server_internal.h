/* net/server_internal.h - the server's parts: one per loop, its connections, its requests.
 *
 * A part owns its connections; a connection is freed when its handles are closed.  A request is
 * freed when it has been ended: by its handler once the handler has it, before that by the
 * connection.  Either may outlive the other: the pointers between them are cleared on both
 * sides at the same time (net_server_conn_detach).
 */
#ifndef NET_SERVER_INTERNAL_H
#define NET_SERVER_INTERNAL_H

#include "net/body.h"
#include "net/conn.h"
#include "net/head.h"
#include "net/seats.h"
#include "net/server.h"

struct server_part;

struct net_server {
    struct net_server_config config; /* defaults filled in; host is not kept */
    struct net_loops *loops;         /* borrowed until on_stopped */
    struct net_tls *tls;             /* owned reference; NULL: plain */
    struct server_part *parts;       /* owned, one per loop */
    unsigned part_count;
    struct net_seats seats;
    struct net_listeners listeners; /* shared by the parts; the last to stop polling closes
                                       them */
    _Atomic bool is_leaving;        /* another process accepts the waiting connections */
    net_loop_fn on_stopped;
    void *on_stopped_arg;
    uint32_t stop_deadline_ms;
    _Atomic unsigned parts_polling;
    _Atomic unsigned holds; /* parts not stopped, connections between two loops */
    _Atomic uint64_t accepted;
    _Atomic uint64_t connections;
    _Atomic uint64_t requests;
    _Atomic uint64_t active;
    _Atomic uint64_t refused;
    _Atomic uint64_t gone;
};

struct server_part {
    struct net_server *server;          /* borrowed */
    struct net_loop *loop;              /* borrowed */
    uv_poll_t polls[NET_LISTENERS_MAX]; /* of the shared sockets */
    unsigned polling;                   /* of polls, not closed */
    struct net_timer *pause;            /* owned: out of descriptors, accept again later */
    struct net_timer *cut;              /* owned: the deadline of a stop */
    struct server_conn *conns;          /* owned */
    _Atomic uint32_t load;              /* connections here and on their way to this loop */
    uint64_t active;                    /* requests not ended */
    uint64_t warned_ms;                 /* when a connection was last refused */
    bool is_stopping;
    bool is_deaf;    /* the listening sockets are closed: no new connection comes */
    bool is_cut;     /* the deadline of a stop has passed */
    bool is_stopped; /* on_stopped was reported */
};

struct server_conn {
    struct net_conn conn; /* first: owned */
    struct net_seat seat;
    struct server_part *part;
    struct server_conn *prev;
    struct server_conn *next;
    struct net_request *req;   /* the request being read or answered */
    struct lr_buf in;          /* unprocessed bytes: part of a head, pipelined requests */
    struct net_head_scan scan; /* how far the guard has checked */
    struct net_task go_on;     /* processes the bytes in `in` */
    bool is_processing;        /* server_conn_process is on the stack */
    bool head_begun;           /* part of a head has come and its deadline runs */
    bool is_lingering;         /* the last answer was sent; input is dropped */
    bool close_when_drained;
    bool has_served;   /* at least one request was answered */
    bool is_told;      /* the report that its seat is lost has arrived */
    bool is_forgotten; /* closed; the report on its way frees it */
    bool is_unix;
    char remote[46];
};

enum request_state {
    REQUEST_HEAD,    /* on_head runs; the body has not been read */
    REQUEST_BODY,    /* the body is being read */
    REQUEST_RUNNING, /* everything was read */
    REQUEST_ENDED,   /* freed at the end of the turn */
};

enum response_state {
    RESPONSE_NONE,
    RESPONSE_BEGUN, /* a stream; its head may wait in pending_head */
    RESPONSE_ENDED,
};

struct net_request {
    struct server_conn *conn; /* NULL once the client has gone */
    struct server_part *part;
    struct lr_arena arena;
    struct net_head head;
    struct lr_str path; /* decoded */
    struct net_body body;
    uint64_t body_limit;
    uint64_t body_begun_ms; /* loop time */
    struct lr_buf collected;
    struct net_body_sink sink;
    void *user;
    void (*on_gone)(void *arg);
    void *on_gone_arg;
    void (*on_drain)(void *arg);
    void *on_drain_arg;
    struct net_task gone_task;
    struct lr_buf extra;        /* header lines of the answer */
    struct lr_str pending_head; /* in the arena, not sent yet */
    uint64_t started_ms;
    uint64_t bytes_sent;
    size_t unread; /* bytes that the client left in the queue when it went */
    int status;
    enum request_state state;
    enum response_state response;
    bool is_owned;    /* the handler has the request and will end it */
    bool is_streamed; /* the body goes to sink */
    bool is_paused;
    bool is_gone;
    bool is_upgraded; /* no longer HTTP: bytes both ways until one side ends the connection */
    bool is_head_method;
    bool is_chunked;  /* the answer */
    bool keeps_alive; /* the connection, after the answer */
    bool is_tls;
    char remote[46];
};

/* ---- server_conn.c ---- */
/* The connection is counted for peer.  A Unix socket's connection has no TLS.  False: no
 * memory, and descriptor and seat stay with the caller. */
bool net_server_conn_create(struct server_part *part, int fd, bool is_unix, const char *remote,
                            struct net_peer *peer);
/* The connection has lost its seat: closes it if it is still idle.  Called once, on its
 * loop. */
void net_server_conn_make_room(struct server_conn *sc);
/* Separates a connection from its request. */
void net_server_conn_detach(struct server_conn *sc);
void net_server_conn_close(struct server_conn *sc);
/* The answer was sent: next request, or linger and close. */
void net_server_conn_answered(struct server_conn *sc, bool keep_alive);
void net_server_conn_update_reading(struct server_conn *sc);

/* ---- server.c ---- */
void net_server_part_check_stopped(struct server_part *part);

/* ---- request.c ---- */
struct net_request *net_server_request_create(struct server_conn *sc); /* NULL: no memory */
void net_server_request_set_gone(struct net_request *req);
/* Ends the request: on_end, counters, delayed freeing.  The connection is detached before. */
void net_server_request_end(struct net_request *req);

/* ---- response.c ---- */
/* Sends an answer of the server itself, with an error body, on a connection without a
 * request. */
void net_server_send_refusal(struct server_conn *sc, int status, const struct lr_error *err,
                             struct lr_str path, bool is_head_method);

#endif
