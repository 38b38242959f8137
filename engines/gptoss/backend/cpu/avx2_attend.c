/* gptoss/backend/cpu/avx2_attend.c - attention of one query group over paged keys and values.
 *
 * Keys lie transposed in their page ([head_dim][page]), so eight scores are computed side by
 * side in the lanes of a register, each a sum over the dimensions from first to last.  Values
 * lie by position, so the lanes are the output's dimensions.  A page is a fixed range of
 * positions, and invisible positions are masked: the order of every sum depends only on
 * positions.  Softmax uses a running maximum, as in plain.c.
 */
#if defined(__x86_64__)
#include <math.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/avx2.h"
#include "engines/gptoss/backend/cpu/avx2_math.h"

enum { PAGE_VECTORS = CPU_PAGE_TOKENS / 8, VALUE_VECTORS = 8 };

struct head_state {
    float top; /* running maximum; starts as the sink */
    float shrink;
    float sum[8]; /* running denominator, lane = position % 8 */
};

/* scores[h][32] = scale * q[h] . k for `heads` heads, masked ones -infinity. */
AVX2_INLINE void page_scores(const struct cpu_attend *job, const float *q, const float *k,
                             uint32_t first, float *scores, const int heads)
{
    __m256 acc[2 * PAGE_VECTORS];
    const __m256 scale = _mm256_set1_ps(job->scale);
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    for (int i = 0; i < heads * PAGE_VECTORS; i++)
        acc[i] = _mm256_setzero_ps();
    for (uint32_t d = 0; d < job->head_dim; d++) {
        const float *row = k + (size_t)d * CPU_PAGE_TOKENS;
        for (int h = 0; h < heads; h++) {
            __m256 qd = _mm256_broadcast_ss(q + (size_t)h * job->head_dim + d);
            for (int v = 0; v < PAGE_VECTORS; v++)
                acc[h * PAGE_VECTORS + v] = _mm256_fmadd_ps(qd, _mm256_loadu_ps(row + v * 8),
                                                            acc[h * PAGE_VECTORS + v]);
        }
    }
    for (int v = 0; v < PAGE_VECTORS; v++) {
        __m256i at = _mm256_add_epi32(lane, _mm256_set1_epi32((int)first + v * 8));
        __m256i hidden =
            _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)job->from), at),
                            _mm256_cmpgt_epi32(at, _mm256_set1_epi32((int)job->to)));
        for (int h = 0; h < heads; h++)
            _mm256_storeu_ps(scores + h * CPU_PAGE_TOKENS + v * 8,
                             _mm256_blendv_ps(_mm256_mul_ps(acc[h * PAGE_VECTORS + v], scale),
                                              _mm256_set1_ps(-INFINITY),
                                              _mm256_castsi256_ps(hidden)));
    }
}

/* Turns the scores of one head into weights and adds the page to the state. */
static void page_weights(struct head_state *state, float *scores)
{
    __m256 high = _mm256_loadu_ps(scores);

    for (int v = 1; v < PAGE_VECTORS; v++)
        high = _mm256_max_ps(high, _mm256_loadu_ps(scores + v * 8));
    float top = avx2_max(high);
    if (!(top > state->top))
        top = state->top;
    state->shrink = expf(state->top - top);
    state->top = top;
    __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(state->sum), _mm256_set1_ps(state->shrink));
    for (int v = 0; v < PAGE_VECTORS; v++) {
        __m256 s = _mm256_loadu_ps(scores + v * 8);
        __m256 hidden = _mm256_cmp_ps(s, _mm256_set1_ps(-INFINITY), _CMP_EQ_OQ);
        __m256 w = avx2_exp(_mm256_sub_ps(s, _mm256_set1_ps(top)));
        w = _mm256_andnot_ps(hidden, w);
        _mm256_storeu_ps(scores + v * 8, w);
        sum = _mm256_add_ps(sum, w);
    }
    _mm256_storeu_ps(state->sum, sum);
}

/* out = out * shrink + sum of weight[i] * v[i] over slots a..b-1, `vectors` * 8 dims. */
AVX2_INLINE void page_values(float *out, const float *v, size_t stride, const float *weight,
                             uint32_t a, uint32_t b, float shrink, const int vectors)
{
    __m256 acc[VALUE_VECTORS];

    for (int i = 0; i < vectors; i++)
        acc[i] = _mm256_mul_ps(_mm256_loadu_ps(out + i * 8), _mm256_set1_ps(shrink));
    for (uint32_t s = a; s < b; s++) {
        __m256 w = _mm256_broadcast_ss(weight + s);
        const float *row = v + (size_t)s * stride;
        for (int i = 0; i < vectors; i++)
            acc[i] = _mm256_fmadd_ps(w, _mm256_loadu_ps(row + i * 8), acc[i]);
    }
    for (int i = 0; i < vectors; i++)
        _mm256_storeu_ps(out + i * 8, acc[i]);
}

static void head_values(const struct cpu_attend *job, uint32_t h, const float *v,
                        const float *weight, uint32_t a, uint32_t b, float shrink)
{
    uint32_t n = job->head_dim, d = 0;
    float *out = job->out + (size_t)h * n;

    for (; d + VALUE_VECTORS * 8 <= n; d += VALUE_VECTORS * 8)
        page_values(out + d, v + d, n, weight, a, b, shrink, VALUE_VECTORS);
    for (; d < n; d += 8)
        page_values(out + d, v + d, n, weight, a, b, shrink, 1);
}

void cpu_avx2_attend(const struct cpu_attend *job)
{
    uint32_t n = job->head_dim;

    if (n % 8 != 0) { /* no published shape: need not be fast */
        cpu_kernels_plain()->attend(job);
        return;
    }
    float *scores = job->scratch;
    struct head_state *state =
        (struct head_state *)(void *)(scores + (size_t)job->group * CPU_PAGE_TOKENS);
    memset(job->out, 0, (size_t)job->group * n * sizeof(float));
    for (uint32_t h = 0; h < job->group; h++)
        state[h] = (struct head_state){.top = job->sink[h], .sum = {1.0f}};

    for (uint32_t p = job->from / CPU_PAGE_TOKENS; p <= job->to / CPU_PAGE_TOKENS; p++) {
        const float *k = job->base + job->pages[p] * job->page_stride;
        const float *v = k + job->v_offset;
        uint32_t first = p * CPU_PAGE_TOKENS, h = 0;
        uint32_t a = job->from > first ? job->from - first : 0;
        uint32_t b = job->to - first < CPU_PAGE_TOKENS ? job->to - first + 1 : CPU_PAGE_TOKENS;
        for (; h + 2 <= job->group; h += 2)
            page_scores(job, job->q + (size_t)h * n, k, first, scores + h * CPU_PAGE_TOKENS, 2);
        for (; h < job->group; h++)
            page_scores(job, job->q + (size_t)h * n, k, first, scores + h * CPU_PAGE_TOKENS, 1);
        for (h = 0; h < job->group; h++) {
            page_weights(&state[h], scores + h * CPU_PAGE_TOKENS);
            head_values(job, h, v, scores + h * CPU_PAGE_TOKENS, a, b, state[h].shrink);
        }
    }
    for (uint32_t h = 0; h < job->group; h++) {
        float sum = avx2_sum(_mm256_loadu_ps(state[h].sum));
        for (uint32_t d = 0; d < n; d++)
            job->out[(size_t)h * n + d] /= sum;
    }
}
#endif
