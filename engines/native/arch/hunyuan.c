/* native/arch/hunyuan.c - Hunyuan dense: Llama with a norm on each head of Q and K behind the
 * rope, whose base grows by a constant `alpha`. */
#include "engines/native/arch/arch.h"

struct hunyuan {
    struct native_base base;
    bool qk_norm;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct hunyuan),
    NATIVE_INTERMEDIATE(struct hunyuan),
    NATIVE_RMS_EPS(struct hunyuan, 1e-5),
    NATIVE_TIED(struct hunyuan, false),
    NATIVE_BIAS(struct hunyuan),
    NATIVE_FLAG(struct hunyuan, qk_norm, "use_qk_norm", true),
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
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.norm = c->qk_norm ? NATIVE_QK_HEADS_AFTER : NATIVE_QK_PLAIN;
    a.q_norm = "self_attn.query_layernorm";
    a.k_norm = "self_attn.key_layernorm";
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_usual_mlp(b, h, &c->base, NATIVE_SILU), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(hunyuan, struct hunyuan, NATIVE_NAMES("hunyuan_v1_dense"),
            NATIVE_NAMES("HunYuanDenseV1ForCausalLM"));
