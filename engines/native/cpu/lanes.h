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

/* E4M3 as the bits of a float32 2^-120 times as large: sign, exponent and mantissa in place.
 * Exact for all but the code of NaN, which becomes a number: whoever converts codes looks for
 * it (unpack_has_nan). */
#define LANES_E4M3      0x87F00000u
#define LANES_E4M3_UNIT 0x1p120f

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

#if !defined(NATIVE_LANES_AVX512)
typedef int lanes_how;
LANES_INLINE lanes_how lanes_prepare(void)
{
    return 0;
}
#endif

#if defined(NATIVE_LANES_AVX512)
#include <immintrin.h>
/* How many sums run side by side; they change no result. */
enum { WIDE_ROWS = 8, TILE_ROWS = 4, TILE_TOKENS = 6, LOOK_HEADS = 4, VALUE_PARTS = 4 };
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
LANES_INLINE lanes lanes_mul(lanes a, lanes b)
{
    return _mm512_mul_ps(a, b);
}
LANES_INLINE lanes lanes_add(lanes a, lanes b)
{
    return _mm512_add_ps(a, b);
}
/* Constants that are to stay in registers: gcc reads them from memory in each step otherwise,
 * and the loops below are bound by their loads. */
typedef struct {
    __m512i half, shift, mask;
} lanes_how;
LANES_INLINE lanes_how lanes_prepare(void)
{
    lanes_how how = {
        _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28),
        _mm512_set1_epi32((int)LANES_E4M3)};
    __asm__("" : "+v"(how.half), "+v"(how.shift), "+v"(how.mask));
    return how;
}
LANES_INLINE lanes lanes_nibbles(const uint8_t *p, lanes table, lanes_how how)
{
    long long codes;

    memcpy(&codes, p, sizeof(codes));
    __m512 both = _mm512_castsi512_ps(_mm512_set1_epi64(codes));
    __m512i word = _mm512_castps_si512(_mm512_permutevar_ps(both, how.half));
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(word, how.shift), table);
}
LANES_INLINE __m128i lanes_sixteen(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
LANES_INLINE lanes lanes_signed(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(lanes_sixteen(p)));
}
LANES_INLINE lanes lanes_unsigned(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(lanes_sixteen(p)));
}
LANES_INLINE lanes lanes_e4m3(const uint8_t *p, lanes_how how)
{
    __m512i v = _mm512_slli_epi32(_mm512_cvtepi8_epi32(lanes_sixteen(p)), 20);
    return _mm512_castsi512_ps(_mm512_and_si512(v, how.mask));
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
enum { WIDE_ROWS = 4, TILE_ROWS = 2, TILE_TOKENS = 3, LOOK_HEADS = 2, VALUE_PARTS = 4 };
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
LANES_INLINE lanes lanes_mul(lanes x, lanes y)
{
    return (lanes){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
LANES_INLINE lanes lanes_add(lanes x, lanes y)
{
    return (lanes){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
/* Tables of sixteen are two of eight: bit 3 of a code, as the sign, chooses. */
LANES_INLINE __m256 lanes_nibbles_half(const uint8_t *p, lanes table)
{
    const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    int word;

    memcpy(&word, p, sizeof(word));
    __m256i v = _mm256_srlv_epi32(_mm256_set1_epi32(word), shifts);
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.a, v),
                            _mm256_permutevar8x32_ps(table.b, v),
                            _mm256_castsi256_ps(_mm256_slli_epi32(v, 28)));
}
LANES_INLINE lanes lanes_nibbles(const uint8_t *p, lanes table, lanes_how how)
{
    (void)how;
    return (lanes){lanes_nibbles_half(p, table), lanes_nibbles_half(p + 4, table)};
}
LANES_INLINE __m128i lanes_eight(const uint8_t *p)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)p);
}
LANES_INLINE lanes lanes_signed(const uint8_t *p)
{
    return (lanes){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(lanes_eight(p))),
                   _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(lanes_eight(p + 8)))};
}
LANES_INLINE lanes lanes_unsigned(const uint8_t *p)
{
    return (lanes){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(lanes_eight(p))),
                   _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(lanes_eight(p + 8)))};
}
LANES_INLINE __m256 lanes_e4m3_half(const uint8_t *p)
{
    __m256i v = _mm256_slli_epi32(_mm256_cvtepi8_epi32(lanes_eight(p)), 20);
    return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32((int)LANES_E4M3)));
}
LANES_INLINE lanes lanes_e4m3(const uint8_t *p, lanes_how how)
{
    (void)how;
    return (lanes){lanes_e4m3_half(p), lanes_e4m3_half(p + 8)};
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
enum { WIDE_ROWS = 4, TILE_ROWS = 2, TILE_TOKENS = 3, LOOK_HEADS = 2, VALUE_PARTS = 4 };
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
LANES_INLINE lanes lanes_mul(lanes x, lanes y)
{
    return (lanes){vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c),
                   vmulq_f32(x.d, y.d)};
}
LANES_INLINE lanes lanes_add(lanes x, lanes y)
{
    return (lanes){vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c),
                   vaddq_f32(x.d, y.d)};
}
/* Four codes to the four bytes of each one's value in the table. */
LANES_INLINE float32x4_t lanes_nibbles_quarter(uint16x4_t codes, uint8x16x4_t table)
{
    uint32x4_t at = vmlaq_n_u32(vdupq_n_u32(0x03020100u), vmovl_u16(codes), 0x04040404u);
    return vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_u32(at)));
}
LANES_INLINE lanes lanes_nibbles(const uint8_t *p, lanes table, lanes_how how)
{
    (void)how;
    uint8x8_t bytes = vld1_u8(p), even = vand_u8(bytes, vdup_n_u8(15)),
              odd = vshr_n_u8(bytes, 4);
    uint16x8_t low = vmovl_u8(vzip1_u8(even, odd)), high = vmovl_u8(vzip2_u8(even, odd));
    uint8x16x4_t all = {{vreinterpretq_u8_f32(table.a), vreinterpretq_u8_f32(table.b),
                         vreinterpretq_u8_f32(table.c), vreinterpretq_u8_f32(table.d)}};
    return (lanes){lanes_nibbles_quarter(vget_low_u16(low), all),
                   lanes_nibbles_quarter(vget_high_u16(low), all),
                   lanes_nibbles_quarter(vget_low_u16(high), all),
                   lanes_nibbles_quarter(vget_high_u16(high), all)};
}
typedef struct {
    int32x4_t a, b, c, d;
} lanes_words;
LANES_INLINE lanes_words lanes_wide(const uint8_t *p)
{
    int8x16_t v = vreinterpretq_s8_u8(vld1q_u8(p));
    int16x8_t low = vmovl_s8(vget_low_s8(v)), high = vmovl_s8(vget_high_s8(v));
    return (lanes_words){vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
                         vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))};
}
LANES_INLINE lanes lanes_signed(const uint8_t *p)
{
    lanes_words v = lanes_wide(p);
    return (lanes){vcvtq_f32_s32(v.a), vcvtq_f32_s32(v.b), vcvtq_f32_s32(v.c),
                   vcvtq_f32_s32(v.d)};
}
LANES_INLINE lanes lanes_unsigned(const uint8_t *p)
{
    lanes_words v = lanes_wide(p);
    const int32x4_t byte = vdupq_n_s32(255);
    return (lanes){vcvtq_f32_s32(vandq_s32(v.a, byte)), vcvtq_f32_s32(vandq_s32(v.b, byte)),
                   vcvtq_f32_s32(vandq_s32(v.c, byte)), vcvtq_f32_s32(vandq_s32(v.d, byte))};
}
LANES_INLINE float32x4_t lanes_e4m3_quarter(int32x4_t v)
{
    uint32x4_t bits = vshlq_n_u32(vreinterpretq_u32_s32(v), 20);
    return vreinterpretq_f32_u32(vandq_u32(bits, vdupq_n_u32(LANES_E4M3)));
}
LANES_INLINE lanes lanes_e4m3(const uint8_t *p, lanes_how how)
{
    (void)how;
    lanes_words v = lanes_wide(p);
    return (lanes){lanes_e4m3_quarter(v.a), lanes_e4m3_quarter(v.b), lanes_e4m3_quarter(v.c),
                   lanes_e4m3_quarter(v.d)};
}
LANES_INLINE float lanes_sum(lanes v)
{
    float32x4_t b = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
    float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}

