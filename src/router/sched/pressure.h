/* router/sched/pressure.h - whether more tickets come for a model than it can serve, and how
 * soon its queue has room.
 *
 * A queue is long after a burst, while a model loads or when a node is lost.  Such a queue gets
 * shorter by itself, and only the settings bound it.  It is overload when the queue stays long
 * while slots come free, and more tickets come than begin.  Then no more than
 * ROUTER_OVERLOAD_QUEUE may wait until the overload is over.
 *
 * That number holds at any speed: at nine tenths of the load that a model can serve, its queue
 * is longer than about 20 in one instant of a hundred, whatever its slots and the length of its
 * answers (bench/results/router).  With 12, a ticket that is admitted under overload waits
 * about as long as the unlucky ones of a good day. Thread: one at a time.  Times are the
 * caller's, monotonic.
 */
#ifndef ROUTER_SCHED_PRESSURE_H
#define ROUTER_SCHED_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROUTER_OVERLOAD_QUEUE = 12 };

/*   CALM <--> LONG --> WATCHED --> OVER      LONG and WATCHED: back to CALM when fewer wait
 *     ^                            |
 *     +-- few were refused of late +
 */
enum router_pressure_state {
    ROUTER_CALM,    /* fewer than ROUTER_OVERLOAD_QUEUE wait */
    ROUTER_LONG,    /* more wait: perhaps a burst, which has all come within a second */
    ROUTER_WATCHED, /* more still wait: what comes and what begins is counted */
    ROUTER_OVER,    /* more came than began */
};

struct router_pressure {
    uint64_t slots; /* of all nodes, as the caller saw them last */
    enum router_pressure_state state;
    uint64_t since_ms;             /* of the three counts */
    uint64_t came, begun, refused; /* found no slot; left the queue for a slot; of came */
    uint64_t refused_ms;           /* the last refusal, or when overload began */
    uint64_t begun_ms;             /* the last begin; 0: none yet */
    bool is_moving;                /* others have waited ever since */
    double gap_ms;                 /* between two that begin while others wait: an average */
    uint32_t gaps;                 /* that the average is made of */
};

/* A ticket found no slot, and waits or was refused; `waiting` includes it. */
void router_pressure_came(struct router_pressure *p, bool is_refused, size_t waiting,
                          uint64_t now_ms);
/* A ticket that waited got a slot; `waiting` is how many are left. */
void router_pressure_begun(struct router_pressure *p, size_t waiting, uint64_t now_ms);

/* How many may wait now: `limit`; fewer where the last would wait longer than wait_limit_ms (0:
 * any time); ROUTER_OVERLOAD_QUEUE under overload.  While no slot comes free nothing is known
 * about waits, and it is `limit`. */
size_t router_pressure_limit(struct router_pressure *p, size_t limit, uint64_t wait_limit_ms,
                             uint64_t now_ms);

/* How long it takes until this many of the waiting tickets have begun; 0: not known. */
uint64_t router_pressure_wait_ms(const struct router_pressure *p, size_t count);

#endif
