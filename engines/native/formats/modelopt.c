/* native/formats/modelopt.c - quant_method "modelopt": NVIDIA's FP8 and NVFP4. */
#include "engines/native/formats/formats.h"
#include "model/map.h"

static lr_code modelopt_open(struct native_quant *q, struct lr_error *err)
{
    static const char *const known[] = {"FP8",         "FP8_PER_CHANNEL_PER_TOKEN",
                                        "FP8_PB_WO",   "NVFP4",
                                        "W4A16_NVFP4", "MIXED_PRECISION"};
    struct lr_str algorithm = LR_STR_LIT("");

    (void)lr_json_str(lr_json_get(q->config, "quant_algo"), &algorithm);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (lr_str_eq_z(algorithm, known[i]))
            return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "%s: \"quant_algo\" is \"%.*s\"; this engine supports FP8, NVFP4 and their "
                   "mixtures",
                   q->file, MODEL_QUOTE(algorithm));
}

static lr_code modelopt_read(const struct native_stored *s, struct native_packed *out)
{
    const struct model_tensor *scales = native_part(s, "weight_scale");
    const struct model_tensor *global = native_part(s, "weight_scale_2");

    if (scales == NULL)
        return native_part_missing(s, "weight_scale");
    if (s->codes->dtype == MODEL_DTYPE_F8_E4M3)
        return native_read_fp8(s, scales, out);
    if (s->codes->dtype != MODEL_DTYPE_U8)
        return native_part_refuse(s, "modelopt has no such weights");
    return global != NULL ? native_read_nvfp4(s, scales, global, false, out)
                          : native_part_missing(s, "weight_scale_2");
}

const struct native_format native_format_modelopt = {"modelopt", modelopt_open, modelopt_read};
