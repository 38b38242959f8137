/* gptoss/backend/cpu/neon.h - the kernels for arm64; kernels.h describes what they compute.
 *
 * NEON is part of every arm64 processor.  The instructions for dot products of bytes are not:
 * cpu_neon_dot_mx is called only where dispatch.c has found them.
 */
#ifndef GPTOSS_BACKEND_CPU_NEON_H
#define GPTOSS_BACKEND_CPU_NEON_H

#include "engines/gptoss/backend/cpu/kernels.h"

#if defined(__aarch64__)
void cpu_neon_pack_dense(const float *x, size_t columns, float *out);
void cpu_neon_dense(const struct cpu_dense *job);
void cpu_neon_pack_mx(const float *x, size_t first, size_t count, uint8_t *vector);
void cpu_neon_mx(const struct cpu_mx *job);
void cpu_neon_dot_mx(const struct cpu_mx *job);
void cpu_neon_attend(const struct cpu_attend *job);
void cpu_neon_norm(const float *x, const uint16_t *weight, size_t n, float eps, float *out);
void cpu_neon_swiglu(const float *u, size_t n, float limit, float *out);
#endif

#endif
