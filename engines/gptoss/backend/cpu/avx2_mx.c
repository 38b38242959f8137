/* gptoss/backend/cpu/avx2_mx.c - MXFP4 matrices times vectors, directly from the 4-bit codes.
 *
 * Converting each 4-bit weight to float32 takes longer than memory needs to deliver it.
 * Instead the activations are converted to fixed point: within each block of 32, x = q * s with
 * s a power of two and q an integer of 24 bits, split into three signed digits of 8 bits, q =
 * 65536 a + 256 b + c.  Weights become the bytes 12 + 2w in 0..24 by one table lookup for 32
 * nibbles, and a multiply-add of bytes (maddubs) does 32 products:
 *
 *   maddubs of evens + of odds   16-bit lane = 4 products; at most 4 * 24 * 128 = 12,288
 *   madd with 256 and 1          32-bit lane = 8 products
 *   combining the three digits   exact: at most 2 * 12,288 * 65,793 = 1.62e9 < 2^31
 *   minus 12 * sum(q)            exact: removes the 12 that kept weights unsigned
 *   to float32, times 2^(scale), into an accumulator of eight lanes
 *
 * So a block's dot product is exact except for 2^-23 of its largest activation, which is the
 * size of float32's own rounding.  About 26 instructions process 64 weights.
 *
 * Two blocks (32 bytes) form a pair, one in each 128-bit half; four pairs form an octet, whose
 * eight scale bytes are read at once.  Packed activations of an octet have 1024 bytes: four
 * times 224 bytes (three digits of [32 even-numbered | 32 odd-numbered elements], then 12 *
 * sum(q) for the eight lanes), then the scales s / 2 of blocks 0 2 4 6 | 1 3 5 7, so that one
 * permutation within the halves gives a pair its factors.  An odd last block is a pair whose
 * second half is zero.
 *
 * One output element is one accumulator over its row's pairs from front to end, then avx2_sum.
 * Two rows and up to three tokens form a tile: activations are loaded once for both rows, and
 * weights are decoded once for all tokens.  With three tokens a tile processes the columns in
 * stretches so short that its activations stay in the L1 cache; the accumulators are kept in
 * memory between stretches.
 */
#if defined(__x86_64__)
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx2_math.h"

enum {
    PAIR_BYTES = CPU_MX_PAIR_BYTES,
    DIGIT_BYTES = 64, /* evens and odds of a pair */
    OFFSET_AT = CPU_MX_OFFSET_AT,
    SCALE_AT = CPU_MX_SCALE_AT,
    TILE_TOKENS = 3,
    TILE_ROWS = 64,
    STRETCH = 32, /* blocks: four octets of three tokens are 12 KB */
};

/* ---- activations ---- */

/* The exponent e for which |x| * 2^e, rounded, stays below 127.5 * 65536 for all |x| up to
 * `top`, so that the first digit fits 8 bits.  0 for a block of zeros, or of numbers so small
 * that they count as zero. */
static int digit_exponent(float top)
{
    int e;

    if (!(top > 1e-30f))
        return 0;
    if (!(top < 1e30f))
        return -126;                  /* infinities saturate; such a model is broken anyway */
    float mantissa = frexpf(top, &e); /* top = mantissa * 2^e, 0.5 <= mantissa < 1 */
    return (mantissa < 0.99f ? 23 : 22) - e;
}

AVX2_INLINE float power_of_two(int e)
{
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((e + 127) << 23)));
}

AVX2_INLINE __m256i low_digit(__m256i q)
{
    return _mm256_srai_epi32(_mm256_slli_epi32(q, 24), 24);
}

/* 32 digits in four vectors become bytes, evens in the low half, odds in the high. */
AVX2_INLINE __m256i digit_bytes(const __m256i d[4])
{
    const __m256i natural = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i split = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(d[0], d[1]), _mm256_packs_epi32(d[2], d[3]));

    bytes = _mm256_permutevar8x32_epi32(bytes, natural);
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(bytes, split), 0xD8);
}

