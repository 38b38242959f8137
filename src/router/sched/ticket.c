#include "router/sched/ticket.h"

#include "base/list.h"
#include "base/machine.h"
#include "router/sched/sched.h"

#define TO(name) LR_STATE(ROUTER_TICKET_##name)
static const struct lr_machine machine = {
    "ticket",
    {
        [ROUTER_TICKET_IDLE] = {"idle", TO(QUEUED) | TO(RUNNING)},
        [ROUTER_TICKET_QUEUED] = {"queued", TO(IDLE) | TO(GRANTED) | TO(REFUSED)},
        [ROUTER_TICKET_GRANTED] = {"granted", TO(RUNNING)},
        [ROUTER_TICKET_REFUSED] = {"refused", TO(IDLE)},
        [ROUTER_TICKET_RUNNING] = {"running", TO(IDLE) | TO(SWAPPED) | TO(PREEMPTED)},
        [ROUTER_TICKET_SWAPPED] = {"swapped", TO(IDLE) | TO(PREEMPTED)},
        [ROUTER_TICKET_PREEMPTED] = {"preempted", TO(IDLE)},
    },
};

static bool leaves(enum router_ticket_state state)
{
    return state == ROUTER_TICKET_SWAPPED || state == ROUTER_TICKET_PREEMPTED;
}

bool router_ticket_holds(enum router_ticket_state state)
{
    return state == ROUTER_TICKET_GRANTED || state == ROUTER_TICKET_RUNNING || leaves(state);
}

/* ---- what a state holds ---- */

static void hold(struct router_sched *s, struct router_ticket *t)
{
    struct router_replica *replica = t->replica;
    LR_LIST_PUSH(&replica->held, t, next_held, held_link);
    replica->inflight++;
    t->schedule->held++;
    t->is_computing = false;
    replica->batch += t->priority == ROUTER_BATCH;
    replica->health->requests++;
    s->held++;
    if (t->priority == ROUTER_LIVE)
        router_shares_hold(&t->schedule->shares, t->key, s->now);
}

static void unhold(struct router_sched *s, struct router_ticket *t)
{
    router_sched_settle_swap(s, t);
    if (t->recalled_to != NULL)
        t->recalled_to->reserved--;
    t->recalled_to = NULL;
    t->is_recalled = false;
    LR_LIST_REMOVE(t, next_held, held_link);
    t->replica->inflight--;
    t->schedule->held--;
    t->replica->batch -= t->priority == ROUTER_BATCH;
    s->held--;
    if (t->priority == ROUTER_LIVE)
        router_shares_release(&t->schedule->shares, t->key, s->now);
    t->node = NULL;
    t->replica = NULL;
}

static void ticket_add(uint32_t *count, bool is_more)
{
    *count = is_more ? *count + 1 : *count - 1;
}

static void set_leaving(struct router_ticket *t, bool is_leaving)
{
    ticket_add(&t->replica->preempting, is_leaving);
    if (t->priority == ROUTER_LIVE)
        router_shares_preempt(&t->schedule->shares, t->key, is_leaving);
}

static void set_swapped(struct router_ticket *t, bool is_swapped)
{
    ticket_add(&t->replica->swapped, is_swapped);
    if (t->priority == ROUTER_BATCH)
        ticket_add(&t->replica->batch, !is_swapped);
}

static void ticket_leave(struct router_sched *s, struct router_ticket *t)
{
    s->waiting--;
    router_queue_remove(router_ticket_queue(t), &t->waiter);
}

/* On the list of the models that have tickets, or off it. */
static void ticket_list(struct router_sched *s, struct router_schedule *schedule)
{
    bool is_busy = schedule->held != 0 || router_schedule_waiting(schedule) != 0;
    if (is_busy && schedule->busy_link == NULL)
        LR_LIST_PUSH(&s->busy, schedule, next_busy, busy_link);
    else if (!is_busy && schedule->busy_link != NULL)
        LR_LIST_REMOVE(schedule, next_busy, busy_link);
}

/* ---- moves ---- */

static void ticket_change(struct router_sched *s, struct router_ticket *t,
                          enum router_ticket_state to)
{
    enum router_ticket_state from = t->state;
    bool was_swapped = from == ROUTER_TICKET_SWAPPED, is_swapped = to == ROUTER_TICKET_SWAPPED;
    t->state = to;
    if (from == ROUTER_TICKET_QUEUED)
        ticket_leave(s, t);
    s->waiting += to == ROUTER_TICKET_QUEUED;
    if (router_ticket_holds(to) && !router_ticket_holds(from))
        hold(s, t);
    if (leaves(to) != leaves(from))
        set_leaving(t, leaves(to));
    if (was_swapped != is_swapped)
        set_swapped(t, is_swapped);
    if (router_ticket_holds(from) && !router_ticket_holds(to))
        unhold(s, t);
    ticket_list(s, t->schedule);
}

/* Its owner waits for an answer only where it is in the queue. */
static bool ticket_fail(struct router_sched *s, struct router_ticket *t)
{
    bool has_waited = t->state == ROUTER_TICKET_QUEUED;
    s->illegal_moves++;
    ticket_change(s, t, has_waited ? ROUTER_TICKET_REFUSED : ROUTER_TICKET_IDLE);
    if (has_waited)
        s->host->refuse(s->ctx, t, ROUTER_REFUSE_DEFECT);
    return false;
}

bool router_ticket_move(struct router_sched *s, struct router_ticket *t,
                        enum router_ticket_state to)
{
    if (!lr_machine_allows(&machine, t->name, t->state, to))
        return ticket_fail(s, t);
    ticket_change(s, t, to);
    return true;
}
