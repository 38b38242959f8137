/* native/cpu/tables.h - the vector kernels, whatever the processor; dispatch.c alone calls
 * these. */
#ifndef NATIVE_CPU_TABLES_H
#define NATIVE_CPU_TABLES_H

#include "engines/native/cpu/kernels.h"

const struct native_kernels *native_avx2_table(void);
const struct native_kernels *native_avx512_table(void);
const struct native_kernels *native_neon_table(void);

#endif
