#include "node/models/replica.h"

#include <stdio.h>

#include "base/machine.h"
#include "node/models/models.h"

#define TO(name) LR_STATE(NODE_REPLICA_##name)
static const struct lr_machine machine = {
    "replica",
    {
        [NODE_REPLICA_EMPTY] = {"empty", TO(LOADING)},
        [NODE_REPLICA_LOADING] = {"loading", TO(READY) | TO(DRAINING) | TO(EMPTY)},
        [NODE_REPLICA_READY] = {"ready", TO(DRAINING) | TO(EMPTY)},
        [NODE_REPLICA_DRAINING] = {"draining", TO(EMPTY)},
    },
};

void node_replica_move(struct node_replica *replica, enum node_replica_state state,
                       const struct lr_error *reason)
{
    if (!lr_machine_allows(&machine, replica->model->id, replica->state, state)) {
        if (replica->worker != NULL)
            node_worker_end(replica->worker);
        if (replica->candidate != NULL)
            node_worker_end(replica->candidate);
        return;
    }
    replica->state = state;
    if (state == NODE_REPLICA_EMPTY)
        replica->is_yielding = false;
    node_changed(replica->model->models);
    node_model_follow(replica->model, reason);
}

lr_code node_replica_load(struct node_replica *replica, uint32_t pool, struct lr_error *err)
{
    struct node_model *model = replica->model;
    replica->pool = pool;
    lr_code code = node_worker_start(replica, model->engine->library, model->need.total,
                                     &replica->worker, err);
    if (code == LR_OK)
        node_replica_move(replica, NODE_REPLICA_LOADING, NULL);
    return code;
}

void node_replica_opened(struct node_replica *replica)
{
    struct node_models *models = replica->model->models;
    replica->ready_since_ms = node_now(models);
    replica->serve_until_seq = models->next_seq;
    replica->is_swapping = false;
    node_replica_move(replica, NODE_REPLICA_READY, NULL);
    node_model_pump(replica->model);
}

void node_replica_drain(struct node_replica *replica, const char *because)
{
    struct lr_error why = {.code = LR_OK};
    if (replica->state != NODE_REPLICA_READY && replica->state != NODE_REPLICA_LOADING)
        return;
    (void)snprintf(why.text, sizeof(why.text), "%s", because);
    replica->is_yielding = false;
    node_replica_move(replica, NODE_REPLICA_DRAINING, &why);
    if (replica->candidate != NULL)
        node_worker_end(replica->candidate);
    node_worker_retire(replica->worker);
}

void node_replica_pump(struct node_replica *replica)
{
    struct node_model *model = replica->model;
    if (replica->state == NODE_REPLICA_READY) {
        if (replica->is_yielding && replica->worker->live_count == 0 &&
            (model->queue == NULL || !node_replica_may_serve(replica, model->queue))) {
            node_scale_gave(&model->scale, node_now(model->models));
            node_replica_drain(replica, "room is needed for another model");
        }
    } else if (replica->state == NODE_REPLICA_DRAINING) {
        node_worker_retire(replica->worker); /* once nothing is live in it */
    }
}

void node_replica_served(struct node_replica *replica)
{
    if (replica->breaker.failures != 0)
        node_breaker_succeeded(&replica->breaker);
    node_model_served(replica->model);
}
