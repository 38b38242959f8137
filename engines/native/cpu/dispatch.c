/* native/cpu/dispatch.c - chooses the kernels for this processor.
 *
 * Compiled without processor flags, because it must run on every processor.
 */
#include "engines/devices/cpu/features.h"
#include "engines/native/cpu/tables.h"

const struct native_kernels *native_kernels_avx2(void)
{
#if defined(__x86_64__)
    if (cpu_features_read().fma)
        return native_avx2_table();
#endif
    return NULL;
}

const struct native_kernels *native_kernels_avx512(void)
{
#if defined(__x86_64__)
    if (cpu_features_read().avx512)
        return native_avx512_table();
#endif
    return NULL;
}

const struct native_kernels *native_kernels_neon(void)
{
#if defined(__aarch64__)
    return native_neon_table();
#else
    return NULL;
#endif
}

const struct native_kernels *native_kernels_best(void)
{
    const struct native_kernels *const fastest_first[] = {
        native_kernels_avx512(), native_kernels_avx2(), native_kernels_neon()};

    for (size_t i = 0; i < sizeof(fastest_first) / sizeof(fastest_first[0]); i++)
        if (fastest_first[i] != NULL)
            return fastest_first[i];
    return native_kernels_plain();
}
