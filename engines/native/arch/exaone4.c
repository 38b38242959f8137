/* native/arch/exaone4.c - EXAONE 4: norms behind attention and MLP, a norm on each head of Q
 * and K.  Where layers slide, the others rotate no positions. */
#include "engines/native/arch/arch.h"

struct exaone4 {
    struct native_base base;
    struct native_list types;
    uint32_t window, pattern;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct exaone4),
    NATIVE_INTERMEDIATE(struct exaone4),
    NATIVE_RMS_EPS(struct exaone4, 1e-5),
    NATIVE_TIED(struct exaone4, false),
    NATIVE_WORDS(struct exaone4, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_COUNT_OR_NULL(struct exaone4, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_COUNT_OR_TEXT(struct exaone4, pattern, "sliding_window_pattern", 0, 512, 4),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct exaone4 *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool slides = c->window != 0 && native_slides(&c->types, n, c->pattern);
        struct native_gqa a = native_gqa_of(
            &c->base, c->window == 0 || slides ? rope : NATIVE_NONE, slides ? c->window : 0);
        a.norm = NATIVE_QK_HEADS;
        native_layer(b, "model.layers.%u.", n);
        reg out = native_gqa(b, X, hidden, &a);
        native_add(b, X, native_norm(b, out, "post_attention_layernorm", c->base.eps), 1);
        out = native_usual_mlp(b, X, &c->base, NATIVE_SILU);
        native_add(b, X, native_norm(b, out, "post_feedforward_layernorm", c->base.eps), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(exaone4, struct exaone4, NATIVE_NAMES("exaone4"),
            NATIVE_NAMES("Exaone4ForCausalLM"));
