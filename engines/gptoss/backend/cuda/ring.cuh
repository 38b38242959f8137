/* gptoss/backend/cuda/ring.cuh - bulk copies into a ring in shared memory (Hopper and later).
 *
 * One thread (the producer) starts copies of whole pieces of memory; the copies need no
 * registers and no instructions of the warps that use the data.  A slot of the ring has two
 * mbarriers:
 *
 *   full   1 arrival (the producer's, which also announces the bytes) and those bytes
 *   empty  1 arrival of each warp that reads the slot
 *
 * The n-th use of a slot completes phase n of either barrier; waiting for phase n means waiting
 * for parity n & 1.  Neither side may be a whole phase ahead.  The pair ensures that: the
 * producer waits for `empty` of the previous use, a reader for `full` of this use.
 *
 *   producer                                  each reading warp
 *     ring_wait(&empty[s], (n - 1) & 1)         ring_wait(&full[s], n & 1)
 *     ring_expect(&full[s], bytes)              ... read ...
 *     ring_copy(to, from, bytes, &full[s])      ... use what was read ...
 *                                               __syncwarp(), lane 0: ring_arrive(&empty[s])
 *
 * "Use" is not "load": an arrival does not wait for loads of its warp that are in flight, so a
 * slot is freed only after instructions that need the loaded values.
 *
 * Addresses and sizes are multiples of 16; copies under 8 KB waste bandwidth.
 */
#ifndef GPTOSS_CUDA_RING_CUH
#define GPTOSS_CUDA_RING_CUH

#include <stdint.h>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t ring_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

__device__ __forceinline__ void ring_init(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ring_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

/* After the last ring_init, by the thread that called it; then a barrier of the block. */
__device__ __forceinline__ void ring_publish()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void ring_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ring_address(barrier))
                 : "memory");
}

/* Arrives, and announces how many bytes the copies of this phase bring together. */
__device__ __forceinline__ void ring_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ring_address(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void ring_wait(uint64_t *barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(ring_address(barrier)),
                 "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void ring_copy(void *to, const void *from, uint32_t bytes,
                                          uint64_t *full)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(ring_address(to)),
                 "l"(from), "r"(bytes), "r"(ring_address(full))
                 : "memory");
}

#endif
#endif
