/* node/workers/blame.h - which requests of a worker that died are suspected, and how each
 * re-enters.
 *
 *   the fatal step had newcomers      the newcomers are suspects: each re-enters as the only
 *                                     newcomer of a step.  A newcomer that was alone in that
 *                                     has a strike.  The others go on at once.
 *   it had none                       all re-enter together and are on probation until they
 *                                     have come WIRE_PROBATION_TOKENS further
 *   again, some on probation          these re-enter in two halves, the second when the first
 *                                     has left probation; a request that is on probation alone
 *                                     has a strike.  The others go on at once.
 *   again within a minute, none is    all re-enter in two halves
 *
 * Pure: no clock, no processes.  Thread: any.
 */
#ifndef NODE_WORKERS_BLAME_H
#define NODE_WORKERS_BLAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/lost.h"

enum { NODE_BLAME_WINDOW_MS = 60000 };

/* What is remembered from one death of a model's worker to the next. */
struct node_blame {
    uint64_t last_death_ms; /* of the last death without newcomers; 0: there was none */
    uint32_t last_cohort;
};

/* A request that was in the worker. */
struct node_victim {
    uint64_t id;           /* in: of the generation */
    enum wire_entry entry; /* in: how it went in.  out: how it goes in again */
    uint32_t cohort;       /* the same */
    bool is_newcomer;      /* in: of the fatal step */
    bool has_entered;      /* in: it was part of an earlier step */
    bool is_on_probation;  /* in */
    bool has_strike;       /* out */
};

void node_blame_decide(struct node_blame *blame, struct node_victim *victims, size_t count,
                       uint64_t now_ms);

#endif
