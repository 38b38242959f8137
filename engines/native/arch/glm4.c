/* native/arch/glm4.c - GLM-4 (0414): norms on both sides of attention and MLP, half of each
 * head rotated in pairs of neighbours.  GLM-4 (9b) has only the norms before them. */
#include "engines/native/arch/arch.h"

struct glm4 {
    struct native_base base;
    uint32_t kind;
};

enum { GLM4, GLM };

static const struct native_field fields[] = {
    NATIVE_BASE(struct glm4),
    NATIVE_INTERMEDIATE(struct glm4),
    NATIVE_RMS_EPS(struct glm4, 1.5625e-7),
    NATIVE_TIED(struct glm4, false),
    NATIVE_ROPE_FROM(struct glm4, base.rope, 10000, 0.5),
    NATIVE_FLAG(struct glm4, base.bias, "attention_bias", true),
    NATIVE_KIND(struct glm4, kind, "glm4|glm"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct glm4 *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.interleaved = true;
    a.out_bias = false;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    mlp.gate = "mlp.gate_up_proj";
    mlp.up = NULL;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        if (c->kind == GLM) {
            native_llama_layer(b, &c->base, n, &a, &mlp);
            continue;
        }
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        h = native_gqa(b, h, hidden, &a);
        native_add(b, X, native_norm(b, h, "post_self_attn_layernorm", c->base.eps), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        h = native_mlp(b, h, hidden, &mlp);
        native_add(b, X, native_norm(b, h, "post_mlp_layernorm", c->base.eps), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(glm4, struct glm4, NATIVE_NAMES("glm4", "glm"),
            NATIVE_NAMES("Glm4ForCausalLM", "GlmForCausalLM"));
