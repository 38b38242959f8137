#include "router/fleet/dispatch.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/errors.h"
#include "net/loop.h"
#include "router/fleet/refusal.h"

/* ---- the nodes that could serve a ticket ---- */

/* NULL: the node cannot run the model. */
static struct router_replica *replica_on(const struct router_node *node,
                                         const struct router_model *model)
{
    struct router_replica *replica = router_node_serves(node, NULL)
                                         ? router_node_replica(node, lr_str_z(model->folded))
                                         : NULL;
    return replica != NULL && replica->can_run ? replica : NULL;
}

/* A node that could not load the model lately gets no ticket that another node can serve. */
static size_t drop_waiting(struct router_candidate *all, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!all[i].replica->is_waiting)
            all[kept++] = all[i];
    return kept != 0 ? kept : count;
}

/* Another model has the name by now: what nodes have by that name is not this model. */
static bool dispatch_is_replaced(const struct router_dispatch *d,
                                 const struct router_model *model)
{
    const struct router_model *other =
        model->is_deleted ? router_registry_find(d->registry, lr_str_z(model->folded)) : NULL;
    return other != NULL && (strcmp(other->manifest_sha256, model->manifest_sha256) != 0 ||
                             strcmp(other->path, model->path) != 0);
}

/* A node of a release before, and an engine without files, say nothing of weights. */
static bool has_weights(const struct router_replica *replica, const struct router_ticket *t)
{
    return t == NULL || t->weights[0] == '\0' || replica->weights[0] == '\0' ||
           strcmp(replica->weights, t->weights) == 0;
}

static size_t find_replicas(void *arg, const struct router_schedule *schedule,
                            const struct router_ticket *t, struct router_candidate *out,
                            size_t capacity)
{
    const struct router_dispatch *d = arg;
    const struct router_model *model =
        (const void *)((const char *)schedule - offsetof(struct router_model, schedule));
    struct router_node *node;
    size_t count = 0;
    const struct router_replica *bound =
        t != NULL && t->bound != NULL ? replica_on(t->bound, model) : NULL;
    bool is_bound = bound != NULL && !bound->is_waiting && has_weights(bound, t);
    if (dispatch_is_replaced(d, model))
        return 0;
    for (size_t at = 0;
         count < capacity && (node = router_nodes_next(d->nodes, &at)) != NULL;) {
        struct router_replica *replica = replica_on(node, model);
        bool is_able =
            replica != NULL && has_weights(replica, t) &&
            (t == NULL || replica->requests == 0 || (replica->requests >> t->kind & 1) != 0);
        if (is_able && (!is_bound || node == t->bound))
            out[count++] = (struct router_candidate){.node = node, .replica = replica};
    }
    return drop_waiting(out, count);
}

/* Every node that has the model has other weights, whether it can serve now or not. */
static bool dispatch_is_hopeless(void *arg, const struct router_ticket *t)
{
    const struct router_dispatch *d = arg;
    const struct router_node *node;
    for (size_t at = 0; (node = router_nodes_next(d->nodes, &at)) != NULL;) {
        const struct router_replica *replica =
            router_node_replica(node, lr_str_z(t->model->folded));
        if (replica != NULL && has_weights(replica, t))
            return false;
    }
    return true;
}

bool router_has_another(struct router_ticket *t)
{
    struct router_candidate all[ROUTER_CANDIDATES_MAX];
    router_dispatch_lock(t->dispatch);
    bool found = t->node->is_draining; /* it is leaving, and its successor may come */
    size_t count = find_replicas(t->dispatch, t->schedule, t, all, ROUTER_CANDIDATES_MAX);
    for (size_t i = 0; i < count; i++)
        found |= all[i].node != t->node && !router_ticket_has_failed(t, all[i].node);
    router_dispatch_unlock(t->dispatch);
    return found;
}

/* ---- what a refusal says ---- */

/* Nodes that could serve the model's new requests. */
static size_t count_able(const struct router_dispatch *d, const struct router_model *model)
{
    const struct router_node *node;
    size_t count = 0;
    for (size_t at = 0; (node = router_nodes_next(d->nodes, &at)) != NULL;)
        count += replica_on(node, model) != NULL;
    return count;
}

lr_code router_refuse_nobody(const struct router_dispatch *d, const struct router_model *model,
                             struct lr_error *err)
{
    if (!dispatch_is_replaced(d, model))
        return router_refusal_nobody(d->nodes, model, err);
    return lr_fail_as(err, nobody_deleted, model->id);
}

