#include "router/sched/sched.h"

#include <stdio.h>

enum { NOBODY_GRACE_MS = 10000 }; /* a ticket that had a slot waits this long for a node */

void router_schedule_free(struct router_schedule *schedule)
{
    router_shares_free(&schedule->shares);
}

size_t router_schedule_waiting(const struct router_schedule *schedule)
{
    size_t count = 0;
    for (int i = 0; i < ROUTER_QUEUES; i++)
        count += schedule->queues[i].count;
    return count;
}

uint64_t router_schedule_wait_ms(const struct router_schedule *schedule)
{
    return router_pressure_wait_ms(&schedule->pressure,
                                   schedule->queues[ROUTER_MOVED].count +
                                       schedule->queues[ROUTER_LIVE].count);
}

/* An event's time may have been read a moment before another event came first. */
static void advance(struct router_sched *s, uint64_t now)
{
    s->now = now > s->now ? now : s->now;
}

/* ---- candidates ---- */

bool router_ticket_has_failed(const struct router_ticket *t, const struct router_node *node)
{
    for (uint32_t i = 0; t != NULL && i < t->failed_count; i++)
        if (t->failed[i] == node)
            return true;
    return false;
}

static void complete(const struct router_sched *s, const struct router_ticket *t,
                     struct router_candidate *c)
{
    const struct router_replica *replica = c->replica;
    const struct router_health *health = replica->health;
    uint32_t reported = replica->live + replica->queued;
    bool failed = router_ticket_has_failed(t, c->node);
    c->is_avoided = failed || router_replica_is_doubtful(replica, s->now);
    c->is_barred = replica->is_full || (failed && s->now < health->avoided_until_ms);
    c->is_loaded = replica->is_loaded;
    c->weight_bytes = replica->weight_bytes;
    c->slots = replica->slots;
    c->active = replica->inflight > reported ? replica->inflight : reported;
    c->inflight =
        replica->inflight + replica->reserved - (health->takes_swaps ? replica->swapped : 0);
    c->batch = replica->batch;
    c->load_ms = replica->load_ms;
    c->prefill_ms = replica->prefill_ms;
    c->step_ms = replica->step_ms;
    c->cached = replica->is_caching && t != NULL && t->prefixes != NULL
                    ? prefix_index_share(&s->prefixes, c->node, t->prefixes)
                    : 0;
}

size_t router_sched_candidates(struct router_sched *s, const struct router_schedule *schedule,
                               const struct router_ticket *t, uint64_t now,
                               struct router_candidate *out, size_t capacity)
{
    advance(s, now);
    size_t count = s->host->replicas(s->ctx, schedule, t, out, capacity);
    for (size_t i = 0; i < count; i++)
        complete(s, t, &out[i]);
    return count;
}

/* ---- a slot now ---- */

/* SHARE: full for this key, perhaps not for a key that has less. */
enum grant { GRANT_OK, GRANT_FULL, GRANT_SHARE, GRANT_NOBODY };

static void sched_choose(struct router_sched *s, struct router_ticket *t,
                         const struct router_candidate *chosen, size_t count)
{
    t->node = chosen->node;
    t->replica = chosen->replica;
    if (t->prefixes != NULL)
        prefix_index_note(&s->prefixes, t->node, t->prefixes);
    t->chosen = (struct router_chosen){chosen->cost, chosen->cached, chosen->active,
                                       (uint32_t)count, chosen->is_loaded};
    (void)snprintf(t->why, sizeof(t->why), "cost=%.0fms %s active=%u nodes=%zu cached=%.0f%%",
                   chosen->cost, chosen->is_loaded ? "loaded" : "loads-first", chosen->active,
                   count, chosen->cached * 100);
}

/* There is no room, not even beyond the slots: room is made at the quickest replica with batch
 * tickets, else at the quickest replica.  A ticket that has its share moves only batch tickets.
 */
