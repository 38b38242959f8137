/* native/arch/qwen3.c - Qwen3: grouped attention with a norm on each head of Q and K, then a
 * gated MLP.
 *
 *   x = embed(tokens)
 *   each layer:  h = norm(x)
 *                q, k, v = linear(h);  q, k = rope(head_norm(q), head_norm(k))
 *                x = x + linear(attend(q, k, v))
 *                h = norm(x)
 *                x = x + linear(silu(linear(h)) * linear(h))
 *   logits = linear(norm(x))
 *
 * Llama, Mistral, Qwen2 and SmolLM3 are the same without the head norms (llama.c).  Qwen3-VL is
 * the same below a tower for images: for text alone its rope of three axes turns like one of
 * one axis.
 */
#include "engines/native/arch/arch.h"

struct qwen3 {
    struct native_base base;
    struct native_windows windows;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct qwen3),          NATIVE_INTERMEDIATE(struct qwen3),
    NATIVE_RMS_EPS(struct qwen3, 1e-6), NATIVE_TIED(struct qwen3, false),
    NATIVE_BIAS(struct qwen3),          NATIVE_WINDOWS(struct qwen3, windows),
    NATIVE_ONLY("hidden_act", "silu"),  NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct qwen3 *c = config;

    if (c->base.head_size == 0)
        c->base.head_size = 128;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.norm = NATIVE_QK_HEADS;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        a.attend.window = native_window_of(&c->windows, n);
        native_llama_layer(b, &c->base, n, &a, &mlp);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(qwen3, struct qwen3, NATIVE_NAMES("qwen3", "qwen3_vl"),
            NATIVE_NAMES("Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration",
                         "Qwen3ForSequenceClassification"));