static void explain(const struct router_ticket *t, enum router_refusal why,
                    struct lr_error *err)
{
    const struct router_model *model = t->model;
    const struct router_queue *queue = &model->schedule.queues[t->priority];
    switch (why) {
    case ROUTER_REFUSE_QUEUE:
    case ROUTER_REFUSE_WAIT:
        (void)lr_fail_as(err, queue_full, queue->count, model->id,
                         why == ROUTER_REFUSE_WAIT ? "queue-wait" : "queue", t->retry_s);
        break;
    case ROUTER_REFUSE_OVERLOAD:
        (void)lr_fail_as(err, overloaded, model->id, queue->count, t->retry_s);
        break;
    case ROUTER_REFUSE_BYTES:
        (void)lr_fail_as(err, queue_bytes, queue->count, model->id, queue->bytes,
                         t->waiter.bytes, t->retry_s);
        break;
    case ROUTER_REFUSE_TIMEOUT:
        (void)lr_fail_as(err, queue_timeout, model->id,
                         t->dispatch->sched.queue_timeout_ms / 1000);
        break;
    case ROUTER_REFUSE_NOBODY:
        if (t->weights[0] != '\0' && count_able(t->dispatch, model) != 0)
            (void)lr_fail_as(err, replaced, model->id, t->weights);
        else
            (void)router_refuse_nobody(t->dispatch, model, err);
        break;
    case ROUTER_REFUSE_DELETED:
        (void)lr_fail_as(err, model_deleted, model->id);
        break;
    case ROUTER_REFUSE_MEMORY:
        (void)lr_fail(err, LR_OUT_OF_RAM, "no memory for the queue");
        break;
    case ROUTER_REFUSE_DEFECT:
        (void)lr_fail(err, LR_INTERNAL, "the request's ticket made a move that it cannot make");
        break;
    }
}

/* ---- decisions: to the ticket's loop ---- */

static void dispatch_deliver(void *arg)
{
    struct router_ticket *t = arg;
    struct lr_error refusal;
    router_dispatch_lock(t->dispatch);
    bool granted = router_sched_acknowledge(&t->dispatch->sched, t);
    refusal = t->refusal;
    router_dispatch_unlock(t->dispatch);
    t->on_ready(t, granted ? NULL : &refusal);
}

static void tell_granted(void *dispatch, struct router_ticket *t)
{
    (void)dispatch;
    net_loop_post(t->loop, dispatch_deliver, t);
}

static void tell_refused(void *dispatch, struct router_ticket *t, enum router_refusal why)
{
    explain(t, why, &t->refusal);
    tell_granted(dispatch, t);
}

/* The way to a ticket's loop.  The ticket may be gone before the note arrives. */
struct router_preempt_note {
    struct router_ticket *ticket; /* NULL: it is; only its loop writes this */
};

static void arrive(void *arg)
{
    struct router_preempt_note *note = arg;
    struct router_ticket *t = note->ticket;
    free(note);
    if (t == NULL)
        return;
    router_dispatch_lock(t->dispatch);
    t->note = NULL;
    router_dispatch_unlock(t->dispatch);
    t->on_preempt(t);
}

/* Without memory the ticket keeps its slot until its answer ends. */
static void tell_preempted(void *dispatch, struct router_ticket *t)
{
    (void)dispatch;
    t->note = malloc(sizeof(*t->note));
    if (t->note == NULL)
        return;
    t->note->ticket = t;
    net_loop_post(t->loop, arrive, t->note);
}

void router_ticket_forget(struct router_ticket *t)
{
    if (t->note != NULL)
        t->note->ticket = NULL;
    t->note = NULL;
}

void router_dispatch_init(struct router_dispatch *d)
{
    static const struct router_sched_host host = {find_replicas, tell_granted, tell_refused,
                                                  tell_preempted, dispatch_is_hopeless};
    d->sched.host = &host;
    d->sched.ctx = d;
}

/* ---- events ---- */

enum router_admission router_admit(struct router_ticket *t, bool again, struct lr_error *err)
{
    struct router_dispatch *d = t->dispatch;
    enum router_admission admission = ROUTER_REFUSED;
    enum router_refusal why = ROUTER_REFUSE_DELETED;
    router_dispatch_lock(t->dispatch);
    t->schedule = &t->model->schedule;
    if (again || !t->model->is_deleted)
        admission = router_sched_arrive(&d->sched, t, again, lr_clock_ms(d->clock), &why);
    if (admission == ROUTER_REFUSED)
        explain(t, why, err);
    router_dispatch_unlock(t->dispatch);
    return admission;
}

void router_release(struct router_ticket *t, enum router_outcome outcome,
                    const struct router_measure *measure)
{
    struct router_dispatch *d = t->dispatch;
    router_dispatch_lock(t->dispatch);
    router_ticket_forget(t);
    if (outcome == ROUTER_LOST && t->replica != NULL)
        t->replica->is_loaded = t->replica->workers > 1; /* until the next heartbeat */
    router_sched_release(&d->sched, t, outcome, measure, lr_clock_ms(d->clock));
    router_dispatch_unlock(t->dispatch);
}

bool router_withdraw(struct router_ticket *t)
{
    router_dispatch_lock(t->dispatch);
    bool waited = router_sched_withdraw(&t->dispatch->sched, t);
    router_dispatch_unlock(t->dispatch);
    return waited;
}

void router_swap_confirmed(struct router_ticket *t, bool is_confirmed)
{
    router_dispatch_lock(t->dispatch);
    router_sched_swap_confirmed(&t->dispatch->sched, t, is_confirmed);
    router_dispatch_unlock(t->dispatch);
}

void router_pump_all(struct router_dispatch *d)
{
    router_sched_pump_all(&d->sched, lr_clock_ms(d->clock));
}

void router_dispatch_watch(struct router_dispatch *d, uint64_t now)
{
    const struct router_node *node;
    struct router_replica *replica;
    router_dispatch_lock(d);
    for (size_t at = 0; (node = router_nodes_next(d->nodes, &at)) != NULL;)
        for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++)
            replica->is_full = false;
    router_sched_tick(&d->sched, now);
    router_dispatch_unlock(d);
}
