/* gptoss/backend/cpu/avx512_math.h - shared by the AVX-512 kernels.  Include only from
 * avx512_*.c. */
#ifndef GPTOSS_BACKEND_CPU_AVX512_MATH_H
#define GPTOSS_BACKEND_CPU_AVX512_MATH_H

#include <immintrin.h>

#define AVX512_INLINE static inline __attribute__((always_inline))

/* The same eight floats in both halves. */
AVX512_INLINE __m512 avx512_twice_ps(const float *p)
{
    return _mm512_broadcast_f32x8(_mm256_loadu_ps(p));
}

/* Eight registers hold sixteen accumulators of eight lanes, one in each half.  Every
 * accumulator is summed by the additions of avx2_sum, in the same order; sixteen at a time need
 * 7 additions instead of 48.
 *
 * Result, by 128-bit quarter: the low halves of v[0] v[2] v[4] v[6], their high halves, then
 * the low and the high halves of v[1] v[3] v[5] v[7].
 */
AVX512_INLINE __m512 avx512_sums(const __m512 v[8])
{
    __m512 quads[4], pairs[2];

    for (int i = 0; i < 4; i++) /* lanes 0..3 plus lanes 4..7 */
        quads[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x88),
                                 _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xDD));
    for (int i = 0; i < 2; i++) { /* lanes 0 1 plus lanes 2 3 */
        __m512d a = _mm512_castps_pd(quads[2 * i]), b = _mm512_castps_pd(quads[2 * i + 1]);
        pairs[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                                 _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(pairs[0], pairs[1], 0x88),
                         _mm512_shuffle_ps(pairs[0], pairs[1], 0xDD));
}

#endif
