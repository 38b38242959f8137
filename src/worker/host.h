/* worker/host.h - the host side of engine.h: every callback becomes a frame.
 *
 * A token is written at once.  The end of a generation and the last report of its prefill wait
 * in `out` for the next token, or for the end of the step: a write costs more than all else
 * here.
 */
#ifndef WORKER_HOST_H
#define WORKER_HOST_H

#include "base/buf.h"
#include "llm-router/engine.h"
#include "worker/constraints.h"
#include "worker/pipes.h"

struct worker_host {
    struct lr_engine_host table;     /* lent to the engine */
    struct worker_pipes *pipes;      /* borrowed, outlives the host */
    const struct lr_engine_api *api; /* NULL until a library is open */
    const struct lr_engine_model
        *model;        /* gives the bytes of alternatives; NULL while loading */
    struct lr_buf out; /* frames of the main thread that were not sent yet */
    /* Live requests that asked for log probabilities.  The token's logprob alone does not tell:
     * 0.0 may mean "certain" or "not asked for". */
    uint64_t *with_logprobs; /* owned */
    size_t with_logprobs_count;
    size_t with_logprobs_cap;
    struct worker_constraints constraints; /* of live requests */
    bool engine_reports;                   /* the engine itself calls on_enter */
    bool has_entered;                      /* requests entered the current step */
    bool has_told; /* the engine told which error comes next, and it is `told` */
    struct lr_error told;
};

void worker_host_init(struct worker_host *host, struct worker_pipes *pipes);
void worker_host_free(struct worker_host *host);

/* The coming step computes these requests for the first time.  The node is told before the step
 * begins, because the engine may die in it. */
void worker_host_enter(struct worker_host *host, const uint64_t *request_ids, size_t count);

/* An error that came from the engine gets the identity that the engine told before, if any. */
void worker_host_identify(struct worker_host *host, struct lr_error *err);

/* Sends the frames that wait. */
void worker_host_flush(struct worker_host *host);

void worker_host_wants_logprobs(struct worker_host *host, uint64_t request_id);

#endif
