/* router/sched/dispatch_watch.c - what time does to those who wait and to nodes that say
 * nothing. */
#include "router/http/live.h"
#include "router/sched/dispatch.h"

enum { NOBODY_GRACE_MS = 10000 }; /* a request that ran before waits this long for a node */

struct watch {
    struct router *router;
    struct router_model *model;
    uint64_t now;
    bool nobody;
};

static void watch_waiter(void *ctx, struct router_waiter *waiter)
{
    struct watch *w = ctx;
    struct router_job *job = (struct router_job *)(void *)waiter;
    uint64_t limit = w->router->queue_timeout_ms;
    if (!w->nobody)
        job->nobody_since_ms = 0;
    else if (job->nobody_since_ms == 0)
        job->nobody_since_ms = w->now;
    if (w->nobody && w->now - job->nobody_since_ms >= NOBODY_GRACE_MS) {
        (void)router_refuse_nobody(w->router, w->model, &job->refusal);
        router_drop_waiter(job);
    } else if (limit != 0 && w->now - job->waiting_since_ms >= limit) {
        (void)lr_fail(&job->refusal, LR_UNAVAILABLE,
                      "no slot for model \"%s\" became free within %llu s (setting "
                      "queue-timeout)",
                      w->model->id, (unsigned long long)(limit / 1000));
        router_drop_waiter(job);
    }
}

lr_code router_refuse_deleted(const struct router_model *model, struct lr_error *err)
{
    return lr_fail(err, LR_NOT_FOUND, "model \"%s\" was deleted", model->id);
}

static void refuse_newcomer(void *ctx, struct router_waiter *waiter)
{
    struct router_job *job = (struct router_job *)(void *)waiter;
    (void)ctx;
    if (job->is_again)
        return;
    (void)router_refuse_deleted(job->model, &job->refusal);
    router_drop_waiter(job);
}

void router_refuse_waiting(struct router_model *model)
{
    router_queue_each(&model->queue, refuse_newcomer, NULL);
}

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
        for (size_t j = 0; lr_strmap_at(&node->places, j, &key, &value); j++)
            ((struct router_place *)value)->is_full = false;
    }
    router_pump_all(r);
    struct router_model *next;
    for (struct router_model *model = r->waited; model != NULL; model = next) {
        struct router_candidate any;
        struct watch w = {.router = r, .model = model, .now = now};
        next = model->next_waited;
        w.nobody = router_candidates(r, w.model, NULL, now, &any, 1) == 0;
        router_queue_each(&w.model->queue, watch_waiter, &w);
    }
    router_unlock(r);
}
