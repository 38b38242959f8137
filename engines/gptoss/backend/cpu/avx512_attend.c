/* gptoss/backend/cpu/avx512_attend.c - attention of one query group, sixteen lanes at a time.
 *
 * Every number is computed as in avx2_attend.c: a score is a sum over the dimensions from first
 * to last, an output is a sum over the positions from first to last, and the denominator has
 * eight lanes by position.  Larger registers only put more positions, dimensions and heads side
 * by side: keys and values are loaded once for four heads.
 */
#if defined(__x86_64__)
#include <math.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx2_math.h"
#include "engines/gptoss/backend/cpu/avx512.h"
#include "engines/gptoss/backend/cpu/avx512_math.h"

enum {
    PAGE_VECTORS = CPU_PAGE_TOKENS / 16,
    VALUE_VECTORS = 4,
    VALUE_DIMS = VALUE_VECTORS * 16,
    TILE_HEADS = 4,
};

struct head_state {
    float top; /* running maximum; starts as the sink */
    float shrink;
    float sum[8]; /* running denominator, lane = position % 8 */
};

/* avx2_exp for sixteen lanes. */
AVX512_INLINE __m512 wide_exp(__m512 x)
{
    const __m512 log2e = _mm512_set1_ps(1.44269504088896341f);
    const __m512 ln2_high = _mm512_set1_ps(0.693359375f);
    const __m512 ln2_low = _mm512_set1_ps(-2.12194440e-4f);

    x = _mm512_max_ps(_mm512_min_ps(x, _mm512_set1_ps(89.0f)), _mm512_set1_ps(-104.0f));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, log2e),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, ln2_high, x);
    r = _mm512_fnmadd_ps(n, ln2_low, r);
    __m512 p = _mm512_set1_ps(1.0f / 720);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __m512i e = _mm512_cvtps_epi32(n);
    __m512i half = _mm512_srai_epi32(e, 1);
    __m512i rest = _mm512_sub_epi32(e, half);
    const __m512i bias = _mm512_set1_epi32(127);
    __m512 a = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(half, bias), 23));
    __m512 b = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(rest, bias), 23));
    return _mm512_mul_ps(_mm512_mul_ps(p, a), b);
}

/* scores[h][32] = scale * q[h] . k for `heads` heads, masked ones -infinity. */
AVX512_INLINE void page_scores(const struct cpu_attend *job, const float *q, const float *k,
                               uint32_t first, float *scores, const int heads)
{
    __m512 acc[TILE_HEADS][PAGE_VECTORS];
    const __m512 scale = _mm512_set1_ps(job->scale), none = _mm512_set1_ps(-INFINITY);
    const __m512i lane =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

    for (int h = 0; h < heads; h++)
        for (int v = 0; v < PAGE_VECTORS; v++)
            acc[h][v] = _mm512_setzero_ps();
    for (uint32_t d = 0; d < job->head_dim; d++) {
        const float *row = k + (size_t)d * CPU_PAGE_TOKENS;
        for (int h = 0; h < heads; h++) {
            __m512 qd = _mm512_set1_ps(q[(size_t)h * job->head_dim + d]);
            for (int v = 0; v < PAGE_VECTORS; v++)
                acc[h][v] = _mm512_fmadd_ps(qd, _mm512_loadu_ps(row + v * 16), acc[h][v]);
        }
    }
    for (int v = 0; v < PAGE_VECTORS; v++) {
        __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32((int)first + v * 16));
        __mmask16 hidden = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32((int)job->from), at) |
                           _mm512_cmpgt_epi32_mask(at, _mm512_set1_epi32((int)job->to));
        for (int h = 0; h < heads; h++)
            _mm512_storeu_ps(
                scores + h * CPU_PAGE_TOKENS + v * 16,
                _mm512_mask_blend_ps(hidden, _mm512_mul_ps(acc[h][v], scale), none));
    }
}

