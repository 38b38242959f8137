/* native/formats/awq.c - quant_method "awq": AutoAWQ's 4 bits, version "gemm". */
#include <inttypes.h>

#include "engines/native/formats/formats.h"
#include "model/map.h"

static lr_code awq_open(struct native_quant *q, struct lr_error *err)
{
    struct lr_str version;
    uint64_t bits;

    if (lr_json_str(lr_json_get(q->config, "version"), &version) &&
        !lr_str_eq_z(version, "gemm") && !lr_str_eq_z(version, "GEMM"))
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s: \"version\" of AWQ is \"%.*s\"; this engine supports gemm", q->file,
                       MODEL_QUOTE(version));
    if ((lr_json_u64(lr_json_get(q->config, "bits"), &bits) ||
         lr_json_u64(lr_json_get(q->config, "w_bit"), &bits)) &&
        bits != 4)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s: \"bits\" of AWQ is %" PRIu64 "; this engine supports 4", q->file,
                       bits);
    return LR_OK;
}

static lr_code awq_read(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *scales = native_part(s, "scales");
    const struct model_tensor *zeros = native_part(s, "qzeros");
    uint64_t words = s->rows / 8;

    if (scales == NULL || zeros == NULL)
        return native_part_missing(s, scales == NULL ? "scales" : "qzeros");
    if (s->rows % 8 != 0 || !native_part_is(s, s->codes, MODEL_DTYPE_I32, s->columns, words))
        return native_part_wrong(s, s->codes, "I32 [%u, %u / 8]", s->columns, s->rows);
    uint64_t groups = scales->shape[0];
    if (scales->rank != 2 || scales->shape[1] != s->rows)
        return native_part_wrong(s, scales, "[groups, %u]", s->rows);
    if (!native_part_is(s, zeros, MODEL_DTYPE_I32, groups, words))
        return native_part_wrong(s, zeros, "I32 [%" PRIu64 ", %" PRIu64 "]", groups, words);
    out->format = "AWQ";
    out->code = NATIVE_CODE_INT;
    out->bits = 4;
    out->order = out->zero_order = NATIVE_AWQ_WORDS;
    out->codes = s->codes->data;
    out->code_stride = out->zero_stride = words * 4;
    out->code_bytes = s->codes->bytes;
    out->bytes = s->codes->bytes + zeros->bytes;
    out->zeros = zeros->data;
    out->rows_each = 1;
    out->row_step = 1;
    out->column_step = s->rows;
    lr_code code = native_take_scales(s, scales, out);
    return code == LR_OK ? native_take_groups(s, scales, groups, out) : code;
}

const struct native_format native_format_awq = {"awq", awq_open, awq_read};
