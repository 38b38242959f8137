/* gptoss/backend/cuda/route.cuh - the choice of a token's experts. */
#ifndef GPTOSS_CUDA_ROUTE_CUH
#define GPTOSS_CUDA_ROUTE_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

/* Keeps the topk largest logits, equal values by lowest index, and computes the softmax over
 * them only.  One warp; lane i compares experts i, i + 32, ... and keeps the i-th choice. */
__device__ __forceinline__ void choose_top(const float *logits, uint32_t experts, uint32_t topk,
                                           uint32_t *choice, float *weight)
{
    const uint32_t lane = threadIdx.x % WARP;
    uint32_t taken = 0; /* bit j: expert lane + 32 j was taken */
    float mine = -INFINITY;
    uint32_t mine_at = 0;
    for (uint32_t k = 0; k < topk; k++) {
        float best = -INFINITY;
        uint32_t at = UINT32_MAX;
        for (uint32_t e = lane, j = 0; e < experts; e += WARP, j++)
            if ((taken >> j & 1) == 0 && (logits[e] > best || at == UINT32_MAX)) {
                best = logits[e];
                at = e;
            }
#pragma unroll
        for (int d = 16; d != 0; d >>= 1) {
            float other = __shfl_xor_sync(0xFFFFFFFFu, best, d);
            uint32_t other_at = __shfl_xor_sync(0xFFFFFFFFu, at, d);
            bool better = other_at != UINT32_MAX && (at == UINT32_MAX || other > best ||
                                                     (other == best && other_at < at));
            best = better ? other : best;
            at = better ? other_at : at;
        }
        if (at % WARP == lane)
            taken |= 1u << at / WARP;
        if (lane == k) {
            mine = best;
            mine_at = at;
        }
    }
    float largest = __shfl_sync(0xFFFFFFFFu, mine, 0);
    float chance = lane < topk ? expf(mine - largest) : 0.0f;
    float sum = warp_sum(chance);
    if (lane < topk) {
        choice[lane] = mine_at;
        weight[lane] = chance / sum;
    }
}

#endif
