/* node/host/recovery.c - a model that could not be loaded, or whose worker died: what
 * follows, and when it is tried again.
 *
 * Only a verdict on files that were verified is final.  Everything else is the circuit
 * breaker's: it may pass, here by itself and on another node at once, so those who wait are
 * told that another node may serve them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/errors.h"
#include "node/fetch/storage.h"
#include "node/models/models.h"

static bool is_memory(lr_code code)
{
    return code == LR_OUT_OF_VRAM || code == LR_OUT_OF_RAM;
}

/* ---- those who wait ---- */

static void tell_waiting(struct node_model *model)
{
    struct lr_error err = model->reason;
    uint64_t now = node_now(model->models);
    if (model->queue == NULL)
        return;
    if (!is_memory(err.code))
        (void)lr_fail_as(&err, cannot_load, model->id, &model->reason, model->breaker.failures,
                         (node_breaker_wait_ms(&model->breaker, now) + 999) / 1000);
    node_model_fail_waiting(model, &err);
}

/* ---- trouble ---- */

/* Twice the same word, and of verified files: a folder that was away for a moment makes an
 * engine say it once, too. */
static bool is_verdict(struct node_model *model, const struct lr_error *err)
{
    if (err->code == LR_ABI_MISMATCH) /* of the engine's copy, whose hash was checked, too */
        return true;
    lr_code before = model->judged;
    model->judged =
        err->code == LR_MODEL_CORRUPT || err->code == LR_UNSUPPORTED ? err->code : LR_OK;
    return model->judged != LR_OK && model->judged == before && node_storage_is_verified(model);
}

/* A death that may be chance: the next try is at once. */
static void go_again(struct node_model *model, const struct lr_error *err)
{
    bool was_loading = model->state != NODE_MODEL_READY;
    node_model_move(model, NODE_MODEL_PRESENT, err);
    /* A load that hung may hang as long again, and a node that is leaving loads nothing:
     * a router with other nodes tries there. */
    if ((was_loading && err->code == LR_TIMEOUT) || model->models->is_draining)
        tell_waiting(model);
}

static void wait_for_change(struct node_model *model, enum node_trouble kind,
                            const struct lr_error *err)
{
    model->room_wanted = 0;
    if (is_memory(err->code) && model->has_need) {
        uint64_t available = node_available(model), need = model->need.total;
        uint64_t more = need / 20;
        /* An engine that has tried with all that is free needs more than that. */
        bool has_tried = available >= need || kind == NODE_TROUBLE_TIGHT;
        model->room_wanted = !has_tried                      ? need
                             : available < UINT64_MAX - more ? available + more
                                                             : UINT64_MAX;
    }
    node_model_move(model, NODE_MODEL_WAITING, err);
    tell_waiting(model);
}

void node_model_trouble(struct node_model *model, enum node_trouble kind,
                        const struct lr_error *why)
{
    struct lr_error err = *why; /* it may be the model's own */
    uint64_t now = node_now(model->models);
    model->wants_room = false;
    model->short_pools = 0;
    if (kind == NODE_TROUBLE_JUDGED || (kind == NODE_TROUBLE_TOLD && is_verdict(model, &err))) {
        node_storage_note(model);
        node_model_move(model, NODE_MODEL_FAILED, &err);
        node_model_fail_waiting(model, &err);
        return;
    }
    if (kind == NODE_TROUBLE_DEATH &&
        !node_breaker_died(&model->breaker, model->models->limits.kills, now)) {
        go_again(model, &err);
        return;
    }
    if (kind == NODE_TROUBLE_TOLD)
        node_breaker_failed(&model->breaker, now);
    wait_for_change(model, kind, &err);
}

/* ---- the next try ---- */

static bool has_room_again(struct node_model *model)
{
    return model->room_wanted != 0 && model->has_need &&
           node_available(model) >= model->room_wanted;
}

/* Whether a try may begin now that a request has come. */
static bool takes_request(struct node_model *model)
{
    if (model->breaker.due_ms != 0 || model->room_wanted == 0)
        return node_breaker_takes_request(&model->breaker, node_now(model->models));
    /* A look at the memory is no try: it is free.  A list of Vulkan's devices that comes later
     * leads back to this model (node_admit_waiting). */
    (void)node_device_refresh(model->models);
    node_measure(model->models);
    return has_room_again(model);
}

void node_model_pump_waiting(struct node_model *model)
{
    bool is_due = node_breaker_is_due(&model->breaker, node_now(model->models));
    if (!model->models->is_draining &&
        (is_due || (model->queue != NULL && takes_request(model))))
        node_admit(model);
    else
        tell_waiting(model);
}

void node_model_retry(struct node_model *model)
{
    if (model->state == NODE_MODEL_FAILED && model->engine != NULL) {
        node_breaker_succeeded(&model->breaker);
        node_model_move(model, NODE_MODEL_PRESENT, NULL);
    } else if (model->state == NODE_MODEL_WAITING && !model->models->is_draining) {
        node_admit(model);
    }
}

void node_model_served(struct node_model *model)
{
    if (model->deaths != 0) {
        struct node_models *models = model->models;
        model->deaths = 0;
        lr_json_member_z(net_bus_begin(models->events, "model_served"), "model", model->id);
        net_bus_send(models->events);
    }
    model->judged = LR_OK;
    if (model->breaker.failures != 0)
        node_breaker_succeeded(&model->breaker);
}

/* ---- what time brings ---- */

void node_recovery_watch(struct node_models *models)
{
    uint64_t now = node_now(models);
    for (struct node_model *m = models->first; m != NULL; m = m->next)
        if (m->state == NODE_MODEL_WAITING && !m->is_purging && !models->is_draining &&
            node_breaker_is_due(&m->breaker, now))
            node_admit(m);
}

/* Models that waited for memory, where it is there again. */
static void retry_for_room(struct node_models *models)
{
    for (struct node_model *m = models->first; m != NULL; m = m->next) {
        if (m->state != NODE_MODEL_WAITING || m->is_purging || !has_room_again(m))
            continue;
        if (node_model_has_demand(m) || m->breaker.due_ms != 0)
            node_model_retry(m);
        else
            node_model_move(m, NODE_MODEL_PRESENT, NULL); /* nobody asks any more */
    }
}

void node_admit_waiting(struct node_models *models)
{
    retry_for_room(models);
    /* One after another in order of arrival: a younger one never overtakes into the
     * room on a device that an older one waits for. */
    uint64_t after = 0;
    bool is_taken[NODE_POOLS_MAX] = {false}; /* an older one still waits for this pool */
    for (;;) {
        struct node_model *next = NULL;
        for (struct node_model *m = models->first; m != NULL; m = m->next)
            if (m->wants_room && m->wants_room_seq >= after && !is_taken[m->room_pool] &&
                (next == NULL || m->wants_room_seq < next->wants_room_seq))
                next = m;
        if (next == NULL)
            return;
        after = next->wants_room_seq + 1;
        node_admit(next);
        if (next->wants_room)
            is_taken[next->room_pool] = true;
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
