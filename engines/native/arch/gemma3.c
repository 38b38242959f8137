/* native/arch/gemma3.c - Gemma 3: norms on both sides of attention and MLP that multiply by
 * 1 + weight; five of six layers slide, with a rope of their own.
 *
 * The larger ones come in a wrapper with a tower for images.  EmbeddingGemma is the same with
 * attention that looks both ways.
 */
#include <math.h>

#include "engines/native/arch/arch.h"

struct gemma3 {
    struct native_base base;
    struct native_rope sliding;
    struct native_list types;
    uint32_t window, pattern;
    double local_theta, query_scale, softcap, logit_softcap;
    bool both_ways;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct gemma3),
    NATIVE_INTERMEDIATE(struct gemma3),
    NATIVE_RMS_EPS(struct gemma3, 1e-6),
    NATIVE_TIED(struct gemma3, true),
    NATIVE_BIAS(struct gemma3),
    NATIVE_ROPE_OF(struct gemma3, base.rope, "full_attention"),
    NATIVE_ROPE_OF(struct gemma3, sliding, "sliding_attention"),
    NATIVE_NUMBER(struct gemma3, local_theta, "rope_local_base_freq", 1.001, 1e12, 10000),
    NATIVE_WORDS(struct gemma3, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_COUNT(struct gemma3, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_COUNT(struct gemma3, pattern, "sliding_window_pattern|_sliding_window_pattern", 1,
                 512, 6),
    NATIVE_NUMBER(struct gemma3, query_scale, "query_pre_attn_scalar", 1e-6, 1e6, 256),
    NATIVE_NUMBER(struct gemma3, softcap, "attn_logit_softcapping", 0, 1e6, 0),
    NATIVE_NUMBER(struct gemma3, logit_softcap, "final_logit_softcapping", 0, 1e6, 0),
    NATIVE_FLAG(struct gemma3, both_ways, "use_bidirectional_attention", false),
    NATIVE_ONLY("hidden_activation|hidden_act", "gelu_pytorch_tanh"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct gemma3 *c = config;
    uint32_t hidden = c->base.hidden;
    double eps = c->base.eps;

    if (c->base.head_size == 0)
        c->base.head_size = 256;
    if (!c->sliding.own)
        c->sliding.theta = c->local_theta;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", sqrt((double)hidden)))
        return;
    uint32_t full = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    uint32_t near = native_rope_table(b, &c->sliding, c->base.head_size, 0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool slides = native_slides(&c->types, n, c->pattern);
        struct native_gqa a =
            native_gqa_of(&c->base, slides ? near : full, slides ? c->window : 0);
        a.attend.scale = 1 / sqrt(c->query_scale);
        a.attend.softcap = c->softcap;
        a.attend.both_ways = c->both_ways;
        a.norm = NATIVE_QK_HEADS;
        a.plus_one = true;
        native_layer(b, "model.layers.%u.", n);
        reg h = native_plus_one_norm(b, X, "input_layernorm", eps);
        h = native_gqa(b, h, hidden, &a);
        native_add(b, X, native_plus_one_norm(b, h, "post_attention_layernorm", eps), 1);
        h = native_plus_one_norm(b, X, "pre_feedforward_layernorm", eps);
        h = native_usual_mlp(b, h, &c->base, NATIVE_GELU_TANH);
        native_add(b, X, native_plus_one_norm(b, h, "post_feedforward_layernorm", eps), 1);
    }
    native_layer(b, "", 0);
    reg h = native_plus_one_norm(b, X, "model.norm", eps);
    if (c->both_ways || native_gives_vectors(b))
        native_end_vector(b, h);
    else
        native_softcap(b, native_usual_logits(b, &c->base, h, "model.embed_tokens"),
                       c->logit_softcap);
}

NATIVE_ARCH(gemma3, struct gemma3, NATIVE_NAMES("gemma3_text", "gemma3"),
            NATIVE_NAMES("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration",
                         "Gemma3TextModel"));
