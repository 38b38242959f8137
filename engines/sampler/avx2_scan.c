/* sampler/avx2_scan.c - the loops of scan.h, eight values at a time.
 *
 * Compiled with -mavx2 and without FMA, because the sums must have the same bits as in
 * scan_plain.c.  Only scan_kernels_avx2() in scan_dispatch.c returns these functions.
 */
#include "engines/sampler/avx2_scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>

#define AVX2_INLINE static inline __attribute__((always_inline))

/* A division by 1 has no effect but takes time.  So each loop is compiled twice, with `divide`
 * known at compile time. */
AVX2_INLINE __m256 x_of(const struct scan_row *row, const float *values, const bool divide)
{
    __m256 x = _mm256_sub_ps(_mm256_loadu_ps(values), _mm256_set1_ps(row->top));

    return divide ? _mm256_div_ps(x, _mm256_set1_ps(row->temperature)) : x;
}

AVX2_INLINE bool below(const struct scan_row *row, uint32_t block, float low)
{
    return row->peaks != NULL && !(scan_x(row, row->peaks[block]) >= low);
}

/* ---- mask ---- */

float scan_avx2_mask(const float *in, uint64_t legal, float *out, bool *odd)
{
    const __m256 none = _mm256_set1_ps(-INFINITY);
    const __m256i one_bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256 peak = none, unordered = _mm256_setzero_ps();

    if (legal == 0) {
        for (uint32_t i = 0; i < SCAN_BLOCK; i += 8)
            _mm256_storeu_ps(out + i, none);
        return -INFINITY;
    }
    for (uint32_t i = 0; i < SCAN_BLOCK; i += 8) {
        __m256 v = _mm256_loadu_ps(in + i);
        if (legal != UINT64_MAX) {
            __m256i byte = _mm256_set1_epi32((int)(legal >> i & 0xFF));
            __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(byte, one_bit), one_bit);
            v = _mm256_blendv_ps(none, v, _mm256_castsi256_ps(set));
        }
        _mm256_storeu_ps(out + i, v);
        unordered = _mm256_or_ps(unordered, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        peak = _mm256_max_ps(v, peak); /* gives the second operand if the first is NaN */
    }
    *odd = *odd || _mm256_movemask_ps(unordered) != 0;
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(peak), _mm256_extractf128_ps(peak, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_movehdup_ps(m));
    return _mm_cvtss_f32(m);
}

/* ---- tally ---- */

enum { AT_ONCE = 4 }; /* vectors in parallel, so that no step waits for the one before */

AVX2_INLINE __m256d line(double a, double b, __m256d x)
{
    return _mm256_add_pd(_mm256_set1_pd(a), _mm256_mul_pd(_mm256_set1_pd(b), x));
}

AVX2_INLINE __m256d cubic(const double c[4], __m256d x, __m256d x2)
{
    return _mm256_add_pd(line(c[0], c[1], x), _mm256_mul_pd(line(c[2], c[3], x), x2));
}

/* p: x of sixteen values -> exp(x). */
AVX2_INLINE void weigh(__m256d p[AT_ONCE])
{
    static const double c[8] = SCAN_SERIES;
    const __m256d round = _mm256_set1_pd(SCAN_ROUND), ln2 = _mm256_set1_pd(SCAN_LN2);
    __m256d n[AT_ONCE], r[AT_ONCE], r2[AT_ONCE], high[AT_ONCE];

    for (int i = 0; i < AT_ONCE; i++)
        n[i] = _mm256_add_pd(_mm256_mul_pd(p[i], _mm256_set1_pd(SCAN_LOG2E)), round);
    for (int i = 0; i < AT_ONCE; i++)
        r[i] = _mm256_sub_pd(p[i], _mm256_mul_pd(_mm256_sub_pd(n[i], round), ln2));
    for (int i = 0; i < AT_ONCE; i++)
        r2[i] = _mm256_mul_pd(r[i], r[i]);
    for (int i = 0; i < AT_ONCE; i++)
        high[i] = _mm256_mul_pd(cubic(c + 4, r[i], r2[i]), _mm256_mul_pd(r2[i], r2[i]));
    for (int i = 0; i < AT_ONCE; i++)
        p[i] = _mm256_add_pd(cubic(c, r[i], r2[i]), high[i]);
    for (int i = 0; i < AT_ONCE; i++)
        p[i] = _mm256_castsi256_pd(_mm256_add_epi64(
            _mm256_castpd_si256(p[i]), _mm256_slli_epi64(_mm256_castpd_si256(n[i]), 52)));
}

