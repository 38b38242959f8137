/* native/formats/compressed.c - quant_method "compressed-tensors": what llm-compressor writes.
 *
 * Several groups of modules may have formats of their own.  Which one a matrix has follows from
 * its tensors; the groups are read for the blocks of FP8 and for widths that shapes leave open.
 */
#include <inttypes.h>

#include "engines/native/formats/formats.h"
#include "model/map.h"

static bool is_known(struct lr_str format)
{
    static const char *const known[] = {
        "dense",          "naive-quantized",      "float-quantized",      "int-quantized",
        "pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
        "mixed-precision"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (lr_str_eq_z(format, known[i]))
            return true;
    return false;
}

static lr_code check_format(const struct native_quant *q, const struct lr_json *from,
                            const char *key, struct lr_error *err)
{
    struct lr_str format;

    if (!lr_json_str(lr_json_get(from, key), &format) || is_known(format))
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "%s: the format \"%.*s\" of compressed-tensors is not supported", q->file,
                   MODEL_QUOTE(format));
}

static lr_code read_group(struct native_quant *q, const struct lr_json *group,
                          struct lr_error *err)
{
    const struct lr_json *weights = lr_json_get(group, "weights");
    const struct lr_json *block = lr_json_get(weights, "block_structure");
    uint64_t rows = 0, columns = 0, bits = 0;

    lr_code code = check_format(q, group, "format", err);
    if (code != LR_OK)
        return code;
    if (lr_json_u64(lr_json_get(weights, "num_bits"), &bits) && bits != 4 && bits != 8) {
        if ((q->bits != 0 && q->bits != bits) || bits < 2 || bits > 8)
            return lr_fail(err, LR_UNSUPPORTED, "%s: \"num_bits\" is %" PRIu64, q->file, bits);
        q->bits = (uint32_t)bits;
    }
    if (!lr_json_is(block, LR_JSON_ARRAY))
        return LR_OK;
    if (block->count != 2 || !lr_json_u64(&block->items[0], &rows) ||
        !lr_json_u64(&block->items[1], &columns) || rows < 1 || rows > 65536 || columns < 1 ||
        columns > 65536)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: \"block_structure\" is no list of two numbers from 1 to 65536",
                       q->file);
    if (q->block_rows != 0 && (q->block_rows != rows || q->block_columns != columns))
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s: groups with blocks of %u x %u and of %" PRIu64 " x %" PRIu64,
                       q->file, q->block_rows, q->block_columns, rows, columns);
    q->block_rows = (uint32_t)rows;
    q->block_columns = (uint32_t)columns;
    return LR_OK;
}

static lr_code compressed_open(struct native_quant *q, struct lr_error *err)
{
    const struct lr_json *groups = lr_json_get(q->config, "config_groups");
    const struct lr_json *sparsity = lr_json_get(q->config, "sparsity_config");

    lr_code code = check_format(q, q->config, "format", err);
    if (code == LR_OK && lr_json_is(sparsity, LR_JSON_OBJECT))
        code = check_format(q, sparsity, "format", err);
    if (code == LR_OK && !lr_json_is(groups, LR_JSON_OBJECT))
        return lr_fail(err, LR_MODEL_CORRUPT, "%s: \"config_groups\" is missing", q->file);
    for (uint32_t i = 0; code == LR_OK && i < groups->count; i++)
        code = read_group(q, &groups->members[i].value, err);
    return code;
}

/* weight_zero_point of packed codes: a stream down each column of words. */
static lr_code take_packed_zeros(const struct native_stored *s, uint64_t groups,
                                 struct native_packed *out)
{
    const struct model_tensor *zeros = native_part(s, "weight_zero_point");
    uint64_t words = ((uint64_t)s->rows * out->bits + 31) / 32;

    out->zero_order = NATIVE_NO_CODES;
    out->zero = 1 << (out->bits - 1);
    if (zeros == NULL)
        return LR_OK;
    if (!native_part_is(s, zeros, MODEL_DTYPE_I32, words, groups))
        return native_part_wrong(s, zeros, "I32 [%" PRIu64 ", %" PRIu64 "]", words, groups);
    out->zero_order = NATIVE_ALONG_COLUMNS;
    out->zero = 0;
    out->zeros = zeros->data;
    out->zero_stride = groups * 4;
    out->bytes += zeros->bytes;
    return LR_OK;
}

/* Scales [rows, groups], and the groups' order. */
static lr_code take_row_groups(const struct native_stored *s, const struct model_tensor *scales,
                               struct native_packed *out)
{
    uint64_t groups = scales->rank == 2 ? scales->shape[1] : 0;

