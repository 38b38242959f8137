/* native/arch/smollm3.c - SmolLM3: Llama, in which some layers rotate no positions. */
#include "engines/native/arch/arch.h"

struct smollm3 {
    struct native_base base;
    struct native_list rotates; /* by layer: 0 or 1 */
    uint32_t interval;
    bool mlp_bias;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct smollm3),
    NATIVE_INTERMEDIATE(struct smollm3),
    NATIVE_RMS_EPS(struct smollm3, 1e-6),
    NATIVE_TIED(struct smollm3, true),
    NATIVE_BIAS(struct smollm3),
    NATIVE_FLAG(struct smollm3, mlp_bias, "mlp_bias", false),
    NATIVE_NUMBERS(struct smollm3, rotates, "no_rope_layers", 0, 1),
    NATIVE_COUNT(struct smollm3, interval, "no_rope_layer_interval", 1, 512, 4),
    NATIVE_ONLY_FLAG("use_sliding_window", false),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct smollm3 *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    mlp.bias = c->mlp_bias;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool rotates =
            n < c->rotates.count ? c->rotates.at[n] != 0 : (n + 1) % c->interval != 0;
        struct native_gqa a = native_gqa_of(&c->base, rotates ? rope : NATIVE_NONE, 0);
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_mlp(b, h, hidden, &mlp), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(smollm3, struct smollm3, NATIVE_NAMES("smollm3"),
            NATIVE_NAMES("SmolLM3ForCausalLM"));
