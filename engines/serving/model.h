/* serving/model.h - an open model, shared by the files of this
 * folder that implement the ABI.
 *
 * open.c opens and closes it, request.c submits and cancels requests,
 * step.c computes.  Thread: the caller of the ABI.
 */
#ifndef ENGINES_SERVING_MODEL_H
#define ENGINES_SERVING_MODEL_H

#include "engines/serving/backend.h"
#include "engines/serving/reading.h"
#include "engines/serving/scheduler.h"
#include "engines/serving/session.h"
#include "engines/serving/vocabulary.h"
#include "llm-router/engine.h"

/* A step on the device. */
struct serving_round {
    struct serving_step *steps;     /* owned, max_sequences entries, like the next three */
    struct engine_sequence **batch; /* the sequences of the steps; NULL: has been freed */
    struct sampler_input *samples;  /* their sampler inputs */
    struct sampler_result *sampled; /* their sampler results */
    float *vectors; /* owned, max_sequences * dimensions; NULL: the model generates text */
    uint32_t count;
    uint64_t began_ns;
};

struct lr_engine_model {
    struct engine_session session;
    const struct serving_model_api *model_api;
    void *model; /* owned, opened by model_api */
    struct serving_vocabulary vocabulary;
    struct serving_reading reading; /* its numbers are the sequences' arrivals */
    const struct serving_backend_api *backend_api;
    struct serving_backend *backend;
    struct serving_plan plan;
    struct serving_scheduler scheduler;
    struct serving_round round; /* of the step that is being computed */
    struct serving_round next;  /* of the one behind it */
    uint32_t
        rounds_in_flight;     /* rounds that the device has and that are not finished: 0 .. 2 */
    bool needs_forward;       /* the next step is computed by forward() */
    uint32_t beside;          /* prompts in the batches of logits(); 0 but in tests */
    struct serving_pair pair; /* of a model that ranks */
};

/* ---- engine.c ---- */
void serving_engine_stats(const struct lr_engine_model *m, struct lr_engine_stats *out);

/* ---- open.c ---- */
void serving_engine_close(struct lr_engine_model *m);

/* ---- memory.c ---- */
void serving_engine_memory_open(struct lr_engine_model *m);
lr_code serving_engine_limit_kv(struct lr_engine_model *m, uint64_t bytes, uint64_t *kv_bytes,
                                struct lr_error *err);

/* ---- request.c ---- */
/* *ids is empty unless the result is OK. */
lr_code serving_engine_encode(const struct tokenizer *tokenizer,
                              const struct lr_segment *segments, size_t count,
                              struct tokenizer_ids *ids, struct lr_error *err);
lr_code serving_engine_submit(struct lr_engine_model *m,
                              const struct lr_engine_request *request, struct lr_error *err);
void serving_engine_cancel(struct lr_engine_model *m, uint64_t id);
lr_code serving_engine_count(const char *dir, const struct lr_engine_options *options,
                             const struct lr_segment *segments, size_t segment_count,
                             uint64_t *count, struct lr_error *err);
lr_code serving_engine_tokenize(const struct lr_engine_model *m,
                                const struct lr_segment *segments, size_t segment_count,
                                uint32_t *ids, size_t capacity, size_t *count,
                                struct lr_error *err);

/* ---- pair.c ---- */
lr_code serving_pair_submit(struct lr_engine_model *m, const struct lr_engine_request *r,
                            struct lr_error *err);

/* ---- ahead.c ---- */
/* The device gets the chosen step, and where nothing needs the host the step behind it.
 * UNSUPPORTED: nothing has happened, forward() must compute it. */
lr_code serving_ahead_begin(struct lr_engine_model *m, const struct serving_batch *batch,
                            struct lr_error *err);
/* There is a step on the device: sets `take` of its sequences, and begins the step behind it
 * where nothing needs the host.  *live: sequences of the step that still wait for it. */
lr_code serving_ahead_resume(struct lr_engine_model *m, uint32_t *live, struct lr_error *err);
/* Waits for the first begun step. */
lr_code serving_ahead_finish(struct lr_engine_model *m, struct lr_error *err);
/* After its tokens were told: the step behind it, if there is one, is the next to finish. */
void serving_ahead_pass(struct lr_engine_model *m);
/* The sequence is about to be freed. */
void serving_ahead_forget(struct lr_engine_model *m, const struct engine_sequence *seq);

/* ---- step.c ---- */
lr_code serving_engine_step(struct lr_engine_model *m, int32_t *busy, struct lr_error *err);
/* The model stays dead, whatever error the device returned. */
lr_code serving_engine_die(struct lr_engine_model *m, struct lr_error *err);

/* ---- logits.c ---- */
enum { SERVING_BESIDE_MAX = 63 };
/* "beside" of extra_json, which may be NULL. */
uint32_t serving_logits_beside(const char *extra_json);
lr_code serving_engine_logits(struct lr_engine_model *m, const uint32_t *ids, size_t n,
                              float *out, struct lr_error *err);

#endif
