/* gptoss/backend/cuda/expert_stream.cu - experts for 2 to 64 tokens, weights streamed through
 * shared memory.
 *
 * The tiles of every expert that has tokens, in units of two, form one long list, which is
 * divided among the blocks, one block a multiprocessor (expert_work.cuh).  In a block one warp
 * keeps a ring of units filled by bulk copies and never stops between experts.  COMPUTE warps
 * each own a fixed part of the columns and hold the activations of that part in registers as
 * long as the expert lasts, up to 16 tokens at a time.  They take turns to add up the parts of
 * a tile, in a fixed order and one unit later, and to run the epilogue.  So an activation is
 * read once for each expert, weights are read once, and a token's result does not depend on its
 * neighbours.
 *
 * Bound by reading weights: 49 KB a unit.  Precision: bf16 products, float32 sums.  Reference:
 * the expert operations of the CPU backend.  Supports widths of 90 blocks (gpt-oss 20b and
 * 120b) on GPUs with bulk copies and 227 KB of shared memory; select.c uses rows_1_32.cu for
 * all others.
 *
 * Shared memory: ring, parts of sums, then the lists of struct work.
 */
#include "engines/gptoss/backend/cuda/epilogue.cuh"
#include "engines/gptoss/backend/cuda/expert_work.cuh"
#include "engines/gptoss/backend/cuda/ring.cuh"

/* The epilogues of epilogue.cuh, with the routing weight already loaded. */
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
    WARP_PAIRS = PAIRS / COMPUTE,
    WARP_BLOCKS = 2 * WARP_PAIRS,
    FOURS = (BLOCKS + 3) / 4,
    QUARTERS = UNIT * (CUDA_STREAM_COLUMNS / 8), /* what a unit is finished in */
    CODE_BYTES = PAIRS * 512,
    SCALE_BYTES = FOURS * 64,
    SCALES_AT = UNIT * CODE_BYTES,
    BIAS_AT = SCALES_AT + UNIT * SCALE_BYTES,
    UNIT_BYTES = BIAS_AT + UNIT * 32,
    COLUMN_TILES = COLUMNS / 8,
    LIFT_PAIR = 0x5D805D80, /* 2^60, as a pair of bf16 */
};
#define UNLIFT 0x1p-60f
static_assert(COMPUTE * WARP_PAIRS == PAIRS, "compute warps share the columns evenly");
static_assert(UNIT_BYTES <= CUDA_STREAM_STAGE, "a stage is a unit");

/* Run by one lane: keeps the ring filled, one unit at a time.  Several units in flight would
 * not arrive sooner, and all other loads of the block would queue behind them. */
__device__ __forceinline__ void fill_ring(const cuda_gemm &a, work &w, uint8_t *ring)
{
    for (place p(a, w); p.left != 0; p.next()) {
        const uint32_t expert = w.items[p.item].expert, tile = p.unit * UNIT;
        uint8_t *stage = ring + p.stage * CUDA_STREAM_STAGE;
        uint64_t *full = &w.full[p.stage];
        ring_wait(&w.empty[p.stage], p.round ^ 1);
        ring_expect(full, UNIT_BYTES);
        ring_copy(stage,
                  static_cast<const uint8_t *>(a.m.weights) + expert * a.m.expert_weights +
                      tile * CODE_BYTES,
                  UNIT * CODE_BYTES, full);
        ring_copy(stage + SCALES_AT,
                  static_cast<const uint8_t *>(a.m.scales) + expert * a.m.expert_scales +
                      tile * SCALE_BYTES,
                  UNIT * SCALE_BYTES, full);
        ring_copy(stage + BIAS_AT, a.m.bias + expert * a.m.expert_bias + tile * 16, UNIT * 32,
                  full);
        ring_wait(full, p.round);
    }
}

/* This warp's part of the activations of up to COLUMNS tokens, as fragments, times 2^60: codes
 * without their scale are as small as 2^-127, and their products must be normal numbers. */
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
#pragma unroll
    for (int i = 0; i < WARP_BLOCKS * COLUMN_TILES; i++) {
        uint4 &v = h.x[i / COLUMN_TILES][i % COLUMN_TILES];
        v = make_uint4(mul_bf16x2(v.x, LIFT_PAIR), mul_bf16x2(v.y, LIFT_PAIR),
                       mul_bf16x2(v.z, LIFT_PAIR), mul_bf16x2(v.w, LIFT_PAIR));
    }
}

/* A warp's part of a tile: codes, and the scales of 6 blocks of rows g and g + 8. */
struct piece {
    uint4 codes[WARP_PAIRS];
    uint32_t low[2], high[2];

