/* llamacpp/model.h - an open model, shared by the files engine*.c.
 *
 * engine_open.c opens and closes it, engine_request.c submits and cancels requests,
 * engine_step.c computes, engine_vector.c has what embeddings and scores need.  Thread: the
 * caller of the ABI.
 */
#ifndef LLAMACPP_MODEL_H
#define LLAMACPP_MODEL_H

#include "engines/llamacpp/library.h"
#include "engines/llamacpp/plan.h"
#include "engines/llamacpp/scheduler.h"
#include "engines/llamacpp/vocabulary.h"
#include "engines/serving/session.h"

struct lr_engine_model {
    struct engine_session session;
    const struct llamacpp_library *lib;
    struct llamacpp_header header;
    struct llamacpp_plan plan;
    struct llama_model *llama;
    struct llama_context *context;
    struct ggml_threadpool *pool; /* the computing threads, kept between steps */
    void (*pool_free)(struct ggml_threadpool *pool);
    struct llamacpp_vocabulary vocabulary;
    struct llamacpp_scheduler scheduler;
    struct sampler *sampler;
    struct llama_batch batch; /* arrays owned; of step_tokens */
    struct engine_sequence *
        *batched;  /* owned, max_sequences entries: the sequences of this step */
    int32_t *rows; /* and the rows of the batch from which they are sampled; -1: none */
    bool gave_up;  /* the host asked to stop */
};

/* ---- engine_open.c ---- */
void llamacpp_engine_stats(const struct lr_engine_model *m, struct lr_engine_stats *out);
lr_code llamacpp_engine_probe(const char *dir, const struct lr_engine_options *options,
                              struct lr_engine_need *need, struct lr_error *err);
lr_code llamacpp_engine_open(const struct lr_engine_host *host, const char *dir,
                             const struct lr_engine_options *options,
                             struct lr_engine_model **out, struct lr_error *err);
void llamacpp_engine_close(struct lr_engine_model *m);

/* The parameters of a context under a plan; logits() creates a second context. */
struct llama_context_params llamacpp_context_params(const struct llamacpp_library *lib,
                                                    const struct llamacpp_plan *plan);

/* ---- engine_request.c ---- */
lr_code llamacpp_engine_submit(struct lr_engine_model *m,
                               const struct lr_engine_request *request, struct lr_error *err);
void llamacpp_engine_cancel(struct lr_engine_model *m, uint64_t id);
lr_code llamacpp_engine_count(const char *dir, const struct lr_engine_options *options,
                              const struct lr_segment *segments, size_t segment_count,
                              uint64_t *count, struct lr_error *err);
lr_code llamacpp_engine_tokenize(const struct lr_engine_model *m,
                                 const struct lr_segment *segments, size_t segment_count,
                                 uint32_t *ids, size_t capacity, size_t *count,
                                 struct lr_error *err);

/* ---- engine_vector.c ---- */
/* The ids of a text that is embedded, or of a query and its document. */
lr_code llamacpp_vector_ids(const struct lr_engine_model *m, const struct lr_engine_request *r,
                            size_t max_bytes, struct llamacpp_ids *out, struct lr_error *err);
/* A sequence was computed: its vector goes to the host. */
void llamacpp_vector_tell(struct lr_engine_model *m, struct engine_sequence *seq);

/* ---- engine_step.c ---- */
lr_code llamacpp_engine_step(struct lr_engine_model *m, int32_t *busy, struct lr_error *err);

/* ---- engine_logits.c ---- */
lr_code llamacpp_engine_logits(struct lr_engine_model *m, const uint32_t *ids, size_t n,
                               float *out, struct lr_error *err);

#endif
