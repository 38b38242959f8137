/* engines/common/sequence.h - one request inside an engine: its tokens and its wishes.
 *
 * A sequence is a list of ids, of which the first `computed` are in the cache of the device.
 * A token is sampled when the whole list is computed.  That one number covers prompts,
 * continuations of another node's answer, and a sequence that lost its place in the cache to
 * others and has to be computed again: `computed` is simply smaller.
 *
 * What a running sequence holds on a device belongs to its slot, not to this.
 * Thread: the engine's caller.
 */
#ifndef ENGINE_SEQUENCE_H
#define ENGINE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "llm-router/engine.h"

enum engine_state {
    ENGINE_QUEUED,  /* has no slot, nothing in the cache */
    ENGINE_RUNNING, /* has a slot */
    ENGINE_ENDED,   /* has neither; waits to be freed */
};

struct engine_sequence {
    struct engine_sequence *next; /* in the list of its state */
    enum engine_state state;
    uint64_t id;
    uint64_t arrival; /* order of submission */
    int32_t priority;

    uint32_t *ids; /* owned: prompt, then generated */
    uint32_t count;
    uint32_t capacity;
    uint32_t prompt_count;
    uint32_t computed; /* leading ids in the cache */
    uint32_t reported; /* of the prompt, by on_prefill */
    uint32_t cached;   /* of the prompt, found computed */
    uint32_t limit;    /* most ids: max_tokens or the context */

    struct lr_sampling sampling; /* logit_bias owned */
    uint32_t *stop_ids;          /* owned */
    size_t stop_id_count;
    uint32_t *mask; /* owned; NULL: not constrained */
    bool ignore_stop;
    uint64_t cache_scope; /* even; who shares a cached beginning.  0: nobody */

    bool has_entered; /* it has been part of a step */
    uint32_t slot;    /* while running */
    uint32_t take;    /* ids in the batch of this step; 0: not in it */
};

/* Copies everything out of the request; ids[] is the prompt, request->generated follows.
 * OUT_OF_RAM. */
LR_MUST_USE lr_code engine_sequence_create(const struct lr_engine_request *request,
                                           const uint32_t *ids, size_t count, uint32_t context,
                                           uint32_t vocab, struct engine_sequence **out,
                                           struct lr_error *err);
void engine_sequence_destroy(struct engine_sequence *seq); /* NULL is fine */

/* False: no memory. */
bool engine_sequence_append(struct engine_sequence *seq, uint32_t id);

/* It begins with `computed` ids in the cache: those of the prompt that it never computed
 * itself count as cached. */
static inline void engine_sequence_found(struct engine_sequence *seq)
{
    uint32_t found = seq->computed < seq->prompt_count ? seq->computed : seq->prompt_count;

    if (found <= seq->reported)
        return;
    seq->cached += found - seq->reported;
    seq->reported = found;
}

static inline uint32_t engine_sequence_generated(const struct engine_sequence *seq)
{
    return seq->count - seq->prompt_count;
}

/* True when its next token needs one row of logits only: everything else is computed. */
static inline bool engine_sequence_decodes(const struct engine_sequence *seq)
{
    return seq->computed + 1 == seq->count && seq->count > seq->prompt_count;
}

#endif
