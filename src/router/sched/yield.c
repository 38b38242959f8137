/* router/sched/yield.c - a key that has more of a model than its share gives a slot to one that
 * has less, at once and not when one of its answers ends.
 *
 * Slots kept free for others would stand idle: at eight slots two of them, a quarter of what
 * the model can do.  An answer that steps aside costs its prompt computed once more: it leaves
 * its node, waits first in line of its key, and goes on with every token its client has, as
 * after the loss of a node.  An answer is told once, and never where beginning again would
 * take long.
 *
 * Who comes beyond the slots names who leaves: the node stops the one and starts the other
 * between two steps, and nobody waits for a word from the loop of the one that leaves.  That
 * loop learns it from the node, when the last token has come.  Where the node has not confirmed
 * (an older one, or the answer was not there), the answer is asked through its loop.
 */
#include <stdio.h>
#include <stdlib.h>

#include "router/sched/dispatch.h"

/* A prompt that takes longer than this is not computed twice for another's sake. */
static const double again_most_ms = 1000;

/* The way to a job's loop.  The job may end before it arrives. */
struct router_yield {
    struct router_job *job; /* NULL: it has; only its loop writes this */
};

static void arrive(void *arg)
{
    struct router_yield *yield = arg;
    struct router_job *job = yield->job;
    free(yield);
    if (job == NULL)
        return;
    router_lock(job->router);
    job->yield = NULL;
    router_unlock(job->router);
    job->on_yield(job);
}

void router_job_forget(struct router_job *job)
{
    if (job->yield != NULL)
        job->yield->job = NULL;
    job->yield = NULL;
}

static void unreplace(struct router_job *job)
{
    job->place->replaced -= job->is_replaced;
    job->is_replaced = false;
}

void router_unask(struct router_job *job)
{
    router_job_forget(job);
    if (!job->is_yielding)
        return;
    unreplace(job);
    job->is_yielding = false;
    job->place->yielding--;
    router_shares_ask(&job->model->shares, job->lane, false);
}

static void mark(struct router_job *job)
{
    job->has_yielded = job->is_yielding = true;
    job->place->yielding++;
    router_shares_ask(&job->model->shares, job->lane, true);
}

/* Without memory it stays where it is, and leaves when it ends. */
static void ask(struct router_job *job)
{
    struct router_yield *yield = malloc(sizeof(*yield));
    if (yield == NULL)
        return;
    yield->job = job;
    job->yield = yield;
    net_loop_post(job->loop, arrive, yield);
}

/* ---- one instead of another ---- */

static void name(struct router_job *job, struct router_job *victim)
{
    (void)snprintf(job->instead_of, sizeof(job->instead_of), "%s", victim->name);
    victim->is_replaced = true;
    victim->place->replaced++;
}

void router_insist(struct router_job *job)
{
    if (job->instead_of[0] == '\0')
        return;
    for (struct router_job *v = job->place->held; v != NULL; v = v->next_held)
        if (v->is_replaced && v->yield == NULL && strcmp(v->name, job->instead_of) == 0) {
            unreplace(v);
            ask(v);
        }
    job->instead_of[0] = '\0';
}

void router_came_instead(struct router_job *job, bool is_confirmed)
{
    router_lock(job->router);
    if (job->node != NULL && is_confirmed) {
        job->node->takes_instead = true;
        job->instead_of[0] = '\0';
    } else if (job->node != NULL) {
        router_insist(job);
    }
    router_unlock(job->router);
}

bool router_was_asked(struct router_job *job)
{
    router_lock(job->router);
    bool was_asked = job->has_yielded;
    router_unlock(job->router);
    return was_asked;
}

void router_stays(struct router_job *job)
{
    router_lock(job->router);
    if (job->place != NULL)
        router_unask(job);
    router_unlock(job->router);
}

/* ---- who ---- */

/* The key that used the most.  A pause hurts less than a first token that comes late; then the
 * shortest prompt, of equal ones the newest. */
static bool is_better(const struct router_job *job, const struct router_job *best, uint64_t now)
{
    const struct router_shares *shares = &job->model->shares;
    if (job->lane != best->lane)
        return router_shares_used(shares, job->lane, now) >
               router_shares_used(shares, best->lane, now);
    bool begun = atomic_load_explicit(&job->has_begun, memory_order_relaxed);
    bool best_begun = atomic_load_explicit(&best->has_begun, memory_order_relaxed);
    return begun != best_begun ? begun : job->prompt_tokens < best->prompt_tokens;
}

static bool may_leave(const struct router_job *job, const struct router_place *place)
{
    return job->state == ROUTER_JOB_HELD && !job->has_yielded && job->on_yield != NULL &&
           job->prompt_tokens * place->prefill_ms <= again_most_ms;
}

static struct router_job *find(const struct router_job *for_whom,
                               const struct router_place *place, uint64_t slots, uint64_t now)
{
    struct router_job *best = NULL;
    uint64_t lane = for_whom->lane; /* looked at last: mostly all are of one key */
    bool gives = false;
    for (struct router_job *job = place->held; job != NULL; job = job->next_held) {
        if (!may_leave(job, place))
            continue;
        if (job->lane != lane)
            gives =
                router_shares_gives(&job->model->shares, job->lane, for_whom->lane, slots, now);
        lane = job->lane;
        if (gives && lane != for_whom->lane && (best == NULL || is_better(job, best, now)))
            best = job;
    }
    return best;
}

void router_make_way(struct router_job *job, struct router_place *place, uint64_t slots,
                     uint64_t now)
{
    uint32_t needed = place->inflight + (job->place == NULL);
    if (!job->router->asks_to_yield || job->is_again || place->slots == 0)
        return;
    while (needed > place->slots + place->yielding) {
        struct router_job *victim = find(job, place, slots, now);
        if (victim == NULL)
            return;
        mark(victim);
        if (job->place == place && job->instead_of[0] == '\0' && victim->name[0] != '\0')
            name(job, victim);
        else
            ask(victim);
    }
}
