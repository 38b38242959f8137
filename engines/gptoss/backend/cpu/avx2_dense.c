/* gptoss/backend/cpu/avx2_dense.c - BF16 matrices times float32 vectors, norm, SwiGLU.
 *
 * One load reads sixteen BF16 weights; shifting and masking its 32-bit words gives the even and
 * the odd elements as float32. pack_dense puts activations into the same order: of each
 * sixteen, first the even elements, then the odd ones.
 *
 * One output element is one accumulator of eight lanes.  It adds the even, then the odd
 * elements of each sixteen from front to end, then comes avx2_sum, then the columns past a
 * multiple of sixteen one by one.  Tiles of rows and tokens only decide how many such
 * accumulators run side by side.
 *
 * Performance: a decode step needs two integer and two FMA operations for a load of 32 bytes of
 * weights, several times faster than memory delivers.  A tile of 4 rows and 3 tokens needs 24
 * FMA for 10 loads and 8 conversions, which keeps both FMA pipes nearly busy.
 */
#if defined(__x86_64__)
#include <math.h>

#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx2_math.h"

enum { TILE_TOKENS = 3, TILE_ROWS = 4, WIDE_ROWS = 8 };

void cpu_avx2_pack_dense(const float *x, size_t columns, float *out)
{
    size_t k = 0;

    for (; k + 16 <= columns; k += 16)
        for (size_t i = 0; i < 8; i++) {
            out[k + i] = x[k + 2 * i];
            out[k + 8 + i] = x[k + 2 * i + 1];
        }
    for (; k < columns; k++)
        out[k] = x[k];
}

AVX2_INLINE void tile(const struct cpu_dense *job, uint32_t row, uint32_t token, const int rows,
                      const int tokens)
{
    const uint16_t *w = job->weight + (size_t)row * job->columns;
    const float *x = job->x + token * job->x_stride;
    const __m256i odd_bits = _mm256_set1_epi32((int)0xFFFF0000u);
    __m256 acc[12];
    size_t k = 0;

    for (int i = 0; i < rows * tokens; i++)
        acc[i] = _mm256_setzero_ps();
    for (; k + 16 <= job->columns; k += 16) {
        for (int r = 0; r < rows; r++) {
            __m256i bits = _mm256_loadu_si256(
                (const __m256i *)(const void *)(w + (size_t)r * job->columns + k));
            __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
            __m256 odd = _mm256_castsi256_ps(_mm256_and_si256(bits, odd_bits));
            for (int t = 0; t < tokens; t++) {
                const float *xt = x + (size_t)t * job->x_stride + k;
                __m256 sum = acc[r * tokens + t];
                sum = _mm256_fmadd_ps(even, _mm256_loadu_ps(xt), sum);
                acc[r * tokens + t] = _mm256_fmadd_ps(odd, _mm256_loadu_ps(xt + 8), sum);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tokens; t++) {
            float sum = avx2_sum(acc[r * tokens + t]);
            for (size_t i = k; i < job->columns; i++)
                sum += cpu_bf16(w[(size_t)r * job->columns + i]) *
                       x[(size_t)t * job->x_stride + i];
            job->y[(token + (size_t)t) * job->y_stride + row + (size_t)r] = sum;
        }
}

/* All rows for `tokens` tokens from `token` on. */
AVX2_INLINE void rows_of(const struct cpu_dense *job, uint32_t token, const int rows,
                         const int tokens)
{
    uint32_t r = 0;

    for (; r + (uint32_t)rows <= job->rows; r += (uint32_t)rows)
        tile(job, r, token, rows, tokens);
    for (; r < job->rows; r++)
        tile(job, r, token, 1, tokens);
}

void cpu_avx2_dense(const struct cpu_dense *job)
{
    uint32_t t = 0;

    if (job->tokens == 1) {
        rows_of(job, 0, WIDE_ROWS, 1);
        return;
    }
    /* Loops over rows outside and tokens inside: four rows stay in the L1 cache for all
     * tokens. */
    uint32_t r = 0;
    for (; r + TILE_ROWS <= job->rows; r += TILE_ROWS) {
        for (t = 0; t + TILE_TOKENS <= job->tokens; t += TILE_TOKENS)
            tile(job, r, t, TILE_ROWS, TILE_TOKENS);
        for (; t < job->tokens; t++)
            tile(job, r, t, TILE_ROWS, 1);
    }
    for (; r < job->rows; r++)
        for (t = 0; t < job->tokens; t++)
            tile(job, r, t, 1, 1);
}

void cpu_avx2_norm(const float *x, const uint16_t *weight, size_t n, float eps, float *out)
{
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        low = _mm256_fmadd_pd(a, a, low);
        high = _mm256_fmadd_pd(b, b, high);
    }
    double part[4], sum;
    _mm256_storeu_pd(part, _mm256_add_pd(low, high));
    sum = (part[0] + part[1]) + (part[2] + part[3]);
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float factor = (float)(1.0 / sqrt(sum / (double)n + (double)eps));
    for (i = 0; i < n; i++)
        out[i] = cpu_bf16(weight[i]) * (x[i] * factor);
}

/* Processes eight pairs at a time and pads a shorter rest, so that exp gives the same result
 * for every element, independent of its position. */
void cpu_avx2_swiglu(const float *u, size_t n, float limit, float *out)
{
    const __m256 top = _mm256_set1_ps(limit), bottom = _mm256_set1_ps(-limit);
    const __m256 one = _mm256_set1_ps(1.0f), alpha = _mm256_set1_ps(-1.702f);
    const __m256i order = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);

    for (size_t i = 0; i < n; i += 8) {
        float pad[16] = {0}, result[8];
        size_t count = n - i < 8 ? n - i : 8;
        const float *from = u + 2 * i;
        if (count < 8) {
            for (size_t j = 0; j < 2 * count; j++)
                pad[j] = from[j];
            from = pad;
        }
        __m256 a = _mm256_loadu_ps(from), b = _mm256_loadu_ps(from + 8);
        __m256 gate = _mm256_shuffle_ps(a, b, 0x88); /* 0 1 4 5 | 2 3 6 7 of the gates */
        __m256 up = _mm256_shuffle_ps(a, b, 0xDD);
        gate = _mm256_min_ps(top, gate); /* gives NaN for (limit, NaN) */
        up = _mm256_max_ps(bottom, _mm256_min_ps(top, up));
        __m256 e = avx2_exp(_mm256_mul_ps(alpha, gate));
        __m256 h = _mm256_div_ps(gate, _mm256_add_ps(one, e));
        h = _mm256_mul_ps(h, _mm256_add_ps(up, one));
        h = _mm256_permutevar8x32_ps(h, order);
        if (count == 8) {
            _mm256_storeu_ps(out + i, h);
            continue;
        }
        _mm256_storeu_ps(result, h);
        for (size_t j = 0; j < count; j++)
            out[i + j] = result[j];
    }
}
#endif
