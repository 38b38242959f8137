/* native/arch/qwen2_moe.c - Qwen 1.5 and 2 MoE: Qwen2 with experts in the place of the MLP, and
 * one more that every token has, behind a gate. */
#include "engines/native/arch/arch.h"

struct qwen2_moe {
    struct native_base base;
    struct native_windows windows;
    uint32_t experts, chosen, inner, shared, every;
    struct native_list dense; /* layers with a plain MLP */
    bool normalize;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct qwen2_moe),
    NATIVE_INTERMEDIATE(struct qwen2_moe),
    NATIVE_RMS_EPS(struct qwen2_moe, 1e-6),
    NATIVE_TIED(struct qwen2_moe, false),
    NATIVE_FLAG(struct qwen2_moe, base.bias, "qkv_bias", true),
    NATIVE_WINDOWS(struct qwen2_moe, windows),
    NATIVE_COUNT(struct qwen2_moe, experts, "num_experts", 1, 4096, 60),
    NATIVE_COUNT(struct qwen2_moe, chosen, "num_experts_per_tok", 1, 64, 4),
    NATIVE_COUNT(struct qwen2_moe, inner, "moe_intermediate_size", 1, 1 << 20, 1408),
    NATIVE_COUNT(struct qwen2_moe, shared, "shared_expert_intermediate_size", 1, 1 << 20, 5632),
    NATIVE_COUNT(struct qwen2_moe, every, "decoder_sparse_step", 1, 512, 1),
    NATIVE_NUMBERS(struct qwen2_moe, dense, "mlp_only_layers", 0, 512),
    NATIVE_FLAG(struct qwen2_moe, normalize, "norm_topk_prob", false),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

/* Without a list the layers with even numbers slide, up to max_window_layers. */
static uint32_t window_of(const struct native_windows *w, uint32_t n)
{
    if (n < w->types.count)
        return native_window_of(w, n);
    return w->used && n % 2 == 0 && n < w->from ? w->size : 0;
}

static void build(struct native_builder *b, void *config)
{
    struct qwen2_moe *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.out_bias = false;
    struct native_moe moe =
        native_moe_of("mlp.gate", "mlp.experts", c->experts, c->chosen, c->inner);
    moe.route.normalize = c->normalize;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        a.attend.window = window_of(&c->windows, n);
        native_layer(b, "model.layers.%u.", n);
        native_llama_attention(b, &c->base, &a);
        if (native_lists(&c->dense, n) || (n + 1) % c->every != 0) {
            native_llama_mlp(b, &c->base, &mlp);
            continue;
        }
        reg h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_moe(b, h, hidden, &moe), 1);
        native_add(b, X, native_gated_expert(b, h, hidden, c->shared), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(qwen2_moe, struct qwen2_moe, NATIVE_NAMES("qwen2_moe"),
            NATIVE_NAMES("Qwen2MoeForCausalLM"));
