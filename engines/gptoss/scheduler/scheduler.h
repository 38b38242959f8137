/* gptoss/scheduler/scheduler.h - who is computed in the next step.
 *
 * Continuous batching: every running sequence that decodes gives one token to each
 * step; prompts fill what prefill_chunk leaves, in the same step.  Order everywhere:
 * higher priority first, then earlier arrival.
 *
 * A sequence is let in when there is a slot and there are pages for all its ids.  It
 * grows a page at a time; when none is free, the last in order among the running loses
 * its pages and goes back to the queue with its ids kept, to be computed again later.
 * So nobody can be promised too little, a queue never deadlocks (one sequence alone
 * always fits), and what was emitted stays as it was.
 *
 * A sequence begins after what the cache still has of its beginning (cache.h), and what it
 * computes is remembered there, both only within the request's scope.
 *
 * Where the plan has a least chunk, the time of the steps sets the chunk: it doubles while a
 * full chunk takes less than GPTOSS_STEP_SHORT_NS and halves above GPTOSS_STEP_LONG_NS.  So a
 * small model computes prompts fast, and a large one does not stop the sequences that decode.
 *
 * Window pages are given back as soon as the next query cannot see them; their number
 * is planned for the worst case of every slot, so they never run out.
 *
 * This file knows neither callbacks nor arithmetic.  Thread: the engine's caller.
 */
#ifndef GPTOSS_SCHEDULER_SCHEDULER_H
#define GPTOSS_SCHEDULER_SCHEDULER_H

#include "engines/common/queue.h"
#include "engines/gptoss/backend/backend.h"
#include "engines/gptoss/scheduler/cache.h"

/* The pages of whoever has the slot.  The first page_count entries of both tables are in
 * use, others GPTOSS_NO_PAGE. */
struct gptoss_slot {
    bool taken;
    uint32_t *full_pages;   /* owned, page_capacity entries */
    uint32_t *window_pages; /* the same */
    uint32_t page_count;
    uint32_t page_capacity;
    uint32_t window_first; /* entries below are given back */
    uint32_t remembered;   /* leading pages that the cache knows */
    uint64_t chain;        /* the cache's name for the last of them */
};

enum {
    GPTOSS_STEP_SHORT_NS = 40 * 1000 * 1000,
    GPTOSS_STEP_LONG_NS = 100 * 1000 * 1000,
};

struct gptoss_scheduler {
    struct gptoss_plan plan;
    uint32_t chunk; /* prompt tokens of the next step, at most plan.prefill_chunk */
    struct gptoss_cache cache;
    struct engine_queue queue;
    struct gptoss_slot *slots; /* owned, max_sequences */
};

LR_MUST_USE lr_code gptoss_scheduler_init(struct gptoss_scheduler *s,
                                          const struct gptoss_plan *plan, uint32_t window,
                                          struct lr_error *err);
void gptoss_scheduler_deinit(struct gptoss_scheduler *s); /* destroys its sequences */

/* Gives slot and pages back and unlinks; the caller owns the sequence again. */
void gptoss_scheduler_end(struct gptoss_scheduler *s, struct engine_sequence *seq);

/* Lets sequences in and chooses what to compute: sets `take` of every sequence, with
 * pages for all taken tokens in its tables.  Returns how many tokens that are. */
uint32_t gptoss_scheduler_choose(struct gptoss_scheduler *s);

/* After the step, which took so long: what was taken is computed; pages behind the window
 * are free. */
void gptoss_scheduler_advance(struct gptoss_scheduler *s, uint64_t step_ns);

/* A slot and pages for `tokens` ids beside the live sequences, which are preempted for it
 * if they must be.  *seq must be new (not added).  OUT_OF_RAM when it never fits. */
LR_MUST_USE lr_code gptoss_scheduler_borrow(struct gptoss_scheduler *s,
                                            struct engine_sequence *seq, struct lr_error *err);
/* Window pages for the next `take` ids, and back what lies behind the window. */
void gptoss_scheduler_slide(struct gptoss_scheduler *s, struct engine_sequence *seq);
void gptoss_scheduler_return(struct gptoss_scheduler *s, struct engine_sequence *seq);

#endif
