/* gptoss/engine_model.h - an open model, shared by the files engine*.c.
 *
 * engine_open.c opens and closes it, engine_request.c submits and cancels requests,
 * engine_step.c computes.  Thread: the caller of the ABI.
 */
#ifndef GPTOSS_ENGINE_MODEL_H
#define GPTOSS_ENGINE_MODEL_H

#include "engines/common/session.h"
#include "engines/gptoss/backend/backend.h"
#include "engines/gptoss/engine_reading.h"
#include "engines/gptoss/model/vocabulary.h"
#include "engines/gptoss/scheduler/scheduler.h"
#include "llm-router/engine.h"

/* A step on the device. */
struct gptoss_round {
    struct gptoss_step *steps;      /* owned, max_sequences entries, like the next three */
    struct engine_sequence **batch; /* the sequences of the steps; NULL: has been freed */
    struct sampler_input *samples;  /* their sampler inputs */
    struct sampler_result *sampled; /* their sampler results */
    uint32_t count;
    uint64_t began_ns;
};

struct lr_engine_model {
    struct engine_session session;
    struct model_gptoss *weights;
    struct gptoss_vocabulary vocabulary;
    struct gptoss_reading reading; /* its numbers are the sequences' arrivals */
    const struct gptoss_backend_api *backend_api;
    struct gptoss_backend *backend;
    struct gptoss_plan plan;
    struct gptoss_scheduler scheduler;
    struct gptoss_round round; /* of the step that is being computed */
    struct gptoss_round next;  /* of the one behind it */
    uint32_t begun; /* rounds that the device has and that are not finished: 0 .. 2 */
    bool whole;     /* the next step is computed by forward() */
};

/* ---- engine.c ---- */
void gptoss_engine_stats(const struct lr_engine_model *m, struct lr_engine_stats *out);

/* ---- engine_open.c ---- */
lr_code gptoss_engine_probe(const char *dir, const struct lr_engine_options *options,
                            struct lr_engine_need *need, struct lr_error *err);
lr_code gptoss_engine_open(const struct lr_engine_host *host, const char *dir,
                           const struct lr_engine_options *options,
                           struct lr_engine_model **out, struct lr_error *err);
void gptoss_engine_close(struct lr_engine_model *m);

/* ---- engine_memory.c ---- */
void gptoss_engine_memory_open(struct lr_engine_model *m);
lr_code gptoss_engine_limit_kv(struct lr_engine_model *m, uint64_t bytes, uint64_t *kv_bytes,
                               struct lr_error *err);

/* ---- engine_extra.c ---- */

/* Options of extra_json that this engine knows; other members are ignored.
 *   "random_shape"    "20b" or "120b": random weights made on the GPU, no file is read
 *   "measure_memory"  true: log the rate at which the device reads its memory
 *   "embed_on_host"   true: a GPU reads the embedding table in host memory, also where its own
 *                     memory is not short */
struct gptoss_extra {
    char random_shape[16]; /* "": none */
    bool measure_memory;
    bool embed_on_host;
};

/* json may be NULL.  INVALID_ARGUMENT: no JSON object, or a member of another type. */
lr_code gptoss_engine_extra(const char *json, struct gptoss_extra *out, struct lr_error *err);

/* ---- engine_request.c ---- */
/* *ids is empty unless the result is OK. */
lr_code gptoss_engine_encode(const struct tokenizer *tokenizer,
                             const struct lr_segment *segments, size_t count,
                             struct tokenizer_ids *ids, struct lr_error *err);
lr_code gptoss_engine_submit(struct lr_engine_model *m, const struct lr_engine_request *request,
                             struct lr_error *err);
void gptoss_engine_cancel(struct lr_engine_model *m, uint64_t id);
lr_code gptoss_engine_count(const char *dir, const struct lr_engine_options *options,
                            const struct lr_segment *segments, size_t segment_count,
                            uint64_t *count, struct lr_error *err);
lr_code gptoss_engine_tokenize(const struct lr_engine_model *m,
                               const struct lr_segment *segments, size_t segment_count,
                               uint32_t *ids, size_t capacity, size_t *count,
                               struct lr_error *err);

/* ---- engine_ahead.c ---- */
/* The device gets the chosen step, and where nothing needs the host the step behind it.
 * UNSUPPORTED: nothing has happened, forward() must compute it. */
lr_code gptoss_ahead_begin(struct lr_engine_model *m, const struct gptoss_batch *batch,
                           struct lr_error *err);
/* There is a step on the device: sets `take` of its sequences, and begins the step behind it
 * where nothing needs the host.  *live: sequences of the step that still wait for it. */
lr_code gptoss_ahead_resume(struct lr_engine_model *m, uint32_t *live, struct lr_error *err);
/* Waits for the first begun step. */
lr_code gptoss_ahead_finish(struct lr_engine_model *m, struct lr_error *err);
/* After its tokens were told: the step behind it, if there is one, is the next to finish. */
void gptoss_ahead_pass(struct lr_engine_model *m);
/* The sequence is about to be freed. */
void gptoss_ahead_forget(struct lr_engine_model *m, const struct engine_sequence *seq);

/* ---- engine_step.c ---- */
lr_code gptoss_engine_step(struct lr_engine_model *m, int32_t *busy, struct lr_error *err);
lr_code gptoss_engine_logits(struct lr_engine_model *m, const uint32_t *ids, size_t n,
                             float *out, struct lr_error *err);

#endif
