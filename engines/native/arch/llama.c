/* native/arch/llama.c - Llama and the many models of its shape: grouped attention and a gated
 * MLP, a norm before each.
 *
 *   x = x + linear(attend(rope(q), rope(k), v));  x = x + mlp(norm(x))
 */
#include "engines/native/arch/arch.h"

struct llama {
    struct native_base base;
    bool mlp_bias;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct llama),          NATIVE_INTERMEDIATE(struct llama),
    NATIVE_RMS_EPS(struct llama, 1e-6), NATIVE_TIED(struct llama, false),
    NATIVE_BIAS(struct llama),          NATIVE_FLAG(struct llama, mlp_bias, "mlp_bias", false),
    NATIVE_ONLY("hidden_act", "silu"),  NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct llama *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    mlp.bias = c->mlp_bias;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_mlp(b, h, hidden, &mlp), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(llama, struct llama, NATIVE_NAMES("llama"), NATIVE_NAMES("LlamaForCausalLM"));
