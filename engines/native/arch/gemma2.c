/* native/arch/gemma2.c - Gemma and Gemma 2: norms that multiply by 1 + weight; in Gemma 2 on
 * both sides of attention and MLP, every second layer slides, and scores and logits have a soft
 * cap. */
#include <math.h>

#include "engines/native/arch/arch.h"

struct gemma2 {
    struct native_base base;
    struct native_list types;
    uint32_t kind, window, act;
    double query_scale, softcap, logit_softcap;
};

enum { GEMMA2, GEMMA };

static const struct native_field fields[] = {
    NATIVE_BASE(struct gemma2),
    NATIVE_INTERMEDIATE(struct gemma2),
    NATIVE_RMS_EPS(struct gemma2, 1e-6),
    NATIVE_TIED(struct gemma2, true),
    NATIVE_BIAS(struct gemma2),
    NATIVE_KIND(struct gemma2, kind, "gemma2|gemma"),
    NATIVE_WORDS(struct gemma2, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_COUNT_OR_NULL(struct gemma2, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_NUMBER(struct gemma2, query_scale, "query_pre_attn_scalar", 1e-6, 1e6, 256),
    NATIVE_NUMBER_OR_NULL(struct gemma2, softcap, "attn_logit_softcapping", 0, 1e6, 50),
    NATIVE_NUMBER_OR_NULL(struct gemma2, logit_softcap, "final_logit_softcapping", 0, 1e6, 30),
    NATIVE_ONLY_FLAG("use_bidirectional_attention", false),
    /* Gemma's configs say "gelu" and mean its tanh form, as transformers does. */
    NATIVE_ONLY("hidden_activation", "gelu_pytorch_tanh"),
    NATIVE_ONLY("hidden_act", "gelu|gelu_pytorch_tanh"),
    NATIVE_END,
};

/* Gemma: a norm before attention and MLP. */
static void gemma_layer(struct native_builder *b, const struct gemma2 *c,
                        const struct native_gqa *a)
{
    reg h = native_plus_one_norm(b, X, "input_layernorm", c->base.eps);

    native_add(b, X, native_gqa(b, h, c->base.hidden, a), 1);
    h = native_plus_one_norm(b, X, "post_attention_layernorm", c->base.eps);
    native_add(b, X, native_usual_mlp(b, h, &c->base, NATIVE_GELU_TANH), 1);
}

static void build(struct native_builder *b, void *config)
{
    struct gemma2 *c = config;

    if (c->base.head_size == 0)
        c->base.head_size = 256;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", sqrt((double)c->base.hidden)))
        return;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    if (c->kind == GEMMA2) {
        a.attend.scale = 1 / sqrt(c->query_scale);
        a.attend.softcap = c->softcap;
    }
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        a.attend.window = c->kind == GEMMA2 && native_slides(&c->types, n, 2) ? c->window : 0;
        if (c->kind == GEMMA)
            gemma_layer(b, c, &a);
        else
            native_gemma_layer(b, &c->base, &a);
    }
    native_layer(b, "", 0);
    reg h = native_plus_one_norm(b, X, "model.norm", c->base.eps);
    h = native_usual_logits(b, &c->base, h, "model.embed_tokens");
    if (c->kind == GEMMA2 && !native_gives_vectors(b))
        native_softcap(b, h, c->logit_softcap);
}

NATIVE_ARCH(gemma2, struct gemma2, NATIVE_NAMES("gemma2", "gemma"),
            NATIVE_NAMES("Gemma2ForCausalLM", "GemmaForCausalLM"));
