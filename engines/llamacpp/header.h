/* llamacpp/header.h - checks the header of a GGUF before libllama sees the file.
 *
 * model/gguf.h has checked that counts, string lengths, offsets and types lie inside the file.
 * This file checks the numbers by which libllama divides, multiplies or allocates, and the
 * lists that must be as long as the vocabulary.  Every part of a split model is read.  Pure;
 * thread: any.
 */
#ifndef LLAMACPP_HEADER_H
#define LLAMACPP_HEADER_H

#include <stdbool.h>

#include "base/file.h"
#include "llm-router/engine.h"

enum {
    LLAMACPP_LAYERS_MAX = 512,  /* libllama asserts on more */
    LLAMACPP_EXPERTS_MAX = 512, /* the same */
    LLAMACPP_WIDTH_MAX = 1 << 20,
    LLAMACPP_HEADS_MAX = 1 << 16,
    LLAMACPP_TOKENS_MAX = 1 << 22,
};

struct llamacpp_header {
    char path[LR_PATH_MAX]; /* of the file, or of the first part */
    char architecture[64];
    uint32_t requests;   /* as in lr_engine_need */
    uint32_t pooling;    /* enum llama_pooling_type; 0: the header has none */
    uint32_t dimensions; /* of an embedding */
    bool has_cache;      /* false: libllama keeps no K and V for this model */
    uint32_t context;    /* tokens the model was trained for */
    uint32_t layers;
    uint32_t width;
    uint32_t heads;        /* of the layer with the most */
    uint32_t feed_forward; /* the same; all experts of a token together */
    uint32_t vocab;
    uint32_t file_count;
    uint64_t weights;            /* bytes of all parts behind their headers */
    uint64_t kv_values;          /* K and V values of one token in all layers */
    uint64_t state_per_sequence; /* bytes of recurrent layers */
};

/* The model gives vectors (embeddings or scores) instead of text. */
static inline bool llamacpp_header_is_vector(const struct llamacpp_header *header)
{
    return (header->requests >> LR_REQUEST_GENERATE & 1) == 0;
}

/* filename may be NULL: the folder's only GGUF.
 *   MODEL_CORRUPT     the header contradicts itself, the file or a limit
 *   UNSUPPORTED       no architecture, or a number too large for libllama
 *   INVALID_ARGUMENT  no such folder or file, or several */
LR_MUST_USE lr_code llamacpp_header_read(const char *dir, const char *filename,
                                         struct llamacpp_header *out, struct lr_error *err);

#endif
