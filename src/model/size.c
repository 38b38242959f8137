#include "model/size.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "model/map.h"

enum {
    LAYERS_LIMIT = 4096,
    WIDTH_LIMIT = 1 << 20,
    TOKENS_LIMIT = 1 << 26,
    STEP_TOKENS = 528,    /* 512 of a prompt, and 16 sequences: what engines compute at once */
    VOCAB_USUAL = 151936, /* where the vocabulary is not told */
    EXPERTS_LIMIT = 65536,
};

static uint64_t bounded(uint64_t value, uint64_t limit)
{
    return value <= limit ? value : 0;
}

/* ---- config.json ---- */

static uint64_t config_number(const struct lr_json *config, const char *const *keys,
                              uint64_t limit)
{
    uint64_t value = 0;
    for (; *keys != NULL; keys++)
        if (lr_json_u64(lr_json_get(config, *keys), &value))
            return bounded(value, limit);
    return 0;
}

/* The share of the weights that a token reads, from the sizes of experts and of the rest. */
static double share_of(uint64_t layers, uint64_t width, uint64_t vocab, uint64_t experts,
                       uint64_t used, uint64_t expert_width)
{
    double each = 3.0 * (double)width * (double)expert_width * (double)layers;
    double rest = 4.0 * (double)width * (double)width * (double)layers +
                  2.0 * (double)width * (double)vocab;
    if (experts == 0 || used == 0 || used >= experts || each <= 0)
        return 1;
    return (each * (double)used + rest) / (each * (double)experts + rest);
}

static void size_read_shape(const struct lr_json *c, struct model_size *out)
{
    static const char *const width[] = {"hidden_size", NULL};
    static const char *const layers[] = {"num_hidden_layers", NULL};
    static const char *const feed[] = {"intermediate_size", NULL};
    static const char *const vocab[] = {"vocab_size", NULL};
    static const char *const experts[] = {"num_experts", "num_local_experts",
                                          "n_routed_experts", NULL};
    static const char *const used[] = {"num_experts_per_tok", "experts_per_token", NULL};
    static const char *const expert_width[] = {"moe_intermediate_size", "intermediate_size",
                                               NULL};
    out->width = (uint32_t)config_number(c, width, WIDTH_LIMIT);
    out->feed_forward = (uint32_t)config_number(c, feed, WIDTH_LIMIT);
    out->vocab = (uint32_t)config_number(c, vocab, (uint64_t)WIDTH_LIMIT * 4);
    out->active_share = share_of(config_number(c, layers, LAYERS_LIMIT), out->width, out->vocab,
                                 config_number(c, experts, EXPERTS_LIMIT),
                                 config_number(c, used, EXPERTS_LIMIT),
                                 config_number(c, expert_width, WIDTH_LIMIT));
}

lr_code model_size_of_config(struct lr_str text, struct model_size *out, struct lr_error *err)
{
    struct model_identity id;
    struct lr_arena arena;
    const struct lr_json *tree;
    *out = (struct model_size){.active_share = 1};
    lr_code code = model_identity_parse(text, &id, err);
    if (code != LR_OK)
        return code;
    memcpy(out->runtime, id.runtime, sizeof(out->runtime));
    memcpy(out->architecture, id.architecture[0] != '\0' ? id.architecture : id.model_type,
           sizeof(out->architecture));
    out->context_tokens = id.context_tokens;
    out->token_bytes = id.kv_token_bytes;
    out->window_bytes = id.kv_window_bytes;
    out->window = id.kv_window;
    lr_arena_init(&arena, MODEL_CONFIG_ARENA_MAX);
    if (lr_json_parse(&arena, text, NULL, &tree, NULL) == LR_OK) {
        const struct lr_json *part = lr_json_get(tree, "text_config");
        size_read_shape(lr_json_is(part, LR_JSON_OBJECT) ? part : tree, out);
    }
    lr_arena_free(&arena);
    return LR_OK;
}

/* ---- GGUF ---- */

struct gguf_keys {
    const struct model_gguf *g;
    struct lr_str architecture;
};

static const char *gguf_key(const struct gguf_keys *k, const char *name, char out[160])
{
    (void)snprintf(out, 160, "%.*s.%s", MODEL_QUOTE(k->architecture), name);
    return out;
}

/* Of a list with a number for each layer: the sum and the largest; one number counts for every
 * layer. */