/* Turns the scores of one head into weights and adds the page to the state. */
AVX512_INLINE void page_weights(struct head_state *state, float *scores)
{
    __m256 high = _mm256_loadu_ps(scores);

    for (int v = 8; v < CPU_PAGE_TOKENS; v += 8)
        high = _mm256_max_ps(high, _mm256_loadu_ps(scores + v));
    float top = avx2_max(high);
    if (!(top > state->top))
        top = state->top;
    state->shrink = expf(state->top - top);
    state->top = top;
    __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(state->sum), _mm256_set1_ps(state->shrink));
    for (int v = 0; v < PAGE_VECTORS; v++) {
        __m512 s = _mm512_loadu_ps(scores + v * 16);
        __mmask16 seen = _mm512_cmp_ps_mask(s, _mm512_set1_ps(-INFINITY), _CMP_NEQ_UQ);
        __m512 w = _mm512_maskz_mov_ps(seen, wide_exp(_mm512_sub_ps(s, _mm512_set1_ps(top))));
        _mm512_storeu_ps(scores + v * 16, w);
        sum = _mm256_add_ps(sum, _mm512_castps512_ps256(w));
        sum = _mm256_add_ps(sum, _mm512_extractf32x8_ps(w, 1));
    }
    _mm256_storeu_ps(state->sum, sum);
}

/* out = out * shrink + sum of weight[i] * v[i] over slots a..b-1, for VALUE_DIMS dimensions of
 * `heads` heads. */
AVX512_INLINE void page_values(const struct cpu_attend *job, const struct head_state *state,
                               float *out, const float *v, const float *weight, uint32_t a,
                               uint32_t b, const int heads)
{
    __m512 acc[TILE_HEADS][VALUE_VECTORS];
    size_t n = job->head_dim;

    for (int h = 0; h < heads; h++)
        for (int i = 0; i < VALUE_VECTORS; i++)
            acc[h][i] = _mm512_mul_ps(_mm512_loadu_ps(out + (size_t)h * n + i * 16),
                                      _mm512_set1_ps(state[h].shrink));
    for (uint32_t s = a; s < b; s++) {
        const float *row = v + s * n;
        for (int h = 0; h < heads; h++) {
            __m512 w = _mm512_set1_ps(weight[(uint32_t)h * CPU_PAGE_TOKENS + s]);
            for (int i = 0; i < VALUE_VECTORS; i++)
                acc[h][i] = _mm512_fmadd_ps(w, _mm512_loadu_ps(row + i * 16), acc[h][i]);
        }
    }
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < VALUE_VECTORS; i++)
            _mm512_storeu_ps(out + (size_t)h * n + i * 16, acc[h][i]);
}

/* Adds one page to `heads` heads from head h on. */
AVX512_INLINE void page_of(const struct cpu_attend *job, struct head_state *state,
                           uint32_t page, uint32_t h, const int heads)
{
    const float *k = job->base + job->pages[page] * job->page_stride, *v = k + job->v_offset;
    uint32_t first = page * CPU_PAGE_TOKENS, n = job->head_dim;
    uint32_t a = job->from > first ? job->from - first : 0;
    uint32_t b = job->to - first < CPU_PAGE_TOKENS ? job->to - first + 1 : CPU_PAGE_TOKENS;
    float *scores = job->scratch;

    page_scores(job, job->q + (size_t)h * n, k, first, scores, heads);
    for (int i = 0; i < heads; i++)
        page_weights(&state[i], scores + i * CPU_PAGE_TOKENS);
    for (uint32_t d = 0; d < n; d += VALUE_DIMS)
        page_values(job, state, job->out + (size_t)h * n + d, v + d, scores, a, b, heads);
}

void cpu_avx512_attend(const struct cpu_attend *job)
{
    uint32_t n = job->head_dim, first = job->from / CPU_PAGE_TOKENS;
    uint32_t last = job->to / CPU_PAGE_TOKENS;

    if (n % VALUE_DIMS != 0) { /* no published shape: need not be fast */
        cpu_avx2_attend(job);
        return;
    }
    memset(job->out, 0, (size_t)job->group * n * sizeof(float));
    for (uint32_t h = 0; h < job->group;) {
        struct head_state state[TILE_HEADS];
        uint32_t heads = job->group - h >= TILE_HEADS ? TILE_HEADS : 1;
        for (uint32_t i = 0; i < heads; i++)
            state[i] = (struct head_state){.top = job->sink[h + i], .sum = {1.0f}};
        for (uint32_t p = first; p <= last; p++) {
            if (heads == TILE_HEADS)
                page_of(job, state, p, h, TILE_HEADS);
            else
                page_of(job, state, p, h, 1);
        }
        for (uint32_t i = 0; i < heads; i++, h++) {
            float sum = avx2_sum(_mm256_loadu_ps(state[i].sum));
            for (uint32_t d = 0; d < n; d++)
                job->out[(size_t)h * n + d] /= sum;
        }
    }
}
#endif
