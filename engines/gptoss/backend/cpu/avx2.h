/* gptoss/backend/cpu/avx2.h - the AVX2 + FMA kernels; see kernels.h for what they compute.
 *
 * Only dispatch.c may call them, after asking the processor, and the AVX-512 kernels for the
 * ends of odd shapes.
 */
#ifndef GPTOSS_BACKEND_CPU_AVX2_H
#define GPTOSS_BACKEND_CPU_AVX2_H

#include "engines/gptoss/backend/cpu/kernels.h"

/* Of packed MX activations, as avx2_mx.c describes them. */
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
