/* gptoss/backend/cuda/route.cu - RMS norm to bf16 and the expert choice of each row.
 *
 * The router reads the normalized row in float32, before rounding: a near tie should not depend
 * on bf16.  Its weights are bf16 as stored, [experts][hidden].  Few rows (norm_route, and
 * norm_route_rows for some rows a block): only latency counts, so a block holds the weights of
 * few experts, loaded into registers before its predecessor ends, and the last block to finish
 * a row chooses.  Many rows (norm_route_many_*):
 * mma, with each value as the sum of three bf16 values, which is exact.  Reference: the CPU
 * backend's router.
 */
#include "engines/gptoss/backend/cuda/route.cuh"

/* ---- few rows ---- */

/* A block takes rows blockIdx.x, + gridDim.x, ... and experts from blockIdx.y *
 * CUDA_ROUTER_EXPERTS on, one a warp.  Wider models than HELD_COLUMNS load the rest late. */
enum {
    ROUTE_THREADS = CUDA_ROUTER_EXPERTS * WARP,
    HELD_COLUMNS = 3072,
    HELD = HELD_COLUMNS / ROUTE_THREADS,
    ROUTER_PIECES = HELD_COLUMNS / 256
};

/* Eight products with bf16 weights. */
__device__ __forceinline__ float dot8(uint4 w, const float *x)
{
    float4 a = reinterpret_cast<const float4 *>(x)[0],
           b = reinterpret_cast<const float4 *>(x)[1];
    return from_bf16((uint16_t)w.x) * a.x + from_bf16((uint16_t)(w.x >> 16)) * a.y +
           from_bf16((uint16_t)w.y) * a.z + from_bf16((uint16_t)(w.y >> 16)) * a.w +
           from_bf16((uint16_t)w.z) * b.x + from_bf16((uint16_t)(w.z >> 16)) * b.y +
           from_bf16((uint16_t)w.w) * b.z + from_bf16((uint16_t)(w.w >> 16)) * b.w;
}

/* The blocks of a row have written their logits: the last one to arrive collects them. */
__device__ __forceinline__ bool comes_last(const cuda_norm &a, uint32_t row, float *logits)
{
    const uint32_t lane = threadIdx.x % WARP;
    uint32_t ticket = lane == 0 ? atomicAdd(a.tickets + row, 1) : 0;
    if (__shfl_sync(0xFFFFFFFFu, ticket, 0) != gridDim.y - 1)
        return false;
    __threadfence();
    for (uint32_t e = lane; e < a.experts; e += WARP)
        logits[e] = __ldcg(a.logits + (size_t)row * a.experts + e);
    if (lane == 0)
        a.tickets[row] = 0;
    __syncwarp();
    return true;
}

