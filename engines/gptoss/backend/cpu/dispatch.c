/* gptoss/backend/cpu/dispatch.c - chooses the kernels for this processor.
 *
 * Compiled without processor flags, because it must run on processors without AVX2.
 */
#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx512.h"
#include "engines/gptoss/backend/cpu/kernels.h"

const struct cpu_kernels *cpu_kernels_avx2(void)
{
#if defined(__x86_64__)
    static const struct cpu_kernels table = {
        .name = "avx2",
        .pack_dense = cpu_avx2_pack_dense,
        .dense = cpu_avx2_dense,
        .pack_mx = cpu_avx2_pack_mx,
        .mx = cpu_avx2_mx,
        .attend = cpu_avx2_attend,
        .norm = cpu_avx2_norm,
        .swiglu = cpu_avx2_swiglu,
    };
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &table;
#endif
    return NULL;
}

const struct cpu_kernels *cpu_kernels_avx512(void)
{
#if defined(__x86_64__)
    static const struct cpu_kernels table = {
        .name = "avx512",
        .pack_dense = cpu_avx2_pack_dense,
        .dense = cpu_avx512_dense,
        .pack_mx = cpu_avx2_pack_mx,
        .mx = cpu_avx512_mx,
        .attend = cpu_avx512_attend,
        .norm = cpu_avx2_norm,
        .swiglu = cpu_avx2_swiglu,
    };
    __builtin_cpu_init();
    if (cpu_kernels_avx2() != NULL && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))
        return &table;
#endif
    return NULL;
}

const struct cpu_kernels *cpu_kernels_best(void)
{
    const struct cpu_kernels *avx512 = cpu_kernels_avx512(), *avx2 = cpu_kernels_avx2();

    if (avx512 != NULL)
        return avx512;
    return avx2 != NULL ? avx2 : cpu_kernels_plain();
}