static void make_way_somewhere(struct router_sched *s, struct router_ticket *t,
                               const struct router_candidate *all, size_t count, uint64_t slots,
                               bool has_share)
{
    const struct router_candidate *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct router_candidate *c = &all[i];
        if (c->is_barred || (has_share && c->batch == 0))
            continue;
        if (best == NULL || (c->batch != 0) > (best->batch != 0) ||
            ((c->batch != 0) == (best->batch != 0) && c->cost < best->cost))
            best = c;
    }
    if (best != NULL)
        router_sched_make_way(s, t, best->replica, slots);
}

/* Whether the ticket may not go beyond the slots.  What goes there waits for the end of another
 * answer, so an answer that has begun never does: a free slot may come sooner elsewhere.  A
 * ticket under suspicion has no elsewhere. */
static bool stays_within(const struct router_sched *s, const struct router_ticket *t,
                         uint64_t slots)
{
    if (t->priority == ROUTER_BATCH || t->is_moved)
        return t->bound == NULL || t->priority == ROUTER_BATCH;
    return !router_shares_is_light(&t->schedule->shares, t->key, slots, s->now);
}

/* Whether the ticket would go beyond the slots, and so use the next free slot, while a moved
 * answer waits for a slot.  A ticket that takes the slot of another answer (a swap) leaves the
 * next free slot to the moved answer. */
static bool overtakes(const struct router_sched *s, const struct router_ticket *t,
                      const struct router_candidate *c, uint64_t slots)
{
    uint32_t own = c->slots != 0 ? c->slots : ROUTER_SLOTS_UNKNOWN;
    return !t->is_moved && t->schedule->queues[ROUTER_MOVED].count != 0 && c->inflight >= own &&
           !router_sched_makes_way(s, t, c->replica, slots);
}

/* The ticket moves to `to` with a slot.  `is_turn`: it is the turn of its key. */
static enum grant try_grant(struct router_sched *s, struct router_ticket *t,
                            enum router_ticket_state to, bool is_turn)
{
    struct router_candidate all[ROUTER_CANDIDATES_MAX];
    struct router_schedule *schedule = t->schedule;
    struct router_demand demand = {.prompt_tokens = t->prompt_tokens,
                                   .is_batch = t->priority == ROUTER_BATCH};
    uint64_t slots = 0;
    size_t count = router_sched_candidates(s, schedule, t, s->now, all, ROUTER_CANDIDATES_MAX);
    if (count == 0)
        return GRANT_NOBODY;
    for (size_t i = 0; i < count; i++)
        slots += all[i].slots != 0 ? all[i].slots : ROUTER_SLOTS_UNKNOWN;
    schedule->pressure.slots = slots;
    demand.is_within_slots = stays_within(s, t, slots);
    size_t best = router_pick(all, count, &demand);
    if (best == ROUTER_NOBODY) {
        make_way_somewhere(s, t, all, count, slots, demand.is_within_slots);
        return demand.is_within_slots ? GRANT_SHARE : GRANT_FULL;
    }
    if (overtakes(s, t, &all[best], slots))
        return GRANT_SHARE;
    sched_choose(s, t, &all[best], count);
    if (is_turn)
        (void)router_queue_pop(router_ticket_queue(t));
    if (!router_ticket_move(s, t, to))
        return GRANT_FULL;
    router_sched_make_way(s, t, t->replica, slots);
    return GRANT_OK;
}

/* ---- the queue ---- */

void router_sched_drop(struct router_sched *s, struct router_ticket *t, enum router_refusal why)
{
    if (router_ticket_move(s, t, ROUTER_TICKET_REFUSED))
        s->host->refuse(s->ctx, t, why);
}

/* The first in turn that can go now.  Where the key whose turn it is has its share, another
 * key may use the room beyond the slots; the turn stays. */
static bool grant_next(struct router_sched *s, struct router_schedule *schedule, int which)
{
    struct router_queue *queue = &schedule->queues[which];
    struct router_waiter *first = router_queue_peek(queue);
    for (struct router_waiter *w = first, *next; w != NULL; w = next) {
        struct router_ticket *t = (struct router_ticket *)(void *)w;
        bool is_particular = t->weights[0] != '\0';
        next = is_particular && w->next != NULL ? w->next : router_queue_next_key(queue, w);
        enum grant grant = try_grant(s, t, ROUTER_TICKET_GRANTED, w == first);
        if (grant == GRANT_NOBODY && is_particular)
            continue; /* what keeps it from going keeps no other ticket */
        if (grant == GRANT_OK && which == ROUTER_LIVE)
            router_pressure_begun(&schedule->pressure, queue->count, s->now);
        if (grant == GRANT_OK)
            s->host->send(s->ctx, t);
        if (grant != GRANT_SHARE)
            return grant == GRANT_OK;
    }
    return false;
}

