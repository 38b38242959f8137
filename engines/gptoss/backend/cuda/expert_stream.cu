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

/* A kernel of this file: COMPUTE warps share the columns of a tile, COLUMNS tokens (8 or 16) at
 * a time. */
template <int COLUMNS_, int COMPUTE_> struct stream {
    enum {
        COLUMNS = COLUMNS_,
        COMPUTE = COMPUTE_,
        BLOCKS = CUDA_STREAM_BLOCKS,
        PAIRS = BLOCKS / 2,
        WARP_PAIRS = (PAIRS + COMPUTE - 1) / COMPUTE, /* at most */
        WARP_BLOCKS = 2 * WARP_PAIRS,
        EVEN = PAIRS % COMPUTE == 0,        /* every warp has as many */
        SCALES = (WARP_BLOCKS + 2 + 3) / 4, /* words of four; a warp may begin in the middle */
        FOURS = (BLOCKS + 3) / 4,
        COLUMN_TILES = COLUMNS / 8,
        QUARTERS = UNIT * COLUMN_TILES, /* what a unit is finished in */
        CODE_BYTES = PAIRS * 512,
        SCALE_BYTES = FOURS * 64,
        SCALES_AT = UNIT * CODE_BYTES,
        BIAS_AT = SCALES_AT + UNIT * SCALE_BYTES,
        UNIT_BYTES = BIAS_AT + UNIT * 32,
    };
    static_assert(UNIT_BYTES <= CUDA_STREAM_STAGE, "a stage is a unit");
    static_assert(COMPUTE <= CUDA_STREAM_COMPUTE && COLUMNS <= CUDA_STREAM_COLUMNS,
                  "the launch leaves room for the sums");
    static __device__ __forceinline__ uint32_t first_pair(uint32_t warp)
    {
        return warp * PAIRS / COMPUTE;
    }
    using works = work<COLUMNS>;
    using places = place<COLUMNS>;
};

enum { LIFT_PAIR = 0x5D805D80 /* 2^60, as a pair of bf16 */ };
#define UNLIFT 0x1p-60f

/* Run by one lane: keeps the ring filled, one unit at a time.  Several units in flight would
 * not arrive sooner, and all other loads of the block would queue behind them. */
template <class S>
__device__ __forceinline__ void fill_ring(const cuda_gemm &a, typename S::works &w,
                                          uint8_t *ring)
{
    for (typename S::places p(a, w); p.left != 0; p.next()) {
        const uint32_t expert = w.items[p.item].expert, tile = p.unit * UNIT;
        uint8_t *stage = ring + p.stage * CUDA_STREAM_STAGE;
        uint64_t *full = &w.full[p.stage];
        ring_wait(&w.empty[p.stage], p.round ^ 1);
        ring_expect(full, S::UNIT_BYTES);
        ring_copy(stage,
                  static_cast<const uint8_t *>(a.m.weights) + expert * a.m.expert_weights +
                      tile * S::CODE_BYTES,
                  UNIT * S::CODE_BYTES, full);
        ring_copy(stage + S::SCALES_AT,
                  static_cast<const uint8_t *>(a.m.scales) + expert * a.m.expert_scales +
                      tile * S::SCALE_BYTES,
                  UNIT * S::SCALE_BYTES, full);
        ring_copy(stage + S::BIAS_AT, a.m.bias + expert * a.m.expert_bias + tile * 16,
                  UNIT * 32, full);
        ring_wait(full, p.round);
    }
}

/* This warp's part of the activations of up to COLUMNS tokens, as fragments, times 2^60: codes
 * without their scale are as small as 2^-127, and their products must be normal numbers. */
template <class S> struct held {
    uint4 x[S::WARP_BLOCKS][S::COLUMN_TILES];
};

