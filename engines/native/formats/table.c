/* native/formats/table.c - the table of weight formats, and a model's quantization config. */
#include <math.h>
#include <string.h>

#include "engines/native/formats/formats.h"
#include "engines/native/formats/unpack.h"
#include "model/fields.h"
#include "model/map.h"

/* gpt-oss: its experts are read by the builder, all other matrices are BF16. */
static const struct native_format format_mxfp4 = {.method = "mxfp4"};

static const struct native_format *const formats[] = {
    &native_format_fp8,   &native_format_compressed,   &native_format_modelopt,
    &native_format_awq,   &native_format_gptq,         &native_format_mlx,
    &native_format_quark, &native_format_bitsandbytes, &format_mxfp4,
};

/* ---- the config ---- */

/* A file beside config.json that holds the quantization config alone. */
static lr_code read_beside(const char *dir, const char *name, struct lr_arena *arena,
                           const struct lr_json **out, struct lr_error *err)
{
    char path[LR_PATH_MAX];
    struct model_fields fields;
    struct lr_str text;

    lr_code code = model_path(path, dir, lr_str_z(name), err);
    if (code != LR_OK || !lr_file_exists(path))
        return code;
    code = model_read_text(arena, path, MODEL_CONFIG_BYTES_MAX, &text, err);
    if (code == LR_OK)
        code = model_fields_parse(arena, text, name, &fields, err);
    if (code == LR_OK)
        *out = fields.object;
    return code;
}

static const struct lr_json *object_of(const struct lr_json *config, const char *key)
{
    const struct lr_json *own = lr_json_get(config, key);
    const struct lr_json *inner = lr_json_get(lr_json_get(config, "text_config"), key);

    if (lr_json_is(own, LR_JSON_OBJECT))
        return own;
    return lr_json_is(inner, LR_JSON_OBJECT) ? inner : NULL;
}

/* Finds the object and the method's name; *method stays empty: the model is not quantized. */
static lr_code find_config(const struct lr_json *config, const char *dir,
                           struct lr_arena *arena, struct native_quant *q,
                           struct lr_str *method, struct lr_error *err)
{
    const struct lr_json *mlx = object_of(config, "quantization"), *beside = NULL;
    lr_code code = LR_OK;

    q->file = "config.json: quantization_config";
    q->config = object_of(config, "quantization_config");
    if (lr_json_str(lr_json_get(q->config, "quant_method"), method) && mlx == NULL)
        return LR_OK;
    if (mlx == NULL)
        mlx = q->config;
    if (lr_json_get(mlx, "group_size") != NULL && lr_json_get(mlx, "bits") != NULL) {
        q->file = "config.json: quantization";
        q->config = mlx;
        *method = LR_STR_LIT("mlx");
        return LR_OK;
    }
    if (q->config != NULL)
        return lr_fail(err, LR_UNSUPPORTED, "%s has no \"quant_method\"", q->file);
    code = read_beside(dir, "hf_quant_config.json", arena, &beside, err);
    if (code != LR_OK || beside != NULL) {
        q->file = "hf_quant_config.json";
        q->config = lr_json_get(beside, "quantization");
        *method = LR_STR_LIT("modelopt");
        return code;
    }
    code = read_beside(dir, "quantize_config.json", arena, &beside, err);
    if (code != LR_OK || beside != NULL) {
        q->file = "quantize_config.json";
        q->config = beside;
        *method = LR_STR_LIT("gptq");
    }
    return code;
}

/* MLX adds 1 to the norms of these families when it converts a repository, and nothing in the
 * files says whether that was done: computing on would give wrong answers. */
static lr_code check_family(const struct lr_json *config, const struct native_quant *q,
                            struct lr_error *err)
{
    const struct lr_json *part = lr_json_get(config, "text_config");
    struct lr_str type = {0};
    (void)lr_json_str(lr_json_get(part != NULL ? part : config, "model_type"), &type);
    if (q->format != &native_format_mlx ||
        !(lr_str_starts(type, "qwen3_5") || lr_str_starts(type, "qwen3_next")))
        return LR_OK;
    return lr_fail(
        err, LR_UNSUPPORTED,
        "%s: MLX's form of \"%.*s\" stores its norms changed, which this engine does "
        "not read; take the repository in BF16, FP8 or another format",
        q->file, MODEL_QUOTE(type));
}

lr_code native_quant_open(const struct lr_json *config, const char *dir, struct lr_arena *arena,
                          struct native_quant *out, struct lr_error *err)
{
    struct lr_str method = LR_STR_LIT("");

    *out = (struct native_quant){0};
    lr_code code = find_config(config, dir, arena, out, &method, err);
    if (code != LR_OK || method.len == 0)
        return code;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (lr_str_eq_z(method, formats[i]->method))
            out->format = formats[i];
    if (out->format == NULL)
        return lr_fail(
            err, LR_UNSUPPORTED,
            "%s: \"quant_method\" is \"%.*s\", a weight format that this engine does "
            "not read (docs/weight-formats.md)",
            out->file, MODEL_QUOTE(method));
    code = check_family(config, out, err);
    if (code == LR_OK)
        code = native_lists_open(out, arena, err);
    return code == LR_OK && out->format->open != NULL ? out->format->open(out, err) : code;
}

/* ---- a matrix ---- */

/* A scale that is no number would make every answer one, so all are looked at. */
static lr_code check_scales(const struct native_stored *s, struct native_packed *p)
{
    for (uint64_t i = 0; i < p->scale_count; i++) {
        float scale = unpack_scale_at(p, p->scales, i);
        if (!isfinite(scale) ||
            (p->shifts != NULL && !isfinite(unpack_scale_at(p, p->shifts, i))))
            return lr_fail(s->err, LR_MODEL_CORRUPT,
                           "%s: scale %llu of tensor \"%.*s\" is not finite", s->codes->file,
                           (unsigned long long)i, MODEL_QUOTE(s->codes->name));
        p->large_scales = p->large_scales || fabsf(scale) >= 128;
    }
    return LR_OK;
}

lr_code native_format_read(const struct native_stored *s, struct native_packed *out)
{
    const struct native_format *format = s->quant->format;

    if (format == NULL)
        return native_part_refuse(s, "config.json has no quantization_config that says how it "
                                     "is stored");
    if (format->read == NULL || (s->matrices > 1 && format != &native_format_mlx))
        return native_part_refuse(s, "the weight format %s has no such matrices here",
                                  format->method);
    memset(out, 0, s->matrices * sizeof(*out));
    out->rows = s->rows;
    out->columns = s->columns;
    out->zero_order = NATIVE_NO_CODES;
    lr_code code = native_lists_check(s);
    if (code == LR_OK)
        code = format->read(s, out);
    if (code == LR_OK)
        code = check_scales(s, out);
    for (uint32_t i = 1; i < s->matrices; i++)
        out[i].large_scales = out->large_scales;
    return code;
}

bool native_format_skips(struct lr_str tensor)
{
    static const char *const ends[] = {
        ".input_scale", ".input_global_scale", ".activation_scale", ".k_scale", ".v_scale",
        ".q_scale",     ".output_scale",       ".kv_scale"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (lr_str_ends(tensor, ends[i]))
            return true;
    return false;
}
