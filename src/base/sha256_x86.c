/* base/sha256_x86.c - SHA-256 blocks with the x86 SHA extensions.
 *
 * The instructions keep the eight state words as two registers, ABEF and CDGH.
 * sha256rnds2 does two rounds with the two lowest words of its third operand, which
 * are message words plus round constants; sha256msg1 and sha256msg2 are the two
 * halves of the message schedule.  Elsewhere the file says that they are missing.
 */
#include "base/sha256_internal.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

/* The loop below unrolls to 16 groups of four rounds; schedule word group g (g >= 4)
 * is made from the four groups before it, which live in m[g % 4]. */
__attribute__((target("sha,sse4.1,ssse3"))) void
lr_sha256_blocks_ni(uint32_t state[8], const unsigned char *blocks, size_t count)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const void *)&state[0]);
    __m128i hgfe = _mm_loadu_si128((const void *)&state[4]);
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1);
    __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1B);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
    __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);

    for (; count != 0; count--, blocks += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i m[4];
#pragma GCC unroll 16
        for (int g = 0; g < 16; g++) {
            __m128i *w = &m[g % 4];
            if (g < 4) {
                *w = _mm_loadu_si128((const void *)(blocks + 16 * g));
                *w = _mm_shuffle_epi8(*w, big_endian);
            } else {
                const __m128i w7 = _mm_alignr_epi8(m[(g + 3) % 4], m[(g + 2) % 4], 4);
                *w = _mm_sha256msg1_epu32(*w, m[(g + 1) % 4]);
                *w = _mm_sha256msg2_epu32(_mm_add_epi32(*w, w7), m[(g + 3) % 4]);
            }
            __m128i k = _mm_loadu_si128((const void *)&lr_sha256_constants[4 * g]);
            k = _mm_add_epi32(k, *w);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0E));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }

    const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
    const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((void *)&state[0], _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((void *)&state[4], _mm_alignr_epi8(dchg, feba, 8));
}

bool lr_sha256_has_ni(void)
{
    static _Atomic int known; /* 0: not asked yet, 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        unsigned a, b, c, d;
        answer = 1;
        if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0 &&
            __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) != 0 && (c & bit_SSSE3) != 0)
            answer = 2;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

#else

void lr_sha256_blocks_ni(uint32_t state[8], const unsigned char *blocks, size_t count)
{
    lr_sha256_blocks_plain(state, blocks, count);
}

bool lr_sha256_has_ni(void)
{
    return false;
}

#endif