    if (scales->rank != 2 || scales->shape[0] != s->rows)
        return native_part_wrong(s, scales, "[%u, groups]", s->rows);
    lr_code code = native_take_scales(s, scales, out);
    const struct model_tensor *order = native_part(s, "weight_g_idx");
    if (code == LR_OK && order != NULL)
        code = native_take_order(s, order, groups, out);
    out->columns_each = s->columns;
    if (code == LR_OK && out->groups == NULL)
        code = native_take_groups(s, scales, groups, out);
    out->rows_each = 1;
    out->row_step = groups;
    out->column_step = 1;
    return code;
}

static lr_code read_packed(const struct native_stored *s, const struct model_tensor *scales,
                           struct native_packed *out)
{
    const struct model_tensor *shape = native_part(s, "weight_shape");
    uint64_t words = s->codes->rank == 2 ? s->codes->shape[1] : 0, bits = 0;

    (void)shape; /* says what the architecture says: the words of a row tell the columns */
    if (words * 32 % s->columns == 0)
        bits = words * 32 / s->columns;
    if (bits != 2 && bits != 4 && bits != 8)
        bits = s->quant->bits;
    uint64_t expected = (s->columns * bits + 31) / 32;
    if (bits == 0 || !native_part_is(s, s->codes, MODEL_DTYPE_I32, s->rows, expected))
        return native_part_wrong(s, s->codes, "I32 [%u, %u * bits / 32]", s->rows, s->columns);
    out->format = bits == 4 ? "INT4" : bits == 8 ? "INT8 packed" : "packed integers";
    out->code = NATIVE_CODE_INT;
    out->bits = (uint8_t)bits;
    out->order = NATIVE_ALONG_ROWS;
    out->codes = s->codes->data;
    out->code_stride = words * 4;
    out->code_bytes = out->bytes = s->codes->bytes;
    lr_code code = take_row_groups(s, scales, out);
    return code == LR_OK ? take_packed_zeros(s, scales->shape[1], out) : code;
}

static lr_code read_int8(const struct native_stored *s, const struct model_tensor *scales,
                         struct native_packed *out)
{
    const struct model_tensor *zeros = native_part(s, "weight_zero_point");
    lr_code code = LR_OK;

    if (!native_part_is(s, s->codes, MODEL_DTYPE_I8, s->rows, s->columns))
        return native_part_wrong(s, s->codes, "I8 [%u, %u]", s->rows, s->columns);
    out->format = "INT8";
    out->code = NATIVE_CODE_SIGNED;
    out->bits = 8;
    out->order = NATIVE_ALONG_ROWS;
    out->codes = s->codes->data;
    out->code_stride = s->columns;
    out->code_bytes = out->bytes = s->codes->bytes;
    out->zero_order = NATIVE_NO_CODES;
    if (scales->rank == 2) {
        code = take_row_groups(s, scales, out);
    } else {
        out->rows_each = UINT32_MAX;
        out->columns_each = s->columns;
        code = scales->rank == 0 || (scales->rank == 1 && scales->shape[0] == 1)
                   ? native_take_scales(s, scales, out)
                   : native_part_wrong(s, scales, "[1] or [%u, groups]", s->rows);
    }
    if (code != LR_OK || zeros == NULL)
        return code;
    uint64_t groups = scales->rank == 2 ? scales->shape[1] : 0;
    if (groups == 0 || !native_part_is(s, zeros, MODEL_DTYPE_I8, s->rows, groups))
        return native_part_wrong(s, zeros, "I8 of the scales' shape");
    out->zero_order = NATIVE_ALONG_ROWS;
    out->zeros_signed = true;
    out->zeros = zeros->data;
    out->zero_stride = groups;
    out->bytes += zeros->bytes;
    return LR_OK;
}

static lr_code compressed_read(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *scales = native_part(s, "weight_scale");
    const struct model_tensor *global = native_part(s, "weight_global_scale");

    if (scales == NULL)
        return native_part_missing(s, "weight_scale");
    switch (s->codes->dtype) {
    case MODEL_DTYPE_I32:
        return read_packed(s, scales, out);
    case MODEL_DTYPE_I8:
        return read_int8(s, scales, out);
    case MODEL_DTYPE_U8:
        return global != NULL ? native_read_nvfp4(s, scales, global, true, out)
                              : native_read_mx(s, scales, 4, out);
    case MODEL_DTYPE_F8_E4M3:
        return scales->dtype == MODEL_DTYPE_U8 || scales->dtype == MODEL_DTYPE_F8_E8M0
                   ? native_read_mx(s, scales, 8, out)
                   : native_read_fp8(s, scales, out);
    default:
        return native_part_refuse(s, "compressed-tensors has no such weights");
    }
}

const struct native_format native_format_compressed = {"compressed-tensors", compressed_open,
                                                       compressed_read};
