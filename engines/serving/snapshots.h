/* serving/snapshots.h - where copies of the recurrent state are kept, and when they are used.
 *
 * A state cannot go back, so a prompt can only continue where its state was kept: at ends of
 * pages, which are the places where prompts can meet at all.  Snapshots are kept
 *   - at the last two ends of pages of a prompt, because the next prompt of a conversation
 *     repeats this one but for its last tokens,
 *   - at the newest end of a page of an answer, because the next prompt repeats the answer; the
 *     older ones of the same answer are dropped,
 *   - at the end of the prefix that another prompt had, too: conversations branch there,
 *   - every SERVING_SNAPSHOT_EVERY tokens, for everything else that is computed again.
 * A chunk of a prompt ends at such a place.  Requests without a scope share nothing and have no
 * snapshots.
 *
 * A snapshot is a page of the pool SERVING_SNAPSHOTS: the cache names it after its block, and
 * the ones that were not used for longest go first (cache.h).
 *
 *   load   from the sequence's entry until its first step: the snapshot that it continues from
 *   save   during a step: the snapshot that the step fills
 *
 * Thread: the engine's caller.
 */
#ifndef ENGINES_SERVING_SNAPSHOTS_H
#define ENGINES_SERVING_SNAPSHOTS_H

#include "engines/serving/cache.h"
#include "engines/serving/sequence.h"

enum { SERVING_SNAPSHOT_EVERY = 8192 };

/* The snapshots of a slot's sequence. */
struct serving_state {
    uint32_t load, save;  /* held; SERVING_NONE: none */
    uint32_t known;       /* ids of the prefix that another prompt had, too */
    uint32_t answer;      /* the memory with the newest snapshot of the answer, */
    uint64_t answer_name; /* if that still has this name; 0: none */
};

void serving_state_init(struct serving_state *state);
/* The sequence enters a slot with this match, whose snapshot the cache holds for it. */
void serving_state_enter(struct serving_state *state, const struct serving_cache *c,
                         const struct serving_match *match);
/* Gives back what is held. */
void serving_state_leave(struct serving_state *state, struct serving_cache *c);

/* Ids after which the chunk of a prompt must end; UINT32_MAX: anywhere. */
uint32_t serving_state_next(const struct serving_state *state, const struct serving_cache *c,
                            const struct engine_sequence *seq);

/* The sequence is part of a step with its `take`: sets the step's snapshots. */
void serving_state_part(struct serving_state *state, struct serving_cache *c,
                        const struct engine_sequence *seq, struct serving_step *step);
/* The step was computed, and its blocks are in the cache, the last one with state->save. */
void serving_state_computed(struct serving_state *state, struct serving_cache *c,
                            const struct engine_sequence *seq);

/* Snapshots have moved: moved[i] is the new number of total + i. */
void serving_state_renumber(struct serving_state *state, uint32_t total, const uint32_t *moved);

#endif
