/* gptoss/backend/cuda/args.h - kernel arguments, shared by host C and device code.
 *
 * Plain data only.  Pointers are device addresses; on the host they are CUdeviceptr values cast
 * to pointers and never dereferenced.
 *
 * Weight layouts (made by the repack kernels at load): rows come in tiles of 16, columns in
 * blocks of 32.  Within a block lane (g = lane / 4, t = lane % 4) of a warp owns columns 8t ..
 * 8t + 7 of rows g and g + 8 of a tile.  With the columns of both operands permuted alike, that
 * is an A fragment of two mma.m16n8k16 steps, so weights go from memory to the tensor cores
 * without passing shared memory.
 *
 *   bf16   [tile][block][half: rows g, rows g + 8][lane] 16 bytes
 *   mxfp4  [tile][block pair][lane] 16 bytes: {row g, row g + 8} of the even block, then of
 *          the odd one; 8 nibbles a word, spread as device.cuh says
 *   scales [tile][four blocks][g] 8 bytes: four of row g, four of row g + 8; a byte is the
 *          bf16 exponent field of 2^(scale - 127 + 126)
 *
 * Row order: q, k, v tiles pair dimension d with d + 32 (rows g and g + 8), so that RoPE needs
 * no exchange between lanes; gate_up tiles pair gate i with up i.
 *
 * Activations have plain column order, except for those that the experts of a prompt read on
 * Hopper: there the columns of a block are in fragment order (device.cuh, prompt_column).
 */
#ifndef GPTOSS_CUDA_ARGS_H
#define GPTOSS_CUDA_ARGS_H

#include <stdint.h>

enum {
    CUDA_PAGE_TOKENS = 64,
    CUDA_HEAD_DIM = 64,
    CUDA_GROUP_MAX = 16, /* query heads that share a KV head */
    CUDA_TOPK_MAX = 8,   /* experts per token */
    CUDA_EXPERTS_MAX = 256,
    CUDA_ROUTER_EXPERTS = 16, /* experts whose router rows one block holds */
    CUDA_ROUTER_ROWS = 4,     /* rows that a block of norm_route_rows has at most */
    CUDA_PASS_ROWS = 32,      /* rows that one pass over the weights serves, at most */
    CUDA_TILE_TOKENS = 128,
    CUDA_TILE_ROWS = 256,
    CUDA_SPLITS_MAX = 32,
    CUDA_PARTS = 256,      /* most parts of long contexts, over all rows of a step */
    CUDA_PART_CHUNKS = 64, /* least chunks of 16 keys of such a part */
    CUDA_FUSED_NORM_TOKENS =
        8, /* the most tokens for which a product normalizes its own input */
    CUDA_SLOT_MODE_TOKENS =
        4,                  /* the most tokens for which experts are run per (token, choice) */
    CUDA_FILTER_BLOCKS = 8, /* a cluster that shares a row of logits */
    CUDA_FILTER_THREADS = 512,
    CUDA_TOP_MAX = 20,     /* most likely ids that are reported */
    CUDA_LOGIT_ROWS = 512, /* most rows of logits made at a time: cuda_logit_rows() */
    CUDA_TURNS = 2,        /* steps that the device has at a time */
};

/* expert_stream.cu: threads and memory layout that the launch must know. */
enum {
    CUDA_STREAM_BLOCKS = 90, /* supported width, in blocks of 32 columns */
    CUDA_STREAM_TOKENS = 64,
    CUDA_STREAM_COLUMNS = 16, /* tokens of an expert per pass over its weights */
    CUDA_STREAM_COMPUTE = 15, /* warps */
    CUDA_STREAM_THREADS = (CUDA_STREAM_COMPUTE + 1) * 32,
    CUDA_STREAM_COMPUTE_8 = 12, /* of the kernels for up to 8 tokens */
    CUDA_STREAM_THREADS_8 = (CUDA_STREAM_COMPUTE_8 + 1) * 32,
    CUDA_STREAM_STAGE = 49152, /* bytes: codes, scales and biases of two tiles */
    CUDA_STREAM_STAGES = 3,
    CUDA_STREAM_SUM_BYTES = 2 * CUDA_STREAM_COMPUTE * CUDA_STREAM_COLUMNS * 64,
    CUDA_STREAM_SUMS = 2,
    CUDA_STREAM_LISTS = 10752,
    CUDA_STREAM_SHARED = CUDA_STREAM_STAGE * CUDA_STREAM_STAGES +
                         CUDA_STREAM_SUM_BYTES * CUDA_STREAM_SUMS + CUDA_STREAM_LISTS,
};