AVX2_INLINE void store16(uint8_t *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

AVX2_INLINE void store_digit(uint8_t *pair, __m256i bytes)
{
    store16(pair, _mm256_castsi256_si128(bytes));
    store16(pair + 32, _mm256_extracti128_si256(bytes, 1));
}

/* 12 times the sums of the four vectors. */
AVX2_INLINE __m128i offsets_of(const __m256i q[4])
{
    __m256i sums =
        _mm256_hadd_epi32(_mm256_hadd_epi32(q[0], q[1]), _mm256_hadd_epi32(q[2], q[3]));
    __m128i all =
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));

    return _mm_mullo_epi32(all, _mm_set1_epi32(12));
}

/* Block g of a packed vector. */
static void pack_block(const float *x, size_t g, uint8_t *vector)
{
    uint8_t *octet = vector + g / 8 * CPU_MX_OCTET_BYTES;
    uint8_t *pair = octet + g % 8 / 2 * PAIR_BYTES + (g & 1) * 16;
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    const __m256 most = _mm256_set1_ps(8.31e6f);
    __m256 v[4], top = _mm256_setzero_ps();
    __m256i q[4], b[4], c[4];

    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + i * 8);
        top = _mm256_max_ps(top, _mm256_and_ps(v[i], no_sign));
    }
    int exponent = digit_exponent(avx2_max(top));
    __m256 up = _mm256_set1_ps(power_of_two(exponent));
    for (int i = 0; i < 4; i++) {
        __m256 scaled = _mm256_mul_ps(v[i], up);
        scaled = _mm256_max_ps(scaled, _mm256_sub_ps(_mm256_setzero_ps(), most));
        q[i] = _mm256_cvtps_epi32(_mm256_min_ps(scaled, most));
    }
    store16(pair + OFFSET_AT, offsets_of(q));
    for (int i = 0; i < 4; i++) {
        c[i] = low_digit(q[i]);
        q[i] = _mm256_srai_epi32(_mm256_sub_epi32(q[i], c[i]), 8);
        b[i] = low_digit(q[i]);
        q[i] = _mm256_srai_epi32(_mm256_sub_epi32(q[i], b[i]), 8);
    }
    store_digit(pair, digit_bytes(q));
    store_digit(pair + DIGIT_BYTES, digit_bytes(b));
    store_digit(pair + 2 * DIGIT_BYTES, digit_bytes(c));
    float scale = power_of_two(-exponent - 1);
    memcpy(octet + SCALE_AT + ((g & 1) * 4 + g % 8 / 2) * sizeof(scale), &scale, sizeof(scale));
}

void cpu_avx2_pack_mx(const float *x, size_t first, size_t count, uint8_t *vector)
{
    static const float zero[CPU_MX_BLOCK];

    for (size_t i = 0; i < count; i++)
        pack_block(x + i * CPU_MX_BLOCK, first + i, vector);
    if (((first + count) & 1) != 0)
        pack_block(zero, first + count, vector);
}

/* ---- products ---- */

AVX2_INLINE __m256i load32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

AVX2_INLINE __m256i add_products(__m256i even, __m256i odd, __m256i x_even, __m256i x_odd)
{
    return _mm256_add_epi16(_mm256_maddubs_epi16(even, x_even),
                            _mm256_maddubs_epi16(odd, x_odd));
}

struct pair_weights {
    __m256i even[2], odd[2]; /* by row */
};

/* The exact dot products of a pair with both rows, eight lanes each, into acc[0] and
 * acc[1].  factors: by row, this token's of the whole octet; n picks the pair's. */
