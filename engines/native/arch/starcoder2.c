/* native/arch/starcoder2.c - StarCoder2: Llama with layer norms, a plain MLP, a bias on every
 * matrix, and a window. */
#include "engines/native/arch/arch.h"

struct starcoder2 {
    struct native_base base;
    uint32_t window;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct starcoder2),
    NATIVE_INTERMEDIATE(struct starcoder2),
    NATIVE_NUMBER(struct starcoder2, base.eps, "norm_epsilon", 0, 1, 1e-5),
    NATIVE_TIED(struct starcoder2, true),
    NATIVE_FLAG(struct starcoder2, base.bias, "use_bias", true),
    NATIVE_COUNT(struct starcoder2, window, "sliding_window", 1, 1 << 26, 0),
    NATIVE_ONLY("hidden_act", "gelu_pytorch_tanh"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct starcoder2 *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a = native_gqa_of(
        &c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), c->window);
    const struct native_mlp mlp = {.up = "mlp.c_fc",
                                   .down = "mlp.c_proj",
                                   .inner = c->base.intermediate,
                                   .act = NATIVE_GELU_TANH,
                                   .bias = c->base.bias};
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_layer_norm(b, X, "input_layernorm", true, c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_layer_norm(b, X, "post_attention_layernorm", true, c->base.eps);
        native_add(b, X, native_plain_mlp(b, h, hidden, &mlp), 1);
    }
    native_layer(b, "", 0);
    reg h = native_layer_norm(b, X, "model.norm", true, c->base.eps);
    native_usual_logits(b, &c->base, h, "model.embed_tokens");
}

NATIVE_ARCH(starcoder2, struct starcoder2, NATIVE_NAMES("starcoder2"),
            NATIVE_NAMES("Starcoder2ForCausalLM"));
