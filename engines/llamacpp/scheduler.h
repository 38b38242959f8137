/* llamacpp/scheduler.h - which sequences are computed in the next step.
 *
 * The order is always: higher priority first, then earlier arrival.  Every running sequence
 * that decodes adds one token to each step; prompts fill the rest of prefill_chunk.  A sequence
 * is admitted when there is a slot and there are cells for all its ids.  When the cells run
 * out, the running sequence that is last in order goes back to the queue.  A single sequence
 * always fits, so nothing deadlocks.
 *
 * A sequence that becomes a vector is computed whole: as many as fit into a batch, in order.
 *
 * This file knows neither libllama nor callbacks: it frees cells through `forget`.  Thread: the
 * engine's caller.
 */
#ifndef LLAMACPP_SCHEDULER_H
#define LLAMACPP_SCHEDULER_H

#include <stdbool.h>

#include "engines/llamacpp/plan.h"
#include "engines/serving/queue.h"

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

/* Frees slot and cells and unlinks; the caller owns the sequence again. */
void llamacpp_scheduler_end(struct llamacpp_scheduler *s, struct engine_sequence *seq);

/* Admits sequences and sets `take` of each; returns the number of tokens. */
uint32_t llamacpp_scheduler_choose(struct llamacpp_scheduler *s);

/* libllama found no room for the batch: preempts the last sequence in order.  False when only
 * one is running. */
bool llamacpp_scheduler_preempt(struct llamacpp_scheduler *s);

#endif
