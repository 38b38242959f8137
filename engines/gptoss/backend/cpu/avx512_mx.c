/* gptoss/backend/cpu/avx512_mx.c - MXFP4 matrices times vectors with byte dot products (VNNI).
 *
 * The numbers, the packed activations and the order of every sum are those of avx2_mx.c.  A
 * register holds two rows, one in each half. vpdpbusd adds four products of bytes to a 32-bit
 * lane, which maddubs and madd do in two steps.  All of that is exact, so every lane gets the
 * same integer:
 *
 *   two vpdpbusd for each of three digits, the sum shifted left by 8 between digits
 *   minus 12 * sum(q), to float32, times 2^(scale), into an accumulator of eight lanes a row
 *
 * These are 12 instructions for 128 weights.  Up to eight tokens share the decoded weights, and
 * their accumulators and factors stay in registers.
 */
#if defined(__x86_64__)
#include <stdbool.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx512.h"
#include "engines/gptoss/backend/cpu/avx512_math.h"

enum {
    PAIR_BYTES = CPU_MX_PAIR_BYTES,
    TILE_TOKENS = 8,
    TILE_ROWS = 64, /* even */
    STRETCH = 16,   /* blocks: two octets of eight tokens are 16 KB */
};

AVX512_INLINE __m512i twice(const uint8_t *p)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* Two adjacent rows. */
struct row_pair {
    const uint8_t *blocks;
    const uint8_t *scales;
    size_t groups;
    __m128i excess;
};

struct pair_weights {
    __m512i even, odd;
};

AVX512_INLINE __m256i load_pair(const uint8_t *p, bool whole)
{
    return whole ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                 : _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Decodes 32 bytes of each row (16 where a row ends with half a pair). */
AVX512_INLINE struct pair_weights decode(const struct row_pair *w, size_t g, bool whole)
{
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i nibble = _mm512_set1_epi8(15);
    const uint8_t *p = w->blocks + g * 16;
    __m512i bytes = _mm512_inserti64x4(_mm512_castsi256_si512(load_pair(p, whole)),
                                       load_pair(p + w->groups * 16, whole), 1);

    return (struct pair_weights){
        .even = _mm512_shuffle_epi8(table, _mm512_and_si512(bytes, nibble)),
        .odd =
            _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble)),
    };
}

/* The exact dot products of a pair with both rows, eight lanes each, times their factors. */
AVX512_INLINE __m512 pair_into(struct pair_weights w, const uint8_t *x, __m512 factor,
                               __m512 acc)
{
    __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w.even, twice(x));

    sum = _mm512_slli_epi32(_mm512_dpbusd_epi32(sum, w.odd, twice(x + 32)), 8);
    sum = _mm512_dpbusd_epi32(sum, w.even, twice(x + 64));
    sum = _mm512_slli_epi32(_mm512_dpbusd_epi32(sum, w.odd, twice(x + 96)), 8);
    sum = _mm512_dpbusd_epi32(sum, w.even, twice(x + 128));
    sum = _mm512_dpbusd_epi32(sum, w.odd, twice(x + 160));
    sum = _mm512_sub_epi32(sum, twice(x + CPU_MX_OFFSET_AT));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), factor, acc);
}

static uint64_t scale_bytes(const uint8_t *from, size_t blocks)
{
    uint64_t bytes = 0;

    if (blocks >= 8)
        memcpy(&bytes, from, sizeof(bytes));
    else
        for (size_t i = 0; i < blocks; i++) /* the end of a row, without reading past it */
            bytes |= (uint64_t)from[i] << (8 * i);
    return bytes;
}

/* 2^(weight scale) of the octet at block g: blocks 0 2 4 6 | 1 3 5 7 of one row, then of the
 * other. */
AVX512_INLINE __m512 weight_scales(const struct row_pair *w, size_t g, size_t blocks)
{
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    uint64_t low = scale_bytes(w->scales + g, blocks);
    uint64_t high = scale_bytes(w->scales + w->groups + g, blocks);
    __m128i s = _mm_shuffle_epi8(_mm_set_epi64x((long long)high, (long long)low), order);

    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_subs_epu8(s, w->excess)), 23));
}

/* Prefetches the same blocks of the next rows, where this tile continues.  The hardware
 * prefetcher follows one stream of a long row, not two streams of short rows.  Past the matrix
 * a prefetch does nothing. */
AVX512_INLINE void fetch_ahead(const struct row_pair *w, size_t g)
{
    uintptr_t at = (uintptr_t)w->blocks + (2 * w->groups + g) * 16;

    for (int r = 0; r < 2; r++, at += w->groups * 16) {
        _mm_prefetch((const char *)at, _MM_HINT_T0);
        _mm_prefetch((const char *)(at + 64), _MM_HINT_T0);
    }
}

