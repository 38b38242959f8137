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
    SLOTS = 16,
    PRODUCERS = 4,  /* warps */
    FLIGHT = 2,     /* pieces in flight: more would only queue, and delay the values that blocks
                       exchange */
    KEY_FLIGHT = 6, /* the same for keys and values, whose pieces are half as large */
    TILES_MAX = 14, /* of a block in a step */
    X_BYTES = TOKEN_TOPK * TOKEN_INNER * 2,
};

/* The products of a layer, in order. */
enum step { STEP_QKV, STEP_OUT, STEP_UP, STEP_DOWN, STEPS };

/* This block's work in a step, the same in every layer: units first to last - 1, which belong
 * to `tiles` tiles from number `tile` on; the first unit is part `part` of its tile. */
struct step_plan {
    uint32_t first, last, tile, tiles, part;
};

struct token_shared {
    /* Accessed 16 bytes at a time. */
    alignas(16) float rows[64];
    alignas(16) uint16_t fresh[2 * CUDA_HEAD_DIM]; /* the token's own K and V */
    uint64_t full[SLOTS], empty[SLOTS];
    uint32_t slot_start[PRODUCERS][SLOTS];
    float sums[16];
    uint32_t choice[TOKEN_TOPK];
    float weight[TOKEN_TOPK];
    uint32_t is_last;
    step_plan plan[STEPS];
    token_layer layers[TOKEN_LAYERS_MAX];
};

/* Dynamic shared memory with W consumer warps: ring, activations, sums of tiles. */
template <int W> constexpr uint32_t sums_bytes = TILES_MAX *W * 64;
template <int W>
constexpr uint32_t ring_bytes = (TOKEN_SHARED - 1024 - sizeof(token_shared) - X_BYTES -
                                 sums_bytes<W>) /
                                1024 * 1024;
template <int W> constexpr uint32_t dynamic_bytes = ring_bytes<W> + X_BYTES + sums_bytes<W>;

__device__ __forceinline__ uint32_t parts_of(uint32_t step)
{
    return step == STEP_QKV   ? QKV_PARTS
           : step == STEP_OUT ? OUT_PARTS
           : step == STEP_UP  ? 1
                              : DOWN_PARTS;
}

__device__ __forceinline__ step_plan plan_of(uint32_t step)
{
    const uint32_t units = step == STEP_QKV   ? QKV_UNITS
                           : step == STEP_OUT ? OUT_UNITS
                           : step == STEP_UP  ? UP_UNITS
                                              : DOWN_UNITS,
                   first = units * blockIdx.x / gridDim.x,
                   last = units * (blockIdx.x + 1) / gridDim.x, parts = parts_of(step),
                   tile = first / parts;
    return {first, last, tile, (last - 1) / parts + 1 - tile, first % parts};
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

/* The pages whose keys a block attends to; most blocks have none while the context is short. */
struct key_run {
    uint32_t first, last; /* entries of the page table */
    uint32_t active;      /* blocks that share the head's keys */
};

__device__ __forceinline__ key_run keys_of(uint32_t position, uint32_t window)
{
    uint32_t low =
        window != 0 && position >= window ? (position + 1 - window) / CUDA_PAGE_TOKENS : 0;
    uint32_t high = position / CUDA_PAGE_TOKENS + 1;
    uint32_t share = max((high - low + TOKEN_SPLITS - 1) / TOKEN_SPLITS, (uint32_t)SPLIT_PAGES);
    uint32_t first = min(low + blockIdx.x / TOKEN_KV_HEADS * share, high);
    return {first, min(first + share, high), (high - low + share - 1) / share};
}

#endif
#endif
