/* native/arch/qwen2.c - Qwen 2 and 2.5: Llama with a bias on Q, K and V.
 *
 * Qwen2-VL and Qwen2.5-VL are the same below a tower for images: for text alone their rope of
 * three axes turns like one of one axis.
 */
#include "engines/native/arch/arch.h"

struct qwen2 {
    struct native_base base;
    struct native_windows windows;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct qwen2),
    NATIVE_INTERMEDIATE(struct qwen2),
    NATIVE_RMS_EPS(struct qwen2, 1e-6),
    NATIVE_TIED(struct qwen2, false),
    NATIVE_WINDOWS(struct qwen2, windows),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct qwen2 *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0), 0);
    a.bias = true;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        a.attend.window = native_window_of(&c->windows, n);
        native_llama_layer(b, &c->base, n, &a, &mlp);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(qwen2, struct qwen2, NATIVE_NAMES("qwen2", "qwen2_vl", "qwen2_5_vl"),
            NATIVE_NAMES("Qwen2ForCausalLM", "Qwen2VLForConditionalGeneration",
                         "Qwen2_5_VLForConditionalGeneration"));
