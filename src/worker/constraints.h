/* worker/constraints.h - the constrained outputs of live requests.
 *
 * An engine asks which tokens are legal before each token, and reports each token that it
 * sampled.  The worker follows the grammars, so that no engine needs grammar code.
 *
 * All masks of one step together get a budget of work and of time, so that expensive masks do
 * not delay the other streams of the step (docs/promises.md: short-masks).  A request whose
 * mask is not finished within its share of the budget sits out the step, and its mask goes on
 * in the next one.  Each request gets a share in every step, so cheap masks are always
 * finished; what the others will hardly need goes to the request that has sat out longest.
 * Thread: main.
 */
#ifndef WORKER_CONSTRAINTS_H
#define WORKER_CONSTRAINTS_H

#include "base/clock.h"
#include "grammar/grammar.h"
#include "llm-router/engine.h"

struct worker_constraint; /* of one request */

enum {
    WORKER_MASKS_WORK = 1 << 20,       /* moves of threads for all masks of a step */
    WORKER_MASKS_NS = 4 * 1000 * 1000, /* and the time that they may take */
    WORKER_MASK_TYPICAL = 1 << 13,     /* moves that are kept for each mask to come */
    WORKER_MASK_LEAST = 1 << 9,        /* moves that a mask gets in any case */
};

/* The masks of the current step. */
struct worker_masks {
    uint32_t work;    /* that they may use */
    uint32_t used;    /* of it; a mask may use a little more than its share */
    uint64_t took;    /* ns */
    uint64_t step;    /* its number */
    uint32_t asked;   /* requests that the engine asked for */
    uint32_t added;   /* requests that are new since the step began */
    uint32_t to_come; /* requests that it will probably ask for: new, or asked for before */
    const struct worker_constraint *patient; /* that sat out most steps in a row; or NULL */
    const struct lr_clock *clock;            /* borrowed; NULL: the system's */
};

struct worker_constraints {
    struct worker_constraint
        *first; /* owned list, one for each constrained request that is live */
    struct worker_masks masks;
};

void worker_constraints_init(struct worker_constraints *all);

/* Takes a constraint that was compiled (compiler.h), unless it fails. */
LR_MUST_USE lr_code worker_constraints_add(struct worker_constraints *all, uint64_t request,
                                           struct grammar_program *program,
                                           struct grammar_matcher *matcher,
                                           struct lr_error *err);
/* Both ignore requests without a constraint. */
void worker_constraints_token(struct worker_constraints *all, uint64_t request, uint32_t id);
void worker_constraints_drop(struct worker_constraints *all, uint64_t request);

/* A step begins, with a new budget for its masks. */
void worker_constraints_step(struct worker_constraints *all);
/* ready NULL: finishes the mask whatever it costs.  Otherwise it may stay unfinished, with
 * *ready false. */
LR_MUST_USE lr_code worker_constraints_mask(struct worker_constraints *all, uint64_t request,
                                            uint32_t *mask, size_t words, bool *ready,
                                            struct lr_error *err);
void worker_constraints_free(struct worker_constraints *all);

#endif
