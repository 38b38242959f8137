/* gptoss/backend/cuda/token_ring.cuh - how token.cu deals work to blocks, and its producer
 * warp.
 *
 * Work of a step comes in units of 12 to 24 KB, in the order of the weights; block b has a run
 * of them: units b * n / blocks on.  A unit is one piece of the ring:
 *   qkv   (tile, sixth of its columns)   keys  (page) K and V of one KV head, 64 tokens
 *   out   (tile, eighth)                 up    (choice, tile)
 *   down  (tile, choice, half)
 * A tile's sums therefore lie in at most two neighbouring blocks (token.h's limits on their
 * number), and the order of additions is fixed.
 */
#ifndef GPTOSS_CUDA_TOKEN_RING_CUH
#define GPTOSS_CUDA_TOKEN_RING_CUH

#include "engines/gptoss/backend/cuda/device.cuh"
#include "engines/gptoss/backend/cuda/ring.cuh"
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
    SPLIT_PAGES = 6, /* an attention block has at least so many pages, if there are */
    GROUP = TOKEN_HEADS / TOKEN_KV_HEADS,
    SLOTS = 16,
    PRODUCERS = 4,  /* warps */
    TILES_MAX = 14, /* of a block in a step */
    X_BYTES = TOKEN_TOPK * TOKEN_INNER * 2,
};

struct token_shared {
    /* Read and written 16 bytes at a time. */
    alignas(16) float rows[64];
    alignas(16) uint16_t fresh[2 * CUDA_HEAD_DIM]; /* the token's own K and V */
    uint64_t full[SLOTS], empty[SLOTS];
    uint32_t slot_at[SLOTS]; /* where the piece lies; its units in the upper eight bits */
    uint32_t slot_start[PRODUCERS][SLOTS];
    float sums[16];
    float logits[TOKEN_EXPERTS_MAX];
    uint32_t choice[TOKEN_TOPK];
    float weight[TOKEN_TOPK];
    uint32_t is_last;
    token_layer layers[TOKEN_LAYERS_MAX];
};

/* Dynamic shared memory with W consumer warps: ring, activations, sums of tiles. */
template <int W> constexpr uint32_t sums_bytes = TILES_MAX *W * 64;
template <int W>
constexpr uint32_t ring_bytes = (TOKEN_SHARED - 1024 - sizeof(token_shared) - X_BYTES -
                                 sums_bytes<W>) /
                                1024 * 1024;
template <int W> constexpr uint32_t dynamic_bytes = ring_bytes<W> + X_BYTES + sums_bytes<W>;

struct run {
    uint32_t first, last;
};

__device__ __forceinline__ run run_of(uint32_t units)
{
    return {units * blockIdx.x / gridDim.x, units * (blockIdx.x + 1) / gridDim.x};
}

/* How many of the units from u on are one piece: two, where they are of one tile. */
__device__ __forceinline__ uint32_t dense_piece(uint32_t u, uint32_t last)
{
    return u % 2 == 0 && u + 1 < last ? 2 : 1;
}

/* The pages whose keys a block attends to; none in most blocks while the context is short. */
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

/* One thread's view of the ring while it fills it.  Positions grow without end; a piece
 * never wraps, so the end of the ring may stay unused.  Asking for a piece takes a warp
 * longer than the piece may take to come, so the producers take turns; each follows all
 * pieces, since the barriers tell only the last phase from the one before. */
template <int W> struct producer {
    token_shared &s;
    uint8_t *ring;
    uint32_t *starts;      /* positions of the pieces under way */
    uint32_t self;         /* which producer */
    uint32_t count, freed; /* pieces so far; of them, known to be used up */
    uint32_t head, offset; /* next position; the same within the ring */

    __device__ __forceinline__ uint32_t reserve(uint32_t bytes)
    {
        constexpr uint32_t SIZE = ring_bytes<W>;
        bytes = (bytes + 127) & ~127u;
        if (offset + bytes > SIZE) {
            head += SIZE - offset;
            offset = 0;
        }
        while (count - freed >= SLOTS ||
               (freed < count && head + bytes > starts[freed % SLOTS] + SIZE)) {
            ring_wait(&s.empty[freed % SLOTS], freed / SLOTS & 1);
            freed++;
        }
        uint32_t at = offset;
        starts[count % SLOTS] = head;
        head += bytes;
        offset += bytes;
        return at;
    }

    /* A piece of two parts, the second right behind the first. */
    __device__ __forceinline__ void put(const uint8_t *one, uint32_t one_bytes,
                                        const uint8_t *two, uint32_t two_bytes,
                                        uint32_t units = 1)
    {
        uint32_t at = reserve(one_bytes + two_bytes), slot = count % SLOTS;
        if (count++ % PRODUCERS != self)
            return;
        s.slot_at[slot] = at | units << 24;
        ring_expect(&s.full[slot], one_bytes + two_bytes);
        ring_copy(ring + at, one, one_bytes, &s.full[slot]);
        if (two_bytes != 0)
            ring_copy(ring + at + one_bytes, two, two_bytes, &s.full[slot]);
    }

    __device__ __forceinline__ void put_run(const uint8_t *weights, run units, uint32_t bytes)
    {
        for (uint32_t u = units.first, n; u < units.last; u += n) {
            n = dense_piece(u, units.last);
            put(weights + (size_t)u * bytes, n * bytes, nullptr, 0, n);
        }
    }

    __device__ __forceinline__ void put_dense(const token_layer &l, const uint32_t *table,
                                              uint32_t position)
    {
        const run qkv = run_of(QKV_UNITS), out = run_of(OUT_UNITS);
        const key_run keys = keys_of(position, (uint32_t)l.window);
        put_run(l.qkv, qkv, QKV_BLOCKS * 1024);
        for (uint32_t p = keys.first; p < keys.last; p++) {
            const uint8_t *k = l.keys + table[p] * l.page_bytes +
                               (size_t)(blockIdx.x % TOKEN_KV_HEADS) * KEY_BYTES;
            put(k, KEY_BYTES, k + TOKEN_KV_HEADS * KEY_BYTES, KEY_BYTES);
        }
        put_run(l.out, out, OUT_BLOCKS * 1024);
    }

    __device__ __forceinline__ void put_experts(const token_layer &l)
    {
        const run up = run_of(UP_UNITS), down = run_of(DOWN_UNITS);
        for (uint32_t u = up.first; u < up.last; u++) {
            size_t tile = (size_t)s.choice[u / UP_TILES] * UP_TILES + u % UP_TILES;
            put(l.up + tile * TILE_BYTES, TILE_BYTES, l.up_scales + tile * TILE_SCALES,
                TILE_SCALES);
        }
        for (uint32_t u = down.first; u < down.last; u++) {
            size_t tile = (size_t)s.choice[u % DOWN_PARTS / 2] * DOWN_TILES + u / DOWN_PARTS;
            const uint8_t *w = l.down + tile * TILE_BYTES,
                          *e = l.down_scales + tile * TILE_SCALES;
            if (u % 2 == 0)
                put(w, HALF_PAIRS * 512, e, HALF_PAIRS * 32);
            else
                put(w + HALF_PAIRS * 512, TILE_BYTES - HALF_PAIRS * 512, e + HALF_PAIRS * 32,
                    TILE_SCALES - HALF_PAIRS * 32);
        }
    }
};

