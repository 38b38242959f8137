/* native/arch/olmo3.c - OLMo 3: norms behind attention and MLP, one norm over all of Q and of
 * K; three of four layers slide, and only the others scale their rope.  OLMo 2 has no windows.
 */
#include "engines/native/arch/arch.h"

struct olmo3 {
    struct native_base base;
    struct native_rope sliding;
    struct native_list types;
    uint32_t kind, window;
};

enum { OLMO3, OLMO2 };

static const struct native_field fields[] = {
    NATIVE_BASE(struct olmo3),
    NATIVE_INTERMEDIATE(struct olmo3),
    NATIVE_RMS_EPS(struct olmo3, 1e-5),
    NATIVE_TIED(struct olmo3, false),
    NATIVE_BIAS(struct olmo3),
    NATIVE_ROPE_OF(struct olmo3, base.rope, "full_attention", 500000),
    NATIVE_ROPE_OF(struct olmo3, sliding, "sliding_attention", 500000),
    NATIVE_WORDS(struct olmo3, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_COUNT(struct olmo3, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_KIND(struct olmo3, kind, "olmo3|olmo2"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct olmo3 *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t full = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    uint32_t near = native_rope_table(b, &c->sliding, c->base.head_size, 0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool slides = c->kind == OLMO3 && native_slides(&c->types, n, 4);
        struct native_gqa a =
            native_gqa_of(&c->base, slides ? near : full, slides ? c->window : 0);
        a.norm = NATIVE_QK_WHOLE;
        native_layer(b, "model.layers.%u.", n);
        reg out = native_gqa(b, X, hidden, &a);
        native_add(b, X, native_norm(b, out, "post_attention_layernorm", c->base.eps), 1);
        out = native_usual_mlp(b, X, &c->base, NATIVE_SILU);
        native_add(b, X, native_norm(b, out, "post_feedforward_layernorm", c->base.eps), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(olmo3, struct olmo3, NATIVE_NAMES("olmo3", "olmo2"),
            NATIVE_NAMES("Olmo3ForCausalLM", "Olmo2ForCausalLM"));
