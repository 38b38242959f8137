/* gptoss/backend/shaders/push.h - the push constants of every kernel, one definition for the
 * kernels (GLSL) and the hosts (C).  At most 128 bytes each, 4-byte members only.
 *
 * Counts of columns are in elements.  `first` and `count` of a weight: the rows (or experts)
 * of the part of the tensor that is bound; tensors larger than a binding are several launches.
 */
#ifndef GPTOSS_SHADERS_PUSH_H
#define GPTOSS_SHADERS_PUSH_H

#ifdef VULKAN /* defined by every GLSL compiler with Vulkan semantics */
#define GPU_U32 uint
#define GPU_F32 float
#else
#include <stdint.h>
#define GPU_U32 uint32_t
#define GPU_F32 float
#endif

/* Positions of a KV page.  A layer's pages are one buffer: [page][kv_head][K, V][slot][64]
 * float16. */
#define GPU_PAGE_TOKENS 32u
#define GPU_HEAD_DIM    64u
#define GPU_GROUP_MAX   8 /* query heads that one work group of attention computes */

/* One row (token) of a step, in `inputs`. */
struct gpu_row {
    GPU_U32 token;
    GPU_U32 position;
    GPU_U32 full_table;   /* index of its sequence's table in `tables` */
    GPU_U32 window_table; /* the same for sliding layers */
    GPU_U32 full_slot;    /* page * GPU_PAGE_TOKENS + slot of its K and V */
    GPU_U32 window_slot;
    GPU_U32 reserved0, reserved1;
};

/* How a row of logits is sampled; temperature 0: greedy. */
struct gpu_sample {
    GPU_U32 seed_low, seed_high;
    GPU_U32 index;
    GPU_F32 temperature;
};

/* Tokens of one expert, in the order of `sorted`. */
struct gpu_tile {
    GPU_U32 expert;
    GPU_U32 first;
    GPU_U32 count;
    GPU_U32 reserved;
};

struct push_embed {
    GPU_U32 rows, columns, first, count;
};

struct push_norm {
    GPU_U32 rows, columns;
    GPU_U32 gather; /* 1: the input rows are listed in out_rows */
    GPU_F32 eps;
};

/* few_dense, many_dense: y[token][first + row] = weight[row] . x[token] + bias */
struct push_dense {
    GPU_U32 columns;
    GPU_U32 first, count; /* rows of this part */
    GPU_U32 tokens;
    GPU_U32 y_stride;
    GPU_F32 eps;
};

/* few_qkv and rope: the rows are heads q, kv_heads k, kv_heads v. */
struct push_qkv {
    GPU_U32 columns;
    GPU_U32 first, count; /* rows of this part, whole heads */
    GPU_U32 tokens;
    GPU_U32 heads, kv_heads;
    GPU_U32 window; /* 1: the pages of the sliding layers */
    GPU_F32 eps;
};

struct push_attend {
    GPU_U32 heads, kv_heads;
    GPU_U32 group;  /* query heads of a KV head */
    GPU_U32 window; /* keys that a query sees; 0: all */
    GPU_U32 splits; /* 1: the result goes to `out`, else parts go to it */
    GPU_U32 row;    /* the first row of this launch */
    GPU_F32 scale;
};

/* few_up, few_down, many_up, many_down */
struct push_experts {
    GPU_U32 columns;      /* of the matrix: a multiple of 32 */
    GPU_U32 rows;         /* of one expert */
    GPU_U32 first, count; /* experts of this part */
    GPU_U32 tokens;
    GPU_U32 experts, chosen; /* of the model, of a token */
    GPU_U32 excess;          /* scale_excess of the weights */
    /* from expert to expert, with STRIDED: blocks, bytes of scales, numbers of the bias */
    GPU_U32 block_stride, scale_stride, bias_stride;
    GPU_F32 limit; /* of SwiGLU */
    GPU_F32 eps;
};

/* route, sort, many_sum */
struct push_route {
    GPU_U32 tokens, experts, chosen, columns;
};

struct push_sample {
    GPU_U32 vocab;
    GPU_U32 stride; /* of a row of logits */
    GPU_U32 parts;
};

struct push_fill {
    GPU_U32 words;
    GPU_U32 seed;
    GPU_U32 kind; /* GPU_FILL_... */
};

#define GPU_FILL_BF16   0u
#define GPU_FILL_CODES  1u
#define GPU_FILL_SCALES 2u
#define GPU_FILL_ONES   3u

#endif
