/* router/sched/admission.c - may a ticket wait, and which ticket is refused where too many do.
 */
#include "router/sched/sched.h"

enum {
    KEPT_MS = 5000, /* a ticket that has waited for so long is not refused for another one */
    RETRY_MAX_S = 600,
};

static size_t limit_of(const struct router_sched *s, struct router_schedule *schedule)
{
    return router_pressure_limit(&schedule->pressure, s->queue_limit, s->queue_wait_ms, s->now);
}

/* Until the queue has room for one more, at the speed it moves.  Before it has moved at all:
 * until the quickest node would begin, which is mostly the time it takes to load. */
static uint32_t seconds_until_room(struct router_sched *s, const struct router_ticket *t,
                                   size_t limit)
{
    const struct router_schedule *schedule = t->schedule;
    size_t waiting = router_schedule_waiting(schedule);
    size_t over = waiting >= limit ? waiting - limit + 1 : 1;
    double ms = (double)router_pressure_wait_ms(&schedule->pressure, over);
    if (schedule->pressure.gaps == 0) {
        struct router_candidate all[ROUTER_CANDIDATES_MAX];
        struct router_demand demand = {.prompt_tokens = t->prompt_tokens};
        size_t count =
            router_sched_candidates(s, schedule, NULL, s->now, all, ROUTER_CANDIDATES_MAX);
        (void)router_pick(all, count, &demand);
        for (size_t i = 0; i < count; i++)
            if (i == 0 || all[i].cost < ms)
                ms = all[i].cost;
    }
    return ms >= RETRY_MAX_S * 1000.0 ? RETRY_MAX_S : (uint32_t)(ms / 1000) + 1;
}

static enum router_refusal admission_refuse(struct router_sched *s, struct router_ticket *t,
                                            size_t limit)
{
    t->retry_s = seconds_until_room(s, t, limit);
    if (t->schedule->pressure.state == ROUTER_OVER)
        return ROUTER_REFUSE_OVERLOAD;
    return limit < s->queue_limit ? ROUTER_REFUSE_WAIT : ROUTER_REFUSE_QUEUE;
}

/* ---- the ticket that makes room ---- */

struct weighing {
    const struct router_shares *shares;
    uint64_t now;
};

/* What a key has beside its tickets in the queue: the slots that it holds, and its account. */
static double weigh(const void *ctx, uint64_t key)
{
    const struct weighing *w = ctx;
    return router_shares_held(w->shares, key) + router_shares_account(w->shares, key, w->now);
}

/* The newest ticket of the key with the most, where that is more than `key` would have. */
static struct router_ticket *find_last(const struct router_sched *s,
                                       const struct router_schedule *schedule,
                                       enum router_priority priority, uint64_t key)
{
    struct weighing w = {&schedule->shares, s->now};
    struct router_queue_weight weight = {priority == ROUTER_LIVE ? weigh : NULL, &w};
    return (struct router_ticket *)(void *)router_queue_pushed_out(&schedule->queues[priority],
                                                                   key, weight);
}

static bool push_out(struct router_sched *s, struct router_ticket *last, size_t limit)
{
    if (last == NULL || last->is_again)
        return false;
    router_sched_drop(s, last, admission_refuse(s, last, limit));
    return true;
}

/* A batch ticket makes room for a live one, whatever its key has. */
static bool push_out_batch(struct router_sched *s, struct router_schedule *schedule)
{
    struct router_queue *batch = &schedule->queues[ROUTER_BATCH];
    struct router_ticket *last = find_last(s, schedule, ROUTER_BATCH, ROUTER_NO_KEY);
    if (last == NULL) /* one of each key */
        last = (struct router_ticket *)(void *)router_queue_peek(batch);
    return push_out(s, last, s->queue_limit);
}

void router_sched_shed(struct router_sched *s, struct router_schedule *schedule)
{
    uint64_t kept_ms = s->promised_ms < KEPT_MS ? s->promised_ms : KEPT_MS;
    while (schedule->pressure.state == ROUTER_OVER) {
        struct router_ticket *last = find_last(s, schedule, ROUTER_LIVE, ROUTER_NO_KEY);
        if (last == NULL || s->now - last->waiting_since_ms >= kept_ms)
            return;
        size_t limit = limit_of(s, schedule);
        if (schedule->queues[ROUTER_LIVE].count <= limit || !push_out(s, last, limit))
            return;
    }
}

/* ---- may it wait ---- */

static bool admission_has_room(struct router_sched *s, const struct router_ticket *t,
                               size_t limit)
{
    struct router_schedule *schedule = t->schedule;
    if (t->priority == ROUTER_BATCH)
        return schedule->pressure.state != ROUTER_OVER &&
               router_schedule_waiting(schedule) < s->queue_limit;
    if (schedule->queues[ROUTER_LIVE].count >= limit)
        return push_out(s, find_last(s, schedule, ROUTER_LIVE, t->key), limit);
    return router_schedule_waiting(schedule) < s->queue_limit || push_out_batch(s, schedule);
}

/* Live and batch tickets share the bytes; batch tickets leave where a live one needs them. */
static bool has_bytes(struct router_sched *s, const struct router_ticket *t)
{
    struct router_schedule *schedule = t->schedule;
    const struct router_queue *queue = &schedule->queues[t->priority];
    const struct router_queue *other = &schedule->queues[t->priority == ROUTER_LIVE];
    if (!router_queue_has_bytes(queue, t->key, t->waiter.bytes, s->queue_bytes))
        return false;
    do {
        size_t left = other->bytes < s->queue_bytes ? s->queue_bytes - other->bytes : 0;
        if (router_queue_has_bytes(queue, t->key, t->waiter.bytes, left))
            return true;
    } while (t->priority == ROUTER_LIVE && push_out_batch(s, schedule));
    return false;
}

bool router_sched_enqueue(struct router_sched *s, struct router_ticket *t,
                          enum router_refusal *why)
{
    struct router_schedule *schedule = t->schedule;
    struct router_queue *queue = router_ticket_queue(t);
    size_t limit = limit_of(s, schedule);
    bool fits = t->is_again || has_bytes(s, t), may_wait = fits;
    if (!fits) {
        t->retry_s = seconds_until_room(s, t, limit);
        *why = ROUTER_REFUSE_BYTES;
    } else if (!t->is_again && !admission_has_room(s, t, limit)) {
        *why = admission_refuse(s, t, limit);
        may_wait = false;
    }
    if (may_wait &&
        !router_queue_push(queue, &t->waiter, t->key, t->is_again && !t->is_moved)) {
        *why = ROUTER_REFUSE_MEMORY;
        return false;
    }
    if (!t->is_again && t->priority == ROUTER_LIVE)
        router_pressure_came(&schedule->pressure, !may_wait, queue->count, s->now);
    return may_wait;
}
