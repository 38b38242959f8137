/* native/arch/phimoe.c - Phi-3.5 MoE: layer norms, biases, and experts chosen by sparsemixer.
 */
#include "engines/native/arch/arch.h"

struct phimoe {
    struct native_base base;
    uint32_t window, experts, chosen;
    double jitter;
    bool head_bias;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct phimoe),
    NATIVE_ROPE_FROM(struct phimoe, base.rope, 1e6, 1),
    NATIVE_INTERMEDIATE(struct phimoe),
    NATIVE_RMS_EPS(struct phimoe, 1e-5),
    NATIVE_TIED(struct phimoe, false),
    NATIVE_BIAS(struct phimoe),
    NATIVE_COUNT(struct phimoe, window, "sliding_window", 1, 1 << 26, 0),
    NATIVE_COUNT(struct phimoe, experts, "num_local_experts|num_experts", 1, 4096, 16),
    NATIVE_COUNT(struct phimoe, chosen, "num_experts_per_tok", 2, 2, 2),
    NATIVE_NUMBER(struct phimoe, jitter, "router_jitter_noise", 0, 10, 0.01),
    NATIVE_FLAG(struct phimoe, head_bias, "lm_head_bias", false),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct phimoe *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a = native_gqa_of(
        &c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), c->window);
    struct native_moe moe = native_moe_of("block_sparse_moe.gate", NULL, c->experts, c->chosen,
                                          c->base.intermediate);
    moe.names = native_w123();
    moe.route.score = NATIVE_SPARSEMIXER;
    moe.route.normalize = false;
    moe.route.jitter = (float)c->jitter;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_layer_norm(b, X, "input_layernorm", true, c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_layer_norm(b, X, "post_attention_layernorm", true, c->base.eps);
        native_add(b, X, native_moe(b, h, hidden, &moe), 1);
    }
    native_layer(b, "", 0);
    reg h = native_layer_norm(b, X, "model.norm", true, c->base.eps);
    if (c->base.tied)
        native_usual_logits(b, &c->base, h, "model.embed_tokens");
    else
        native_unembed(b, h, "lm_head", c->base.vocab, c->head_bias);
}

NATIVE_ARCH(phimoe, struct phimoe, NATIVE_NAMES("phimoe"),
            NATIVE_NAMES("PhimoeForCausalLM", "PhiMoEForCausalLM"));
