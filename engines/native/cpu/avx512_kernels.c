/* native/cpu/avx512_kernels.c - the kernels for avx512: see kernels.h. */
#if defined(__x86_64__)
#define NATIVE_LANES_AVX512
#define NATIVE_KERNELS_NAME "avx512"
#include "engines/native/cpu/body.h"
#include "engines/native/cpu/tables.h"

const struct native_kernels *native_avx512_table(void)
{
    return &body_table;
}
#endif
