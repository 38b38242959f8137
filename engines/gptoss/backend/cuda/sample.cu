/* gptoss/backend/cuda/sample.cu - the plain draws of sampler/sampler.h on the device.
 *
 * Greedy, or temperature with Gumbel noise: an argmax either way, ties to the lowest id.
 * Everything else (penalties, filters, masks, log probabilities) is drawn on the host from
 * the same logits.
 */
#include "engines/gptoss/backend/cuda/device.cuh"

__device__ __forceinline__ void philox(uint64_t seed, uint32_t c0, uint32_t c1, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32), x0 = c0, x1 = c1, x2 = 0, x3 = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t h0 = __umulhi(0xD2511F53u, x0), l0 = 0xD2511F53u * x0;
        uint32_t h1 = __umulhi(0xCD9E8D57u, x2), l1 = 0xCD9E8D57u * x2;
        x0 = h1 ^ x1 ^ k0;
        x1 = l1;
        x2 = h0 ^ x3 ^ k1;
        x3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

__device__ __forceinline__ void take(float &value, uint32_t &id, float other, uint32_t other_id)
{
    if (other_id != UINT32_MAX &&
        (id == UINT32_MAX || other > value || (other == value && other_id < id))) {
        value = other;
        id = other_id;
    }
}

__device__ __forceinline__ void block_argmax(float &value, uint32_t &id)
{
    __shared__ float values[WARP];
    __shared__ uint32_t ids[WARP];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    for (int d = 16; d != 0; d >>= 1)
        take(value, id, __shfl_xor_sync(0xFFFFFFFFu, value, d),
             __shfl_xor_sync(0xFFFFFFFFu, id, d));
    __syncthreads();
    if (lane == 0) {
        values[warp] = value;
        ids[warp] = id;
    }
    __syncthreads();
    value = -INFINITY;
    id = UINT32_MAX;
    for (uint32_t w = 0; w < blockDim.x / WARP; w++)
        take(value, id, values[w], ids[w]);
}

/* grid: (parts, rows); the last part of a row to finish compares the parts. */
extern "C" __global__ void __launch_bounds__(256)
    sample_plain(const __grid_constant__ cuda_sample a)
{
    __shared__ uint32_t is_last;
    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t row = blockIdx.y, parts = gridDim.x;
    const cuda_sample_row how = a.how[row];
    const float4 *logits = reinterpret_cast<const float4 *>(a.logits + (size_t)row * a.stride);
    float best = -INFINITY;
    uint32_t id = UINT32_MAX;
    for (uint32_t q = blockIdx.x * blockDim.x + threadIdx.x; q < (a.vocab + 3) / 4;
         q += parts * blockDim.x) {
        float4 v = logits[q];
        float x[4] = {v.x, v.y, v.z, v.w};
        uint32_t usable = a.usable[q / 8] >> q % 8 * 4 & 15;
        uint32_t words[4];
        if (how.temperature > 0)
            philox(how.seed, q, how.index, words);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (q * 4 + i >= a.vocab || (usable >> i & 1) == 0)
                continue;
            float value = x[i];
            if (how.temperature > 0) {
                float u = ((float)(words[i] >> 9) + 0.5f) * (1.0f / 8388608.0f);
                value = value / how.temperature - logf(-logf(u));
            }
            take(best, id, value, q * 4 + i);
        }
    }
    block_argmax(best, id);
    if (threadIdx.x == 0) {
        a.best_value[row * parts + blockIdx.x] = best;
        a.best_id[row * parts + blockIdx.x] = id;
        __threadfence();
        is_last = atomicAdd(&a.tickets[row], 1) == parts - 1;
        if (is_last)
            a.tickets[row] = 0;
    }
    __syncthreads();
    if (!is_last)
        return;
    __threadfence();
    best = -INFINITY;
    id = UINT32_MAX;
    for (uint32_t i = threadIdx.x; i < parts; i += blockDim.x)
        take(best, id, __ldcg(&a.best_value[row * parts + i]),
             __ldcg(&a.best_id[row * parts + i]));
    block_argmax(best, id);
    if (threadIdx.x == 0)
        a.out[row] = id;
}
