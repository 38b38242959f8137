/* gptoss/backend/cpu/avx2_mx.c - MXFP4 matrices times vectors, straight from the 4-bit bytes.
 *
 * Converting each 4-bit weight to float32 costs more than memory takes to deliver it.
 * Instead the activations are made fixed point: within each block of 32, x = q * s with
 * s a power of two and q a whole number of 24 bits, split into three signed digits of
 * 8 bits, q = 65536 a + 256 b + c.  Weights become the bytes 12 + 2w in 0..24 by one
 * table lookup for 32 nibbles, and a multiply-add of bytes (maddubs) does 32 products:
 *
 *   maddubs of evens + of odds   16-bit lane = 4 products; at most 4 * 24 * 128 = 12,288
 *   madd with 256 and 1          32-bit lane = 8 products
 *   combining the three digits   exact: at most 2 * 12,288 * 65,793 = 1.62e9 < 2^31
 *   minus 12 * sum(q)            exact: undoes the 12 that kept weights unsigned
 *   to float32, times 2^(scale), into an accumulator of eight lanes
 *
 * So a block's dot product is exact but for 2^-23 of its largest activation, the same
 * size as float32's own rounding.  About 26 instructions do 64 weights.
 *
 * Two blocks (32 bytes) form a pair, one in each 128-bit half.  Packed activations of
 * a pair, 256 bytes: three digits of [32 even-numbered | 32 odd-numbered elements],
 * 12 * sum(q) for the eight lanes, the scale s / 2 for the eight lanes.  An odd last
 * block is a pair whose second half is zero.
 *
 * One output element is one accumulator over its row's pairs from front to end, then
 * avx2_sum.
 */
#if defined(__x86_64__)
#include <math.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx2_math.h"

enum {
    DIGIT_BYTES = 64, /* evens and odds of a pair */
    OFFSET_AT = 192,
    SCALE_AT = 224,
    MX_TOKENS = 2,
    MX_ROWS = 2,
};

static float largest(const float *x, size_t n)
{
    float top = 0;

    for (size_t i = 0; i < n; i++)
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    return top;
}

/* The exponent e for which |x| * 2^e, rounded, stays below 127.5 * 65536 for all |x| up
 * to `top`, so that the first digit fits 8 bits.  0 for a block of zeros, or of numbers
 * so small that nothing is lost by calling them zero. */
static int digit_exponent(float top)
{
    int e;

    if (!(top > 1e-30f))
        return 0;
    if (!(top < 1e30f))
        return -126;                  /* infinities saturate: such a model is broken anyway */
    float mantissa = frexpf(top, &e); /* top = mantissa * 2^e, 0.5 <= mantissa < 1 */
    return (mantissa < 0.99f ? 23 : 22) - e;
}

static void pack_block(const float *x, uint8_t *pair, size_t half)
{
    int exponent = digit_exponent(largest(x, CPU_MX_BLOCK));
    float up = ldexpf(1.0f, exponent), scale = ldexpf(0.5f, -exponent);
    int32_t offset[4] = {0};

    for (size_t k = 0; k < CPU_MX_BLOCK; k++) {
        float scaled = x[k] * up;
        int32_t q = scaled < 8.31e6f && scaled > -8.31e6f ? (int32_t)lrintf(scaled)
                                                          : (scaled > 0 ? 8310000 : -8310000);
        int32_t c = (int8_t)(uint8_t)((uint32_t)q & 255u);
        int32_t b = (int8_t)(uint8_t)((uint32_t)((q - c) >> 8) & 255u);
        int32_t a = (q - c - b * 256) >> 16;
        size_t at = (k & 1) * 32 + half * 16 + k / 2;
        pair[at] = (uint8_t)a;
        pair[DIGIT_BYTES + at] = (uint8_t)b;
        pair[2 * DIGIT_BYTES + at] = (uint8_t)c;
        offset[k / 8] += 12 * q;
    }
    memcpy(pair + OFFSET_AT + half * 16, offset, sizeof(offset));
    for (size_t i = 0; i < 4; i++)
        memcpy(pair + SCALE_AT + half * 16 + i * 4, &scale, sizeof(scale));
}

void cpu_avx2_pack_mx(const float *x, size_t columns, uint8_t *out)
{
    size_t blocks = columns / CPU_MX_BLOCK;

    for (size_t g = 0; g < blocks; g++)
        pack_block(x + g * CPU_MX_BLOCK, out + g / 2 * CPU_MX_PAIR_BYTES, g & 1);
    if (blocks & 1) {
        uint8_t *pair = out + blocks / 2 * CPU_MX_PAIR_BYTES;
        float zero[CPU_MX_BLOCK] = {0};
        pack_block(zero, pair, 1);
    }
}

