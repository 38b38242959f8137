/* sampler/scan_dispatch.c - chooses the loops for this processor.
 *
 * Compiled without processor flags, because it must run on processors without AVX2.
 */
#include <stddef.h>

#include "engines/devices/cpu/features.h"
#include "engines/sampler/avx2_scan.h"

const struct scan_kernels *scan_kernels_avx2(void)
{
#if defined(__x86_64__)
    static const struct scan_kernels table = {.name = "avx2",
                                              .mask = scan_avx2_mask,
                                              .tally = scan_avx2_tally,
                                              .scale = scan_avx2_scale,
                                              .gather = scan_avx2_gather,
                                              .noise = scan_avx2_noise};
    if (cpu_features_read().avx2)
        return &table;
#endif
    return NULL;
}