    /* Scales start `shift` bits into the first of two words of four. */
    __device__ __forceinline__ void load(const uint8_t *codes_at, const uint8_t *scales_at,
                                         uint32_t shift)
    {
        static_assert(WARP_BLOCKS == 6, "scales of 6 blocks lie in two words of four");
#pragma unroll
        for (int u = 0; u < WARP_PAIRS; u++)
            codes[u] = *reinterpret_cast<const uint4 *>(codes_at + u * 512);
        const uint2 one = *reinterpret_cast<const uint2 *>(scales_at),
                    two = *reinterpret_cast<const uint2 *>(scales_at + 64);
        low[0] = __funnelshift_r(one.x, two.x, shift);
        low[1] = two.x >> shift;
        high[0] = __funnelshift_r(one.y, two.y, shift);
        high[1] = two.y >> shift;
    }
};

/* Byte I of a word of scales, as a float's exponent field. */
__device__ __forceinline__ float scale_of(uint32_t bytes, int i)
{
    return __uint_as_float((i == 3 ? bytes >> 1 : bytes << (23 - 8 * i)) & 0x7F800000u);
}

/* A block's scales are applied to its sums.  With one column tile that is half the work of
 * applying them to the weights, with two it is as much; a token gets the same bits either
 * way. */
template <int NT>
__device__ __forceinline__ void multiply(const piece p[UNIT], const held &h,
                                         float acc[UNIT][COLUMN_TILES][4])
{
#pragma unroll
    for (int i = 0; i < UNIT * NT * 4; i++)
        acc[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < UNIT; i++)
#pragma unroll
        for (int u = 0; u < WARP_BLOCKS; u++) {
            uint32_t x[4], y[4];
            const uint4 c = p[i].codes[u / 2];
            spread_mxfp4(u % 2 == 0 ? c.x : c.z, x);
            spread_mxfp4(u % 2 == 0 ? c.y : c.w, y);
            const float low = scale_of(p[i].low[u / 4], u % 4),
                        high = scale_of(p[i].high[u / 4], u % 4);
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const uint4 v = h.x[u][n];
                float part[4];
                mma_first(part, x[0], y[0], x[1], y[1], v.x, v.y);
                mma(part, x[2], y[2], x[3], y[3], v.z, v.w);
                acc[i][n][0] = fmaf(low, part[0], acc[i][n][0]);
                acc[i][n][1] = fmaf(low, part[1], acc[i][n][1]);
                acc[i][n][2] = fmaf(high, part[2], acc[i][n][2]);
                acc[i][n][3] = fmaf(high, part[3], acc[i][n][3]);
            }
        }
}

/* Sums of a unit: [tile][warp][column tile][lane] */
__device__ __forceinline__ uint32_t sum_at(uint32_t buffer, uint32_t tile, uint32_t warp,
                                           uint32_t n)
{
    return (((buffer * UNIT + tile) * COMPUTE + warp) * COLUMN_TILES + n) * WARP;
}

/* Adds up and finishes column tile n of tile i of a unit whose sums lie in `buffer`. */
template <class Epilogue>
__device__ __forceinline__ void finish(const cuda_gemm &a, work &w, const float4 *sums,
                                       uint32_t buffer, const item &it, uint32_t tile,
                                       uint32_t i, uint32_t n, uint32_t lane)
{
    const uint32_t g = lane / 4, column = n * 8 + lane % 4 * 2;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < COMPUTE; k++) {
        const float4 v = sums[sum_at(buffer, i, k, n) + lane];
        sum.x += v.x;
        sum.y += v.y;
        sum.z += v.z;
        sum.w += v.w;
    }
    const early_bias bias = {from_bf16(w.bias[buffer][i * 16 + g]),
                             from_bf16(w.bias[buffer][i * 16 + g + 8])};
    if (column < it.count)
        Epilogue::finish(a, bias, tile, g, w.sorted[it.first + column],
                         w.weight[it.first + column], sum.x * UNLIFT, sum.z * UNLIFT);
    if (column + 1 < it.count)
        Epilogue::finish(a, bias, tile, g, w.sorted[it.first + column + 1],
                         w.weight[it.first + column + 1], sum.y * UNLIFT, sum.w * UNLIFT);
}