template <class S>
__device__ __forceinline__ void hold(const cuda_gemm &a, const typename S::works &w,
                                     const item &it, bool by_assignment, uint32_t warp,
                                     uint32_t lane, held<S> &h)
{
    const uint32_t first = S::first_pair(warp), blocks = (S::first_pair(warp + 1) - first) * 2;
    constexpr int COLUMN_TILES = S::COLUMN_TILES, WARP_BLOCKS = S::WARP_BLOCKS;
    const uint32_t g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < COLUMN_TILES; n++) {
        const bool real = n * 8 + g < it.count;
        uint32_t row = real ? w.sorted[it.first + n * 8 + g] : 0;
        row = by_assignment ? row : row / a.topk;
        const uint4 *from = reinterpret_cast<const uint4 *>(a.x + (size_t)row * a.x_stride +
                                                            first * 64 + t * 8);
#pragma unroll
        for (int u = 0; u < WARP_BLOCKS; u++)
            h.x[u][n] =
                real && (S::EVEN || u < blocks) ? __ldcg(from + u * 4) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < WARP_BLOCKS * COLUMN_TILES; i++) {
        uint4 &v = h.x[i / COLUMN_TILES][i % COLUMN_TILES];
        v = make_uint4(mul_bf16x2(v.x, LIFT_PAIR), mul_bf16x2(v.y, LIFT_PAIR),
                       mul_bf16x2(v.z, LIFT_PAIR), mul_bf16x2(v.w, LIFT_PAIR));
    }
}

