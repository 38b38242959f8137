/* gptoss/backend/cuda/elementwise.cu - the small steps between the products: embedding,
 * norm with router, sorting assignments by expert, adding up experts.
 */
#include "engines/gptoss/backend/cuda/route.cuh"

/* grid: rows. */
extern "C" __global__ void __launch_bounds__(256)
    embed(const uint32_t *tokens, const uint16_t *table, float *residual, uint32_t hidden)
{
    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t row = blockIdx.x;
    const uint32_t *from =
        reinterpret_cast<const uint32_t *>(table + (size_t)tokens[row] * hidden);
    float2 *to = reinterpret_cast<float2 *>(residual + (size_t)row * hidden);
    for (uint32_t i = threadIdx.x; i < hidden / 2; i += blockDim.x) {
        uint32_t v = from[i];
        to[i] = make_float2(from_bf16((uint16_t)v), from_bf16((uint16_t)(v >> 16)));
    }
}

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

/* RMS norm to bf16; with a router also the expert choice of each row.  A block takes rows
 * blockIdx.x, + gridDim.x, ...  One row is nothing but latency, so whatever does not depend
 * on the previous kernel (norm, router weights and biases) is in registers before the wait, up
 * to HELD_COLUMNS columns and one pair of experts a warp; wider models load the rest late.
 * The router reads the normalized row in float32, before rounding: a near tie should not
 * depend on bf16. */
enum {
    ROUTE_THREADS = 512,
    ROUTE_WARPS = 16,
    HELD_COLUMNS = 3072,
    ROUTER_PIECES = HELD_COLUMNS / 256
};

template <int THREADS, bool ROUTE> __device__ __forceinline__ void norm_rows(const cuda_norm &a)
{
    extern __shared__ float normalized[]; /* [hidden] */
    __shared__ float sums[THREADS / WARP];
    __shared__ float logits[CUDA_EXPERTS_MAX];
    constexpr int WARPS = THREADS / WARP, HELD = HELD_COLUMNS / THREADS;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    uint4 router[ROUTE ? 2 : 1][ROUTER_PIECES];
    float norm[HELD], router_bias[2] = {0, 0};
    let_next_kernel_start();
#pragma unroll
    for (int i = 0; i < HELD; i++)
        norm[i] = threadIdx.x + i * THREADS < a.hidden
                      ? from_bf16(a.norm[threadIdx.x + i * THREADS])
                      : 0.0f;
    if constexpr (ROUTE)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t expert = min(warp + h * WARPS, a.experts - 1);
            const uint4 *w =
                reinterpret_cast<const uint4 *>(a.router + (size_t)expert * a.hidden);
            router_bias[h] = from_bf16(a.router_bias[expert]);
#pragma unroll
            for (int i = 0; i < ROUTER_PIECES; i++)
                router[h][i] = lane + i * WARP < a.hidden / 8 ? __ldg(w + lane + i * WARP)
                                                              : make_uint4(0, 0, 0, 0);
        }
    wait_for_previous_kernel();
    for (uint32_t row = blockIdx.x; row < a.count; row += gridDim.x) {
        const float *in =
            a.residual + (size_t)(a.rows != nullptr ? a.rows[row] : row) * a.hidden;
        float x[HELD], sum = 0;
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            x[i] = threadIdx.x + i * THREADS < a.hidden ? in[threadIdx.x + i * THREADS] : 0.0f;
            sum += x[i] * x[i];
        }
        for (uint32_t i = HELD_COLUMNS + threadIdx.x; i < a.hidden; i += THREADS)
            sum += in[i] * in[i];
        sum = warp_sum(sum);
        if (lane == 0)
            sums[warp] = sum;
        __syncthreads();
        sum = warp_sum(lane < WARPS ? sums[lane] : 0.0f);
        float scale = rsqrtf(sum / (float)a.hidden + a.eps);
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            uint32_t at = threadIdx.x + i * THREADS;
            if (at >= a.hidden)
                continue;
            float v = x[i] * scale * norm[i];
            normalized[at] = v;
            a.out[(size_t)row * a.hidden + at] = to_bf16(v);
        }
        for (uint32_t i = HELD_COLUMNS + threadIdx.x; i < a.hidden; i += THREADS) {
            float v = in[i] * scale * from_bf16(a.norm[i]);
            normalized[i] = v;
            a.out[(size_t)row * a.hidden + i] = to_bf16(v);
        }
        __syncthreads();
        if constexpr (ROUTE) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                uint32_t expert = warp + h * WARPS;
                if (expert >= a.experts)
                    continue;
                const uint4 *w =
                    reinterpret_cast<const uint4 *>(a.router + (size_t)expert * a.hidden);
                float dot = 0;
