/* native/cpu/avx2_kernels.c - the kernels for avx2: see kernels.h. */
#if defined(__x86_64__)
#define NATIVE_LANES_AVX2
#define NATIVE_KERNELS_NAME "avx2"
#include "engines/native/cpu/body.h"
#include "engines/native/cpu/tables.h"

const struct native_kernels *native_avx2_table(void)
{
    return &body_table;
}
#endif