/* Orders like the float, as an integer. */
__device__ __forceinline__ uint32_t sortable(float v)
{
    uint32_t bits = __float_as_uint(v);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

/* The experts of the token, equal logits by lowest index, and their weights: by a producer
 * warp, the first to need them.  parts: the router's sums, [W][experts]. */
template <int W>
__device__ __forceinline__ void choose(token_shared &s, const float *parts, uint32_t experts,
                                       const float bias[4], float eps)
{
    const uint32_t lane = threadIdx.x % WARP;
    uint32_t key[4];
    float square = 0, mine[4];
#pragma unroll
    for (int w = 0; w < W; w++)
        square += s.sums[w];
    const float scale = rsqrtf(square / (float)TOKEN_HIDDEN + eps);
#pragma unroll
    for (uint32_t k = 0; k < 4; k++) {
        key[k] = 0;
        mine[k] = 0;
        if (k * WARP >= experts)
            continue;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < W; w++)
            sum += parts[w * experts + k * WARP + lane];
        mine[k] = sum * scale + bias[k];
        key[k] = sortable(mine[k]);
    }
    float top = 0, chance = 0, sum = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < TOKEN_TOPK; i++) {
        uint32_t best = key[0], at = lane;
        float value = mine[0];
#pragma unroll
        for (uint32_t k = 1; k < 4; k++)
            if (key[k] > best) {
                best = key[k];
                at = k * WARP + lane;
                value = mine[k];
            }
        uint32_t largest = __reduce_max_sync(0xFFFFFFFFu, best);
        uint32_t expert = __reduce_min_sync(0xFFFFFFFFu, best == largest ? at : UINT32_MAX);
        value = __shfl_sync(0xFFFFFFFFu, value, (int)(expert % WARP));
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            if (k * WARP + lane == expert)
                key[k] = 0;
        top = i == 0 ? value : top;
        float v = __expf(value - top);
        sum += v;
        if (lane == i) {
            chance = v;
            s.choice[i] = expert;
        }
    }
    if (lane < TOKEN_TOPK)
        s.weight[lane] = chance / sum;
    __syncwarp();
}

/* Consumers and the first producer. */
template <int THREADS> __device__ __forceinline__ void all_meet()
{
    asm volatile("bar.sync 2, %0;" ::"n"(THREADS + WARP) : "memory");
}

template <int W>
__device__ __forceinline__ void produce(const token_args &a, token_shared &s, uint8_t *ring,
                                        const float *parts)
{
    const uint32_t lane = threadIdx.x % WARP, self = threadIdx.x / WARP - W;
    const cuda_seq seq = *a.seq;
    const uint32_t *tables = a.tables + seq.table_start;
    producer<W> p = {s, ring, s.slot_start[self], self, 0, 0, 0, 0};
    for (uint32_t i = 0; i < a.layer_count; i++) {
        const token_layer &l = s.layers[i];
        float bias[4] = {0, 0, 0, 0};
        if (self == 0)
#pragma unroll
            for (uint32_t k = 0; k < 4; k++)
                if (k * WARP < a.experts)
                    bias[k] = from_bf16(l.router_bias[k * WARP + lane]);
        if (lane == 0)
            p.put_dense(l, tables + (l.window != 0 ? seq.table_count : 0), seq.position);
        __syncwarp();
        if (self == 0) {
            all_meet<W * WARP>();
            choose<W>(s, parts, a.experts, bias, a.eps);
        }
        asm volatile("bar.sync 3, %0;" ::"n"(PRODUCERS * WARP) : "memory");
        if (lane == 0)
            p.put_experts(l);
        __syncwarp();
    }
}

#endif
#endif