/* The same for rows_2_64.cu. */
enum {
    CUDA_ROWS_2_64_TILES = 10, /* of 16 rows a block has */
    CUDA_ROWS_2_64_PHASES = 3,
    CUDA_ROWS_2_64_THREADS = CUDA_ROWS_2_64_TILES / 2 * CUDA_ROWS_2_64_PHASES * 32,
    CUDA_ROWS_2_64_SLICE = 24,    /* most blocks of 32 columns it has */
    CUDA_ROWS_2_64_SLICE_72 = 23, /* more than 64 rows leave less room for it ... */
    CUDA_ROWS_2_64_DEPTH = 4,
    CUDA_ROWS_2_64_DEPTH_80 = 3, /* ... or for weights in flight */
    /* Bytes of weights in flight, and of the activations of 8 rows. */
    CUDA_ROWS_2_64_RING = CUDA_ROWS_2_64_THREADS * CUDA_ROWS_2_64_DEPTH * 64,
    CUDA_ROWS_2_64_RING_80 = CUDA_ROWS_2_64_THREADS * CUDA_ROWS_2_64_DEPTH_80 * 64,
    CUDA_ROWS_2_64_COLUMN_TILE = CUDA_ROWS_2_64_SLICE * 512,
    CUDA_ROWS_2_64_GROUPS = 64, /* most groups of blocks with a barrier */
    CUDA_ROWS_2_64_GRID = 192,  /* most blocks */
    CUDA_LOGITS_THREADS = 512,
    CUDA_LOGITS_RING = CUDA_LOGITS_THREADS * CUDA_ROWS_2_64_DEPTH * 64,
    CUDA_LOGITS_COLUMN_TILE = 2 * 6 * 512,
};

/* The products and the attention of prompts on Hopper (prompt.cuh, prompt_attention.cu). */
enum {
    CUDA_PROMPT_ROWS = 192,   /* of a tile: 64 for each multiplying warpgroup */
    CUDA_PROMPT_TOKENS = 160, /* most tokens of a tile */
    CUDA_PROMPT_GROUPS = CUDA_PROMPT_ROWS / 64,
    CUDA_PROMPT_THREADS = CUDA_PROMPT_GROUPS * 128 + 128,
    CUDA_PROMPT_STAGES = 8, /* of 64 columns */
    CUDA_PROMPT_SHARED =
        CUDA_PROMPT_TOKENS * (CUDA_PROMPT_STAGES * 128 + CUDA_PROMPT_GROUPS * 64) + 1024,
    CUDA_DENSE_ROWS = 256, /* of a tile of a dense product: 128 for each warpgroup */
    CUDA_DENSE_TOKENS = 192,
    CUDA_DENSE_THREADS = CUDA_DENSE_ROWS + 128,
    CUDA_DENSE_STAGES_MAX = 6,
    CUDA_DENSE_RING_BYTES = 213 * 1024,
    CUDA_DENSE_SHARED = CUDA_DENSE_RING_BYTES + 1024,
    CUDA_DENSE_SPLITS = 8, /* most blocks that share a tile */
    CUDA_DENSE_GRID = 144, /* most blocks, where blocks share tiles */
    CUDA_QUERY_GROUPS = 4, /* of 64 query rows each */
    CUDA_QUERY_THREADS = CUDA_QUERY_GROUPS * 128 + 128,
    CUDA_QUERY_STAGES = 4, /* of a page's K and V of one head */
    CUDA_QUERY_SHARED =
        CUDA_PAGE_TOKENS * 128 * (2 * CUDA_QUERY_STAGES + CUDA_QUERY_GROUPS) + 1024,
};

/* The same for experts with few tokens each (expert_few.cu): bytes of the ring, of the scales
 * of two tiles, and of the results of a tile. */
