/* native/arch/gpt_neox.c - GPT-NeoX and Pythia: layer norms, attention and a plain MLP beside
 * each other, each behind a norm of its own; one matrix of which each head's part is [q, k, v].
 */
#include "engines/native/arch/arch.h"

struct gpt_neox {
    struct native_base base;
    uint32_t act;
    bool parallel;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct gpt_neox),
    NATIVE_INTERMEDIATE(struct gpt_neox),
    NATIVE_ROPE_FROM(struct gpt_neox, base.rope, 10000, 0.25),
    NATIVE_NUMBER(struct gpt_neox, base.eps, "layer_norm_eps", 0, 1, 1e-5),
    NATIVE_TIED(struct gpt_neox, false),
    NATIVE_FLAG(struct gpt_neox, base.bias, "attention_bias", true),
    NATIVE_FLAG(struct gpt_neox, parallel, "use_parallel_residual", true),
    NATIVE_WORD(struct gpt_neox, act, "hidden_act",
                "gelu|gelu_new|gelu_fast|gelu_pytorch_tanh"),
    NATIVE_END,
};

static reg neox_attention(struct native_builder *b, reg h, const struct gpt_neox *c,
                          uint32_t rope)
{
    uint32_t heads = c->base.heads, size = c->base.head_size, rows = heads * size;
    reg all = native_linear(b, h, "attention.query_key_value", 3 * rows, c->base.hidden,
                            c->base.bias);
    reg q = native_slice(b, all, heads, 3 * size, 0, size);
    reg k = native_slice(b, all, heads, 3 * size, size, size);
    reg v = native_slice(b, all, heads, 3 * size, 2 * size, size);

    native_rotate(b, q, heads, size, rope);
    native_rotate(b, k, heads, size, rope);
    const struct native_gqa a = native_gqa_of(&c->base, rope, 0);
    reg out = native_attend(b, q, k, v, &a.attend, NULL);
    return native_linear(b, out, "attention.dense", c->base.hidden, rows, c->base.bias);
}

static void build(struct native_builder *b, void *config)
{
    struct gpt_neox *c = config;
    const struct native_mlp mlp = {.up = "mlp.dense_h_to_4h",
                                   .down = "mlp.dense_4h_to_h",
                                   .inner = c->base.intermediate,
                                   .act = c->act == 0 ? NATIVE_GELU : NATIVE_GELU_TANH,
                                   .bias = true};

    c->base.kv_heads = c->base.heads;
    if (!native_usual_begin(b, &c->base, "gpt_neox.embed_in", 1))
        return;
    uint32_t rope = native_rope_table(b, &c->base.rope, c->base.head_size, 0);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "gpt_neox.layers.%u.", n);
        /* Masks that older files hold. */
        native_ignore(b, "attention.bias");
        native_ignore(b, "attention.masked_bias");
        reg h = native_layer_norm(b, X, "input_layernorm", true, c->base.eps);
        reg out = neox_attention(b, h, c, rope);
        if (!c->parallel)
            native_add(b, X, out, 1);
        h = native_layer_norm(b, X, "post_attention_layernorm", true, c->base.eps);
        native_add(b, X, native_plain_mlp(b, h, c->base.hidden, &mlp), 1);
        if (c->parallel)
            native_add(b, X, out, 1);
    }
    native_layer(b, "", 0);
    reg h = native_layer_norm(b, X, "gpt_neox.final_layer_norm", true, c->base.eps);
    native_unembed(b, h, c->base.tied ? "gpt_neox.embed_in" : "embed_out", c->base.vocab,
                   false);
}

NATIVE_ARCH(gpt_neox, struct gpt_neox, NATIVE_NAMES("gpt_neox"),
            NATIVE_NAMES("GPTNeoXForCausalLM"));