/* A warp's part of a tile: codes, and the scales of rows g and g + 8. */
template <class S> struct piece {
    uint4 codes[S::WARP_PAIRS];
    uint32_t low[S::SCALES], high[S::SCALES];

    /* Scales start `shift` bits into the first of the words of four; `pairs` are there. */
    __device__ __forceinline__ void load(const uint8_t *codes_at, const uint8_t *scales_at,
                                         uint32_t shift, uint32_t pairs)
    {
#pragma unroll
        for (uint32_t u = 0; u < S::WARP_PAIRS; u++)
            codes[u] = *reinterpret_cast<const uint4 *>(codes_at +
                                                        (S::EVEN || u < pairs ? u : 0) * 512);
        uint2 words[S::SCALES + 1];
#pragma unroll
        for (int i = 0; i < S::SCALES; i++)
            words[i] = *reinterpret_cast<const uint2 *>(scales_at + i * 64);
        words[S::SCALES] = make_uint2(0, 0);
#pragma unroll
        for (int i = 0; i < S::SCALES; i++) {
            low[i] = __funnelshift_r(words[i].x, words[i + 1].x, shift);
            high[i] = __funnelshift_r(words[i].y, words[i + 1].y, shift);
        }
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
template <class S, int NT>
__device__ __forceinline__ void multiply(const piece<S> p[UNIT], const held<S> &h,
                                         float acc[UNIT][S::COLUMN_TILES][4])
{
#pragma unroll
    for (int i = 0; i < UNIT * NT * 4; i++)
        acc[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < UNIT; i++)
#pragma unroll
        for (int u = 0; u < S::WARP_BLOCKS; u++) {
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
template <class S>
__device__ __forceinline__ uint32_t sum_at(uint32_t buffer, uint32_t tile, uint32_t warp,
                                           uint32_t n)
{
    return (((buffer * UNIT + tile) * S::COMPUTE + warp) * S::COLUMN_TILES + n) * WARP;
}

/* Adds up and finishes column tile n of tile i of a unit whose sums lie in `buffer`. */
template <class S, class Epilogue>
__device__ __forceinline__ void finish(const cuda_gemm &a, typename S::works &w,
                                       const float4 *sums, uint32_t buffer, const item &it,
                                       uint32_t tile, uint32_t i, uint32_t n, uint32_t lane)
{
    const uint32_t g = lane / 4, column = n * 8 + lane % 4 * 2;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < S::COMPUTE; k++) {
        const float4 v = sums[sum_at<S>(buffer, i, k, n) + lane];
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

template <class S, class Epilogue>
__device__ __forceinline__ void compute(const cuda_gemm &a, typename S::works &w,
                                        const uint8_t *ring, float4 *sums, bool by_assignment,
                                        uint32_t warp, uint32_t lane)
{
    static_assert(CUDA_STREAM_SUMS == 2, "a unit is finished while the next is computed");
    constexpr int COLUMN_TILES = S::COLUMN_TILES, QUARTERS = S::QUARTERS;
    const uint32_t first = S::first_pair(warp), pairs = S::first_pair(warp + 1) - first,
                   shift = first % 2 * 16;
    const uint8_t *codes_at = ring + first * 512 + lane * 16;
    const uint8_t *scales_at = ring + S::SCALES_AT + first / 2 * 64 + lane / 4 * 8;
    held<S> h;
    bool fresh = true, two = false;
    uint32_t turn = warp; /* this warp finishes quarter `turn` of a unit, if it exists */
    typename S::places p(a, w), before = p;
    for (bool begins = true;; begins = false) {
        const bool more = p.left != 0;
        if (more) {
            if (fresh) {
                const item it = w.items[p.item];
                two = COLUMN_TILES > 1 && it.count > 8;
                hold<S>(a, w, it, by_assignment, warp, lane, h);
            }
            ring_wait(&w.full[p.stage], p.round);
            piece<S> pieces[UNIT];
#pragma unroll
            for (int i = 0; i < UNIT; i++)
                pieces[i].load(codes_at + p.stage * CUDA_STREAM_STAGE + i * S::CODE_BYTES,
                               scales_at + p.stage * CUDA_STREAM_STAGE + i * S::SCALE_BYTES,
                               shift, pairs);
            uint32_t bias = 0;
            if (warp == 0 && lane < UNIT * 8)
                bias = reinterpret_cast<const uint32_t *>(ring + p.stage * CUDA_STREAM_STAGE +
                                                          S::BIAS_AT)[lane];
            float acc[UNIT][COLUMN_TILES][4];
            if (two)
                multiply<S, COLUMN_TILES>(pieces, h, acc);
            else
                multiply<S, 1>(pieces, h, acc);
            ring_wait(&w.sums_empty[p.buffer], p.turn ^ 1);
#pragma unroll
            for (int i = 0; i < UNIT; i++)
#pragma unroll
                for (int n = 0; n < COLUMN_TILES; n++)
                    if (n == 0 || two)
                        sums[sum_at<S>(p.buffer, i, warp, n) + lane] =
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
        if (!begins) {
            if (turn < QUARTERS) {
                const item it = w.items[before.item];
                const uint32_t i = turn / COLUMN_TILES, n = turn % COLUMN_TILES;
                ring_wait(&w.sums_full[before.buffer], before.turn);
                if (n * 8 < it.count)
                    finish<S, Epilogue>(a, w, sums, before.buffer, it, before.unit * UNIT + i,
                                        i, n, lane);
                __syncwarp();
                if (lane == 0)
                    ring_arrive(&w.sums_empty[before.buffer]);
                turn += S::COMPUTE;
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
template <class S, class Epilogue, bool EARLY>
__device__ __forceinline__ void stream_experts(const cuda_gemm &a, bool by_assignment)
{
    extern __shared__ __align__(128) uint8_t shared[];
    uint8_t *ring = shared;
    float4 *sums = reinterpret_cast<float4 *>(shared + CUDA_STREAM_STAGES * CUDA_STREAM_STAGE);
    typename S::works &w =
        *reinterpret_cast<typename S::works *>(shared + CUDA_STREAM_STAGES * CUDA_STREAM_STAGE +
                                               CUDA_STREAM_SUMS * CUDA_STREAM_SUM_BYTES);
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
        for (int i = 0; i < CUDA_STREAM_STAGES; i++) {
            ring_init(&w.full[i], 1);
            ring_init(&w.empty[i], S::COMPUTE);
        }
        for (int i = 0; i < CUDA_STREAM_SUMS; i++) {
            ring_init(&w.sums_full[i], S::COMPUTE);
            ring_init(&w.sums_empty[i], S::QUARTERS);
        }
        ring_publish();
    }
    if (!EARLY)
        wait_for_previous_kernel();
    make_work(a, w);
    if (EARLY && warp < S::COMPUTE)
        wait_for_previous_kernel();
    /* Only after the wait: the next kernel relies on results from before this kernel. */
    let_next_kernel_start();
    if (warp < S::COMPUTE)
        compute<S, Epilogue>(a, w, ring, sums, by_assignment, warp, lane);
    else if (lane == 0)
        fill_ring<S>(a, w, ring);
}

#define STREAM(suffix, threads, columns, warps)                                                \
    extern "C" __global__ void __launch_bounds__(threads, 1)                                   \
        stream_gate_up##suffix(const __grid_constant__ cuda_gemm a)                            \
    {                                                                                          \
        stream_experts<stream<columns, warps>, swiglu_finish, false>(a, false);                \
    }                                                                                          \
    extern "C" __global__ void __launch_bounds__(threads, 1)                                   \
        stream_down##suffix(const __grid_constant__ cuda_gemm a)                               \
    {                                                                                          \
        stream_experts<stream<columns, warps>, down_finish, true>(a, true);                    \
    }

STREAM(, CUDA_STREAM_THREADS, CUDA_STREAM_COLUMNS, CUDA_STREAM_COMPUTE)
STREAM(_8, CUDA_STREAM_THREADS_8, 8, CUDA_STREAM_COMPUTE_8)

#endif
