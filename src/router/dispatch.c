#include "router/dispatch.h"

#include <stdio.h>

#include "router/live.h"

enum {
    AVOID_MS = 2000, /* a node that failed us; twice as long each time in a row */
    AVOID_DOUBLINGS = 3,
    NOBODY_GRACE_MS = 10000, /* a request that ran before waits this long for a node */
};

/* Moving averages: a new value counts a fifth. */
static const double share_of_new = 0.2;

static uint64_t now_ms(void)
{
    return lr_clock_ms(NULL);
}

static bool has_failed(const struct router_job *job, const struct router_node *node)
{
    for (uint32_t i = 0; job != NULL && i < job->failed_count; i++)
        if (job->failed[i] == node)
            return true;
    return false;
}

/* A node that failed somebody is left alone for a while, and then tried with one request
 * until that has brought a token: the others do not wait for it to fail them, too. */
static bool is_doubtful(const struct router_node *node, const struct router_place *place,
                        uint64_t now)
{
    return now < node->avoided_until_ms ||
           (atomic_load(&node->failures_in_row) != 0 && place->inflight != 0);
}

static struct router_candidate describe(const struct router_job *job,
                                        const struct router_node *node,
                                        const struct router_place *place, uint64_t now)
{
    uint32_t reported = place->live + place->queued;
    bool failed = has_failed(job, node);
    return (struct router_candidate){
        .is_loaded = place->is_loaded,
        .is_avoided = failed || is_doubtful(node, place, now),
        .is_barred = place->is_full || (failed && now < node->avoided_until_ms),
        .slots = place->slots,
        .active = place->inflight > reported ? place->inflight : reported,
        .inflight = place->inflight,
        .load_ms = place->load_ms,
        .prefill_ms = place->prefill_ms,
        .step_ms = place->step_ms,
        .weight_bytes = place->weight_bytes,
    };
}

size_t router_candidates(struct router *r, const struct router_model *model,
                         const struct router_job *job, uint64_t now,
                         struct router_candidate *out, struct router_node **nodes,
                         struct router_place **places, size_t capacity)
{
    size_t count = 0;
    const char *why_not;
    struct lr_str folded = lr_str_z(model->folded);
    for (size_t i = 0; i < r->nodes.count && count < capacity; i++) {
        struct router_node *node = r->nodes.all[i];
        struct router_place *place;
        if (!router_node_serves(node, &why_not) ||
            (place = router_node_place(node, folded)) == NULL || !place->can_run)
            continue;
        out[count] = describe(job, node, place, now);
        nodes[count] = node;
        places[count++] = place;
    }
    return count;
}

/* "node-a: offline; node-b: ..." */
static void explain_nobody(const struct router *r, const struct router_model *model,
                           struct lr_buf *out)
{
    struct lr_str folded = lr_str_z(model->folded);
    bool any = false;
    for (size_t i = 0; i < r->nodes.count; i++) {
        const struct router_node *node = r->nodes.all[i];
        const struct router_place *place = router_node_place(node, folded);
        const char *why_not;
        if (node->is_removed)
            continue;
        if (router_node_serves(node, &why_not))
            why_not = place == NULL              ? "does not have it"
                      : place->can_run           ? "can run it"
                      : place->reason[0] != '\0' ? place->reason
                                                 : place->state;
        lr_buf_addf(out, "%s%s: %s", any ? "; " : "", node->name, why_not);
        any = true;
    }
    if (!any)
        lr_buf_add_z(out, "no node has joined (llm-router node --router URL --token TOKEN)");
}

lr_code router_refuse_nobody(const struct router *r, const struct router_model *model,
                             struct lr_error *err)
{
    struct lr_buf why;
    lr_buf_init(&why, 380); /* a list that does not fit is cut where it stops fitting */
    explain_nobody(r, model, &why);
    (void)lr_fail(err, LR_UNAVAILABLE, "no node can serve model \"%.100s\": %.*s", model->id,
                  (int)why.len, why.data != NULL ? why.data : "");
    lr_buf_free(&why);
    return LR_UNAVAILABLE;
}

/* ---- granting ---- */

enum grant { GRANT_OK, GRANT_FULL, GRANT_NOBODY };