AVX2_INLINE __m256i load32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* The exact dot products of a pair, eight lanes. */
AVX2_INLINE __m256i pair_dot(__m256i even, __m256i odd, const uint8_t *x)
{
    const __m256i ones = _mm256_set1_epi16(1), shift8 = _mm256_set1_epi16(256);
    __m256i a = _mm256_add_epi16(_mm256_maddubs_epi16(even, load32(x)),
                                 _mm256_maddubs_epi16(odd, load32(x + 32)));
    __m256i b = _mm256_add_epi16(_mm256_maddubs_epi16(even, load32(x + 64)),
                                 _mm256_maddubs_epi16(odd, load32(x + 96)));
    __m256i c = _mm256_add_epi16(_mm256_maddubs_epi16(even, load32(x + 128)),
                                 _mm256_maddubs_epi16(odd, load32(x + 160)));
    __m256i high = _mm256_add_epi32(_mm256_madd_epi16(a, shift8), _mm256_madd_epi16(b, ones));
    __m256i all = _mm256_add_epi32(_mm256_slli_epi32(high, 8), _mm256_madd_epi16(c, ones));
    return _mm256_sub_epi32(all, load32(x + OFFSET_AT));
}

/* Eight scale bytes (or the `left` < 8 last ones of a row) as factors 2^(s - 127). */
AVX2_INLINE __m256 scale_factors(const uint8_t *scales, size_t left, __m128i excess)
{
    uint64_t bytes = 0;

    if (left >= 8)
        memcpy(&bytes, scales, 8);
    else
        for (size_t i = 0; i < left; i++)
            bytes |= (uint64_t)scales[i] << (8 * i);
    __m128i s = _mm_subs_epu8(_mm_cvtsi64_si128((long long)bytes), excess);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(s), 23));
}

AVX2_INLINE void mx_tile(const struct cpu_mx *job, uint32_t row, uint32_t token, const int rows,
                         const int tokens)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m128i excess = _mm_set1_epi8((char)job->scale_excess);
    size_t groups = job->columns / CPU_MX_BLOCK;
    const uint8_t *blocks = job->blocks + row * groups * 16;
    const uint8_t *scales = job->scales + row * groups;
    __m256 acc[8];

    for (int i = 0; i < rows * tokens; i++)
        acc[i] = _mm256_setzero_ps();
    for (size_t g = 0; g < groups; g += 8) {
        __m256 factors[4];
        for (int r = 0; r < rows; r++)
            factors[r] = scale_factors(scales + (size_t)r * groups + g, groups - g, excess);
        __m256i pick = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
        size_t end = groups - g < 8 ? groups : g + 8;
        for (size_t i = g; i < end; i += 2) {
            for (int r = 0; r < rows; r++) {
                const uint8_t *from = blocks + ((size_t)r * groups + i) * 16;
                __m256i bytes = i + 1 < groups ? load32(from)
                                               : _mm256_zextsi128_si256(_mm_loadu_si128(
                                                     (const __m128i *)(const void *)from));
                __m256i low = _mm256_and_si256(bytes, nibble);
                __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
                __m256i even = _mm256_shuffle_epi8(table, low);
                __m256i odd = _mm256_shuffle_epi8(table, high);
                __m256 factor = _mm256_permutevar8x32_ps(factors[r], pick);
                for (int t = 0; t < tokens; t++) {
                    const uint8_t *x = job->x[token + (uint32_t)t] + i / 2 * CPU_MX_PAIR_BYTES;
                    __m256 dot = _mm256_cvtepi32_ps(pair_dot(even, odd, x));
                    __m256 s = _mm256_mul_ps(
                        factor, _mm256_loadu_ps((const float *)(const void *)(x + SCALE_AT)));
                    acc[r * tokens + t] = _mm256_fmadd_ps(dot, s, acc[r * tokens + t]);
                }
            }
            pick = _mm256_add_epi32(pick, _mm256_set1_epi32(2));
        }
    }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tokens; t++)
            job->y[(token + (size_t)t) * job->y_stride + row + (size_t)r] =
                avx2_sum(acc[r * tokens + t]);
}

void cpu_avx2_mx(const struct cpu_mx *job)
{
    uint32_t r = 0, t;

    for (; r + MX_ROWS <= job->rows; r += MX_ROWS) {
        for (t = 0; t + MX_TOKENS <= job->tokens; t += MX_TOKENS)
            mx_tile(job, r, t, MX_ROWS, MX_TOKENS);
        for (; t < job->tokens; t++)
            mx_tile(job, r, t, MX_ROWS, 1);
    }
    for (; r < job->rows; r++)
        for (t = 0; t < job->tokens; t++)
            mx_tile(job, r, t, 1, 1);
}
#endif
