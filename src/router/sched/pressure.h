/* router/sched/pressure.h - whether more comes for a model than it can serve, and how soon its
 * queue has room.
 *
 * A queue is long after a burst, while a model loads or when a node is lost; then it gets
 * shorter, and who waits in it is served: only the settings bound it.  It is overload when the
 * queue stays long while slots come free, and more come than begin.  Then no more than
 * ROUTER_STANDING may wait until that is over.
 *
 * That number needs no speed.  Of a service at nine tenths of what it can do the queue is
 * longer than about 20 in one instant of a hundred, whatever its slots and its answers' length
 * (bench/results/router): with 12 who is admitted under any overload waits about as long as
 * the unlucky of a good day.
 * Thread: the router's lock is held.  Times are the caller's, monotonic.
 */
#ifndef ROUTER_SCHED_PRESSURE_H
#define ROUTER_SCHED_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROUTER_STANDING = 12 };

enum router_pressure_state {
    ROUTER_CALM,    /* fewer than ROUTER_STANDING wait */
    ROUTER_LONG,    /* more: perhaps a burst, which has all come within a second */
    ROUTER_WATCHED, /* still: counts who comes and who begins */
    ROUTER_OVER,    /* more came than began */
};

struct router_pressure {
    uint64_t slots; /* of all nodes, as the caller saw them last */
    enum router_pressure_state state;
    uint64_t since_ms; /* the counts' */
    uint64_t came, begun,
        refused;         /* found no slot; left the queue for one; of those who came */
    uint64_t refused_ms; /* the last one, or when overload began */
    uint64_t begun_ms;   /* the last one; 0: nobody yet */
    bool is_moving;      /* others have waited ever since */
    double gap_ms;       /* between two that begin while others wait: an average */
    uint32_t gaps;       /* it is made of */
};

/* A request found no slot, and waits or was refused; `waiting` includes it. */
void router_pressure_came(struct router_pressure *p, bool is_refused, size_t waiting,
                          uint64_t now_ms);
/* One that waited got a slot; `waiting` is what is left. */
void router_pressure_begun(struct router_pressure *p, size_t waiting, uint64_t now_ms);

/* How many may wait now: `limit`, fewer where the last would wait longer than wait_limit_ms
 * (0: no matter), ROUTER_STANDING under overload.  While no slot comes free at all nothing is
 * known about waits, and it is `limit`. */
size_t router_pressure_limit(struct router_pressure *p, size_t limit, uint64_t wait_limit_ms,
                             uint64_t now_ms);

/* How long it takes until this many of those who wait have begun; 0: not known. */
uint64_t router_pressure_wait_ms(const struct router_pressure *p, size_t count);

#endif
