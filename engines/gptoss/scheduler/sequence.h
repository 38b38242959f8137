/* gptoss/scheduler/sequence.h - one request: its tokens, its wishes, its pages.
 *
 * A sequence is a list of ids, of which the first `computed` are in the KV cache.  It
 * generates a token when all but nothing of the list is computed.  That one number
 * covers prompts, continuations of another node's answer, and a sequence that lost its
 * pages to others and has to be computed again: `computed` is simply smaller.
 * Thread: the engine's caller.
 */
#ifndef GPTOSS_SCHEDULER_SEQUENCE_H
#define GPTOSS_SCHEDULER_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "engines/gptoss/backend/backend.h"

enum gptoss_state {
    GPTOSS_QUEUED,  /* holds no slot and no page */
    GPTOSS_RUNNING, /* holds a slot and the pages of its ids */
    GPTOSS_ENDED,   /* holds neither; waits to be freed */
};

struct gptoss_sequence {
    struct gptoss_sequence *next; /* in the list of its state */
    enum gptoss_state state;
    uint64_t id;
    uint64_t arrival; /* order of submission */
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

    uint32_t slot;          /* while running */
    uint32_t *full_pages;   /* owned tables of page_capacity entries; while running the */
    uint32_t *window_pages; /* first page_count are in use, others GPTOSS_NO_PAGE */
    uint32_t page_count;
    uint32_t page_capacity;
    uint32_t window_first; /* entries below are given back */

    /* This step. */
    uint32_t take; /* tokens in the batch; 0: not in it */
    struct gptoss_sample sample;
    struct gptoss_sampled sampled;
};

/* Copies everything out of the request; ids[] is the prompt, request->generated follows.
 * limit is the context's length.  OUT_OF_RAM. */
LR_MUST_USE lr_code gptoss_sequence_create(const struct lr_engine_request *request,
                                           const uint32_t *ids, size_t count, uint32_t limit,
                                           uint32_t page_tokens, uint32_t vocab,
                                           struct gptoss_sequence **out, struct lr_error *err);
void gptoss_sequence_destroy(struct gptoss_sequence *seq); /* NULL is fine */

/* False: no memory. */
bool gptoss_sequence_append(struct gptoss_sequence *seq, uint32_t id);

/* Room in both tables for `pages` entries.  False: no memory. */
bool gptoss_sequence_reserve_pages(struct gptoss_sequence *seq, uint32_t pages);

static inline uint32_t gptoss_sequence_generated(const struct gptoss_sequence *seq)
{
    return seq->count - seq->prompt_count;
}

/* True when its next token needs one row of logits only: everything else is computed. */
static inline bool gptoss_sequence_decodes(const struct gptoss_sequence *seq)
{
    return seq->computed + 1 == seq->count && seq->count > seq->prompt_count;
}

#endif
