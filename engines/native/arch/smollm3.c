/* native/arch/smollm3.c - SmolLM3: Llama, in which some layers rotate no positions. */
#include "engines/native/arch/arch.h"

struct smollm3 {
    struct native_base base;
    struct native_list rotates; /* by layer: 0 or 1 */
    struct native_list types;
    uint32_t interval, window;
    bool mlp_bias, use_window;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct smollm3),
    NATIVE_ROPE_FROM(struct smollm3, base.rope, 2e6, 1),
    NATIVE_INTERMEDIATE(struct smollm3),
    NATIVE_RMS_EPS(struct smollm3, 1e-6),
    NATIVE_TIED(struct smollm3, true),
    NATIVE_BIAS(struct smollm3),
    NATIVE_FLAG(struct smollm3, mlp_bias, "mlp_bias", false),
    NATIVE_NUMBERS(struct smollm3, rotates, "no_rope_layers", 0, 1),
    NATIVE_COUNT(struct smollm3, interval, "no_rope_layer_interval", 1, 512, 4),
    NATIVE_FLAG(struct smollm3, use_window, "use_sliding_window", false),
    NATIVE_COUNT(struct smollm3, window, "sliding_window", 1, 1 << 26, 0),
    NATIVE_WORDS(struct smollm3, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct smollm3 *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    mlp.bias = c->mlp_bias;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool rotates =
            n < c->rotates.count ? c->rotates.at[n] != 0 : (n + 1) % c->interval != 0;
        /* Without a list the layers that do not rotate slide. */
        bool slides = n < c->types.count ? c->types.at[n] == 1 : !rotates;
        struct native_gqa a = native_gqa_of(&c->base, rotates ? rope : NATIVE_NONE,
                                            c->use_window && slides ? c->window : 0);
        native_llama_layer(b, &c->base, n, &a, &mlp);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(smollm3, struct smollm3, NATIVE_NAMES("smollm3"),
            NATIVE_NAMES("SmolLM3ForCausalLM"));
