/* model/config.c - config.json of gpt-oss, with range checks for every value.
 *
 * The limits are far above all published models, and low enough that no product of two fields
 * overflows and no allocation is absurd.
 */
#include "model/config.h"

#include <math.h>
#include <string.h>

#include "model/fields.h"
#include "model/map.h"

enum {
    WIDTH_MAX = 65536,
    TOKENS_MAX = 1 << 24,
    MXFP4_GROUP = 32,
};

static void fail_unsupported(struct model_fields *f, const char *key, const char *why)
{
    if (f->code == LR_OK)
        f->code = lr_fail(f->err, LR_UNSUPPORTED, "%s: \"%s\": %s", f->file, key, why);
}

static void check_multiple(struct model_fields *f, const char *key, uint32_t value,
                           const char *of_what, uint32_t of)
{
    if (f->code == LR_OK && value % of != 0)
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" is %u, no multiple of %s (%u)",
                          f->file, key, value, of_what, of);
}

static void read_sizes(struct model_fields *f, struct model_config *c)
{
    model_field_u32(f, "num_hidden_layers", 1, MODEL_LAYERS_MAX, &c->layers);
    model_field_u32(f, "hidden_size", MXFP4_GROUP, WIDTH_MAX, &c->hidden);
    model_field_u32(f, "intermediate_size", MXFP4_GROUP, WIDTH_MAX, &c->intermediate);
    model_field_u32(f, "num_attention_heads", 1, 1024, &c->heads);
    model_field_u32(f, "num_key_value_heads", 1, 1024, &c->kv_heads);
    model_field_u32(f, "head_dim", 2, 1024, &c->head_dim);
    model_field_u32(f, "num_local_experts", 1, 4096, &c->experts);
    model_field_u32(f, "vocab_size", 1, TOKENS_MAX, &c->vocab);
    model_field_u32(f, "max_position_embeddings", 1, TOKENS_MAX, &c->context);
    check_multiple(f, "hidden_size", c->hidden, "an MXFP4 group", MXFP4_GROUP);
    check_multiple(f, "intermediate_size", c->intermediate, "an MXFP4 group", MXFP4_GROUP);
    check_multiple(f, "head_dim", c->head_dim, "a rotated pair", 2);
    if (f->code == LR_OK)
        check_multiple(f, "num_attention_heads", c->heads, "num_key_value_heads", c->kv_heads);
}

/* Two names for the same number; if both are given they must agree. */
static void read_experts_per_token(struct model_fields *f, struct model_config *c)
{
    const char *first = "num_experts_per_tok", *second = "experts_per_token";
    if (model_field(f, first) == NULL)
        first = second;
    uint32_t other = 0;
    model_field_u32(f, first, 1, c->experts, &c->experts_per_token);
    if (first != second && model_field(f, second) != NULL) {
        model_field_u32(f, second, 1, c->experts, &other);
        if (f->code == LR_OK && other != c->experts_per_token)
            f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                              "%s: \"%s\" is %u but \"%s\" is %u: they mean the same", f->file,
                              first, c->experts_per_token, second, other);
    }
}

static void read_layer_types(struct model_fields *f, struct model_config *c)
{
    const struct lr_json *types = model_field(f, "layer_types");
    bool any = false;
    if (f->code != LR_OK)
        return;
    if (types != NULL && (types->type != LR_JSON_ARRAY || types->count != c->layers)) {
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                          "%s: \"layer_types\" lists %u layers, num_hidden_layers is %u",
                          f->file, types->type == LR_JSON_ARRAY ? types->count : 0, c->layers);
        return;
    }
    for (uint32_t i = 0; i < c->layers; i++) {
        struct lr_str name;
        if (types == NULL) {
            c->sliding[i] = i % 2 == 0;
        } else if (lr_json_str(&types->items[i], &name) &&
                   (lr_str_eq_z(name, "sliding_attention") ||
                    lr_str_eq_z(name, "full_attention"))) {
            c->sliding[i] = name.ptr[0] == 's';
        } else {
            f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                              "%s: \"layer_types\"[%u] is neither \"sliding_attention\" nor "
                              "\"full_attention\"",
                              f->file, i);
            return;
        }
        any = any || c->sliding[i];
    }
    c->window = TOKENS_MAX;
    if (any)
        model_field_u32(f, "sliding_window", 1, TOKENS_MAX, &c->window);
}

static void read_yarn(struct model_fields *f, const struct lr_json *top, struct model_rope *r)
{
    r->kind = MODEL_ROPE_YARN;
    r->beta_fast = 32;
    r->beta_slow = 1;
    r->truncate = true; /* Hugging Face's default */
    model_field_number(f, "factor", 1, 65536, true, &r->factor);
    model_field_number(f, "beta_fast", 1e-3, 1e6, false, &r->beta_fast);
    model_field_number(f, "beta_slow", 1e-3, 1e6, false, &r->beta_slow);
    model_field_bool(f, "truncate", &r->truncate);
    if (f->code == LR_OK && r->beta_fast <= r->beta_slow)
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                          "%s: \"beta_fast\" is %g, which is not above \"beta_slow\", %g",
                          f->file, r->beta_fast, r->beta_slow);
    if (model_field(f, "mscale") != NULL || model_field(f, "mscale_all_dim") != NULL)
        fail_unsupported(f, "mscale", "not supported: gpt-oss has none");
    r->attention_factor = f->code == LR_OK ? 0.1 * log(r->factor) + 1 : 1;
    model_field_number(f, "attention_factor", 1e-3, 1e3, false, &r->attention_factor);
    struct model_fields root = {top, "config.json", f->code, f->err};
    if (model_field(f, "original_max_position_embeddings") != NULL) {
        model_field_u32(f, "original_max_position_embeddings", 1, TOKENS_MAX,
                        &r->original_context);
    } else {
        model_field_u32(&root, "initial_context_length", 1, TOKENS_MAX, &r->original_context);
        f->code = root.code;
    }
}