static bool has_live(const struct router_schedule *schedule)
{
    return schedule->queues[ROUTER_MOVED].count + schedule->queues[ROUTER_LIVE].count != 0;
}

static void pump(struct router_sched *s, struct router_schedule *schedule)
{
    while (grant_next(s, schedule, ROUTER_MOVED))
        ;
    router_sched_recall(s, schedule, true);
    while (grant_next(s, schedule, ROUTER_LIVE))
        ;
    /* A batch ticket never takes a slot that a live ticket waits for. */
    while (!has_live(schedule) && grant_next(s, schedule, ROUTER_BATCH))
        ;
    router_sched_shed(s, schedule);
    if (router_schedule_waiting(schedule) == 0)
        router_sched_recall(s, schedule, false);
}

void router_sched_pump_all(struct router_sched *s, uint64_t now)
{
    struct router_schedule *next;
    advance(s, now);
    for (struct router_schedule *schedule = s->busy; schedule != NULL; schedule = next) {
        next = schedule->next_busy;
        pump(s, schedule);
    }
}

/* ---- arrivals ---- */

/* No ticket overtakes those that wait, except a ticket that had a slot before.  A key without a
 * ticket in the queue may take what the others cannot: the room beyond the slots. */
static enum grant try_at_once(struct router_sched *s, struct router_ticket *t)
{
    struct router_schedule *schedule = t->schedule;
    bool is_first = router_queue_key_count(router_ticket_queue(t), t->key) == 0;
    while (grant_next(s, schedule, ROUTER_MOVED))
        ;
    if (is_first && !t->is_moved && router_schedule_waiting(schedule) != 0)
        pump(s, schedule);
    if (t->priority == ROUTER_BATCH && has_live(schedule))
        return GRANT_FULL;
    return t->is_again || is_first ? try_grant(s, t, ROUTER_TICKET_RUNNING, false) : GRANT_FULL;
}

enum router_admission router_sched_arrive(struct router_sched *s, struct router_ticket *t,
                                          bool again, uint64_t now, enum router_refusal *why)
{
    advance(s, now);
    if (t->state != ROUTER_TICKET_IDLE) {
        (void)router_ticket_move(s, t, t->state); /* no state follows itself */
        *why = ROUTER_REFUSE_DEFECT;
        return ROUTER_REFUSED;
    }
    t->is_again = t->waiter.is_kept = again;
    t->is_moved = again && t->has_begun && !t->was_preempted && !t->was_paused &&
                  t->priority == ROUTER_LIVE;
    t->retry_s = 0;
    if (t->priority == ROUTER_LIVE)
        router_shares_see(&t->schedule->shares, t->key, s->now);
    enum grant grant = try_at_once(s, t);
    if (again)
        pump(s, t->schedule); /* others may use what it left */
    if (grant == GRANT_OK)
        return ROUTER_GRANTED;
    if (grant == GRANT_NOBODY && !again) {
        *why = ROUTER_REFUSE_NOBODY;
        return ROUTER_REFUSED;
    }
    if (!router_sched_enqueue(s, t, why))
        return ROUTER_REFUSED;
    (void)router_ticket_move(s, t, ROUTER_TICKET_QUEUED);
    t->waiting_since_ms = s->now;
    t->nobody_since_ms = grant == GRANT_NOBODY ? s->now : 0;
    router_sched_shed(s, t->schedule);
    return ROUTER_WAITING;
}

bool router_sched_acknowledge(struct router_sched *s, struct router_ticket *t)
{
    bool is_granted = t->state == ROUTER_TICKET_GRANTED;
    (void)router_ticket_move(s, t, is_granted ? ROUTER_TICKET_RUNNING : ROUTER_TICKET_IDLE);
    return is_granted;
}

/* ---- a ticket on a node ---- */

