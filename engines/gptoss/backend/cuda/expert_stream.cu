/* gptoss/backend/cuda/expert_stream.cu - experts for 5 to 64 tokens, weights streamed through
 * shared memory.
 *
 * The tiles of every expert that has tokens are one long list, cut evenly over a block a
 * multiprocessor.  In a block one warp keeps a ring of tiles filled by bulk copies and
 * never stops between experts; COMPUTE warps each own a fixed part of the columns of a
 * tile and hold the activations of that part in registers for as long as the expert lasts,
 * up to 16 tokens at a time; FINISH warps add the parts of a tile in a fixed order and
 * run the epilogue.  So an activation is read once an expert, weights once, and what a
 * token gets does not depend on its neighbours.
 *
 * Bound by reading weights: 24.5 KB a tile.  Precision: bf16 products, float32 sums.
 * Reference: the expert operations of the CPU backend.  Widths of 90 blocks (gpt-oss 20b and
 * 120b), GPUs with bulk copies and 227 KB of shared memory; launch.c has others done by
 * skinny.cu.
 *
 * Shared memory: ring, parts of sums, then the lists of struct work.
 */
#include "engines/gptoss/backend/cuda/epilogue.cuh"
#include "engines/gptoss/backend/cuda/stream.cuh"

/* The epilogues of epilogue.cuh, with the routing weight at hand. */
struct swiglu_finish {
    static __device__ __forceinline__ void finish(const cuda_gemm &a, early_bias bias,
                                                  uint32_t tile, uint32_t g,
                                                  uint32_t assignment, float weight, float low,
                                                  float high)
    {
        if (tile * 8 + g < a.m.rows / 2)
            a.out_bf16[(size_t)assignment * a.out_stride + tile * 8 + g] =
                to_bf16(swiglu(low + bias.low, high + bias.high, a.limit) * weight);
    }
};

struct down_finish {
    static __device__ __forceinline__ void finish(const cuda_gemm &a, early_bias bias,
                                                  uint32_t tile, uint32_t g,
                                                  uint32_t assignment, float weight, float low,
                                                  float high)
    {
        float *out = a.out_f32 + (size_t)assignment * a.out_stride + tile * 16 + g;
        if (tile * 16 + g < a.m.rows)
            out[0] = low + weight * bias.low;
        if (tile * 16 + g + 8 < a.m.rows)
            out[8] = high + weight * bias.high;
    }
};

#if __CUDA_ARCH__ >= 900

enum {
    BLOCKS = CUDA_STREAM_BLOCKS,
    PAIRS = BLOCKS / 2,
    COMPUTE = CUDA_STREAM_COMPUTE,
    FINISH = CUDA_STREAM_FINISH,
    WARP_PAIRS = PAIRS / COMPUTE,
    WARP_BLOCKS = 2 * WARP_PAIRS,
    FOURS = (BLOCKS + 3) / 4,
    CODE_BYTES = PAIRS * 512,
    SCALE_BYTES = FOURS * 64,
    BIAS_BYTES = 32,
    COLUMNS = CUDA_STREAM_COLUMNS,
    COLUMN_TILES = COLUMNS / 8,
    LIST = CUDA_TOPK_MAX * CUDA_STREAM_TOKENS,
    ITEMS = CUDA_EXPERTS_MAX + LIST / COLUMNS,
    HISTOGRAMS = LIST / WARP,
};
static_assert(COMPUTE * WARP_PAIRS == PAIRS, "compute warps share the columns evenly");
static_assert(CODE_BYTES + SCALE_BYTES + BIAS_BYTES <= CUDA_STREAM_STAGE, "a stage is a tile");

/* Up to COLUMNS tokens of one expert. */
struct item {
    uint16_t expert, first, count, pad;
};

