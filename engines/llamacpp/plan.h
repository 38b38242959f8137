/* llamacpp/plan.h - from a header and the operator's options to what open() allocates.
 *
 * libllama's KV cache has two layouts.  If the KV tokens hold every sequence at its full
 * context, each sequence has its own cells; otherwise all share one pool, and the scheduler
 * ensures that they fit.
 *
 * libllama pools the states of one batch only.  So a model that gives vectors has a batch as
 * long as its context, and libllama keeps a row of logits for each of its tokens.  Thread: any.
 */
#ifndef LLAMACPP_PLAN_H
#define LLAMACPP_PLAN_H

#include <stdbool.h>

#include "engines/llamacpp/header.h"
#include "llm-router/engine.h"

enum llamacpp_kv_type { LLAMACPP_KV_F16, LLAMACPP_KV_F32, LLAMACPP_KV_Q8_0 };

struct llamacpp_plan {
    bool on_device;   /* weights, cache and workspace lie in the device's memory */
    bool shared;      /* one pool of cells for all sequences */
    bool is_vector;   /* a sequence is computed whole, in one step, and gives a vector */
    uint32_t pooling; /* the header's, for a model that gives vectors */
    enum llamacpp_kv_type kv_type;
    uint32_t max_context;
    uint32_t max_sequences;
    uint32_t prefill_chunk;
    uint32_t step_tokens; /* most tokens of one batch */
    uint32_t threads;
    uint64_t kv_tokens; /* cells in all */
    uint64_t kv_per_token;
    uint64_t kv_per_sequence;
    uint64_t weights;
    uint64_t kv;
    uint64_t workspace;
    uint64_t fixed;
    uint64_t total;
};

/* options is complete (missing members zero).  INVALID_ARGUMENT: an option that is unknown or
 * out of range; OUT_OF_RAM, OUT_OF_VRAM: the limit is too small, with both numbers. */
LR_MUST_USE lr_code llamacpp_plan_make(const struct llamacpp_header *header,
                                       const struct lr_engine_options *options, bool on_device,
                                       struct llamacpp_plan *out, struct lr_error *err);

#endif