/* Weights of sixteen x; 0 for a value that does not count. counts: which values count. */
AVX2_INLINE void weigh_counted(const __m256 v[2], const __m256 counts[2], bool by_exp,
                               __m256d w[AT_ONCE])
{
    for (int i = 0; i < AT_ONCE; i++)
        w[i] = _mm256_cvtps_pd(i % 2 == 0 ? _mm256_castps256_ps128(v[i / 2])
                                          : _mm256_extractf128_ps(v[i / 2], 1));
    if (by_exp)
        weigh(w);
    else
        w[0] = w[1] = w[2] = w[3] = _mm256_set1_pd(1);
    for (int i = 0; i < AT_ONCE; i++) {
        __m256i all = _mm256_castps_si256(counts[i / 2]);
        __m128i half =
            i % 2 == 0 ? _mm256_castsi256_si128(all) : _mm256_extracti128_si256(all, 1);
        w[i] = _mm256_and_pd(w[i], _mm256_castsi256_pd(_mm256_cvtepi32_epi64(half)));
    }
}

/* x of sixteen values, 0 for a value that does not count. */
AVX2_INLINE void counted(const struct scan_row *row, const float *values, float low,
                         const bool divide, __m256 v[2], __m256 counts[2])
{
    for (int i = 0; i < 2; i++) {
        v[i] = x_of(row, values + 8 * i, divide);
        counts[i] = _mm256_cmp_ps(v[i], _mm256_set1_ps(low), _CMP_GE_OQ);
        v[i] = _mm256_and_ps(v[i], counts[i]);
    }
}

/* What the values of a block add, and to which buckets; values that do not count add 0 to
 * bucket 0. */
struct additions {
    _Alignas(32) uint32_t at[SCAN_BLOCK];
    _Alignas(32) double add[SCAN_BLOCK];
};

AVX2_INLINE void prepare_sixteen(const struct scan_row *row, const float *values,
                                 const struct scan_tally *t, const bool divide, uint32_t *at,
                                 double *add)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i base = _mm256_set1_epi32((int)t->base), zero = _mm256_setzero_si256();
    const __m128i shift = _mm_cvtsi32_si128((int)t->shift);
    __m256 v[2], counts[2];
    __m256d w[AT_ONCE];

    counted(row, values, t->low, divide, v, counts);
    for (int i = 0; i < 2; i++) {
        __m256i bits =
            _mm256_and_si256(_mm256_castps_si256(v[i]), _mm256_set1_epi32(0x7FFFFFFF));
        bits = _mm256_max_epi32(_mm256_sub_epi32(bits, base), zero);
        __m256i bucket = _mm256_slli_epi32(_mm256_srl_epi32(bits, shift), 3);
        _mm256_store_si256((__m256i *)(void *)(at + 8 * i), _mm256_add_epi32(bucket, lane));
    }
    weigh_counted(v, counts, t->weigh, w);
    for (int i = 0; i < AT_ONCE; i++)
        _mm256_store_pd(add + 4 * i, w[i]);
}

/* Adds a whole block to the last row of sums. */
AVX2_INLINE void add_rest(const struct scan_row *row, const float *values,
                          const struct scan_tally *t, const bool divide, __m256d rest[2])
{
    for (uint32_t i = 0; i < SCAN_BLOCK; i += 16) {
        __m256 v[2], counts[2];
        __m256d w[AT_ONCE];
        counted(row, values + i, t->low, divide, v, counts);
        weigh_counted(v, counts, t->weigh, w);
        for (int j = 0; j < AT_ONCE; j++)
            rest[j % 2] = _mm256_add_pd(rest[j % 2], w[j]);
    }
}

/* The additions of a block are made while the next block is prepared.  A sum is loaded soon
 * after it was stored, and the processor speculates on loads before the store's address is
 * known: wrongly whenever two values fall into the same bucket. */
