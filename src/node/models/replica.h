/* node/models/replica.h - a copy of a model that requests run on: a worker on a device.
 *
 *   empty --> loading --> ready --> draining --> empty
 *     ^         |  \________|__________^
 *     |_________|___________|                its worker died
 *
 * Moves of a replica:
 *   empty -> loading
 *   loading -> ready, draining, empty
 *   ready -> draining, empty
 *   draining -> empty
 *
 * A replica that is draining takes no new requests; its worker leaves when the last one has
 * ended.  The states of a model's replicas decide the model's state while one of them is not
 * empty.  A reload gives the replica a second worker, the candidate, which replaces the first
 * once the candidate has proven itself; the replica stays ready meanwhile.
 *
 * The replicas of a model share its queue.  While one of them serves, the death of another one
 * is the death of a replica and not of the model: its requests continue on the others, and it
 * is loaded again.  An extra replica is loaded only where memory is free, and is the first to
 * go when another model needs the memory (docs/replicas.md).
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_REPLICA_H
#define NODE_MODELS_REPLICA_H

#include "node/models/breaker.h"
#include "node/workers/worker.h"

enum node_replica_state {
    NODE_REPLICA_EMPTY,
    NODE_REPLICA_LOADING,
    NODE_REPLICA_READY,
    NODE_REPLICA_DRAINING,
};

enum {
    NODE_REPLICAS = 16,     /* of one model, at most */
    NODE_REPLICAS_AUTO = 0, /* as many as the traffic asks for (node/models/scale.h) */
};

struct node_replica {
    struct node_model *model;
    enum node_replica_state state;
    uint32_t pool;                 /* the device: whose memory its worker uses */
    struct node_worker *worker;    /* serves or loads; NULL: EMPTY */
    struct node_worker *candidate; /* of a reload; NULL: none */
    uint64_t ready_since_ms;
    uint64_t serve_until_seq; /* when fresh, it serves these before it may be evicted */
    bool is_yielding; /* it is to make room: serves those that came before, then drains */
    bool is_swapping; /* a reload had to drain the old worker first */
    struct node_breaker breaker; /* of its own failures, while other replicas serve */
};

/* The only function that changes the state; the model's state follows.  An illegal move ends
 * the workers, and the replica is empty when they have.  reason may be NULL. */
void node_replica_move(struct node_replica *replica, enum node_replica_state state,
                       const struct lr_error *reason);

/* Starts a worker on the device `pool`: EMPTY to LOADING. */
LR_MUST_USE lr_code node_replica_load(struct node_replica *replica, uint32_t pool,
                                      struct lr_error *err);
/* The worker has opened the model. */
void node_replica_opened(struct node_replica *replica);
/* Lets the worker finish and go.  Nothing for a replica that neither loads nor serves. */
void node_replica_drain(struct node_replica *replica, const char *because);
/* Lets the worker go where the state allows it. */
void node_replica_pump(struct node_replica *replica);
/* The worker gave a token, or ended an answer well. */
void node_replica_served(struct node_replica *replica);
/* The worker has died while other replicas of the model serve or leave. */
void node_replica_lost(struct node_replica *replica, bool was_loading, bool was_busy,
                       const struct lr_error *how);

/* ---- all replicas of a model (replicas.c) ---- */

/* "auto" or a number from 1 to NODE_REPLICAS. */
LR_MUST_USE lr_code node_replicas_parse(struct lr_str text, uint32_t *out,
                                        struct lr_error *err);
/* Sends requests of the model's queue to its replicas, each to the replica that can begin
 * first: by what the replica has to do, and by the prefixes that it has computed. */
void node_replicas_dispatch(struct node_model *model);
/* How many serve; what these can hold, and hold. */
uint32_t node_replicas_ready(const struct node_model *model);
uint32_t node_replicas_slots(const struct node_model *model);
uint32_t node_replicas_load(const struct node_model *model);
/* A replica that makes room for another model serves older requests only. */
bool node_replica_may_serve(const struct node_replica *replica,
                            const struct node_generation *request);
/* Another replica of the model serves. */
bool node_replica_is_extra(const struct node_replica *replica);
/* Loads one more replica, where memory is free for it. */
void node_replicas_add(struct node_model *model);
/* Loads and drains replicas until there are as many as are wanted.  Often. */
void node_replicas_watch(struct node_models *models, uint64_t now_ms);

#endif
