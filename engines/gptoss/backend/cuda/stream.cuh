/* gptoss/backend/cuda/stream.cuh - bulk copies from memory to shared memory and the barriers
 * that say when they are there (compute capability 9.0 on). */
#ifndef GPTOSS_CUDA_STREAM_CUH
#define GPTOSS_CUDA_STREAM_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void barrier_init(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

/* After the last init, before other threads are let at the barriers: the copy engine sees them
 * too. */
__device__ __forceinline__ void barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* One arrival, and `bytes` more to come by copies. */
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

/* Returns once the phase of this parity is complete. */
__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again%=;\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Addresses and size are multiples of 16. */
__device__ __forceinline__ void copy_bulk(void *to, const void *from, uint32_t bytes,
                                          uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

/* Where a warp is in a ring, and the parity of the round it is in. */
struct ring_position {
    uint32_t stage, phase;
    __device__ __forceinline__ void advance(uint32_t stages)
    {
        if (++stage == stages) {
            stage = 0;
            phase ^= 1;
        }
    }
};

#endif
#endif
