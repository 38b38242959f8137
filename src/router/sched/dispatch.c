#include "router/sched/dispatch.h"

#include <stdio.h>

enum {
    AVOID_MS = 2000, /* a node that failed us; twice as long each time in a row */
    AVOID_DOUBLINGS = 3,
};

/* Moving averages: a new value counts a fifth. */
static const double share_of_new = 0.2;

static uint64_t now_ms(void)
{
    return lr_clock_ms(NULL);
}

static void hold(struct router_job *job, const struct router_candidate *chosen, uint64_t now)
{
    struct router_place *place = chosen->place;
    job->node = chosen->node;
    job->place = place;
    job->next_held = place->held;
    job->held_link = &place->held;
    if (place->held != NULL)
        place->held->held_link = &job->next_held;
    place->held = job;
    place->inflight++;
    job->router->held++;
    router_shares_hold(&job->model->shares, job->lane, now);
    job->node->requests++;
}

static void unhold(struct router_job *job, uint64_t now)
{
    router_unask(job);
    router_insist(job);
    *job->held_link = job->next_held;
    if (job->next_held != NULL)
        job->next_held->held_link = job->held_link;
    job->place->inflight--;
    job->router->held--;
    router_shares_release(&job->model->shares, job->lane, now);
    job->node = NULL;
    job->place = NULL;
}

/* Not even beyond the slots is there a place: at the node that is quickest one is made. */
static void make_way_somewhere(struct router_job *job,
                               const struct router_candidate *candidates, size_t count,
                               uint64_t now)
{
    const struct router_candidate *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (!candidates[i].is_barred && (best == NULL || candidates[i].cost < best->cost))
            best = &candidates[i];
    if (best != NULL)
        router_make_way(job, best->place, job->model->pressure.slots, now);
}

