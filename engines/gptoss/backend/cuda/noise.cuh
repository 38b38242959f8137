/* gptoss/backend/cuda/noise.cuh - noise and argmax of sampler/sampler.h. */
#ifndef GPTOSS_CUDA_NOISE_CUH
#define GPTOSS_CUDA_NOISE_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

constexpr uint32_t NO_ID = UINT32_MAX;

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

__device__ __forceinline__ float gumbel(uint32_t word)
{
    float u = ((float)(word >> 9) + 0.5f) * (1.0f / 8388608.0f);
    return -logf(-logf(u));
}

/* Keeps the larger value, of equal values the lower id.  NO_ID: no value. */
__device__ __forceinline__ void take(float &value, uint32_t &id, float other, uint32_t other_id)
{
    if (other_id != NO_ID &&
        (id == NO_ID || other > value || (other == value && other_id < id))) {
        value = other;
        id = other_id;
    }
}

/* Called by all threads of the block; all get the result. */
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
    id = NO_ID;
    for (uint32_t w = 0; w < blockDim.x / WARP; w++)
        take(value, id, values[w], ids[w]);
}

#endif
