/* worker/host.h - the host side of engine.h: every callback becomes a frame, at once. */
#ifndef WORKER_HOST_H
#define WORKER_HOST_H

#include "base/buf.h"
#include "llm-router/engine.h"
#include "worker/constraints.h"
#include "worker/link.h"

struct worker_host {
    struct lr_engine_host table; /* lent to the engine */
    struct worker_link *link;    /* borrowed, outlives the host */
    const struct lr_engine_api *api;
    const struct lr_engine_model *model; /* for the bytes of alternatives; NULL while loading */
    struct lr_buf out;                   /* scratch of the main thread */
    /* Live requests that asked for log probabilities: a token's 0.0 does not say
     * whether it is certain or was not asked for. */
    uint64_t *with_logprobs; /* owned */
    size_t with_logprobs_count;
    size_t with_logprobs_cap;
    struct worker_constraints constraints; /* of live requests */
    bool engine_reports; /* the engine itself says which requests enter a step */
    bool has_entered;    /* some entered the step that is under way */
};

void worker_host_init(struct worker_host *host, struct worker_link *link,
                      const struct lr_engine_api *api);
void worker_host_free(struct worker_host *host);

/* The step that comes computes these requests for the first time: the node hears of them before
 * the step begins, since it may be the engine's last. */
void worker_host_enter(struct worker_host *host, const uint64_t *request_ids, size_t count);

void worker_host_wants_logprobs(struct worker_host *host, uint64_t request_id);

#endif
