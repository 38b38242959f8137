/* native/formats/unpack.h - values of a packed matrix, for kernels and tests.
 *
 * One value at a time, for every layout.  Each product rounds once, in the order of packed.h.
 * The kernels (cpu/dense.h) have vectors for the usual layouts, with the same bits.
 */
#ifndef NATIVE_FORMATS_UNPACK_H
#define NATIVE_FORMATS_UNPACK_H

#include <stddef.h>
#include <string.h>

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

/* A NaN is among n codes of E4M3. */
UNPACK_INLINE bool unpack_has_nan(const uint8_t *codes, uint32_t n)
{
    uint8_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint8_t code = codes[i] & 127;
        most = code > most ? code : most;
    }
    return most == 127;
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
    case NATIVE_BYTES:
        return p->zeros[row * p->zero_stride + group] + p->zero;
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

/* Columns from .. from + n - 1 of a row. */
UNPACK_INLINE void unpack_row(const struct native_packed *p, size_t row, uint32_t from,
                              uint32_t n, float *out)
{
    while (n > 0) {
        struct unpack_run run = unpack_find_run(p, row, from);
        uint32_t count = run.columns < n ? run.columns : n;
        for (uint32_t i = 0; i < count; i++)
            out[i] = unpack_value(p, &run, unpack_code(p, row, from + i));
        out += count;
        from += count;
        n -= count;
    }
}

#endif
