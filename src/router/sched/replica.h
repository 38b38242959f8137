/* router/sched/replica.h - a replica: a model on a node.  What the node said of it, its slots,
 * the tickets that hold them, and what it was measured to take.
 *
 * Thread: one at a time, but for what is said to be any thread's.
 */
#ifndef ROUTER_SCHED_REPLICA_H
#define ROUTER_SCHED_REPLICA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "llm-router/status.h"

struct router_prompt_info;
struct router_ticket;

enum { ROUTER_ID_MAX = 256, ROUTER_REASON_MAX = 384 };

/* How a node fares, over all its replicas. */
struct router_health {
    uint64_t requests, failures;      /* for metrics */
    uint64_t avoided_until_ms;        /* the node has just failed a ticket */
    _Atomic uint32_t failures_in_row; /* since its last token; any thread */
    bool takes_swaps; /* the node has stopped one generation for another in one step */
};

/* What the requests of a replica came to, for metrics; since the router's start. */
struct router_tally {
    uint64_t requests, failed, cancelled;
    uint64_t prompt_tokens, completion_tokens, cached_tokens;
    uint64_t first_token_us, first_tokens; /* sum and count */
    uint64_t inter_token_us, inter_tokens;
};

struct router_replica {
    /* As the node said last. */
    char id[ROUTER_ID_MAX]; /* of the model, as the node writes it */
    char state[16];
    struct lr_error reason; /* its text "": none */
    char engine[64], runtime[64], architecture[96], format[16];
    char weights[72]; /* fingerprint of the model's files there; "": not known */
    bool can_run;
    bool is_loaded, is_pinned;
    bool is_waiting; /* the node could not load it and tries again: a last resort */
    uint64_t failures, next_try_ms;
    uint32_t slots;             /* 0: not known */
    uint32_t workers;           /* that serve it on the node, each on a device of its own */
    uint32_t live, queued;      /* sequences, of all routers */
    uint64_t kv_used, kv_total; /* bytes of KV memory that requests hold, and that there are */
    uint64_t context_tokens, weight_bytes;
    uint64_t max_context;            /* tokens of one sequence there; 0: not known */
    uint32_t requests;               /* kinds it takes (wire/fleet.h); 0: not known */
    uint64_t kv_bytes;               /* of one whole context; 0: not known */
    struct router_prompt_info *info; /* reference; NULL: none */
    char stops[160]; /* texts of the tokens that end an answer, a JSON array; "": not known */
    uint64_t fetched_bytes, fetch_bytes, fetch_rate; /* of a download under way; else 0 */

    /* This router's. */
    struct router_health *health; /* of its node */
    uint32_t inflight;            /* tickets that hold a slot */
    uint32_t preempting;          /* of those, told to leave */
    uint32_t reserved; /* slots for tickets that were recalled from another replica */
    uint32_t swapped;  /* of those told to leave, with another ticket in their slot already */
    uint32_t batch;    /* of inflight, batch tickets that are not swapped */
    struct router_ticket *held; /* all of inflight, the newest first */
    bool is_full;               /* said "busy": until a ticket leaves or the node reports */
    bool is_caching;            /* its engine has found a prefix that was computed before */
    double load_ms, prefill_ms, step_ms; /* measured, moving averages; 0: never */
    double prefill_tokens;               /* that prefill_ms stands on; 0: the node's word */
    struct router_tally tally;
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
