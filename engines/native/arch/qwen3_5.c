/* native/arch/qwen3_5.c - Qwen3-Next and Qwen3.5 to 3.8, dense and MoE: three of four layers
 * keep a state by the gated delta rule, the others attend, with a gate on their output.
 *
 *   delta layer:  q, k, v = silu(conv(linear(h)));  z, b, a = linear(h)
 *                 x = x + linear(norm(delta(q, k, v, b, a)) * silu(z))
 *
 * Norms multiply by 1 + weight, but for that behind the delta rule.
 */
#include "engines/native/arch/arch.h"

struct qwen3_5 {
    struct native_base base;
    struct native_list types, dense;
    struct native_delta delta;
    uint32_t kernel, interval, experts, chosen, inner, shared, every;
    bool normalize, gated;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct qwen3_5),
    NATIVE_ROPE_FROM(struct qwen3_5, base.rope, 10000, 0.25),
    NATIVE_COUNT(struct qwen3_5, base.intermediate, "intermediate_size", 1, 1 << 20, 1),
    NATIVE_RMS_EPS(struct qwen3_5, 1e-6),
    NATIVE_TIED(struct qwen3_5, false),
    NATIVE_BIAS(struct qwen3_5),
    NATIVE_WORDS(struct qwen3_5, types, "layer_types", "full_attention|linear_attention"),
    NATIVE_COUNT(struct qwen3_5, interval, "full_attention_interval", 1, 512, 4),
    NATIVE_COUNT(struct qwen3_5, kernel, "linear_conv_kernel_dim", 1, 16, 4),
    NATIVE_COUNT(struct qwen3_5, delta.key_size, "linear_key_head_dim", 1, 1024, 128),
    NATIVE_COUNT(struct qwen3_5, delta.value_size, "linear_value_head_dim", 1, 1024, 128),
    NATIVE_COUNT(struct qwen3_5, delta.key_heads, "linear_num_key_heads", 1, 1024, 16),
    NATIVE_COUNT(struct qwen3_5, delta.value_heads, "linear_num_value_heads", 1, 1024, 32),
    NATIVE_COUNT(struct qwen3_5, experts, "num_experts", 0, 4096, 0),
    NATIVE_COUNT(struct qwen3_5, chosen, "num_experts_per_tok", 1, 64, 8),
    NATIVE_COUNT(struct qwen3_5, inner, "moe_intermediate_size", 1, 1 << 20, 1),
    NATIVE_COUNT(struct qwen3_5, shared, "shared_expert_intermediate_size", 0, 1 << 20, 0),
    NATIVE_COUNT(struct qwen3_5, every, "decoder_sparse_step", 1, 512, 1),
    NATIVE_NUMBERS(struct qwen3_5, dense, "mlp_only_layers", 0, 512),
    NATIVE_FLAG(struct qwen3_5, normalize, "norm_topk_prob", true),
    NATIVE_FLAG(struct qwen3_5, gated, "attn_output_gate", true),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

/* Qwen3-Next has one matrix of which each key head's part is [q, k, its v, its z], and one for
 * b and a; later models have a matrix for each. */
