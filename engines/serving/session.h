/* engines/serving/session.h - an open model as the worker sees it: requests in, tokens out.
 *
 * Holds everything that an engine does the same way on every device: checking a request,
 * reporting prefill, tokens and ends to the worker, and stopping.  Callbacks may cancel or
 * submit requests, so a sequence that ends during a step stays in memory until the step is
 * over.  Thread: the caller of the ABI.
 */
#ifndef ENGINES_SERVING_SESSION_H
#define ENGINES_SERVING_SESSION_H

#include <string.h>

#include "base/str.h"
#include "engines/sampler/sampler.h"
#include "engines/serving/queue.h"

struct engine_session {
    struct lr_engine_host host; /* a copy: members the worker does not know are NULL */
    struct engine_queue
        *queue; /* borrowed from the scheduler, like all pointers below, until close */
    uint32_t max_context;
    uint32_t vocab;      /* number of ids in the vocabulary */
    uint32_t requests;   /* as in lr_engine_need; 0: GENERATE alone */
    uint32_t dimensions; /* of an embedding, where requests has EMBED */
    void *ctx;
    /* Bytes (borrowed, never NULL) and LR_VOCAB_ flags of an id below vocab. */
    struct lr_str (*token)(const void *ctx, uint32_t id, uint32_t *flags);
    /* Frees slot and KV cache of a live sequence and calls engine_queue_end(). */
    void (*release)(void *ctx, struct engine_sequence *seq);
    /* The engine's stats(), used for the step reports. */
    void (*stats)(const struct lr_engine_model *model, struct lr_engine_stats *out);

    struct engine_sequence *ended; /* freed at the end of a step */
    bool stepping;
    uint64_t began_ns; /* start of the current step, or of the last one */
    struct lr_step_report
        report;           /* report of that step so far; sequences 0: no report is due */
    struct lr_error dead; /* code != OK: the device failed, nothing works any more */
    uint64_t step_count;
    uint64_t prompt_tokens;
    uint64_t generated_tokens;
};

/* Frees the ended sequences; the queue stays with its owner. */
void engine_session_deinit(struct engine_session *s);

/* INTERNAL with the reason when the model is dead. */
LR_MUST_USE lr_code engine_session_alive(const struct engine_session *s, struct lr_error *err);

/* ---- requests (session_request.c) ---- */

/* Checks that need no tokenized prompt. r is whole (ENGINE_COPY_SIZED). */
LR_MUST_USE lr_code engine_session_accept(const struct engine_session *s,
                                          const struct lr_engine_request *r,
                                          struct lr_error *err);
/* INVALID_ARGUMENT: an id that the model does not have.  `what` names the list in the
 * message. */
LR_MUST_USE lr_code engine_session_check_ids(const struct engine_session *s, const char *what,
                                             const uint32_t *ids, size_t count,
                                             struct lr_error *err);
/* The error for a prompt of `amount` units that exceeds the context. */
lr_code engine_session_too_long(const struct engine_session *s, uint64_t amount,
                                const char *unit, struct lr_error *err);
/* Checks the prompt and queues it. */
LR_MUST_USE lr_code engine_session_submit(struct engine_session *s,
                                          const struct lr_engine_request *r,
                                          const uint32_t *ids, size_t count,
                                          struct lr_error *err);
/* The same in two parts, for a prompt that is tokenized meanwhile.  await: checks everything
 * but the prompt; *out is live.  read: the prompt is there (code OK) or could not be made; the
 * sequence is queued, or ends with the error. */
LR_MUST_USE lr_code engine_session_await(struct engine_session *s,
                                         const struct lr_engine_request *r,
                                         struct engine_sequence **out, struct lr_error *err);
void engine_session_read(struct engine_session *s, struct engine_sequence *seq,
                         const uint32_t *ids, size_t count, lr_code code, struct lr_error *err);
void engine_session_cancel(struct engine_session *s, uint64_t id);

/* ---- a step (session.c) ---- */

/* Ends continuations that arrived complete.  They cost no step. */
void engine_session_begin(struct engine_session *s);
/* The sequences of the step are chosen: reports those that take part in a step for the first
 * time. */
void engine_session_enter(struct engine_session *s);
/* The device has computed tokens of `sequences` live sequences; the token callbacks follow. */
void engine_session_computed(struct engine_session *s, uint32_t sequences);
/* Reports the step to the worker if something was computed. */
void engine_session_end(struct engine_session *s);

/* Ends a live sequence: calls on_done and frees the memory, now or after the step. */
void engine_session_finish(struct engine_session *s, struct engine_sequence *seq,
                           enum lr_finish reason, const struct lr_error *error);
/* Asks the worker which tokens are legal for a constrained sequence.  False: the sequence must
 * not sample in this step, because its mask is not ready or the sequence has ended. */
bool engine_session_fill_mask(struct engine_session *s, struct engine_sequence *seq);
/* The same for each constrained sequence of the step that samples.  A sequence whose mask is
 * not ready loses the last token of its share, so it does not sample in this step; a sequence
 * whose mask fails ends.  list: scratch with room for all running sequences. */
void engine_session_fill_masks(struct engine_session *s, struct engine_sequence **list);
/* The sampler's input for the next token; points into seq. */
struct sampler_input engine_session_sample(const struct engine_sequence *seq);
void engine_session_tell_prefill(struct engine_session *s, struct engine_sequence *seq);
/* Appends the token, calls on_token, and ends the sequence if this was its last token. */
void engine_session_tell_token(struct engine_session *s, struct engine_sequence *seq,
                               const struct sampler_result *sampled);

/* ---- vectors (session_vector.c) ---- */

/* Ends the sequence with its result: an embedding, which is cut and scaled here, or a score. */
void engine_session_tell_vector(struct engine_session *s, struct engine_sequence *seq,
                                const float *values, uint32_t count);

/* Copies a caller's sized struct into ours; what lies past its size is zero. */
#define ENGINE_COPY_SIZED(to, from)                                                            \
    do {                                                                                       \
        size_t known_ = (from)->size < sizeof(*(to)) ? (from)->size : sizeof(*(to));           \
        memset((to), 0, sizeof(*(to)));                                                        \
        memcpy((to), (from), known_);                                                          \
    } while (0)

#endif