/* "rope_scaling" beside "rope_theta", or the newer "rope_parameters" with both. */
static void read_rope(struct model_fields *f, struct model_rope *r)
{
    static const double theta_min = 1.001, theta_max = 1e12;
    const struct lr_json *newer = model_field(f, "rope_parameters");
    const struct lr_json *scaling = newer != NULL ? newer : model_field(f, "rope_scaling");
    r->attention_factor = 1;
    if (f->code != LR_OK)
        return;
    if (scaling != NULL && scaling->type != LR_JSON_OBJECT) {
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" is %s, expected an object",
                          f->file, newer != NULL ? "rope_parameters" : "rope_scaling",
                          lr_json_type_name(scaling->type));
        return;
    }
    struct model_fields inner = {.object = scaling,
                                 .file = newer != NULL ? "config.json: rope_parameters"
                                                       : "config.json: rope_scaling",
                                 .err = f->err};
    bool inside = model_field(&inner, "rope_theta") != NULL;
    model_field_number(inside ? &inner : f, "rope_theta", theta_min, theta_max, true,
                       &r->theta);
    if (scaling != NULL && f->code == LR_OK && inner.code == LR_OK) {
        const struct lr_json *kind = model_field(&inner, "rope_type");
        if (kind == NULL)
            kind = model_field(&inner, "type");
        if (kind != NULL && lr_json_is(kind, LR_JSON_STRING) && lr_str_eq_z(kind->text, "yarn"))
            read_yarn(&inner, f->object, r);
        else if (kind == NULL || kind->type != LR_JSON_STRING ||
                 !lr_str_eq_z(kind->text, "default"))
            fail_unsupported(&inner, "rope_type", "expected \"yarn\" or \"default\"");
    }
    if (f->code == LR_OK)
        f->code = inner.code;
}

/* Options for which the engine supports only the value of the published models. */
static void check_options(struct model_fields *f)
{
    bool bias = true, tied = false;
    model_field_bool(f, "attention_bias", &bias);
    model_field_bool(f, "tie_word_embeddings", &tied);
    if (!bias)
        fail_unsupported(f, "attention_bias", "false is not supported");
    if (tied)
        fail_unsupported(f, "tie_word_embeddings", "true is not supported");
    const struct lr_json *act = model_field(f, "hidden_act");
    if (act != NULL && !(act->type == LR_JSON_STRING && lr_str_eq_z(act->text, "silu")))
        fail_unsupported(f, "hidden_act", "only \"silu\" is supported");
    const struct lr_json *quant = model_field(f, "quantization_config");
    const struct lr_json *method = lr_json_get(quant, "quant_method");
    if (!lr_json_is(method, LR_JSON_STRING) || !lr_str_eq_z(method->text, "mxfp4"))
        fail_unsupported(f, "quantization_config",
                         "\"quant_method\" must be \"mxfp4\": use the published weights, not a "
                         "dequantised or requantised copy");
}

static void model_config_read_config(struct model_fields *f, struct model_config *c)
{
    c->swiglu_limit = 7;
    check_options(f);
    read_sizes(f, c);
    if (f->code == LR_OK)
        read_experts_per_token(f, c);
    read_layer_types(f, c);
    model_field_number(f, "rms_norm_eps", 1e-12, 0.1, true, &c->rms_eps);
    model_field_number(f, "swiglu_limit", 1e-3, 1e6, false, &c->swiglu_limit);
    read_rope(f, &c->rope);
    model_field_tokens(f, c->vocab, &c->tokens);
}

lr_code model_config_parse(struct lr_str text, struct model_config *out, struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    lr_code code = model_identity_parse(text, &out->identity, err);
    if (code != LR_OK)
        return code;
    if (strcmp(out->identity.runtime, "gptoss") != 0 &&
        strcmp(out->identity.architecture, "GptOssForCausalLM") != 0)
        return lr_fail(err, LR_UNSUPPORTED,
                       "config.json: architecture \"%s\" is not gpt-oss (GptOssForCausalLM)",
                       out->identity.architecture[0] != '\0' ? out->identity.architecture
                                                             : out->identity.model_type);
    struct lr_arena arena;
    struct model_fields fields;
    lr_arena_init(&arena, MODEL_CONFIG_ARENA_MAX);
    code = model_fields_parse(&arena, text, "config.json", &fields, err);
    if (code == LR_OK) {
        model_config_read_config(&fields, out);
        code = fields.code;
    }
    lr_arena_free(&arena);
    return code;
}

lr_code model_config_read(const char *dir, struct model_config *out, struct lr_error *err)
{
    char path[LR_PATH_MAX];
    struct lr_arena arena;
    struct lr_str text;
    memset(out, 0, sizeof(*out));
    lr_arena_init(&arena, MODEL_CONFIG_BYTES_MAX + 4096);
    lr_code code = model_path(path, dir, LR_STR_LIT("config.json"), err);
    if (code == LR_OK)
        code = model_read_text(&arena, path, MODEL_CONFIG_BYTES_MAX, &text, err);
    if (code == LR_OK) {
        code = model_config_parse(text, out, err);
        if (code != LR_OK)
            (void)lr_fail_prefix(err, "%s", dir);
    }
    lr_arena_free(&arena);
    return code;
}
