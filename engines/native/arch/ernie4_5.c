/* native/arch/ernie4_5.c - ERNIE 4.5, with and without experts: pairs of neighbours rotate, the
 * first layers are dense, one shared expert beside the chosen ones. */
#include "engines/native/arch/arch.h"

struct ernie4_5 {
    struct native_base base;
    uint32_t experts, chosen, inner, shared, from, every;
    double to; /* -1: the last layer */
    double least;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct ernie4_5),
    NATIVE_ROPE_FROM(struct ernie4_5, base.rope, 500000, 1),
    NATIVE_INTERMEDIATE(struct ernie4_5),
    NATIVE_RMS_EPS(struct ernie4_5, 1e-5),
    NATIVE_TIED(struct ernie4_5, true),
    NATIVE_FLAG(struct ernie4_5, base.bias, "use_bias", false),
    NATIVE_COUNT(struct ernie4_5, experts, "moe_num_experts|num_experts", 0, 4096, 0),
    NATIVE_COUNT(struct ernie4_5, chosen, "moe_k|num_experts_per_tok", 1, 64, 6),
    NATIVE_COUNT(struct ernie4_5, inner, "moe_intermediate_size", 1, 1 << 20, 1),
    NATIVE_COUNT(struct ernie4_5, shared, "moe_num_shared_experts", 0, 64, 0),
    NATIVE_COUNT(struct ernie4_5, from, "moe_layer_start_index", 0, 512, 1),
    NATIVE_NUMBER(struct ernie4_5, to, "moe_layer_end_index", -1, 512, -1),
    NATIVE_COUNT(struct ernie4_5, every, "moe_layer_interval", 1, 512, 1),
    NATIVE_NUMBER(struct ernie4_5, least, "moe_norm_min", 1e-30, 1, 1e-12),
    NATIVE_ONLY("moe_gate", "topk"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static reg experts(struct native_builder *b, reg h, const struct ernie4_5 *c)
{
    uint32_t hidden = c->base.hidden;
    struct native_moe moe =
        native_moe_of("mlp.gate", "mlp.experts", c->experts, c->chosen, c->inner);
    const char *bias = "mlp.moe_statics.e_score_correction_bias";

    moe.route.epsilon = (float)-c->least;
    moe.bias = native_has(b, bias) ? bias : NULL;
    reg out = native_moe(b, h, hidden, &moe);
    if (c->shared > 0)
        native_add(b, out,
                   native_mlp(b, h, hidden,
                              &(struct native_mlp){.gate = "mlp.shared_experts.gate_proj",
                                                   .up = "mlp.shared_experts.up_proj",
                                                   .down = "mlp.shared_experts.down_proj",
                                                   .inner = c->inner * c->shared,
                                                   .act = NATIVE_SILU,
                                                   .bias = c->base.bias}),
                   1);
    return out;
}

static void build(struct native_builder *b, void *config)
{
    struct ernie4_5 *c = config;
    uint32_t hidden = c->base.hidden, last = c->to < 0 ? c->base.layers : (uint32_t)c->to;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.interleaved = true;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    mlp.bias = c->base.bias;
    native_ignore(b, "/model.mtp");
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool sparse = c->experts > 0 && n >= c->from && n <= last && (n + 1) % c->every == 0;
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, sparse ? experts(b, h, c) : native_mlp(b, h, hidden, &mlp), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(ernie4_5, struct ernie4_5, NATIVE_NAMES("ernie4_5_moe", "ernie4_5"),
            NATIVE_NAMES("Ernie4_5_MoeForCausalLM", "Ernie4_5ForCausalLM"));
