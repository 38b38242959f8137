/* native/arch/seed_oss.c - Seed-OSS: Llama with a bias on Q, K and V, and on O where given. */
#include "engines/native/arch/arch.h"

struct seed_oss {
    struct native_base base;
    bool out_bias, mlp_bias;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct seed_oss),
    NATIVE_INTERMEDIATE(struct seed_oss),
    NATIVE_RMS_EPS(struct seed_oss, 1e-6),
    NATIVE_TIED(struct seed_oss, false),
    NATIVE_FLAG(struct seed_oss, base.bias, "attention_bias", true),
    NATIVE_FLAG(struct seed_oss, out_bias, "attention_out_bias", false),
    NATIVE_FLAG(struct seed_oss, mlp_bias, "mlp_bias", false),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct seed_oss *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    mlp.bias = c->mlp_bias;
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.out_bias = c->out_bias;
    for (uint32_t n = 0; n < c->base.layers; n++)
        native_llama_layer(b, &c->base, n, &a, &mlp);
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(seed_oss, struct seed_oss, NATIVE_NAMES("seed_oss"),
            NATIVE_NAMES("SeedOssForCausalLM"));
