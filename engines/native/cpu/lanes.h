/* native/cpu/lanes.h - sixteen float32 sums side by side, for each kind of vector registers.
 *
 * Included by one file for each kind, which defines NATIVE_LANES_AVX512, _AVX2, _NEON or none.
 * Every version rounds the same: one product and sum rounds once (fma), and the sixteen sums of
 * a row are added in the same order.  So all versions, the portable one too, give the same
 * bits.
 */
#ifndef NATIVE_CPU_LANES_H
#define NATIVE_CPU_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

/* Twice the values of E2M1: sign, two bits of exponent, one of mantissa. */
#define LANES_FP4 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12

/* Half precision by integers: exact, also for subnormal numbers. */
LANES_INLINE float lanes_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7FFFu, bits;
    float v;

    if (rest < 0x400) { /* zero and subnormal */
        v = (float)rest * 5.9604644775390625e-8f;
        memcpy(&bits, &v, sizeof(bits));
    } else {
        bits =
            rest >= 0x7C00 ? 0x7F800000u | (rest & 0x3FFu) << 13 : (rest << 13) + 0x38000000u;
    }
    bits |= sign;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

LANES_INLINE float lanes_brain(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* The order in which the sixteen sums are added. */
LANES_INLINE float lanes_total(const float v[LANES])
{
    float a[8], b[4];

    for (int i = 0; i < 8; i++)
        a[i] = v[i] + v[i + 8];
    for (int i = 0; i < 4; i++)
        b[i] = a[i] + a[i + 4];
    return (b[0] + b[2]) + (b[1] + b[3]);
}

#if defined(NATIVE_LANES_AVX512)
#include <immintrin.h>
/* How many sums run side by side; they change no result. */
enum {
    WIDE_ROWS = 8,
    TILE_ROWS = 4,
    TILE_TOKENS = 6,
    FP4_ROWS = 4,
    FP4_TOKENS = 4,
    LOOK_HEADS = 4,
    VALUE_PARTS = 4
};
typedef __m512 lanes;

LANES_INLINE lanes lanes_zero(void)
{
    return _mm512_setzero_ps();
}
LANES_INLINE lanes lanes_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
LANES_INLINE lanes lanes_all(float v)
{
    return _mm512_set1_ps(v);
}
LANES_INLINE void lanes_store(float *p, lanes v)
{
    _mm512_storeu_ps(p, v);
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return _mm512_fmadd_ps(a, b, c);
}
LANES_INLINE lanes lanes_bf16(const uint16_t *p)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
LANES_INLINE lanes lanes_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
/* The 32 values of a block in the order of the columns: a byte holds two, the low half first.
 */
LANES_INLINE void lanes_fp4_bytes(const uint8_t *block, __m128i *low, __m128i *high)
{
    const __m128i table = _mm_setr_epi8(LANES_FP4), half = _mm_set1_epi8(15);
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)block);
    __m128i even = _mm_shuffle_epi8(table, _mm_and_si128(bytes, half));
    __m128i odd = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(bytes, 4), half));
    *low = _mm_unpacklo_epi8(even, odd);
    *high = _mm_unpackhi_epi8(even, odd);
}
LANES_INLINE void lanes_fp4(const uint8_t *block, float scale, lanes *a, lanes *b)
{
    __m512 unit = _mm512_set1_ps(0.5f * scale);
    __m128i low, high;

    lanes_fp4_bytes(block, &low, &high);
    *a = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(low)), unit);
    *b = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(high)), unit);
}
LANES_INLINE float lanes_sum(lanes v)
{
    __m256 low = _mm512_castps512_ps256(v);
    __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
    __m256 a = _mm256_add_ps(low, high);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_shuffle_ps(b, b, 1)));
}

#elif defined(NATIVE_LANES_AVX2)
#include <immintrin.h>
/* How many sums run side by side; they change no result. */
enum {
    WIDE_ROWS = 4,
    TILE_ROWS = 2,
    TILE_TOKENS = 3,
    FP4_ROWS = 2,
    FP4_TOKENS = 2,
    LOOK_HEADS = 2,
    VALUE_PARTS = 4
};
typedef struct {
    __m256 a, b;
} lanes;

LANES_INLINE lanes lanes_zero(void)
{
    return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
LANES_INLINE lanes lanes_load(const float *p)
{
    return (lanes){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LANES_INLINE lanes lanes_all(float v)
{
    return (lanes){_mm256_set1_ps(v), _mm256_set1_ps(v)};
}
LANES_INLINE void lanes_store(float *p, lanes v)
{
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c)
{
    return (lanes){_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b)};
}
LANES_INLINE __m256 lanes_bf16_half(const uint16_t *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
LANES_INLINE lanes lanes_bf16(const uint16_t *p)
{
    return (lanes){lanes_bf16_half(p), lanes_bf16_half(p + 8)};
}
LANES_INLINE lanes lanes_f16(const uint16_t *p)
{
    return (lanes){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)),
                   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 8)))};
}
/* The 32 values of a block in the order of the columns: a byte holds two, the low half first.
 */
LANES_INLINE void lanes_fp4_bytes(const uint8_t *block, __m128i *low, __m128i *high)
{
    const __m128i table = _mm_setr_epi8(LANES_FP4), half = _mm_set1_epi8(15);
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)block);
    __m128i even = _mm_shuffle_epi8(table, _mm_and_si128(bytes, half));
    __m128i odd = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(bytes, 4), half));
    *low = _mm_unpacklo_epi8(even, odd);
    *high = _mm_unpackhi_epi8(even, odd);
}
LANES_INLINE __m256 lanes_fp4_part(__m128i bytes, __m256 unit)
{
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), unit);
}
LANES_INLINE void lanes_fp4(const uint8_t *block, float scale, lanes *a, lanes *b)
{
    __m256 unit = _mm256_set1_ps(0.5f * scale);
    __m128i low, high;

    lanes_fp4_bytes(block, &low, &high);
    *a = (lanes){lanes_fp4_part(low, unit), lanes_fp4_part(_mm_srli_si128(low, 8), unit)};
    *b = (lanes){lanes_fp4_part(high, unit), lanes_fp4_part(_mm_srli_si128(high, 8), unit)};
}
LANES_INLINE float lanes_sum(lanes v)
{
    __m256 a = _mm256_add_ps(v.a, v.b);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_shuffle_ps(b, b, 1)));
}

