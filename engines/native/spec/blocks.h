/* native/spec/blocks.h - parts of a layer that many families have, each a few operations. */
#ifndef NATIVE_SPEC_BLOCKS_H
#define NATIVE_SPEC_BLOCKS_H

#include "engines/native/spec/builder.h"

/* How the rotated heads of Q and K are normalized. */
enum native_qk_norm {
    NATIVE_QK_PLAIN,
    NATIVE_QK_HEADS,       /* each head, before the rope */
    NATIVE_QK_HEADS_AFTER, /* each head, behind the rope */
    NATIVE_QK_WHOLE,       /* the whole projection */
    NATIVE_QK_OWN,         /* each head, with weights of its own; subtracts the mean */
};

/* Grouped attention with projections of its own. */
struct native_gqa {
    struct native_attention attend;
    const char *q, *k, *v, *out; /* NULL: self_attn.q_proj, k_proj, v_proj, o_proj */
    bool bias, out_bias;
    enum native_qk_norm norm;
    const char *q_norm, *k_norm; /* NULL: self_attn.q_norm, k_norm */
    bool plus_one;               /* those multiply by 1 + weight */
    double eps;
    uint32_t rope; /* NATIVE_NONE: positions are not rotated */
    bool interleaved;
    bool gated;       /* each head of Q is followed by a gate for its output */
    double key_scale; /* of K, before the rope; 0: 1 */
};

/* The usual sizes of `base`. */
struct native_gqa native_gqa_of(const struct native_base *base, uint32_t rope, uint32_t window);
/* Returns what goes onto the residual stream. */
reg native_gqa(struct native_builder *b, reg h, uint32_t hidden, const struct native_gqa *how);

/* down(act(gate(h)) * up(h)).  up NULL: `gate` holds the rows of both, gate first. */
struct native_mlp {
    const char *gate, *up, *down;
    uint32_t inner;
    enum native_act act;
    bool bias;
    bool plain; /* native_mlp is native_plain_mlp */
};
reg native_mlp(struct native_builder *b, reg h, uint32_t hidden, const struct native_mlp *how);
/* down(act(up(h))). */
reg native_plain_mlp(struct native_builder *b, reg h, uint32_t hidden,
                     const struct native_mlp *how);
/* mlp.gate_proj, mlp.up_proj, mlp.down_proj. */
struct native_mlp native_mlp_of(const struct native_base *base, enum native_act act);
reg native_usual_mlp(struct native_builder *b, reg h, const struct native_base *base,
                     enum native_act act);

/* Layer n of Llama: x += attention(norm(x)); x += mlp(norm(x)). */
void native_llama_layer(struct native_builder *b, const struct native_base *base, uint32_t n,
                        const struct native_gqa *a, const struct native_mlp *mlp);
/* Its halves, for layers of which one is another.  Names before it: native_layer(). */
void native_llama_attention(struct native_builder *b, const struct native_base *base,
                            const struct native_gqa *a);
void native_llama_mlp(struct native_builder *b, const struct native_base *base,
                      const struct native_mlp *mlp);

/* A layer of Gemma 2 and 3: norms that multiply by 1 + weight on both sides of attention and
 * MLP. */
void native_gemma_layer(struct native_builder *b, const struct native_base *base,
                        const struct native_gqa *a);

/* Windows as Qwen's configs name them: by a list of layer types, else of the layers from `from`
 * on. */
struct native_windows {
    struct native_list types;
    uint32_t size, from;
    bool used;
};
#define NATIVE_WINDOWS(type, member)                                                           \
    NATIVE_FLAG(type, member.used, "use_sliding_window", false),                               \
        NATIVE_COUNT_OR_NULL(type, member.size, "sliding_window", 1, 1 << 26, 4096),           \
        NATIVE_COUNT(type, member.from, "max_window_layers", 0, 512, 28),                      \
        NATIVE_WORDS(type, member.types, "layer_types", "full_attention|sliding_attention")
/* 0: none. */
uint32_t native_window_of(const struct native_windows *windows, uint32_t layer);

/* Router and experts. */
struct native_moe {
    struct native_route route;
    struct native_experts experts;
    struct native_expert_names names;
    const char *router, *bias, *scales;
    /* The experts' tensors have the usual names below this, fused ones as names.transposed
     * says; NULL: `names`. */
    const char *below;
    bool router_bias;
};
/* Softmax over the scores, weights that add up to one, SiLU; tensors below `experts` in one of
 * the usual forms: <experts>.3.gate_proj, or <experts>.gate_up_proj for all.  NULL: no names.
 */
struct native_moe native_moe_of(const char *router, const char *experts, uint32_t count,
                                uint32_t chosen, uint32_t inner);
