/* router/sched/counting.h - which request that counts tokens goes to a node next.
 *
 * Counting takes no slot, and a node has one process for it (docs/adr/0095).  So a few requests
 * of a model are with nodes at a time, and the others wait: turn by turn between keys, as
 * tickets do (queue.h).  A full queue takes a request of a key that has fewer there, and gives
 * up the newest of the key with the most.
 *
 *   NEW --room--> RUNNING --answered--> OVER
 *    |               ^
 *    +--> WAITING ---+--pushed out, or too late--> REFUSED --> OVER
 *            +--the client left--> OVER
 *
 * Moves of a count:
 *   new -> waiting, running
 *   waiting -> running, refused, over
 *   running -> over
 *   refused -> over
 *   over -> nothing
 *
 * Thread: one at a time.  Times are the caller's, monotonic.
 */
#ifndef ROUTER_SCHED_COUNTING_H
#define ROUTER_SCHED_COUNTING_H

#include "base/fail.h"
#include "router/sched/queue.h"

enum {
    ROUTER_COUNTS_RUNNING = 2, /* one is counted while the next one is on its way */
    ROUTER_COUNTS_WAITING = 64,
    ROUTER_COUNTS_WAIT_MS = 30000,
};

enum router_count_state {
    ROUTER_COUNT_NEW,
    ROUTER_COUNT_WAITING,
    ROUTER_COUNT_RUNNING,
    ROUTER_COUNT_REFUSED,
    ROUTER_COUNT_OVER,
};

/* Of one model.  All zero: empty. */
struct router_counting {
    struct router_queue waiting;
    uint32_t running;
};

/* A request; zeroed, and key and waiter.bytes are set. */
struct router_count_ask {
    struct router_waiter waiter; /* first */
    uint64_t key;
    uint64_t since_ms;
    enum router_count_state state;
};

/* The request runs now, or waits.  *pushed_out: another request that is refused for it; or
 * NULL.  RATE_LIMITED: too many wait, and the request stays new. */
LR_MUST_USE lr_code router_counting_enter(struct router_counting *counting,
                                          struct router_count_ask *ask, size_t bytes_max,
                                          uint64_t now_ms, struct router_count_ask **pushed_out,
                                          struct lr_error *err);
/* The request is over, whatever its state. */
void router_counting_leave(struct router_counting *counting, struct router_count_ask *ask);
/* A request that waits no more: it runs, or it is refused because it waited too long.  NULL:
 * none for now; else call again. */
struct router_count_ask *router_counting_next(struct router_counting *counting,
                                              uint64_t now_ms);

#endif
