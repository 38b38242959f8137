/* model/identity.c - architecture and runtime of the model of a config.json.
 *
 * `architectures` decides, else `model_type`.  The table lists the models that our engines run;
 * any other model keeps its own name as its runtime, so that an error can say "no engine for
 * runtime nemotron".
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "llm-router/engine.h"
#include "model/fields.h"
#include "model/map.h"

static const struct {
    const char *architecture;
    const char *model_type;
    const char *runtime;
} known[] = {
    {"GptOssForCausalLM", "gpt_oss", "gptoss"},
};

static bool usable_name(struct lr_str name)
{
    if (name.len == 0 || name.len >= MODEL_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (!isalnum(c) && c != '_' && c != '-' && c != '.')
            return false;
    }
    return true;
}

static lr_code copy_name(struct model_fields *f, const char *key, const struct lr_json *value,
                         char out[MODEL_NAME_MAX])
{
    struct lr_str name;
    if (!lr_json_str(value, &name))
        return lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" is %s, expected a string", f->file,
                       key, lr_json_type_name(value->type));
    if (!usable_name(name))
        return lr_fail(f->err, LR_UNSUPPORTED,
                       "%s: \"%s\" is \"%.*s\", which cannot be the name of an architecture",
                       f->file, key, MODEL_QUOTE(name));
    memcpy(out, name.ptr, name.len);
    out[name.len] = '\0';
    return LR_OK;
}

static const char *runtime_of(const struct model_identity *id)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (id->architecture[0] != '\0' ? strcmp(id->architecture, known[i].architecture) == 0
                                        : strcmp(id->model_type, known[i].model_type) == 0)
            return known[i].runtime;
    }
    return id->model_type[0] != '\0' ? id->model_type : id->architecture;
}

/* The text part of a model that also sees or hears has its numbers in an object of its own. */
static const struct lr_json *text_part(const struct model_fields *f)
{
    const struct lr_json *part = lr_json_get(f->object, "text_config");
    return lr_json_is(part, LR_JSON_OBJECT) ? part : f->object;
}

static uint64_t context_of(const struct lr_json *config)
{
    static const char *const keys[] = {"max_position_embeddings", "n_positions", "n_ctx",
                                       "max_sequence_length", "seq_length"};
    uint64_t tokens = 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (lr_json_u64(lr_json_get(config, keys[i]), &tokens))
            return tokens;
    }
    return 0;
}

/* For configs with these member names, which most have.  A sliding layer keeps only its
 * window. */
static void read_kv(const struct lr_json *config, bool is_gptoss, struct model_identity *out)
{
    enum { LAYERS_MAX = 4096, WIDTH_MAX = 1 << 20, TOKENS_MAX = 1 << 26 };
    uint64_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0, hidden = 0, window = 0;
    uint64_t tokens = out->context_tokens;
    (void)lr_json_u64(lr_json_get(config, "num_hidden_layers"), &layers);
    (void)lr_json_u64(lr_json_get(config, "num_attention_heads"), &heads);
    (void)lr_json_u64(lr_json_get(config, "hidden_size"), &hidden);
    (void)lr_json_u64(lr_json_get(config, "sliding_window"), &window);
    if (!lr_json_u64(lr_json_get(config, "num_key_value_heads"), &kv_heads))
        kv_heads = heads;
    if (!lr_json_u64(lr_json_get(config, "head_dim"), &head_dim) && heads != 0)
        head_dim = hidden / heads;
    if (layers > LAYERS_MAX || kv_heads > WIDTH_MAX || head_dim > WIDTH_MAX ||
        kv_heads * head_dim > WIDTH_MAX || tokens > TOKENS_MAX)
        return;
    const struct lr_json *types = lr_json_get(config, "layer_types");
    uint64_t sliding = types == NULL && is_gptoss ? (layers + 1) / 2 : 0; /* like config.h */
    uint64_t keyless = 0; /* recurrent layers keep a state of fixed size */
    for (size_t i = 0; lr_json_is(types, LR_JSON_ARRAY) && i < types->count; i++) {
        struct lr_str type = {0};
        (void)lr_json_str(&types->items[i], &type);
        sliding += lr_str_eq_z(type, "sliding_attention");
        keyless += lr_str_eq_z(type, "linear_attention") || lr_str_eq_z(type, "mamba") ||
                   lr_str_eq_z(type, "conv");
    }
    if (window == 0 || window > tokens)
        window = tokens;
    if (keyless > layers)
        keyless = layers;
    layers -= keyless;
    if (sliding > layers)
        sliding = layers;
    out->kv_token_bytes = 2 * 2 * kv_heads * head_dim * (layers - sliding);
    out->kv_window_bytes = 2 * 2 * kv_heads * head_dim * sliding;
    out->kv_window = window;
    out->kv_bytes = out->kv_token_bytes * tokens + out->kv_window_bytes * window;
}

