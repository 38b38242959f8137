/* model/tensor.h - one tensor of a model file: type, shape and address.
 *
 * Data pointers lead into a read-only mapping of the file and live as long as the object that
 * opened it (model_safetensors, model_weights, model_gptoss).  Nothing is copied.  Thread: any,
 * once opened.
 */
#ifndef MODEL_TENSOR_H
#define MODEL_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* clang-format off */
/* All types of the safetensors format; an engine supports only a few. */
#define MODEL_DTYPE_MAP(X)     \
    X(BOOL,        8)          \
    X(F4,          4)          \
    X(F6_E2M3,     6)          \
    X(F6_E3M2,     6)          \
    X(U8,          8)          \
    X(I8,          8)          \
    X(F8_E5M2,     8)          \
    X(F8_E4M3,     8)          \
    X(F8_E8M0,     8)          \
    X(F8_E4M3FNUZ, 8)          \
    X(F8_E5M2FNUZ, 8)          \
    X(I16,        16)          \
    X(U16,        16)          \
    X(F16,        16)          \
    X(BF16,       16)          \
    X(I32,        32)          \
    X(U32,        32)          \
    X(F32,        32)          \
    X(C64,        64)          \
    X(F64,        64)          \
    X(I64,        64)          \
    X(U64,        64)
/* clang-format on */

enum model_dtype {
#define X(name, bits) MODEL_DTYPE_##name,
    MODEL_DTYPE_MAP(X)
#undef X
        MODEL_DTYPE_COUNT
};

enum { MODEL_RANK_MAX = 8 };

struct model_tensor {
    struct lr_str name; /* borrowed from the object that opened the file */
    enum model_dtype dtype;
    uint32_t rank;
    uint64_t shape[MODEL_RANK_MAX]; /* outermost first, row-major */
    const void *data;               /* NULL if only a header was parsed */
    uint64_t bytes;                 /* product of shape times the size of dtype, checked */
    uint64_t offset;                /* of the first byte, from the start of the file */
    const char *file;               /* path as opened, for messages; borrowed */
};

const char *model_dtype_name(enum model_dtype dtype); /* "BF16" */
unsigned model_dtype_bits(enum model_dtype dtype);
bool model_dtype_find(struct lr_str name, enum model_dtype *out);

/* Writes "[32, 5760, 90]" for messages; returns out. */
enum { MODEL_SHAPE_TEXT = 8 * 22 + 3 };
const char *model_shape_text(const uint64_t *shape, uint32_t rank, char out[MODEL_SHAPE_TEXT]);

#endif