AVX2_INLINE void tally(const struct scan_row *row, const struct scan_tally *tally,
                       const bool by_exp, const bool divide)
{
    struct scan_tally t = *tally;
    const struct scan_row r = *row;
    double *last = t.sums + SCAN_BUCKETS * SCAN_LANES;
    __m256d rest[2] = {_mm256_loadu_pd(last), _mm256_loadu_pd(last + 4)};
    struct additions a[2] = {0};
    uint32_t turn = 0;

    t.weigh = by_exp;
    for (uint32_t b = 0; b <= r.blocks; b++) {
        const float *values = r.values + (size_t)b * SCAN_BLOCK;
        if (b < r.blocks && below(&r, b, t.least)) {
            if (!below(&r, b, t.low))
                add_rest(&r, values, &t, divide, rest);
            continue;
        }
        struct additions *next = &a[turn & 1];
        const struct additions *made = &a[~turn & 1];
        for (uint32_t i = 0; i < SCAN_BLOCK; i += 16) {
            if (b < r.blocks)
                prepare_sixteen(&r, values + i, &t, divide, next->at + i, next->add + i);
            for (uint32_t j = i; j < i + 16; j++)
                t.sums[made->at[j]] += made->add[j];
        }
        turn++;
    }
    _mm256_storeu_pd(last, rest[0]);
    _mm256_storeu_pd(last + 4, rest[1]);
}

void scan_avx2_tally(const struct scan_row *row, const struct scan_tally *t)
{
    if (!t->weigh)
        tally(row, t, false, true);
    else if (row->temperature != 1)
        tally(row, t, true, true);
    else
        tally(row, t, true, false);
}

/* ---- scale ---- */

void scan_avx2_scale(float *values, uint32_t blocks, float top, float temperature)
{
    const struct scan_row row = {.top = top, .temperature = temperature};

    for (size_t i = 0; i < (size_t)blocks * SCAN_BLOCK; i += 8)
        _mm256_storeu_ps(values + i, x_of(&row, values + i, true));
}

/* ---- gather ---- */

/* Moves the selected lanes to the front. */
AVX2_INLINE __m128 pack(__m128 v, uint32_t set)
{
    static const int32_t order[16][4] = {
        {0}, {0},    {1},    {0, 1},    {2},    {0, 2},    {1, 2},    {0, 1, 2},
        {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3},
    };
    return _mm_permutevar_ps(v, _mm_loadu_si128((const __m128i *)(const void *)order[set]));
}

/* Always writes four lanes, and the next write overwrites the unused ones; never writes beyond
 * the values that were read. */
AVX2_INLINE uint32_t append(__m128 x, __m128i id, uint32_t set, uint32_t n, float *out_x,
                            uint32_t *out_id)
{
    _mm_storeu_ps(out_x + n, pack(x, set));
    _mm_storeu_si128((__m128i *)(void *)(out_id + n),
                     _mm_castps_si128(pack(_mm_castsi128_ps(id), set)));
    return n + (uint32_t)__builtin_popcount(set);
}

AVX2_INLINE uint32_t gather(const struct scan_row *row, float low, float high,
                            const bool divide, float *x, uint32_t *id)
{
    const struct scan_row r = *row;
    const __m256 from = _mm256_set1_ps(low), to = _mm256_set1_ps(high);
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    uint32_t n = 0;

    for (uint32_t b = 0; b < r.blocks; b++) {
        if (below(&r, b, low))
            continue;
        for (uint32_t i = b * SCAN_BLOCK; i < (b + 1) * SCAN_BLOCK; i += 8) {
            __m256 v = x_of(&r, r.values + i, divide);
            uint32_t set = (uint32_t)_mm256_movemask_ps(_mm256_and_ps(
                _mm256_cmp_ps(v, from, _CMP_GE_OQ), _mm256_cmp_ps(v, to, _CMP_LE_OQ)));
            __m256i ids = _mm256_add_epi32(_mm256_set1_epi32((int)i), lane);
            if (r.ids != NULL)
                ids = _mm256_loadu_si256((const __m256i *)(const void *)(r.ids + i));
            n = append(_mm256_castps256_ps128(v), _mm256_castsi256_si128(ids), set & 15, n, x,
                       id);
            n = append(_mm256_extractf128_ps(v, 1), _mm256_extracti128_si256(ids, 1), set >> 4,
                       n, x, id);
        }
    }
    return n;
}

