/* native/arch/olmoe.c - OLMoE: Llama with one norm over all of Q and of K, and experts in the
 * place of the MLP. */
#include "engines/native/arch/arch.h"

struct olmoe {
    struct native_base base;
    uint32_t experts, chosen;
    bool normalize;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct olmoe),
    NATIVE_INTERMEDIATE(struct olmoe),
    NATIVE_RMS_EPS(struct olmoe, 1e-5),
    NATIVE_TIED(struct olmoe, false),
    NATIVE_BIAS(struct olmoe),
    NATIVE_COUNT(struct olmoe, experts, "num_experts|num_local_experts", 1, 4096, 64),
    NATIVE_COUNT(struct olmoe, chosen, "num_experts_per_tok", 1, 64, 8),
    NATIVE_FLAG(struct olmoe, normalize, "norm_topk_prob", false),
    NATIVE_ONLY_COUNT("clip_qkv", 0),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct olmoe *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.norm = NATIVE_QK_WHOLE;
    struct native_moe moe =
        native_moe_of("mlp.gate", "mlp.experts", c->experts, c->chosen, c->base.intermediate);
    moe.route.normalize = c->normalize;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        native_llama_attention(b, &c->base, &a);
        native_llama_moe(b, &c->base, &moe);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(olmoe, struct olmoe, NATIVE_NAMES("olmoe"), NATIVE_NAMES("OlmoeForCausalLM"));