static void gguf_layers(const struct gguf_keys *k, const char *name, uint64_t layers,
                        uint64_t otherwise, uint64_t *sum, uint64_t *most)
{
    char key[160];
    uint64_t each = otherwise;
    const struct model_gguf_value *v = model_gguf_get(k->g, gguf_key(k, name, key));
    *sum = *most = 0;
    if (v != NULL && v->type == MODEL_GGUF_ARRAY &&
        (v->item_type == MODEL_GGUF_I32 || v->item_type == MODEL_GGUF_U32)) {
        for (uint64_t i = 0; i < layers && i < v->count && (i + 1) * 4 <= v->raw.len; i++) {
            uint32_t value;
            memcpy(&value, v->raw.ptr + i * 4, sizeof(value));
            value = value <= WIDTH_LIMIT ? value : 0;
            *sum += value;
            *most = value > *most ? value : *most;
        }
        return;
    }
    (void)model_gguf_u64(k->g, key, &each);
    *most = bounded(each, (uint64_t)WIDTH_LIMIT * 16);
    *sum = *most * layers;
}

static uint64_t gguf_number(const struct gguf_keys *k, const char *name, uint64_t otherwise,
                            uint64_t limit)
{
    char key[160];
    uint64_t value = otherwise;
    (void)model_gguf_u64(k->g, gguf_key(k, name, key), &value);
    return bounded(value, limit);
}

lr_code model_size_of_gguf(const struct model_gguf *g, struct model_size *out,
                           struct lr_error *err)
{
    struct gguf_keys k = {.g = g};
    uint64_t heads, most_heads, kv_heads, most, ignored, feed;
    *out = (struct model_size){.runtime = "llama_cpp", .active_share = 1};
    if (!model_gguf_str(g, "general.architecture", &k.architecture) ||
        k.architecture.len == 0 || k.architecture.len >= sizeof(out->architecture))
        return lr_fail(err, LR_UNSUPPORTED, "the file names no general.architecture");
    LR_COPY(out->architecture, k.architecture);
    uint64_t layers = gguf_number(&k, "block_count", 0, LAYERS_LIMIT);
    uint64_t width = gguf_number(&k, "embedding_length", 0, WIDTH_LIMIT);
    out->context_tokens = gguf_number(&k, "context_length", 0, TOKENS_LIMIT);
    gguf_layers(&k, "attention.head_count", layers, 0, &heads, &most_heads);
    gguf_layers(&k, "attention.head_count_kv", layers, most_heads, &kv_heads, &most);
    uint64_t head = most_heads != 0 ? width / most_heads : 0;
    uint64_t keys = gguf_number(&k, "attention.key_length", head, WIDTH_LIMIT);
    uint64_t values = gguf_number(&k, "attention.value_length", head, WIDTH_LIMIT);
    gguf_layers(&k, "feed_forward_length", layers, 0, &ignored, &feed);
    uint64_t used = gguf_number(&k, "expert_used_count", 0, EXPERTS_LIMIT);
    uint64_t expert_width =
        gguf_number(&k, "expert_feed_forward_length", bounded(feed, WIDTH_LIMIT), WIDTH_LIMIT);
    if (kv_heads <= (uint64_t)LAYERS_LIMIT * WIDTH_LIMIT)
        out->token_bytes = 2 * kv_heads * (keys + values);
    out->width = (uint32_t)width;
    feed = used * expert_width > feed ? used * expert_width : feed;
    out->feed_forward = (uint32_t)bounded(feed, (uint64_t)WIDTH_LIMIT * 16);
    const struct model_gguf_value *tokens = model_gguf_get(g, "tokenizer.ggml.tokens");
    out->vocab = tokens != NULL && tokens->type == MODEL_GGUF_ARRAY
                     ? (uint32_t)bounded(tokens->count, (uint64_t)WIDTH_LIMIT * 4)
                     : (uint32_t)gguf_number(&k, "vocab_size", 0, (uint64_t)WIDTH_LIMIT * 4);
    out->active_share =
        share_of(layers, width, out->vocab, gguf_number(&k, "expert_count", 0, EXPERTS_LIMIT),
                 used, expert_width);
    return LR_OK;
}

/* ---- bytes ---- */

uint64_t model_size_kv(const struct model_size *size, uint64_t tokens)
{
    tokens = tokens < TOKENS_LIMIT ? tokens : TOKENS_LIMIT;
    uint64_t seen = tokens < size->window ? tokens : size->window;
    return size->token_bytes * tokens + size->window_bytes * seen;
}

uint64_t model_size_tokens(const struct model_size *size, uint64_t bytes)
{
    uint64_t low = 0, high = TOKENS_LIMIT;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (model_size_kv(size, middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

uint64_t model_size_work(const struct model_size *size, uint64_t tokens)
{
    uint64_t vocab = size->vocab != 0 ? size->vocab : VOCAB_USUAL;
    uint64_t rows = ((uint64_t)size->width * 8 + (uint64_t)size->feed_forward * 3) * 4;
    uint64_t mask = (tokens < TOKENS_LIMIT ? tokens : TOKENS_LIMIT) * 6;
    /* The rows of a step and its mask; the logits of its sequences; the vocabulary's tables;
     * threads and libraries. */
    return (rows + mask) * STEP_TOKENS + vocab * (16 * 3 * 4) + vocab * 320 + (32ull << 20);
}
