#include "router/sched/dispatch.h"

#include <stdlib.h>

#include "router/http/live.h"

/* ---- what a refusal says ---- */

static void explain(const struct router_ticket *t, enum router_refusal why,
                    struct lr_error *err)
{
    const struct router_model *model = t->model;
    const struct router_queue *queue = &model->schedule.queues[t->priority];
    switch (why) {
    case ROUTER_REFUSE_QUEUE:
    case ROUTER_REFUSE_WAIT:
        (void)lr_fail(err, LR_RATE_LIMITED,
                      "%zu requests wait for model \"%s\" already (setting %s): try again in "
                      "%u s",
                      queue->count, model->id,
                      why == ROUTER_REFUSE_WAIT ? "queue-wait" : "queue", t->retry_s);
        break;
    case ROUTER_REFUSE_OVERLOAD:
        (void)lr_fail(
            err, LR_RATE_LIMITED,
            "more requests come for model \"%s\" than it can serve, %zu wait already: "
            "try again in %u s",
            model->id, queue->count, t->retry_s);
        break;
    case ROUTER_REFUSE_BYTES:
        (void)lr_fail(err, LR_RATE_LIMITED,
                      "%zu requests that wait for model \"%s\" hold %zu bytes, and this one "
                      "needs %zu (setting queue-bytes): try again in %u s",
                      queue->count, model->id, queue->bytes, t->waiter.bytes, t->retry_s);
        break;
    case ROUTER_REFUSE_TIMEOUT:
        (void)lr_fail(err, LR_UNAVAILABLE,
                      "no slot for model \"%s\" became free within %llu s (setting "
                      "queue-timeout)",
                      model->id,
                      (unsigned long long)(t->router->sched.queue_timeout_ms / 1000));
        break;
    case ROUTER_REFUSE_NOBODY:
        (void)router_refuse_nobody(t->router, model, err);
        break;
    case ROUTER_REFUSE_DELETED:
        (void)lr_fail(err, LR_NOT_FOUND, "model \"%s\" was deleted", model->id);
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

static void deliver(void *arg)
{
    struct router_ticket *t = arg;
    struct lr_error refusal;
    router_lock(t->router);
    bool granted = router_sched_heard(&t->router->sched, t);
    refusal = t->refusal;
    router_unlock(t->router);
    t->on_ready(t, granted ? NULL : &refusal);
}

static void tell_granted(void *router, struct router_ticket *t)
{
    (void)router;
    net_loop_post(t->loop, deliver, t);
}

static void tell_refused(void *router, struct router_ticket *t, enum router_refusal why)
{
    explain(t, why, &t->refusal);
    tell_granted(router, t);
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
    router_lock(t->router);
    t->note = NULL;
    router_unlock(t->router);
    t->on_preempt(t);
}

/* Without memory the ticket keeps its slot until its answer ends. */
static void tell_preempted(void *router, struct router_ticket *t)
{
    (void)router;
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

void router_dispatch_init(struct router *r)
{
    static const struct router_sched_host host = {router_replicas, tell_granted, tell_refused,
                                                  tell_preempted};
    r->sched.host = &host;
    r->sched.ctx = r;
    r->sched.promised_ms = r->keep_alive_ms;
}

/* ---- events ---- */

enum router_admission router_admit(struct router_ticket *t, bool again, struct lr_error *err)
{
    struct router *r = t->router;
    enum router_admission admission = ROUTER_REFUSED;
    enum router_refusal why = ROUTER_REFUSE_DELETED;
    router_lock(r);
    t->schedule = &t->model->schedule;
    if (again || !t->model->is_deleted)
        admission = router_sched_arrive(&r->sched, t, again, lr_clock_ms(r->clock), &why);
    if (admission == ROUTER_REFUSED)
        explain(t, why, err);
    router_unlock(r);
    return admission;
}

void router_release(struct router_ticket *t, enum router_outcome outcome,
                    const struct router_measure *measure)
{
    struct router *r = t->router;
    router_lock(r);
    router_ticket_forget(t);
    if (outcome == ROUTER_LOST && t->replica != NULL)
        t->replica->is_loaded = false; /* until its next heartbeat says otherwise */
    router_sched_release(&r->sched, t, outcome, measure, lr_clock_ms(r->clock));
    router_unlock(r);
}

bool router_withdraw(struct router_ticket *t)
{
    router_lock(t->router);
    bool waited = router_sched_withdraw(&t->router->sched, t);
    router_unlock(t->router);
    if (!waited)
        router_release(t, ROUTER_ENDED, NULL);
    return waited;
}

void router_swap_confirmed(struct router_ticket *t, bool is_confirmed)
{
    router_lock(t->router);
    router_sched_swap_confirmed(&t->router->sched, t, is_confirmed);
    router_unlock(t->router);
}

bool router_was_preempted(struct router_ticket *t)
{
    router_lock(t->router);
    bool was_preempted = t->was_preempted;
    router_unlock(t->router);
    return was_preempted;
}

void router_pump_all(struct router *r)
{
    router_sched_pump_all(&r->sched, lr_clock_ms(r->clock));
}

/* ---- time ---- */

static void watch_nodes(struct router *r, uint64_t now)
{
    for (size_t i = 0; i < r->nodes.count; i++) {
        struct router_node *node = r->nodes.all[i];
        if (!router_node_is_online(node) || now - node->beat_ms < r->offline_ms)
            continue;
        router_node_move(node, ROUTER_NODE_OFFLINE);
        lr_log_warn(NULL, "node.offline node=%s silent_ms=%llu", node->name,
                    (unsigned long long)(now - node->beat_ms));
        router_live_node(r, node, "node.offline");
        router_live_offline(r, node, now - node->beat_ms);
    }
}

void router_dispatch_watch(struct router *r, uint64_t now)
{
    struct lr_str key;
    void *value;
    router_lock(r);
    watch_nodes(r, now);
    for (size_t i = 0; i < r->nodes.count; i++) {
        struct router_node *node = r->nodes.all[i];
        for (size_t j = 0; lr_strmap_at(&node->replicas, j, &key, &value); j++)
            ((struct router_replica *)value)->is_full = false;
    }
    router_sched_tick(&r->sched, now);
    router_unlock(r);
}