/* Up to eight blocks from block g on. */
AVX512_INLINE void octet(const struct row_pair *w, size_t g, size_t blocks,
                         const uint8_t *const *x, __m512 *acc, const int tokens)
{
    __m512 scales = weight_scales(w, g, blocks), factors[TILE_TOKENS];
    size_t at = g / 8 * CPU_MX_OCTET_BYTES;

    for (int t = 0; t < tokens; t++)
        factors[t] = _mm512_mul_ps(
            scales,
            avx512_twice_ps((const float *)(const void *)(x[t] + at + CPU_MX_SCALE_AT)));
#define PAIR(n)                                                                                \
    do {                                                                                       \
        struct pair_weights pair = decode(w, g + 2 * (n), 2 * (n) + 1 < blocks);               \
        for (int t = 0; t < tokens; t++)                                                       \
            acc[t] = pair_into(pair, x[t] + at + (n)*PAIR_BYTES,                               \
                               _mm512_permute_ps(factors[t], (n)*0x55), acc[t]);               \
    } while (0)
    PAIR(0);
    if (blocks > 2)
        PAIR(1);
    if (blocks > 4)
        PAIR(2);
    if (blocks > 6)
        PAIR(3);
#undef PAIR
}

/* Stores both rows of every token.  Even registers hold the first tokens, so that a token's
 * two results are neighbours after one permutation. */
AVX512_INLINE void store(const struct cpu_mx *job, uint32_t row, uint32_t token,
                         const __m512 *acc, const int tokens)
{
    const __m512i neighbours =
        _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    float *y = job->y + token * job->y_stride + row, sums[16];
    __m512 v[8];

    for (int i = 0; i < 4; i++) {
        v[2 * i] = acc[i < tokens ? i : 0];
        v[2 * i + 1] = acc[i + 4 < tokens ? i + 4 : 0];
    }
    _mm512_storeu_ps(sums, _mm512_permutexvar_ps(neighbours, avx512_sums(v)));
    for (int t = 0; t < tokens; t++)
        memcpy(y + (size_t)t * job->y_stride, sums + 2 * t, 2 * sizeof(*sums));
}

/* Blocks from..to of two rows; `from` is a multiple of 8. */
AVX512_INLINE void stretch(const struct cpu_mx *job, uint32_t row, uint32_t token, size_t from,
                           size_t to, __m512 *waiting, const int tokens)
{
    size_t groups = job->columns / CPU_MX_BLOCK, g = from;
    const uint8_t *const *x = job->x + token;
    const struct row_pair w = {
        .blocks = job->blocks + row * groups * 16,
        .scales = job->scales + row * groups,
        .groups = groups,
        .excess = _mm_set1_epi8((char)job->scale_excess),
    };
    __m512 acc[TILE_TOKENS];

    for (int t = 0; t < tokens; t++)
        acc[t] = from == 0 ? _mm512_setzero_ps() : waiting[t];
    for (; g + 8 <= to; g += 8) {
        fetch_ahead(&w, g);
        octet(&w, g, 8, x, acc, tokens);
    }
    if (g < to)
        octet(&w, g, to - g, x, acc, tokens);
    if (to < groups)
        for (int t = 0; t < tokens; t++)
            waiting[t] = acc[t];
    else
        store(job, row, token, acc, tokens);
}

AVX512_INLINE void tile(const struct cpu_mx *job, uint32_t row, uint32_t rows, uint32_t token,
                        const int tokens)
{
    size_t groups = job->columns / CPU_MX_BLOCK;
    size_t step = tokens <= 2 ? groups : STRETCH;
    __m512 waiting[TILE_ROWS / 2][TILE_TOKENS];

    for (size_t from = 0; from < groups; from += step) {
        size_t to = groups - from < step ? groups : from + step;
        for (uint32_t r = 0; r < rows; r += 2)
            stretch(job, row + r, token, from, to, waiting[r / 2], tokens);
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

static void tile4(const struct cpu_mx *job, uint32_t row, uint32_t rows, uint32_t token)
{
    tile(job, row, rows, token, 4);
}

static void tile8(const struct cpu_mx *job, uint32_t row, uint32_t rows, uint32_t token)
{
    tile(job, row, rows, token, 8);
}

void cpu_avx512_mx(const struct cpu_mx *job)
{
    size_t groups = job->columns / CPU_MX_BLOCK;
    uint32_t even_rows = job->rows & ~1u;

    for (uint32_t r = 0; r < even_rows; r += TILE_ROWS) {
        uint32_t rows = even_rows - r < TILE_ROWS ? even_rows - r : TILE_ROWS, t = 0;
        for (; job->tokens - t >= 8; t += 8)
            tile8(job, r, rows, t);
        for (; job->tokens - t >= 4; t += 4)
            tile4(job, r, rows, t);
        for (; job->tokens - t >= 2; t += 2)
            tile2(job, r, rows, t);
        if (t < job->tokens)
            tile1(job, r, rows, t);
    }
    if (even_rows < job->rows) {
        struct cpu_mx rest = *job;
        rest.blocks += even_rows * groups * 16;
        rest.scales += even_rows * groups;
        rest.rows = 1;
        rest.y += even_rows;
        cpu_avx2_mx(&rest);
    }
}
#endif
