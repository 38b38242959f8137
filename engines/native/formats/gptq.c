/* native/formats/gptq.c - quant_method "gptq": integers of 2, 3, 4 or 8 bits, stored by
 * columns.
 *
 * Each column's group is g_idx[column]: with desc_act it is no order of columns.  The first
 * version of the format stores zero points less one.
 */
#include <inttypes.h>

#include "engines/native/formats/formats.h"
#include "model/map.h"

static lr_code gptq_open(struct native_quant *q, struct lr_error *err)
{
    struct lr_str format = LR_STR_LIT("gptq");

    if (!lr_json_str(lr_json_get(q->config, "checkpoint_format"), &format))
        (void)lr_json_str(lr_json_get(q->config, "format"), &format);
    if (!lr_str_eq_z(format, "gptq") && !lr_str_eq_z(format, "gptq_v2"))
        return lr_fail(
            err, LR_UNSUPPORTED,
            "%s: \"checkpoint_format\" of GPTQ is \"%.*s\"; this engine supports gptq "
            "and gptq_v2",
            q->file, MODEL_QUOTE(format));
    q->zero_offset = lr_str_eq_z(format, "gptq") ? 1 : 0;
    return LR_OK;
}

static lr_code gptq_read(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *scales = native_part(s, "scales");
    const struct model_tensor *zeros = native_part(s, "qzeros");
    const struct model_tensor *order = native_part(s, "g_idx");
    uint64_t words = s->codes->rank == 2 ? s->codes->shape[0] : 0;
    uint64_t bits = words * 32 % s->columns == 0 ? words * 32 / s->columns : 0;

    if (scales == NULL || zeros == NULL)
        return native_part_missing(s, scales == NULL ? "scales" : "qzeros");
    if ((bits != 2 && bits != 3 && bits != 4 && bits != 8) ||
        !native_part_is(s, s->codes, MODEL_DTYPE_I32, words, s->rows))
        return native_part_wrong(s, s->codes, "I32 [%u * bits / 32, %u] of 2, 3, 4 or 8 bits",
                                 s->columns, s->rows);
    uint64_t groups = scales->shape[0], zero_words = (s->rows * bits + 31) / 32;
    if (scales->rank != 2 || scales->shape[1] != s->rows || groups == 0)
        return native_part_wrong(s, scales, "[groups, %u]", s->rows);
    if (!native_part_is(s, zeros, MODEL_DTYPE_I32, groups, zero_words))
        return native_part_wrong(s, zeros, "I32 [%" PRIu64 ", %" PRIu64 "]", groups,
                                 zero_words);
    out->format = bits == 4 ? "GPTQ, 4 bits" : bits == 8 ? "GPTQ, 8 bits" : "GPTQ";
    out->code = NATIVE_CODE_INT;
    out->bits = (uint8_t)bits;
    out->order = NATIVE_ALONG_COLUMNS;
    out->codes = s->codes->data;
    out->code_stride = (uint64_t)s->rows * 4;
    out->code_bytes = s->codes->bytes;
    out->bytes = s->codes->bytes + zeros->bytes;
    out->zero_order = NATIVE_ALONG_ROWS;
    out->zero = s->quant->zero_offset;
    out->zeros = zeros->data;
    out->zero_stride = zero_words * 4;
    out->rows_each = 1;
    out->row_step = 1;
    out->column_step = s->rows;
    out->columns_each = s->columns;
    lr_code code = native_take_scales(s, scales, out);
    if (code == LR_OK && order != NULL)
        code = native_take_order(s, order, groups, out);
    if (code == LR_OK && out->groups == NULL)
        code = native_take_groups(s, scales, groups, out);
    return code;
}

const struct native_format native_format_gptq = {"gptq", gptq_open, gptq_read};
