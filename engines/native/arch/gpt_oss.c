/* native/arch/gpt_oss.c - gpt-oss: attention with sinks, every second layer with a window,
 * biases everywhere, experts in MXFP4 or in BF16. */
#include "engines/native/arch/arch.h"

struct gpt_oss {
    struct native_base base;
    struct native_list types;
    uint32_t window, experts, chosen;
    double limit;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct gpt_oss),
    NATIVE_ROPE_FROM(struct gpt_oss, base.rope, 150000, 1),
    NATIVE_INTERMEDIATE(struct gpt_oss),
    NATIVE_RMS_EPS(struct gpt_oss, 1e-5),
    NATIVE_TIED(struct gpt_oss, false),
    NATIVE_FLAG(struct gpt_oss, base.bias, "attention_bias", true),
    NATIVE_WORDS(struct gpt_oss, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_COUNT(struct gpt_oss, window, "sliding_window", 1, 1 << 26, 128),
    NATIVE_COUNT(struct gpt_oss, experts, "num_local_experts|num_experts", 1, 4096, 128),
    NATIVE_COUNT(struct gpt_oss, chosen, "num_experts_per_tok|experts_per_token", 1, 64, 4),
    NATIVE_NUMBER(struct gpt_oss, limit, "swiglu_limit", 1e-3, 1e6, 7),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct gpt_oss *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    struct native_moe moe =
        native_moe_of("mlp.router", NULL, c->experts, c->chosen, c->base.intermediate);
    moe.router_bias = true;
    moe.names = (struct native_expert_names){.gate = "mlp.experts.gate_up_proj",
                                             .down = "mlp.experts.down_proj",
                                             .gate_bias = "mlp.experts.gate_up_proj_bias",
                                             .down_bias = "mlp.experts.down_proj_bias",
                                             .transposed = true};
    moe.experts.act = NATIVE_CLIPPED;
    moe.experts.interleaved = true;
    moe.experts.limit = (float)c->limit;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool slides = c->types.count > 0 ? native_slides(&c->types, n, 0) : n % 2 == 0;
        struct native_gqa a = native_gqa_of(&c->base, rope, slides ? c->window : 0);
        native_layer(b, "model.layers.%u.", n);
        a.attend.sinks = "self_attn.sinks";
        native_llama_attention(b, &c->base, &a);
        native_llama_moe(b, &c->base, &moe);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(gpt_oss, struct gpt_oss, NATIVE_NAMES("gpt_oss"),
            NATIVE_NAMES("GptOssForCausalLM"));
