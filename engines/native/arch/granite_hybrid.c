/* native/arch/granite_hybrid.c - Granite 4: Mamba2 and attention layers, experts (in some
 * sizes) and a shared MLP behind each, and Granite's constant factors.  Granite 3 MoE has
 * attention layers alone. */
#include "engines/native/arch/arch.h"

struct granite_hybrid {
    struct native_base base;
    struct native_list types;
    struct native_mamba mamba;
    uint32_t kind, experts, chosen, shared, positions, expand;
    double embedding, logits, residual, attention;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct granite_hybrid),
    NATIVE_INTERMEDIATE(struct granite_hybrid),
    NATIVE_RMS_EPS(struct granite_hybrid, 1e-6),
    NATIVE_TIED(struct granite_hybrid, false),
    NATIVE_BIAS(struct granite_hybrid),
    NATIVE_WORDS(struct granite_hybrid, types, "layer_types|layers_block_type",
                 "mamba|attention|linear_attention|full_attention"),
    NATIVE_COUNT(struct granite_hybrid, experts, "num_local_experts", 0, 4096, 0),
    NATIVE_COUNT(struct granite_hybrid, chosen, "num_experts_per_tok", 0, 64, 1),
    NATIVE_KIND(struct granite_hybrid, kind, "granitemoehybrid|granitemoe|granitemoeshared"),
    NATIVE_COUNT(struct granite_hybrid, shared, "shared_intermediate_size", 0, 1 << 20, 0),
    NATIVE_WORD(struct granite_hybrid, positions, "position_embedding_type", "nope|rope"),
    NATIVE_COUNT(struct granite_hybrid, mamba.heads, "mamba_n_heads", 1, 4096, 128),
    NATIVE_COUNT(struct granite_hybrid, expand, "mamba_expand", 1, 64, 2),
    NATIVE_COUNT_OR_TEXT(struct granite_hybrid, mamba.head_size, "mamba_d_head", 1, 1024, 0),
    NATIVE_COUNT(struct granite_hybrid, mamba.groups, "mamba_n_groups", 1, 1024, 1),
    NATIVE_COUNT(struct granite_hybrid, mamba.state_size, "mamba_d_state", 1, 4096, 256),
    NATIVE_COUNT(struct granite_hybrid, mamba.kernel, "mamba_d_conv", 1, 16, 4),
    NATIVE_FLAG(struct granite_hybrid, mamba.conv_bias, "mamba_conv_bias", true),
    NATIVE_FLAG(struct granite_hybrid, mamba.bias, "mamba_proj_bias", false),
    NATIVE_NUMBER(struct granite_hybrid, embedding, "embedding_multiplier", 1e-6, 1e6, 1),
    NATIVE_NUMBER(struct granite_hybrid, logits, "logits_scaling", 1e-6, 1e6, 1),
    NATIVE_NUMBER(struct granite_hybrid, residual, "residual_multiplier", 1e-6, 1e6, 1),
    NATIVE_NUMBER(struct granite_hybrid, attention, "attention_multiplier", 1e-6, 1e6, 1),
    NATIVE_ONLY("normalization_function", "rmsnorm"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static reg feed_forward(struct native_builder *b, reg h, const struct granite_hybrid *c)
{
    uint32_t hidden = c->base.hidden;
    struct native_mlp shared = {.gate = "shared_mlp.input_linear",
                                .down = "shared_mlp.output_linear",
                                .inner = c->shared,
                                .act = NATIVE_SILU};

    if (c->experts == 0)
        return native_mlp(b, h, hidden, &shared);
    struct native_moe moe = native_moe_of("block_sparse_moe.router.layer", NULL, c->experts,
                                          c->chosen, c->base.intermediate);
    moe.names = (struct native_expert_names){.gate = "block_sparse_moe.input_linear",
                                             .down = "block_sparse_moe.output_linear"};
    reg out = native_moe(b, h, hidden, &moe);
    if (c->shared > 0)
        native_add(b, out, native_mlp(b, h, hidden, &shared), 1);
    return out;
}

static void build(struct native_builder *b, void *config)
{
    struct granite_hybrid *c = config;
    uint32_t hidden = c->base.hidden;

    c->mamba.eps = c->base.eps;
    if (c->mamba.head_size < 8) /* absent, or "auto" */
        c->mamba.head_size = c->expand * hidden / c->mamba.heads;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", c->embedding))
        return;
    struct native_gqa a = native_gqa_of(&c->base, NATIVE_NONE, 0);
    if (c->positions == 1 || c->kind != 0)
        a.rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    a.attend.scale = c->attention;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool mamba = n < c->types.count && (uint32_t)c->types.at[n] % 2 == 0;
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        h = mamba ? native_mamba(b, h, hidden, "mamba", &c->mamba)
                  : native_gqa(b, h, hidden, &a);
        native_add(b, X, h, c->residual);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, feed_forward(b, h, c), c->residual);
    }
    native_scale(b, native_usual_end(b, &c->base, "model.norm", "model.embed_tokens"),
                 1 / c->logits);
}

NATIVE_ARCH(granite_hybrid, struct granite_hybrid,
            NATIVE_NAMES("granitemoehybrid", "granitemoe", "granitemoeshared"),
            NATIVE_NAMES("GraniteMoeHybridForCausalLM", "GraniteMoeForCausalLM",
                         "GraniteMoeSharedForCausalLM"));
