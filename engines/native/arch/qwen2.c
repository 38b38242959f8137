/* native/arch/qwen2.c - Qwen 2 and 2.5: Llama with a bias on Q, K and V. */
#include "engines/native/arch/arch.h"

struct qwen2 {
    struct native_base base;
    struct native_list types;
    uint32_t window, window_from; /* without a list, layers from window_from on slide */
    bool use_window;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct qwen2),
    NATIVE_INTERMEDIATE(struct qwen2),
    NATIVE_RMS_EPS(struct qwen2, 1e-6),
    NATIVE_TIED(struct qwen2, false),
    NATIVE_FLAG(struct qwen2, use_window, "use_sliding_window", false),
    NATIVE_COUNT(struct qwen2, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_COUNT(struct qwen2, window_from, "max_window_layers", 0, 512, 28),
    NATIVE_WORDS(struct qwen2, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct qwen2 *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool slides = n < c->types.count ? c->types.at[n] == 1 : n >= c->window_from;
        struct native_gqa a =
            native_gqa_of(&c->base, rope, c->use_window && slides ? c->window : 0);
        a.bias = true;
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_usual_mlp(b, h, &c->base, NATIVE_SILU), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(qwen2, struct qwen2, NATIVE_NAMES("qwen2"), NATIVE_NAMES("Qwen2ForCausalLM"));
