/* gptoss/backend/cuda/cluster.cuh - blocks that read each other's shared memory (Hopper and
 * later).
 *
 * After cluster_sync() the other blocks may read what a block wrote to its shared memory
 * before.  The block may write there again, or end, only after the next cluster_sync().
 */
#ifndef GPTOSS_CUDA_CLUSTER_CUH
#define GPTOSS_CUDA_CLUSTER_CUH

#include <stdint.h>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t cluster_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* A barrier of all threads of all blocks. */
__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/* The address in the block of that rank that corresponds to `own` in this block. */
template <class T> __device__ __forceinline__ const T *cluster_at(const T *own, uint32_t rank)
{
    const T *there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(rank));
    return there;
}

#endif

#endif
