/* gptoss/backend/cuda/token_plan.cuh - how token.cu divides work among blocks, and the shared
 * memory of a block.
 *
 * The work of a step comes in units of 12 to 24 KB, in the order of the weights; block b has a
 * run of them from unit b * n / blocks on.  A piece of the ring is a unit, or two units of one
 * tile:
 *
 *   qkv   (tile, sixth of its columns)   keys  (page) K and V of one KV head, 64 tokens
 *   out   (tile, eighth)                 up    (choice, tile)
 *   down  (tile, choice, half)
 *
 * So a tile's sums lie in at most two neighbouring blocks (token.h limits their number), and
 * the order of additions is fixed.
 *
 * With R = 2 tokens a unit of qkv and out is multiplied with both.  Experts are computed for
 * each token alone, even if both chose the same one: `choice` counts from 0 to 2 topk - 1, and
 * the tiles of down are those of the first token, then those of the second.  Attention of one
 * token and KV head is a group of blocks.
 */
#ifndef GPTOSS_CUDA_TOKEN_PLAN_CUH
#define GPTOSS_CUDA_TOKEN_PLAN_CUH

#include "engines/gptoss/backend/cuda/device.cuh"
#include "engines/gptoss/backend/cuda/token.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

enum {
    QKV_BLOCKS = 15,
    QKV_PARTS = 6,
    QKV_UNITS = TOKEN_QKV_ROWS / 16 * QKV_PARTS,
    OUT_BLOCKS = 16,
    OUT_PARTS = 8,
    OUT_UNITS = TOKEN_HIDDEN / 16 * OUT_PARTS,
    PAIRS = 45, /* of blocks in an mxfp4 row */
    TILE_BYTES = PAIRS * 512,
    TILE_SCALES = 23 * 64,
    UP_TILES = TOKEN_INNER * 2 / 16,
    UP_UNITS = UP_TILES * TOKEN_TOPK,
    HALF_PAIRS = 22, /* of the first half of a down tile; even, so that scales can be cut */
    DOWN_TILES = TOKEN_HIDDEN / 16,
    DOWN_PARTS = TOKEN_TOPK * 2,
    DOWN_UNITS = DOWN_TILES * DOWN_PARTS,
    KEY_BYTES = CUDA_PAGE_TOKENS * CUDA_HEAD_DIM * 2, /* K of one head in a page */
    SPLIT_PAGES = 6, /* least pages of an attention block, if there are so many */
    GROUP = TOKEN_HEADS / TOKEN_KV_HEADS,
    ROWS_OUT = 64, /* most rows of out of a block */
    SLOTS = 16,
    PRODUCERS = 4,  /* warps */
    FLIGHT = 2,     /* pieces in flight: more would only queue, and delay the values that blocks
                       exchange */
    KEY_FLIGHT = 6, /* the same for keys and values, whose pieces are half as large */
    TILES_MAX = 14, /* of a block in a step, for each token */
    X_BYTES = TOKEN_TOPK * TOKEN_INNER * 2, /* activations of a token */
    /* The same in attend_layer.cu; the rest of 64 keeps lanes of different tokens apart. */
    ATTEND_X_BYTES = TOKEN_HEADS * 64 * 2 + 64,
};

/* The products of a layer, in order. */
enum step { STEP_QKV, STEP_OUT, STEP_UP, STEP_DOWN, STEPS };

/* This block's work in a step, the same in every layer: units first to last - 1, which belong
 * to `tiles` tiles from number `tile` on; the first unit is part `part` of its tile. */
struct step_plan {
    uint32_t first, last, tile, tiles, part;
};

template <int R> struct token_shared {
    /* Accessed 16 bytes at a time. */
    alignas(16) float rows[R][ROWS_OUT];
    alignas(16) uint16_t fresh[2 * CUDA_HEAD_DIM]; /* the token's own K and V */
    uint64_t full[SLOTS], empty[SLOTS];
    uint32_t slot_start[PRODUCERS][SLOTS];
    float sums[R][16];
    uint32_t choice[R * TOKEN_TOPK];
    float weight[R * TOKEN_TOPK];
    uint32_t is_last;
    step_plan plan[STEPS];
    token_layer layers[R <= 2 ? TOKEN_LAYERS_MAX : 1];
};

/* Dynamic shared memory with W consumer warps and R tokens: ring, activations, sums of tiles
 * (of attend_layer.cu also the router's sums). */
template <int R> constexpr uint32_t x_stride = R <= 2 ? X_BYTES : ATTEND_X_BYTES;
template <int W, int R>
constexpr uint32_t sums_bytes =
    R <= 2 ? R *TILES_MAX *W * 64 : R *W *TOKEN_EXPERTS_MAX * 4 + 2048;
template <int W, int R>
constexpr uint32_t ring_bytes = (TOKEN_SHARED - 1024 - sizeof(token_shared<R>) -
                                 R * x_stride<R> - sums_bytes<W, R>) /
                                1024 * 1024;
template <int W, int R>
constexpr uint32_t dynamic_bytes = ring_bytes<W, R> + R *x_stride<R> + sums_bytes<W, R>;
/* Where attention keeps q: behind the sums of a step's tiles, in floats. */
template <int R> constexpr uint32_t q_offset = R * 1024;

