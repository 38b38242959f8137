#include "node/models/model.h"

#include <stdio.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/machine.h"
#include "node/models/models.h"
#include "wire/fleet.h"

#define TO(name) LR_STATE(NODE_MODEL_##name)
static const struct lr_machine machine = {
    "model",
    {
        [NODE_MODEL_ABSENT] = {"absent",
                               TO(FETCHING) | TO(VERIFYING) | TO(PRESENT) | TO(FAILED)},
        [NODE_MODEL_FETCHING] = {"fetching", TO(ABSENT) | TO(VERIFYING) | TO(FAILED)},
        [NODE_MODEL_VERIFYING] = {"verifying",
                                  TO(ABSENT) | TO(FETCHING) | TO(PRESENT) | TO(FAILED)},
        [NODE_MODEL_PRESENT] = {"present", TO(ABSENT) | TO(STARTING) | TO(FAILED)},
        [NODE_MODEL_STARTING] = {"starting",
                                 TO(LOADING) | TO(PRESENT) | TO(WAITING) | TO(FAILED)},
        [NODE_MODEL_LOADING] = {"loading", TO(READY) | TO(PRESENT) | TO(DRAINING) |
                                               TO(WAITING) | TO(FAILED)},
        [NODE_MODEL_READY] = {"ready", TO(LOADING) | TO(DRAINING) | TO(PRESENT) | TO(WAITING) |
                                           TO(FAILED)},
        [NODE_MODEL_DRAINING] = {"draining", TO(PRESENT)},
        [NODE_MODEL_WAITING] = {"waiting",
                                TO(ABSENT) | TO(PRESENT) | TO(STARTING) | TO(FAILED)},
        [NODE_MODEL_FAILED] = {"failed", TO(ABSENT) | TO(PRESENT)},
    },
};

const char *node_model_state_name(enum node_model_state state)
{
    return machine.states[state].name;
}

static void set_state(struct node_model *model, enum node_model_state state,
                      const struct lr_error *reason)
{
    struct node_models *models = model->models;
    lr_log_info(NULL, "model.state model=%s from=%s to=%s reason=%s", model->id,
                node_model_state_name(model->state), node_model_state_name(state),
                reason != NULL ? reason->text : "");
    struct lr_json_writer *w = net_bus_begin(models->events, "model");
    LR_JSON_MEMBERS(w, LR_TEXT("model", model->id),
                    LR_TEXT("from", node_model_state_name(model->state)),
                    LR_TEXT("state", node_model_state_name(state)));
    if (reason != NULL)
        wire_event_put_error(w, reason);
    if (reason != NULL)
        lr_json_member_z(w, "code", lr_code_name(reason->code));
    net_bus_send(models->events);
    model->state = state;
    if (state == NODE_MODEL_READY || state == NODE_MODEL_DRAINING || state == NODE_MODEL_FAILED)
        model->is_wanted = false;
    model->reason = reason != NULL ? *reason : (struct lr_error){0};
}

static void refuse_move(struct node_model *model, enum node_model_state state)
{
    struct lr_error err;
    (void)lr_fail(&err, LR_INTERNAL, "the node wanted to move the model from %s to %s: a bug",
                  node_model_state_name(model->state), node_model_state_name(state));
    for (struct node_worker *w = model->workers; w != NULL; w = w->next)
        node_worker_end(w);
    if (model->workers != NULL)
        return;
    set_state(model, NODE_MODEL_FAILED, &err);
    node_model_fail_waiting(model, &err);
}

void node_model_move(struct node_model *model, enum node_model_state state,
                     const struct lr_error *reason)
{
    /* A move to the same state brings another reason. */
    if (state == model->state || lr_machine_allows(&machine, model->id, model->state, state))
        set_state(model, state, reason);
    else
        refuse_move(model, state);
}