void router_sched_prefill(struct router_ticket *t)
{
    atomic_store_explicit(&t->is_computing, true, memory_order_relaxed);
}

void router_sched_token(struct router_ticket *t)
{
    router_sched_prefill(t);
    atomic_store_explicit(&t->has_begun, true, memory_order_relaxed);
    router_health_trust(t->replica->health);
}

void router_sched_release(struct router_sched *s, struct router_ticket *t,
                          enum router_outcome outcome, const struct router_measure *measure,
                          uint64_t now)
{
    struct router_replica *replica = t->replica;
    advance(s, now);
    if (!router_ticket_holds(t->state) || t->state == ROUTER_TICKET_GRANTED)
        return;
    replica->is_full = outcome == ROUTER_BUSY;
    if (measure != NULL)
        router_replica_measure(replica, measure);
    if (outcome == ROUTER_FAILED) {
        if (!router_ticket_has_failed(t, t->node) && t->failed_count < ROUTER_FAILED_MAX)
            t->failed[t->failed_count++] = t->node;
        router_health_fail(replica->health, s->now);
    }
    t->was_paused |= outcome == ROUTER_PAUSED;
    (void)router_ticket_move(s, t, ROUTER_TICKET_IDLE);
    /* A ticket that failed, lost its worker or was recalled comes again at once, and first. */
    if (outcome != ROUTER_LOST && outcome != ROUTER_FAILED && outcome != ROUTER_RECALLED)
        pump(s, t->schedule);
}

bool router_sched_withdraw(struct router_sched *s, struct router_ticket *t)
{
    return t->state == ROUTER_TICKET_QUEUED && router_ticket_move(s, t, ROUTER_TICKET_IDLE);
}

/* ---- time ---- */

struct watch {
    struct router_sched *s;
    bool has_nobody;
};

static void watch_waiter(void *ctx, struct router_waiter *waiter)
{
    const struct watch *w = ctx;
    struct router_sched *s = w->s;
    struct router_ticket *t = (struct router_ticket *)(void *)waiter;
    struct router_candidate any;
    bool has_nobody = w->has_nobody, is_hopeless = false;
    if (t->weights[0] != '\0') {
        has_nobody = router_sched_candidates(s, t->schedule, t, s->now, &any, 1) == 0;
        is_hopeless =
            has_nobody && s->host->is_hopeless != NULL && s->host->is_hopeless(s->ctx, t);
    }
    if (!has_nobody)
        t->nobody_since_ms = 0;
    else if (t->nobody_since_ms == 0)
        t->nobody_since_ms = s->now;
    if (is_hopeless || (has_nobody && s->now - t->nobody_since_ms >= NOBODY_GRACE_MS))
        router_sched_drop(s, t, ROUTER_REFUSE_NOBODY);
    else if (s->queue_timeout_ms != 0 && t->priority == ROUTER_LIVE &&
             s->now - t->waiting_since_ms >= s->queue_timeout_ms)
        router_sched_drop(s, t, ROUTER_REFUSE_TIMEOUT);
}

void router_sched_tick(struct router_sched *s, uint64_t now)
{
    struct router_schedule *next;
    router_sched_pump_all(s, now);
    for (struct router_schedule *schedule = s->busy; schedule != NULL; schedule = next) {
        struct router_candidate any;
        next = schedule->next_busy;
        if (router_schedule_waiting(schedule) == 0)
            continue;
        struct watch w = {s, router_sched_candidates(s, schedule, NULL, now, &any, 1) == 0};
        for (int i = 0; i < ROUTER_QUEUES; i++)
            router_queue_each(&schedule->queues[i], watch_waiter, &w);
    }
}

static void refuse_new(void *sched, struct router_waiter *waiter)
{
    struct router_ticket *t = (struct router_ticket *)(void *)waiter;
    if (!t->is_again)
        router_sched_drop(sched, t, ROUTER_REFUSE_DELETED);
}

void router_sched_delete(struct router_sched *s, struct router_schedule *schedule)
{
    for (int i = 0; i < ROUTER_PRIORITIES; i++)
        router_queue_each(&schedule->queues[i], refuse_new, s);
}
