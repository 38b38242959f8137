/* native/arch/minimax_m2.c - MiniMax M2: one norm over all of Q and of K, a part of each head
 * rotated, experts chosen by sigmoid scores and a bias. */
#include "engines/native/arch/arch.h"

struct minimax_m2 {
    struct native_base base;
    uint32_t experts, chosen, rotary;
    bool qk_norm, routing_bias;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct minimax_m2),
    NATIVE_ROPE_FROM(struct minimax_m2, base.rope, 5e6, 1),
    NATIVE_INTERMEDIATE(struct minimax_m2),
    NATIVE_RMS_EPS(struct minimax_m2, 1e-6),
    NATIVE_TIED(struct minimax_m2, false),
    NATIVE_COUNT(struct minimax_m2, experts, "num_local_experts|num_experts", 1, 4096, 256),
    NATIVE_COUNT(struct minimax_m2, chosen, "num_experts_per_tok", 1, 64, 8),
    NATIVE_COUNT(struct minimax_m2, rotary, "rotary_dim", 2, 1024, 0),
    NATIVE_FLAG(struct minimax_m2, qk_norm, "use_qk_norm", true),
    NATIVE_FLAG(struct minimax_m2, routing_bias, "use_routing_bias", true),
    NATIVE_ONLY("scoring_func", "sigmoid"),
    NATIVE_ONLY("qk_norm_type", "per_layer"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_ONLY_COUNT("shared_intermediate_size", 0),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct minimax_m2 *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a = native_gqa_of(
        &c->base, native_rope_table(b, &c->base.rope, c->base.head_size, c->rotary), 0);
    a.norm = c->qk_norm ? NATIVE_QK_WHOLE : NATIVE_QK_PLAIN;
    struct native_moe moe = native_moe_of("block_sparse_moe.gate", NULL, c->experts, c->chosen,
                                          c->base.intermediate);
    moe.names = native_w123();
    moe.route.score = NATIVE_SIGMOID_SCORE;
    moe.bias = c->routing_bias ? "block_sparse_moe.e_score_correction_bias" : NULL;
    native_ignore_layers(b, c->base.layers);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        native_llama_attention(b, &c->base, &a);
        native_llama_moe(b, &c->base, &moe);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(minimax_m2, struct minimax_m2, NATIVE_NAMES("minimax_m2"),
            NATIVE_NAMES("MiniMaxM2ForCausalLM"));
