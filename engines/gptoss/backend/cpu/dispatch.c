/* gptoss/backend/cpu/dispatch.c - chooses the kernels for this processor.
 *
 * Compiled without processor flags, because it must run on every processor.
 */
#include "base/os/cpu.h"
#include "engines/devices/cpu/features.h"
#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx512.h"
#include "engines/gptoss/backend/cpu/kernels.h"
#include "engines/gptoss/backend/cpu/neon.h"

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
    if (cpu_features_read().fma)
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
    if (cpu_features_read().avx512)
        return &table;
#endif
    return NULL;
}

const struct cpu_kernels *cpu_kernels_neon(void)
{
#if defined(__aarch64__)
    static const struct cpu_kernels table = {
        .name = "neon",
        .pack_dense = cpu_neon_pack_dense,
        .dense = cpu_neon_dense,
        .pack_mx = cpu_neon_pack_mx,
        .mx = cpu_neon_mx,
        .attend = cpu_neon_attend,
        .norm = cpu_neon_norm,
        .swiglu = cpu_neon_swiglu,
    };
    return &table;
#else
    return NULL;
#endif
}

const struct cpu_kernels *cpu_kernels_neon_dot(void)
{
#if defined(__aarch64__)
    static const struct cpu_kernels table = {
        .name = "neon-dot",
        .pack_dense = cpu_neon_pack_dense,
        .dense = cpu_neon_dense,
        .pack_mx = cpu_neon_pack_mx,
        .mx = cpu_neon_dot_mx,
        .attend = cpu_neon_attend,
        .norm = cpu_neon_norm,
        .swiglu = cpu_neon_swiglu,
    };
    if (lr_cpu_has_dot_products())
        return &table;
#endif
    return NULL;
}

const struct cpu_kernels *cpu_kernels_best(void)
{
    const struct cpu_kernels *const fastest_first[] = {
        cpu_kernels_avx512(), cpu_kernels_avx2(), cpu_kernels_neon_dot(), cpu_kernels_neon()};

    for (size_t i = 0; i < sizeof(fastest_first) / sizeof(fastest_first[0]); i++)
        if (fastest_first[i] != NULL)
            return fastest_first[i];
    return cpu_kernels_plain();
}
