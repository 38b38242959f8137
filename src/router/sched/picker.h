/* router/sched/picker.h - choose the replica that will serve a ticket.
 *
 * A pure function of what was known at one instant: it owns nothing, keeps no state and
 * reads no clock.  Costs are estimated milliseconds.  Thread: any.
 */
#ifndef ROUTER_SCHED_PICKER_H
#define ROUTER_SCHED_PICKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct router_node;
struct router_replica;

/* One online node that can run the model. */
struct router_candidate {
    /* For the caller: the picker looks at none of these. */
    struct router_node *node;
    struct router_replica *replica;

    bool is_loaded;
    bool is_avoided;   /* has just failed a ticket: only where no other is left */
    bool is_barred;    /* said "busy", or has just failed this very ticket: not now */
    uint32_t slots;    /* sequences its engine takes at once; 0: not known */
    uint32_t active;   /* sequences on it, ours and others' */
    uint32_t inflight; /* ours: what the limit of slots + 2 counts */
    uint32_t batch;    /* of inflight: preempted where a live ticket needs the slot */
    double load_ms;    /* measured or estimated; 0: not known */
    double prefill_ms; /* per prompt token; 0: never measured */
    double step_ms;    /* per generated token; 0: never measured */
    uint64_t weight_bytes;
    double cached; /* share of the prompt that it need not compute, 0 to 1 */
    double cost;   /* out */
};

struct router_demand {
    uint32_t prompt_tokens; /* estimated */
    bool is_within_slots;   /* the room beyond the slots is not for it */
    bool is_batch;          /* nor are the slots of other batch tickets */
};

enum {
    ROUTER_CANDIDATES_MAX = 256, /* more than any fleet of one router */
    ROUTER_SLOTS_BEYOND = 2,  /* sent beyond the slots: a slot that becomes free never waits */
    ROUTER_SLOTS_UNKNOWN = 4, /* assumed until a model's engine has said */
};
#define ROUTER_NOBODY SIZE_MAX

/* Whether it may get one more ticket. */
bool router_has_room(const struct router_candidate *node);

/* Fills the costs of all and gives the index of the cheapest with room, or ROUTER_NOBODY
 * when all are full.  Equal costs go to the first. */
size_t router_pick(struct router_candidate *nodes, size_t count,
                   const struct router_demand *demand);

#endif
