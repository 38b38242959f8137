/* devices/cpu/features.h - vector instructions that processor and operating system both
 * support. x64 only.
 *
 * The compilers' own question (__builtin_cpu_supports) needs a library that not every compiler
 * brings.
 */
#ifndef ENGINES_DEVICES_CPU_FEATURES_H
#define ENGINES_DEVICES_CPU_FEATURES_H

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

struct cpu_features {
    bool avx2, fma;
    bool avx512; /* F, BW, VL, DQ and VNNI */
};

static inline struct cpu_features cpu_features_read(void)
{
    enum { HAS_XGETBV = 1 << 27, HAS_FMA = 1 << 12, HAS_AVX2 = 1 << 5, HAS_VNNI = 1 << 11 };
    enum { STATE_AVX = 0x6, STATE_AVX512 = 0xe6 };
    const uint32_t avx512 = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31; /* F, DQ, BW, VL */
    struct cpu_features out = {false, false, false};
    uint32_t a, b, c1, b7, c7, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || (c1 & HAS_XGETBV) == 0 ||
        !__get_cpuid_count(7, 0, &a, &b7, &c7, &d))
        return out;
    /* Registers that the operating system saves. */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    out.avx2 = (low & STATE_AVX) == STATE_AVX && (b7 & HAS_AVX2) != 0;
    out.fma = out.avx2 && (c1 & HAS_FMA) != 0;
    out.avx512 = out.fma && (low & STATE_AVX512) == STATE_AVX512 && (b7 & avx512) == avx512 &&
                 (c7 & HAS_VNNI) != 0;
    return out;
}
#endif

#endif
