/* native/arch/qwen3.c - Qwen3: grouped attention with a norm on each head of Q and K, then a
 * gated MLP.
 *
 *   x = embed(tokens)
 *   each layer:  h = norm(x)
 *                q, k, v = linear(h);  q, k = rope(head_norm(q), head_norm(k))
 *                x = x + linear(attend(q, k, v))
 *                h = norm(x)
 *                x = x + linear(silu(linear(h)) * linear(h))
 *   logits = linear(norm(x))
 *
 * Llama, Mistral, Qwen2 and SmolLM3 are the same without the head norms (llama.c).
 */
#include "engines/native/arch/arch.h"

struct qwen3 {
    struct native_base base;
    struct native_list types;
    uint32_t window, window_from; /* without a list, layers from window_from on slide */
    bool use_window;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct qwen3),
    NATIVE_INTERMEDIATE(struct qwen3),
    NATIVE_RMS_EPS(struct qwen3, 1e-6),
    NATIVE_TIED(struct qwen3, false),
    NATIVE_BIAS(struct qwen3),
    NATIVE_FLAG(struct qwen3, use_window, "use_sliding_window", false),
    NATIVE_COUNT(struct qwen3, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_COUNT(struct qwen3, window_from, "max_window_layers", 0, 512, 28),
    NATIVE_WORDS(struct qwen3, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct qwen3 *c = config;
    uint32_t hidden = c->base.hidden;

    if (c->base.head_size == 0)
        c->base.head_size = 128;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool slides = n < c->types.count ? c->types.at[n] == 1 : n >= c->window_from;
        struct native_gqa a =
            native_gqa_of(&c->base, rope, c->use_window && slides ? c->window : 0);
        a.norm = NATIVE_QK_HEADS;
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_usual_mlp(b, h, &c->base, NATIVE_SILU), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(qwen3, struct qwen3, NATIVE_NAMES("qwen3"), NATIVE_NAMES("Qwen3ForCausalLM"));
