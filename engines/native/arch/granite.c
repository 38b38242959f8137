/* native/arch/granite.c - Granite: Llama with four constant factors. */
#include "engines/native/arch/arch.h"

struct granite {
    struct native_base base;
    double embedding, logits, residual, attention;
    bool mlp_bias;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct granite),
    NATIVE_INTERMEDIATE(struct granite),
    NATIVE_RMS_EPS(struct granite, 1e-6),
    NATIVE_TIED(struct granite, false),
    NATIVE_BIAS(struct granite),
    NATIVE_FLAG(struct granite, mlp_bias, "mlp_bias", false),
    NATIVE_NUMBER(struct granite, embedding, "embedding_multiplier", 1e-6, 1e6, 1),
    NATIVE_NUMBER(struct granite, logits, "logits_scaling", 1e-6, 1e6, 1),
    NATIVE_NUMBER(struct granite, residual, "residual_multiplier", 1e-6, 1e6, 1),
    NATIVE_NUMBER(struct granite, attention, "attention_multiplier", 1e-6, 1e6, 1),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct granite *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", c->embedding))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    mlp.bias = c->mlp_bias;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.attend.scale = c->attention;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), c->residual);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_mlp(b, h, hidden, &mlp), c->residual);
    }
    native_scale(b, native_usual_end(b, &c->base, "model.norm", "model.embed_tokens"),
                 1 / c->logits);
}

NATIVE_ARCH(granite, struct granite, NATIVE_NAMES("granite"),
            NATIVE_NAMES("GraniteForCausalLM"));