static enum grant try_grant(struct router_job *job, uint64_t now)
{
    struct router_candidate candidates[ROUTER_CANDIDATES_MAX];
    struct router_node *nodes[ROUTER_CANDIDATES_MAX];
    struct router_place *places[ROUTER_CANDIDATES_MAX];
    struct router_demand demand = {.prompt_tokens = job->prompt_tokens};
    size_t count = router_candidates(job->router, job->model, job, now, candidates, nodes,
                                     places, ROUTER_CANDIDATES_MAX);
    if (count == 0)
        return GRANT_NOBODY;
    size_t best = router_pick(candidates, count, &demand);
    if (best == ROUTER_NOBODY)
        return GRANT_FULL;
    job->node = nodes[best];
    job->place = places[best];
    job->place->inflight++;
    job->router->held++;
    job->node->requests++;
    (void)snprintf(job->why, sizeof(job->why), "cost=%.0fms %s active=%u nodes=%zu",
                   candidates[best].cost, candidates[best].is_loaded ? "loaded" : "loads-first",
                   candidates[best].active, count);
    return GRANT_OK;
}

static void deliver(void *arg)
{
    struct router_job *job = arg;
    struct lr_error refusal;
    router_lock(job->router);
    bool granted = job->node != NULL;
    job->state = granted ? ROUTER_JOB_HELD : ROUTER_JOB_IDLE;
    refusal = job->refusal;
    router_unlock(job->router);
    job->on_ready(job, granted ? NULL : &refusal);
}

static void post(struct router_job *job)
{
    job->state = ROUTER_JOB_POSTED;
    net_loop_post(job->loop, deliver, job);
}

/* Out of the queue; its owner hears job->refusal. */
static void drop_waiter(struct router_job *job)
{
    router_queue_remove(&job->model->queue, &job->waiter);
    job->router->waiting--;
    post(job);
}

void router_pump(struct router *r, struct router_model *model)
{
    uint64_t now = now_ms();
    for (struct router_waiter *w; (w = router_queue_peek(&model->queue)) != NULL;) {
        struct router_job *job = (struct router_job *)(void *)w;
        if (try_grant(job, now) != GRANT_OK)
            return;
        (void)router_queue_pop(&model->queue);
        r->waiting--;
        post(job);
    }
}

void router_pump_all(struct router *r)
{
    struct lr_str key;
    void *value;
    if (r->waiting == 0)
        return;
    for (size_t i = 0; lr_strmap_at(&r->registry.models, i, &key, &value); i++)
        router_pump(r, value);
}

static void refuse_full(const struct router_job *job, struct lr_error *err)
{
    (void)lr_fail(err, LR_RATE_LIMITED,
                  "%zu requests wait for model \"%s\" already (setting queue): try again "
                  "shortly",
                  job->model->queue.count, job->model->id);
}

/* The queue is full.  A key that fills it must not shut out one that does not. */
static bool make_room(const struct router_job *newcomer)
{
    struct router_waiter *w = router_queue_pushed_out(&newcomer->model->queue, newcomer->lane);
    struct router_job *job = (struct router_job *)(void *)w;
    if (w == NULL || job->is_again)
        return false;
    refuse_full(job, &job->refusal);
    drop_waiter(job);
    return true;
}

static enum router_admission admit_locked(struct router_job *job, bool again,
                                          struct lr_error *err)
{
    struct router *r = job->router;
    uint64_t now = now_ms();
    struct router_queue *queue = &job->model->queue;
    enum grant grant = GRANT_FULL;
    job->node = NULL;
    job->place = NULL;
    job->is_again = again;
    /* Nobody overtakes those who wait, but for one who has waited before. */
    if (again || queue->count == 0)
        grant = try_grant(job, now);
    if (grant == GRANT_OK) {
        job->state = ROUTER_JOB_HELD;
        return ROUTER_GRANTED;
    }
    if (grant == GRANT_NOBODY && !again) {
        (void)router_refuse_nobody(r, job->model, err);
        return ROUTER_REFUSED;
    }
    if (!again && queue->count >= r->queue_limit && !make_room(job)) {
        refuse_full(job, err);
        return ROUTER_REFUSED;
    }
    if (!router_queue_push(queue, &job->waiter, job->lane, again)) {
        (void)lr_fail(err, LR_OUT_OF_RAM, "no memory for the queue");
        return ROUTER_REFUSED;
    }
    r->waiting++;
    job->state = ROUTER_JOB_WAITING;
    job->waiting_since_ms = now;
    job->nobody_since_ms = grant == GRANT_NOBODY ? now : 0;
    return ROUTER_WAITING;
}

