/* model/gguf_format.c - see gguf_format.h. */
#include "model/gguf_format.h"

#include <inttypes.h>
#include <stdlib.h>

#include "model/map.h"

unsigned model_gguf_type_size(enum model_gguf_type type)
{
    static const unsigned char sizes[MODEL_GGUF_TYPE_COUNT] = {
        [MODEL_GGUF_U8] = 1,  [MODEL_GGUF_I8] = 1,  [MODEL_GGUF_U16] = 2, [MODEL_GGUF_I16] = 2,
        [MODEL_GGUF_U32] = 4, [MODEL_GGUF_I32] = 4, [MODEL_GGUF_F32] = 4, [MODEL_GGUF_BOOL] = 1,
        [MODEL_GGUF_U64] = 8, [MODEL_GGUF_I64] = 8, [MODEL_GGUF_F64] = 8,
    };
    return sizes[type];
}

/* clang-format off */
/* By ggml's type number: elements and bytes of one block. */
static const struct {
    unsigned short elements, bytes;
} blocks[] = {
    [0]  = {1, 4},     [1]  = {1, 2},     [2]  = {32, 18},   [3]  = {32, 20},   /* F32 F16 Q4_0 Q4_1 */
    [6]  = {32, 22},   [7]  = {32, 24},   [8]  = {32, 34},   [9]  = {32, 36},   /* Q5_0 Q5_1 Q8_0 Q8_1 */
    [10] = {256, 84},  [11] = {256, 110}, [12] = {256, 144}, [13] = {256, 176}, /* Q2_K .. Q5_K */
    [14] = {256, 210}, [15] = {256, 292}, [16] = {256, 66},  [17] = {256, 74},  /* Q6_K Q8_K IQ2_XXS IQ2_XS */
    [18] = {256, 98},  [19] = {256, 50},  [20] = {32, 18},   [21] = {256, 110}, /* IQ3_XXS IQ1_S IQ4_NL IQ3_S */
    [22] = {256, 82},  [23] = {256, 136}, [24] = {1, 1},     [25] = {1, 2},     /* IQ2_S IQ4_XS I8 I16 */
    [26] = {1, 4},     [27] = {1, 8},     [28] = {1, 8},     [29] = {256, 56},  /* I32 I64 F64 IQ1_M */
    [30] = {1, 2},     [34] = {256, 54},  [35] = {256, 66},  [39] = {32, 17},   /* BF16 TQ1_0 TQ2_0 MXFP4 */
};
/* clang-format on */

bool model_gguf_tensor_bytes(const struct model_gguf_tensor *t, uint64_t *out)
{
    uint64_t elements = 1, row = t->rank != 0 ? t->shape[0] : 1;
    *out = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (__builtin_mul_overflow(elements, t->shape[i], &elements))
            return false;
    }
    if (t->type >= sizeof(blocks) / sizeof(blocks[0]) || blocks[t->type].elements == 0)
        return true;
    if (row % blocks[t->type].elements != 0)
        return false;
    return !__builtin_mul_overflow(elements / blocks[t->type].elements,
                                   (uint64_t)blocks[t->type].bytes, out);
}

static int by_offset(const void *left, const void *right)
{
    const struct model_gguf_tensor *const *a = left, *const *b = right;
    if ((*a)->offset != (*b)->offset)
        return (*a)->offset < (*b)->offset ? -1 : 1;
    return (*a)->bytes < (*b)->bytes ? -1 : (*a)->bytes > (*b)->bytes;
}

lr_code model_gguf_check_overlap(struct lr_arena *arena, const struct model_gguf *g,
                                 const char *file, struct lr_error *err)
{
    const struct model_gguf_tensor **sorted =
        lr_arena_array(arena, g->tensor_count + 1, sizeof(*sorted));
    if (sorted == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory for %zu tensors", file,
                       g->tensor_count);
    for (size_t i = 0; i < g->tensor_count; i++)
        sorted[i] = &g->tensors[i];
    qsort(sorted, g->tensor_count, sizeof(const struct model_gguf_tensor *), by_offset);
    for (size_t i = 1; i < g->tensor_count; i++) {
        const struct model_gguf_tensor *a = sorted[i - 1], *b = sorted[i];
        if (a->offset + a->bytes > b->offset)
            return lr_fail(
                err, LR_MODEL_CORRUPT,
                "%s: tensors \"%.*s\" and \"%.*s\" overlap: one ends at byte %" PRIu64
                ", the other begins at %" PRIu64,
                file, MODEL_QUOTE(a->name), MODEL_QUOTE(b->name), a->offset + a->bytes,
                b->offset);
    }
    return LR_OK;
}