/* Of Mixtral: block_sparse_moe.experts.3.w1 is the gate, w3 up, w2 down. */
struct native_expert_names native_w123(void);
reg native_moe(struct native_builder *b, reg h, uint32_t hidden, const struct native_moe *how);
/* x += experts(norm(x)), as native_llama_mlp. */
void native_llama_moe(struct native_builder *b, const struct native_base *base,
                      const struct native_moe *how);
/* An expert that every token has, behind a gate of its own (Qwen). */
reg native_gated_expert(struct native_builder *b, reg h, uint32_t hidden, uint32_t inner);

/* The experts of DeepSeek V2 and V3: scores and how experts are chosen by them, groups, shared
 * experts. */
struct native_grouped_experts {
    uint32_t score;  /* 0: sigmoid, 1: softmax */
    uint32_t method; /* 0: with a bias for the choice; 1: by score; 2: groups by their best */
    uint32_t experts, chosen, inner, shared, groups, group_count, dense_layers;
    double scale;
    bool normalize;
};
#define NATIVE_GROUPED_EXPERTS(type, member)                                                   \
    NATIVE_COUNT(type, member.experts, "n_routed_experts|num_experts|num_local_experts", 1,    \
                 4096, NATIVE_REQUIRED),                                                       \
        NATIVE_COUNT(type, member.chosen, "num_experts_per_tok", 1, 64, NATIVE_REQUIRED),      \
        NATIVE_COUNT(type, member.inner, "moe_intermediate_size", 1, 1 << 20,                  \
                     NATIVE_REQUIRED),                                                         \
        NATIVE_COUNT_OR_NULL(type, member.shared, "n_shared_experts", 0, 64, 1),               \
        NATIVE_COUNT(type, member.groups, "n_group", 1, 512, 1),                               \
        NATIVE_COUNT(type, member.group_count, "topk_group", 1, 512, 1),                       \
        NATIVE_COUNT(type, member.dense_layers, "first_k_dense_replace", 0, 512, 0),           \
        NATIVE_NUMBER(type, member.scale, "routed_scaling_factor", 1e-6, 1e6, 1),              \
        NATIVE_FLAG(type, member.normalize, "norm_topk_prob", true),                           \
        NATIVE_ONLY_COUNT("moe_layer_freq", 1),                                                \
        NATIVE_WORD(type, member.score, "scoring_func", "sigmoid|softmax"),                    \
        NATIVE_WORD(type, member.method, "topk_method",                                        \
                    "noaux_tc|greedy|group_limited_greedy")
reg native_grouped_experts(struct native_builder *b, reg h, uint32_t hidden,
                           const struct native_grouped_experts *how);

/* Multiplies by 1 + weight. */
reg native_plus_one_norm(struct native_builder *b, reg in, const char *weight, double eps);

/* Logits from lm_head, or from the embeddings where the model is tied. */
reg native_usual_logits(struct native_builder *b, const struct native_base *base, reg h,
                        const char *embeddings);
/* The same behind an RMS norm of X. */
reg native_usual_end(struct native_builder *b, const struct native_base *base, const char *norm,
                     const char *embeddings);
/* Starts the list: settles the base, embeds the tokens into X. */
bool native_usual_begin(struct native_builder *b, struct native_base *base,
                        const char *embeddings, double scale);
/* The list has this layer's number. */
bool native_lists(const struct native_list *list, uint32_t layer);
/* The layer slides: by a list of layer types (index 1 is "sliding_attention"), else by a
 * pattern: every n-th layer sees everything. */
bool native_slides(const struct native_list *types, uint32_t layer, uint32_t pattern);
/* Tensors of layers behind the last one (for several tokens at once) are not needed. */
void native_ignore_layers(struct native_builder *b, uint32_t from);

/* Mamba2: a short convolution, then a state space, behind a gate and a norm; tensors below
 * `name`. */
enum { NATIVE_MAMBA_PARTS = 5 };
struct native_mamba {
    uint32_t heads, head_size, groups, state_size, kernel;
    bool conv_bias, bias;
    bool out_bias;          /* of the last matrix, beside `bias` */
    bool grouped_norm;      /* the norm is over each group's values */
    bool norm_first;        /* the gate multiplies behind the norm */
    bool without_norm;      /* the gate multiplies alone */
    const double *parts_by; /* factors of gate, values, B, C and time step; NULL: none */
    double dt_min, eps;
};
reg native_mamba(struct native_builder *b, reg h, uint32_t hidden, const char *name,
                 const struct native_mamba *how);

/* Attention over a latent of all heads (MLA): each position keeps `rank` values and one rotated
 * part; the matrices that make keys and values of it go into queries and outputs. */
struct native_mla {
    uint32_t heads, rank, query_rank, plain, rotated, value; /* query_rank 0: one matrix */
    uint32_t rope;
    bool interleaved, bias;
    double scale, eps;
};
reg native_mla(struct native_builder *b, reg h, uint32_t hidden, const struct native_mla *how);

#endif
