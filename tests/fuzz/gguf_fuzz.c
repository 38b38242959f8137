/* LINK: model base */
/* gguf_fuzz.c - the header of a GGUF file, then every kind of lookup in the result. */
#include <stdint.h>
#include <stdlib.h>

#include "model/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct model_gguf *g)
{
    struct lr_str text;
    uint64_t number;
    (void)model_gguf_str(g, "general.architecture", &text);
    (void)model_gguf_u64(g, "general.alignment", &number);
    for (size_t i = 0; i < g->kv_count && i < 16; i++) {
        const struct model_gguf_value *v = &g->kv[i].value;
        if (v->count != 0 && model_gguf_str_at(v, v->count - 1, &text) &&
            text.ptr + text.len > v->raw.ptr + v->raw.len)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t file_size = size;
    if (size != 0 && data[size - 1] % 2 == 1)
        file_size += (uint64_t)data[size - 1] << 8;
    struct lr_arena arena;
    struct lr_error err;
    struct model_gguf out;
    lr_arena_init(&arena, 64 << 20);
    if (model_gguf_parse(&arena, data, size, file_size, "f", &out, &err) == LR_OK) {
        for (size_t i = 0; i < out.tensor_count; i++) {
            const struct model_gguf_tensor *t = &out.tensors[i];
            if (t->offset > file_size || t->bytes > file_size - t->offset)
                abort();
        }
        look_up(&out);
    }
    lr_arena_free(&arena);
    return 0;
}