template <class Epilogue>
__device__ __forceinline__ void compute(const cuda_gemm &a, work &w, const uint8_t *ring,
                                        float4 *sums, bool by_assignment, uint32_t warp,
                                        uint32_t lane)
{
    static_assert(CUDA_STREAM_SUMS == 2, "a unit is finished while the next is computed");
    const uint32_t shift = warp * WARP_BLOCKS % 4 * 8;
    const uint8_t *codes_at = ring + warp * WARP_PAIRS * 512 + lane * 16;
    const uint8_t *scales_at = ring + SCALES_AT + warp * WARP_BLOCKS / 4 * 64 + lane / 4 * 8;
    held h;
    bool fresh = true, two = false;
    uint32_t turn = warp; /* this warp finishes quarter `turn` of a unit, if it exists */
    place p(a, w), before = p;
    for (bool first = true;; first = false) {
        const bool more = p.left != 0;
        if (more) {
            if (fresh) {
                const item it = w.items[p.item];
                two = it.count > 8;
                hold(a, w, it, by_assignment, warp, lane, h);
            }
            ring_wait(&w.full[p.stage], p.round);
            piece pieces[UNIT];
#pragma unroll
            for (int i = 0; i < UNIT; i++)
                pieces[i].load(codes_at + p.stage * CUDA_STREAM_STAGE + i * CODE_BYTES,
                               scales_at + p.stage * CUDA_STREAM_STAGE + i * SCALE_BYTES,
                               shift);
            uint32_t bias = 0;
            if (warp == 0 && lane < UNIT * 8)
                bias = reinterpret_cast<const uint32_t *>(ring + p.stage * CUDA_STREAM_STAGE +
                                                          BIAS_AT)[lane];
            float acc[UNIT][COLUMN_TILES][4];
            if (two)
                multiply<COLUMN_TILES>(pieces, h, acc);
            else
                multiply<1>(pieces, h, acc);
            ring_wait(&w.sums_empty[p.buffer], p.turn ^ 1);
#pragma unroll
            for (int i = 0; i < UNIT; i++)
#pragma unroll
                for (int n = 0; n < COLUMN_TILES; n++)
                    if (n == 0 || two)
                        sums[sum_at(p.buffer, i, warp, n) + lane] =
                            make_float4(acc[i][n][0], acc[i][n][1], acc[i][n][2], acc[i][n][3]);
            if (warp == 0 && lane < UNIT * 8)
                reinterpret_cast<uint32_t *>(w.bias[p.buffer])[lane] = bias;
            __syncwarp();
            if (lane == 0) {
                ring_arrive(&w.sums_full[p.buffer]);
                /* Only after the sums are stored: an arrival does not wait for loads in flight,
                 * and the next copy would overwrite their source. */
                ring_arrive(&w.empty[p.stage]);
            }
        }
        /* The previous unit: most likely all warps are done with it. */
        if (!first) {
            if (turn < QUARTERS) {
                const item it = w.items[before.item];
                const uint32_t i = turn / COLUMN_TILES, n = turn % COLUMN_TILES;
                ring_wait(&w.sums_full[before.buffer], before.turn);
                if (n * 8 < it.count)
                    finish<Epilogue>(a, w, sums, before.buffer, it, before.unit * UNIT + i, i,
                                     n, lane);
                __syncwarp();
                if (lane == 0)
                    ring_arrive(&w.sums_empty[before.buffer]);
                turn += COMPUTE;
            }
            turn -= QUARTERS;
        }
        if (!more)
            break;
        before = p;
        fresh = p.next();
    }
}

/* EARLY: the choices were made before the previous kernel started, so the ring is filled while
 * that kernel still runs. */
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
            ring_init(&w.full[i], 1);
            ring_init(&w.empty[i], COMPUTE);
        }
        for (int i = 0; i < CUDA_STREAM_SUMS; i++) {
            ring_init(&w.sums_full[i], COMPUTE);
            ring_init(&w.sums_empty[i], QUARTERS);
        }
        ring_publish();
    }
    if (!EARLY)
        wait_for_previous_kernel();
    make_work(a, w);
    if (EARLY && warp < COMPUTE)
        wait_for_previous_kernel();
    /* Only after the wait: the next kernel relies on results from before this kernel. */
    let_next_kernel_start();
    if (warp < COMPUTE)
        compute<Epilogue>(a, w, ring, sums, by_assignment, warp, lane);
    else if (lane == 0)
        fill_ring(a, w, ring);
}

extern "C" __global__ void __launch_bounds__(CUDA_STREAM_THREADS, 1)
    stream_gate_up(const __grid_constant__ cuda_gemm a)
{
    stream_experts<swiglu_finish, false>(a, false);
}

extern "C" __global__ void __launch_bounds__(CUDA_STREAM_THREADS, 1)
    stream_down(const __grid_constant__ cuda_gemm a)
{
    stream_experts<down_finish, true>(a, true);
}

#endif