#else
/* How many sums run side by side; they change no result. */
enum { WIDE_ROWS = 1, TILE_ROWS = 1, TILE_TOKENS = 1, LOOK_HEADS = 1, VALUE_PARTS = 1 };
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
LANES_INLINE lanes lanes_mul(lanes a, lanes b)
{
    for (int i = 0; i < LANES; i++)
        a.v[i] *= b.v[i];
    return a;
}
LANES_INLINE lanes lanes_add(lanes a, lanes b)
{
    for (int i = 0; i < LANES; i++)
        a.v[i] += b.v[i];
    return a;
}
LANES_INLINE lanes lanes_nibbles(const uint8_t *p, lanes table, lanes_how how)
{
    (void)how;
    lanes out;
    for (int i = 0; i < LANES; i++)
        out.v[i] = table.v[p[i / 2] >> (i % 2 * 4) & 15];
    return out;
}
LANES_INLINE lanes lanes_signed(const uint8_t *p)
{
    lanes out;
    for (int i = 0; i < LANES; i++)
        out.v[i] = (float)(int8_t)p[i];
    return out;
}
LANES_INLINE lanes lanes_unsigned(const uint8_t *p)
{
    lanes out;
    for (int i = 0; i < LANES; i++)
        out.v[i] = (float)p[i];
    return out;
}
LANES_INLINE lanes lanes_e4m3(const uint8_t *p, lanes_how how)
{
    (void)how;
    lanes out;
    for (int i = 0; i < LANES; i++) {
        uint32_t bits = (uint32_t)(p[i] & 128) << 24 | (uint32_t)(p[i] & 127) << 20;
        memcpy(&out.v[i], &bits, sizeof(bits));
    }
    return out;
}
LANES_INLINE float lanes_sum(lanes v)
{
    return lanes_total(v.v);
}
#endif

#endif
