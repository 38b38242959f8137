/* gptoss/backend/cuda/sample.cu - the plain sampling of sampler/sampler.h on the device.
 *
 * Greedy, or temperature with Gumbel noise: both are an argmax, ties to the lowest id.  All
 * other sampling (penalties, filters, masks, log probabilities) uses the same logits in
 * sample_filtered.cu or on the host.
 */
#include "engines/gptoss/backend/cuda/noise.cuh"

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
            if (how.temperature > 0)
                value = value / how.temperature + gumbel(words[i]);
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
    if (threadIdx.x == 0) {
        a.tokens[row] = id < a.vocab ? id : 0;
        a.out[*a.turn * CUDA_LOGIT_ROWS + row] = id;
    }
}
