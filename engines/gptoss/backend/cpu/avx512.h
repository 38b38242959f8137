/* gptoss/backend/cpu/avx512.h - the AVX-512 + VNNI kernels; see kernels.h for what they
 * compute.
 *
 * Bit for bit they compute what the AVX2 kernels compute.  Only dispatch.c may call them, after
 * asking the processor.
 */
#ifndef GPTOSS_BACKEND_CPU_AVX512_H
#define GPTOSS_BACKEND_CPU_AVX512_H

#include "engines/gptoss/backend/cpu/kernels.h"

#if defined(__x86_64__)
void cpu_avx512_dense(const struct cpu_dense *job);
void cpu_avx512_mx(const struct cpu_mx *job);
void cpu_avx512_attend(const struct cpu_attend *job);
#endif

#endif
