/* native/cpu/plain.c - the kernels in portable C: see kernels.h. */
#include "engines/native/cpu/body.h"

const struct native_kernels *native_kernels_plain(void)
{
    return &body_table;
}
