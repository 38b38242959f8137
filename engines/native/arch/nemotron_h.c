/* native/arch/nemotron_h.c - Nemotron-H and Nemotron 3: each layer is one of four things,
 * Mamba2, attention without positions, a plain MLP, or experts, behind one norm.
 *
 *   x = x + mixer(norm(x))
 */
#include <math.h>

#include "engines/native/arch/arch.h"

struct nemotron_h {
    struct native_base base;
    struct native_list pattern;
    struct native_grouped_experts moe;
    struct native_mamba mamba;
    uint32_t shared_inner, latent;
    bool use_bias, mlp_bias;
};

enum { MAMBA, EXPERTS, ATTENTION, DENSE };

static const struct native_field fields[] = {
    NATIVE_BASE(struct nemotron_h),
    NATIVE_COUNT(struct nemotron_h, base.intermediate, "intermediate_size", 1, 1 << 20, 1),
    NATIVE_NUMBER(struct nemotron_h, base.eps, "layer_norm_epsilon|norm_eps|rms_norm_eps", 0, 1,
                  1e-5),
    NATIVE_TIED(struct nemotron_h, false),
    NATIVE_BIAS(struct nemotron_h),
    /* The letters, and their names in newer configs. */
    NATIVE_LETTERS(struct nemotron_h, pattern,
                   "hybrid_override_pattern|layers_block_type|layer_types",
                   "M|E|*|-|mamba|moe|attention|mlp|linear_attention|moe|full_attention|mlp"),
    NATIVE_COUNT(struct nemotron_h, mamba.heads, "mamba_num_heads", 1, 4096, NATIVE_REQUIRED),
    NATIVE_COUNT(struct nemotron_h, mamba.head_size, "mamba_head_dim", 1, 1024,
                 NATIVE_REQUIRED),
    NATIVE_COUNT(struct nemotron_h, mamba.groups, "n_groups", 1, 1024, 8),
    NATIVE_COUNT(struct nemotron_h, mamba.state_size, "ssm_state_size", 1, 4096, 128),
    NATIVE_COUNT(struct nemotron_h, mamba.kernel, "conv_kernel", 1, 16, 4),
    NATIVE_FLAG(struct nemotron_h, mamba.conv_bias, "use_conv_bias", true),
    NATIVE_NUMBER(struct nemotron_h, mamba.dt_min, "time_step_min", 0, 1e6, 0.001),
    NATIVE_FLAG(struct nemotron_h, use_bias, "use_bias", false),
    NATIVE_FLAG(struct nemotron_h, mlp_bias, "mlp_bias", false),
    NATIVE_COUNT(struct nemotron_h, moe.experts, "n_routed_experts", 1, 4096, 1),
    NATIVE_COUNT(struct nemotron_h, moe.chosen, "num_experts_per_tok", 1, 64, 1),
    NATIVE_COUNT(struct nemotron_h, moe.inner, "moe_intermediate_size", 1, 1 << 20, 1),
    NATIVE_COUNT(struct nemotron_h, moe.groups, "n_group", 1, 512, 1),
    NATIVE_COUNT(struct nemotron_h, moe.group_count, "topk_group", 1, 512, 1),
    NATIVE_NUMBER(struct nemotron_h, moe.scale, "routed_scaling_factor", 1e-6, 1e6, 1),
    NATIVE_FLAG(struct nemotron_h, moe.normalize, "norm_topk_prob", true),
    NATIVE_COUNT(struct nemotron_h, shared_inner, "moe_shared_expert_intermediate_size", 1,
                 1 << 20, 1),
    NATIVE_COUNT(struct nemotron_h, latent, "moe_latent_size", 1, 65536, 0),
    NATIVE_ONLY("mlp_hidden_act", "relu2"),
    NATIVE_ONLY("mamba_hidden_act", "silu"),
    NATIVE_END,
};

