/* native/formats/fp8.c - quant_method "fp8": E4M3 with one scale, or one for each block. */
#include "engines/native/formats/formats.h"
#include "model/map.h"

static lr_code fp8_open(struct native_quant *q, struct lr_error *err)
{
    const struct lr_json *block = lr_json_get(q->config, "weight_block_size");
    const struct lr_json *fmt = lr_json_get(q->config, "fmt");
    struct lr_str text;
    uint64_t rows, columns;

    if (lr_json_str(fmt, &text) && !lr_str_eq_z(text, "e4m3"))
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s: \"fmt\" is \"%.*s\"; this engine supports e4m3", q->file,
                       MODEL_QUOTE(text));
    if (block == NULL || block->type == LR_JSON_NULL)
        return LR_OK;
    if (block->type != LR_JSON_ARRAY || block->count != 2 ||
        !lr_json_u64(&block->items[0], &rows) || !lr_json_u64(&block->items[1], &columns) ||
        rows < 1 || rows > 65536 || columns < 1 || columns > 65536)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: \"weight_block_size\" is no list of two numbers from 1 to 65536",
                       q->file);
    q->block_rows = (uint32_t)rows;
    q->block_columns = (uint32_t)columns;
    return LR_OK;
}

static lr_code fp8_read(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *scales = native_part(s, "weight_scale_inv");

    if (scales == NULL)
        scales = native_part(s, "weight_scale");
    return scales != NULL ? native_read_fp8(s, scales, out)
                          : native_part_missing(s, "weight_scale_inv");
}

const struct native_format native_format_fp8 = {"fp8", fp8_open, fp8_read};