AVX2_INLINE void pair_into(const struct pair_weights *w, const uint8_t *x, const float *factors,
                           __m256i n, __m256 *acc, const int rows)
{
    const __m256i ones = _mm256_set1_epi16(1), shift8 = _mm256_set1_epi16(256);
    __m256i sum[2], x_even = load32(x), x_odd = load32(x + 32);

    for (int r = 0; r < rows; r++)
        sum[r] = _mm256_madd_epi16(add_products(w->even[r], w->odd[r], x_even, x_odd), shift8);
    x_even = load32(x + 64);
    x_odd = load32(x + 96);
    for (int r = 0; r < rows; r++)
        sum[r] = _mm256_add_epi32(
            sum[r],
            _mm256_madd_epi16(add_products(w->even[r], w->odd[r], x_even, x_odd), ones));
    x_even = load32(x + 128);
    x_odd = load32(x + 160);
    for (int r = 0; r < rows; r++)
        sum[r] = _mm256_add_epi32(
            _mm256_slli_epi32(sum[r], 8),
            _mm256_madd_epi16(add_products(w->even[r], w->odd[r], x_even, x_odd), ones));
    __m256i offset = load32(x + OFFSET_AT);
    for (int r = 0; r < rows; r++) {
        __m256 dot = _mm256_cvtepi32_ps(_mm256_sub_epi32(sum[r], offset));
        __m256 factor = _mm256_permutevar_ps(_mm256_loadu_ps(factors + r * 8), n);
        acc[r] = _mm256_fmadd_ps(dot, factor, acc[r]);
    }
}

/* One or two rows that lie one after the other. */
struct row_pair {
    const uint8_t *blocks;
    const uint8_t *scales;
    size_t groups;
    __m128i excess;
};

/* Decodes 32 bytes (16 where a row ends with half a pair) of each row. */
AVX2_INLINE struct pair_weights decode(const struct row_pair *w, size_t g, bool whole,
                                       const int rows)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i nibble = _mm256_set1_epi8(15);
    struct pair_weights out;

    for (int r = 0; r < rows; r++) {
        const uint8_t *p = w->blocks + ((size_t)r * w->groups + g) * 16;
        __m256i bytes =
            whole ? load32(p)
                  : _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
        out.even[r] = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble));
        out.odd[r] =
            _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble));
    }
    return out;
}

/* factors[token][row][8] of the octet at block g: 2^(weight scale) times the token's. */
AVX2_INLINE void octet_factors(const struct row_pair *w, size_t g, size_t blocks,
                               const uint8_t *const *x, float *factors, const int rows,
                               const int tokens)
{
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1);

    for (int r = 0; r < rows; r++) {
        const uint8_t *from = w->scales + (size_t)r * w->groups + g;
        uint64_t bytes = 0;
        if (blocks >= 8)
            memcpy(&bytes, from, sizeof(bytes));
        else
            for (size_t i = 0; i < blocks; i++) /* the end of a row, read to the byte */
                bytes |= (uint64_t)from[i] << (8 * i);
        __m128i s = _mm_shuffle_epi8(_mm_cvtsi64_si128((long long)bytes), order);
        __m256 weight = _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_subs_epu8(s, w->excess)), 23));
        for (int t = 0; t < tokens; t++)
            _mm256_storeu_ps(
                factors + (t * 2 + r) * 8,
                _mm256_mul_ps(
                    weight, _mm256_loadu_ps((
                                const float *)(const void *)(x[t] + g / 8 * CPU_MX_OCTET_BYTES +
                                                             SCALE_AT))));
    }
}

/* The same blocks of the next rows, which is where this tile goes on.  Hardware follows
 * one stream of a row, not two of short rows; past the matrix a prefetch does nothing. */
AVX2_INLINE void fetch_ahead(const struct row_pair *w, size_t g, const int rows)
{
    uintptr_t at = (uintptr_t)w->blocks + ((size_t)rows * w->groups + g) * 16;

    for (int r = 0; r < rows; r++, at += w->groups * 16) {
        _mm_prefetch((const char *)at, _MM_HINT_T0);
        _mm_prefetch((const char *)(at + 64), _MM_HINT_T0);
    }
}

