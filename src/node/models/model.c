#include "node/models/model.h"

#include <inttypes.h>
#include <stdio.h>

#include "node/fetch/storage.h"
#include "node/state.h"

/* Bit i of moves[s]: state i may follow s. */
#define M(name) (1u << NODE_MODEL_##name)
static const uint32_t moves[] = {
    [NODE_MODEL_ABSENT] = M(FETCHING) | M(VERIFYING) | M(PRESENT) | M(FAILED),
    [NODE_MODEL_FETCHING] = M(ABSENT) | M(VERIFYING) | M(FAILED),
    [NODE_MODEL_VERIFYING] = M(ABSENT) | M(FETCHING) | M(PRESENT) | M(FAILED),
    [NODE_MODEL_PRESENT] = M(ABSENT) | M(STARTING) | M(FAILED),
    [NODE_MODEL_STARTING] = M(LOADING) | M(PRESENT) | M(WAITING) | M(FAILED),
    [NODE_MODEL_LOADING] = M(READY) | M(PRESENT) | M(DRAINING) | M(WAITING) | M(FAILED),
    [NODE_MODEL_READY] = M(DRAINING) | M(PRESENT) | M(WAITING) | M(FAILED),
    [NODE_MODEL_DRAINING] = M(PRESENT),
    [NODE_MODEL_WAITING] = M(ABSENT) | M(PRESENT) | M(STARTING) | M(FAILED),
    [NODE_MODEL_FAILED] = M(ABSENT) | M(PRESENT),
};

const char *node_model_state_name(enum node_model_state state)
{
    static const char *const names[] = {
#define X(name, text) [NODE_MODEL_##name] = text,
        NODE_MODEL_STATES(X)
#undef X
    };
    return names[state];
}

void node_model_move(struct node_model *model, enum node_model_state state,
                     const struct lr_error *reason)
{
    struct node *node = model->node;
    if ((moves[model->state] & 1u << state) == 0 && model->state != state)
        lr_log_error(NULL, "model.bad_move model=%s from=%s to=%s", model->id,
                     node_model_state_name(model->state), node_model_state_name(state));
    lr_log_info(NULL, "model.state model=%s from=%s to=%s reason=%s", model->id,
                node_model_state_name(model->state), node_model_state_name(state),
                reason != NULL ? reason->text : "");
    struct lr_json_writer *w = node_event_begin(&node->events, "model");
    lr_json_member_z(w, "model", model->id);
    lr_json_member_z(w, "from", node_model_state_name(model->state));
    lr_json_member_z(w, "state", node_model_state_name(state));
    if (reason != NULL)
        lr_json_member_z(w, "reason", reason->text);
    node_event_send(&node->events);
    model->state = state;
    if (state == NODE_MODEL_READY || state == NODE_MODEL_DRAINING || state == NODE_MODEL_FAILED)
        model->is_wanted = false;
    model->reason_code = reason != NULL ? reason->code : LR_OK;
    (void)snprintf(model->reason, sizeof(model->reason), "%s",
                   reason != NULL ? reason->text : "");
}

uint32_t node_model_leases(const struct node_model *model)
{
    return model->queue_count + (model->worker != NULL ? model->worker->live_count : 0);
}

bool node_model_is_asked(const struct node_model *model)
{
    return model->queue != NULL;
}

bool node_model_has_demand(const struct node_model *model)
{
    return node_model_is_asked(model) || model->is_wanted;
}

bool node_model_is_resident(const struct node_model *model)
{
    return model->worker != NULL;
}

/* A model that must make room serves what came before the request that needs it, and
 * what already waited when it was loaded; the rest waits for its next turn. */
static bool may_serve(const struct node_model *model, const struct node_request *request)
{
    if (!model->is_yielding)
        return true;
    uint64_t until = model->serve_until_seq;
    for (const struct node_model *m = model->node->models; m != NULL; m = m->next)
        if (m->wants_room && m->wants_room_seq > until)
            until = m->wants_room_seq;
    return request->seq <= until;
}

/* The first in the queue that may go into the worker now. */
static struct node_request *next_to_enter(const struct node_model *model)
{
    bool suspect_waits = false;
    for (struct node_request *r = model->queue; r != NULL && may_serve(model, r); r = r->next) {
        if (node_request_may_enter(r, model->worker, suspect_waits))
            return r;
        suspect_waits = suspect_waits || r->ask.entry == WIRE_ENTRY_SUSPECT;
    }
    return NULL;
}

static void dispatch(struct node_model *model)
{
    struct node_worker *w = model->worker;
    uint32_t most = w->need.max_sequences != 0 ? w->need.max_sequences + 2 : 64;
    struct node_request *r;
    while (w->state == NODE_WORKER_READY && node_worker_load(w) < most &&
           (r = next_to_enter(model)) != NULL)
        node_request_submit(r, w);
}

static bool has_nothing_to_serve(const struct node_model *model)
{
    return model->worker->live_count == 0 &&
           (model->queue == NULL || !may_serve(model, model->queue));
}

void node_model_pump(struct node_model *model)
{
    struct lr_error leaving;
    switch (model->state) {
    case NODE_MODEL_PRESENT:
        if (model->queue != NULL && model->node->is_draining) {
            (void)lr_fail(&leaving, LR_UNAVAILABLE, "this node is shutting down");
            node_model_fail_waiting(model, &leaving, true);
        } else if (node_model_has_demand(model) && !model->node->is_draining) {
            node_admit(model);
        }
        break;
    case NODE_MODEL_WAITING:
        node_model_pump_waiting(model);
        break;
    case NODE_MODEL_READY:
        dispatch(model);
        if (model->is_yielding && has_nothing_to_serve(model))
            node_model_unload(model, "room is needed for another model");
        break;
    case NODE_MODEL_DRAINING:
        if (model->worker != NULL)
            node_worker_retire(model->worker); /* once nothing is live in it */
        break;
    default:
        break; /* the move that is under way pumps when it has ended */
    }
}

void node_model_load(struct node_model *model)
{
    if (model->is_purging)
        return;
    if (model->state == NODE_MODEL_ABSENT || model->state == NODE_MODEL_FAILED)
        node_storage_look(model);
    if (model->state == NODE_MODEL_STARTING || model->state == NODE_MODEL_LOADING ||
        model->state == NODE_MODEL_READY || model->state == NODE_MODEL_DRAINING)
        return;
    if (model->state == NODE_MODEL_FAILED && model->engine == NULL)
        return;              /* it was looked at again just now, and is no model still */
    model->is_wanted = true; /* also where its files are still to come */
    node_model_retry(model);
    if (model->state == NODE_MODEL_PRESENT)
        node_admit(model);
}

void node_model_unload(struct node_model *model, const char *because)
{
    if (model->state == NODE_MODEL_WAITING) {
        model->is_wanted = false; /* it is not tried again before somebody asks */
        node_model_move(model, NODE_MODEL_PRESENT, NULL);
    }
    if (model->state != NODE_MODEL_READY && model->state != NODE_MODEL_LOADING)
        return;
    struct lr_error why = {.code = LR_OK};
    (void)snprintf(why.text, sizeof(why.text), "%s", because);
    model->is_yielding = false;
    node_model_move(model, NODE_MODEL_DRAINING, &why);
    if (model->candidate != NULL) {
        node_worker_end(model->candidate);
    }
    node_worker_retire(model->worker);
}

void node_model_fail_waiting(struct node_model *model, const struct lr_error *err,
                             bool retryable)
{
    struct lr_error copy = *err; /* err may be the model's own */
    while (model->queue != NULL)
        node_request_fail(model->queue, &copy, retryable);
}
