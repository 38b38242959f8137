/* llamacpp/header.c - see header.h. */
#include "engines/llamacpp/header.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "model/descriptor.h"
#include "model/gguf.h"

struct reading {
    const struct model_gguf *g;
    struct llamacpp_header *h;
    struct lr_error *err;
};

static const char *key_of(const struct reading *r, const char *name, char key[160])
{
    (void)snprintf(key, 160, "%s.%s", r->h->architecture, name);
    return key;
}

/* ---- numbers ---- */

static lr_code bad_range(const struct reading *r, const char *key, uint64_t value, uint64_t low,
                         uint64_t high)
{
    return lr_fail(r->err, LR_MODEL_CORRUPT, "%s: %s is %llu; it must lie in %llu to %llu",
                   r->h->path, key, (unsigned long long)value, (unsigned long long)low,
                   (unsigned long long)high);
}

/* An optional integer, `otherwise` if absent; another type is MODEL_CORRUPT. */
static lr_code llamacpp_header_number(const struct reading *r, const char *name,
                                      uint64_t otherwise, uint64_t low, uint64_t high,
                                      uint64_t *out)
{
    char key[160];

    *out = otherwise;
    if (model_gguf_get(r->g, key_of(r, name, key)) == NULL)
        return LR_OK;
    if (!model_gguf_u64(r->g, key, out))
        return lr_fail(r->err, LR_MODEL_CORRUPT, "%s: %s is not a whole number", r->h->path,
                       key);
    return *out < low || *out > high ? bad_range(r, key, *out, low, high) : LR_OK;
}

static lr_code needed(const struct reading *r, const char *name, uint64_t high, uint32_t *out)
{
    uint64_t value;
    char key[160];

    if (model_gguf_get(r->g, key_of(r, name, key)) == NULL)
        return lr_fail(r->err, LR_MODEL_CORRUPT, "%s: %s is missing", r->h->path, key);
    lr_code code = llamacpp_header_number(r, name, 0, 1, high, &value);
    *out = (uint32_t)value;
    return code;
}

/* A number for every layer: one integer for all layers, or an array of 32-bit integers. */
struct per_layer {
    bool given;
    uint32_t all;
    struct lr_str items; /* of an array */
};

static uint32_t layer_value(const struct per_layer *p, uint32_t layer)
{
    uint32_t value;

    if (p->items.ptr == NULL)
        return p->all;
    memcpy(&value, p->items.ptr + (size_t)layer * sizeof(value), sizeof(value));
    return value;
}

static lr_code per_layer(const struct reading *r, const char *name, uint32_t otherwise,
                         uint32_t high, struct per_layer *out)
{
    char key[160];
    uint64_t value;
    const struct model_gguf_value *v = model_gguf_get(r->g, key_of(r, name, key));

    *out = (struct per_layer){.all = otherwise, .given = v != NULL};
    if (v == NULL || v->type != MODEL_GGUF_ARRAY) {
        lr_code code = llamacpp_header_number(r, name, otherwise, 0, high, &value);
        out->all = (uint32_t)value;
        return code;
    }
    if (v->item_type != MODEL_GGUF_I32 && v->item_type != MODEL_GGUF_U32)
        return lr_fail(r->err, LR_MODEL_CORRUPT, "%s: %s is no list of 32-bit integers",
                       r->h->path, key);
    if (v->count < r->h->layers)
        return lr_fail(r->err, LR_MODEL_CORRUPT, "%s: %s has %llu items for %u layers",
                       r->h->path, key, (unsigned long long)v->count, r->h->layers);
    out->items = v->raw;
    for (uint32_t i = 0; i < r->h->layers; i++)
        if (layer_value(out, i) > high)
            return bad_range(r, key, layer_value(out, i), 0, high);
    return LR_OK;
}

/* ---- shape ---- */

/* Memory of one token's K and V, layer by layer.  A layer with a sliding window counts in full:
 * an upper bound. */