/* Blocks from..to of the rows; `from` is a multiple of 8.  acc[token][row]. */
AVX2_INLINE void stretch(const struct row_pair *w, size_t from, size_t to,
                         const uint8_t *const *x, __m256 *acc, const int rows, const int tokens)
{
    float factors[TILE_TOKENS * 2 * 8];
    size_t g = from;

    for (; g + 8 <= to; g += 8) {
        octet_factors(w, g, 8, x, factors, rows, tokens);
        fetch_ahead(w, g, rows);
        for (int n = 0; n < 4; n++) {
            struct pair_weights pair = decode(w, g + 2 * (size_t)n, true, rows);
            for (int t = 0; t < tokens; t++)
                pair_into(&pair, x[t] + g / 8 * CPU_MX_OCTET_BYTES + (size_t)n * PAIR_BYTES,
                          factors + t * 16, _mm256_set1_epi32(n), acc + t * 2, rows);
        }
    }
    if (g == to)
        return;
    octet_factors(w, g, to - g, x, factors, rows, tokens);
    for (size_t n = 0; g + 2 * n < to; n++) {
        struct pair_weights pair = decode(w, g + 2 * n, g + 2 * n + 1 < to, rows);
        for (int t = 0; t < tokens; t++)
            pair_into(&pair, x[t] + g / 8 * CPU_MX_OCTET_BYTES + n * PAIR_BYTES,
                      factors + t * 16, _mm256_set1_epi32((int)n), acc + t * 2, rows);
    }
}

AVX2_INLINE void rows_of(const struct cpu_mx *job, uint32_t row, uint32_t token, size_t from,
                         size_t to, __m256 *waiting, const int rows, const int tokens)
{
    size_t groups = job->columns / CPU_MX_BLOCK;
    const struct row_pair w = {
        .blocks = job->blocks + row * groups * 16,
        .scales = job->scales + row * groups,
        .groups = groups,
        .excess = _mm_set1_epi8((char)job->scale_excess),
    };
    __m256 acc[TILE_TOKENS * 2];

    for (int i = 0; i < tokens; i++)
        for (int r = 0; r < rows; r++)
            acc[i * 2 + r] = from == 0 ? _mm256_setzero_ps() : waiting[i * 2 + r];
    stretch(&w, from, to, job->x + token, acc, rows, tokens);
    for (int i = 0; i < tokens; i++)
        for (int r = 0; r < rows; r++) {
            if (to < groups)
                waiting[i * 2 + r] = acc[i * 2 + r];
            else
                job->y[(token + (size_t)i) * job->y_stride + row + (size_t)r] =
                    avx2_sum(acc[i * 2 + r]);
        }
}

AVX2_INLINE void tile(const struct cpu_mx *job, uint32_t row, uint32_t rows, uint32_t token,
                      const int tokens)
{
    size_t groups = job->columns / CPU_MX_BLOCK;
    size_t step = tokens < TILE_TOKENS ? groups : STRETCH;
    __m256 waiting[TILE_ROWS / 2][TILE_TOKENS * 2];

    for (size_t from = 0; from < groups; from += step) {
        size_t to = groups - from < step ? groups : from + step;
        uint32_t r = 0;
        for (; r + 2 <= rows; r += 2)
            rows_of(job, row + r, token, from, to, waiting[r / 2], 2, tokens);
        if (r < rows)
            rows_of(job, row + r, token, from, to, waiting[r / 2], 1, tokens);
    }
}

static void tile1(const struct cpu_mx *job, uint32_t row, uint32_t rows, uint32_t token)
{
    tile(job, row, rows, token, 1);
}

static void tile2(const struct cpu_mx *job, uint32_t row, uint32_t rows, uint32_t token)
{
    tile(job, row, rows, token, 2);
}

static void tile3(const struct cpu_mx *job, uint32_t row, uint32_t rows, uint32_t token)
{
    tile(job, row, rows, token, 3);
}

void cpu_avx2_mx(const struct cpu_mx *job)
{
    for (uint32_t r = 0; r < job->rows; r += TILE_ROWS) {
        uint32_t rows = job->rows - r < TILE_ROWS ? job->rows - r : TILE_ROWS, t = 0;
        /* Four tokens are processed as two and two, not as three and one. */
        for (; job->tokens - t >= TILE_TOKENS && job->tokens - t != 4; t += TILE_TOKENS)
            tile3(job, r, rows, t);
        for (; job->tokens - t >= 2; t += 2)
            tile2(job, r, rows, t);
        if (t < job->tokens)
            tile1(job, r, rows, t);
    }
}
#endif
