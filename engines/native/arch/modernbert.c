/* native/arch/modernbert.c - ModernBERT: attention that looks both ways; most layers see half a
 * window to each side, with a rope of their own.
 *
 *   x = norm(embed(tokens))
 *   each layer:  x = x + linear(attend(rope(q), rope(k), v)), of norm(x); layer 0: of x
 *                x = x + linear(gelu(linear(h)) * linear(h)), h = norm(x)
 *   vector = pool(norm(x))
 *
 * Every norm subtracts the mean.  One tensor holds Q, K and V, and one both halves of the MLP.
 */
#include "engines/native/arch/arch.h"

struct modernbert {
    struct native_base base;
    struct native_rope sliding;
    struct native_list types;
    uint32_t window, every;
    double theta, local_theta;
    uint32_t pooling;
    bool norm_bias, mlp_bias, head_bias;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct modernbert),
    NATIVE_INTERMEDIATE(struct modernbert),
    NATIVE_NUMBER(struct modernbert, base.eps, "norm_eps", 0, 1, 1e-5),
    NATIVE_ROPE_OF(struct modernbert, base.rope, "full_attention", 160000),
    NATIVE_ROPE_OF(struct modernbert, sliding, "sliding_attention", 10000),
    NATIVE_NUMBER(struct modernbert, theta, "global_rope_theta", 1.001, 1e12, 160000),
    NATIVE_NUMBER(struct modernbert, local_theta, "local_rope_theta", 1.001, 1e12, 10000),
    NATIVE_WORDS(struct modernbert, types, "layer_types", "full_attention|sliding_attention"),
    NATIVE_COUNT(struct modernbert, window, "local_attention", 2, 1 << 26, 128),
    NATIVE_COUNT(struct modernbert, every, "global_attn_every_n_layers", 1, 512, 3),
    NATIVE_FLAG(struct modernbert, norm_bias, "norm_bias", false),
    NATIVE_FLAG(struct modernbert, mlp_bias, "mlp_bias", false),
    NATIVE_WORD(struct modernbert, pooling, "classifier_pooling", "cls|mean"),
    NATIVE_FLAG(struct modernbert, head_bias, "classifier_bias", false),
    NATIVE_ONLY("classifier_activation", "gelu"),
    NATIVE_ONLY_FLAG("attention_bias", false),
    NATIVE_ONLY("hidden_activation|hidden_act", "gelu"),
    NATIVE_END,
};

/* Names of the rows of Q, K and V in their tensor. */
static struct native_gqa attention(struct native_builder *b, const struct modernbert *c,
                                   uint32_t rope, uint32_t window)
{
    struct native_gqa a = native_gqa_of(&c->base, rope, window);
    uint32_t rows = c->base.heads * c->base.head_size;

    a.q = native_name(b, "attn.Wqkv[0:%u]", rows);
    a.k = native_name(b, "attn.Wqkv[%u:%u]", rows, rows);
    a.v = native_name(b, "attn.Wqkv[%u:%u]", 2 * rows, rows);
    a.out = "attn.Wo";
    a.attend.both_ways = true;
    return a;
}

static void build(struct native_builder *b, void *config)
{
    struct modernbert *c = config;
    uint32_t hidden = c->base.hidden;
    double eps = c->base.eps;
    struct native_norm norm = {.eps = (float)eps, .layer = true};
    struct native_mlp mlp = {.gate = "mlp.Wi",
                             .down = "mlp.Wo",
                             .inner = c->base.intermediate,
                             .act = NATIVE_GELU,
                             .bias = c->mlp_bias};

    if (!c->base.rope.own)
        c->base.rope.theta = c->theta;
    if (!c->sliding.own)
        c->sliding.theta = c->local_theta;
    if (!native_usual_begin(b, &c->base, "model.embeddings.tok_embeddings", 1))
        return;
    uint32_t full = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    uint32_t near = native_rope_table(b, &c->sliding, c->base.head_size, 0);
    (void)native_norm_with(b, X, X, NATIVE_NO_REG, "model.embeddings.norm", c->norm_bias,
                           &norm);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool slides = n < c->types.count ? c->types.at[n] == 1 : n % c->every != 0;
        struct native_gqa a = attention(b, c, slides ? near : full, slides ? c->window : 0);
        native_layer(b, "model.layers.%u.", n);
        reg h = n == 0 ? X : native_layer_norm(b, X, "attn_norm", c->norm_bias, eps);
        native_add(b, X, native_gqa(b, h, hidden, &a), 1);
        h = native_layer_norm(b, X, "mlp_norm", c->norm_bias, eps);
        native_add(b, X, native_mlp(b, h, hidden, &mlp), 1);
    }
    native_layer(b, "", 0);
    reg h = native_layer_norm(b, X, "model.final_norm", c->norm_bias, eps);
    if (!native_classifies(b)) {
        native_ignore(b, "head.");
        native_ignore(b, "decoder.");
        native_end_vector(b, h);
        return;
    }
    native_end_rank(b, h,
                    &(struct native_classifier){.pool = c->pooling == 0 ? NATIVE_POOL_FIRST
                                                                        : NATIVE_POOL_MEAN,
                                                .dense = "head.dense",
                                                .norm = "head.norm",
                                                .out = "classifier",
                                                .act = NATIVE_GELU,
                                                .dense_bias = c->head_bias,
                                                .norm_bias = c->norm_bias,
                                                .out_bias = true,
                                                .eps = eps});
}

NATIVE_ARCH(modernbert, struct modernbert, NATIVE_NAMES("modernbert"),
            NATIVE_NAMES("ModernBertModel", "ModernBertForMaskedLM",
                         "ModernBertForSequenceClassification"));
