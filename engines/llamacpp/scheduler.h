/* llamacpp/scheduler.h - who of the requests is computed in the next step.
 *
 * Order everywhere: higher priority first, then earlier arrival.  Every running sequence
 * that decodes gives one token to each step; prompts fill what prefill_chunk leaves.  A
 * sequence is let in when there is a slot and there are cells for all its ids; when the
 * cells run out, the last in order among the running goes back to the queue.  One alone
 * always fits, so nothing deadlocks.
 *
 * This file knows neither libllama nor callbacks: `forget` is how it gives cells back.
 * Thread: the engine's caller.
 */
#ifndef LLAMACPP_SCHEDULER_H
#define LLAMACPP_SCHEDULER_H

#include <stdbool.h>

#include "engines/common/queue.h"
#include "engines/llamacpp/plan.h"

struct llamacpp_scheduler {
    const struct llamacpp_plan *plan; /* borrowed */
    struct engine_queue queue;
    bool *taken;                              /* owned, for each slot */
    void (*forget)(void *ctx, uint32_t slot); /* frees the slot's cells at once */
    void *ctx;
};

bool llamacpp_scheduler_init(struct llamacpp_scheduler *s, const struct llamacpp_plan *plan,
                             void (*forget)(void *ctx, uint32_t slot), void *ctx);
void llamacpp_scheduler_deinit(struct llamacpp_scheduler *s); /* destroys its sequences */

/* Gives slot and cells back and unlinks; the caller owns the sequence again. */
void llamacpp_scheduler_end(struct llamacpp_scheduler *s, struct engine_sequence *seq);

/* Lets sequences in and sets `take` of each; returns the number of tokens. */
uint32_t llamacpp_scheduler_choose(struct llamacpp_scheduler *s);

/* The library found no room for the batch: the last sequence in order is preempted.  False when
 * only one is running. */
bool llamacpp_scheduler_preempt(struct llamacpp_scheduler *s);

#endif
