/* worker/constraints.h - the constrained outputs of live requests.
 *
 * An engine asks which tokens are legal before each token, and reports each token that it
 * sampled.  The worker follows the grammars, so that no engine needs grammar code.
 *
 * A few threads do the work, while the engine computes.  Each request belongs to one thread.
 * The thread takes the token that the engine sampled, and makes the mask for the next one in
 * pieces, in turns with the other requests of the thread: a cheap mask waits for one piece of
 * each expensive mask, not for the whole.  If the engine asks for a mask that waits while the
 * thread is idle, the main thread does the work of the thread meanwhile.
 *
 *     add          a token
 *      |   +-------------------------+
 *      v   v                         |
 *     WAITING <--------> WORKING --> READY
 *         |   next piece   |  |      |
 *         |                |  +---> FAILED
 *         v                v         v
 *         +---------> DROPPED <------+
 *
 * Moves of a constraint:
 *   waiting -> working, dropped
 *   working -> waiting, ready, failed, dropped
 *   ready -> waiting, dropped
 *   failed -> dropped
 *   dropped -> nothing
 *
 * The engine waits for the masks of one step for a few milliseconds in all, so that expensive
 * masks do not delay the other streams of the step (docs/promises.md: short-masks).  A request
 * whose mask is not ready by then sits out the step.
 * Thread: all functions main.
 */
#ifndef WORKER_CONSTRAINTS_H
#define WORKER_CONSTRAINTS_H

#include <pthread.h>

#include "grammar/grammar.h"
#include "llm-router/engine.h"

enum {
    WORKER_MASKS_NS = 4 * 1000 * 1000, /* that the engine waits for all masks of a step */
    WORKER_MASK_THREADS_MAX = 4,
};

enum worker_constraint_state {
    CONSTRAINT_WAITING,
    CONSTRAINT_WORKING,
    CONSTRAINT_READY,  /* the thread leaves the matcher alone */
    CONSTRAINT_FAILED, /* there is no mask; err says why */
    CONSTRAINT_DROPPED,
};

struct worker_constraint; /* of one request */

struct worker_mask_thread {
    struct worker_constraints *all;
    pthread_t thread;
    bool is_running;
    uint32_t count;              /* live constraints; main */
    struct grammar_vocab *vocab; /* owned: its share of the vocabulary */
    /* Under the lock: */
    pthread_cond_t work;
    struct worker_constraint *first, **end; /* WAITING, and DROPPED that are to be freed */
    bool is_busy;    /* some matcher of this thread is worked on: they share scratch memory */
    uint64_t pieces; /* made so far */
};

struct worker_constraints {
    struct worker_constraint *first; /* owned list, one for each live constrained request */
    struct worker_mask_thread threads[WORKER_MASK_THREADS_MAX];
    uint32_t thread_count;
    uint64_t budget_ns; /* that the engine waits in a step */
    uint64_t waited_ns; /* in this step so far */
    pthread_mutex_t lock;
    /* Under the lock: */
    pthread_cond_t made;
    const struct worker_constraint *awaited; /* by the engine; or NULL */
    bool stopping;
};

/* threads 0: as many as the processors allow. */
void worker_constraints_init(struct worker_constraints *all, uint32_t threads);
/* Ends the threads. */
void worker_constraints_free(struct worker_constraints *all);

/* Takes a constraint that was compiled (compiler.h) with this vocabulary, unless it fails. */
LR_MUST_USE lr_code worker_constraints_add(struct worker_constraints *all, uint64_t request,
                                           const struct grammar_vocab *vocab,
                                           struct grammar_program *program,
                                           struct grammar_matcher *matcher,
                                           struct lr_error *err);
/* Both ignore requests without a constraint. */
void worker_constraints_token(struct worker_constraints *all, uint64_t request, uint32_t id);
void worker_constraints_drop(struct worker_constraints *all, uint64_t request);

/* A step begins: the engine may wait for masks again. */
void worker_constraints_step(struct worker_constraints *all);
/* ready NULL: waits for the mask as long as it takes.  Otherwise the mask may stay unfinished,
 * with *ready false. */
LR_MUST_USE lr_code worker_constraints_mask(struct worker_constraints *all, uint64_t request,
                                            uint32_t *mask, size_t words, bool *ready,
                                            struct lr_error *err);
/* How many pieces the thread made, for all its requests, from the last token of the request to
 * its mask; for tests. */
uint64_t worker_constraints_pieces(struct worker_constraints *all, uint64_t request);

#endif
