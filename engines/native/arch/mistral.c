/* native/arch/mistral.c - Mistral and Ministral 3: Llama with a window, or with queries that
 * grow with their position.
 *
 * Mistral Small 3.1 and Ministral 3 come in a wrapper with a tower for images.
 */
#include "engines/native/arch/arch.h"

struct mistral {
    struct native_base base;
    uint32_t window;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct mistral),
    NATIVE_INTERMEDIATE(struct mistral),
    NATIVE_RMS_EPS(struct mistral, 1e-5),
    NATIVE_TIED(struct mistral, false),
    NATIVE_COUNT(struct mistral, window, "sliding_window", 1, 1 << 26, 0),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct mistral *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_gqa a = native_gqa_of(
        &c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), c->window);
    a.attend.query_beta = c->base.rope.query_beta;
    a.attend.query_floor = c->base.rope.original;
    if (a.attend.query_beta > 0 && a.attend.query_floor == 0)
        native_refuse(b, "config.json: \"llama_4_scaling_beta\" without "
                         "\"original_max_position_embeddings\"");
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X, native_usual_mlp(b, h, &c->base, NATIVE_SILU), 1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(mistral, struct mistral, NATIVE_NAMES("mistral", "mistral3", "ministral3"),
            NATIVE_NAMES("MistralForCausalLM", "Mistral3ForConditionalGeneration",
                         "Ministral3ForCausalLM"));
