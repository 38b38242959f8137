/* router/fleet/dispatch.h - the scheduler (sched.h) with the router's lock, clock, loops,
 * nodes and words around it.
 *
 * Thread: functions take the lock themselves and are called on the ticket's loop, but for those
 * that say otherwise.
 */
#ifndef ROUTER_FLEET_DISPATCH_H
#define ROUTER_FLEET_DISPATCH_H

#include <pthread.h>

#include "base/clock.h"
#include "router/fleet/registry.h"

struct router_dispatch {
    /* Borrowed; set once. */
    pthread_mutex_t *lock;        /* the router's */
    const struct lr_clock *clock; /* NULL: the system's */
    const struct router_nodes *nodes;
    const struct router_registry *registry;

    struct router_sched sched; /* under the lock, but for its settings */
};

static inline void router_dispatch_lock(const struct router_dispatch *d)
{
    (void)pthread_mutex_lock(d->lock);
}
static inline void router_dispatch_unlock(const struct router_dispatch *d)
{
    (void)pthread_mutex_unlock(d->lock);
}

/* Before the first ticket: connects the scheduler to the members above. */
void router_dispatch_init(struct router_dispatch *d);

/* A slot now (ticket->node is set), a wait in the queue, or a refusal:
 *   NOT_FOUND     the model was deleted
 *   UNAVAILABLE   no node can serve it now, with the reason of each
 *   NOT_FOUND     no node can ever serve it
 *   RATE_LIMITED  too many wait; ticket->retry_s says when to come again
 * `again` as for router_sched_arrive. */
enum router_admission router_admit(struct router_ticket *ticket, bool again,
                                   struct lr_error *err);

/* Gives the slot back and lets the next ticket in. */
void router_release(struct router_ticket *ticket, enum router_outcome outcome,
                    const struct router_measure *measure);

/* The owner leaves the queue.  True: the ticket waited, and on_ready will not come.  False:
 * on_ready of a ticket that is granted or refused still comes. */
bool router_withdraw(struct router_ticket *ticket);

/* The node said whether the ticket that `ticket` swaps out leaves. */
void router_swap_confirmed(struct router_ticket *ticket, bool is_confirmed);
/* Whether a node could serve the ticket that has not failed it, beside the one that has it. The
 * ticket has a slot. */
bool router_has_another(struct router_ticket *ticket);
/* The ticket is about to be freed.  Takes no lock. */
void router_ticket_forget(struct router_ticket *ticket);

/* Every quarter of a second: ends waits that were too long.  Any thread. */
void router_dispatch_watch(struct router_dispatch *d, uint64_t now_ms);

/* ---- any thread, with the lock held ---- */

/* The fleet has changed. */
void router_pump_all(struct router_dispatch *d);

/* UNAVAILABLE, and why of each node; NOT_FOUND where every node has said that it will never run
 * the model. */
lr_code router_refuse_nobody(const struct router_dispatch *d, const struct router_model *model,
                             struct lr_error *err);

#endif
