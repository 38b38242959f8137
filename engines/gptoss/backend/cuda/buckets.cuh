/* gptoss/backend/cuda/buckets.cuh - weights of ids, and the buckets in which rank.cuh sums
 * them. */
#ifndef GPTOSS_CUDA_BUCKETS_CUH
#define GPTOSS_CUDA_BUCKETS_CUH

#include "engines/gptoss/backend/cuda/device.cuh"
#include "engines/sampler/scan.h"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr uint32_t RANK_THREADS = CUDA_FILTER_THREADS, RANK_WARPS = RANK_THREADS / WARP;
constexpr uint32_t RANK_BUCKETS = RANK_THREADS; /* thread i handles bucket i */
constexpr uint32_t LARGEST_BITS = 0x7F7FFFFFu;  /* FLT_MAX: infinity is not sampled */
constexpr uint32_t WEIGHTLESS = 0x42130000u;    /* 36.75: a weight below 2^-53 */
constexpr int UNIT_BITS = 43;                   /* 2^19 ids leave room in 64 */

__device__ __forceinline__ uint32_t bits_of(float x)
{
    return __float_as_uint(x) & 0x7FFFFFFFu;
}

__device__ __forceinline__ double power_of_two(int exponent)
{
    return __hiloint2double((1023 + exponent) << 20, 0);
}

/* exp(x) for -40 <= x <= 0: sampler/scan.h. */
__device__ __forceinline__ double weight(float x)
{
    const double c[8] = SCAN_SERIES;
    double n = fma((double)x, SCAN_LOG2E, SCAN_ROUND);
    double r = fma(-(n - SCAN_ROUND), SCAN_LN2, (double)x), r2 = r * r;
    double s0 = fma(fma(c[3], r, c[2]), r2, fma(c[1], r, c[0]));
    double s1 = fma(fma(c[7], r, c[6]), r2, fma(c[5], r, c[4]));
    double p = fma(s1, r2 * r2, s0);
    return __hiloint2double(__double2hiint(p) + (__double2loint(n) << 20), __double2loint(p));
}

/* The bits, or ids, that are not decided yet, and the size of a bucket. */
struct rank_range {
    uint32_t from, to;
    uint32_t base, shift;
};

/* Buckets of 1/32 of an octave each, as in sampler/rank.c: 16 octaves down from the least
 * weight that counts; values outside of them share the first or the last bucket. */
__device__ __forceinline__ void divide_octaves(rank_range &r)
{
    r.base = WEIGHTLESS - (RANK_BUCKETS << 18) + 1;
    r.shift = 18;
}

__device__ __forceinline__ void divide(rank_range &r)
{
    int spare = 32 - __clz(RANK_BUCKETS - 1) + __clz(r.to - r.from);
    r.base = r.from;
    r.shift = spare < 32 ? 32 - spare : 0;
}

__device__ __forceinline__ uint32_t bucket_of(const rank_range &r, uint32_t key)
{
    return key > r.base ? min((key - r.base) >> r.shift, RANK_BUCKETS - 1) : 0;
}

__device__ __forceinline__ void narrow(rank_range &r, uint32_t bucket)
{
    uint32_t last = r.base + ((bucket + 1) << r.shift) - 1;
    r.to = bucket == RANK_BUCKETS - 1 ? r.to : min(r.to, last);
    r.from = bucket == 0 ? r.from : r.base + (bucket << r.shift);
}

/* No weight of the bucket is above 2^-exponent, except by a rounding. */
__device__ __forceinline__ int exponent_of(const rank_range &r, uint32_t bucket)
{
    uint32_t from = bucket == 0 ? r.from : r.base + (bucket << r.shift);
    return (int)(__uint_as_float(from) * (float)SCAN_LOG2E);
}

__device__ __forceinline__ uint64_t units_of(double weight, int exponent)
{
    return __double2ull_rn(weight * power_of_two(UNIT_BITS + exponent));
}

/* Adds to a 64-bit sum of two 32-bit words, because a 64-bit atomic in shared memory would be a
 * loop. */
__device__ __forceinline__ void add_units(uint32_t *low, uint32_t *high, uint64_t units)
{
    uint32_t part = (uint32_t)units, old = atomicAdd(low, part);
    atomicAdd(high, (uint32_t)(units >> 32) + (old + part < part ? 1 : 0));
}

#endif

#endif
