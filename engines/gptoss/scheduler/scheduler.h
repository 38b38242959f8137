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
 * Window pages are given back as soon as the next query cannot see them; their number
 * is planned for the worst case of every slot, so they never run out.
 *
 * This file knows neither callbacks nor arithmetic.  Thread: the engine's caller.
 */
#ifndef GPTOSS_SCHEDULER_SCHEDULER_H
#define GPTOSS_SCHEDULER_SCHEDULER_H

#include "engines/gptoss/scheduler/pages.h"
#include "engines/gptoss/scheduler/sequence.h"

struct gptoss_scheduler {
    struct gptoss_plan plan;
    uint32_t window; /* keys a sliding layer sees */
    struct gptoss_pages full;
    struct gptoss_pages windowed;
    struct gptoss_sequence *queue;    /* in order */
    struct gptoss_sequence *running;  /* in order */
    struct gptoss_sequence **by_slot; /* owned array; NULL: the slot is free */
    uint32_t live;                    /* queued and running */
    uint64_t arrivals;
};

LR_MUST_USE lr_code gptoss_scheduler_init(struct gptoss_scheduler *s,
                                          const struct gptoss_plan *plan, uint32_t window,
                                          struct lr_error *err);
void gptoss_scheduler_deinit(struct gptoss_scheduler *s); /* destroys its sequences */

/* Takes the sequence over and queues it. */
void gptoss_scheduler_add(struct gptoss_scheduler *s, struct gptoss_sequence *seq);

struct gptoss_sequence *gptoss_scheduler_find(const struct gptoss_scheduler *s, uint64_t id);

/* Gives slot and pages back and unlinks; the caller owns the sequence again. */
void gptoss_scheduler_end(struct gptoss_scheduler *s, struct gptoss_sequence *seq);

/* Lets sequences in and chooses what to compute: sets `take` of every sequence, with
 * pages for all taken tokens in its tables.  Returns how many tokens that are. */
uint32_t gptoss_scheduler_choose(struct gptoss_scheduler *s);

/* After the step: what was taken is computed; pages behind the window are free. */
void gptoss_scheduler_advance(struct gptoss_scheduler *s);

/* A slot and pages for `tokens` ids beside the live sequences, which step aside for it
 * if they must.  *seq must be new (not added).  OUT_OF_RAM when it never fits. */
LR_MUST_USE lr_code gptoss_scheduler_borrow(struct gptoss_scheduler *s,
                                            struct gptoss_sequence *seq, struct lr_error *err);
/* Window pages for the next `take` ids, and back what lies behind the window. */
void gptoss_scheduler_slide(struct gptoss_scheduler *s, struct gptoss_sequence *seq);
void gptoss_scheduler_return(struct gptoss_scheduler *s, struct gptoss_sequence *seq);

#endif
