/* gptoss/backend/cuda/wgmma.cuh - Hopper's asynchronous warpgroup product, and its copies.
 *
 * wgmma<N>::run: d[64 x N] += a[64 x 16] * b[16 x N], bf16 in, float32 sums.  The four warps of
 * a warpgroup own 16 rows each; a lane's fragments of a and d are those of mma.m16n8k16. b lies
 * in shared memory, N rows of 128 bytes (64 columns), 16-byte pieces of row r at piece ^ (r %
 * 8), at a multiple of 1,024 bytes.  The registers of a and d belong to the product until
 * wgmma_wait says that it has finished.
 */
#ifndef GPTOSS_CUDA_WGMMA_CUH
#define GPTOSS_CUDA_WGMMA_CUH

#include "engines/gptoss/backend/cuda/device.cuh"
#include "engines/gptoss/backend/cuda/ring.cuh"

/* wgmma is in the code of sm_90a only. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most PENDING groups are running. */
template <int PENDING> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* b from byte `address` of shared memory: 128-byte swizzle, 1,024 bytes from 8 rows to 8 rows.
 */
__device__ __forceinline__ uint64_t wgmma_matrix(uint32_t address)
{
    return (uint64_t)1 << 62 | (uint64_t)64 << 32 | (uint64_t)1 << 16 | (address >> 4 & 0x3FFF);
}

/* a from there: 64-byte swizzle, 512 bytes from 8 rows to 8 rows. */
__device__ __forceinline__ uint64_t wgmma_rows(uint32_t address)
{
    return (uint64_t)2 << 62 | (uint64_t)32 << 32 | (uint64_t)1 << 16 | (address >> 4 & 0x3FFF);
}

template <int N> struct wgmma;

/* The operands of N columns: each of the N / 2 registers of a lane needs a name. */
#define WGMMA_OUT_16  "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_OUT_32  WGMMA_OUT_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_OUT_48  WGMMA_OUT_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_OUT_64  WGMMA_OUT_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_OUT_80  WGMMA_OUT_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_OUT_96  WGMMA_OUT_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_OUT_112 WGMMA_OUT_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_OUT_128 WGMMA_OUT_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_OUT_144 WGMMA_OUT_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_OUT_160 WGMMA_OUT_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_OUT_176 WGMMA_OUT_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_OUT_192 WGMMA_OUT_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_EIGHT(i)                                                                         \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]),                \
        "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_SUMS_16  WGMMA_EIGHT(0)
#define WGMMA_SUMS_32  WGMMA_SUMS_16, WGMMA_EIGHT(8)
#define WGMMA_SUMS_48  WGMMA_SUMS_32, WGMMA_EIGHT(16)
#define WGMMA_SUMS_64  WGMMA_SUMS_48, WGMMA_EIGHT(24)
#define WGMMA_SUMS_80  WGMMA_SUMS_64, WGMMA_EIGHT(32)
#define WGMMA_SUMS_96  WGMMA_SUMS_80, WGMMA_EIGHT(40)
#define WGMMA_SUMS_112 WGMMA_SUMS_96, WGMMA_EIGHT(48)
#define WGMMA_SUMS_128 WGMMA_SUMS_112, WGMMA_EIGHT(56)
#define WGMMA_SUMS_144 WGMMA_SUMS_128, WGMMA_EIGHT(64)
#define WGMMA_SUMS_160 WGMMA_SUMS_144, WGMMA_EIGHT(72)
#define WGMMA_SUMS_176 WGMMA_SUMS_160, WGMMA_EIGHT(80)
#define WGMMA_SUMS_192 WGMMA_SUMS_176, WGMMA_EIGHT(88)

#define WGMMA(N, A0, A1, A2, A3, B)                                                            \
    template <> struct wgmma<N> {                                                              \
        static __device__ __forceinline__ void run(float *d, const uint32_t *a, uint64_t b)    \
        {                                                                                      \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" #N                                \
                         "k16.f32.bf16.bf16 {" WGMMA_OUT_##N                                   \
                         "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", 1, 1, 1, 0;"   \
                         : WGMMA_SUMS_##N                                                      \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                \
        }                                                                                      \
        static __device__ __forceinline__ void run(float *d, uint64_t a, uint64_t b)           \
        {                                                                                      \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" #N                                \
                         "k16.f32.bf16.bf16 {" WGMMA_OUT_##N "}, %" #A0 ", %" #A1              \
                                                             ", 1, 1, 1, 0, 0;"                \
                         : WGMMA_SUMS_##N                                                      \
                         : "l"(a), "l"(b));                                                    \
        }                                                                                      \
    };
WGMMA(16, 8, 9, 10, 11, 12)
WGMMA(32, 16, 17, 18, 19, 20)
WGMMA(48, 24, 25, 26, 27, 28)
WGMMA(64, 32, 33, 34, 35, 36)
WGMMA(80, 40, 41, 42, 43, 44)
WGMMA(96, 48, 49, 50, 51, 52)
WGMMA(112, 56, 57, 58, 59, 60)
WGMMA(128, 64, 65, 66, 67, 68)
WGMMA(144, 72, 73, 74, 75, 76)
WGMMA(160, 80, 81, 82, 83, 84)
WGMMA(176, 88, 89, 90, 91, 92)
WGMMA(192, 96, 97, 98, 99, 100)
#undef WGMMA

/* Arrives when the copies (cp.async) that this thread has started are complete. */
__device__ __forceinline__ void arrive_after_copies(uint64_t *barrier)
{
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(ring_address(barrier))
        : "memory");
}

/* 16 bytes, or 16 zeros. */
__device__ __forceinline__ void copy_piece(uint32_t to, const void *from, bool real)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(real ? 16 : 0)
                 : "memory");
}

/* Makes this thread's writes visible to wgmma. */
__device__ __forceinline__ void fence_for_wgmma()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <int COUNT> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

#endif
#endif
