/* native/formats/bitsandbytes.c - quant_method "bitsandbytes": nf4 and fp4.
 *
 * One stream over all rows, a scale for each 64 values; the scales may be codes themselves.
 */
#include <inttypes.h>
#include <string.h>

#include "engines/native/formats/formats.h"
#include "model/map.h"

static lr_code bnb_open(struct native_quant *q, struct lr_error *err)
{
    bool eight = false;

    if (lr_json_bool(lr_json_get(q->config, "load_in_8bit"), &eight) && eight)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s: 8 bits of bitsandbytes are not supported; its 4 bits are", q->file);
    return LR_OK;
}

/* A table of floats that may lie at any byte of the file. */
static const float *copy_table(const struct native_stored *s, const struct model_tensor *t)
{
    float *copy = lr_arena_array(s->arena, t->bytes / sizeof(float) + 1, sizeof(*copy));

    if (copy != NULL)
        memcpy(copy, t->data, t->bytes);
    else
        (void)lr_fail(s->err, LR_OUT_OF_RAM, "no memory for a table of codes");
    return copy;
}

static lr_code read_state(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *t = native_part(s, "weight.quant_state.bitsandbytes__nf4");
    uint64_t block = 64, nested = 256, rows = s->rows, columns = s->columns;
    const struct lr_json *state, *shape;
    double offset = 0;

    if (t == NULL)
        t = native_part(s, "weight.quant_state.bitsandbytes__fp4");
    if (t == NULL)
        return native_part_missing(s, "weight.quant_state.bitsandbytes__nf4");
    if (t->bytes > 4096 ||
        lr_json_parse(s->arena, lr_str(t->data, t->bytes), NULL, &state, NULL) != LR_OK)
        return native_part_wrong(s, t, "a JSON object");
    (void)lr_json_u64(lr_json_get(state, "blocksize"), &block);
    (void)lr_json_u64(lr_json_get(state, "nested_blocksize"), &nested);
    (void)lr_json_double(lr_json_get(state, "nested_offset"), &offset);
    shape = lr_json_get(state, "shape");
    if (lr_json_is(shape, LR_JSON_ARRAY) && shape->count == 2) {
        (void)lr_json_u64(&shape->items[0], &rows);
        (void)lr_json_u64(&shape->items[1], &columns);
    }
    if (rows != s->rows || columns != s->columns)
        return native_part_wrong(s, t, "the shape [%u, %u] in it", s->rows, s->columns);
    if (block < 32 || block > 4096 || nested != 256)
        return native_part_refuse(s, "blocks of %" PRIu64 " and %" PRIu64 " are not supported",
                                  block, nested);
    out->columns_each = (uint32_t)block;
    out->nested_offset = (float)offset;
    return LR_OK;
}

static lr_code take_absmax(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *absmax = native_part(s, "weight.absmax");
    const struct model_tensor *map = native_part(s, "weight.nested_quant_map");
    const struct model_tensor *nested = native_part(s, "weight.nested_absmax");
    uint64_t blocks =
        ((uint64_t)s->rows * s->columns + out->columns_each - 1) / out->columns_each;

    if (absmax == NULL)
        return native_part_missing(s, "weight.absmax");
    if (absmax->rank != 1 || absmax->shape[0] != blocks)
        return native_part_wrong(s, absmax, "[%" PRIu64 "]", blocks);
    if (absmax->dtype == MODEL_DTYPE_F32)
        return native_take_scales(s, absmax, out);
    if (map == NULL || nested == NULL)
        return native_part_missing(s, "weight.nested_absmax");
    if (absmax->dtype != MODEL_DTYPE_U8)
        return native_part_wrong(s, absmax, "F32 or U8");
    if (map->dtype != MODEL_DTYPE_F32 || map->bytes != 256 * sizeof(float))
        return native_part_wrong(s, map, "F32 [256]");
    if (nested->dtype != MODEL_DTYPE_F32 ||
        nested->bytes / sizeof(float) < (blocks + 255) / 256)
        return native_part_wrong(s, nested, "F32 [%" PRIu64 "]", (blocks + 255) / 256);
    out->scale = NATIVE_SCALE_NESTED;
    out->scales = absmax->data;
    out->scale_count = blocks;
    out->nested_scales = nested->data;
    out->nested_table = copy_table(s, map);
    out->bytes += absmax->bytes + nested->bytes;
    return out->nested_table != NULL ? LR_OK : LR_OUT_OF_RAM;
}

static lr_code bnb_read(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *map = native_part(s, "weight.quant_map");
    uint64_t bytes = ((uint64_t)s->rows * s->columns + 1) / 2;

    if (map == NULL)
        return native_part_missing(s, "weight.quant_map");
    if (s->codes->dtype != MODEL_DTYPE_U8 || s->codes->bytes != bytes)
        return native_part_wrong(s, s->codes, "U8 [%" PRIu64 ", 1]", bytes);
    if (map->dtype != MODEL_DTYPE_F32 || map->bytes != 16 * sizeof(float))
        return native_part_wrong(s, map, "F32 [16]");
    out->format = "bitsandbytes, 4 bits";
    out->code = NATIVE_CODE_TABLE;
    out->bits = 4;
    out->order = NATIVE_FLAT;
    out->zero_order = NATIVE_NO_CODES;
    out->codes = s->codes->data;
    out->code_bytes = out->bytes = bytes;
    out->rows_each = 1;
    out->table = copy_table(s, map);
    lr_code code = out->table != NULL ? read_state(s, out) : LR_OUT_OF_RAM;
    return code == LR_OK ? take_absmax(s, out) : code;
}

const struct native_format native_format_bitsandbytes = {"bitsandbytes", bnb_open, bnb_read};
