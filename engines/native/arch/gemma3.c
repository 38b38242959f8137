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
    /* The wrappers' configs leave out what is Gemma 3's usual. */
    NATIVE_COUNT(struct gemma3, base.hidden, "hidden_size", 1, 65536, 2304),
    NATIVE_COUNT(struct gemma3, base.layers, "num_hidden_layers", 1, MODEL_LAYERS_MAX, 26),
    NATIVE_COUNT(struct gemma3, base.heads, "num_attention_heads", 1, 1024, 8),
    NATIVE_COUNT(struct gemma3, base.kv_heads, "num_key_value_heads", 1, 1024, 4),
    NATIVE_COUNT(struct gemma3, base.head_size, "head_dim", 1, 1024, 256),
    NATIVE_COUNT(struct gemma3, base.vocab, "vocab_size", 1, 1 << 22, 262208),
    NATIVE_COUNT(struct gemma3, base.context, "max_position_embeddings", 1, 1 << 26, 131072),
    NATIVE_COUNT(struct gemma3, base.intermediate, "intermediate_size", 1, 1 << 20, 9216),
    NATIVE_RMS_EPS(struct gemma3, 1e-6),
    NATIVE_TIED(struct gemma3, true),
    NATIVE_BIAS(struct gemma3),
    NATIVE_ROPE_OF(struct gemma3, base.rope, "full_attention", 1e6),
    NATIVE_ROPE_OF(struct gemma3, sliding, "sliding_attention", 10000),
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

    if (!c->sliding.own)
        c->sliding.theta = c->local_theta;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", sqrt((double)c->base.hidden)))
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
        native_gemma_layer(b, &c->base, &a);
    }
    native_layer(b, "", 0);
    reg h = native_plus_one_norm(b, X, "model.norm", c->base.eps);
    if (c->both_ways || native_gives_vectors(b))
        native_end_vector(b, h);
    else
        native_softcap(b, native_usual_logits(b, &c->base, h, "model.embed_tokens"),
                       c->logit_softcap);
}

NATIVE_ARCH(gemma3, struct gemma3, NATIVE_NAMES("gemma3_text", "gemma3"),
            NATIVE_NAMES("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration",
                         "Gemma3TextModel"));
