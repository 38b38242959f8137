/* native/arch/lfm2.c - LFM2 and its MoE: most layers mix positions by a short convolution
 * between two gates, the others attend.
 *
 *   conv layer:  b, c, v = linear(h);  x = x + linear(c * conv(b * v))
 */
#include "engines/native/arch/arch.h"

struct lfm2 {
    struct native_base base;
    struct native_list types, attends;
    uint32_t kernel, multiple, experts, chosen, inner, dense_layers;
    double ff_factor, scale;
    bool conv_bias, adjust, normalize, choice_bias;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct lfm2),
    NATIVE_ROPE_FROM(struct lfm2, base.rope, 1e6, 1),
    NATIVE_COUNT(struct lfm2, base.intermediate, "block_ff_dim|intermediate_size", 1, 1 << 20,
                 NATIVE_REQUIRED),
    NATIVE_NUMBER(struct lfm2, base.eps, "norm_eps|block_norm_eps", 0, 1, 1e-5),
    NATIVE_FLAG(struct lfm2, base.tied, "tie_embedding|tie_word_embeddings", true),
    NATIVE_WORDS(struct lfm2, types, "layer_types", "conv|full_attention|short_conv"),
    NATIVE_NUMBERS(struct lfm2, attends, "full_attn_idxs", 0, 512),
    NATIVE_COUNT(struct lfm2, kernel, "conv_L_cache", 1, 16, 3),
    NATIVE_FLAG(struct lfm2, conv_bias, "conv_bias", false),
    NATIVE_FLAG(struct lfm2, adjust, "block_auto_adjust_ff_dim", true),
    NATIVE_NUMBER(struct lfm2, ff_factor, "block_ffn_dim_multiplier", 1e-3, 1e3, 1),
    NATIVE_COUNT(struct lfm2, multiple, "block_multiple_of", 1, 1 << 20, 256),
    NATIVE_COUNT(struct lfm2, experts, "num_experts", 0, 4096, 0),
    NATIVE_COUNT(struct lfm2, chosen, "num_experts_per_tok", 1, 64, 4),
    NATIVE_COUNT(struct lfm2, inner, "moe_intermediate_size", 1, 1 << 20, 1),
    NATIVE_COUNT(struct lfm2, dense_layers, "num_dense_layers", 0, 512, 2),
    NATIVE_FLAG(struct lfm2, normalize, "norm_topk_prob", true),
    NATIVE_FLAG(struct lfm2, choice_bias, "use_expert_bias", true),
    NATIVE_NUMBER(struct lfm2, scale, "routed_scaling_factor", 1e-6, 1e6, 1),
    NATIVE_END,
};

static reg convolution(struct native_builder *b, reg h, const struct lfm2 *c)
{
    uint32_t hidden = c->base.hidden;
    reg all = native_linear(b, h, "conv.in_proj", 3 * hidden, hidden, c->conv_bias);
    reg before = native_slice(b, all, 1, 3 * hidden, 0, hidden);
    reg behind = native_slice(b, all, 1, 3 * hidden, hidden, hidden);
    reg value = native_slice(b, all, 1, 3 * hidden, 2 * hidden, hidden);

    value = native_gate(b, value, before, NATIVE_LINEAR, 1);
    value = native_conv(b, value, "conv.conv", hidden, c->kernel, c->conv_bias, NATIVE_LINEAR);
    value = native_gate(b, value, behind, NATIVE_LINEAR, 1);
    return native_linear(b, value, "conv.out_proj", hidden, hidden, c->conv_bias);
}

static reg experts(struct native_builder *b, reg h, const struct lfm2 *c)
{
    struct native_moe moe =
        native_moe_of("feed_forward.gate", NULL, c->experts, c->chosen, c->inner);

    moe.names = (struct native_expert_names){.gate = "feed_forward.experts.%u.w1",
                                             .up = "feed_forward.experts.%u.w3",
                                             .down = "feed_forward.experts.%u.w2"};
    moe.route.score = NATIVE_SIGMOID_SCORE;
    moe.route.normalize = c->normalize;
    moe.route.epsilon = 1e-6f;
    moe.route.scale = (float)c->scale;
    moe.bias = c->choice_bias ? "feed_forward.expert_bias" : NULL;
    return native_moe(b, h, c->base.hidden, &moe);
}

/* The width that the dense MLP really has. */
static uint32_t inner_of(const struct lfm2 *c)
{
    uint32_t inner = c->base.intermediate;

    if (c->experts > 0 || !c->adjust)
        return inner;
    inner = (uint32_t)(c->ff_factor * (2 * inner / 3));
    return (inner + c->multiple - 1) / c->multiple * c->multiple;
}

static void build(struct native_builder *b, void *config)
{
    struct lfm2 *c = config;
    uint32_t hidden = c->base.hidden;
    const struct native_mlp mlp = {.gate = "feed_forward.w1",
                                   .up = "feed_forward.w3",
                                   .down = "feed_forward.w2",
                                   .inner = inner_of(c),
                                   .act = NATIVE_SILU};

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.norm = NATIVE_QK_HEADS;
    a.q_norm = "self_attn.q_layernorm";
    a.k_norm = "self_attn.k_layernorm";
    a.out = "self_attn.out_proj";
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool attends = n < c->types.count     ? c->types.at[n] == 1
                       : c->attends.count > 0 ? native_lists(&c->attends, n)
                                              : true;
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "operator_norm", c->base.eps);
        native_add(b, X, attends ? native_gqa(b, h, hidden, &a) : convolution(b, h, c), 1);
        h = native_norm(b, X, "ffn_norm", c->base.eps);
        native_add(b, X,
                   c->experts > 0 && n >= c->dense_layers ? experts(b, h, c)
                                                          : native_mlp(b, h, hidden, &mlp),
                   1);
    }
    native_usual_end(b, &c->base, "model.embedding_norm", "model.embed_tokens");
}

NATIVE_ARCH(lfm2, struct lfm2, NATIVE_NAMES("lfm2", "lfm2_moe"),
            NATIVE_NAMES("Lfm2ForCausalLM", "Lfm2MoeForCausalLM"));