#pragma unroll
                for (int i = 0; i < ROUTER_PIECES; i++) {
                    /* Keeps the compiler from widening all held weights once, ahead of the
                     * rows: twice the registers would not be there. */
                    uint4 &held = router[h][i];
                    asm volatile("" : "+r"(held.x), "+r"(held.y), "+r"(held.z), "+r"(held.w));
                    if (lane + i * WARP < a.hidden / 8)
                        dot += dot8(held, normalized + (lane + i * WARP) * 8);
                }
                for (uint32_t i = ROUTER_PIECES * WARP + lane; i < a.hidden / 8; i += WARP)
                    dot += dot8(__ldg(w + i), normalized + i * 8);
                dot = warp_sum(dot);
                if (lane == 0)
                    logits[expert] = dot + router_bias[h];
            }
            for (uint32_t expert = warp + 2 * WARPS; expert < a.experts; expert += WARPS) {
                const uint4 *w =
                    reinterpret_cast<const uint4 *>(a.router + (size_t)expert * a.hidden);
                float dot = 0;
                for (uint32_t i = lane; i < a.hidden / 8; i += WARP)
                    dot += dot8(__ldg(w + i), normalized + i * 8);
                dot = warp_sum(dot);
                if (lane == 0)
                    logits[expert] = dot + from_bf16(a.router_bias[expert]);
            }
            __syncthreads();
            if (warp == 0)
                choose_top(logits, a.experts, a.topk, a.choice + row * a.topk,
                           a.weight + row * a.topk);
            /* The next row's first barrier comes before logits are written again. */
        }
    }
}

extern "C" __global__ void __launch_bounds__(ROUTE_THREADS, 1)
    norm_route(const __grid_constant__ cuda_norm a)
{
    norm_rows<ROUTE_THREADS, true>(a);
}

extern "C" __global__ void __launch_bounds__(256) norm_only(const __grid_constant__ cuda_norm a)
{
    norm_rows<256, false>(a);
}

/* residual += the weighted outputs of a row's experts.  grid: rows. */
extern "C" __global__ void __launch_bounds__(256)
    add_experts(float *residual, const float *outputs, uint32_t hidden, uint32_t topk)
{
    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t row = blockIdx.x, quads = hidden / 4;
    float4 *out = reinterpret_cast<float4 *>(residual + (size_t)row * hidden);
    for (uint32_t i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 sum = out[i];
        for (uint32_t k = 0; k < topk; k++) {
            float4 v = reinterpret_cast<const float4 *>(outputs +
                                                        ((size_t)row * topk + k) * hidden)[i];
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        out[i] = sum;
    }
}

/* Sorts the assignments of a prompt by expert and cuts each expert's share into tiles of
 * CUDA_TILE_TOKENS.  One block of 1024.  The order within an expert is not fixed; nothing
 * depends on it, because every assignment is a column of its own. */
extern "C" __global__ void __launch_bounds__(1024)
    sort_assignments(const uint32_t *choice, uint32_t count, uint32_t experts, uint32_t *sorted,
                     uint32_t *expert_tile, uint32_t *tile_count)
{
    __shared__ uint32_t size[CUDA_EXPERTS_MAX], start[CUDA_EXPERTS_MAX];
    let_next_kernel_start();
    wait_for_previous_kernel();
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x)
        size[e] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        atomicAdd(&size[choice[i]], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t at = 0, tiles = 0;
        for (uint32_t e = 0; e < experts; e++) {
            start[e] = at;
            for (uint32_t i = 0; i < size[e]; i += CUDA_TILE_TOKENS, tiles++) {
                expert_tile[tiles * 4] = e;
                expert_tile[tiles * 4 + 1] = at + i;
                expert_tile[tiles * 4 + 2] = min(size[e] - i, (uint32_t)CUDA_TILE_TOKENS);
            }
            at += size[e];
        }
        *tile_count = tiles;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        sorted[atomicAdd(&start[choice[i]], 1)] = i;
}
