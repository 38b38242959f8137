/* native/arch/gemma4.c - Gemma 4: layers that slide and layers with larger heads that see
 * everything; there values may be the keys before their norm.
 *
 *   each layer:  x = x + norm(attend(norm(x)))
 *                x = x + norm(mlp(norm(x)) [+ experts beside it])
 *                x = x + norm(linear(gelu(linear(x)) * own embedding))    (E models)
 *                x = x * scalar
 *
 * In E models the last layers read keys and values of the last layer of their kind before.
 */
#include <math.h>

#include "engines/native/arch/arch.h"

struct gemma4 {
    struct native_base base;
    struct native_rope sliding;
    struct native_list types;
    uint32_t window, global_size, global_kv, shared_layers, own_width, own_vocab;
    uint32_t experts, chosen, inner;
    uint32_t image, video, audio, padding; /* ids that stand for no text */
    double logit_softcap;
    bool keys_are_values, moe, wide;
    /* while the layers are built: */
    uint32_t full_rope, near_rope, cache[2];
    reg own; /* embeddings of all layers, side by side */
};

enum { NO_ID = 1 << 24 };

static const struct native_field fields[] = {
    NATIVE_BASE(struct gemma4),
    NATIVE_INTERMEDIATE(struct gemma4),
    NATIVE_RMS_EPS(struct gemma4, 1e-6),
    NATIVE_TIED(struct gemma4, true),
    NATIVE_BIAS(struct gemma4),
    NATIVE_ROPE_OF(struct gemma4, base.rope, "full_attention", 1e6),
    NATIVE_ROPE_OF(struct gemma4, sliding, "sliding_attention", 10000),
    NATIVE_WORDS(struct gemma4, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_COUNT(struct gemma4, window, "sliding_window", 1, 1 << 26, 512),
    NATIVE_COUNT(struct gemma4, global_size, "global_head_dim", 1, 1024, 512),
    NATIVE_COUNT(struct gemma4, global_kv, "num_global_key_value_heads", 1, 1024, 0),
    NATIVE_COUNT(struct gemma4, shared_layers, "num_kv_shared_layers", 0, 512, 0),
    NATIVE_COUNT(struct gemma4, own_width, "hidden_size_per_layer_input", 0, 65536, 0),
    NATIVE_COUNT(struct gemma4, own_vocab, "vocab_size_per_layer_input", 1, 1 << 22, 262144),
    NATIVE_COUNT(struct gemma4, experts, "num_experts", 1, 4096, 1),
    NATIVE_COUNT(struct gemma4, chosen, "top_k_experts", 1, 64, 1),
    NATIVE_COUNT(struct gemma4, inner, "moe_intermediate_size", 1, 1 << 20, 1),
    NATIVE_NUMBER(struct gemma4, logit_softcap, "final_logit_softcapping", 0, 1e6, 0),
    NATIVE_FLAG(struct gemma4, keys_are_values, "attention_k_eq_v", false),
    NATIVE_FLAG(struct gemma4, moe, "enable_moe_block", false),
    NATIVE_FLAG(struct gemma4, wide, "use_double_wide_mlp", false),
    NATIVE_COUNT(struct gemma4, image, "image_token_id", 0, NO_ID, NO_ID),
    NATIVE_COUNT(struct gemma4, video, "video_token_id", 0, NO_ID, NO_ID),
    NATIVE_COUNT(struct gemma4, audio, "audio_token_id", 0, NO_ID, NO_ID),
    NATIVE_COUNT(struct gemma4, padding, "pad_token_id", 0, NO_ID, 0),
    NATIVE_ONLY("use_bidirectional_attention", "vision"),
    NATIVE_ONLY("hidden_activation", "gelu_pytorch_tanh"),
    NATIVE_END,
};

/* For every layer: (norm(linear(x)) + an embedding of the token) / sqrt(2). */
static void own_embeddings(struct native_builder *b, struct gemma4 *c)
{
    uint32_t width = c->base.layers * c->own_width;
    reg table = native_lookup(b, "model.embed_tokens_per_layer", c->own_vocab, width,
                              sqrt((double)c->own_width));

    c->own =
        native_linear(b, X, "model.per_layer_model_projection", width, c->base.hidden, false);
    native_scale(b, c->own, 1 / sqrt((double)c->base.hidden));
    native_head_norm(b, c->own, "model.per_layer_projection_norm", c->own_width, c->base.eps);
    native_add(b, c->own, table, 1);
    native_scale(b, c->own, sqrt(0.5));
}

static reg attention(struct native_builder *b, reg h, struct gemma4 *c, bool slides,
                     bool shared)
{
    uint32_t size = slides ? c->base.head_size : c->global_size, hidden = c->base.hidden;
    bool keys_are_values = c->keys_are_values && !slides;
    uint32_t kv = keys_are_values && c->global_kv != 0 ? c->global_kv : c->base.kv_heads;
    uint32_t rope = slides ? c->near_rope : c->full_rope, rows = c->base.heads * size;
    struct native_attention a = {.heads = c->base.heads,
                                 .kv_heads = kv,
                                 .head_size = size,
                                 .window = slides ? c->window : 0,
                                 .scale = 1,
                                 .source = shared ? c->cache[slides] : NATIVE_NONE};
    reg q = native_linear(b, h, "self_attn.q_proj", rows, hidden, c->base.bias);
    reg k = NATIVE_NO_REG, v = NATIVE_NO_REG;

    native_head_norm(b, q, "self_attn.q_norm", size, c->base.eps);
    native_rotate(b, q, c->base.heads, size, rope);
    if (!shared) {
        k = native_linear(b, h, "self_attn.k_proj", kv * size, hidden, c->base.bias);
        v = keys_are_values
                ? native_slice(b, k, 1, kv * size, 0, kv * size)
                : native_linear(b, h, "self_attn.v_proj", kv * size, hidden, c->base.bias);
        native_head_norm(b, k, "self_attn.k_norm", size, c->base.eps);
        native_rotate(b, k, kv, size, rope);
        native_head_norm(b, v, NULL, size, c->base.eps);
    } else {
        native_ignore(b, "self_attn.k_");
        native_ignore(b, "self_attn.v_");
    }
    reg out = native_attend(b, q, k, v, &a, shared ? NULL : &c->cache[slides]);
    return native_linear(b, out, "self_attn.o_proj", hidden, rows, c->base.bias);
}

/* The router looks at x itself, scaled. */
static reg experts(struct native_builder *b, const struct gemma4 *c)
{
    uint32_t hidden = c->base.hidden;
    reg seen = native_norm(b, X, NULL, c->base.eps);

    native_scale_by(b, seen, "router.scale", hidden, 1 / sqrt((double)hidden));
    reg scores = native_linear(b, seen, "router.proj", c->experts, hidden, false);
    reg route = native_route(
        b, scores, NULL, "router.per_expert_scale",
        &(struct native_route){
            .experts = c->experts, .chosen = c->chosen, .normalize = true, .scale = 1});
    reg h = native_norm(b, X, "pre_feedforward_layernorm_2", c->base.eps);
    const struct native_expert_names fused = {.gate = "experts.gate_up_proj",
                                              .down = "experts.down_proj"};
    const struct native_expert_names each = {.gate = "experts.%u.gate_proj",
                                             .up = "experts.%u.up_proj",
                                             .down = "experts.%u.down_proj"};
    h = native_experts(b, h, route, native_has(b, fused.gate) ? &fused : &each,
                       &(struct native_experts){.experts = c->experts,
                                                .chosen = c->chosen,
                                                .inner = c->inner,
                                                .act = NATIVE_GELU_TANH,
                                                .gated = true});
    return native_norm(b, h, "post_feedforward_layernorm_2", c->base.eps);
}

static void layer(struct native_builder *b, struct gemma4 *c, uint32_t n)
{
    bool slides = native_slides(&c->types, n, 6);
    bool shared = c->shared_layers > 0 && n + c->shared_layers >= c->base.layers;
    double eps = c->base.eps;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_GELU_TANH);

    native_layer(b, "model.layers.%u.", n);
    mlp.inner *= c->wide && shared ? 2 : 1;
    reg h = native_norm(b, X, "input_layernorm", eps);
    h = attention(b, h, c, slides, shared);
    native_add(b, X, native_norm(b, h, "post_attention_layernorm", eps), 1);
    h = native_norm(b, X, "pre_feedforward_layernorm", eps);
    h = native_mlp(b, h, c->base.hidden, &mlp);
    if (c->moe) {
        h = native_norm(b, h, "post_feedforward_layernorm_1", eps);
        native_add(b, h, experts(b, c), 1);
    }
    native_add(b, X, native_norm(b, h, "post_feedforward_layernorm", eps), 1);
    if (c->own_width > 0) {
        reg own =
            native_slice(b, c->own, 1, native_width(b, c->own), n * c->own_width, c->own_width);
        h = native_linear(b, X, "per_layer_input_gate", c->own_width, c->base.hidden, false);
        h = native_gate(b, own, h, NATIVE_GELU_TANH, 1);
        h = native_linear(b, h, "per_layer_projection", c->base.hidden, c->own_width, false);
        native_add(b, X, native_norm(b, h, "post_per_layer_input_norm", eps), 1);
    }
    native_scale_by(b, X, "layer_scalar", 1, 1);
}

static void build(struct native_builder *b, void *config)
{
    struct gemma4 *c = config;

    if (c->base.head_size == 0)
        c->base.head_size = 256;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", sqrt((double)c->base.hidden)))
        return;
    const uint32_t no_text[] = {c->image, c->video, c->audio};
    for (int i = 0; i < 3; i++)
        if (no_text[i] != NO_ID)
            native_placeholder(b, no_text[i], c->padding);
    c->full_rope = native_rope_table(b, &c->base.rope, c->global_size, 0);
    c->near_rope = native_rope_table(b, &c->sliding, c->base.head_size, 0);
    c->cache[0] = c->cache[1] = NATIVE_NONE;
    if (c->own_width > 0)
        own_embeddings(b, c);
    for (uint32_t n = 0; n < c->base.layers; n++)
        layer(b, c, n);
    native_softcap(b, native_usual_end(b, &c->base, "model.norm", "model.embed_tokens"),
                   c->logit_softcap);
}

NATIVE_ARCH(gemma4, struct gemma4, NATIVE_NAMES("gemma4", "gemma4_text"),
            NATIVE_NAMES("Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"));