static lr_code read_attention(const struct reading *r)
{
    struct llamacpp_header *h = r->h;
    struct per_layer heads, kv_heads;
    uint64_t key_len, value_len;

    lr_code code = per_layer(r, "attention.head_count", 0, LLAMACPP_HEADS_MAX, &heads);
    for (uint32_t i = 0; i < h->layers; i++)
        h->heads = layer_value(&heads, i) > h->heads ? layer_value(&heads, i) : h->heads;
    if (code != LR_OK || h->heads == 0)
        return code; /* a model without attention has no K and V */
    if (h->width / h->heads == 0)
        return bad_range(r, "attention.head_count", h->heads, 1, h->width);
    code = per_layer(r, "attention.head_count_kv", h->heads, LLAMACPP_HEADS_MAX, &kv_heads);
    if (code == LR_OK)
        code = llamacpp_header_number(r, "attention.key_length", h->width / h->heads, 1,
                                      LLAMACPP_WIDTH_MAX, &key_len);
    if (code == LR_OK)
        code = llamacpp_header_number(r, "attention.value_length", h->width / h->heads, 1,
                                      LLAMACPP_WIDTH_MAX, &value_len);
    for (uint32_t i = 0; code == LR_OK && i < h->layers; i++)
        h->kv_values += layer_value(&kv_heads, i) * (key_len + value_len);
    return code;
}

static lr_code read_feed_forward(const struct reading *r)
{
    struct per_layer dense;
    uint64_t experts, used, expert_width;

    lr_code code = per_layer(r, "feed_forward_length", 0, LLAMACPP_WIDTH_MAX * 16u, &dense);
    for (uint32_t i = 0; code == LR_OK && i < r->h->layers; i++)
        if (layer_value(&dense, i) > r->h->feed_forward)
            r->h->feed_forward = layer_value(&dense, i);
    if (code == LR_OK)
        code = llamacpp_header_number(r, "expert_count", 0, 0, LLAMACPP_EXPERTS_MAX, &experts);
    if (code == LR_OK)
        code = llamacpp_header_number(r, "expert_used_count", 0, 0, experts, &used);
    if (code == LR_OK)
        code = llamacpp_header_number(r, "expert_feed_forward_length", r->h->feed_forward, 0,
                                      LLAMACPP_WIDTH_MAX, &expert_width);
    if (code == LR_OK && used * expert_width > r->h->feed_forward)
        r->h->feed_forward = (uint32_t)(used * expert_width);
    return code;
}

static lr_code read_state(const struct reading *r)
{
    uint64_t inner, state, conv;

    lr_code code =
        llamacpp_header_number(r, "ssm.inner_size", 0, 0, LLAMACPP_WIDTH_MAX, &inner);
    if (code == LR_OK)
        code = llamacpp_header_number(r, "ssm.state_size", 0, 0, LLAMACPP_WIDTH_MAX, &state);
    if (code == LR_OK)
        code = llamacpp_header_number(r, "ssm.conv_kernel", 0, 0, 1024, &conv);
    if (code == LR_OK)
        r->h->state_per_sequence = r->h->layers * inner * (state + conv) * sizeof(float);
    return code;
}

/* What a model that gives vectors has beside its shape. */
static lr_code read_vector(const struct reading *r)
{
    struct llamacpp_header *h = r->h;
    uint64_t pooling, dimensions;
    char key[160];

    lr_code code = llamacpp_header_number(r, "pooling_type", 0, 0, UINT32_MAX, &pooling);
    if (code == LR_OK)
        code = llamacpp_header_number(r, "embedding_length_out", h->width, 1,
                                      LLAMACPP_WIDTH_MAX, &dimensions);
    if (code != LR_OK)
        return code;
    h->pooling = (uint32_t)pooling;
    h->dimensions = (uint32_t)dimensions;
    /* A model without causal attention is computed in one piece. */
    const struct model_gguf_value *causal =
        model_gguf_get(r->g, key_of(r, "attention.causal", key));
    h->has_cache = causal == NULL || causal->raw.len == 0 || causal->raw.ptr[0] != 0;
    if (!h->has_cache)
        h->kv_values = 0;
    return LR_OK;
}

/* ---- vocabulary ---- */

static lr_code check_list(const struct reading *r, const char *key,
                          enum model_gguf_type item_type)
{
    const struct model_gguf_value *v = model_gguf_get(r->g, key);

    if (v == NULL)
        return LR_OK;
    if (v->type != MODEL_GGUF_ARRAY ||
        (v->item_type != item_type &&
         !(item_type == MODEL_GGUF_I32 && v->item_type == MODEL_GGUF_U32)))
        return lr_fail(r->err, LR_MODEL_CORRUPT, "%s: %s is a list of another kind", r->h->path,
                       key);
    if (v->count != r->h->vocab)
        return lr_fail(r->err, LR_MODEL_CORRUPT, "%s: %s has %llu items for %u tokens",
                       r->h->path, key, (unsigned long long)v->count, r->h->vocab);
    return LR_OK;
}