void node_model_follow(struct node_model *model, const struct lr_error *reason)
{
    static const struct {
        enum node_replica_state replica;
        enum node_model_state model;
    } order[] = {{NODE_REPLICA_READY, NODE_MODEL_READY},
                 {NODE_REPLICA_LOADING, NODE_MODEL_LOADING},
                 {NODE_REPLICA_DRAINING, NODE_MODEL_DRAINING}};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        for (size_t j = 0; j < NODE_REPLICAS; j++)
            if (model->replicas[j].state == order[i].replica) {
                if (model->state != order[i].model)
                    node_model_move(model, order[i].model, reason);
                return;
            }
}

struct node_worker *node_model_worker(const struct node_model *model)
{
    struct node_worker *found = NULL;
    for (size_t i = 0; i < NODE_REPLICAS; i++) {
        const struct node_replica *r = &model->replicas[i];
        if (found == NULL || (r->state == NODE_REPLICA_READY && !node_worker_has_opened(found)))
            found = r->worker;
    }
    return found;
}

uint64_t node_model_max_context(const struct node_model *model)
{
    const struct node_worker *worker = node_model_worker(model);
    const struct lr_engine_need *need =
        worker != NULL && node_worker_has_opened(worker) ? &worker->need : &model->need;
    uint64_t from_files = model->descriptor != NULL ? model->descriptor->context_tokens : 0;
    return need->max_context != 0 ? need->max_context : from_files;
}

uint32_t node_model_requests(const struct node_model *model)
{
    uint32_t from_files = model->descriptor != NULL ? model->descriptor->requests : 0;
    if (!model->has_need)
        return from_files;
    /* An engine that leaves it 0 generates text. */
    return model->need.requests != 0 ? model->need.requests : 1u << LR_REQUEST_GENERATE;
}

uint32_t node_model_live(const struct node_model *model)
{
    uint32_t live = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        if (model->replicas[i].worker != NULL)
            live += model->replicas[i].worker->live_count;
    return live;
}

void node_model_kv(const struct node_model *model, uint64_t *used, uint64_t *total)
{
    *used = *total = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++) {
        const struct node_worker *w = model->replicas[i].worker;
        if (w == NULL || !node_worker_has_opened(w))
            continue;
        /* An engine may allot its KV memory when requests need it. */
        *used += w->stats.kv_bytes_in_use;
        *total += w->stats.kv_bytes > w->need.kv ? w->stats.kv_bytes : w->need.kv;
    }
}

uint32_t node_model_leases(const struct node_model *model)
{
    return model->queue_count + node_model_live(model);
}

bool node_model_has_demand(const struct node_model *model)
{
    return model->queue != NULL || model->is_wanted;
}

struct node_model *node_find_model(const struct node_models *models, struct lr_str id)
{
    struct node_model *m = models->first;
    while (m != NULL && !lr_str_eq_nocase(lr_str_z(m->id), id))
        m = m->next;
    return m;
}

void node_model_pump(struct node_model *model)
{
    struct lr_error leaving;
    switch (model->state) {
    case NODE_MODEL_PRESENT:
        if (model->queue != NULL && model->models->is_draining) {
            (void)lr_fail_plain(&leaving, node_stops);
            node_model_fail_waiting(model, &leaving);
        } else if (node_model_has_demand(model) && !model->models->is_draining) {
            node_admit(model);
        }
        break;
    case NODE_MODEL_WAITING:
        node_model_pump_waiting(model);
        break;
    default: /* a move that is under way pumps when it has ended */
        node_replicas_dispatch(model);
        for (size_t i = 0; i < NODE_REPLICAS; i++)
            node_replica_pump(&model->replicas[i]);
        break;
    }
}

void node_model_unload(struct node_model *model, const char *because)
{
    if (model->state == NODE_MODEL_WAITING) {
        model->is_wanted = false; /* it is not tried again before somebody asks */
        node_model_move(model, NODE_MODEL_PRESENT, NULL);
    }
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        node_replica_drain(&model->replicas[i], because);
}

void node_model_fail_waiting(struct node_model *model, const struct lr_error *err)
{
    struct lr_error copy = *err; /* err may be the model's own */
    while (model->queue != NULL)
        node_generation_fail(model->queue, &copy, true);
}