enum {
    CUDA_FEW_TOKENS = 48,  /* most tokens of a tile, with two blocks on a multiprocessor */
    CUDA_SOME_TOKENS = 96, /* with one block */
    CUDA_FEW_STAGES = 3,
    CUDA_SOME_STAGES = 4,
    CUDA_FEW_STAGE_PAIRS = 3, /* of 64 columns, of a stage of the ring */
    CUDA_FEW_SCALES = 2 * CUDA_PROMPT_ROWS / 16 * ((CUDA_STREAM_BLOCKS + 3) / 4 * 64),
    CUDA_FEW_SHARED = CUDA_FEW_TOKENS * (CUDA_FEW_STAGES * CUDA_FEW_STAGE_PAIRS * 128 +
                                         CUDA_PROMPT_GROUPS * 64) +
                      CUDA_FEW_SCALES + 1024,
    CUDA_SOME_SHARED = CUDA_SOME_TOKENS * (CUDA_SOME_STAGES * CUDA_FEW_STAGE_PAIRS * 128 +
                                           CUDA_PROMPT_GROUPS * 64) +
                       CUDA_FEW_SCALES + 1024,
};

/* One sequence of the step.  Sequences with one token come first, in the order of their rows:
 * row i < decode rows belongs to sequence i. */
struct cuda_seq {
    uint32_t position; /* of its first token of this step */
    uint32_t count;
    uint32_t first_row;   /* its first token's row in the batch */
    uint32_t table_start; /* index into tables: full entries, then as many window entries */
    uint32_t table_count;
    /* Decode steps of more than CUDA_SPLIT_ROWS rows: */
    uint32_t share;      /* chunks of 16 keys that a part of a long context has; 0: not split */
    uint32_t first_part; /* number of its first part among those of all rows */
    uint32_t pad;
};

struct cuda_kv {
    uint8_t *pages; /* of this layer's kind */
    uint64_t page_bytes;
    uint64_t layer_offset; /* of this layer's K within a page; V follows K */
    uint32_t kv_heads;
    uint32_t window; /* 0: full attention */
};

struct cuda_matrix {
    const void *weights;
    const void *scales;      /* mxfp4 only */
    const uint16_t *bias;    /* bf16, in tile row order; NULL: none */
    uint64_t expert_weights; /* bytes from expert to expert */
    uint64_t expert_scales;
    uint64_t expert_bias; /* elements */
    uint32_t rows;        /* real rows */
    uint32_t tiles;       /* of 16 rows */
    uint32_t blocks;      /* of 32 columns */
    uint32_t pad;
};

struct cuda_gemm {
    struct cuda_matrix m;
    const uint16_t *x;     /* bf16 activations [..][x_stride] */
    const float *residual; /* fused norm: normalize these rows instead of reading x */
    const uint16_t *norm;  /* with residual */
    uint32_t x_stride;
    uint32_t hidden; /* columns of residual */
    uint32_t tokens;
    uint32_t tiles_per_group; /* rows_1_32: tiles for each group of warps */
    float eps;
    float limit; /* SwiGLU clamp */
    /* epilogues */
    float *out_f32; /* residual (added to) or logits (set) or expert outputs (set) */
    uint16_t *out_bf16;
    uint32_t out_stride;
    uint32_t topk;
    uint32_t experts;
    uint32_t heads;
    uint32_t splits; /* slices of the columns: rows_2_64, prompt_dense */
    float *parts;    /* sums of each slice */
    uint32_t
        *tickets; /* [blocks that share rows] a counter, zero between launches; its round */
    uint32_t tile_tokens;   /* prompts: tokens of a tile of a dense product */
    const uint32_t *choice; /* [tokens * topk] expert of each assignment */
    const float *weight;    /* [tokens * topk] */
    /* prefill: assignments sorted by expert */
    const uint32_t *sorted;      /* [tokens * topk] assignment indices */
    const uint32_t *expert_tile; /* [tiles][4]: expert, start in sorted, count, room */
    const uint32_t *tile_count;
    const uint32_t *row_pos; /* [tokens] position of each token */
    const uint32_t
        *row_slot;     /* [tokens] page * CUDA_PAGE_TOKENS + slot, in this layer's kind */
    const float *rope; /* [position][32] cos, sin */
    struct cuda_kv kv;
};

