/* llamacpp/scheduler.c - see scheduler.h. */
#include <stdlib.h>

#include "engines/llamacpp/scheduler.h"

/* Cells kept free for each running sequence when another is admitted; otherwise the new one
 * would be preempted at once. */
enum { GROWTH = 16 };

/* Every running sequence counts with all its ids, computed or not. */
static uint64_t cells_used(const struct llamacpp_scheduler *s, uint32_t *running)
{
    uint64_t used = 0;

    *running = 0;
    for (const struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        used += seq->count;
        ++*running;
    }
    return used;
}

static void llamacpp_scheduler_leave(struct llamacpp_scheduler *s, struct engine_sequence *seq)
{
    s->forget(s->ctx, seq->slot);
    s->taken[seq->slot] = false;
    seq->computed = 0;
    seq->take = 0;
}

bool llamacpp_scheduler_preempt(struct llamacpp_scheduler *s)
{
    struct engine_sequence *last = engine_queue_last_running(&s->queue);

    if (last == NULL || last == s->queue.running)
        return false;
    llamacpp_scheduler_leave(s, last);
    engine_queue_suspend(&s->queue, last);
    return true;
}

static bool llamacpp_scheduler_enter(struct llamacpp_scheduler *s, struct engine_sequence *seq)
{
    uint32_t slot = 0, running;
    uint64_t used = cells_used(s, &running);

    while (slot < s->plan->max_sequences && s->taken[slot])
        slot++;
    if (slot == s->plan->max_sequences)
        return false;
    if (running > 0 &&
        used + seq->count + ((uint64_t)running + 1) * GROWTH > s->plan->kv_tokens)
        return false;
    s->taken[slot] = true;
    seq->slot = slot;
    engine_queue_run(&s->queue, seq);
    return true;
}

static uint32_t share_whole(struct llamacpp_scheduler *s)
{
    uint32_t left = s->plan->step_tokens;

    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        seq->take = seq->count <= left ? seq->count : 0;
        left -= seq->take;
    }
    return s->plan->step_tokens - left;
}

uint32_t llamacpp_scheduler_choose(struct llamacpp_scheduler *s)
{
    uint32_t running;

    while (cells_used(s, &running) > s->plan->kv_tokens && llamacpp_scheduler_preempt(s)) {
    }
    while (s->queue.queued != NULL && llamacpp_scheduler_enter(s, s->queue.queued)) {
    }
    return s->plan->is_vector ? share_whole(s)
                              : engine_queue_share(&s->queue, s->plan->prefill_chunk);
}

/* ---- beginning and ending ---- */

bool llamacpp_scheduler_init(struct llamacpp_scheduler *s, const struct llamacpp_plan *plan,
                             void (*forget)(void *ctx, uint32_t slot), void *ctx)
{
    *s = (struct llamacpp_scheduler){.plan = plan, .forget = forget, .ctx = ctx};
    s->taken = calloc(plan->max_sequences, sizeof(*s->taken));
    return s->taken != NULL;
}

void llamacpp_scheduler_deinit(struct llamacpp_scheduler *s)
{
    engine_queue_deinit(&s->queue);
    free(s->taken);
    *s = (struct llamacpp_scheduler){0};
}

void llamacpp_scheduler_end(struct llamacpp_scheduler *s, struct engine_sequence *seq)
{
    if (seq->state == ENGINE_RUNNING)
        llamacpp_scheduler_leave(s, seq);
    engine_queue_end(&s->queue, seq);
}
