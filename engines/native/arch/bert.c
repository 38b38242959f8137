/* native/arch/bert.c - BERT: attention that looks both ways; learned positions; a norm behind
 * each sum.  XLM-RoBERTa and RoBERTa number positions behind the padding's id.
 *
 *   x = norm(embed(tokens) + embed(positions) + embed(type 0))
 *   each layer:  x = norm(x + linear(attend(linear(x), linear(x), linear(x))))
 *                x = norm(x + linear(gelu(linear(x))))
 *   vector = pool(x)
 *
 * Every norm subtracts the mean, and every matrix has a bias.
 */
#include "engines/native/arch/arch.h"

struct bert {
    struct native_base base;
    uint32_t types;
    uint32_t kind; /* 0: BERT */
    uint32_t padding;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct bert),
    NATIVE_INTERMEDIATE(struct bert),
    NATIVE_NUMBER(struct bert, base.eps, "layer_norm_eps", 0, 1, 1e-12),
    NATIVE_COUNT(struct bert, types, "type_vocab_size", 1, 1 << 16, 2),
    NATIVE_WORD(struct bert, kind, "model_type", "bert|xlm-roberta|roberta"),
    NATIVE_COUNT(struct bert, padding, "pad_token_id", 0, 1 << 22, 1),
    NATIVE_ONLY("hidden_act", "gelu"),
    NATIVE_ONLY("position_embedding_type", "absolute"),
    NATIVE_END,
};

static void sum_norm(struct native_builder *b, reg in, const char *name, double eps)
{
    if (in != NATIVE_NO_REG)
        native_add(b, X, in, 1);
    (void)native_norm_with(b, X, X, NATIVE_NO_REG, name, true,
                           &(struct native_norm){.eps = (float)eps, .layer = true});
}

/* BERT's pooler is the classifier's first layer; RoBERTa has one of its own. */
static void end_rank(struct native_builder *b, const struct bert *c, const char *root)
{
    struct native_classifier how = {.pool = NATIVE_POOL_FIRST,
                                    .dense = "classifier.dense",
                                    .out = "classifier.out_proj",
                                    .act = NATIVE_TANH,
                                    .dense_bias = true,
                                    .out_bias = true};

    if (c->kind == 0) {
        how.dense = native_name(b, "%spooler.dense", root);
        how.out = "classifier";
    } else {
        native_ignore(b, native_name(b, "%spooler.", root));
    }
    native_end_rank(b, X, &how);
}

static void build(struct native_builder *b, void *config)
{
    struct bert *c = config;
    uint32_t hidden = c->base.hidden;
    double eps = c->base.eps;
    uint32_t positions = c->base.context, first = c->kind != 0 ? c->padding + 1 : 0;
    const char *root = native_has(b, "bert.embeddings.word_embeddings")      ? "bert."
                       : native_has(b, "roberta.embeddings.word_embeddings") ? "roberta."
                                                                             : "";

    if (first >= positions)
        native_refuse(b,
                      "config.json: max_position_embeddings is %u, and positions begin at %u",
                      positions, first);
    c->base.context = positions - first;
    if (!native_usual_begin(b, &c->base, native_name(b, "%sembeddings.word_embeddings", root),
                            1))
        return;
    native_embed_add(b, X, native_name(b, "%sembeddings.position_embeddings", root), positions,
                     NATIVE_BY_POSITION, first);
    native_embed_add(b, X, native_name(b, "%sembeddings.token_type_embeddings", root), c->types,
                     c->types > 1 ? NATIVE_BY_PART : NATIVE_FIRST_ROW, 0);
    sum_norm(b, NATIVE_NO_REG, native_name(b, "%sembeddings.LayerNorm", root), eps);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        struct native_gqa a = native_gqa_of(&c->base, NATIVE_NONE, 0);
        struct native_mlp mlp = {.up = "intermediate.dense",
                                 .down = "output.dense",
                                 .inner = c->base.intermediate,
                                 .act = NATIVE_GELU,
                                 .bias = true};
        a.q = "attention.self.query";
        a.k = "attention.self.key";
        a.v = "attention.self.value";
        a.out = "attention.output.dense";
        a.bias = a.out_bias = true;
        a.attend.both_ways = true;
        native_layer(b, native_name(b, "%sencoder.layer.%%u.", root), n);
        sum_norm(b, native_gqa(b, X, hidden, &a), "attention.output.LayerNorm", eps);
        sum_norm(b, native_plain_mlp(b, X, hidden, &mlp), "output.LayerNorm", eps);
    }
    native_layer(b, "", 0);
    native_ignore(b, native_name(b, "%sembeddings.position_ids", root));
    if (native_classifies(b)) {
        end_rank(b, c, root);
        return;
    }
    native_ignore(b, native_name(b, "%spooler.", root));
    native_ignore(b, "cls.");
    native_ignore(b, "lm_head.");
    native_end_vector(b, X);
}

NATIVE_ARCH(bert, struct bert, NATIVE_NAMES("bert", "xlm-roberta", "roberta"),
            NATIVE_NAMES("BertModel", "XLMRobertaModel", "RobertaModel", "BertForMaskedLM",
                         "XLMRobertaForMaskedLM", "RobertaForMaskedLM",
                         "BertForSequenceClassification", "XLMRobertaForSequenceClassification",
                         "RobertaForSequenceClassification"));
