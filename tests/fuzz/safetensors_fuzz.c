/* LINK: model base */
/* safetensors_fuzz.c - the header of a safetensors file.  The input is the front of a file; its
 * claimed size is the input's, or (by the last byte) larger, as if only the header had been
 * fetched.  Accepted input must satisfy the format's rules. */
#include <stdint.h>
#include <stdlib.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t file_size = size;
    if (size != 0 && data[size - 1] % 2 == 1)
        file_size += (uint64_t)data[size - 1] << 8;
    struct lr_arena arena;
    struct lr_error err;
    struct model_safetensors_header out;
    lr_arena_init(&arena, 64 << 20);
    if (model_safetensors_parse(&arena, data, size, file_size, "f", &out, &err) == LR_OK) {
        uint64_t at = out.data_start;
        for (size_t i = 0; i < out.count; i++) {
            const struct model_tensor *t = &out.tensors[i];
            if (t->offset != at || t->bytes > file_size - at || t->rank > MODEL_RANK_MAX)
                abort();
            at += t->bytes;
        }
        if (at != file_size)
            abort();
    }
    lr_arena_free(&arena);
    return 0;
}
