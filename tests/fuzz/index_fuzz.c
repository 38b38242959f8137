/* LINK: model base */
/* index_fuzz.c - model.safetensors.index.json.  An accepted shard name is always a plain file
 * beside the index. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_arena arena;
    struct lr_error err;
    struct model_index out;
    lr_arena_init(&arena, 64 << 20);
    if (model_index_parse(&arena, lr_str((const char *)data, size), &out, &err) == LR_OK) {
        for (size_t i = 0; i < out.shard_count; i++) {
            struct lr_str name = out.shards[i];
            if (memchr(name.ptr, '/', name.len) != NULL || name.ptr[0] == '.' ||
                memchr(name.ptr, '\\', name.len) != NULL ||
                memchr(name.ptr, '\0', name.len) != NULL)
                abort();
        }
        for (size_t i = 0; i < out.count; i++) {
            if (out.entries[i].shard >= out.shard_count)
                abort();
        }
    }
    lr_arena_free(&arena);
    return 0;
}
