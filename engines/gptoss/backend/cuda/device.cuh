/* gptoss/backend/cuda/device.cuh - device primitives that every kernel uses. */
#ifndef GPTOSS_CUDA_DEVICE_CUH
#define GPTOSS_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <stdint.h>

#include "engines/gptoss/backend/cuda/args.h"

enum { WARP = 32 };

/* Programmatic dependent launch: a kernel may start while the previous one still runs, and
 * waits here before it reads or writes data of the previous one.  Weights never change, so they
 * are loaded before the wait. */
__device__ __forceinline__ void wait_for_previous_kernel()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_next_kernel_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Weights are read once per step: keep them out of L1. */
__device__ __forceinline__ uint4 load_stream(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

__device__ __forceinline__ uint2 load_stream(const uint2 *p)
{
    uint2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(p));
    return v;
}

/* Returns when `members` threads of different blocks have called it.  The blocks must be
 * resident together.  ticket: a counter, zero between launches, and its round. */
__device__ __forceinline__ void meet(uint32_t *ticket, uint32_t members)
{
    uint32_t round, now;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(round) : "l"(ticket + 1));
    __threadfence();
    if (atomicInc(ticket, members - 1) == members - 1) {
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(ticket + 1), "r"(round + 1)
                     : "memory");
        return;
    }
    do
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(now)
                     : "l"(ticket + 1)
                     : "memory");
    while (now == round);
}

/* c[16 x 8] += a[16 x 16] * b[16 x 8], bf16 in, float32 sums. */
__device__ __forceinline__ void mma(float c[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                    uint32_t a3, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float from_bf16(uint16_t v)
{
    return __uint_as_float((uint32_t)v << 16);
}

__device__ __forceinline__ uint16_t to_bf16(float v)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(v));
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ uint32_t mul_bf16x2(uint32_t a, uint32_t b)
{
    uint32_t r;
#if __CUDA_ARCH__ >= 900
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
    return r;
}

/* mma() whose sums start at zero. */
__device__ __forceinline__ void mma_first(float c[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                          uint32_t a3, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
                 : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0f));
}

/* Eight E2M1 values in a word become four pairs of bf16, each value times 2^-126: a code
 * "s eem" is the bf16 with sign s, low exponent bits ee and first mantissa bit m.  The
 * word keeps, in each half, pair p's magnitude at bits 3(2 - p) .. (p = 0, 1, 2 at 8..6,
 * 5..3, 2..0; p = 3 at 11..9) and its sign at bit 15 - p (p = 0, 1: 15, 12; p = 2, 3: 14,
 * 13), so that at most two shifts and two masks make a pair.  The even element of a pair
 * sits in the low half. */
__device__ __forceinline__ void spread_mxfp4(uint32_t w, uint32_t out[4])
{
    out[0] = w & 0x81C081C0u;
    out[1] = w << 3 & 0x81C081C0u;
    out[2] = (w << 6 & 0x01C001C0u) | (w << 1 & 0x80008000u);
    out[3] = (w >> 3 & 0x01C001C0u) | (w << 2 & 0x80008000u);
}

/* The same, multiplied by their scale. */
__device__ __forceinline__ void decode_mxfp4(uint32_t w, uint32_t scale, uint32_t out[4])
{
    spread_mxfp4(w, out);
#pragma unroll
    for (int i = 0; i < 4; i++)
        out[i] = mul_bf16x2(out[i], scale);
}

/* Where column c of an activation lies in the order for products of prompts (prompt.cuh): in
 * each block of 32, the fragments of two steps of 16 columns, one after the other. */
__host__ __device__ __forceinline__ uint32_t prompt_column(uint32_t c)
{
    return (c & ~31u) | (c >> 1 & 3) << 3 | (c >> 3 & 3) << 1 | (c & 1);
}

/* Scale byte i of four, as a pair of bf16. */
__device__ __forceinline__ uint32_t scale_pair(uint32_t bytes, int i)
{
    return __byte_perm(bytes, 0, 0x0404 | i << 4 | i << 12) >> 1;
}

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int d = 16; d != 0; d >>= 1)
        v += __shfl_xor_sync(0xFFFFFFFFu, v, d);
    return v;
}

/* Bytes between rows of activations in shared memory: 64 modulo 128, so that the eight lanes of
 * a 16-byte access phase use every bank once. */
__host__ __device__ __forceinline__ uint32_t activation_stride(uint32_t blocks)
{
    return blocks * 64 + ((blocks & 1) == 0 ? 64 : 0);
}

#endif
