/* native/cpu/plain.c - the kernels for plain: see kernels.h. */
#define NATIVE_KERNELS_NAME "plain"
#include "engines/native/cpu/body.h"

const struct native_kernels *native_kernels_plain(void)
{
    return &body_table;
}
