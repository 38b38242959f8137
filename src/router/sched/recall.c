/* router/sched/recall.c - a ticket leaves a slot in which it only waits.
 *
 * A ticket waits on its node while the node loads the model, again after a worker's death, and
 * beyond the slots for the end of another answer.  When another node can begin sooner on a free
 * slot, that slot is reserved and the ticket is recalled: its owner stops it, and it comes
 * again.
 */
#include "router/sched/sched.h"

/* More tickets than slots: some of those that the node has not begun with have none. */
static bool is_beyond(const struct router_replica *replica)
{
    return replica->slots != 0 && replica->inflight > replica->slots + replica->preempting;
}

static bool waits(const struct router_ticket *t, const struct router_schedule *schedule,
                  bool begun)
{
    return t->schedule == schedule && t->state == ROUTER_TICKET_RUNNING &&
           t->on_preempt != NULL && t->bound == NULL && !t->is_computing &&
           (t->has_begun || !begun);
}

/* Where the ticket would begin sooner; NULL: nowhere.  Once recalled it makes the same choice.
 */
static struct router_replica *find_better(struct router_sched *s, const struct router_ticket *t)
{
    struct router_candidate all[ROUTER_CANDIDATES_MAX];
    struct router_demand demand = {.prompt_tokens = t->prompt_tokens,
                                   .is_within_slots = true,
                                   .is_batch = t->priority == ROUTER_BATCH};
    size_t count =
        router_sched_candidates(s, t->schedule, t, s->now, all, ROUTER_CANDIDATES_MAX);
    for (size_t i = 0; i < count; i++) {
        bool is_own = all[i].replica == t->replica;
        all[i].inflight -= is_own;
        all[i].active -= is_own && all[i].active != 0;
        all[i].is_barred |=
            !is_own && (all[i].is_avoided || !all[i].is_loaded || all[i].slots == 0);
    }
    size_t best = router_pick(all, count, &demand);
    return best != ROUTER_NOBODY && all[best].replica != t->replica ? all[best].replica : NULL;
}

/* False: it stays. */
static bool recall(struct router_sched *s, struct router_ticket *t)
{
    struct router_replica *to = find_better(s, t);
    if (to == NULL)
        return false;
    t->recalled_to = to;
    to->reserved++;
    t->is_recalled = true;
    if (router_ticket_move(s, t, ROUTER_TICKET_PREEMPTED))
        s->host->preempt(s->ctx, t);
    return true;
}

/* The newest first: of those beyond the slots they are the last to begin. */
static void recall_from(struct router_sched *s, struct router_schedule *schedule,
                        const struct router_replica *replica, bool begun)
{
    struct router_ticket *next;
    for (struct router_ticket *t = replica->held; t != NULL; t = next) {
        next = t->next_held;
        if (replica->is_loaded && !is_beyond(replica))
            return;
        if (waits(t, schedule, begun) && !recall(s, t))
            return; /* the others find nothing better, either */
    }
}

void router_sched_recall(struct router_sched *s, struct router_schedule *schedule, bool begun)
{
    struct router_candidate all[ROUTER_CANDIDATES_MAX];
    if (schedule->held == 0)
        return;
    size_t count =
        router_sched_candidates(s, schedule, NULL, s->now, all, ROUTER_CANDIDATES_MAX);
    for (size_t i = 0; count > 1 && i < count; i++)
        recall_from(s, schedule, all[i].replica, begun);
}
