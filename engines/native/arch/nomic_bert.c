/* native/arch/nomic_bert.c - Nomic Embed 1 and 1.5: BERT with a rope in the place of learned
 * positions, a gated MLP and no biases; a norm behind each sum.
 *
 *   x = norm(embed(tokens) + embed(type 0))
 *   each layer:  x = norm(x + linear(attend(rope(q), rope(k), v)));  x = norm(x + mlp(x))
 *   vector = pool(x)
 */
#include "engines/native/arch/arch.h"

struct nomic_bert {
    struct native_base base;
    uint32_t types;
};

static const struct native_field fields[] = {
    NATIVE_COUNT(struct nomic_bert, base.hidden, "n_embd|hidden_size", 1, 65536,
                 NATIVE_REQUIRED),
    NATIVE_COUNT(struct nomic_bert, base.layers, "n_layer|num_hidden_layers", 1,
                 MODEL_LAYERS_MAX, NATIVE_REQUIRED),
    NATIVE_COUNT(struct nomic_bert, base.heads, "n_head|num_attention_heads", 1, 1024,
                 NATIVE_REQUIRED),
    NATIVE_COUNT(struct nomic_bert, base.intermediate, "n_inner|intermediate_size", 1, 1 << 20,
                 NATIVE_REQUIRED),
    NATIVE_COUNT(struct nomic_bert, base.vocab, "vocab_size", 1, 1 << 22, NATIVE_REQUIRED),
    NATIVE_COUNT(struct nomic_bert, base.context, "n_positions|max_position_embeddings", 1,
                 1 << 26, 2048),
    NATIVE_ROPE_FROM(struct nomic_bert, base.rope, 1000, 1),
    NATIVE_NUMBER(struct nomic_bert, base.eps, "layer_norm_epsilon|layer_norm_eps", 0, 1,
                  1e-12),
    NATIVE_COUNT(struct nomic_bert, types, "type_vocab_size", 1, 1 << 16, 2),
    NATIVE_ONLY("activation_function|hidden_act", "swiglu|silu"),
    NATIVE_ONLY_FLAG("prenorm", false),
    NATIVE_ONLY_FLAG("use_rms_norm", false),
    NATIVE_ONLY_FLAG("qkv_proj_bias", false),
    NATIVE_ONLY_FLAG("mlp_fc1_bias", false),
    NATIVE_ONLY_FLAG("mlp_fc2_bias", false),
    NATIVE_ONLY_FLAG("rotary_emb_interleaved", false),
    NATIVE_ONLY_COUNT("rotary_emb_fraction", 1),
    NATIVE_ONLY_COUNT("num_experts", 0),
    NATIVE_END,
};

static void nomic_norm(struct native_builder *b, reg in, const char *name, double eps)
{
    native_add(b, X, in, 1);
    (void)native_norm_with(b, X, X, NATIVE_NO_REG, name, true,
                           &(struct native_norm){.eps = (float)eps, .layer = true});
}

static void build(struct native_builder *b, void *config)
{
    struct nomic_bert *c = config;
    uint32_t hidden = c->base.hidden;

    if (!native_usual_begin(b, &c->base, "embeddings.word_embeddings", 1))
        return;
    uint32_t size = c->base.head_size, rows = c->base.heads * size;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, size, 0), 0);
    a.q = native_name(b, "attn.Wqkv[0:%u]", rows);
    a.k = native_name(b, "attn.Wqkv[%u:%u]", rows, rows);
    a.v = native_name(b, "attn.Wqkv[%u:%u]", 2 * rows, rows);
    a.out = "attn.out_proj";
    a.attend.both_ways = true;
    const struct native_mlp mlp = {.gate = "mlp.fc12",
                                   .up = "mlp.fc11",
                                   .down = "mlp.fc2",
                                   .inner = c->base.intermediate,
                                   .act = NATIVE_SILU};
    native_embed_add(b, X, "embeddings.token_type_embeddings", c->types, NATIVE_FIRST_ROW, 0);
    (void)native_norm_with(b, X, X, NATIVE_NO_REG, "emb_ln", true,
                           &(struct native_norm){.eps = (float)c->base.eps, .layer = true});
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "encoder.layers.%u.", n);
        nomic_norm(b, native_gqa(b, X, hidden, &a), "norm1", c->base.eps);
        nomic_norm(b, native_mlp(b, X, hidden, &mlp), "norm2", c->base.eps);
    }
    native_layer(b, "", 0);
    native_end_vector(b, X);
}

NATIVE_ARCH(nomic_bert, struct nomic_bert, NATIVE_NAMES("nomic_bert"),
            NATIVE_NAMES("NomicBertModel"));
