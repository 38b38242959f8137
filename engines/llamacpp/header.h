/* llamacpp/header.h - a GGUF's header, checked by us before libllama sees the file.
 *
 * model/gguf.h has walked the file: counts, string lengths, offsets and types lie inside
 * it.  Here the numbers are checked that libllama would divide by, multiply or allot
 * with, and the lists that must be as long as the vocabulary.  Every part of a model in
 * several files is read.  Pure reading; thread: any.
 */
#ifndef LLAMACPP_HEADER_H
#define LLAMACPP_HEADER_H

#include "base/file.h"
#include "llm-router/status.h"

enum {
    LLAMACPP_LAYERS_MAX = 512,  /* libllama asserts on more */
    LLAMACPP_EXPERTS_MAX = 512, /* likewise */
    LLAMACPP_WIDTH_MAX = 1 << 20,
    LLAMACPP_HEADS_MAX = 1 << 16,
    LLAMACPP_TOKENS_MAX = 1 << 22,
};

struct llamacpp_header {
    char path[LR_PATH_MAX]; /* of the file, or of the first part */
    char architecture[64];
    uint32_t context; /* tokens the model was trained for */
    uint32_t layers;
    uint32_t width;
    uint32_t heads;        /* of the layer that has most */
    uint32_t feed_forward; /* likewise; all experts of a token together */
    uint32_t vocab;
    uint32_t file_count;
    uint64_t weights;            /* bytes of all parts behind their headers */
    uint64_t kv_values;          /* numbers of K and V that one token leaves in all layers */
    uint64_t state_per_sequence; /* bytes of recurrent layers */
};

/* filename may be NULL: the folder's only GGUF.
 *   MODEL_CORRUPT     the header contradicts itself, the file or a limit
 *   UNSUPPORTED       no architecture, or a number libllama has no room for
 *   INVALID_ARGUMENT  no such folder or file, or several */
LR_MUST_USE lr_code llamacpp_header_read(const char *dir, const char *filename,
                                         struct llamacpp_header *out, struct lr_error *err);

#endif
