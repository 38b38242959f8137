/* native/formats/packed.c - rows of packed matrices for everything but the kernels. */
#include "engines/native/formats/unpack.h"

void native_packed_row(const struct native_packed *p, uint32_t row, uint32_t from, uint32_t n,
                       float *out)
{
    unpack_row(p, row, from, n, out);
}