static void project(struct native_builder *b, reg h, const struct qwen3_5 *c, reg *qkv, reg *z,
                    reg *beta, reg *a)
{
    const struct native_delta *d = &c->delta;
    uint32_t hidden = c->base.hidden, each = d->value_heads / d->key_heads,
             groups = d->key_heads;
    uint32_t keys = groups * d->key_size, values = d->value_heads * d->value_size;
    uint32_t own = each * d->value_size, part = 2 * d->key_size + 2 * own;

    if (!native_has(b, "linear_attn.in_proj_qkvz")) {
        *qkv = native_linear(b, h, "linear_attn.in_proj_qkv", 2 * keys + values, hidden, false);
        *z = native_linear(b, h, "linear_attn.in_proj_z", values, hidden, false);
        *beta = native_linear(b, h, "linear_attn.in_proj_b", d->value_heads, hidden, false);
        *a = native_linear(b, h, "linear_attn.in_proj_a", d->value_heads, hidden, false);
        return;
    }
    reg all =
        native_linear(b, h, "linear_attn.in_proj_qkvz", 2 * keys + 2 * values, hidden, false);
    reg ba = native_linear(b, h, "linear_attn.in_proj_ba", 2 * d->value_heads, hidden, false);
    *qkv = native_register(b, 2 * keys + values);
    const struct native_slice parts[] = {
        {groups, part, 0, d->key_size, d->key_size, 0},
        {groups, part, d->key_size, d->key_size, d->key_size, keys},
        {groups, part, 2 * d->key_size, own, own, 2 * keys},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        native_place(b, *qkv, all, &parts[i]);
    *z = native_slice(b, all, groups, part, 2 * d->key_size + own, own);
    *beta = native_slice(b, ba, groups, 2 * each, 0, each);
    *a = native_slice(b, ba, groups, 2 * each, each, each);
}

static reg linear_attention(struct native_builder *b, reg h, const struct qwen3_5 *c)
{
    const struct native_delta *d = &c->delta;
    uint32_t values = d->value_heads * d->value_size;
    reg qkv, z, beta, a;

    project(b, h, c, &qkv, &z, &beta, &a);
    qkv = native_conv(b, qkv, "linear_attn.conv1d", 2 * d->key_heads * d->key_size + values,
                      c->kernel, false, NATIVE_SILU);
    reg out = native_delta(b, qkv, beta, a, "linear_attn.A_log", "linear_attn.dt_bias", d);
    out = native_norm_with(
        b, NATIVE_NO_REG, out, z, "linear_attn.norm", false,
        &(struct native_norm){.group = d->value_size, .eps = (float)c->base.eps});
    return native_linear(b, out, "linear_attn.out_proj", c->base.hidden, values, false);
}

static reg experts(struct native_builder *b, reg h, const struct qwen3_5 *c)
{
    uint32_t hidden = c->base.hidden;
    struct native_moe moe =
        native_moe_of("mlp.gate", "mlp.experts", c->experts, c->chosen, c->inner);

    moe.route.normalize = c->normalize;
    reg out = native_moe(b, h, hidden, &moe);
    if (c->shared > 0)
        native_add(b, out, native_gated_expert(b, h, hidden, c->shared), 1);
    return out;
}

static void layer(struct native_builder *b, const struct qwen3_5 *c, uint32_t rope, uint32_t n)
{
    bool attends = n < c->types.count ? c->types.at[n] == 0 : (n + 1) % c->interval == 0;
    bool sparse = c->experts > 0 && !native_lists(&c->dense, n) && (n + 1) % c->every == 0;
    struct native_gqa a = native_gqa_of(&c->base, rope, 0);

    a.norm = NATIVE_QK_HEADS;
    a.plus_one = true;
    a.gated = c->gated;
    native_layer(b, "model.layers.%u.", n);
    reg h = native_plus_one_norm(b, X, "input_layernorm", c->base.eps);
    native_add(b, X, attends ? native_gqa(b, h, c->base.hidden, &a) : linear_attention(b, h, c),
               1);
    h = native_plus_one_norm(b, X, "post_attention_layernorm", c->base.eps);
    native_add(b, X, sparse ? experts(b, h, c) : native_usual_mlp(b, h, &c->base, NATIVE_SILU),
               1);
}

static void build(struct native_builder *b, void *config)
{
    struct qwen3_5 *c = config;

    if (c->delta.value_heads % c->delta.key_heads != 0)
        native_refuse(b,
                      "config.json: \"linear_num_value_heads\" is %u, no multiple of "
                      "\"linear_num_key_heads\", %u",
                      c->delta.value_heads, c->delta.key_heads);
    if (c->base.head_size == 0)
        c->base.head_size = 256;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    for (uint32_t n = 0; n < c->base.layers; n++)
        layer(b, c, rope, n);
    native_layer(b, "", 0);
    reg h = native_plus_one_norm(b, X, "model.norm", c->base.eps);
    native_usual_logits(b, &c->base, h, "model.embed_tokens");
}

NATIVE_ARCH(qwen3_5, struct qwen3_5,
            NATIVE_NAMES("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text",
                         "qwen3_5_moe_text"),
            NATIVE_NAMES("Qwen3NextForCausalLM", "Qwen3_5ForConditionalGeneration",
                         "Qwen3_5MoeForConditionalGeneration", "Qwen3_5ForCausalLM",
                         "Qwen3_5MoeForCausalLM"));
