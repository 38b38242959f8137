/* llamacpp/model.h - an open model: what engine*.c share.
 *
 * engine_open.c brings it up and down, engine_request.c takes requests in and out,
 * engine_step.c computes.  Thread: the caller of the ABI.
 */
#ifndef LLAMACPP_MODEL_H
#define LLAMACPP_MODEL_H

#include "engines/llamacpp/library.h"
#include "engines/llamacpp/plan.h"
#include "engines/llamacpp/sequence.h"
#include "engines/llamacpp/vocabulary.h"

struct lr_engine_model {
    struct lr_engine_host host; /* a copy: members the worker does not know are NULL */
    const struct llamacpp_library *lib;
    struct llamacpp_header header;
    struct llamacpp_plan plan;
    struct llama_model *llama;
    struct llama_context *context;
    struct ggml_threadpool *pool; /* the computing threads, kept between steps */
    void (*pool_free)(struct ggml_threadpool *pool);
    struct llamacpp_vocabulary vocabulary;
    struct llamacpp_scheduler scheduler;
    struct gptoss_sampler *sampler;
    struct llama_batch batch;         /* arrays owned; of step_tokens */
    struct llamacpp_sequence **drawn; /* owned, max_sequences: those of this step */
    struct llamacpp_sequence *ended;  /* freed at the end of a step: callbacks may cancel */
    bool stepping;
    bool gave_up;         /* progress asked to */
    struct lr_error dead; /* code != OK: the device failed, nothing works any more */
    uint64_t step_count;
    uint64_t prompt_tokens;
    uint64_t generated_tokens;
};

/* ---- engine_open.c ---- */
lr_code llamacpp_engine_probe(const char *dir, const struct lr_engine_options *options,
                              struct lr_engine_need *need, struct lr_error *err);
lr_code llamacpp_engine_open(const struct lr_engine_host *host, const char *dir,
                             const struct lr_engine_options *options,
                             struct lr_engine_model **out, struct lr_error *err);
void llamacpp_engine_close(struct lr_engine_model *m);

/* How a context is made under a plan; logits() makes a second one. */
struct llama_context_params llamacpp_context_params(const struct llamacpp_library *lib,
                                                    const struct llamacpp_plan *plan);

/* ---- engine_request.c ---- */
lr_code llamacpp_engine_submit(struct lr_engine_model *m,
                               const struct lr_engine_request *request, struct lr_error *err);
void llamacpp_engine_cancel(struct lr_engine_model *m, uint64_t id);
lr_code llamacpp_engine_tokenize(const struct lr_engine_model *m,
                                 const struct lr_segment *segments, size_t segment_count,
                                 uint32_t *ids, size_t capacity, size_t *count,
                                 struct lr_error *err);
/* Ends a live sequence: cells back, on_done called, memory freed now or after the step. */
void llamacpp_engine_finish(struct lr_engine_model *m, struct llamacpp_sequence *seq,
                            enum lr_finish reason, const struct lr_error *error);

/* ---- engine_step.c ---- */
lr_code llamacpp_engine_step(struct lr_engine_model *m, int32_t *busy, struct lr_error *err);

/* ---- engine_logits.c ---- */
lr_code llamacpp_engine_logits(struct lr_engine_model *m, const uint32_t *ids, size_t n,
                               float *out, struct lr_error *err);

/* Copies a caller's sized struct into ours; what lies past its size is zero. */
#define LLAMACPP_COPY_SIZED(to, from)                                                          \
    do {                                                                                       \
        size_t known_ = (from)->size < sizeof(*(to)) ? (from)->size : sizeof(*(to));           \
        memset((to), 0, sizeof(*(to)));                                                        \
        memcpy((to), (from), known_);                                                          \
    } while (0)

#endif
