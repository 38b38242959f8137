/* native/shaders/push.h - the push constants of every kernel, one definition for the kernels
 * (GLSL) and the host (C).  At most 128 bytes each, 4-byte members only.
 *
 * X_at: the place of a register's first row in its buffer, X_stride: from one row to the next,
 * both in floats.  A register's row is a token, a pair of token and expert, or a text.
 */
#ifndef NATIVE_SHADERS_PUSH_H
#define NATIVE_SHADERS_PUSH_H

#ifdef VULKAN /* defined by every GLSL compiler with Vulkan semantics */
#define PUSH_U32 uint
#define PUSH_F32 float
#else
#include <stdint.h>
#define PUSH_U32 uint32_t
#define PUSH_F32 float
#endif

#define NATIVE_GPU_PAGE    32u /* positions of a KV page */
#define NATIVE_GPU_ABSENT  0xFFFFFFFFu
#define NATIVE_GPU_ROWS    8u  /* matrix rows of a work group of `few` */
#define NATIVE_GPU_TILE    32u /* tokens of a work group of `many` */
#define NATIVE_GPU_EXPERTS 1024u
#define NATIVE_GPU_HEAD    1024u /* most values of a key, or of a row of the delta rule */
#define NATIVE_GPU_VALUES  512u  /* of a value */

/* MODE of the kernels with a matrix: how its numbers are stored. */
#define NATIVE_MODE_CODE    7u
#define NATIVE_CODED_BF16   0u
#define NATIVE_CODED_F16    1u
#define NATIVE_CODED_F32    2u
#define NATIVE_CODED_INT    3u
#define NATIVE_CODED_SIGNED 4u
#define NATIVE_CODED_E4M3   5u
#define NATIVE_CODED_E2M1   6u
#define NATIVE_CODED_TABLE  7u
#define NATIVE_MODE_FOUR    8u /* bits; else eight */
#define NATIVE_MODE_SCALE   4u /* from this bit on, three bits: */
#define NATIVE_SCALED_NOT   0u
#define NATIVE_SCALED_BF16  1u
#define NATIVE_SCALED_F16   2u
#define NATIVE_SCALED_F32   3u
#define NATIVE_SCALED_E4M3  4u
#define NATIVE_SCALED_E8M0  5u
#define NATIVE_MODE_SHIFT   128u /* a number is added to each group */
#define NATIVE_MODE_EACH    256u /* neighbours may lie in different groups */
#define NATIVE_MODE_HEADS   512u /* a matrix for each head */
#define NATIVE_MODE_EXPERTS 1024u
#define NATIVE_MODE_PAIRS   2048u /* x has a row for each pair, else for each token */

/* A token of a step, in `inputs`. */
#define NATIVE_TOKEN_WORDS 8u
struct native_gpu_token {
    PUSH_U32 id;
    PUSH_U32 position;
    PUSH_U32 last;  /* position of its step's last token */
    PUSH_U32 table; /* word of its sequence's first table */
    PUSH_U32 pages; /* words of a table */
    PUSH_U32 part;  /* 1: of the second text of a pair */
    PUSH_U32 reserved0, reserved1;
};

/* A sequence of a step: its rows, and its state. */
#define NATIVE_STEP_WORDS 4u
struct native_gpu_step {
    PUSH_U32 slot, first, count, reserved;
};

/* embed, few, many */
struct push_matrix {
    PUSH_U32 rows, first_row; /* of this part of the matrix */
    PUSH_U32 columns, units;  /* units: pieces of 16 bytes of a row */
    PUSH_U32 tokens;          /* rows of x; of experts: pairs */
    PUSH_U32 x_at, x_stride, x_head;
    PUSH_U32 y_at, y_stride, y_head;
    PUSH_U32 bias_at, bias_matrix; /* ABSENT: no bias; from one expert to the next */
    PUSH_U32 choice_at, choice_stride, chosen;
    PUSH_U32 matrix, matrices; /* first and number of them in this part */
    PUSH_U32 columns_each, rows_each, row_shift;
    PUSH_U32 row_scales, matrix_scales;                  /* scales of a row, of a matrix */
    PUSH_U32 shifts_at, groups_at, table_at, factors_at; /* words */
    PUSH_F32 zero;
    PUSH_F32 factor;   /* embed */
    PUSH_U32 add;      /* embed */
    PUSH_U32 by, from; /* embed: enum native_row, and its `first` */
};