uint32_t scan_avx2_gather(const struct scan_row *row, float low, float high, float *x,
                          uint32_t *id)
{
    return row->temperature == 1 ? gather(row, low, high, false, x, id)
                                 : gather(row, low, high, true, x, id);
}

/* ---- noise ---- */

struct four { /* counters, each in 64 bits of which only the low half is used */
    __m256i c0, c1, c2, c3;
};

AVX2_INLINE void philox_round(struct four *s, __m256i k0, __m256i k1)
{
    __m256i a = _mm256_mul_epu32(s->c0, _mm256_set1_epi64x(0xD2511F53));
    __m256i b = _mm256_mul_epu32(s->c2, _mm256_set1_epi64x(0xCD9E8D57));

    s->c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), s->c1), k0);
    s->c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), s->c3), k1);
    s->c1 = b;
    s->c3 = a;
}

/* Words of sixteen ids in their order. */
AVX2_INLINE void store_words(const struct four *s, uint32_t *words)
{
    __m256i first = _mm256_blend_epi32(s->c0, _mm256_slli_epi64(s->c1, 32), 0xAA);
    __m256i second = _mm256_blend_epi32(s->c2, _mm256_slli_epi64(s->c3, 32), 0xAA);
    __m256i even = _mm256_unpacklo_epi64(first, second);
    __m256i odd = _mm256_unpackhi_epi64(first, second);

    _mm256_storeu_si256((__m256i *)(void *)words, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(words + 8),
                        _mm256_permute2x128_si256(even, odd, 0x31));
}

AVX2_INLINE void philox_thirty_two(const struct scan_noise *n, uint32_t counter,
                                   uint32_t *words)
{
    const __m256i zero = _mm256_setzero_si256();
    struct four s = {.c0 = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)counter),
                                            _mm256_setr_epi64x(0, 1, 2, 3)),
                     .c1 = _mm256_set1_epi64x((int64_t)n->index),
                     .c2 = zero,
                     .c3 = zero};
    struct four t = s;

    t.c0 = _mm256_add_epi64(s.c0, _mm256_set1_epi64x(4));
    for (int round = 0; round < 10; round++) {
        __m256i k0 = _mm256_set1_epi64x((int64_t)n->keys[round][0]);
        __m256i k1 = _mm256_set1_epi64x((int64_t)n->keys[round][1]);
        philox_round(&s, k0, k1);
        philox_round(&t, k0, k1);
    }
    store_words(&s, words);
    store_words(&t, words + 16);
}

AVX2_INLINE uint64_t noise(const struct scan_row *row, uint32_t block,
                           const struct scan_noise *n, const bool divide,
                           uint32_t words[SCAN_BLOCK])
{
    const float *values = row->values + (size_t)block * SCAN_BLOCK;
    const __m256 low = _mm256_set1_ps(n->low), slope = _mm256_set1_ps(SCAN_SLOPE);
    const __m256 offset = _mm256_set1_ps(SCAN_OFFSET - n->best * SCAN_SLOPE);
    uint64_t found = 0;

    for (uint32_t i = 0; i < SCAN_BLOCK; i += 32)
        philox_thirty_two(n, (block * SCAN_BLOCK + i) / 4, words + i);
    for (uint32_t i = 0; i < SCAN_BLOCK; i += 8) {
        __m256 x = x_of(row, values + i, divide);
        __m256i k = _mm256_srli_epi32(
            _mm256_loadu_si256((const __m256i *)(const void *)(words + i)), 9);
        __m256 y =
            _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_set1_epi32(8388608), k)),
                          _mm256_set1_ps(0.5f));
        __m256 bits = _mm256_cvtepi32_ps(_mm256_castps_si256(y));
        __m256 bound = _mm256_add_ps(_mm256_mul_ps(x, slope), offset);
        __m256 may = _mm256_and_ps(_mm256_cmp_ps(bits, bound, _CMP_LT_OQ),
                                   _mm256_cmp_ps(x, low, _CMP_GE_OQ));
        found |= (uint64_t)(uint32_t)_mm256_movemask_ps(may) << i;
    }
    return found;
}

uint64_t scan_avx2_noise(const struct scan_row *row, uint32_t block, const struct scan_noise *n,
                         uint32_t words[SCAN_BLOCK])
{
    return row->temperature == 1 ? noise(row, block, n, false, words)
                                 : noise(row, block, n, true, words);
}
#endif
