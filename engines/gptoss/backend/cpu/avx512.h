/* gptoss/backend/cpu/avx512.h - the AVX-512 + VNNI kernels; kernels.h describes what they
 * compute.
 *
 * They give the same bits as the AVX2 kernels.  Called only by dispatch.c, after it has checked
 * the processor.
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
