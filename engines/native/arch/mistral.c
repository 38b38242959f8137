/* native/arch/mistral.c - Mistral and Ministral 3: Llama with a window, or with queries that
 * grow with their position.
 *
 * Mistral Small 3.1 and Ministral 3 come in a wrapper with a tower for images.
 */
#include "engines/native/arch/arch.h"

struct mistral {
    struct native_base base;
    struct native_list types;
    uint32_t kind, window;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct mistral),
    NATIVE_INTERMEDIATE(struct mistral),
    NATIVE_RMS_EPS(struct mistral, 1e-5),
    NATIVE_TIED(struct mistral, false),
    NATIVE_COUNT_OR_NULL(struct mistral, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_KIND(struct mistral, kind, "mistral|ministral|ministral3"),
    NATIVE_WORDS(struct mistral, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct mistral *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.attend.query_beta = c->base.rope.query_beta;
    a.attend.query_floor = c->base.rope.original;
    if (a.attend.query_beta > 0 && a.attend.query_floor == 0)
        native_refuse(b, "config.json: \"llama_4_scaling_beta\" without "
                         "\"original_max_position_embeddings\"");
    for (uint32_t n = 0; n < c->base.layers; n++) {
        a.attend.window = n < c->types.count && c->types.at[n] == 0 ? 0 : c->window;
        native_llama_layer(b, &c->base, n, &a, &mlp);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(mistral, struct mistral,
            NATIVE_NAMES("mistral", "mistral3", "ministral", "ministral3"),
            NATIVE_NAMES("MistralForCausalLM", "Mistral3ForConditionalGeneration",
                         "MinistralForCausalLM", "Ministral3ForCausalLM"));
