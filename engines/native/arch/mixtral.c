/* native/arch/mixtral.c - Mixtral: Mistral with experts in the place of the MLP. */
#include "engines/native/arch/arch.h"

struct mixtral {
    struct native_base base;
    uint32_t window, experts, chosen;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct mixtral),
    NATIVE_ROPE_FROM(struct mixtral, base.rope, 1e6, 1),
    NATIVE_INTERMEDIATE(struct mixtral),
    NATIVE_RMS_EPS(struct mixtral, 1e-5),
    NATIVE_TIED(struct mixtral, false),
    NATIVE_COUNT(struct mixtral, window, "sliding_window", 1, 1 << 26, 0),
    NATIVE_COUNT(struct mixtral, experts, "num_local_experts|num_experts", 1, 4096, 8),
    NATIVE_COUNT(struct mixtral, chosen, "num_experts_per_tok", 1, 64, 2),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct mixtral *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a = native_gqa_of(
        &c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), c->window);
    struct native_moe moe = native_moe_of("block_sparse_moe.gate", NULL, c->experts, c->chosen,
                                          c->base.intermediate);
    moe.names = native_w123();
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        native_llama_attention(b, &c->base, &a);
        native_llama_moe(b, &c->base, &moe);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(mixtral, struct mixtral, NATIVE_NAMES("mixtral"),
            NATIVE_NAMES("MixtralForCausalLM"));
