/* router/relay/fact.h - what happens to a call, told once to everything that measures.
 *
 * call.c and generation.c tell facts.  The table in observers.c lists which observers take a
 * fact, in which order:
 *
 *   observers.c  counters and histograms of GET /metrics, the history of figures
 *   usage.c      usage record, budget and rate of the key, sums by key, tally of the replica
 *   traced.c     spans
 *   logged.c     the request log
 *
 * A fact is told before the call and its generation change: an observer sees both as they were.
 * What several observers would derive from a fact (bucket of a time) is in the fact.
 * Thread: the call's loop.
 */
#ifndef ROUTER_RELAY_FACT_H
#define ROUTER_RELAY_FACT_H

#include "router/sched/sched.h"

struct router_call;
struct router_generation;
struct wire_frame;

enum router_fact_kind {
    ROUTER_FACT_ARRIVED, /* the request; nothing of it is parsed */
    ROUTER_FACT_NAMED,   /* its model was found, or not; the router's lock is held */
    ROUTER_FACT_VALID,
    ROUTER_FACT_QUEUED,      /* a generation waits for a slot */
    ROUTER_FACT_SENT,        /* a generation has a slot; its attempt begins */
    ROUTER_FACT_HEARD,       /* an event of the node; not a token, not a vector */
    ROUTER_FACT_FIRST_TOKEN, /* or vector, of an attempt */
    ROUTER_FACT_TOKEN,       /* further ones */
    ROUTER_FACT_LEFT,        /* an attempt ends, or a generation that waits */
    ROUTER_FACT_ENDED,       /* the client's answer */
    ROUTER_FACT_COUNTED,     /* call->usage is complete */
    ROUTER_FACT_FREED,       /* no node will say more about the call */
    ROUTER_FACTS,
};

struct router_fact {
    enum router_fact_kind kind;
    struct router_call *call;             /* borrowed */
    struct router_generation *generation; /* borrowed; QUEUED to LEFT */
    uint64_t at_ns;                       /* monotonic; QUEUED to LEFT, and ENDED */
    struct lr_str name;                   /* NAMED: the model, in the client's words */

    const struct wire_frame *event; /* borrowed; HEARD */

    /* FIRST_TOKEN, TOKEN */
    uint64_t took_ns; /* since the request began, or since the token before */
    size_t bucket;    /* of took_ns (figures/metrics.h) */
    uint32_t tokens;  /* 0: a vector */

    enum router_outcome outcome; /* LEFT */
    int status;                  /* ENDED: that the log has */
    lr_code code;                /* ENDED: LR_OK, or why the answer failed */
    const struct lr_error *why;  /* borrowed; LEFT and ENDED; NULL: it needs no reason */
};

void router_tell(const struct router_fact *fact);

/* Once a second: figures of answers that are under way go to the history, so that tokens count
 * in the second in which they came. */
struct router_relay;
void router_observe_second(struct router_relay *relay);

#endif
