/* model/tensor.c - names and sizes of tensor types. */
#include "model/tensor.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    const char *name;
    unsigned bits;
} dtypes[MODEL_DTYPE_COUNT] = {
#define X(name, bits) [MODEL_DTYPE_##name] = {#name, bits},
    MODEL_DTYPE_MAP(X)
#undef X
};

const char *model_dtype_name(enum model_dtype dtype)
{
    return dtypes[dtype].name;
}

unsigned model_dtype_bits(enum model_dtype dtype)
{
    return dtypes[dtype].bits;
}

bool model_dtype_find(struct lr_str name, enum model_dtype *out)
{
    for (unsigned i = 0; i < MODEL_DTYPE_COUNT; i++) {
        if (lr_str_eq_z(name, dtypes[i].name)) {
            *out = (enum model_dtype)i;
            return true;
        }
    }
    return false;
}

const char *model_shape_text(const uint64_t *shape, uint32_t rank, char out[MODEL_SHAPE_TEXT])
{
    size_t used = 0;
    out[used++] = '[';
    for (uint32_t i = 0; i < rank && i < MODEL_RANK_MAX; i++) {
        int len = snprintf(out + used, MODEL_SHAPE_TEXT - used, "%s%" PRIu64,
                           i != 0 ? ", " : "", shape[i]);
        used += (size_t)len;
    }
    out[used++] = ']';
    out[used] = '\0';
    return out;
}
