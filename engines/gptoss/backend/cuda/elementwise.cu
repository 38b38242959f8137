/* gptoss/backend/cuda/elementwise.cu - the small steps between the products: embedding,
 * norm with router, sorting assignments by expert, adding up experts.
 */
#include "engines/gptoss/backend/cuda/device.cuh"

/* grid: rows.  Padding rows become zeros, so that nothing downstream sees old bytes. */
extern "C" __global__ void __launch_bounds__(256)
    embed(const cuda_step *step_in, const uint16_t *table, float *residual, uint32_t hidden)
{
    let_next_kernel_start();
    wait_for_previous_kernel();
    const cuda_step step = *step_in;
    const uint32_t row = blockIdx.x;
    const bool real = step.row_seq[row] != UINT32_MAX;
    const uint16_t *from = table + (size_t)(real ? step.tokens[row] : 0) * hidden;
    for (uint32_t i = threadIdx.x; i < hidden; i += blockDim.x)
        residual[(size_t)row * hidden + i] = real ? from_bf16(from[i]) : 0.0f;
}

/* Keeps the topk largest logits, equal ones by lowest index, and softmaxes over them only.
 * One warp; lane i holds experts i, i + 32, ... */
__device__ __forceinline__ void choose_experts(const cuda_norm &a, const float *logits, uint32_t row)
{
    const uint32_t lane = threadIdx.x % WARP;
    uint32_t taken = 0; /* bit j: expert lane + 32 j was taken */
    float chosen[CUDA_TOPK_MAX];
    uint32_t index[CUDA_TOPK_MAX];
#pragma unroll
    for (uint32_t k = 0; k < CUDA_TOPK_MAX; k++) {
        if (k >= a.topk)
            break;
        float best = -INFINITY;
        uint32_t at = UINT32_MAX;
        for (uint32_t e = lane, j = 0; e < a.experts; e += WARP, j++)
            if ((taken >> j & 1) == 0 && (logits[e] > best || at == UINT32_MAX)) {
                best = logits[e];
                at = e;
            }
        for (int d = 16; d != 0; d >>= 1) {
            float other = __shfl_xor_sync(0xFFFFFFFFu, best, d);
            uint32_t other_at = __shfl_xor_sync(0xFFFFFFFFu, at, d);
            bool better = other_at != UINT32_MAX &&
                          (at == UINT32_MAX || other > best || (other == best && other_at < at));
            best = better ? other : best;
            at = better ? other_at : at;
        }
        if (at % WARP == lane)
            taken |= 1u << at / WARP;
        chosen[k] = best;
        index[k] = at;
    }
    float sum = 0;
    const float largest = chosen[0];
#pragma unroll
    for (uint32_t k = 0; k < CUDA_TOPK_MAX; k++)
        if (k < a.topk) {
            chosen[k] = expf(chosen[k] - largest);
            sum += chosen[k];
        }
    if (lane == 0)
        for (uint32_t k = 0; k < a.topk; k++) {
            a.choice[row * a.topk + k] = index[k];
            a.weight[row * a.topk + k] = chosen[k] / sum;
        }
}

/* RMS norm to bf16; with a router also the expert choice of each row.  grid: rows, 1024
 * threads: a warp makes the logits of experts warp, warp + 32, ...  The router reads the
 * normalized row in float32, before rounding: a near tie should not depend on bf16. */
extern "C" __global__ void __launch_bounds__(1024) norm_route(const __grid_constant__ cuda_norm a)
{
    extern __shared__ float normalized[]; /* [hidden] */
    __shared__ float sums[WARP];
    __shared__ float logits[CUDA_EXPERTS_MAX];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t row = blockIdx.x;
    const float *in = a.residual + (size_t)(a.rows != nullptr ? a.rows[row] : row) * a.hidden;
    float sum = 0;
    for (uint32_t i = threadIdx.x; i < a.hidden; i += blockDim.x) {
        float v = in[i];
        normalized[i] = v;
        sum += v * v;
    }
    sum = warp_sum(sum);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    sum = warp_sum(lane < warps ? sums[lane] : 0.0f);
    float scale = rsqrtf(sum / (float)a.hidden + a.eps);
    for (uint32_t i = threadIdx.x; i < a.hidden; i += blockDim.x) {
        float v = normalized[i] * scale * from_bf16(a.norm[i]);
        normalized[i] = v;
        a.out[(size_t)row * a.hidden + i] = to_bf16(v);
    }
    if (a.router == nullptr)
        return;
    __syncthreads();
    for (uint32_t e = warp; e < a.experts; e += warps) {
        const uint4 *w = reinterpret_cast<const uint4 *>(a.router + (size_t)e * a.hidden);
        float dot = 0;
        for (uint32_t i = lane; i < a.hidden / 8; i += WARP) {
            uint4 v = w[i];
            const float4 *x = reinterpret_cast<const float4 *>(normalized + i * 8);
            float4 x0 = x[0], x1 = x[1];
            dot += from_bf16((uint16_t)v.x) * x0.x + from_bf16((uint16_t)(v.x >> 16)) * x0.y +
                   from_bf16((uint16_t)v.y) * x0.z + from_bf16((uint16_t)(v.y >> 16)) * x0.w +
                   from_bf16((uint16_t)v.z) * x1.x + from_bf16((uint16_t)(v.z >> 16)) * x1.y +
                   from_bf16((uint16_t)v.w) * x1.z + from_bf16((uint16_t)(v.w >> 16)) * x1.w;
        }
        dot = warp_sum(dot);
        if (lane == 0)
            logits[e] = dot + from_bf16(a.router_bias[e]);
    }
    __syncthreads();
    if (warp == 0)
        choose_experts(a, logits, row);
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
            float4 v = reinterpret_cast<const float4 *>(outputs + ((size_t)row * topk + k) * hidden)[i];
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