static lr_code check_token_id(const struct reading *r, const char *key)
{
    uint64_t id;

    /* Converters write -1 (as u32: 2^32 - 1) for "none". */
    if (!model_gguf_u64(r->g, key, &id) || id == UINT32_MAX || id < r->h->vocab)
        return LR_OK;
    return lr_fail(r->err, LR_MODEL_CORRUPT, "%s: %s is %llu; there are %u tokens", r->h->path,
                   key, (unsigned long long)id, r->h->vocab);
}

static lr_code read_vocabulary(const struct reading *r)
{
    static const char *const ids[] = {
        "tokenizer.ggml.bos_token_id",       "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",       "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.unknown_token_id",   "tokenizer.ggml.padding_token_id",
        "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.mask_token_id",
    };
    const struct model_gguf_value *tokens = model_gguf_get(r->g, "tokenizer.ggml.tokens");

    if (tokens == NULL || tokens->type != MODEL_GGUF_ARRAY ||
        tokens->item_type != MODEL_GGUF_STRING)
        return lr_fail(r->err, LR_MODEL_CORRUPT,
                       "%s: tokenizer.ggml.tokens is missing: the file has no vocabulary",
                       r->h->path);
    if (tokens->count == 0 || tokens->count > LLAMACPP_TOKENS_MAX)
        return bad_range(r, "the length of tokenizer.ggml.tokens", tokens->count, 1,
                         LLAMACPP_TOKENS_MAX);
    r->h->vocab = (uint32_t)tokens->count;
    lr_code code = check_list(r, "tokenizer.ggml.token_type", MODEL_GGUF_I32);
    if (code == LR_OK)
        code = check_list(r, "tokenizer.ggml.scores", MODEL_GGUF_F32);
    for (size_t i = 0; code == LR_OK && i < sizeof(ids) / sizeof(ids[0]); i++)
        code = check_token_id(r, ids[i]);
    return code;
}

/* ---- files ---- */

static lr_code read_first(const struct reading *r)
{
    struct lr_str name;
    struct llamacpp_header *h = r->h;

    if (!model_gguf_str(r->g, "general.architecture", &name) || name.len == 0 ||
        name.len >= sizeof(h->architecture) || memchr(name.ptr, '\0', name.len) != NULL)
        return lr_fail(r->err, LR_UNSUPPORTED,
                       "%s: general.architecture is missing or longer than %zu bytes", h->path,
                       sizeof(h->architecture) - 1);
    memcpy(h->architecture, name.ptr, name.len);
    lr_code code = needed(r, "block_count", LLAMACPP_LAYERS_MAX, &h->layers);
    if (code == LR_OK)
        code = needed(r, "embedding_length", LLAMACPP_WIDTH_MAX, &h->width);
    if (code == LR_OK)
        code = needed(r, "context_length", INT32_MAX, &h->context);
    if (code == LR_OK)
        code = read_attention(r);
    if (code == LR_OK)
        code = read_feed_forward(r);
    if (code == LR_OK)
        code = read_state(r);
    if (code == LR_OK)
        code = read_vector(r);
    return code == LR_OK ? read_vocabulary(r) : code;
}

static lr_code llamacpp_header_read_file(struct llamacpp_header *h, const char *path,
                                         bool is_first, struct lr_error *err)
{
    struct model_gguf *g;
    lr_code code = model_gguf_open(path, &g, err);

    if (code != LR_OK)
        return code;
    h->weights += g->weight_bytes;
    if (is_first) {
        const struct reading r = {g, h, err};
        code = read_first(&r);
    }
    model_gguf_close(g);
    return code;
}

lr_code llamacpp_header_read(const char *dir, const char *filename, struct llamacpp_header *out,
                             struct lr_error *err)
{
    struct model_descriptor *d;

    memset(out, 0, sizeof(*out));
    lr_code code = model_descriptor_open(dir, MODEL_FORMAT_GGUF, filename, &d, err);
    if (code == LR_OK && strlen(d->primary) >= sizeof(out->path))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "the model's path is too long: %s", dir);
    if (code == LR_OK) {
        memcpy(out->path, d->primary, strlen(d->primary) + 1);
        out->requests = d->requests;
    }
    for (size_t i = 0; code == LR_OK && i < d->file_count; i++) {
        char path[LR_PATH_MAX];
        if (!lr_str_ends(lr_str_z(d->files[i].name), ".gguf"))
            continue;
        code = lr_path_join(path, dir, lr_str_z(d->files[i].name), err);
        if (code == LR_OK)
            code = llamacpp_header_read_file(out, path, out->file_count == 0, err);
        out->file_count++;
    }
    model_descriptor_close(d);
    /* The daemon's own codes must not be returned through the ABI. */
    if (code >= 100)
        code = err->code = LR_MODEL_CORRUPT;
    return code;
}
