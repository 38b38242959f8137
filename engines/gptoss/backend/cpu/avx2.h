/* gptoss/backend/cpu/avx2.h - the AVX2 + FMA kernels; kernels.h describes what they compute.
 *
 * Called only by dispatch.c, after it has checked the processor, and by the AVX-512 kernels for
 * the remainders of odd shapes.
 */
#ifndef GPTOSS_BACKEND_CPU_AVX2_H
#define GPTOSS_BACKEND_CPU_AVX2_H

#include "engines/gptoss/backend/cpu/kernels.h"

/* Layout of packed MX activations, see avx2_mx.c. */
enum {
    CPU_MX_PAIR_BYTES = 224,
    CPU_MX_OFFSET_AT = 192, /* in a pair */
    CPU_MX_SCALE_AT = 896,  /* in an octet */
};

#if defined(__x86_64__)
void cpu_avx2_pack_dense(const float *x, size_t columns, float *out);
void cpu_avx2_dense(const struct cpu_dense *job);
void cpu_avx2_pack_mx(const float *x, size_t first, size_t count, uint8_t *vector);
void cpu_avx2_mx(const struct cpu_mx *job);
void cpu_avx2_attend(const struct cpu_attend *job);
void cpu_avx2_norm(const float *x, const uint16_t *weight, size_t n, float eps, float *out);
void cpu_avx2_swiglu(const float *u, size_t n, float limit, float *out);
#endif

#endif
