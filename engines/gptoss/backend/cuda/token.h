/* gptoss/backend/cuda/token.h - arguments of the persistent decode kernels (token.cu), for a
 * step of one token and for a step of two; shared by host C and device code.  Plain data;
 * pointers are device addresses.
 */
#ifndef GPTOSS_CUDA_TOKEN_H
#define GPTOSS_CUDA_TOKEN_H

#include "engines/gptoss/backend/cuda/args.h"

/* The supported shape: that of both published models. */
enum {
    TOKEN_HIDDEN = 2880,
    TOKEN_INNER = 2880,
    TOKEN_HEADS = 64,
    TOKEN_KV_HEADS = 8,
    TOKEN_TOPK = 4,
    TOKEN_EXPERTS_MAX = 128, /* 32, 64 or 128 */
    TOKEN_LAYERS_MAX = 36,
    TOKEN_ROWS_MAX = 2,        /* tokens of a step that is one kernel */
    ATTEND_ROWS_MAX = 8,       /* tokens of a step whose layers begin with attend_layer.cu's */
    TOKEN_SETS = 4,            /* of token_args: for 1, 2, 4 and 8 tokens */
    TOKEN_SPLITS = 16,         /* most blocks that share the keys of a KV head, of all tokens */
    TOKEN_SHARED = 232448,     /* shared memory of a block on Hopper */
    TOKEN_DYNAMIC = 224768,    /* of it, what the launch asks for, with one token */
    TOKEN_DYNAMIC_2 = 224256,  /* with two */
    ATTEND_DYNAMIC_4 = 228608, /* of attend_layer.cu, with up to four tokens */
    ATTEND_DYNAMIC_8 = 226816, /* with up to eight */
    TOKEN_QKV_ROWS = (TOKEN_HEADS + 2 * TOKEN_KV_HEADS) * 64,
    TOKEN_SMS_MIN = 104, /* with fewer, a block has more tiles than its sums have room for */
    TOKEN_SMS_MAX = 180, /* with more, a tile is spread over more than two blocks */
};

/* Factor of activations that are multiplied with MXFP4 weights: the codes, read as bf16, are
 * the weights times 2^-126, and their products should be normal numbers. */
#define TOKEN_LIFT 1.2676506002282294e30f /* 2^100 */

/* SwiGLU's results are divided by this: with a clamp of at most TOKEN_LIMIT_MAX they are below
 * 1, which leaves a bit free (token_exchange.cuh). */
#define TOKEN_INNER_SCALE 128.0f
#define TOKEN_LIMIT_MAX   10.0f
#define INNER_LIFT_PAIR   0x75007500u /* TOKEN_LIFT * TOKEN_INNER_SCALE, as a pair of bf16 */

struct token_layer {
    const uint8_t *qkv, *out, *up, *up_scales, *down, *down_scales;
    const uint16_t *qkv_bias, *out_bias, *up_bias, *down_bias;
    const uint16_t *attn_norm, *mlp_norm, *sinks, *router, *router_bias;
    uint8_t *keys; /* page 0, K of this layer; V follows K */
    uint64_t page_bytes;
    uint64_t window; /* 0: full attention */
};

struct token_args {
    const struct token_layer *layers;
    uint32_t layer_count;
    uint32_t experts;
    float eps;
    float limit; /* SwiGLU clamp */
    /* the step's inputs, [tokens] */
    const uint16_t *embed;
    const uint32_t *token;
    const float *rope;
    const struct cuda_seq *seq;
    const uint32_t *tables;
    const uint32_t *slot_full, *slot_window;
    /* values that blocks exchange in L2; a tile's sums come from at most two blocks */
    float *qkv_sums;    /* [2][tokens][TOKEN_QKV_ROWS] */
    float *out_sums;    /* [2][tokens][TOKEN_HIDDEN] */
    float *down_sums;   /* [2][tokens][TOKEN_HIDDEN] */
    float *router_sums; /* [tokens][blocks][experts] */
    uint32_t *mixed;    /* [tokens][heads * 64] attention's output */
    uint16_t *inner;    /* [tokens][topk][TOKEN_INNER], divided by TOKEN_INNER_SCALE */
    float *partial;     /* [token, kv head][split][8][66] */
    uint32_t *tickets;  /* [token, kv head], zero between launches */
    uint32_t *sync;     /* [3]: arrivals so far; their number when the kernel starts; layers */
    float *residual;    /* out: [tokens][TOKEN_HIDDEN] */
};

/* Of attend_layer.cu. */
struct attend_args {
    struct token_args t; /* not read: layer_count, embed, token */
    uint32_t rows;       /* tokens of the step, at most those of the kernel */
    uint32_t layer;
    uint16_t *normed; /* in: the layer's input, normalized; out: that of the experts; bf16 */
    uint32_t *choice; /* out: [rows][topk] */
    float *weight;
};

#endif
