/* gptoss/backend/cpu/neon_attend.c - attention of one query group over paged keys and values,
 * for arm64.  The lanes and the order of every sum are those of avx2_attend.c, which explains
 * them. */
#include <math.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/neon.h"
#include "engines/gptoss/backend/cpu/neon_math.h"

enum { PAGE_VECTORS = CPU_PAGE_TOKENS / 8, VALUE_VECTORS = 8 };

struct head_state {
    float top; /* running maximum; starts as the sink */
    float shrink;
    float sum[8]; /* running denominator, lane = position % 8 */
};

/* scores[32] = scale * q . k, -infinity for positions that are not visible. */
static void page_scores(const struct cpu_attend *job, const float *q, const float *k,
                        uint32_t first, float *scores)
{
    struct neon8 acc[PAGE_VECTORS];

    for (int v = 0; v < PAGE_VECTORS; v++)
        acc[v] = neon_set(0);
    for (uint32_t d = 0; d < job->head_dim; d++) {
        const float *row = k + (size_t)d * CPU_PAGE_TOKENS;
        struct neon8 qd = neon_set(q[d]);
        for (int v = 0; v < PAGE_VECTORS; v++)
            acc[v] = neon_fma(qd, neon_load(row + v * 8), acc[v]);
    }
    for (int v = 0; v < PAGE_VECTORS; v++)
        neon_store(scores + v * 8, neon_mul(acc[v], neon_set(job->scale)));
    for (uint32_t i = 0; i < CPU_PAGE_TOKENS; i++)
        if (first + i < job->from || first + i > job->to)
            scores[i] = -INFINITY;
}

NEON_INLINE float32x4_t weights_of(float32x4_t score, float top)
{
    uint32x4_t hidden = vceqq_f32(score, vdupq_n_f32(-INFINITY));
    float32x4_t w = neon_exp4(vsubq_f32(score, vdupq_n_f32(top)));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(w), hidden));
}

/* Turns the scores of one head into weights and adds the page to the state. */
static void page_weights(struct head_state *state, float *scores)
{
    float top = state->top;
    float32x4_t high = vld1q_f32(scores);

    for (int v = 4; v < CPU_PAGE_TOKENS; v += 4)
        high = vmaxq_f32(high, vld1q_f32(scores + v));
    float most = vmaxvq_f32(high);
    if (most > top)
        top = most;
    state->shrink = expf(state->top - top);
    state->top = top;
    struct neon8 sum = neon_mul(neon_load(state->sum), neon_set(state->shrink));
    for (int v = 0; v < PAGE_VECTORS; v++) {
        struct neon8 s = neon_load(scores + v * 8);
        struct neon8 w = {weights_of(s.low, top), weights_of(s.high, top)};
        neon_store(scores + v * 8, w);
        sum = (struct neon8){vaddq_f32(sum.low, w.low), vaddq_f32(sum.high, w.high)};
    }
    neon_store(state->sum, sum);
}

/* out = out * shrink + sum of weight[i] * v[i] over slots a..b-1, `vectors` * 8 dims. */
NEON_INLINE void page_values(float *out, const float *v, size_t stride, const float *weight,
                             uint32_t a, uint32_t b, float shrink, const int vectors)
{
    struct neon8 acc[VALUE_VECTORS];

    for (int i = 0; i < vectors; i++)
        acc[i] = neon_mul(neon_load(out + i * 8), neon_set(shrink));
    for (uint32_t s = a; s < b; s++) {
        struct neon8 w = neon_set(weight[s]);
        const float *row = v + (size_t)s * stride;
        for (int i = 0; i < vectors; i++)
            acc[i] = neon_fma(w, neon_load(row + i * 8), acc[i]);
    }
    for (int i = 0; i < vectors; i++)
        neon_store(out + i * 8, acc[i]);
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

void cpu_neon_attend(const struct cpu_attend *job)
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
        uint32_t first = p * CPU_PAGE_TOKENS;
        uint32_t a = job->from > first ? job->from - first : 0;
        uint32_t b = job->to - first < CPU_PAGE_TOKENS ? job->to - first + 1 : CPU_PAGE_TOKENS;
        for (uint32_t h = 0; h < job->group; h++) {
            float *own = scores + (size_t)h * CPU_PAGE_TOKENS;
            page_scores(job, job->q + (size_t)h * n, k, first, own);
            page_weights(&state[h], own);
            head_values(job, h, v, own, a, b, state[h].shrink);
        }
    }
    for (uint32_t h = 0; h < job->group; h++) {
        float sum = neon_sum(neon_load(state[h].sum));
        for (uint32_t d = 0; d < n; d++)
            job->out[(size_t)h * n + d] /= sum;
    }
}
