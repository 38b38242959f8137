/* native/formats/unpack.h - values of a packed matrix, for kernels and tests.
 *
 * Inline functions, so that each file of kernels has them for its own processor.  Every product
 * rounds once, in the order of packed.h, so all of them give the same bits.
 */
#ifndef NATIVE_FORMATS_UNPACK_H
#define NATIVE_FORMATS_UNPACK_H

#include <stddef.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "engines/native/formats/packed.h"

#define UNPACK_INLINE static inline __attribute__((always_inline))

static const float unpack_e2m1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

UNPACK_INLINE float unpack_bits(uint32_t bits)
{
    float v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

UNPACK_INLINE float unpack_e4m3(uint8_t x)
{
    uint32_t rest = x & 127u, sign = (uint32_t)(x & 128u) << 24, bits;
    float v = (float)rest * 0.001953125f; /* below 8: subnormal, 2^-9 each */

    if (rest >= 8)
        v = unpack_bits(rest == 127 ? 0x7FC00000u : (rest << 20) + (120u << 23));
    memcpy(&bits, &v, sizeof(bits));
    return unpack_bits(bits | sign);
}

UNPACK_INLINE float unpack_e8m0(uint8_t x)
{
    return unpack_bits(x == 0 ? 1u << 22 : x == 255 ? 0x7FC00000u : (uint32_t)x << 23);
}

UNPACK_INLINE float unpack_half(uint16_t h)
{
    uint32_t rest = h & 0x7FFFu, sign = (uint32_t)(h & 0x8000u) << 16, bits;
    float v = (float)rest * 5.9604644775390625e-8f; /* below 0x400: subnormal, 2^-24 each */

    if (rest >= 0x400)
        v = unpack_bits(rest >= 0x7C00 ? 0x7F800000u | (rest & 0x3FFu) << 13
                                       : (rest << 13) + 0x38000000u);
    memcpy(&bits, &v, sizeof(bits));
    return unpack_bits(bits | sign);
}

UNPACK_INLINE uint32_t unpack_word(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof(v));
    return v;
}

/* Element i of a stream of bits; reads no byte behind its last bit. */
UNPACK_INLINE uint32_t unpack_stream(const uint8_t *stream, size_t i, uint32_t bits)
{
    size_t bit = i * bits;
    uint32_t shift = bit & 7, v = stream[bit / 8];

    if (shift + bits > 8)
        v |= (uint32_t)stream[bit / 8 + 1] << 8;
    return v >> shift & ((1u << bits) - 1);
}

/* Element i of the stream in one column of 32-bit words. */
UNPACK_INLINE uint32_t unpack_down(const uint8_t *column, uint64_t stride, size_t i,
                                   uint32_t bits)
{
    size_t bit = i * bits;
    uint32_t shift = bit & 31, v = unpack_word(column + bit / 32 * stride) >> shift;

    if (shift + bits > 32)
        v |= unpack_word(column + (bit / 32 + 1) * stride) << (32 - shift);
    return v & ((1u << bits) - 1);
}

/* Eight rows a word: AWQ keeps row k of them in this half byte. */
UNPACK_INLINE uint32_t unpack_awq(const uint8_t *stored, size_t row)
{
    static const uint8_t place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

    return unpack_word(stored + row / 8 * 4) >> (4 * place[row % 8]) & 15;
}

UNPACK_INLINE uint32_t unpack_code(const struct native_packed *p, size_t row, size_t column)
{
    size_t flat = row * p->columns + column;

    switch (p->order) {
    case NATIVE_ALONG_ROWS:
        return unpack_stream(p->codes + row * p->code_stride, column, p->bits);
    case NATIVE_ALONG_COLUMNS:
        return unpack_down(p->codes + row * 4, p->code_stride, column, p->bits);
    case NATIVE_AWQ_WORDS:
        return unpack_awq(p->codes + column * p->code_stride, row);
    default:
        return flat % 2 == 0 ? p->codes[flat / 2] >> 4 : p->codes[flat / 2] & 15;
    }
}

UNPACK_INLINE float unpack_scale_at(const struct native_packed *p, const uint8_t *from,
                                    size_t at)
{
    uint16_t half;
    float v;

    switch (p->scale) {
    case NATIVE_SCALE_BF16:
        memcpy(&half, from + 2 * at, sizeof(half));
        return unpack_bits((uint32_t)half << 16);
    case NATIVE_SCALE_F16:
        memcpy(&half, from + 2 * at, sizeof(half));
        return unpack_half(half);
    case NATIVE_SCALE_F32:
        memcpy(&v, from + 4 * at, sizeof(v));
        return v;
    case NATIVE_SCALE_E4M3:
        v = unpack_e4m3(from[at]);
        return p->divides ? v / p->global : v * p->global;
    case NATIVE_SCALE_E8M0:
        return unpack_e8m0(from[at]);
    default:
        memcpy(&v, p->nested_scales + at / 256 * 4, sizeof(v));
        v = p->nested_table[from[at]] * v;
        return v + p->nested_offset;
    }
}

