/* router/sched/admit.c - who comes: a slot, a place in the queue, or a refusal that says when
 * to come again.
 */
#include "router/sched/dispatch.h"

enum {
    SHED_MS = 5000, /* who has waited so long is not sent away any more */
    RETRY_MAX_S = 600,
};

static size_t places(struct router_model *model, const struct router *r, uint64_t now)
{
    return router_pressure_limit(&model->pressure, r->queue_limit, r->queue_wait_ms, now);
}

/* Until the queue has room for one more, at the speed it moves.  Before it has moved at all:
 * until the quickest node would begin, which is mostly the time it takes to load. */
static uint32_t seconds_until_room(const struct router_job *job, size_t limit, uint64_t now)
{
    const struct router_model *model = job->model;
    size_t waiting = model->queue.count, over = waiting >= limit ? waiting - limit + 1 : 1;
    double ms = (double)router_pressure_wait_ms(&model->pressure, over);
    if (model->pressure.gaps == 0) {
        struct router_candidate nodes[ROUTER_CANDIDATES_MAX];
        struct router_demand demand = {.prompt_tokens = job->prompt_tokens};
        size_t count =
            router_candidates(job->router, model, NULL, now, nodes, ROUTER_CANDIDATES_MAX);
        (void)router_pick(nodes, count, &demand);
        for (size_t i = 0; i < count; i++)
            if (i == 0 || nodes[i].cost < ms)
                ms = nodes[i].cost;
    }
    return ms >= RETRY_MAX_S * 1000.0 ? RETRY_MAX_S : (uint32_t)(ms / 1000) + 1;
}

static void refuse(struct router_job *job, size_t limit, uint64_t now, struct lr_error *err)
{
    const struct router_model *model = job->model;
    job->retry_s = seconds_until_room(job, limit, now);
    if (model->pressure.state == ROUTER_OVER)
        (void)lr_fail(
            err, LR_RATE_LIMITED,
            "more requests come for model \"%s\" than it can serve, %zu wait already: "
            "try again in %u s",
            model->id, model->queue.count, job->retry_s);
    else
        (void)lr_fail(err, LR_RATE_LIMITED,
                      "%zu requests wait for model \"%s\" already (setting %s): try again in "
                      "%u s",
                      model->queue.count, model->id,
                      limit < job->router->queue_limit ? "queue-wait" : "queue", job->retry_s);
}

static void refuse_bytes(struct router_job *job, size_t limit, uint64_t now,
                         struct lr_error *err)
{
    const struct router_model *model = job->model;
    job->retry_s = seconds_until_room(job, limit, now);
    (void)lr_fail(err, LR_RATE_LIMITED,
                  "%zu requests that wait for model \"%s\" hold %zu bytes, and this one needs "
                  "%zu (setting queue-bytes): try again in %u s",
                  model->queue.count, model->id, model->queue.bytes, job->waiter.bytes,
                  job->retry_s);
}

/* The last to come of the key with the most, waiting and on nodes. */
static struct router_waiter *find_last(const struct router_model *model, uint64_t lane)
{
    struct router_queue_weight weight = {router_shares_held, &model->shares};
    return router_queue_pushed_out(&model->queue, lane, weight);
}

/* It leaves, where its key has more than `lane` would have. */
static bool push_out(struct router_model *model, uint64_t lane, size_t limit, uint64_t now)
{
    struct router_waiter *w = find_last(model, lane);
    struct router_job *job = (struct router_job *)(void *)w;
    if (w == NULL || job->is_again)
        return false;
    refuse(job, limit, now, &job->refusal);
    router_drop_waiter(job);
    return true;
}

/* Its client has been told that it waits, or has waited for long. */
static bool is_owed(const struct router_job *job, uint64_t now)
{
    uint64_t keep_alive = job->router->keep_alive_ms;
    return now - job->waiting_since_ms >= (keep_alive < SHED_MS ? keep_alive : SHED_MS);
}

void router_shed(struct router_model *model, uint64_t now)
{
    while (model->pressure.state == ROUTER_OVER) {
        struct router_waiter *w = find_last(model, ROUTER_NO_LANE);
        const struct router_job *job = (struct router_job *)(void *)w;
        if (w == NULL || is_owed(job, now))
            return;
        size_t limit = places(model, job->router, now);
        if (model->queue.count <= limit || !push_out(model, ROUTER_NO_LANE, limit, now))
            return;
    }
}

static enum router_admission enter_queue(struct router_job *job, bool again, uint64_t now,
                                         struct lr_error *err)
{
    struct router_model *model = job->model;
    struct router_queue *queue = &model->queue;
    size_t limit = places(model, job->router, now);
    bool has_bytes = again || router_queue_has_bytes(queue, job->lane, job->waiter.bytes,
                                                     job->router->queue_bytes);
    bool has_room =
        has_bytes && (again || queue->count < limit || push_out(model, job->lane, limit, now));
    if (!has_bytes)
        refuse_bytes(job, limit, now, err);
    else if (!has_room)
        refuse(job, limit, now, err);
    if (has_room && !router_queue_push(queue, &job->waiter, job->lane, again)) {
        (void)lr_fail(err, LR_OUT_OF_RAM, "no memory for the queue");
        return ROUTER_REFUSED;
    }
    if (!again)
        router_pressure_came(&model->pressure, !has_room, queue->count, now);
    return has_room ? ROUTER_WAITING : ROUTER_REFUSED;
}

static enum router_admission admit_locked(struct router_job *job, bool again,
                                          struct lr_error *err)
{
    struct router *r = job->router;
    uint64_t now = lr_clock_ms(NULL);
    struct router_queue *queue = &job->model->queue;
    enum router_grant grant = ROUTER_GRANT_FULL;
    job->node = NULL;
    job->place = NULL;
    job->is_again = again;
    job->retry_s = 0;
    if (job->model->is_deleted && !again) {
        (void)router_refuse_deleted(job->model, err);
        return ROUTER_REFUSED;
    }
    router_shares_see(&job->model->shares, job->lane, now);
    /* Nobody overtakes those who wait, but for one who has waited before.  A key none of whose
     * requests waits may take what the others can't: the places beyond the slots. */
    bool is_first = router_queue_lane_count(queue, job->lane) == 0;
    if (is_first && queue->count != 0)
        router_pump(job->model);
    if (again || is_first)
        grant = router_try_grant(job, now);
    if (grant == ROUTER_GRANT_OK) {
        job->state = ROUTER_JOB_HELD;
        return ROUTER_GRANTED;
    }
    if (grant == ROUTER_GRANT_NOBODY && !again) {
        (void)router_refuse_nobody(r, job->model, err);
        return ROUTER_REFUSED;
    }
    enum router_admission admission = enter_queue(job, again, now, err);
    if (admission != ROUTER_WAITING)
        return admission;
    router_waits(job);
    job->state = ROUTER_JOB_WAITING;
    job->waiting_since_ms = now;
    job->nobody_since_ms = grant == ROUTER_GRANT_NOBODY ? now : 0;
    router_shed(job->model, now);
    return ROUTER_WAITING;
}

enum router_admission router_admit(struct router_job *job, bool again, struct lr_error *err)
{
    router_lock(job->router);
    enum router_admission admission = admit_locked(job, again, err);
    router_unlock(job->router);
    return admission;
}