/* Up to ROWS rows at the same time: they share the router's weights and the barriers. */
template <int ROWS> __device__ __forceinline__ void route_few(const cuda_norm &a)
{
    extern __shared__ float normalized[]; /* [ROWS][hidden] */
    __shared__ float sums[ROWS][CUDA_ROUTER_EXPERTS];
    __shared__ float logits[ROWS][CUDA_EXPERTS_MAX];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t expert = blockIdx.y * CUDA_ROUTER_EXPERTS + warp,
                   real = min(expert, a.experts - 1);
    const bool shared = gridDim.y > 1;
    const uint4 *w = reinterpret_cast<const uint4 *>(a.router + (size_t)real * a.hidden);
    const float bias = from_bf16(a.router_bias[real]);
    uint4 router[ROUTER_PIECES];
    float norm[HELD], x[ROWS][HELD];
    auto row_of = [&](int i) { return blockIdx.x + i * gridDim.x; };
    auto is_row = [&](int i) { return ROWS == 1 || row_of(i) < a.count; };
    let_next_kernel_start();
#pragma unroll
    for (int i = 0; i < HELD; i++)
        norm[i] = threadIdx.x + i * ROUTE_THREADS < a.hidden
                      ? from_bf16(a.norm[threadIdx.x + i * ROUTE_THREADS])
                      : 0.0f;
#pragma unroll
    for (int i = 0; i < ROUTER_PIECES; i++)
        router[i] = lane + i * WARP < a.hidden / 8 ? __ldg(w + lane + i * WARP)
                                                   : make_uint4(0, 0, 0, 0);
    wait_for_previous_kernel();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            uint32_t at = threadIdx.x + i * ROUTE_THREADS;
            x[r][i] = is_row(r) && at < a.hidden ? a.residual[(size_t)row_of(r) * a.hidden + at]
                                                 : 0.0f;
        }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (!is_row(r))
            break;
        const float *in = a.residual + (size_t)row_of(r) * a.hidden;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            sum += x[r][i] * x[r][i];
        for (uint32_t i = HELD_COLUMNS + threadIdx.x; i < a.hidden; i += ROUTE_THREADS)
            sum += in[i] * in[i];
        sum = warp_sum(sum);
        if (lane == 0)
            sums[r][warp] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (!is_row(r))
            break;
        const float *in = a.residual + (size_t)row_of(r) * a.hidden;
        const float sum = warp_sum(lane < CUDA_ROUTER_EXPERTS ? sums[r][lane] : 0.0f);
        const float scale = rsqrtf(sum / (float)a.hidden + a.eps);
        auto put = [&](uint32_t at, float v) {
            normalized[r * a.hidden + at] = v;
            if (blockIdx.y == 0)
                a.out[(size_t)row_of(r) * a.hidden + (a.permuted ? prompt_column(at) : at)] =
                    to_bf16(v);
        };
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (threadIdx.x + i * ROUTE_THREADS < a.hidden)
                put(threadIdx.x + i * ROUTE_THREADS, x[r][i] * scale * norm[i]);
        for (uint32_t i = HELD_COLUMNS + threadIdx.x; i < a.hidden; i += ROUTE_THREADS)
            put(i, in[i] * scale * from_bf16(a.norm[i]));
    }
    __syncthreads();
    if (expert < a.experts) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!is_row(r))
                break;
            const float *mine = normalized + r * a.hidden;
            float dot = 0;
#pragma unroll
            for (int i = 0; i < ROUTER_PIECES; i++) {
                /* Keeps the compiler from widening all held weights ahead, which would need
                 * twice the registers. */
                uint4 &held = router[i];
                asm volatile("" : "+r"(held.x), "+r"(held.y), "+r"(held.z), "+r"(held.w));
                if (lane + i * WARP < a.hidden / 8)
                    dot += dot8(held, mine + (lane + i * WARP) * 8);
            }
            for (uint32_t i = ROUTER_PIECES * WARP + lane; i < a.hidden / 8; i += WARP)
                dot += dot8(__ldg(w + i), mine + i * 8);
            dot = warp_sum(dot);
            if (lane == 0 && shared)
                a.logits[(size_t)row_of(r) * a.experts + expert] = dot + bias;
            else if (lane == 0)
                logits[r][expert] = dot + bias;
        }
        if (lane == 0 && shared)
            __threadfence();
    }
    __syncthreads();
    if (warp < ROWS && is_row(warp) && (!shared || comes_last(a, row_of(warp), logits[warp])))
        choose_top(logits[warp], a.experts, a.topk, a.choice + row_of(warp) * a.topk,
                   a.weight + row_of(warp) * a.topk);
}

extern "C" __global__ void __launch_bounds__(ROUTE_THREADS, 1)
    norm_route(const __grid_constant__ cuda_norm a)
{
    route_few<1>(a);
}

extern "C" __global__ void __launch_bounds__(ROUTE_THREADS, 1)
    norm_route_rows(const __grid_constant__ cuda_norm a)
{
    route_few<CUDA_ROUTER_ROWS>(a);
}

/* ---- many rows ---- */

enum { MANY_WARPS = 8, MANY_ROWS = 8 };

