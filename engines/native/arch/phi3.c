/* native/arch/phi3.c - Phi-3, 3.5 and 4: one matrix for Q, K and V and one for gate and up;
 * longrope, and a part of each head that is rotated. */
#include "engines/native/arch/arch.h"

struct phi3 {
    struct native_base base;
    uint32_t window, original;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct phi3),
    NATIVE_INTERMEDIATE(struct phi3),
    NATIVE_RMS_EPS(struct phi3, 1e-5),
    NATIVE_TIED(struct phi3, false),
    NATIVE_COUNT(struct phi3, window, "sliding_window", 1, 1 << 26, 0),
    NATIVE_COUNT(struct phi3, original, "original_max_position_embeddings", 1, 1 << 26, 0),
    NATIVE_ONLY_FLAG("attention_bias", false),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct phi3 *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    uint32_t q = c->base.heads * c->base.head_size, kv = c->base.kv_heads * c->base.head_size;
    struct native_gqa a = native_gqa_of(
        &c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), c->window);
    a.q = native_name(b, "self_attn.qkv_proj[0:%u]", q);
    a.k = native_name(b, "self_attn.qkv_proj[%u:%u]", q, kv);
    a.v = native_name(b, "self_attn.qkv_proj[%u:%u]", q + kv, kv);
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    mlp.gate = "mlp.gate_up_proj";
    mlp.up = NULL;
    for (uint32_t n = 0; n < c->base.layers; n++)
        native_llama_layer(b, &c->base, n, &a, &mlp);
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(phi3, struct phi3, NATIVE_NAMES("phi3"), NATIVE_NAMES("Phi3ForCausalLM"));