static reg experts(struct native_builder *b, reg h, const struct nemotron_h *c)
{
    uint32_t hidden = c->base.hidden;
    reg scores = native_linear(b, h, "mixer.gate", c->moe.experts, hidden, false), in = h;
    reg route = native_route(b, scores, "mixer.gate.e_score_correction_bias", NULL,
                             &(struct native_route){.experts = c->moe.experts,
                                                    .chosen = c->moe.chosen,
                                                    .score = NATIVE_SIGMOID_SCORE,
                                                    .normalize = c->moe.normalize,
                                                    .epsilon = 1e-20f,
                                                    .groups = c->moe.groups,
                                                    .group_count = c->moe.group_count,
                                                    .scale = (float)c->moe.scale});

    if (c->latent > 0)
        in = native_linear(b, h, "mixer.fc1_latent_proj", c->latent, hidden, c->mlp_bias);
    reg out =
        native_experts(b, in, route,
                       &(struct native_expert_names){.up = "mixer.experts.%u.up_proj",
                                                     .down = "mixer.experts.%u.down_proj"},
                       &(struct native_experts){.experts = c->moe.experts,
                                                .chosen = c->moe.chosen,
                                                .inner = c->moe.inner,
                                                .act = NATIVE_RELU2});
    if (c->latent > 0)
        out = native_linear(b, out, "mixer.fc2_latent_proj", hidden, c->latent, c->mlp_bias);
    native_add(b, out,
               native_plain_mlp(b, h, hidden,
                                &(struct native_mlp){.up = "mixer.shared_experts.up_proj",
                                                     .down = "mixer.shared_experts.down_proj",
                                                     .inner = c->shared_inner,
                                                     .act = NATIVE_RELU2,
                                                     .bias = c->mlp_bias}),
               1);
    return out;
}

static reg mixer(struct native_builder *b, reg h, const struct nemotron_h *c, uint32_t kind)
{
    struct native_gqa a = native_gqa_of(&c->base, NATIVE_NONE, 0);

    switch (kind) {
    case MAMBA:
        return native_mamba(b, h, c->base.hidden, "mixer", &c->mamba);
    case EXPERTS:
        return experts(b, h, c);
    case ATTENTION:
        a.q = "mixer.q_proj";
        a.k = "mixer.k_proj";
        a.v = "mixer.v_proj";
        a.out = "mixer.o_proj";
        return native_gqa(b, h, c->base.hidden, &a);
    default:
        return native_plain_mlp(b, h, c->base.hidden,
                                &(struct native_mlp){.up = "mixer.up_proj",
                                                     .down = "mixer.down_proj",
                                                     .inner = c->base.intermediate,
                                                     .act = NATIVE_RELU2,
                                                     .bias = c->mlp_bias});
    }
}

static void build(struct native_builder *b, void *config)
{
    struct nemotron_h *c = config;

    if (c->pattern.count == 0)
        native_refuse(b, "config.json: \"hybrid_override_pattern\" is missing");
    c->base.layers = c->pattern.count;
    c->mamba.bias = c->use_bias;
    c->mamba.grouped_norm = true;
    c->mamba.eps = c->base.eps;
    const char *embeddings =
        native_has(b, "backbone.embedding") ? "backbone.embedding" : "backbone.embeddings";
    const char *root = native_has(b, "backbone.norm_f") ? "backbone" : "model";
    if (root[0] == 'm')
        embeddings =
            native_has(b, "model.embed_tokens") ? "model.embed_tokens" : "model.embeddings";
    if (!native_usual_begin(b, &c->base, embeddings, 1))
        return;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, native_name(b, "%s.layers.%%u.", root), n);
        reg h = native_norm(b, X, "norm", c->base.eps);
        native_add(b, X, mixer(b, h, c, (uint32_t)c->pattern.at[n] % 4), 1);
    }
    native_usual_end(b, &c->base, native_name(b, "%s.norm_f", root), embeddings);
}

NATIVE_ARCH(nemotron_h, struct nemotron_h, NATIVE_NAMES("nemotron_h"),
            NATIVE_NAMES("NemotronHForCausalLM"));
