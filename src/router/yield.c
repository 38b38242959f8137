/* router/yield.c - a key that has more of a model than its share gives a slot to one that has
 * less, at once and not when one of its answers ends.
 *
 * Slots kept free for others would stand idle: at eight slots two of them, a quarter of what
 * the model can do.  An answer that steps aside costs its prompt computed once more: it leaves
 * its node, waits first in line of its key, and goes on with every token its client has, as
 * after the loss of a node.  An answer is asked once, and never where beginning again would
 * take long.
 */
#include <stdlib.h>

#include "router/dispatch.h"

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

void router_unask(struct router_job *job)
{
    router_job_forget(job);
    if (!job->is_yielding)
        return;
    job->is_yielding = false;
    job->place->yielding--;
    router_shares_ask(&job->model->shares, job->lane, false);
}

static void ask(struct router_job *job)
{
    struct router_yield *yield = malloc(sizeof(*yield));
    if (yield == NULL)
        return;
    yield->job = job;
    job->yield = yield;
    job->has_yielded = job->is_yielding = true;
    job->place->yielding++;
    router_shares_ask(&job->model->shares, job->lane, true);
    net_loop_post(job->loop, arrive, yield);
}

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

void router_make_way(const struct router_job *job, struct router_place *place, uint64_t slots,
                     uint64_t now)
{
    uint32_t needed = place->inflight + (job->place == NULL);
    if (!job->router->asks_to_yield || job->is_again || place->slots == 0)
        return;
    while (needed > place->slots + place->yielding) {
        struct router_job *victim = find(job, place, slots, now);
        if (victim == NULL)
            return;
        ask(victim);
    }
}