struct work {
    uint64_t full[CUDA_STREAM_STAGES], empty[CUDA_STREAM_STAGES];
    uint64_t sums_full[CUDA_STREAM_SUMS], sums_empty[CUDA_STREAM_SUMS];
    float weight[LIST];    /* routing weight of an assignment of the list */
    uint16_t sorted[LIST]; /* assignments by expert */
    item items[ITEMS];
    uint32_t item_count;
    uint16_t start[CUDA_EXPERTS_MAX];
    uint8_t histogram[HISTOGRAMS][CUDA_EXPERTS_MAX]; /* of each 32 assignments */
};
static_assert(sizeof(work) <= CUDA_STREAM_LISTS, "launch.c leaves room for the lists");

/* Sorts assignments by expert and makes the items.  Every block does it for itself: a kernel
 * for it would cost more.  All threads; at least experts and assignments many. */
__device__ __forceinline__ void make_work(const cuda_gemm &a, work &w)
{
    __shared__ uint32_t warp_total[CUDA_EXPERTS_MAX / WARP],
        warp_items[CUDA_EXPERTS_MAX / WARP];
    const uint32_t i = threadIdx.x, warp = i / WARP, lane = i % WARP;
    const uint32_t pairs = a.tokens * a.topk;
    for (uint32_t k = i; k < sizeof(w.histogram) / 4; k += blockDim.x)
        reinterpret_cast<uint32_t *>(w.histogram)[k] = 0;
    const bool real = i < pairs;
    const uint32_t expert = real ? __ldcg(a.choice + i) : CUDA_EXPERTS_MAX;
    const float weight = real ? __ldcg(a.weight + i) : 0.0f;
    const uint32_t same = __match_any_sync(0xFFFFFFFFu, expert);
    const uint32_t before = __popc(same & ((1u << lane) - 1));
    __syncthreads();
    if (real && before == 0)
        w.histogram[warp][expert] = (uint8_t)__popc(same);
    __syncthreads();
    /* Thread e: how many tokens expert e has; then where its share starts. */
    uint32_t mine = 0, items = 0, total = 0, total_items = 0;
    if (i < CUDA_EXPERTS_MAX) {
        for (uint32_t k = 0; k < HISTOGRAMS; k++) {
            uint32_t n = w.histogram[k][i];
            w.histogram[k][i] = (uint8_t)mine; /* at most 64 tokens choose an expert */
            mine += n;
        }
        items = (mine + COLUMNS - 1) / COLUMNS;
        total = mine;
        total_items = items;
#pragma unroll
        for (int d = 1; d < WARP; d <<= 1) {
            uint32_t x = __shfl_up_sync(0xFFFFFFFFu, total, d),
                     y = __shfl_up_sync(0xFFFFFFFFu, total_items, d);
            total += lane >= d ? x : 0;
            total_items += lane >= d ? y : 0;
        }
        if (lane == WARP - 1) {
            warp_total[warp] = total;
            warp_items[warp] = total_items;
        }
    }
    __syncthreads();
    if (i < CUDA_EXPERTS_MAX) {
        for (uint32_t k = 0; k < warp; k++) {
            total += warp_total[k];
            total_items += warp_items[k];
        }
        w.start[i] = (uint16_t)(total - mine);
        if (i == CUDA_EXPERTS_MAX - 1)
            w.item_count = total_items;
        for (uint32_t k = 0; k < items; k++)
            w.items[total_items - items + k] = {
                (uint16_t)i, (uint16_t)(total - mine + k * COLUMNS),
                (uint16_t)min(mine - k * COLUMNS, (uint32_t)COLUMNS), 0};
    }
    __syncthreads();
    if (real) {
        uint32_t at = w.start[expert] + w.histogram[warp][expert] + before;
        w.sorted[at] = (uint16_t)i;
        w.weight[at] = weight;
    }
    __syncthreads();
}

/* The tiles of this block: `first` to `last` of the list of all items' tiles. */
struct share {
    uint32_t first, last;
};

