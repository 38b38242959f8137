/* native/arch/stablelm.c - StableLM 2: Llama with layer norms, of which a part of each head is
 * rotated; some sizes have attention and MLP beside each other. */
#include "engines/native/arch/arch.h"

struct stablelm {
    struct native_base base;
    bool parallel;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct stablelm),
    NATIVE_INTERMEDIATE(struct stablelm),
    NATIVE_ROPE_FROM(struct stablelm, base.rope, 10000, 0.25),
    NATIVE_NUMBER(struct stablelm, base.eps, "layer_norm_eps", 0, 1, 1e-5),
    NATIVE_TIED(struct stablelm, false),
    NATIVE_FLAG(struct stablelm, base.bias, "use_qkv_bias", false),
    NATIVE_FLAG(struct stablelm, parallel, "use_parallel_residual", false),
    NATIVE_ONLY_FLAG("qk_layernorm", false),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct stablelm *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.out_bias = false;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_layer_norm(b, X, "input_layernorm", true, c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        if (!c->parallel)
            h = native_layer_norm(b, X, "post_attention_layernorm", true, c->base.eps);
        native_add(b, X, native_usual_mlp(b, h, &c->base, NATIVE_SILU), 1);
    }
    native_layer(b, "", 0);
    reg h = native_layer_norm(b, X, "model.norm", true, c->base.eps);
    native_usual_logits(b, &c->base, h, "model.embed_tokens");
}

NATIVE_ARCH(stablelm, struct stablelm, NATIVE_NAMES("stablelm"),
            NATIVE_NAMES("StableLmForCausalLM"));