enum router_admission router_admit(struct router_job *job, bool again, struct lr_error *err)
{
    router_lock(job->router);
    enum router_admission admission = admit_locked(job, again, err);
    router_unlock(job->router);
    return admission;
}

/* ---- giving back ---- */

static void average(double *value, double measured)
{
    if (measured > 0)
        *value = *value > 0 ? *value + share_of_new * (measured - *value) : measured;
}

static void note_failure(struct router_job *job, uint64_t now)
{
    struct router_node *node = job->node;
    node->failures++;
    if (!has_failed(job, node) && job->failed_count < ROUTER_FAILED_MAX)
        job->failed[job->failed_count++] = node;
    /* What was under way when it failed the first one says nothing new. */
    if (now < node->avoided_until_ms)
        return;
    uint32_t row = atomic_fetch_add(&node->failures_in_row, 1);
    node->avoided_until_ms =
        now + (AVOID_MS << (row < AVOID_DOUBLINGS ? row : AVOID_DOUBLINGS));
}

void router_trust(struct router_job *job)
{
    if (atomic_load_explicit(&job->node->failures_in_row, memory_order_relaxed) != 0)
        atomic_store(&job->node->failures_in_row, 0);
}

void router_release(struct router_job *job, enum router_outcome outcome,
                    const struct router_measure *measure)
{
    struct router *r = job->router;
    router_lock(r);
    if (job->state == ROUTER_JOB_HELD) {
        struct router_place *place = job->place;
        place->inflight--;
        r->held--;
        place->is_full = outcome == ROUTER_BUSY;
        if (measure != NULL) {
            average(&place->load_ms, measure->load_ms);
            average(&place->prefill_ms, measure->prefill_ms);
            average(&place->step_ms, measure->step_ms);
        }
        if (outcome == ROUTER_FAILED)
            note_failure(job, now_ms());
        job->node = NULL;
        job->place = NULL;
        job->state = ROUTER_JOB_IDLE;
        if (job->model->queue.count != 0)
            router_pump(r, job->model);
    }
    router_unlock(r);
}

bool router_withdraw(struct router_job *job)
{
    struct router *r = job->router;
    router_lock(r);
    bool waited = job->state == ROUTER_JOB_WAITING;
    bool held = job->state == ROUTER_JOB_HELD;
    if (waited) {
        router_queue_remove(&job->model->queue, &job->waiter);
        r->waiting--;
        job->state = ROUTER_JOB_IDLE;
    }
    router_unlock(r);
    if (held)
        router_release(job, ROUTER_ENDED, NULL);
    return waited;
}

/* ---- time ---- */

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
        drop_waiter(job);
    } else if (limit != 0 && w->now - job->waiting_since_ms >= limit) {
        (void)lr_fail(&job->refusal, LR_UNAVAILABLE,
                      "no slot for model \"%s\" became free within %llu s (setting "
                      "queue-timeout)",
                      w->model->id, (unsigned long long)(limit / 1000));
        drop_waiter(job);
    }
}

static void refuse_deleted(void *ctx, struct router_waiter *waiter)
{
    struct watch *w = ctx;
    struct router_job *job = (struct router_job *)(void *)waiter;
    (void)lr_fail(&job->refusal, LR_NOT_FOUND, "model \"%s\" was deleted", w->model->id);
    drop_waiter(job);
}

void router_refuse_waiting(struct router *r, struct router_model *model)
{
    struct watch w = {.router = r, .model = model};
    router_queue_each(&model->queue, refuse_deleted, &w);
}

static void watch_nodes(struct router *r, uint64_t now)
{
    for (size_t i = 0; i < r->nodes.count; i++) {
        struct router_node *node = r->nodes.all[i];
        if (!node->is_online || now - node->beat_ms < r->offline_ms)
            continue;
        node->is_online = false;
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
    for (size_t i = 0; lr_strmap_at(&r->registry.models, i, &key, &value); i++) {
        struct router_candidate c[1];
        struct router_node *n[1];
        struct router_place *p[1];
        struct watch w = {.router = r, .model = value, .now = now};
        if (w.model->queue.count == 0)
            continue;
        w.nobody = router_candidates(r, w.model, NULL, now, c, n, p, 1) == 0;
        router_queue_each(&w.model->queue, watch_waiter, &w);
    }
    router_unlock(r);
}
