/* native/arch/llama.c - Llama and the many models of its shape: grouped attention and a gated
 * MLP, a norm before each.  Arcee's MLP has no gate, and Helium rotates pairs of neighbours.
 *
 *   x = x + linear(attend(rope(q), rope(k), v));  x = x + mlp(norm(x))
 */
#include "engines/native/arch/arch.h"

struct llama {
    struct native_base base;
    uint32_t kind, act;
    bool mlp_bias;
};

enum { LLAMA, ARCEE, HELIUM };

static const struct native_field fields[] = {
    NATIVE_BASE(struct llama),
    NATIVE_INTERMEDIATE(struct llama),
    NATIVE_RMS_EPS(struct llama, 1e-6),
    NATIVE_TIED(struct llama, false),
    NATIVE_BIAS(struct llama),
    NATIVE_KIND(struct llama, kind, "llama|arcee|helium"),
    NATIVE_FLAG(struct llama, mlp_bias, "mlp_bias", false),
    NATIVE_WORD(struct llama, act, "hidden_act", "silu|relu2|gelu|gelu_pytorch_tanh"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    static const uint8_t acts[] = {NATIVE_SILU, NATIVE_RELU2, NATIVE_GELU, NATIVE_GELU_TANH};
    struct llama *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, acts[c->act]);
    mlp.bias = c->mlp_bias;
    mlp.plain = c->kind == ARCEE;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.interleaved = c->kind == HELIUM;
    a.out_bias = c->base.bias && c->kind != HELIUM;
    for (uint32_t n = 0; n < c->base.layers; n++)
        native_llama_layer(b, &c->base, n, &a, &mlp);
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(llama, struct llama, NATIVE_NAMES("llama", "arcee", "helium"),
            NATIVE_NAMES("LlamaForCausalLM", "ArceeForCausalLM", "HeliumForCausalLM"));