/* A run: columns of a row with one scale, one zero point and one shift. */
struct unpack_run {
    float scale, shift;
    int32_t zero;
    uint32_t columns; /* that follow, this one included */
};

UNPACK_INLINE int32_t unpack_zero(const struct native_packed *p, size_t row, size_t group)
{
    switch (p->zero_order) {
    case NATIVE_ALONG_ROWS:
        if (p->zeros_signed)
            return (int8_t)p->zeros[row * p->zero_stride + group];
        return (int32_t)unpack_stream(p->zeros + group * p->zero_stride, row, p->bits) +
               p->zero;
    case NATIVE_ALONG_COLUMNS:
        return (int32_t)unpack_down(p->zeros + group * 4, p->zero_stride, row, p->bits) +
               p->zero;
    case NATIVE_AWQ_WORDS:
        return (int32_t)unpack_awq(p->zeros + group * p->zero_stride, row) + p->zero;
    default:
        return p->zero;
    }
}

UNPACK_INLINE struct unpack_run unpack_find_run(const struct native_packed *p, size_t row,
                                                size_t column)
{
    struct unpack_run run = {.columns = p->columns - (uint32_t)column};
    size_t group = column / p->columns_each;
    uint32_t left = p->columns_each - (uint32_t)(column % p->columns_each);

    if (p->order == NATIVE_FLAT) { /* groups go over the ends of rows */
        size_t flat = row * p->columns + column;
        left = p->columns_each - (uint32_t)(flat % p->columns_each);
        run.scale = unpack_scale_at(p, p->scales, flat / p->columns_each);
    } else {
        if (p->groups != NULL) {
            group = unpack_word(p->groups + 4 * column);
            left = 1;
        }
        size_t at = row / p->rows_each * p->row_step + group * p->column_step;
        run.scale = unpack_scale_at(p, p->scales, at);
        run.zero = unpack_zero(p, row, group);
        if (p->shifts != NULL)
            run.shift = unpack_scale_at(p, p->shifts, at);
    }
    run.columns = left < run.columns ? left : run.columns;
    return run;
}

UNPACK_INLINE float unpack_value(const struct native_packed *p, const struct unpack_run *run,
                                 uint32_t code)
{
    float v;

    switch (p->code) {
    case NATIVE_CODE_INT:
        v = (float)((int32_t)code - run->zero) * run->scale;
        return p->shifts != NULL ? v + run->shift : v;
    case NATIVE_CODE_SIGNED:
        return (float)((int8_t)(uint8_t)code - run->zero) * run->scale;
    case NATIVE_CODE_E4M3:
        return unpack_e4m3((uint8_t)code) * run->scale;
    case NATIVE_CODE_E2M1:
        return unpack_e2m1[code] * run->scale;
    default:
        return p->table[code] * run->scale;
    }
}

/* ---- sixteen at a time ---- */

typedef uint8_t unpack_u8 __attribute__((vector_size(16)));
typedef int32_t unpack_i32 __attribute__((vector_size(64)));
typedef uint32_t unpack_u32 __attribute__((vector_size(64)));
typedef float unpack_f32 __attribute__((vector_size(64)));
/* The same at any address: gcc 12 calls a function for a memcpy of this size. */
typedef float unpack_f32_at __attribute__((vector_size(64), aligned(4), may_alias));

enum { UNPACK_AT_ONCE = 16 };

/* Bytes to words of 32 bits.  gcc 12 takes its own conversion of vectors apart, so instructions
 * are named where there are some. */
UNPACK_INLINE void unpack_widen(const unpack_u8 *codes, unpack_u32 *out)
{
#if defined(__AVX512F__)
    *out =
        (unpack_u32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)codes));
#elif defined(__AVX2__)
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)codes);
    __m256i v[2] = {_mm256_cvtepu8_epi32(b), _mm256_cvtepu8_epi32(_mm_srli_si128(b, 8))};
    memcpy(out, v, sizeof(v));
#else
    for (int i = 0; i < UNPACK_AT_ONCE; i++)
        (*out)[i] = (*codes)[i];
#endif
}

/* Eight bytes to sixteen codes: each one's low half, then its high half. */
UNPACK_INLINE void unpack_halve(const uint8_t *bytes, unpack_u8 *codes)
{
#if defined(__AVX2__)
    __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)bytes));
    wide = _mm_and_si128(_mm_or_si128(wide, _mm_slli_epi16(wide, 4)), _mm_set1_epi16(0x0F0F));
    memcpy(codes, &wide, sizeof(*codes));
#else
    for (int i = 0; i < UNPACK_AT_ONCE; i++)
        (*codes)[i] = i % 2 == 0 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4;
#endif
}

