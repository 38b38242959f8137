/* native/formats/mlx.c - what mlx-lm writes: "quantization" in config.json, with no
 * quant_method.
 *
 * Bits and groups follow from the shapes; what the config says about a module is checked
 * against them.  Experts are stacked in one tensor.
 */
#include <inttypes.h>
#include <string.h>

#include "engines/native/formats/formats.h"
#include "model/map.h"

static lr_code mlx_open(struct native_quant *q, struct lr_error *err)
{
    struct lr_str mode;

    if (!lr_json_str(lr_json_get(q->config, "mode"), &mode) || lr_str_eq_z(mode, "affine") ||
        lr_str_eq_z(mode, "mxfp4") || lr_str_eq_z(mode, "mxfp8") || lr_str_eq_z(mode, "nvfp4"))
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "%s: \"mode\" of MLX is \"%.*s\"; this engine supports affine, mxfp4, mxfp8 "
                   "and nvfp4",
                   q->file, MODEL_QUOTE(mode));
}

static lr_code check_config(const struct native_stored *s, uint64_t bits, uint64_t each)
{
    const struct lr_json *own = lr_json_get_str(s->quant->config, s->module);
    const struct lr_json *from = lr_json_is(own, LR_JSON_OBJECT) ? own : s->quant->config;
    uint64_t said_bits = bits, said_each = each;

    (void)lr_json_u64(lr_json_get(from, "bits"), &said_bits);
    (void)lr_json_u64(lr_json_get(from, "group_size"), &said_each);
    if (said_bits == bits && said_each == each)
        return LR_OK;
    return native_part_wrong(s, s->codes,
                             "%" PRIu64 " bits in groups of %" PRIu64
                             " as %s says; the shapes are of %" PRIu64
                             " bits in groups of %" PRIu64,
                             said_bits, said_each, s->quant->file, bits, each);
}

static lr_code take_mode(const struct native_stored *s, const struct model_tensor *scales,
                         uint64_t bits, uint64_t each, struct native_packed *out)
{
    const struct model_tensor *shifts = native_part(s, "biases");
    lr_code code;

    if (scales->dtype == MODEL_DTYPE_U8) {
        bool mx = each == 32 && (bits == 4 || bits == 8);
        if (!mx && (each != 16 || bits != 4))
            return native_part_refuse(s,
                                      "%" PRIu64 " bits in groups of %" PRIu64
                                      " are no mode of MLX that this engine supports",
                                      bits, each);
        out->format = !mx ? "NVFP4 of MLX" : bits == 4 ? "MXFP4 of MLX" : "MXFP8 of MLX";
        out->code = bits == 8 ? NATIVE_CODE_E4M3 : NATIVE_CODE_E2M1;
        out->scale = mx ? NATIVE_SCALE_E8M0 : NATIVE_SCALE_E4M3;
        out->global = 1;
        out->scales = scales->data;
        out->scale_count = (uint64_t)s->matrices * s->rows * (s->columns / each);
        out->bytes += scales->bytes;
        return LR_OK;
    }
    if (shifts == NULL)
        return native_part_missing(s, "biases");
    if (shifts->dtype != scales->dtype || shifts->rank != scales->rank ||
        memcmp(shifts->shape, scales->shape, scales->rank * sizeof(*scales->shape)) != 0)
        return native_part_wrong(s, shifts, "the type and shape of the scales");
    code = native_take_scales(s, scales, out);
    out->format = bits == 4 ? "MLX, 4 bits" : bits == 8 ? "MLX, 8 bits" : "MLX";
    out->code = NATIVE_CODE_INT;
    out->shifts = shifts->data;
    out->bytes += shifts->bytes;
    return code;
}

static lr_code mlx_read(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *scales = native_part(s, "scales"), *codes = s->codes;
    uint32_t last = s->matrices > 1 ? 2 : 1;
    uint64_t words = codes->rank > last ? codes->shape[last] : 0;
    uint64_t bits = words * 32 % s->columns == 0 ? words * 32 / s->columns : 0;

    if (scales == NULL)
        return native_part_missing(s, "scales");
    if (bits < 2 || bits > 8 || bits == 7 ||
        !native_part_is(s, codes, MODEL_DTYPE_U32, s->rows, words))
        return native_part_wrong(s, codes, "U32 [%u, %u * bits / 32]", s->rows, s->columns);
    uint64_t groups = scales->rank > last ? scales->shape[last] : 0;
    if (!native_part_is(s, scales, scales->dtype, s->rows, groups))
        return native_part_wrong(s, scales, "[%u, groups]", s->rows);
    lr_code code = native_take_groups(s, scales, groups, out);
    if (code == LR_OK)
        code = check_config(s, bits, out->columns_each);
    if (code != LR_OK)
        return code;
    out->bits = (uint8_t)bits;
    out->order = NATIVE_ALONG_ROWS;
    out->zero_order = NATIVE_NO_CODES;
    out->codes = codes->data;
    out->code_stride = words * 4;
    out->code_bytes = out->bytes = codes->bytes;
    out->rows_each = 1;
    out->row_step = groups;
    out->column_step = 1;
    code = take_mode(s, scales, bits, out->columns_each, out);
    if (code != LR_OK)
        return code;
    out->code_bytes /= s->matrices;
    out->bytes /= s->matrices;
    for (uint32_t i = 1; i < s->matrices; i++) {
        out[i] = out[0];
        out[i].codes += i * out->code_bytes;
        out[i].scales += i * (scales->bytes / s->matrices);
        if (out->shifts != NULL)
            out[i].shifts += i * (scales->bytes / s->matrices);
    }
    return LR_OK;
}

const struct native_format native_format_mlx = {"mlx", mlx_open, mlx_read};
