/* model/gptoss.h - the weights of a gpt-oss model by role, from either encoding.
 *
 * The engine uses this interface: every role has the same meaning, whether the bytes come from
 * safetensors shards or from the official metal/model.bin.  Two differences stay visible,
 * because hiding them would need a copy of the experts:
 *
 *   - an expert's parts lie `stride` bytes apart (all experts of one part are adjacent in
 *     safetensors, one expert's parts are adjacent in model.bin);
 *   - scale bytes carry `scale_excess` (0 or 14): the factor of a block is
 *     2^(s - scale_excess - 127).
 *
 * Q and K of a model.bin are stored permuted and scaled, and are restored to plain order at
 * open (the only bytes that are copied; exact, powers of two); paired_qkv has them as stored.
 * All BF16 pointers are 2-byte aligned.  Matrices are [out, in], row-major.  Thread: any, once
 * opened.
 */
#ifndef MODEL_GPTOSS_H
#define MODEL_GPTOSS_H

#include "base/fail.h"
#include "model/config.h"
#include "model/weights.h"

/* MXFP4 matrices of all experts: of expert e, row r, the blocks are
 * blocks + e * blocks_stride + r * (columns / 32) * 16, the scales are
 * scales + e * scales_stride + r * (columns / 32), the bias is
 * (const uint16_t *)((const char *)bias + e * bias_stride) + r. */
struct model_experts {
    const uint8_t *blocks; /* 16 bytes for 32 columns, element 2b in the low nibble */
    const uint8_t *scales; /* one byte for 32 columns */
    const uint16_t *bias;  /* BF16 [rows] */
    uint64_t blocks_stride;
    uint64_t scales_stride;
    uint64_t bias_stride;
    uint32_t rows;
    uint32_t columns;
};

struct model_gptoss_layer {
    const uint16_t *attn_norm; /* [hidden] */
    const uint16_t *q_weight;  /* [heads * head_dim, hidden] */
    const uint16_t *q_bias;
    const uint16_t *k_weight; /* [kv_heads * head_dim, hidden] */
    const uint16_t *k_bias;
    const uint16_t *v_weight;
    const uint16_t *v_bias;
    /* of a model.bin, in the file: Q, K, V as one matrix and its bias; the rows of a head of Q
     * or K are in the order 0, 32, 1, 33, ..., Q is halved and K quartered.  NULL otherwise */
    const uint16_t *paired_qkv;
    const uint16_t *paired_qkv_bias;
    const uint16_t *o_weight; /* [hidden, heads * head_dim] */
    const uint16_t *o_bias;
    const uint16_t *sinks;         /* [heads] */
    const uint16_t *mlp_norm;      /* [hidden] */
    const uint16_t *router_weight; /* [experts, hidden] */
    const uint16_t *router_bias;   /* [experts] */
    struct model_experts gate_up;  /* rows 2 * intermediate: even = gate, odd = up */
    struct model_experts down;     /* rows hidden, columns intermediate */
};

struct model_gptoss {
    struct model_config config;
    uint32_t vocab_rows; /* rows of embed and unembed; config.vocab, or fewer in a model.bin */
    uint32_t scale_excess;
    const uint16_t *embed;                   /* [vocab_rows, hidden] */
    const uint16_t *norm;                    /* [hidden] */
    const uint16_t *unembed;                 /* [vocab_rows, hidden] */
    const struct model_gptoss_layer *layers; /* config.layers of them */
    uint64_t weight_bytes;                   /* of everything above, as stored */
    const char *source; /* for the load log: "safetensors" or the path of the model.bin */
    struct model_gptoss_storage *storage; /* owned: mappings, rebuilt Q and K */
};

/* Reads dir/config.json and the weights; with `artifact` (a path to a model.bin) the weights
 * come from that file.  Checks all names, dtypes and shapes.
 *   UNSUPPORTED, MODEL_CORRUPT, OUT_OF_RAM as in config.h and weights.h. */
LR_MUST_USE lr_code model_gptoss_open(const char *dir, const char *artifact,
                                      struct model_gptoss **out, struct lr_error *err);
void model_gptoss_close(struct model_gptoss *m); /* NULL is fine */

/* Hints for every mapped byte; see model/weights.h. */
void model_gptoss_advise(const struct model_gptoss *m, enum model_advice advice);

/* The mapped model.bin, page-aligned; NULL: the weights come from safetensors. */
const void *model_gptoss_file(const struct model_gptoss *m, uint64_t *bytes);

/* Gives back the memory of Q and K in plain order, for a user of paired_qkv: their pointers
 * become NULL.  Not while other threads read the weights.  Nothing for safetensors. */
void model_gptoss_drop_plain(const struct model_gptoss *m);

/* Bytes of the weights in memory, from config.json alone, for a probe. */
uint64_t model_gptoss_weight_bytes(const struct model_config *config);

#endif