static uint32_t requests_of(const struct model_identity *id)
{
    static const struct {
        const char *end;
        uint32_t kind;
    } ends[] = {
        {"ForSequenceClassification", LR_REQUEST_RERANK},
        {"ForCausalLM", LR_REQUEST_GENERATE},
        {"ForConditionalGeneration", LR_REQUEST_GENERATE},
        {"LMHeadModel", LR_REQUEST_GENERATE},
        {"ForMaskedLM", LR_REQUEST_EMBED},
        {"Model", LR_REQUEST_EMBED},
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (lr_str_ends(lr_str_z(id->architecture), ends[i].end))
            return 1u << ends[i].kind;
    }
    return 0;
}

bool model_ranks_by_answer(const char *dir, bool has_answers)
{
    static const char name[] = "qwen3-reranker";
    for (; !has_answers && *dir != '\0'; dir++)
        has_answers = strlen(dir) >= sizeof(name) - 1 &&
                      lr_str_eq_nocase(lr_str(dir, sizeof(name) - 1), lr_str_z(name));
    return has_answers;
}

static lr_code read_identity(struct model_fields *f, struct model_identity *out)
{
    const struct lr_json *list = model_field(f, "architectures");
    const struct lr_json *type = model_field(f, "model_type");
    lr_code code = LR_OK;
    if (lr_json_is(list, LR_JSON_ARRAY) && list->count != 0)
        code = copy_name(f, "architectures", &list->items[0], out->architecture);
    else if (list != NULL && list->type != LR_JSON_ARRAY)
        code = lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"architectures\" is %s, expected a list",
                       f->file, lr_json_type_name(list->type));
    if (code == LR_OK && type != NULL)
        code = copy_name(f, "model_type", type, out->model_type);
    if (code != LR_OK)
        return code;
    if (out->architecture[0] == '\0' && out->model_type[0] == '\0')
        return lr_fail(f->err, LR_UNSUPPORTED,
                       "%s names neither \"architectures\" nor \"model_type\": the "
                       "architecture of this model is unknown",
                       f->file);
    (void)snprintf(out->runtime, sizeof(out->runtime), "%s", runtime_of(out));
    /* The engine for gpt-oss takes the published MXFP4 alone: other copies of the weights keep
     * the name of their architecture as their runtime. */
    if (strcmp(out->runtime, "gptoss") == 0 && model_field(f, "hidden_size") != NULL &&
        model_field(f, "quantization_config") == NULL)
        (void)snprintf(out->runtime, sizeof(out->runtime), "gpt_oss");
    out->has_answers = model_field(f, "classifier_from_token") != NULL;
    out->requests = requests_of(out);
    out->context_tokens = context_of(text_part(f));
    read_kv(text_part(f), strcmp(out->runtime, "gptoss") == 0, out);
    return LR_OK;
}

lr_code model_identity_parse(struct lr_str text, struct model_identity *out,
                             struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    struct lr_arena arena;
    struct model_fields fields;
    lr_arena_init(&arena, MODEL_CONFIG_ARENA_MAX);
    lr_code code = model_fields_parse(&arena, text, "config.json", &fields, err);
    if (code == LR_OK)
        code = read_identity(&fields, out);
    lr_arena_free(&arena);
    return code;
}
