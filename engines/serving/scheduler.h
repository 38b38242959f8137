/* serving/scheduler.h - which sequences are computed in the next step.
 *
 * Continuous batching: every running sequence that decodes adds one token to each step, and
 * prompts get a chunk of the same step.  pace.h decides how large the chunk is, share.h which
 * prompts get it.  Slots and pages go by this order: higher priority first, then earlier
 * arrival.
 *
 * A sequence is admitted when there is a slot and there are pages for all its ids.  It grows a
 * page at a time.  When no page is free, the running sequence that is last in order is
 * preempted: it loses its pages and goes back to the queue with its ids, to be computed again
 * later.  So a queue never deadlocks (a single sequence always fits), and emitted tokens never
 * change.
 *
 * A sequence begins after its cached prefix (cache.h), and its computed pages are cached, both
 * only within the request's scope.  Where the model has recurrent state, the state of the
 * prefix is loaded from a snapshot (snapshots.h); a sequence that was preempted is computed
 * again from its last one.
 *
 * Pages of a kind with a window are freed as soon as the next query cannot see them.  Their
 * number is planned for the worst case of every slot, so they never run out.  The number of
 * pages follows a limit (elastic.h).
 *
 * This file knows neither callbacks nor arithmetic.  Thread: the engine's caller.
 */
#ifndef ENGINES_SERVING_SCHEDULER_H
#define ENGINES_SERVING_SCHEDULER_H

#include "engines/serving/backend.h"
#include "engines/serving/elastic.h"
#include "engines/serving/queue.h"
#include "engines/serving/share.h"
#include "engines/serving/snapshots.h"

/* The pages of the slot's sequence.  The first page_count entries of the tables are in use, the
 * others are SERVING_NO_PAGE. */
struct serving_slot {
    bool taken;
    uint32_t *tables[SERVING_KINDS_MAX]; /* owned, page_capacity entries; by kind */
    uint32_t page_count;
    uint32_t page_capacity;
    uint32_t first[SERVING_KINDS_MAX]; /* entries below have left the window of their kind */
    uint32_t remembered;               /* leading pages in the prefix cache */
    uint64_t chain;                    /* the cache's name of the last of them */
    struct serving_state state;        /* snapshots, where the model has recurrent state */
};

struct serving_scheduler {
    struct serving_plan plan;
    struct serving_pace pace;
    enum serving_pace_kind kind;  /* of the chosen step */
    struct serving_shared shared; /* its prompt tokens */
    struct serving_cache cache;
    struct engine_queue queue;
    uint32_t turn; /* of sequences that wait a step: the place of the first in the order */
    struct serving_lengths lengths;
    struct serving_slot *slots;   /* owned, max_sequences */
    struct serving_claim *claims; /* owned, max_sequences: scratch of a choice */
};

LR_MUST_USE lr_code serving_scheduler_init(struct serving_scheduler *s,
                                           const struct serving_plan *plan,
                                           struct lr_error *err);
void serving_scheduler_deinit(struct serving_scheduler *s); /* destroys its sequences */
/* Before the first sequence; without this call the keys of all prompts are alike. */
void serving_scheduler_set_lengths(struct serving_scheduler *s, struct serving_lengths lengths);
/* See pace.h.  Without this call: the default gap, and every depth costs the same. */
void serving_scheduler_set_pace(struct serving_scheduler *s, uint32_t target_gap_ms,
                                uint32_t depth_unit);

/* The memory of the pages can change its size from now on. */
void serving_scheduler_set_device(struct serving_scheduler *s,
                                  const struct serving_page_device *device);
/* The most pages of each kind; what is over and free is given back at once (elastic.h). */
void serving_scheduler_limit(struct serving_scheduler *s, const struct serving_kv_share *share);
/* Between two steps: gives back what is over the limit and was freed since. */
void serving_scheduler_settle(struct serving_scheduler *s);

/* Frees slot and pages and unlinks; the caller owns the sequence again. */
void serving_scheduler_end(struct serving_scheduler *s, struct engine_sequence *seq);

/* Admits sequences and chooses what to compute: sets `take` of every sequence, with pages for
 * all taken tokens in its tables.  Returns the number of tokens. */
uint32_t serving_scheduler_choose(struct serving_scheduler *s);

/* Pages for one more token of every sequence, while a step is computed in which each takes one.
 * False: they are not all there; nobody is preempted for them. */
bool serving_scheduler_look_ahead(struct serving_scheduler *s);

/* Sequences that change places between a step of decoding sequences and the one behind it. */
struct serving_change {
    uint32_t count;
    struct engine_sequence *come[SERVING_DIP_WIDTH]; /* the step has left them out */
    struct engine_sequence *wait[SERVING_DIP_WIDTH]; /* the next one leaves them out */
};

/* Called while a step of decoding sequences is computed: names the sequences that change places
 * for the next step; none if every sequence takes part in both.  False: a sequence does not
 * decode, or the next step leaves out another number of sequences than this one. */
bool serving_scheduler_change(struct serving_scheduler *s, struct serving_change *out);

/* The part of a chosen sequence in the step: its `take` ids behind those that are computed, its
 * tables, which are borrowed until the sequence takes part in another step, and the snapshots
 * that the step loads and saves. */
struct serving_step serving_scheduler_part(struct serving_scheduler *s,
                                           const struct engine_sequence *seq);

/* Called after a step of this duration: the taken tokens are computed; pages behind the window
 * are freed. */
void serving_scheduler_advance(struct serving_scheduler *s, uint64_t step_ns);

/* A slot and pages for `tokens` ids beside the live sequences, which are preempted for it if
 * necessary.  *seq must be new (not added).  OUT_OF_RAM when it can never fit. */
LR_MUST_USE lr_code serving_scheduler_borrow(struct serving_scheduler *s,
                                             struct engine_sequence *seq, struct lr_error *err);
/* Takes window pages for the next `take` ids and frees pages behind the window. */
void serving_scheduler_slide(struct serving_scheduler *s, struct engine_sequence *seq);
void serving_scheduler_return(struct serving_scheduler *s, struct engine_sequence *seq);

#endif
