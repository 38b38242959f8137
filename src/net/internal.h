/* net/internal.h - shared by the files of net only: the inside of a loop, deferred tasks, small
 * allocations. */
#ifndef NET_INTERNAL_H
#define NET_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <uv.h>

#include "base/buf.h"
#include "net/loop.h"

/* A call deferred to the next turn, embedded in its object: queueing allocates nothing, and the
 * object cancels its task when it is destroyed.  Thread: loop. */
struct net_task {
    net_loop_fn fn;
    void *arg;
    struct net_task *prev; /* in the loop's ring, NULL when not queued */
    struct net_task *next;
};

struct net_burst;
struct net_conn;

enum {
    /* Size of one read; large enough that a body of a megabyte takes few turns. */
    NET_READ_BYTES = 64 * 1024,
};

struct net_loop {
    uv_loop_t uv;
    uv_async_t wakeup;    /* a call was posted, or stop was requested */
    uv_prepare_t prepare; /* frees buried objects before the loop sleeps */
    uv_check_t check;     /* ... and after it has worked */
    uv_idle_t idle;       /* active while tasks wait, so that the loop does not sleep */
    uv_timer_t peek;      /* polls connections that are open but not read (conn.c) */

    uv_mutex_t mutex;     /* guards the queue of posted calls */
    struct posted *first; /* owned */
    struct posted **last;
    _Atomic bool is_stopping;

    struct posted *graveyard; /* owned */
    struct net_task tasks;    /* head of the ring */
    struct net_timer *timers; /* all timers that are not closed yet */
    struct net_signal *signals;
    struct net_conn *unread; /* connections that the peek timer polls */
    struct net_burst *burst; /* owned; NULL: no sending thread */

    struct lr_buf scratch;              /* for assembling heads */
    time_t date_at;                     /* second for which date is valid */
    char date[32];                      /* "Sun, 06 Nov 1994 08:49:37 GMT" */
    char read_buffer[NET_READ_BYTES];   /* shared: a read is processed before the next */
    char decrypt_buffer[16 * 1024 + 1]; /* one TLS record of plain text */
};

void net_task_init(struct net_task *task, net_loop_fn fn, void *arg);
void net_task_queue(struct net_loop *loop,
                    struct net_task *task); /* queued once, however often called */
void net_task_cancel(struct net_loop *loop, struct net_task *task);

/* The value of the Date header, built once a second. */
const char *net_loop_date(struct net_loop *loop);

#endif
