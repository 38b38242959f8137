/* native/arch/cohere2.c - Command R7B and Command A: attention and MLP beside each other,
 * behind one layer norm; only layers that slide rotate positions.  In Command R all layers see
 * everything and rotate. */
#include "engines/native/arch/arch.h"

struct cohere2 {
    struct native_base base;
    struct native_list types;
    uint32_t kind, window, pattern;
    double logit_scale;
    bool qk_norm;
};

enum { COHERE2, COHERE };

static const struct native_field fields[] = {
    NATIVE_BASE(struct cohere2),
    NATIVE_INTERMEDIATE(struct cohere2),
    NATIVE_NUMBER(struct cohere2, base.eps, "layer_norm_eps", 0, 1, 1e-5),
    NATIVE_FLAG(struct cohere2, base.tied, "tie_word_embeddings|use_embedding_sharing", true),
    NATIVE_BIAS(struct cohere2),
    NATIVE_WORDS(struct cohere2, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_COUNT(struct cohere2, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_COUNT(struct cohere2, pattern, "sliding_window_pattern", 1, 512, 4),
    NATIVE_NUMBER(struct cohere2, logit_scale, "logit_scale", 1e-6, 1e6, 0.0625),
    NATIVE_ONLY_FLAG("use_parallel_block", true),
    NATIVE_ONLY_FLAG("use_gated_activation", true),
    NATIVE_KIND(struct cohere2, kind, "cohere2|cohere"),
    NATIVE_FLAG(struct cohere2, qk_norm, "use_qk_norm", false),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct cohere2 *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool slides = c->kind == COHERE2 && native_slides(&c->types, n, c->pattern);
        bool rotates = slides || c->kind == COHERE;
        struct native_gqa a =
            native_gqa_of(&c->base, rotates ? rope : NATIVE_NONE, slides ? c->window : 0);
        a.norm = c->qk_norm ? NATIVE_QK_OWN : NATIVE_QK_PLAIN;
        a.interleaved = true;
        native_layer(b, "model.layers.%u.", n);
        reg h = native_layer_norm(b, X, "input_layernorm", false, c->base.eps);
        reg attention = native_gqa(b, h, hidden, &a);
        reg mlp = native_usual_mlp(b, h, &c->base, NATIVE_SILU);
        native_add(b, X, attention, 1);
        native_add(b, X, mlp, 1);
    }
    native_layer(b, "", 0);
    reg h = native_layer_norm(b, X, "model.norm", false, c->base.eps);
    native_scale(b, native_usual_logits(b, &c->base, h, "model.embed_tokens"), c->logit_scale);
}

NATIVE_ARCH(cohere2, struct cohere2, NATIVE_NAMES("cohere2", "cohere"),
            NATIVE_NAMES("Cohere2ForCausalLM", "CohereForCausalLM"));