struct push_norm {
    PUSH_U32 group, groups, tokens;
    PUSH_U32 x_at, x_stride, gate_at, gate_stride, y_at, y_stride;
    PUSH_U32 flags;
    PUSH_F32 eps;
};
#define NATIVE_NORM_LAYER      1u
#define NATIVE_NORM_PLUS_ONE   2u
#define NATIVE_NORM_WIDE       4u
#define NATIVE_NORM_GATE_FIRST 8u
#define NATIVE_NORM_GATE       16u
#define NATIVE_NORM_WEIGHT     32u
#define NATIVE_NORM_SHIFT      64u

/* The operation of the kernel `rows` on each value of a row. */
#define NATIVE_ROWS_SLICE   0u /* n: length, group_in, offset, group_out, offset_out */
#define NATIVE_ROWS_GATE    1u /* n: activation, values that share a gate */
#define NATIVE_ROWS_ACT     2u /* n: activation */
#define NATIVE_ROWS_ADD     3u /* f */
#define NATIVE_ROWS_SCALE   4u /* f; n: numbers of the vector, or 0 */
#define NATIVE_ROWS_SOFTCAP 5u /* f */
#define NATIVE_ROWS_GLU     6u /* n: activation, interleaved; f: limit */
#define NATIVE_ROWS_COMBINE 7u /* n: chosen */
#define NATIVE_ROWS_ROPE    8u /* n: pairs, head size, offset, interleaved, word of the angles */
struct push_rows {
    PUSH_U32 kind, count, tokens;
    PUSH_U32 a_at, a_stride, b_at, b_stride, y_at, y_stride;
    PUSH_U32 n0, n1, n2, n3, n4;
    PUSH_F32 f;
};

/* keys, attend */
struct push_attend {
    PUSH_U32 tokens, first; /* first: token of this launch */
    PUSH_U32 heads, kv_heads, key_size, value_size;
    PUSH_U32 cache_values; /* values of a head in the cache; 0: they are part of the keys */
    PUSH_U32 kind;         /* of pages */
    PUSH_U32 q_at, q_stride, k_at, k_stride, v_at, v_stride, y_at, y_stride;
    PUSH_U32 token_at;
    PUSH_U32 window, flags, query_floor;
    PUSH_F32 scale, softcap, query_beta;
};
#define NATIVE_ATTEND_BOTH_WAYS 1u
#define NATIVE_ATTEND_SINKS     2u

struct push_route {
    PUSH_U32 experts, chosen, score, flags, groups, group_count;
    PUSH_U32 x_at, x_stride, y_at, y_stride;
    PUSH_F32 epsilon, scale, jitter;
};
#define NATIVE_ROUTE_NORMALIZE 1u
#define NATIVE_ROUTE_BIAS      2u
#define NATIVE_ROUTE_SCALES    4u
#define NATIVE_ROUTE_BY_BEST   8u

struct push_sort {
    PUSH_U32 tokens, experts, chosen, choice_at, choice_stride, tiles;
};

/* conv, delta, ssm */
struct push_state {
    PUSH_U32 step_at, state_at, state_stride;
    PUSH_U32 x_at, x_stride, a_at, a_stride, b_at, b_stride, y_at, y_stride;
    PUSH_U32 n0, n1, n2, n3, n4;
    PUSH_F32 f0, f1;
};

struct push_pool {
    PUSH_U32 width, text_at, x_at, x_stride, y_at, y_stride;
};

#endif
