/* node/models/replica.h - a copy of a model that requests run on: a worker on a device.
 *
 *   empty --> loading --> ready --> draining --> empty
 *     ^         |  \________|__________^
 *     |_________|___________|                its worker died
 *
 * A replica that is draining takes no new requests; its worker leaves when the last one has
 * ended.  The states of a model's replicas decide the model's state while one of them is not
 * empty.  A reload gives the replica a second worker, the candidate, which replaces the first
 * once the candidate has proven itself; the replica stays ready meanwhile.
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_REPLICA_H
#define NODE_MODELS_REPLICA_H

#include "node/workers/worker.h"

enum node_replica_state {
    NODE_REPLICA_EMPTY,
    NODE_REPLICA_LOADING,
    NODE_REPLICA_READY,
    NODE_REPLICA_DRAINING,
};

/* Per model.  More is a matter of policy: where a second one is loaded, and when. */
enum { NODE_REPLICAS = 1 };

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
/* Does whatever the state allows: submits requests of the model's queue, lets the worker go. */
void node_replica_pump(struct node_replica *replica);

#endif
