/* native/arch/glm4_moe.c - GLM-4.5 to 4.7: grouped attention of which half a head is rotated,
 * experts of DeepSeek V3. */
#include "engines/native/arch/arch.h"

struct glm4_moe {
    struct native_base base;
    struct native_grouped_experts moe;
    bool qk_norm;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct glm4_moe),
    NATIVE_ROPE_FROM(struct glm4_moe, base.rope, 10000, 0.5),
    NATIVE_INTERMEDIATE(struct glm4_moe),
    NATIVE_RMS_EPS(struct glm4_moe, 1e-5),
    NATIVE_TIED(struct glm4_moe, false),
    NATIVE_BIAS(struct glm4_moe),
    NATIVE_GROUPED_EXPERTS(struct glm4_moe, moe),
    NATIVE_FLAG(struct glm4_moe, qk_norm, "use_qk_norm", false),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct glm4_moe *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.out_bias = false;
    a.norm = c->qk_norm ? NATIVE_QK_HEADS : NATIVE_QK_PLAIN;
    native_ignore_layers(b, c->base.layers);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X,
                   n < c->moe.dense_layers ? native_usual_mlp(b, h, &c->base, NATIVE_SILU)
                                           : native_grouped_experts(b, h, hidden, &c->moe),
                   1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(glm4_moe, struct glm4_moe, NATIVE_NAMES("glm4_moe"),
            NATIVE_NAMES("Glm4MoeForCausalLM"));
