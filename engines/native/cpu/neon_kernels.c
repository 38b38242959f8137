/* native/cpu/neon_kernels.c - the kernels for neon: see kernels.h. */
#if defined(__aarch64__)
#define NATIVE_LANES_NEON
#define NATIVE_KERNELS_NAME "neon"
#include "engines/native/cpu/body.h"
#include "engines/native/cpu/tables.h"

const struct native_kernels *native_neon_table(void)
{
    return &body_table;
}
#endif
