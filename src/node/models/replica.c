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

/* ---- requests ---- */

/* A replica that must make room serves what came before the request that needs it, and
 * what already waited when it was loaded; the rest waits for the next turn. */
static bool may_serve(const struct node_replica *replica, const struct node_generation *request)
{
    if (!replica->is_yielding)
        return true;
    uint64_t until = replica->serve_until_seq;
    for (const struct node_model *m = replica->model->models->first; m != NULL; m = m->next)
        if (m->wants_room && m->wants_room_seq > until)
            until = m->wants_room_seq;
    return request->seq <= until;
}

/* Whether a cohort that goes in by itself is on probation in the worker. */
static bool has_other_cohort(const struct node_worker *worker, uint32_t cohort)
{
    for (const struct node_generation *g = worker->live; g != NULL; g = g->next)
        if (g->attempt.probation != 0 && g->ask.cohort != WIRE_COHORT_TOGETHER &&
            g->ask.cohort != cohort)
            return true;
    return false;
}

/* The rules of node/workers/blame.h. */
static bool may_enter(const struct node_generation *g, const struct node_worker *worker,
                      bool suspect_waits)
{
    switch (g->ask.entry) {
    case WIRE_ENTRY_NEW:
        return !suspect_waits && worker->suspect_count == 0;
    case WIRE_ENTRY_SUSPECT:
        return worker->newcomer_count == 0;
    case WIRE_ENTRY_COHORT:
        return g->ask.cohort == WIRE_COHORT_TOGETHER ||
               !has_other_cohort(worker, g->ask.cohort);
    default:
        return true;
    }
}

/* The first in the queue that may go into the worker now. */
static struct node_generation *next_to_enter(const struct node_replica *replica)
{
    bool suspect_waits = false;
    for (struct node_generation *g = replica->model->queue; g != NULL && may_serve(replica, g);
         g = g->next) {
        if (may_enter(g, replica->worker, suspect_waits))
            return g;
        suspect_waits = suspect_waits || g->ask.entry == WIRE_ENTRY_SUSPECT;
    }
    return NULL;
}

static void dispatch(struct node_replica *replica)
{
    struct node_worker *w = replica->worker;
    uint32_t most = w->need.max_sequences != 0 ? w->need.max_sequences + 2 : 64;
    struct node_generation *g;
    while (w->state == NODE_WORKER_READY && node_worker_load(w) < most &&
           (g = next_to_enter(replica)) != NULL)
        node_generation_submit(g, w);
}

void node_replica_pump(struct node_replica *replica)
{
    const struct node_generation *first;
    if (replica->state == NODE_REPLICA_READY) {
        dispatch(replica);
        first = replica->model->queue;
        if (replica->is_yielding && replica->worker->live_count == 0 &&
            (first == NULL || !may_serve(replica, first)))
            node_replica_drain(replica, "room is needed for another model");
    } else if (replica->state == NODE_REPLICA_DRAINING) {
        node_worker_retire(replica->worker); /* once nothing is live in it */
    }
}