struct cuda_attention {
    const struct cuda_seq *seqs;
    const uint32_t *tables;
    const uint16_t *q; /* [rows][heads * 64] */
    uint16_t *out;     /* the same shape */
    const uint16_t *sinks;
    float *partial;    /* [item][kv_head][split][16][66] */
    uint32_t *tickets; /* [item][kv_head], zero between launches */
    uint32_t heads;
    uint32_t rows; /* in the batch */
    uint32_t splits;
    uint32_t tokens_per_tile;   /* prefill: query tokens in a 16-row tile */
    const uint32_t *tile_seq;   /* prefill: sequence of each query tile */
    const uint32_t *tile_first; /* prefill: first token of the tile within its sequence */
    uint32_t tiles;
    uint32_t singles;      /* leading rows that are single tokens */
    const uint32_t *parts; /* parts of long contexts but their first: row, part << 16 */
    struct cuda_kv kv;
};

struct cuda_norm {
    const float *residual; /* [rows][hidden] */
    const uint16_t *norm;
    uint16_t *out;        /* bf16 [rows][hidden] */
    const uint32_t *rows; /* gather: row i reads residual row rows[i]; NULL: row i */
    uint32_t hidden;
    uint32_t count;
    float eps;
    /* router, where weights != NULL */
    uint32_t experts;
    uint32_t topk;
    uint32_t permuted;           /* out in the column order of the products of prompts */
    const uint16_t *router;      /* [experts][hidden] bf16, as stored */
    const uint16_t *router_bias; /* bf16 */
    uint32_t *choice;
    float *weight;
    float *logits;     /* [rows][experts], where blocks share a row's experts */
    uint32_t *tickets; /* [rows], zero between launches */
};

struct cuda_sample_row {
    uint64_t seed;
    uint32_t index;
    float temperature; /* 0: greedy */
};

struct cuda_sample {
    const float *logits; /* [rows][vocab] */
    const uint32_t *usable;
    const struct cuda_sample_row *how;
    float *best_value; /* [rows][blocks] */
    uint32_t *best_id; /* [rows][blocks] */
    uint32_t *tickets; /* [rows], zero between launches */
    uint32_t *out;     /* [turn][CUDA_LOGIT_ROWS], in the host's memory */
    const uint32_t *turn;
    uint32_t *tokens; /* [rows] the next step's, where the host does not write them */
    uint32_t vocab;
    uint32_t stride; /* floats between rows */
};

/* A row for sample_filtered.cu.  Masks and edits lie behind the rows, in the same copy. */
struct cuda_filter_row {
    uint64_t seed;
    uint32_t index;
    float temperature; /* 0: greedy */
    uint32_t row;      /* of the logits */
    uint32_t top_k;    /* 0: off */
    float top_p;       /* 1: off */
    float least;       /* lower bound of x for a run of top_p */
    float floor;       /* smaller x are not sampled: log(min_p) */
    uint32_t mask;     /* first word in the copy, 0: none */
    uint32_t edits;    /* first word in the copy */
    uint32_t edit_count;
    float repetition, presence, frequency;
    uint32_t report; /* 0: no log probabilities; else 1 + number of most likely ids */
};

/* How penalties and bias change one id; each id occurs once. */
struct cuda_edit {
    uint32_t id;
    uint32_t seen; /* 0: not in the history; else 1 + how often it was generated */
    float bias;
};

/* The result.  The host computes log(sum) and everything after it. */
struct cuda_filtered {
    uint32_t id;    /* UINT32_MAX: the host must sample */
    uint32_t count; /* ids in top */
    float logit;    /* of id, before any change; with report, like all below */
    float largest;  /* largest logit of the row */
    double sum;     /* of exp(logit - largest) */
    struct {
        uint32_t id;
        float logit;
    } top[CUDA_TOP_MAX];
};

struct cuda_filter {
    const float *logits; /* [rows][vocab] */
    const uint32_t *usable;
    const uint32_t *input; /* the copy; it begins with the rows */
    struct cuda_filtered *out;
    uint32_t vocab;
    uint32_t stride; /* floats between rows */
};

#endif
