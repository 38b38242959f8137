/* engines/serving/sequence.h - one request inside an engine: its tokens and its options.
 *
 * A sequence is a list of ids, of which the first `computed` are in the KV cache.  A token is
 * sampled when the whole list is computed.  So the same number covers prompts, continuations of
 * an answer that another node began, and a sequence that lost its KV cache to others and is
 * computed again: `computed` is then smaller.
 *
 * What a running sequence holds on a device belongs to its slot, not to the sequence.  Thread:
 * the engine's caller.
 */
#ifndef ENGINES_SERVING_SEQUENCE_H
#define ENGINES_SERVING_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "llm-router/engine.h"

enum engine_state {
    ENGINE_QUEUED,  /* no slot, nothing in the KV cache */
    ENGINE_RUNNING, /* has a slot */
    ENGINE_ENDED,   /* has neither; waits to be freed */
    ENGINE_READING, /* its prompt is being tokenized: `ids` has only what was generated */
};

struct engine_sequence {
    struct engine_sequence *next; /* in the list of its state */
    enum engine_state state;
    uint64_t id;
    uint32_t kind;       /* LR_REQUEST_...; a vector needs all ids in one step */
    uint32_t dimensions; /* of an embedding; 0: all */
    uint32_t second;     /* ids before the second text of a pair; 0: there is none */
    uint64_t arrival;    /* order of submission */
    int32_t priority;

    uint32_t *ids; /* owned: prompt, then generated */
    uint32_t count;
    uint32_t capacity;
    uint32_t prompt_count;
    uint32_t computed; /* leading ids in the KV cache */
    uint32_t reported; /* prompt ids reported by on_prefill */
    uint32_t cached;   /* prompt ids found in the prefix cache */
    uint32_t limit;    /* most ids: max_tokens or the context */

    struct lr_sampling sampling; /* logit_bias owned */
    uint32_t *stop_ids;          /* owned */
    size_t stop_id_count;
    uint32_t *mask;  /* owned; NULL: not constrained */
    uint32_t masked; /* the mask is for the token after this number of ids; 0: for none */
    bool ignore_stop;
    uint64_t cache_scope; /* sequences with the same number share cached prefixes; even; 0: no
                             sharing */

    bool has_entered; /* the sequence has been part of a step */
    uint32_t slot;    /* while running */
    uint32_t take;    /* ids in this step's batch; 0: not in the batch */
};

/* Copies everything out of the request; ids[] is the prompt, request->generated follows.
 * OUT_OF_RAM. */
LR_MUST_USE lr_code engine_sequence_create(const struct lr_engine_request *request,
                                           const uint32_t *ids, size_t count, uint32_t context,
                                           uint32_t vocab, struct engine_sequence **out,
                                           struct lr_error *err);
/* The prompt of a sequence that was created without one.  False: no memory. */
bool engine_sequence_prompt(struct engine_sequence *seq, const uint32_t *ids, size_t count,
                            uint32_t context);
void engine_sequence_destroy(struct engine_sequence *seq); /* NULL is fine */

/* False: no memory. */
bool engine_sequence_append(struct engine_sequence *seq, uint32_t id);

/* The sequence begins with `computed` ids in the KV cache.  Prompt ids that this sequence never
 * computed itself count as cached. */
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

/* True when a token is sampled at the end of this step: the batch completes the ids. */
static inline bool engine_sequence_samples(const struct engine_sequence *seq)
{
    return seq->take > 0 && seq->computed + seq->take == seq->count;
}

/* True when the next token needs one row of logits only: everything before it is computed. */
static inline bool engine_sequence_decodes(const struct engine_sequence *seq)
{
    return seq->computed + 1 == seq->count && seq->count > seq->prompt_count;
}

#endif
