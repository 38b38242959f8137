/* sampler/avx2_scan.h - the AVX2 loops; scan.h describes what they compute.
 *
 * Only scan_dispatch.c may use them, after it has checked the processor.
 */
#ifndef SAMPLER_AVX2_SCAN_H
#define SAMPLER_AVX2_SCAN_H

#include "engines/sampler/scan.h"

#if defined(__x86_64__)
float scan_avx2_mask(const float *in, uint64_t legal, float *out, bool *odd);
void scan_avx2_tally(const struct scan_row *row, const struct scan_tally *tally);
void scan_avx2_scale(float *values, uint32_t blocks, float top, float temperature);
uint32_t scan_avx2_gather(const struct scan_row *row, float low, float high, float *x,
                          uint32_t *id);
uint64_t scan_avx2_noise(const struct scan_row *row, uint32_t block, const struct scan_noise *n,
                         uint32_t words[SCAN_BLOCK]);
#endif

#endif
