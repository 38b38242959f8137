/* router/sched/preempt.c - a ticket leaves its slot for another ticket at once, and not when
 * its answer ends: a ticket of a key that has more than its share for a key that has less, and
 * a batch ticket for a live one.
 *
 * Slots kept free for others would stand idle.  A preempted answer costs its prompt computed
 * once more: it leaves its node, waits first in the queue of its key, and goes on with every
 * token its client has, as after the loss of a node.
 *
 * A ticket that comes beyond the slots names to the node the ticket that leaves (swap): the
 * node stops that generation and starts the new one between two steps.  The owner of the ticket
 * that leaves learns it from the node, after the last token.  Where the node does not confirm,
 * the owner is told by the router.
 */
#include <stdio.h>
#include <string.h>

#include "router/sched/sched.h"

/* A prompt that takes longer than this is not computed twice for another key. */
static const double again_most_ms = 1000;

static void preempt_tell(struct router_sched *s, struct router_ticket *victim)
{
    if (router_ticket_move(s, victim, ROUTER_TICKET_PREEMPTED))
        s->host->preempt(s->ctx, victim);
}

/* ---- swaps ---- */

void router_sched_settle_swap(struct router_sched *s, struct router_ticket *t)
{
    if (t->swap[0] == '\0')
        return;
    for (struct router_ticket *v = t->replica->held; v != NULL; v = v->next_held)
        if (v->state == ROUTER_TICKET_SWAPPED && strcmp(v->name, t->swap) == 0)
            preempt_tell(s, v);
    t->swap[0] = '\0';
}

void router_sched_swap_confirmed(struct router_sched *s, struct router_ticket *t,
                                 bool is_confirmed)
{
    if (t->replica == NULL)
        return;
    if (is_confirmed) {
        t->replica->health->takes_swaps = true;
        t->swap[0] = '\0';
    }
    router_sched_settle_swap(s, t);
}

/* ---- which ticket ---- */

/* Batch first.  Then the key that used the most.  A pause hurts less than a late first token;
 * then the shortest prompt, of equal ones the newest. */
static bool is_better(const struct router_ticket *t, const struct router_ticket *best,
                      uint64_t now)
{
    const struct router_shares *shares = &t->schedule->shares;
    if (t->priority != best->priority)
        return t->priority == ROUTER_BATCH;
    if (t->key != best->key)
        return router_shares_used(shares, t->key, now) >
               router_shares_used(shares, best->key, now);
    bool begun = atomic_load_explicit(&t->has_begun, memory_order_relaxed);
    bool best_begun = atomic_load_explicit(&best->has_begun, memory_order_relaxed);
    return begun != best_begun ? begun : t->prompt_tokens < best->prompt_tokens;
}

/* Whether the ticket leaves its slot for a live ticket. */
static bool may_leave(const struct router_ticket *t, const struct router_ticket *taker,
                      const struct router_replica *replica, uint64_t slots, uint64_t now)
{
    if (t->state != ROUTER_TICKET_RUNNING || t->on_preempt == NULL)
        return false;
    if (t->priority == ROUTER_BATCH)
        return true;
    return !taker->is_again && !t->was_preempted && t->key != taker->key &&
           t->prompt_tokens * replica->prefill_ms <= again_most_ms &&
           router_shares_gives(&t->schedule->shares, t->key, taker->key, slots, now);
}

static struct router_ticket *preempt_find(const struct router_ticket *taker,
                                          const struct router_replica *replica, uint64_t slots,
                                          uint64_t now)
{
    struct router_ticket *best = NULL;
    for (struct router_ticket *t = replica->held; t != NULL; t = t->next_held)
        if (may_leave(t, taker, replica, slots, now) &&
            (best == NULL || is_better(t, best, now)))
            best = t;
    return best;
}

bool router_sched_makes_way(const struct router_sched *s, const struct router_ticket *t,
                            const struct router_replica *replica, uint64_t slots)
{
    return s->preempts && replica->slots != 0 &&
           preempt_find(t, replica, slots, s->now) != NULL;
}

void router_sched_make_way(struct router_sched *s, struct router_ticket *t,
                           struct router_replica *replica, uint64_t slots)
{
    uint32_t needed = replica->inflight + (t->replica == NULL);
    if (!s->preempts || t->priority == ROUTER_BATCH || replica->slots == 0)
        return;
    while (needed > replica->slots + replica->preempting) {
        struct router_ticket *victim = preempt_find(t, replica, slots, s->now);
        if (victim == NULL)
            return;
        victim->was_preempted = true;
        if (t->replica != replica || t->swap[0] != '\0' || victim->name[0] == '\0') {
            preempt_tell(s, victim);
        } else if (router_ticket_move(s, victim, ROUTER_TICKET_SWAPPED)) {
            (void)snprintf(t->swap, sizeof(t->swap), "%s", victim->name);
        }
    }
}
