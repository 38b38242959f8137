/* serving/share.h - which prompts get the tokens of a step.
 *
 * Three quarters of the work of a step go to the prompts with the least work left: a short
 * prompt passes long ones.  One quarter goes to the oldest prompts, so that a long prompt ends
 * no matter how many short ones arrive.  Work that one part leaves unused goes to the other
 * part.  A prompt of a higher priority comes first in both parts.
 *
 * The bound: let W be the work of a prompt and of all older prompts when it arrives.  The
 * prompt is computed before the steps have done 4 W of prompt work: it takes at most four times
 * as long as in the order of arrival.  (In every step at least a quarter goes to this prompt or
 * to an older one.  The bound counts prompts of the same priority and of higher ones.)
 *
 * Pure: no clock, no allocation.  Thread: the engine's caller.
 */
#ifndef ENGINES_SERVING_SHARE_H
#define ENGINES_SERVING_SHARE_H

#include "engines/serving/pace.h"
#include "engines/serving/sequence.h"

/* A prompt that wants tokens of the step. */
struct serving_claim {
    struct engine_sequence *seq; /* borrowed */
    uint64_t work;               /* left, see serving_pace_work() */
    uint32_t end;                /* the most ids that are computed after the step */
};

/* The prompt tokens of the step. */
struct serving_shared {
    uint32_t tokens;
    uint64_t work;
    bool is_full; /* some claims could have had more */
};

/* The claim of a sequence whose chunk ends after `end` ids at the latest. */
struct serving_claim serving_claim_of(const struct serving_pace *p, struct engine_sequence *seq,
                                      uint32_t end);

/* Sets `take` of every claim's sequence.  claims[] is in the order of the queue, higher
 * priority and then earlier arrival first, and is sorted anew. */
struct serving_shared serving_share(const struct serving_pace *p, enum serving_pace_kind kind,
                                    struct serving_claim *claims, uint32_t count);

/* The same for prompts that are computed in one step each: those that fit, in the order of the
 * queue.  The first one always fits. */
struct serving_shared serving_share_whole(const struct serving_pace *p,
                                          struct serving_claim *claims, uint32_t count);

#endif
