/* net/conn.h - one TCP connection, plain or TLS: bytes in, bytes out, time limits.
 *
 * Knows nothing of HTTP; server and client build on it.  A connection is read as long as its
 * owner wants data.  The end of a connection that is open but not read would go unnoticed, so
 * the loop polls its TCP state every NET_PEEK_MS. Bytes that the socket does not take at once
 * are queued; the owner limits the queue.  Thread: loop.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "net/internal.h"
#include "net/tls_session.h"

enum { NET_PEEK_MS = 20 };

struct net_conn_events {
    /* Plain text, borrowed for the call.  The owner may close inside. */
    void (*on_data)(void *owner, struct lr_str bytes);
    /* The peer ended or broke the connection: err NULL for a clean end.  Once; the
     * owner closes. */
    void (*on_end)(void *owner, const struct lr_error *err);
    /* The queue is empty: everything was sent. */
    void (*on_drain)(void *owner);
    /* The TLS handshake is done; never called for a plain connection. */
    void (*on_secure)(void *owner);
    /* The deadline set by net_conn_set_deadline has passed. */
    void (*on_deadline)(void *owner);
    /* The handles are closed and the owner frees the memory that holds the connection.  The
     * last callback. */
    void (*on_closed)(void *owner);
};

struct net_conn {
    struct net_loop *loop;
    const struct net_conn_events *events;
    void *owner;
    uv_tcp_t tcp;
    uv_timer_t timer;
    struct net_task
        later; /* reports a failed write, or processes TLS bytes kept while paused */
    struct net_tls_session *tls; /* owned; NULL: plain */
    struct lr_buf out;           /* queued behind the write in flight */
    struct lr_buf flying;        /* being written by libuv */
    uv_write_t write;
    struct net_conn *peek_prev; /* in loop->unread */
    struct net_conn *peek_next;
    uint64_t deadline;         /* loop time; 0: none */
    uint64_t write_deadline;   /* loop time; 0: nothing is queued */
    uint64_t timer_at;         /* when the timer fires; 0: not running */
    uint64_t queued_total;     /* bytes ever queued */
    uint64_t sent_total;       /* bytes the socket took at once, without queueing */
    uint64_t taken_mark;       /* bytes taken from the queue when write_deadline was set */
    uint32_t write_timeout_ms; /* how long the peer may take no byte */
    unsigned handles_open;
    bool is_reading;  /* uv_read_start is in force */
    bool wants_read;  /* the owner wants data */
    bool is_writing;  /* `flying` is in flight */
    bool is_ended;    /* on_end was or will be called */
    bool is_closing;  /* net_conn_close was called */
    bool is_watched;  /* in loop->unread */
    bool is_shutdown; /* our side is closed after the queue */
    bool is_open;     /* the socket is connected */
    bool is_lent;     /* the sending thread has the socket: call net_burst_settle first */
    int broken;       /* uv code of a failed write, reported in the next turn */
};

/* Prepares a connection with handles on the loop.  Next comes net_conn_open (accepted socket),
 * or uv_tcp_connect on conn->tcp and net_conn_established. */
void net_conn_init(struct net_conn *conn, struct net_loop *loop,
                   const struct net_conn_events *events, void *owner,
                   uint32_t write_timeout_ms);
/* Takes over an accepted socket.  On failure the socket is closed and the caller calls
 * net_conn_close. */
int net_conn_open(struct net_conn *conn, int fd);
/* The socket is connected: sets its options and begins to read. */
void net_conn_established(struct net_conn *conn);
/* Begins TLS; takes over the session.  Before net_conn_established. */
void net_conn_secure(struct net_conn *conn, struct net_tls_session *session);

void net_conn_read(struct net_conn *conn, bool wanted);

/* Sends what the socket takes and queues a copy of the rest.  A failure is reported by on_end
 * in a later turn. */
void net_conn_write(struct net_conn *conn, const struct lr_str *parts, unsigned count);
/* Breaks the connection as a failed write does, for lack of memory: nothing more is sent. */
void net_conn_fail(struct net_conn *conn);
size_t net_conn_queued(struct net_conn *conn);
/* Ends our direction once the queue is empty (close_notify and FIN). */
void net_conn_shutdown(struct net_conn *conn);

/* Calls on_deadline after ms; 0 cancels the deadline. */
void net_conn_set_deadline(struct net_conn *conn, uint64_t ms);

/* Closes at once; only on_closed is called after this.  May be called twice. */
void net_conn_close(struct net_conn *conn);

#endif
