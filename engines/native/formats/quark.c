/* native/formats/quark.c - quant_method "quark": AMD's MXFP4. */
#include "engines/native/formats/formats.h"
#include "model/map.h"

static lr_code quark_open(struct native_quant *q, struct lr_error *err)
{
    const struct lr_json *weight =
        lr_json_get(lr_json_get(q->config, "global_quant_config"), "weight");
    struct lr_str dtype = LR_STR_LIT("");

    if (!lr_json_str(lr_json_get(weight, "dtype"), &dtype) || lr_str_eq_z(dtype, "fp4"))
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "%s: weights of quark are \"%.*s\"; this engine supports fp4 with scales in "
                   "e8m0 (MXFP4)",
                   q->file, MODEL_QUOTE(dtype));
}

static lr_code quark_read(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *scales = native_part(s, "weight_scale");

    return scales != NULL ? native_read_mx(s, scales, 4, out)
                          : native_part_missing(s, "weight_scale");
}

const struct native_format native_format_quark = {"quark", quark_open, quark_read};
