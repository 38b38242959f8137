/* native/arch/phi.c - Phi 1, 1.5 and 2: attention and a plain MLP beside each other, behind one
 * layer norm; a part of each head is rotated, and every matrix has a bias. */
#include "engines/native/arch/arch.h"

struct phi {
    struct native_base base;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct phi),
    NATIVE_INTERMEDIATE(struct phi),
    NATIVE_ROPE_FROM(struct phi, base.rope, 10000, 0.5),
    NATIVE_NUMBER(struct phi, base.eps, "layer_norm_eps", 0, 1, 1e-5),
    NATIVE_TIED(struct phi, false),
    NATIVE_ONLY_FLAG("qk_layernorm", false),
    NATIVE_ONLY("hidden_act", "gelu_new|gelu_pytorch_tanh"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct phi *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.bias = a.out_bias = true;
    a.out = "self_attn.dense";
    const struct native_mlp mlp = {.up = "mlp.fc1",
                                   .down = "mlp.fc2",
                                   .inner = c->base.intermediate,
                                   .act = NATIVE_GELU_TANH,
                                   .bias = true};
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_layer_norm(b, X, "input_layernorm", true, c->base.eps);
        reg attention = native_gqa(b, h, hidden, &a);
        native_add(b, X, native_plain_mlp(b, h, hidden, &mlp), 1);
        native_add(b, X, attention, 1);
    }
    native_layer(b, "", 0);
    reg h = native_layer_norm(b, X, "model.final_layernorm", true, c->base.eps);
    native_unembed(b, h, c->base.tied ? "model.embed_tokens" : "lm_head", c->base.vocab,
                   !c->base.tied);
}

NATIVE_ARCH(phi, struct phi, NATIVE_NAMES("phi"), NATIVE_NAMES("PhiForCausalLM"));
