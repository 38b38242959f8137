/* native/arch/deepseek_v3.c - DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7 Flash: attention over a
 * latent, experts in groups with a shared one, dense first layers.
 *
 * DeepSeek V2 chooses experts by softmax.  GLM-4.5 to 4.7 (glm4_moe) have the same experts
 * behind grouped attention.
 */
#include <math.h>

#include "engines/native/arch/arch.h"
#include "engines/native/spec/math.h"

struct deepseek_v3 {
    struct native_base base;
    struct native_grouped_experts moe;
    struct native_list types; /* 0: a plain MLP; else by moe.dense_layers */
    uint32_t rank, query_rank, plain, rotated, value;
    bool interleaved;
};

static const struct native_field fields[] = {
    NATIVE_BASE(struct deepseek_v3),
    NATIVE_INTERMEDIATE(struct deepseek_v3),
    NATIVE_RMS_EPS(struct deepseek_v3, 1e-6),
    NATIVE_TIED(struct deepseek_v3, false),
    NATIVE_BIAS(struct deepseek_v3),
    NATIVE_GROUPED_EXPERTS(struct deepseek_v3, moe),
    NATIVE_COUNT(struct deepseek_v3, rank, "kv_lora_rank", 1, 65536, NATIVE_REQUIRED),
    NATIVE_COUNT_OR_NULL(struct deepseek_v3, query_rank, "q_lora_rank", 1, 65536, 0),
    NATIVE_COUNT(struct deepseek_v3, plain, "qk_nope_head_dim", 1, 1024, NATIVE_REQUIRED),
    NATIVE_COUNT(struct deepseek_v3, rotated, "qk_rope_head_dim", 2, 1024, NATIVE_REQUIRED),
    NATIVE_COUNT(struct deepseek_v3, value, "v_head_dim", 1, 1024, NATIVE_REQUIRED),
    NATIVE_WORDS(struct deepseek_v3, types, "mlp_layer_types", "dense|sparse"),
    NATIVE_FLAG(struct deepseek_v3, interleaved, "rope_interleave", true),
    NATIVE_ONLY("hidden_act", "silu"),
    NATIVE_END,
};

/* YaRN makes the scores larger, too. */
static double scale_of(const struct deepseek_v3 *c)
{
    const struct native_rope *r = &c->base.rope;
    double grown = 1;

    if (r->kind == NATIVE_ROPE_YARN && r->mscale_all > 0 && r->factor > 1)
        grown = 0.1 * r->mscale_all * native_log(r->factor) + 1;
    return grown * grown / sqrt((double)(c->plain + c->rotated));
}

static void build(struct native_builder *b, void *config)
{
    struct deepseek_v3 *c = config;
    uint32_t hidden = c->base.hidden;

    c->base.head_size = c->plain + c->rotated;
    if (!native_usual_begin(b, &c->base, "model.embed_tokens", 1))
        return;
    const struct native_mla a = {
        .heads = c->base.heads,
        .rank = c->rank,
        .query_rank = c->query_rank,
        .plain = c->plain,
        .rotated = c->rotated,
        .value = c->value,
        .rope = native_rope_table(b, &c->base.rope, c->rotated, c->rotated),
        .interleaved = c->interleaved,
        .bias = c->base.bias,
        .scale = scale_of(c),
        .eps = c->base.eps,
    };
    native_ignore_layers(b, c->base.layers);
    for (uint32_t n = 0; n < c->base.layers; n++) {
        bool dense = n < c->types.count ? c->types.at[n] == 0 : n < c->moe.dense_layers;
        native_layer(b, "model.layers.%u.", n);
        reg h = native_norm(b, X, "input_layernorm", c->base.eps);
        native_add(b, X, native_mla(b, h, hidden, &a), 1);
        h = native_norm(b, X, "post_attention_layernorm", c->base.eps);
        native_add(b, X,
                   dense ? native_usual_mlp(b, h, &c->base, NATIVE_SILU)
                         : native_grouped_experts(b, h, hidden, &c->moe),
                   1);
    }
    native_usual_end(b, &c->base, "model.norm", "model.embed_tokens");
}

NATIVE_ARCH(deepseek_v3, struct deepseek_v3,
            NATIVE_NAMES("deepseek_v3", "deepseek_v2", "kimi_k2", "glm4_moe_lite"),
            NATIVE_NAMES("DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM",
                         "Glm4MoeLiteForCausalLM"));