__device__ __forceinline__ share share_of(const cuda_gemm &a, const work &w)
{
    uint32_t all = w.item_count * a.m.tiles;
    return {(uint32_t)((uint64_t)all * blockIdx.x / gridDim.x),
            (uint32_t)((uint64_t)all * (blockIdx.x + 1) / gridDim.x)};
}

/* One lane: keeps the ring filled. */
__device__ __forceinline__ void fill_ring(const cuda_gemm &a, work &w, uint8_t *ring,
                                          share mine)
{
    uint32_t at = mine.first / a.m.tiles, tile = mine.first % a.m.tiles;
    ring_position p = {0, 0};
    for (uint32_t q = mine.first; q < mine.last; q++) {
        const uint32_t expert = w.items[at].expert;
        uint8_t *stage = ring + p.stage * CUDA_STREAM_STAGE;
        barrier_wait(&w.empty[p.stage], p.phase ^ 1);
        barrier_expect(&w.full[p.stage], CODE_BYTES + SCALE_BYTES + BIAS_BYTES);
        copy_bulk(stage,
                  static_cast<const uint8_t *>(a.m.weights) + expert * a.m.expert_weights +
                      tile * CODE_BYTES,
                  CODE_BYTES, &w.full[p.stage]);
        copy_bulk(stage + CODE_BYTES,
                  static_cast<const uint8_t *>(a.m.scales) + expert * a.m.expert_scales +
                      tile * SCALE_BYTES,
                  SCALE_BYTES, &w.full[p.stage]);
        copy_bulk(stage + CODE_BYTES + SCALE_BYTES,
                  a.m.bias + expert * a.m.expert_bias + tile * 16, BIAS_BYTES,
                  &w.full[p.stage]);
        p.advance(CUDA_STREAM_STAGES);
        if (++tile == a.m.tiles) {
            tile = 0;
            at++;
        }
    }
}

/* This warp's part of the activations of up to COLUMNS tokens, as fragments. */
struct held {
    uint4 x[WARP_BLOCKS][COLUMN_TILES];
};

__device__ __forceinline__ void hold(const cuda_gemm &a, const work &w, const item &it,
                                     bool by_assignment, uint32_t warp, uint32_t lane, held &h)
{
    const uint32_t g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < COLUMN_TILES; n++) {
        const bool real = n * 8 + g < it.count;
        uint32_t row = real ? w.sorted[it.first + n * 8 + g] : 0;
        row = by_assignment ? row : row / a.topk;
        const uint4 *from = reinterpret_cast<const uint4 *>(a.x + (size_t)row * a.x_stride +
                                                            warp * WARP_BLOCKS * 32 + t * 8);
#pragma unroll
        for (int u = 0; u < WARP_BLOCKS; u++)
            h.x[u][n] = real ? __ldcg(from + u * 4) : make_uint4(0, 0, 0, 0);
    }
}

/* A tile in the ring times the held activations. */
template <int NT>
__device__ __forceinline__ void multiply(const uint4 codes[WARP_PAIRS], const uint32_t low[2],
                                         const uint32_t high[2], const held &h,
                                         float acc[NT][4])
{
#pragma unroll
    for (int n = 0; n < NT; n++)
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
#pragma unroll
    for (int u = 0; u < WARP_BLOCKS; u++) {
        uint32_t x[4], y[4];
        const uint4 c = codes[u / 2];
        decode_mxfp4(u % 2 == 0 ? c.x : c.z, scale_pair(low[u / 4], u % 4), x);
        decode_mxfp4(u % 2 == 0 ? c.y : c.w, scale_pair(high[u / 4], u % 4), y);
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const uint4 v = h.x[u][n];
            mma(acc[n], x[0], y[0], x[1], y[1], v.x, v.y);
            mma(acc[n], x[2], y[2], x[3], y[3], v.z, v.w);
        }
    }
}