/* Eight columns of a normalized row. */
__device__ __forceinline__ void put_columns(const cuda_norm &a, uint16_t *out, uint32_t column,
                                            const uint32_t packed[4])
{
    if (!a.permuted) {
        *reinterpret_cast<uint4 *>(out + column) =
            make_uint4(packed[0], packed[1], packed[2], packed[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        *reinterpret_cast<uint32_t *>(out + prompt_column(column + 2 * i)) = packed[i];
}

/* Two values as three pairs of bf16 with exactly the same sums. */
__device__ __forceinline__ void split_three(float low, float high, uint32_t out[3])
{
#pragma unroll
    for (int i = 0; i < 3; i++) {
        uint32_t l = __float_as_uint(low), h = __float_as_uint(high);
        out[i] = __byte_perm(l, h, 0x7632);
        low -= __uint_as_float(l & 0xFFFF0000u);
        high -= __uint_as_float(h & 0xFFFF0000u);
    }
}

/* A block has 8 rows and TILES * 16 experts at a time; its warps share the columns.  Columns
 * are permuted alike in both operands: 8 consecutive columns of a lane are the fragments of two
 * steps. */
template <int TILES> __device__ __forceinline__ void route_many(const cuda_norm &a)
{
    __shared__ float parts[MANY_WARPS][TILES * 16][MANY_ROWS];
    __shared__ float logits[MANY_ROWS][CUDA_EXPERTS_MAX];
    __shared__ float scales[MANY_ROWS];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4,
                   t = lane % 4;
    const uint32_t first = blockIdx.x * MANY_ROWS, own = first + warp;
    let_next_kernel_start();
    wait_for_previous_kernel();
    const float4 *quads =
        reinterpret_cast<const float4 *>(a.residual + (size_t)min(own, a.count - 1) * a.hidden);
    float sum = 0;
#pragma unroll 8
    for (uint32_t i = lane; i < a.hidden / 4; i += WARP) {
        float4 v = quads[i];
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    sum = warp_sum(sum);
    if (lane == 0)
        scales[warp] = rsqrtf(sum / (float)a.hidden + a.eps);
    __syncthreads();

    const uint32_t row = min(first + g, a.count - 1);
    const float *in = a.residual + (size_t)row * a.hidden;
    const float scale = scales[g];
    for (uint32_t group = 0; group < a.experts; group += TILES * 16) {
        float c[TILES][4];
#pragma unroll
        for (int i = 0; i < TILES; i++)
            c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
#pragma unroll 2
        for (uint32_t block = warp; block < a.hidden / 32; block += MANY_WARPS) {
            const uint32_t column = block * 32 + 8 * t;
            const float4 low = *reinterpret_cast<const float4 *>(in + column),
                         high = *reinterpret_cast<const float4 *>(in + column + 4);
            const uint4 norm = __ldg(reinterpret_cast<const uint4 *>(a.norm + column));
            const float x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            uint32_t packed[4], b[4][3];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint32_t w = i == 0 ? norm.x : i == 1 ? norm.y : i == 2 ? norm.z : norm.w;
                float even = x[2 * i] * scale * from_bf16((uint16_t)w),
                      odd = x[2 * i + 1] * scale * from_bf16((uint16_t)(w >> 16));
                packed[i] = pack_bf16(even, odd);
                split_three(even, odd, b[i]);
            }
            if (group == 0 && first + g < a.count)
                put_columns(a, a.out + (size_t)row * a.hidden, column, packed);
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                uint32_t e = group + i * 16 + g;
                const uint4 x = __ldg(reinterpret_cast<const uint4 *>(
                                a.router + (size_t)min(e, a.experts - 1) * a.hidden + column)),
                            y = __ldg(reinterpret_cast<const uint4 *>(
                                a.router + (size_t)min(e + 8, a.experts - 1) * a.hidden +
                                column));
#pragma unroll
                for (int k = 2; k >= 0; k--) { /* the smallest parts first */
                    mma(c[i], x.x, y.x, x.y, y.y, b[0][k], b[1][k]);
                    mma(c[i], x.z, y.z, x.w, y.w, b[2][k], b[3][k]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *reinterpret_cast<float2 *>(&parts[warp][i * 16 + h * 8 + g][2 * t]) =
                    make_float2(c[i][h * 2], c[i][h * 2 + 1]);
        __syncthreads();
        for (uint32_t i = lane; i < TILES * 16 && group + i < a.experts; i += WARP) {
            float logit = 0;
            for (int w = 0; w < MANY_WARPS; w++)
                logit += parts[w][i][warp];
            logits[warp][group + i] = logit + from_bf16(a.router_bias[group + i]);
        }
        __syncthreads();
    }
    if (own < a.count)
        choose_top(logits[warp], a.experts, a.topk, a.choice + own * a.topk,
                   a.weight + own * a.topk);
}

/* Up to 32 experts; then more. */
extern "C" __global__ void __launch_bounds__(MANY_WARPS *WARP)
    norm_route_many_2(const __grid_constant__ cuda_norm a)
{
    route_many<2>(a);
}

extern "C" __global__ void __launch_bounds__(MANY_WARPS *WARP)
    norm_route_many_8(const __grid_constant__ cuda_norm a)
{
    route_many<8>(a);
}
