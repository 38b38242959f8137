/* model/size.h - what a model takes in memory, from its config.json or GGUF metadata alone, so
 * that a person hears it before the weights are downloaded.
 *
 * K and V are counted at 16 bits.  An engine plans exactly when it has the files; this is the
 * same arithmetic without them.  Pure.  Thread: any.
 */
#ifndef MODEL_SIZE_H
#define MODEL_SIZE_H

#include "model/config.h"
#include "model/gguf.h"

struct model_size {
    char runtime[MODEL_NAME_MAX], architecture[MODEL_NAME_MAX];
    uint64_t context_tokens; /* 0: not given */
    uint64_t token_bytes;    /* K and V of a token in layers that see everything before it */
    uint64_t window_bytes;   /* and in layers with a window */
    uint64_t window;         /* tokens; 0: no such layers */
    uint32_t width, feed_forward, vocab; /* 0: not given */
    double active_share; /* of the weights, that one token reads: below 1 with experts */
};

LR_MUST_USE lr_code model_size_of_config(struct lr_str text, struct model_size *out,
                                         struct lr_error *err);
/* The layers with windows count in full, as libllama allots them.  UNSUPPORTED: no
 * architecture. */
LR_MUST_USE lr_code model_size_of_gguf(const struct model_gguf *g, struct model_size *out,
                                       struct lr_error *err);

/* KV memory of one sequence of so many tokens. */
uint64_t model_size_kv(const struct model_size *size, uint64_t tokens);
/* The most tokens of one sequence whose KV memory is at most this. */
uint64_t model_size_tokens(const struct model_size *size, uint64_t bytes);
/* What an engine takes beside weights and KV memory of so many tokens, about. */
uint64_t model_size_work(const struct model_size *size, uint64_t tokens);

#endif
