/* llamacpp/sequence.h - requests, and who of them is computed in the next step.
 *
 * A sequence is a list of ids, of which the first `computed` lie in libllama's cache
 * under the sequence number `slot`.  It draws a token when all of the list is computed.
 * That one number covers prompts, continuations of another node's answer, and a
 * sequence that made room for others and has to be computed again.
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
#ifndef LLAMACPP_SEQUENCE_H
#define LLAMACPP_SEQUENCE_H

#include <stdbool.h>

#include "engines/gptoss/sampler/sampler.h"
#include "engines/llamacpp/plan.h"

enum llamacpp_state {
    LLAMACPP_QUEUED,  /* has no slot, nothing in the cache */
    LLAMACPP_RUNNING, /* has a slot */
    LLAMACPP_ENDED,   /* has neither; waits to be freed */
};

struct llamacpp_sequence {
    struct llamacpp_sequence *next; /* in the list of its state */
    enum llamacpp_state state;
    uint64_t id;
    uint64_t arrival;
    int32_t priority;

    uint32_t *ids; /* owned: prompt, then generated */
    uint32_t count;
    uint32_t capacity;
    uint32_t prompt_count;
    uint32_t computed; /* leading ids in the cache */
    uint32_t reported; /* of the prompt, by on_prefill */
    uint32_t limit;    /* most ids: max_tokens or the context */

    struct lr_sampling sampling; /* logit_bias owned */
    uint32_t *stop_ids;          /* owned */
    size_t stop_id_count;
    uint32_t *mask; /* owned; NULL: not constrained */
    bool ignore_stop;

    uint32_t slot; /* while running */
    uint32_t take; /* ids in the batch of this step */
    int32_t row;   /* of the batch whose logits are drawn from; -1: none */
};

struct llamacpp_scheduler {
    const struct llamacpp_plan *plan;  /* borrowed */
    struct llamacpp_sequence *queue;   /* in order */
    struct llamacpp_sequence *running; /* in order */
    bool *taken;                       /* owned, a bit for each slot */
    uint32_t live;
    uint64_t arrivals;
    void (*forget)(void *ctx, uint32_t slot); /* frees the slot's cells at once */
    void *ctx;
};

/* Copies everything out of the request; ids[] is the prompt, request->generated
 * follows.  OUT_OF_RAM. */
LR_MUST_USE lr_code llamacpp_sequence_create(const struct lr_engine_request *request,
                                             const uint32_t *ids, size_t count,
                                             uint32_t context, uint32_t vocab,
                                             struct llamacpp_sequence **out,
                                             struct lr_error *err);
void llamacpp_sequence_destroy(struct llamacpp_sequence *seq); /* NULL is fine */
bool llamacpp_sequence_append(struct llamacpp_sequence *seq,
                              uint32_t id); /* false: no memory */

static inline uint32_t llamacpp_sequence_generated(const struct llamacpp_sequence *seq)
{
    return seq->count - seq->prompt_count;
}

/* ---- scheduling ---- */

bool llamacpp_scheduler_init(struct llamacpp_scheduler *s, const struct llamacpp_plan *plan,
                             void (*forget)(void *ctx, uint32_t slot), void *ctx);
void llamacpp_scheduler_deinit(struct llamacpp_scheduler *s); /* destroys its sequences */

void llamacpp_scheduler_add(struct llamacpp_scheduler *s, struct llamacpp_sequence *seq);
struct llamacpp_sequence *llamacpp_scheduler_find(const struct llamacpp_scheduler *s,
                                                  uint64_t id);
/* Gives slot and cells back and unlinks; the caller owns the sequence again. */
void llamacpp_scheduler_end(struct llamacpp_scheduler *s, struct llamacpp_sequence *seq);

/* Lets sequences in and sets `take` of each; returns the number of tokens. */
uint32_t llamacpp_scheduler_choose(struct llamacpp_scheduler *s);

/* The library found no room for the batch: the last in order steps aside.  False when
 * only one is running. */
bool llamacpp_scheduler_yield(struct llamacpp_scheduler *s);

#endif