enum router_grant router_try_grant(struct router_job *job, uint64_t now)
{
    struct router_candidate candidates[ROUTER_CANDIDATES_MAX];
    struct router_demand demand = {.prompt_tokens = job->prompt_tokens};
    size_t count =
        router_candidates(job->router, job->model, job, now, candidates, ROUTER_CANDIDATES_MAX);
    if (count == 0)
        return ROUTER_GRANT_NOBODY;
    uint64_t slots = 0;
    for (size_t i = 0; i < count; i++)
        slots += candidates[i].slots != 0 ? candidates[i].slots : ROUTER_SLOTS_UNKNOWN;
    job->model->pressure.slots = slots;
    /* Who was served before goes on before others begin, but for one that stepped aside. */
    demand.is_within_slots =
        (!job->is_again || job->has_yielded) &&
        !router_shares_is_light(&job->model->shares, job->lane, slots, now);
    size_t best = router_pick(candidates, count, &demand);
    if (best == ROUTER_NOBODY) {
        if (!demand.is_within_slots)
            make_way_somewhere(job, candidates, count, now);
        return demand.is_within_slots ? ROUTER_GRANT_SHARE : ROUTER_GRANT_FULL;
    }
    const struct router_candidate *chosen = &candidates[best];
    hold(job, chosen, now);
    router_make_way(job, job->place, slots, now);
    if (job->marks != NULL)
        router_beginnings_note(&job->router->beginnings, job->node, job->marks);
    (void)snprintf(job->why, sizeof(job->why),
                   "cost=%.0fms %s active=%u nodes=%zu cached=%.0f%%", chosen->cost,
                   chosen->is_loaded ? "loaded" : "loads-first", chosen->active, count,
                   chosen->cached * 100);
    return ROUTER_GRANT_OK;
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

void router_waits(struct router_job *job)
{
    struct router *r = job->router;
    struct router_model *model = job->model;
    r->waiting++;
    if (model->waited_link != NULL)
        return;
    model->next_waited = r->waited;
    model->waited_link = &r->waited;
    if (r->waited != NULL)
        r->waited->waited_link = &model->next_waited;
    r->waited = model;
}

void router_waits_no_more(struct router_job *job)
{
    struct router_model *model = job->model;
    job->router->waiting--;
    if (model->queue.count != 0)
        return;
    *model->waited_link = model->next_waited;
    if (model->next_waited != NULL)
        model->next_waited->waited_link = model->waited_link;
    model->waited_link = NULL;
}

void router_drop_waiter(struct router_job *job)
{
    router_queue_remove(&job->model->queue, &job->waiter);
    router_waits_no_more(job);
    post(job);
}

/* The first in turn that can go now.  Where the one whose turn it is has its share, another
 * key's may take a place beyond the slots; the turn stays. */
static struct router_job *next_granted(struct router_model *model, uint64_t now)
{
    struct router_waiter *w = router_queue_peek(&model->queue);
    for (bool is_turn = true; w != NULL; is_turn = false) {
        struct router_job *job = (struct router_job *)(void *)w;
        enum router_grant grant = router_try_grant(job, now);
        if (grant == ROUTER_GRANT_OK && is_turn)
            (void)router_queue_pop(&model->queue);
        else if (grant == ROUTER_GRANT_OK)
            router_queue_remove(&model->queue, w);
        if (grant != ROUTER_GRANT_SHARE)
            return grant == ROUTER_GRANT_OK ? job : NULL;
        w = router_queue_next_lane(&model->queue, w);
    }
    return NULL;
}

void router_pump(struct router_model *model)
{
    uint64_t now = now_ms();
    for (struct router_job *job; (job = next_granted(model, now)) != NULL;) {
        router_waits_no_more(job);
        router_pressure_begun(&model->pressure, model->queue.count, now);
        post(job);
    }
    router_shed(model, now);
}

void router_pump_all(struct router *r)
{
    struct router_model *next;
    for (struct router_model *model = r->waited; model != NULL; model = next) {
        next = model->next_waited;
        router_pump(model);
    }
}

/* ---- giving back ---- */

static void average(double *value, double measured)
{
    if (measured > 0)
        *value = *value > 0 ? *value + share_of_new * (measured - *value) : measured;
}

/* Weighed by tokens: of a short prompt's time little is computing, and what it says must not
 * outweigh a long one's. */
static void average_prefill(struct router_place *place, const struct router_measure *m)
{
    if (m->prefill_ms <= 0 || m->prefill_tokens <= 0)
        return;
    double kept = (1 - share_of_new) * place->prefill_tokens;
    double fresh = (place->prefill_tokens > 0 ? share_of_new : 1) * m->prefill_tokens;
    place->prefill_tokens = kept + fresh;
    place->prefill_ms =
        (place->prefill_ms * kept + m->prefill_ms * fresh) / place->prefill_tokens;
}

static void note_failure(struct router_job *job, uint64_t now)
{
    struct router_node *node = job->node;
    node->failures++;
    if (!router_has_failed(job, node) && job->failed_count < ROUTER_FAILED_MAX)
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
    atomic_store_explicit(&job->has_begun, true, memory_order_relaxed);
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
        uint64_t now = now_ms();
        place->is_full = outcome == ROUTER_BUSY;
        if (measure != NULL) {
            average(&place->load_ms, measure->load_ms);
            average_prefill(place, measure);
            average(&place->step_ms, measure->step_ms);
            place->is_caching = place->is_caching || measure->found_cached;
        }
        if (outcome == ROUTER_LOST)
            place->is_loaded = false; /* until its next heartbeat says otherwise */
        if (outcome == ROUTER_FAILED)
            note_failure(job, now);
        unhold(job, now);
        job->state = ROUTER_JOB_IDLE;
        if (job->model->queue.count != 0)
            router_pump(job->model);
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
        router_waits_no_more(job);
        job->state = ROUTER_JOB_IDLE;
    }
    router_unlock(r);
    if (held)
        router_release(job, ROUTER_ENDED, NULL);
    return waited;
}
