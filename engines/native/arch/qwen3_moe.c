/* native/arch/qwen3_moe.c - Qwen3 MoE: Qwen3 with experts in the place of the MLP.
 *
 * Qwen3-VL MoE is the same below a tower for images; its experts are stored by columns.
 */
#include "engines/native/arch/arch.h"

struct qwen3_moe {
    struct native_base base;
    uint32_t kind, experts, chosen, inner, every, window;
    struct native_list dense; /* layers with a plain MLP */
    bool normalize, use_window;
};

enum { TEXT, VL };

static const struct native_field fields[] = {
    NATIVE_BASE(struct qwen3_moe),
    NATIVE_COUNT(struct qwen3_moe, base.intermediate, "intermediate_size", 1, 1 << 20, 1),
    NATIVE_RMS_EPS(struct qwen3_moe, 1e-6),
    NATIVE_TIED(struct qwen3_moe, false),
    NATIVE_BIAS(struct qwen3_moe),
    NATIVE_KIND(struct qwen3_moe, kind, "qwen3_moe|qwen3_vl_moe_text"),
    NATIVE_COUNT(struct qwen3_moe, experts, "num_experts|num_local_experts", 1, 4096,
                 NATIVE_REQUIRED),
    NATIVE_COUNT(struct qwen3_moe, chosen, "num_experts_per_tok", 1, 64, NATIVE_REQUIRED),
    NATIVE_COUNT(struct qwen3_moe, inner, "moe_intermediate_size", 1, 1 << 20, NATIVE_REQUIRED),
    NATIVE_COUNT(struct qwen3_moe, every, "decoder_sparse_step", 1, 512, 1),
    NATIVE_NUMBERS(struct qwen3_moe, dense, "mlp_only_layers", 0, 512),
    NATIVE_FLAG(struct qwen3_moe, normalize, "norm_topk_prob", false),
    NATIVE_FLAG(struct qwen3_moe, use_window, "use_sliding_window", false),
    NATIVE_COUNT_OR_NULL(struct qwen3_moe, window, "sliding_window", 1, 1 << 26, 4096),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

static void build(struct native_builder *b, void *config)
{
    struct qwen3_moe *c = config;

    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    struct native_mlp mlp = native_mlp_of(&c->base, NATIVE_SILU);
    struct native_gqa a =
        native_gqa_of(&c->base, native_rope_table(b, &c->base.rope, c->base.head_size, 0),
                      c->use_window ? c->window : 0);
    a.norm = NATIVE_QK_HEADS;
    struct native_moe moe =
        native_moe_of("mlp.gate", "mlp.experts", c->experts, c->chosen, c->inner);
    /* The weights of Qwen3-VL's chosen experts always add up to 1. */
    moe.route.normalize = c->normalize || c->kind == VL;
    moe.names.transposed = c->kind == VL;
    for (uint32_t n = 0; n < c->base.layers; n++) {
        native_layer(b, "model.layers.%u.", n);
        native_llama_attention(b, &c->base, &a);
        if (native_lists(&c->dense, n) || (n + 1) % c->every != 0)
            native_llama_mlp(b, &c->base, &mlp);
        else
            native_llama_moe(b, &c->base, &moe);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(qwen3_moe, struct qwen3_moe, NATIVE_NAMES("qwen3_moe", "qwen3_vl_moe"),
            NATIVE_NAMES("Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration"));
