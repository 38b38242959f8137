/* model/gguf_format.h - sizes of GGUF's value types and of ggml's tensor types. */
#ifndef MODEL_GGUF_FORMAT_H
#define MODEL_GGUF_FORMAT_H

#include "model/gguf.h"

/* Bytes of a number or a boolean; 0 for strings and arrays. */
unsigned model_gguf_type_size(enum model_gguf_type type);

/* Bytes of a tensor by shape and type; 0 with true for an unknown type.  False when the product
 * overflows or the rows do not fill whole blocks. */
bool model_gguf_tensor_bytes(const struct model_gguf_tensor *t, uint64_t *out);

/* MODEL_CORRUPT names the first two tensors that share bytes. */
LR_MUST_USE lr_code model_gguf_check_overlap(struct lr_arena *arena, const struct model_gguf *g,
                                             const char *file, struct lr_error *err);

#endif