__device__ __forceinline__ void compute(const cuda_gemm &a, work &w, const uint8_t *ring,
                                        float4 *sums, share mine, bool by_assignment,
                                        uint32_t warp, uint32_t lane)
{
    static_assert(WARP_BLOCKS == 6, "scales of 6 blocks lie in two words of four");
    /* Where its scales start in the first word: warps begin at multiples of 6 blocks. */
    const uint32_t shift = warp * WARP_BLOCKS % 4 * 8;
    const uint8_t *codes_at = ring + warp * WARP_PAIRS * 512 + lane * 16;
    const uint8_t *scales_at = ring + CODE_BYTES + warp * WARP_BLOCKS / 4 * 64 + lane / 4 * 8;
    uint32_t at = mine.first / a.m.tiles, tile = mine.first % a.m.tiles;
    ring_position p = {0, 0}, s = {0, 0};
    held h;
    bool fresh = true, wide = false;
    for (uint32_t q = mine.first; q < mine.last; q++) {
        if (fresh) {
            const item it = w.items[at];
            wide = it.count > 8;
            hold(a, w, it, by_assignment, warp, lane, h);
            fresh = false;
        }
        barrier_wait(&w.full[p.stage], p.phase);
        uint4 codes[WARP_PAIRS];
#pragma unroll
        for (int u = 0; u < WARP_PAIRS; u++)
            codes[u] = *reinterpret_cast<const uint4 *>(codes_at + p.stage * CUDA_STREAM_STAGE +
                                                        u * 512);
        uint2 one = *reinterpret_cast<const uint2 *>(scales_at + p.stage * CUDA_STREAM_STAGE),
              two = *reinterpret_cast<const uint2 *>(scales_at + p.stage * CUDA_STREAM_STAGE +
                                                     64);
        uint32_t low[2] = {__funnelshift_r(one.x, two.x, shift), two.x >> shift};
        uint32_t high[2] = {__funnelshift_r(one.y, two.y, shift), two.y >> shift};
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&w.empty[p.stage]);
        p.advance(CUDA_STREAM_STAGES);

        float acc[COLUMN_TILES][4];
        if (wide)
            multiply<COLUMN_TILES>(codes, low, high, h, acc);
        else
            multiply<1>(codes, low, high, h, acc);
        barrier_wait(&w.sums_empty[s.stage], s.phase ^ 1);
        float4 *out = sums + (s.stage * COMPUTE + warp) * COLUMN_TILES * WARP + lane;
        out[0] = make_float4(acc[0][0], acc[0][1], acc[0][2], acc[0][3]);
        if (wide)
            out[WARP] = make_float4(acc[1][0], acc[1][1], acc[1][2], acc[1][3]);
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&w.sums_full[s.stage]);
        s.advance(CUDA_STREAM_SUMS);
        if (++tile == a.m.tiles) {
            tile = 0;
            at++;
            fresh = true;
        }
    }
}