/* Floats of four or eight bits: `mantissa` bits behind an exponent, of which 0 is subnormal, in
 * steps of `step`; `first` is that exponent as a float32 has it. */
UNPACK_INLINE void unpack_small_floats(const unpack_u32 *all, const uint32_t sign,
                                       const int mantissa, const uint32_t first,
                                       const float step, unpack_f32 *out)
{
    unpack_u32 rest = *all & (sign - 1);
    unpack_f32 small = __builtin_convertvector((unpack_i32)rest, unpack_f32) * step;
    unpack_u32 is_small = (unpack_u32)(rest < (1u << mantissa));
    unpack_u32 bits = (rest << (23 - mantissa)) + first;

    bits = (bits & ~is_small) | ((unpack_u32)small & is_small);
    if (sign == 128) /* E4M3 has a NaN */
        bits |= (unpack_u32)(rest == 127u) & 0x7FC00000u;
    bits |= (*all & sign) * (0x80000000u / sign);
    *out = (unpack_f32)bits;
}

UNPACK_INLINE void unpack_sixteen(const enum native_code code, const bool shifted,
                                  const struct unpack_run *run, const unpack_u8 *codes,
                                  float *out)
{
    unpack_u32 all;
    unpack_f32 v;

    unpack_widen(codes, &all);
    unpack_i32 whole = (unpack_i32)all;
    if (code == NATIVE_CODE_E4M3)
        unpack_small_floats(&all, 128, 3, 120u << 23, 0.001953125f, &v);
    else if (code == NATIVE_CODE_E2M1)
        unpack_small_floats(&all, 8, 1, 126u << 23, 0.5f, &v);
    else if (code == NATIVE_CODE_SIGNED)
        v = __builtin_convertvector((whole ^ 128) - 128 - run->zero, unpack_f32);
    else
        v = __builtin_convertvector(whole - run->zero, unpack_f32);
    v *= run->scale;
    if (shifted)
        v += run->shift;
    *(unpack_f32_at *)out = v;
}

/* Codes of four or eight bits along a row, a multiple of sixteen of them. */
UNPACK_INLINE void unpack_many(const enum native_code code, const bool shifted,
                               const uint32_t bits, const struct unpack_run *run,
                               const uint8_t *from, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i += UNPACK_AT_ONCE) {
        unpack_u8 codes;
        if (bits == 8) {
            memcpy(&codes, from + i, sizeof(codes));
        } else {
            unpack_halve(from + i / 2, &codes);
        }
        unpack_sixteen(code, shifted, run, &codes, out + i);
    }
}

/* The leading codes of a run; how many. */
UNPACK_INLINE uint32_t unpack_wide(const struct native_packed *p, const struct unpack_run *run,
                                   const uint8_t *stored, uint32_t from, uint32_t count,
                                   float *out)
{
    uint32_t n = count / UNPACK_AT_ONCE * UNPACK_AT_ONCE;
    const uint8_t *at = stored + (size_t)from * p->bits / 8;

    if (p->bits == 4 && from % 2 != 0)
        return 0;
    if (p->bits == 4 && p->code == NATIVE_CODE_INT && p->shifts == NULL)
        unpack_many(NATIVE_CODE_INT, false, 4, run, at, n, out);
    else if (p->bits == 4 && p->code == NATIVE_CODE_INT)
        unpack_many(NATIVE_CODE_INT, true, 4, run, at, n, out);
    else if (p->bits == 4 && p->code == NATIVE_CODE_E2M1)
        unpack_many(NATIVE_CODE_E2M1, false, 4, run, at, n, out);
    else if (p->bits == 8 && p->code == NATIVE_CODE_E4M3)
        unpack_many(NATIVE_CODE_E4M3, false, 8, run, at, n, out);
    else if (p->bits == 8 && p->code == NATIVE_CODE_SIGNED)
        unpack_many(NATIVE_CODE_SIGNED, false, 8, run, at, n, out);
    else if (p->bits == 8 && p->code == NATIVE_CODE_INT)
        unpack_many(NATIVE_CODE_INT, p->shifts != NULL, 8, run, at, n, out);
    else
        return 0;
    return n;
}

/* Columns from .. from + n - 1 of a row. */
UNPACK_INLINE void unpack_row(const struct native_packed *p, size_t row, uint32_t from,
                              uint32_t n, float *out)
{
    while (n > 0) {
        struct unpack_run run = unpack_find_run(p, row, from);
        uint32_t count = run.columns < n ? run.columns : n;
        uint32_t i = 0;
        if (p->order == NATIVE_ALONG_ROWS)
            i = unpack_wide(p, &run, p->codes + row * p->code_stride, from, count, out);
        for (; i < count; i++)
            out[i] = unpack_value(p, &run, unpack_code(p, row, from + i));
        out += count;
        from += count;
        n -= count;
    }
}

#endif
