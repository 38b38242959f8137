/* native/arch/gpt2.c - GPT-2: learned positions, layer norms, a plain MLP; matrices are stored
 * by columns, and one holds Q, K and V. */
#include "engines/native/arch/arch.h"

struct gpt2 {
    struct native_base base;
    uint32_t act;
};

static const struct native_field fields[] = {
    NATIVE_COUNT(struct gpt2, base.hidden, "n_embd|hidden_size", 1, 65536, 768),
    NATIVE_COUNT(struct gpt2, base.layers, "n_layer|num_hidden_layers", 1, MODEL_LAYERS_MAX,
                 12),
    NATIVE_COUNT(struct gpt2, base.heads, "n_head|num_attention_heads", 1, 1024, 12),
    NATIVE_COUNT(struct gpt2, base.vocab, "vocab_size", 1, 1 << 22, 50257),
    NATIVE_COUNT(struct gpt2, base.context, "n_positions|n_ctx|max_position_embeddings", 1,
                 1 << 26, 1024),
    NATIVE_COUNT(struct gpt2, base.intermediate, "n_inner", 1, 1 << 20, 0),
    NATIVE_NUMBER(struct gpt2, base.eps, "layer_norm_epsilon", 0, 1, 1e-5),
    NATIVE_TIED(struct gpt2, true),
    NATIVE_WORD(struct gpt2, act, "activation_function", "gelu_new|gelu_pytorch_tanh|gelu"),
    NATIVE_ONLY_FLAG("scale_attn_weights", true),
    NATIVE_ONLY_FLAG("scale_attn_by_inverse_layer_idx", false),
    NATIVE_ONLY_FLAG("add_cross_attention", false),
    NATIVE_END,
};

static void gpt2_layer(struct native_builder *b, const struct gpt2 *c)
{
    uint32_t hidden = c->base.hidden, inner = c->base.intermediate;
    const struct native_gqa a = native_gqa_of(&c->base, NATIVE_NONE, 0);

    /* Masks that older files hold. */
    native_ignore(b, "attn.bias");
    native_ignore(b, "attn.masked_bias");
    reg h = native_layer_norm(b, X, "ln_1", true, c->base.eps);
    reg all = native_linear_by_columns(b, h, "attn.c_attn", 3 * hidden, hidden);
    reg q = native_slice(b, all, 1, 3 * hidden, 0, hidden);
    reg k = native_slice(b, all, 1, 3 * hidden, hidden, hidden);
    reg v = native_slice(b, all, 1, 3 * hidden, 2 * hidden, hidden);
    h = native_attend(b, q, k, v, &a.attend, NULL);
    native_add(b, X, native_linear_by_columns(b, h, "attn.c_proj", hidden, hidden), 1);
    h = native_layer_norm(b, X, "ln_2", true, c->base.eps);
    h = native_linear_by_columns(b, h, "mlp.c_fc", inner, hidden);
    h = native_act(b, h, c->act == 2 ? NATIVE_GELU : NATIVE_GELU_TANH);
    native_add(b, X, native_linear_by_columns(b, h, "mlp.c_proj", hidden, inner), 1);
}

static void build(struct native_builder *b, void *config)
{
    struct gpt2 *c = config;
    const char *root = native_has(b, "transformer.wte") ? "transformer." : "";
    const char *table = native_name(b, "%swte", root);

    if (c->base.intermediate == 0)
        c->base.intermediate = 4 * c->base.hidden;
    if (c->base.hidden % c->base.heads != 0)
        native_refuse(b, "config.json: \"n_embd\" is %u, no multiple of \"n_head\", %u",
                      c->base.hidden, c->base.heads);
    if (!native_usual_begin(b, &c->base, table, 1))
        return;
    native_embed_add(b, X, native_name(b, "%swpe", root), c->base.context, NATIVE_BY_POSITION,
                     0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, native_name(b, "%sh.%%u.", root), n);
        gpt2_layer(b, c);
    }
    native_layer(b, "", 0);
    reg h = native_layer_norm(b, X, native_name(b, "%sln_f", root), true, c->base.eps);
    native_usual_logits(b, &c->base, h, table);
}

NATIVE_ARCH(gpt2, struct gpt2, NATIVE_NAMES("gpt2"), NATIVE_NAMES("GPT2LMHeadModel"));
