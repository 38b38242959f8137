/* gptoss/backend/cuda/token_exchange.cuh - how the blocks of token.cu exchange values.
 *
 * A barrier of all blocks that also publishes their writes waits until every store has been
 * acknowledged, which takes microseconds while the ring keeps memory busy.  Instead each word
 * itself says whether it is new: one of its bits is the round, which changes from layer to
 * layer, and a reader polls until the bit is right.  Every word is written once a layer, and no
 * word is overwritten before all blocks have read it: to reach that place in the next layer a
 * block needs values that each of the others made from the word.
 *
 *   sums     float32; the round is the second lowest bit of the fraction
 *   mixed    bf16 in the upper half, the round at the same place
 *   inner    two bf16 below 1, so that bit 14 is zero in both; the round is that of the lower
 *
 * Readers first wait for a count of blocks, so that they do not all poll all the time; the
 * count may be early.
 */
#ifndef GPTOSS_CUDA_TOKEN_EXCHANGE_CUH
#define GPTOSS_CUDA_TOKEN_EXCHANGE_CUH

#include <stdint.h>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* Not the lowest bit: tests of that become predicates, and then ptxas loads one word after the
 * other. */
enum { ROUND_OF_SUM = 2, ROUND_OF_PAIR = 0x4000 };

__device__ __forceinline__ void tell(void *to, uint32_t word)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}
__device__ __forceinline__ void tell_sum(float *to, float v, uint32_t round)
{
    tell(to, (__float_as_uint(v) & ~(uint32_t)ROUND_OF_SUM) | (round != 0 ? ROUND_OF_SUM : 0));
}
__device__ __forceinline__ float told_sum(uint32_t word)
{
    return __uint_as_float(word & ~(uint32_t)ROUND_OF_SUM);
}
__device__ __forceinline__ float4 told_sums(uint4 v)
{
    return make_float4(told_sum(v.x), told_sum(v.y), told_sum(v.z), told_sum(v.w));
}

/* Plain loads from L2, because ptxas serializes `relaxed` ones. ptxas may merge a plain load
 * with an earlier one, so hear_again() lies between two tries. */
__device__ __forceinline__ uint32_t hear(const void *from)
{
    uint32_t v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(from));
    return v;
}
__device__ __forceinline__ uint4 hear_four(const void *from)
{
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}
__device__ __forceinline__ void hear_again()
{
    asm volatile("fence.acq_rel.cta;" ::: "memory");
}

/* Loads N times four words; at(i): address of the i-th.  All loads are started at once. */
template <int N, class At>
__device__ __forceinline__ void hear_all(uint4 (&v)[N], uint32_t bit, uint32_t round, At at)
{
    const uint32_t wanted = round != 0 ? bit : 0;
    for (;;) {
        uint32_t old = 0;
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = hear_four(at(i));
#pragma unroll
        for (int i = 0; i < N; i++)
            old |=
                (v[i].x ^ wanted) | (v[i].y ^ wanted) | (v[i].z ^ wanted) | (v[i].w ^ wanted);
        if ((old & bit) == 0)
            break;
        hear_again();
    }
}

#endif
#endif
