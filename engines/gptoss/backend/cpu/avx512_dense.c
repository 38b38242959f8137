/* gptoss/backend/cpu/avx512_dense.c - BF16 matrices times float32 vectors, sixteen lanes at a
 * time.
 *
 * The accumulator of an output element is the same as in avx2_dense.c: eight lanes that add the
 * even, then the odd elements of each sixteen columns.  A register holds the accumulators of
 * two rows, row r in its low half and row r + 4 in its high half.  So eight rows need four
 * registers, and avx512_sums puts the results of two tokens into the order in which they are
 * stored.
 *
 * A tile of 8 rows and 4 tokens needs 32 FMA for 16 loads and 12 conversions.  Rows past a
 * multiple of eight use the AVX2 kernel.
 */
#if defined(__x86_64__)
#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx512.h"
#include "engines/gptoss/backend/cpu/avx512_math.h"

enum { TILE_ROWS = 8, HALF_ROWS = TILE_ROWS / 2, TILE_TOKENS = 4 };

/* Sixteen columns of row r and of row r + 4. */
AVX512_INLINE __m512i load_rows(const uint16_t *w, size_t columns)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)w);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(w + HALF_ROWS * columns));

    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* The columns past a multiple of sixteen, one by one. */
static void add_last_columns(const struct cpu_dense *job, uint32_t row, uint32_t token,
                             size_t k, float *y)
{
    for (uint32_t r = 0; r < TILE_ROWS; r++)
        for (size_t i = k; i < job->columns; i++)
            y[r] += cpu_bf16(job->weight[(row + r) * job->columns + i]) *
                    job->x[token * job->x_stride + i];
}

AVX512_INLINE void tile(const struct cpu_dense *job, uint32_t row, uint32_t token,
                        const int tokens)
{
    const uint16_t *w = job->weight + (size_t)row * job->columns;
    const float *x = job->x + token * job->x_stride;
    const __m512i odd_bits = _mm512_set1_epi32((int)0xFFFF0000u);
    __m512 acc[TILE_TOKENS][HALF_ROWS];
    size_t k = 0;

    for (int t = 0; t < tokens; t++)
        for (int r = 0; r < HALF_ROWS; r++)
            acc[t][r] = _mm512_setzero_ps();
    for (; k + 16 <= job->columns; k += 16) {
        __m512 x_even[TILE_TOKENS], x_odd[TILE_TOKENS];
        for (int t = 0; t < tokens; t++) {
            x_even[t] = avx512_twice_ps(x + (size_t)t * job->x_stride + k);
            x_odd[t] = avx512_twice_ps(x + (size_t)t * job->x_stride + k + 8);
        }
        for (int r = 0; r < HALF_ROWS; r++) {
            __m512i bits = load_rows(w + (size_t)r * job->columns + k, job->columns);
            __m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
            __m512 odd = _mm512_castsi512_ps(_mm512_and_si512(bits, odd_bits));
            for (int t = 0; t < tokens; t++) {
                acc[t][r] = _mm512_fmadd_ps(even, x_even[t], acc[t][r]);
                acc[t][r] = _mm512_fmadd_ps(odd, x_odd[t], acc[t][r]);
            }
        }
    }
    for (int t = 0; t < tokens; t += 2) {
        int other = t + 1 < tokens ? t + 1 : t;
        float *y = job->y + (token + (size_t)t) * job->y_stride + row;
        __m512 two[TILE_ROWS];
        for (int r = 0; r < HALF_ROWS; r++) {
            two[2 * r] = acc[t][r];
            two[2 * r + 1] = acc[other][r];
        }
        __m512 sums = avx512_sums(two);
        _mm256_storeu_ps(y, _mm512_castps512_ps256(sums));
        if (other != t)
            _mm256_storeu_ps(y + job->y_stride, _mm512_extractf32x8_ps(sums, 1));
    }
    for (int t = 0; k < job->columns && t < tokens; t++)
        add_last_columns(job, row, token + (uint32_t)t, k,
                         job->y + (token + (size_t)t) * job->y_stride + row);
}

void cpu_avx512_dense(const struct cpu_dense *job)
{
    uint32_t r = 0;

    /* Loops over rows outside and tokens inside: eight rows stay in the L1 cache for all
     * tokens. */
    for (; r + TILE_ROWS <= job->rows; r += TILE_ROWS) {
        uint32_t t = 0;
        for (; t + TILE_TOKENS <= job->tokens; t += TILE_TOKENS)
            tile(job, r, t, TILE_TOKENS);
        for (; t + 2 <= job->tokens; t += 2)
            tile(job, r, t, 2);
        if (t < job->tokens)
            tile(job, r, t, 1);
    }
    if (r < job->rows) {
        struct cpu_dense rest = *job;
        rest.weight += r * job->columns;
        rest.rows -= r;
        rest.y += r;
        cpu_avx2_dense(&rest);
    }
}
#endif