__device__ __forceinline__ uint32_t parts_of(uint32_t step)
{
    return step == STEP_QKV   ? QKV_PARTS
           : step == STEP_OUT ? OUT_PARTS
           : step == STEP_UP  ? 1
                              : DOWN_PARTS;
}

template <int R> __device__ __forceinline__ step_plan plan_of(uint32_t step)
{
    const uint32_t units = step == STEP_QKV   ? QKV_UNITS
                           : step == STEP_OUT ? OUT_UNITS
                           : step == STEP_UP  ? R * UP_UNITS
                                              : R * DOWN_UNITS,
                   first = units * blockIdx.x / gridDim.x,
                   last = units * (blockIdx.x + 1) / gridDim.x, parts = parts_of(step),
                   tile = first / parts;
    return {first, last, tile, (last - 1) / parts + 1 - tile, first % parts};
}

/* The (token, choice) of a unit of down. */
template <int R> __device__ __forceinline__ uint32_t choice_of_down(uint32_t u)
{
    return u % DOWN_PARTS / 2 + (R == 1 ? 0 : u / DOWN_UNITS * TOKEN_TOPK);
}

/* How many of the units from u on form one piece: two if they belong to one tile. */
__device__ __forceinline__ uint32_t units_of_piece(uint32_t u, uint32_t last)
{
    return u % 2 == 0 && u + 1 < last ? 2 : 1;
}

/* Pairs of blocks of an MXFP4 tile that form one piece, from pair `first` on. */
struct mxfp4_piece {
    uint32_t first, pairs;

    __device__ __forceinline__ uint32_t scale_bytes() const
    {
        return (pairs + 1) / 2 * 64;
    }
    __device__ __forceinline__ uint32_t bytes() const
    {
        return pairs * 512 + scale_bytes();
    }
};
__device__ __forceinline__ mxfp4_piece whole_piece()
{
    return {0, PAIRS};
}
/* count units of down from u on. */
__device__ __forceinline__ mxfp4_piece down_piece(uint32_t u, uint32_t count)
{
    if (count == 2)
        return whole_piece();
    return u % 2 == 0 ? mxfp4_piece{0, HALF_PAIRS}
                      : mxfp4_piece{HALF_PAIRS, PAIRS - HALF_PAIRS};
}

/* Block b works for KV head b % 8 of a token: blocks 8 g to 8 g + 7 are group g, and the keys
 * of a token are split over its groups. */
__device__ __forceinline__ uint32_t own_kv_head()
{
    return blockIdx.x % TOKEN_KV_HEADS;
}
struct key_group {
    uint32_t token;
    uint32_t split, splits; /* the group's among those of the token; 0 splits: no token */
    uint32_t position;
};

__device__ __forceinline__ uint32_t groups_of_blocks()
{
    return min(gridDim.x / TOKEN_KV_HEADS, (uint32_t)TOKEN_SPLITS);
}

/* One token or two have as many groups each. */
template <int R> __device__ __forceinline__ uint32_t even_token()
{
    return blockIdx.x / TOKEN_KV_HEADS % R;
}
template <int R> __device__ __forceinline__ key_group even_group(uint32_t position)
{
    return {even_token<R>(), blockIdx.x / TOKEN_KV_HEADS / R, groups_of_blocks() / R, position};
}

/* Of more tokens each has a group, and the others belong to those with the longest contexts. */
template <int R>
__device__ __forceinline__ key_group group_of(const cuda_seq *seqs, uint32_t rows)
{
    const uint32_t mine = blockIdx.x / TOKEN_KV_HEADS, more = groups_of_blocks() - rows;
    uint32_t positions[R], first = 0;
    float pages[R], all = 0, until = 0;
    key_group found = {0, 0, 0, 0};
#pragma unroll
    for (uint32_t i = 0; i < R; i++)
        positions[i] = seqs[min(i, rows - 1)].position;
#pragma unroll
    for (uint32_t i = 0; i < R; i++) {
        pages[i] = i < rows ? (float)(positions[i] / CUDA_PAGE_TOKENS + 1) : 0.0f;
        all += pages[i];
    }
    /* A little more than the share, so that rounding takes no group from equal contexts. */
    const float share = ((float)more + 0.01f) / all;
#pragma unroll
    for (uint32_t i = 0; i < R; i++) {
        until += pages[i];
        const uint32_t next = min(i + 1, rows) + (uint32_t)(until * share);
        if (mine >= first && mine < next)
            found = {i, mine - first, next - first, positions[i]};
        first = next;
    }
    return found;
}

/* The pages whose keys a block attends to; most blocks have none while the context is short. */
struct key_run {
    uint32_t first, last; /* entries of the page table */
    uint32_t active;      /* blocks that share the head's keys */
};

__device__ __forceinline__ key_run keys_of(const key_group &group, uint32_t window)
{
    const uint32_t position = group.position;
    if (group.splits == 0)
        return {0, 0, 0};
    uint32_t low =
        window != 0 && position >= window ? (position + 1 - window) / CUDA_PAGE_TOKENS : 0;
    uint32_t high = position / CUDA_PAGE_TOKENS + 1;
    uint32_t share = max((high - low + group.splits - 1) / group.splits, (uint32_t)SPLIT_PAGES);
    uint32_t first = min(low + group.split * share, high);
    return {first, min(first + share, high), (high - low + share - 1) / share};
}

#endif
#endif
