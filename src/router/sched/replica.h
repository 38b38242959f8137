/* router/sched/replica.h - a model on a node as the scheduler sees it: its slots, the tickets
 * that hold them, and what it was measured to take.
 *
 * Thread: one at a time, but for what is said to be any thread's.
 */
#ifndef ROUTER_SCHED_REPLICA_H
#define ROUTER_SCHED_REPLICA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct router_ticket;

/* How a node fares, over all its replicas. */
struct router_health {
    uint64_t requests, failures;      /* for metrics */
    uint64_t avoided_until_ms;        /* the node has just failed a ticket */
    _Atomic uint32_t failures_in_row; /* since its last token; any thread */
    bool takes_swaps; /* the node has stopped one generation for another in one step */
};

struct router_replica {
    struct router_health *health; /* of its node */
    uint32_t slots;               /* as the node reported; 0: not known */
    uint32_t inflight;            /* tickets that hold a slot */
    uint32_t preempting;          /* of those, told to leave */
    uint32_t swapped;             /* of those, with another ticket in their slot already */
    uint32_t batch;               /* of inflight, batch tickets that are not swapped */
    struct router_ticket *held;   /* all of inflight, the newest first */
    bool is_full;                 /* said "busy": until a ticket leaves or the node reports */
    bool is_caching;              /* its engine has found a prefix that was computed before */
    double load_ms, prefill_ms, step_ms; /* measured, moving averages; 0: never */
    double prefill_tokens;               /* that prefill_ms stands on; 0: the node's word */
};

/* What a generation taught the router about its replica. */
struct router_measure {
    /* 0: nothing */
    double load_ms;
    double prefill_ms;     /* per prompt token */
    double prefill_tokens; /* that it was measured on */
    double step_ms;        /* per token */
    bool found_cached;     /* a part of its prompt was not computed again */
};

void router_replica_measure(struct router_replica *replica, const struct router_measure *m);

/* The node failed a ticket: it is avoided for a while, longer each time in a row. */
void router_health_fail(struct router_health *health, uint64_t now_ms);
/* The node gave a token.  Any thread. */
void router_health_trust(struct router_health *health);
/* A node that failed is left alone for a while, and then tried with one ticket until that has
 * brought a token: the others do not wait for it to fail them, too. */
bool router_replica_is_doubtful(const struct router_replica *replica, uint64_t now_ms);

#endif
