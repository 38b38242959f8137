/* native/arch/falcon_h1.c - Falcon H1: Mamba2 and attention beside each other, behind one norm,
 * then a gated MLP; constant factors nearly everywhere. */
#include "engines/native/arch/arch.h"

struct falcon_h1 {
    struct native_base base;
    struct native_mamba mamba;
    struct native_list mlp_by, ssm_by;
    uint32_t inner, expand;
    double embedding, logits, key, attention_in, attention_out, ssm_in, ssm_out;
    bool mlp_bias, norm, norm_first, out_bias;
};

#define FACTOR(member, name) NATIVE_NUMBER(struct falcon_h1, member, name, -1e6, 1e6, 1)

static const struct native_field fields[] = {
    NATIVE_BASE(struct falcon_h1),
    NATIVE_INTERMEDIATE(struct falcon_h1),
    NATIVE_RMS_EPS(struct falcon_h1, 1e-5),
    NATIVE_TIED(struct falcon_h1, false),
    NATIVE_BIAS(struct falcon_h1),
    NATIVE_FLAG(struct falcon_h1, mlp_bias, "mlp_bias", false),
    NATIVE_COUNT_OR_NULL(struct falcon_h1, inner, "mamba_d_ssm", 1, 1 << 20, 1024),
    NATIVE_COUNT(struct falcon_h1, expand, "mamba_expand", 1, 64, 2),
    NATIVE_COUNT(struct falcon_h1, mamba.heads, "mamba_n_heads", 1, 4096, 128),
    NATIVE_COUNT(struct falcon_h1, mamba.groups, "mamba_n_groups", 1, 1024, 1),
    NATIVE_COUNT(struct falcon_h1, mamba.state_size, "mamba_d_state", 1, 4096, 256),
    NATIVE_COUNT(struct falcon_h1, mamba.kernel, "mamba_d_conv", 1, 16, 4),
    NATIVE_FLAG(struct falcon_h1, mamba.conv_bias, "mamba_conv_bias", true),
    NATIVE_FLAG(struct falcon_h1, mamba.bias, "mamba_proj_bias", false),
    NATIVE_FLAG(struct falcon_h1, out_bias, "projectors_bias", false),
    NATIVE_FLAG(struct falcon_h1, norm, "mamba_rms_norm", false),
    NATIVE_FLAG(struct falcon_h1, norm_first, "mamba_norm_before_gate", true),
    NATIVE_NUMBERS(struct falcon_h1, mlp_by, "mlp_multipliers", -1e6, 1e6),
    NATIVE_NUMBERS(struct falcon_h1, ssm_by, "ssm_multipliers", -1e6, 1e6),
    FACTOR(embedding, "embedding_multiplier"),
    FACTOR(logits, "lm_head_multiplier"),
    FACTOR(key, "key_multiplier"),
    FACTOR(attention_in, "attention_in_multiplier"),
    FACTOR(attention_out, "attention_out_multiplier"),
    FACTOR(ssm_in, "ssm_in_multiplier"),
    FACTOR(ssm_out, "ssm_out_multiplier"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static reg scaled(struct native_builder *b, reg h, double by)
{
    if (by == 1)
        return h;
    reg out = native_slice(b, h, 1, native_width(b, h), 0, native_width(b, h));
    native_scale(b, out, by);
    return out;
}

static reg feed_forward(struct native_builder *b, reg h, const struct falcon_h1 *c)
{
    uint32_t inner = c->base.intermediate, hidden = c->base.hidden;
    const double *by = c->mlp_by.count == 2 ? c->mlp_by.at : (const double[]){1, 1};
    reg gate = native_linear(b, h, "feed_forward.gate_proj", inner, hidden, c->mlp_bias);
    reg up = native_linear(b, h, "feed_forward.up_proj", inner, hidden, c->mlp_bias);

    native_scale(b, gate, by[0]);
    h = native_gate(b, up, gate, NATIVE_SILU, 1);
    h = native_linear(b, h, "feed_forward.down_proj", hidden, inner, c->mlp_bias);
    native_scale(b, h, by[1]);
    return h;
}

static void falcon_layer(struct native_builder *b, struct falcon_h1 *c,
                         const struct native_gqa *a)
{
    uint32_t hidden = c->base.hidden;
    reg h = native_norm(b, X, "input_layernorm", c->base.eps);
    reg mixed = native_mamba(b, scaled(b, h, c->ssm_in), hidden, "mamba", &c->mamba);
    reg seen = native_gqa(b, scaled(b, h, c->attention_in), hidden, a);

    native_add(b, X, mixed, c->ssm_out);
    native_add(b, X, seen, c->attention_out);
    h = native_norm(b, X, "pre_ff_layernorm", c->base.eps);
    native_add(b, X, feed_forward(b, h, c), 1);
}

static void build(struct native_builder *b, void *config)
{
    struct falcon_h1 *c = config;
    uint32_t inner = c->inner != 0 ? c->inner : c->expand * c->base.hidden;

    if (inner % c->mamba.heads != 0)
        native_refuse(
            b, "config.json: \"mamba_d_ssm\" is %u, no multiple of \"mamba_n_heads\", %u",
            inner, c->mamba.heads);
    if ((c->mlp_by.count != 0 && c->mlp_by.count != 2) ||
        (c->ssm_by.count != 0 && c->ssm_by.count != NATIVE_MAMBA_PARTS))
        native_refuse(b, "config.json: \"mlp_multipliers\" must list 2 numbers, and "
                         "\"ssm_multipliers\" 5");
    c->mamba.head_size = inner / c->mamba.heads;
    c->mamba.eps = c->base.eps;
    c->mamba.grouped_norm = true;
    c->mamba.without_norm = !c->norm;
    c->mamba.norm_first = c->norm_first;
    c->mamba.out_bias = c->out_bias;
    c->mamba.parts_by = c->ssm_by.count != 0 ? c->ssm_by.at : NULL;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", c->embedding))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.key_scale = c->key;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        falcon_layer(b, c, &a);
    }
    native_scale(b,
                 native_usual_end(b, &c->base, "model.final_layernorm", "model.embed_tokens"),
                 c->logits);
}

NATIVE_ARCH(falcon_h1, struct falcon_h1, NATIVE_NAMES("falcon_h1"),
            NATIVE_NAMES("FalconH1ForCausalLM"));