#elif defined(NATIVE_LANES_NEON)
#include <arm_neon.h>
/* How many sums run side by side; they change no result. */
enum {
    WIDE_ROWS = 4,
    TILE_ROWS = 2,
    TILE_TOKENS = 3,
    FP4_ROWS = 2,
    FP4_TOKENS = 2,
    LOOK_HEADS = 2,
    VALUE_PARTS = 4
};
typedef struct {
    float32x4_t a, b, c, d;
} lanes;

LANES_INLINE lanes lanes_zero(void)
{
    float32x4_t z = vdupq_n_f32(0);
    return (lanes){z, z, z, z};
}
LANES_INLINE lanes lanes_load(const float *p)
{
    return (lanes){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
LANES_INLINE lanes lanes_all(float v)
{
    float32x4_t x = vdupq_n_f32(v);
    return (lanes){x, x, x, x};
}
LANES_INLINE void lanes_store(float *p, lanes v)
{
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
}
LANES_INLINE lanes lanes_fma(lanes x, lanes y, lanes z)
{
    return (lanes){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
                   vfmaq_f32(z.d, x.d, y.d)};
}
LANES_INLINE float32x4_t lanes_bf16_quarter(uint16x4_t v)
{
    return vreinterpretq_f32_u32(vshll_n_u16(v, 16));
}
LANES_INLINE lanes lanes_bf16(const uint16_t *p)
{
    uint16x8_t low = vld1q_u16(p), high = vld1q_u16(p + 8);
    return (lanes){
        lanes_bf16_quarter(vget_low_u16(low)), lanes_bf16_quarter(vget_high_u16(low)),
        lanes_bf16_quarter(vget_low_u16(high)), lanes_bf16_quarter(vget_high_u16(high))};
}
LANES_INLINE lanes lanes_f16(const uint16_t *p)
{
    return (lanes){vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))),
                   vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4))),
                   vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 8))),
                   vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 12)))};
}
LANES_INLINE lanes lanes_fp4_part(int8x16_t bytes, float32x4_t unit)
{
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return (lanes){vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), unit),
                   vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))), unit),
                   vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), unit),
                   vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(high))), unit)};
}
/* The 32 values of a block in the order of the columns: a byte holds two, the low half first.
 */
LANES_INLINE void lanes_fp4(const uint8_t *block, float scale, lanes *a, lanes *b)
{
    static const int8_t values[16] = {LANES_FP4};
    int8x16_t table = vld1q_s8(values);
    uint8x16_t bytes = vld1q_u8(block);
    int8x16_t even = vqtbl1q_s8(table, vandq_u8(bytes, vdupq_n_u8(15)));
    int8x16_t odd = vqtbl1q_s8(table, vshrq_n_u8(bytes, 4));
    float32x4_t unit = vdupq_n_f32(0.5f * scale);

    *a = lanes_fp4_part(vzip1q_s8(even, odd), unit);
    *b = lanes_fp4_part(vzip2q_s8(even, odd), unit);
}
LANES_INLINE float lanes_sum(lanes v)
{
    float32x4_t b = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
    float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}

#else
/* How many sums run side by side; they change no result. */
enum {
    WIDE_ROWS = 1,
    TILE_ROWS = 1,
    TILE_TOKENS = 1,
    FP4_ROWS = 1,
    FP4_TOKENS = 1,
    LOOK_HEADS = 1,
    VALUE_PARTS = 1
};
typedef struct {
    float v[LANES];
} lanes;

LANES_INLINE lanes lanes_zero(void)
{
    return (lanes){{0}};
}
LANES_INLINE lanes lanes_load(const float *p)
{
    lanes out;
    memcpy(out.v, p, sizeof(out.v));
    return out;
}
LANES_INLINE lanes lanes_all(float v)
{
    lanes out;
    for (int i = 0; i < LANES; i++)
        out.v[i] = v;
    return out;
}
LANES_INLINE void lanes_store(float *p, lanes v)
{
    memcpy(p, v.v, sizeof(v.v));
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c)
{
    for (int i = 0; i < LANES; i++)
        c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}
LANES_INLINE lanes lanes_bf16(const uint16_t *p)
{
    lanes out;
    for (int i = 0; i < LANES; i++)
        out.v[i] = lanes_brain(p[i]);
    return out;
}
LANES_INLINE lanes lanes_f16(const uint16_t *p)
{
    lanes out;
    for (int i = 0; i < LANES; i++)
        out.v[i] = lanes_half(p[i]);
    return out;
}
LANES_INLINE void lanes_fp4(const uint8_t *block, float scale, lanes *a, lanes *b)
{
    static const int8_t values[16] = {LANES_FP4};
    for (int i = 0; i < LANES; i++) {
        a->v[i] = (float)values[block[i / 2] >> (i % 2 * 4) & 15] * (0.5f * scale);
        b->v[i] = (float)values[block[8 + i / 2] >> (i % 2 * 4) & 15] * (0.5f * scale);
    }
}
LANES_INLINE float lanes_sum(lanes v)
{
    return lanes_total(v.v);
}
#endif

#endif
