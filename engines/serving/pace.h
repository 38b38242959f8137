/* serving/pace.h - how much prompt work the next step may have.
 *
 * Every stream waits for the whole step, so a step with prompt tokens must be short while
 * streams run.  The time that a step may take depends on the sequences that wait for its end:
 *
 *   GAP      streams run, or a prompt can end in this step: 4/5 of the target gap.  The last
 *            fifth is for the time between two steps and for the way to the client.
 *   SEVERAL  no stream runs, and several prompts are far from their ends: 2 target gaps.  A new
 *            prompt waits for this step at most.
 *   ALONE    the model has one request, and that is a prompt: 8 target gaps.
 *
 * Each kind has a chunk of its own, and measured steps move the chunk: the next chunk is the
 * work of this step, times the aim, divided by the duration.  A step changes the chunk by a
 * factor of two at most, because a single step may be slow for other reasons.  Only a step that
 * left prompt tokens behind can raise the chunk: a smaller step says little about a larger one.
 * A kind without a full step so far takes over the work of any step that was short enough.
 * A chunk never has fewer than `least` tokens: on a slow device the steps are longer than the
 * target gap.
 *
 * Work is counted in tokens at the beginning of a prompt.  A token at a depth of depth_unit ids
 * counts as two, because attention then takes as long as everything else.
 *
 * Pure: no clock, no allocation.  Thread: the engine's caller.
 */
#ifndef ENGINES_SERVING_PACE_H
#define ENGINES_SERVING_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SERVING_TARGET_GAP_MS = 25, /* if the operator gave none */
    SERVING_DEPTH_IS_FREE = 0,  /* a depth_unit: attention costs nothing */
};

enum serving_pace_kind {
    SERVING_PACE_GAP,
    SERVING_PACE_SEVERAL,
    SERVING_PACE_ALONE,
    SERVING_PACE_KINDS,
};

/* The sequences of the next step. */
struct serving_crowd {
    uint32_t live;     /* requests of the model, also those that wait for a slot */
    uint32_t decoding; /* streams that run */
    uint64_t
        least_work; /* work left of the prompt that has the least; unused without prompts */
};

struct serving_pace {
    uint32_t least, most;                /* tokens of a chunk; equal: the chunk is fixed */
    uint32_t depth_unit;                 /* never 0 */
    uint64_t aim_ns[SERVING_PACE_KINDS]; /* duration of a step */
    uint64_t work[SERVING_PACE_KINDS];   /* of the next chunk; see serving_pace_work() */
    bool is_known[SERVING_PACE_KINDS];   /* had a full step */
};

/* depth_unit: of struct serving_facts.  least 0: the chunk is always `most`.  target_gap_ms 0:
 * SERVING_TARGET_GAP_MS. */
void serving_pace_init(struct serving_pace *p, uint32_t least, uint32_t most,
                       uint32_t target_gap_ms, uint32_t depth_unit);

/* Steps without streams begin with a chunk of this number of tokens, for a device that is known
 * to compute it in a moment.  Otherwise every chunk begins with the least and doubles. */
void serving_pace_begin(struct serving_pace *p, uint32_t tokens);

/* Work of `tokens` tokens that begin at `depth`, in tokens at depth 0 times depth_unit. */
uint64_t serving_pace_work(const struct serving_pace *p, uint32_t depth, uint32_t tokens);

enum serving_pace_kind serving_pace_kind(const struct serving_pace *p,
                                         const struct serving_crowd *crowd);

/* A step of this kind computed this amount of work in this time.  is_full: prompt tokens were
 * left behind. */
void serving_pace_measured(struct serving_pace *p, enum serving_pace_kind kind, uint64_t work,
                           bool is_full, uint64_t step_ns);

#endif