/* Tiles of this block in turn, FINISH warps alternating. */
template <class Epilogue>
__device__ __forceinline__ void finish(const cuda_gemm &a, work &w, const uint8_t *ring,
                                       const float4 *sums, share mine, uint32_t which,
                                       uint32_t lane)
{
    static_assert(COLUMN_TILES == 2, "an item is one or two column tiles");
    const uint32_t g = lane / 4, t = lane % 4;
    uint32_t at = mine.first / a.m.tiles, tile = mine.first % a.m.tiles;
    ring_position p = {0, 0}, s = {0, 0};
    for (uint32_t q = mine.first; q < mine.last; q++) {
        if ((q - mine.first) % FINISH == which) {
            const item it = w.items[at];
            barrier_wait(&w.full[p.stage], p.phase);
            const uint16_t *b = reinterpret_cast<const uint16_t *>(
                ring + p.stage * CUDA_STREAM_STAGE + CODE_BYTES + SCALE_BYTES);
            const early_bias bias = {from_bf16(b[g]), from_bf16(b[g + 8])};
            __syncwarp();
            if (lane == 0)
                barrier_arrive(&w.empty[p.stage]);
            barrier_wait(&w.sums_full[s.stage], s.phase);
            const float4 *in = sums + s.stage * COMPUTE * COLUMN_TILES * WARP + lane;
            const uint32_t tiles = it.count > 8 ? 2 : 1;
            float total[COLUMN_TILES][4];
#pragma unroll
            for (int n = 0; n < COLUMN_TILES; n++) {
                total[n][0] = total[n][1] = total[n][2] = total[n][3] = 0;
                if (n < tiles)
#pragma unroll
                    for (int k = 0; k < COMPUTE; k++) {
                        float4 v = in[(k * COLUMN_TILES + n) * WARP];
                        total[n][0] += v.x;
                        total[n][1] += v.y;
                        total[n][2] += v.z;
                        total[n][3] += v.w;
                    }
            }
            __syncwarp();
            if (lane == 0)
                barrier_arrive(&w.sums_empty[s.stage]);
#pragma unroll
            for (int n = 0; n < COLUMN_TILES; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const uint32_t column = n * 8 + 2 * t + i;
                    if (column < it.count)
                        Epilogue::finish(a, bias, tile, g, w.sorted[it.first + column],
                                         w.weight[it.first + column], total[n][i],
                                         total[n][i + 2]);
                }
        }
        p.advance(CUDA_STREAM_STAGES);
        s.advance(CUDA_STREAM_SUMS);
        if (++tile == a.m.tiles) {
            tile = 0;
            at++;
        }
    }
}

/* EARLY: choices were made before the kernel before this one started, so the ring is filled
 * while that one still runs. */
template <class Epilogue, bool EARLY>
__device__ __forceinline__ void stream_experts(const cuda_gemm &a, bool by_assignment)
{
    extern __shared__ __align__(128) uint8_t shared[];
    uint8_t *ring = shared;
    float4 *sums = reinterpret_cast<float4 *>(shared + CUDA_STREAM_STAGES * CUDA_STREAM_STAGE);
    work &w = *reinterpret_cast<work *>(shared + CUDA_STREAM_STAGES * CUDA_STREAM_STAGE +
                                        CUDA_STREAM_SUMS * CUDA_STREAM_SUM_BYTES);
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
        for (int i = 0; i < CUDA_STREAM_STAGES; i++) {
            barrier_init(&w.full[i], 1);
            barrier_init(&w.empty[i], COMPUTE + 1);
        }
        for (int i = 0; i < CUDA_STREAM_SUMS; i++) {
            barrier_init(&w.sums_full[i], COMPUTE);
            barrier_init(&w.sums_empty[i], 1);
        }
        barrier_init_fence();
    }
    if (!EARLY)
        wait_for_previous_kernel();
    make_work(a, w);
    const share mine = share_of(a, w);
    if (EARLY && warp != COMPUTE + FINISH)
        wait_for_previous_kernel();
    /* Not before the wait: the next kernel counts on what came before this one. */
    let_next_kernel_start();
    if (warp < COMPUTE)
        compute(a, w, ring, sums, mine, by_assignment, warp, lane);
    else if (warp < COMPUTE + FINISH)
        finish<Epilogue>(a, w, ring, sums, mine, warp - COMPUTE, lane);
    else if (lane == 0)
        fill_ring(a, w, ring, mine);
}

#endif

extern "C" __global__ void __launch_bounds__(CUDA_STREAM_THREADS, 1)
    stream_gate_up(const __grid_constant__ cuda_gemm a)
{
#if __CUDA_ARCH__ >= 900
    stream_experts<swiglu_finish, false>(a, false);
#endif
}

extern "C" __global__ void __launch_bounds__(CUDA_STREAM_THREADS, 1)
    stream_down(const __grid_constant__ cuda_gemm a)
{
#if __CUDA_ARCH__ >= 900
    stream_experts<down_finish, true>(a, true);
#endif
}
