/* engines/common/session.h - an open model as its host sees it: requests in, tokens out.
 *
 * Everything an engine does the same way whatever computes: checking a request, telling the
 * host of prefill, tokens and ends, stopping, and keeping what ends during a step alive until
 * the step is over, since callbacks may cancel or submit.
 * Thread: the caller of the ABI.
 */
#ifndef ENGINE_SESSION_H
#define ENGINE_SESSION_H

#include <string.h>

#include "base/str.h"
#include "engines/common/queue.h"
#include "engines/sampler/sampler.h"

struct engine_session {
    struct lr_engine_host host; /* a copy: members the worker does not know are NULL */
    struct engine_queue *queue; /* borrowed from the scheduler, like the rest until close */
    uint32_t max_context;
    uint32_t vocab; /* ids the model has */
    void *ctx;
    /* Bytes (borrowed, never NULL) and LR_VOCAB_ flags of an id below vocab. */
    struct lr_str (*token)(const void *ctx, uint32_t id, uint32_t *flags);
    /* Slot and cache of a live sequence back, and engine_queue_end(). */
    void (*release)(void *ctx, struct engine_sequence *seq);
    /* The engine's stats(), for the reports of steps. */
    void (*stats)(const struct lr_engine_model *model, struct lr_engine_stats *out);

    struct engine_sequence *ended; /* freed at the end of a step */
    bool stepping;
    uint64_t began_ns;            /* the step that is going on, or the last one */
    struct lr_step_report report; /* of it, as far as it is known; sequences 0: none is due */
    struct lr_error dead;         /* code != OK: the device failed, nothing works any more */
    uint64_t step_count;
    uint64_t prompt_tokens;
    uint64_t generated_tokens;
};

/* Frees what ended; the queue is its owner's. */
void engine_session_deinit(struct engine_session *s);

/* INTERNAL with the reason when the model is dead. */
LR_MUST_USE lr_code engine_session_alive(const struct engine_session *s, struct lr_error *err);

/* ---- requests (session_request.c) ---- */

/* What can be said before the prompt is tokenized.  r is whole (ENGINE_COPY_SIZED). */
LR_MUST_USE lr_code engine_session_accept(const struct engine_session *s,
                                          const struct lr_engine_request *r,
                                          struct lr_error *err);
/* INVALID_ARGUMENT: an id that the model does not have; `what` names the list. */
LR_MUST_USE lr_code engine_session_check_ids(const struct engine_session *s, const char *what,
                                             const uint32_t *ids, size_t count,
                                             struct lr_error *err);
/* The failure of a prompt of `amount` units. */
lr_code engine_session_too_long(const struct engine_session *s, uint64_t amount,
                                const char *unit, struct lr_error *err);
/* Checks the prompt and queues it. */
LR_MUST_USE lr_code engine_session_submit(struct engine_session *s,
                                          const struct lr_engine_request *r,
                                          const uint32_t *ids, size_t count,
                                          struct lr_error *err);
void engine_session_cancel(struct engine_session *s, uint64_t id);

/* ---- a step (session.c) ---- */

/* Ends continuations that arrived complete.  They cost no step. */
void engine_session_begin(struct engine_session *s);
/* The step is chosen: tells the host which sequences take part in a step for the first time. */
void engine_session_enter(struct engine_session *s);
/* The device is through with tokens of `sequences` live sequences; telling them follows. */
void engine_session_computed(struct engine_session *s, uint32_t sequences);
/* Reports the step to the host, where something was computed. */
void engine_session_end(struct engine_session *s);

/* Ends a live sequence: on_done called, memory freed now or after the step. */
void engine_session_finish(struct engine_session *s, struct engine_sequence *seq,
                           enum lr_finish reason, const struct lr_error *error);
/* Asks the host which tokens are legal; false when the sequence ended over it. */
bool engine_session_fill_mask(struct engine_session *s, struct engine_sequence *seq);
/* How its next token is to be sampled; points into seq. */
struct sampler_input engine_session_sample(const struct engine_sequence *seq);
void engine_session_tell_prefill(struct engine_session *s, struct engine_sequence *seq);
/* Appends the token, tells it, and ends the sequence where it has to. */
void engine_session_tell_token(struct engine_session *s, struct engine_sequence *seq,
                               const struct sampler_result *sampled);

/* Copies a caller's sized struct into ours; what lies past its size is zero. */
#define ENGINE_COPY_SIZED(to, from)                                                            \
    do {                                                                                       \
        size_t known_ = (from)->size < sizeof(*(to)) ? (from)->size : sizeof(*(to));           \
        memset((to), 0, sizeof(*(to)));                                                        \
        memcpy((to), (from), known_);                                                          \
    } while (0)

#endif
