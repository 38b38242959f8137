/* native/arch/hunyuan.c - Hunyuan, dense and MoE: Llama with a norm on each head of Q and K
 * behind the rope, whose base grows by a constant `alpha`.  Its experts stand beside an MLP. */
#include "engines/native/arch/arch.h"

struct hunyuan {
    struct native_base base;
    uint32_t experts, chosen;
    bool qk_norm;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct hunyuan),
    NATIVE_INTERMEDIATE(struct hunyuan),
    NATIVE_RMS_EPS(struct hunyuan, 1e-5),
    NATIVE_TIED(struct hunyuan, false),
    NATIVE_BIAS(struct hunyuan),
    NATIVE_FLAG(struct hunyuan, qk_norm, "use_qk_norm", true),
    NATIVE_COUNT_OR_TEXT(struct hunyuan, experts, "num_experts", 1, 4096, 1),
    NATIVE_COUNT_OR_TEXT(struct hunyuan, chosen, "moe_topk", 1, 64, 1),
    NATIVE_ONLY_FLAG("use_cla", false),
    NATIVE_ONLY_FLAG("mlp_bias", false),
    NATIVE_ONLY("norm_type", "rms"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct hunyuan *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    bool moe = native_has(b, "model.layers.0.mlp.gate.wg");
    struct native_moe experts = native_moe_of("mlp.gate.wg", "mlp.experts", c->experts,
                                              c->chosen, c->base.intermediate);
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    if (moe) {
        mlp.gate = "mlp.shared_mlp.gate_proj";
        mlp.up = "mlp.shared_mlp.up_proj";
        mlp.down = "mlp.shared_mlp.down_proj";
    }
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.norm = c->qk_norm ? NATIVE_QK_HEADS_AFTER : NATIVE_QK_PLAIN;
    a.q_norm = "self_attn.query_layernorm";
    a.k_norm = "self_attn.key_layernorm";
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        native_llama_attention(b, &c->base, &a);
        reg h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_mlp(b, h, hidden, &mlp), 1);
        if (moe)
            native_add(b, X, native_moe(b, h, hidden, &experts), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(hunyuan, struct hunyuan,
            NATIVE_NAMES("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan"),
            NATIVE_NAMES("HunYuanDenseV1ForCausalLM", "HunYuanMoEV1ForCausalLM"));
