/* native/cpu/body.h - the kernels of kernels.h, for the lanes of the including file.
 *
 * NATIVE_KERNELS_NAME is what the table is called.
 */
#include "engines/native/cpu/dense.h"
#include "engines/native/cpu/scalar.h"

#ifndef NATIVE_KERNELS_NAME
#define NATIVE_KERNELS_NAME "plain"
#endif

/* ---- attention ---- */

enum { PAGE = NATIVE_PAGE_TOKENS };

/* The scores of a page's positions, for some heads side by side. */
LANES_INLINE void scores_of(const struct native_look *job, uint32_t head, const float *k,
                            const int heads, float score[LOOK_HEADS][PAGE])
{
    const float *query = job->q + (size_t)head * job->key_size;
    lanes sums[2 * LOOK_HEADS];

    for (int h = 0; h < 2 * heads; h++)
        sums[h] = lanes_zero();
    for (uint32_t d = 0; d < job->key_size; d++) {
        lanes low = lanes_load(k + (size_t)d * PAGE);
        lanes high = lanes_load(k + (size_t)d * PAGE + LANES);
        for (int h = 0; h < heads; h++) {
            lanes q = lanes_all(query[(size_t)h * job->key_size + d]);
            sums[2 * h] = lanes_fma(q, low, sums[2 * h]);
            sums[2 * h + 1] = lanes_fma(q, high, sums[2 * h + 1]);
        }
    }
    for (int h = 0; h < heads; h++) {
        lanes_store(score[h], sums[2 * h]);
        lanes_store(score[h] + LANES, sums[2 * h + 1]);
        for (uint32_t i = 0; job->softcap > 0 && i < PAGE; i++)
            score[h][i] = job->softcap * scalar_tanh(score[h][i] / job->softcap);
    }
}

/* Values d .. d + 16 * parts - 1 of: out = out * shrink + weights . values.  Sums of a page,
 * then of pages: the error grows with the root of their number. */
LANES_INLINE void add_some(float *out, const float *v, uint32_t n, const float weight[PAGE],
                           float shrink, uint32_t a, uint32_t b, const int parts)
{
    lanes sums[VALUE_PARTS];

    for (int p = 0; p < parts; p++)
        sums[p] = lanes_zero();
    for (uint32_t i = a; i < b; i++) {
        lanes w = lanes_all(weight[i]);
        for (int p = 0; p < parts; p++)
            sums[p] = lanes_fma(w, lanes_load(v + (size_t)i * n + p * LANES), sums[p]);
    }
    for (int p = 0; p < parts; p++)
        lanes_store(out + p * LANES,
                    lanes_fma(lanes_load(out + p * LANES), lanes_all(shrink), sums[p]));
}

static void add_values(float *out, const float *v, uint32_t n, const float weight[PAGE],
                       float shrink, uint32_t a, uint32_t b)
{
    uint32_t d = 0;

    for (; d + VALUE_PARTS * LANES <= n; d += VALUE_PARTS * LANES)
        add_some(out + d, v + d, n, weight, shrink, a, b, VALUE_PARTS);
    for (; d + LANES <= n; d += LANES)
        add_some(out + d, v + d, n, weight, shrink, a, b, 1);
    for (; d < n; d++) {
        float sum = 0;
        for (uint32_t i = a; i < b; i++)
            sum = fmaf(weight[i], v[(size_t)i * n + d], sum);
        out[d] = fmaf(out[d], shrink, sum);
    }
}

/* The values are the leading rows of K, [n][PAGE]. */
static void add_key_values(float *out, const float *k, uint32_t n, const float weight[PAGE],
                           float shrink)
{
    lanes low = lanes_load(weight), high = lanes_load(weight + LANES);

    for (uint32_t d = 0; d < n; d++) {
        lanes sum = lanes_fma(low, lanes_load(k + (size_t)d * PAGE), lanes_zero());
        sum = lanes_fma(high, lanes_load(k + (size_t)d * PAGE + LANES), sum);
        out[d] = fmaf(out[d], shrink, lanes_sum(sum));
    }
}

/* One page for one head with these scores: positions a..b - 1 of it are seen. */
static void look_at_page(const struct native_look *job, uint32_t head, const float *k,
                         const float score[PAGE], uint32_t a, uint32_t b, float *top,
                         float *sum)
{
    float *out = job->out + (size_t)head * job->value_size;
    float weight[PAGE], high = *top, all = 0;

    for (uint32_t i = a; i < b; i++)
        high = score[i] > high ? score[i] : high;
    float shrink = scalar_exp(*top - high);
    for (uint32_t i = 0; i < PAGE; i++)
        weight[i] = scalar_exp(score[i] - high);
    for (uint32_t i = 0; i < PAGE; i++)
        weight[i] = i >= a && i < b ? weight[i] : 0.0f;
    *top = high;
    for (uint32_t i = a; i < b; i++)
        all += weight[i];
    *sum = fmaf(*sum, shrink, all);
    if (job->values_are_keys)
        add_key_values(out, k, job->value_size, weight, shrink);
    else
        add_values(out, k + (size_t)job->key_size * PAGE, job->value_size, weight, shrink, a,
                   b);
}

/* Softmax over one page at a time with a running maximum.  Pages begin at multiples of PAGE of
 * the sequence, so a query reads the same pages in the same order however its prompt was split.
 * A sink only enters the denominator: it is the first maximum, with weight one. */
static void look(const struct native_look *job)
{
    float top[NATIVE_LOOK_HEADS], sum[NATIVE_LOOK_HEADS];

    memset(job->out, 0, (size_t)job->group * job->value_size * sizeof(*job->out));
    for (uint32_t h = 0; h < job->group; h++) {
        top[h] = job->sinks != NULL ? job->sinks[h] : -3.0e38f;
        sum[h] = job->sinks != NULL ? 1.0f : 0.0f;
    }
    for (uint32_t p = job->from / PAGE; p <= job->to / PAGE; p++) {
        const float *k = job->base + job->pages[p] * job->page_stride;
        uint32_t first = p * PAGE, a = job->from > first ? job->from - first : 0;
        uint32_t b = job->to - first < PAGE ? job->to - first + 1 : PAGE;
        float score[LOOK_HEADS][PAGE];
        for (uint32_t h = 0; h < job->group;) {
            uint32_t n = job->group - h < LOOK_HEADS ? 1 : LOOK_HEADS;
            if (n == LOOK_HEADS)
                scores_of(job, h, k, LOOK_HEADS, score);
            else
                scores_of(job, h, k, 1, score);
            for (uint32_t i = 0; i < n; i++, h++)
                look_at_page(job, h, k, score[i], a, b, &top[h], &sum[h]);
        }
    }
    for (uint32_t h = 0; h < job->group; h++)
        for (uint32_t d = 0; d < job->value_size; d++)
            job->out[(size_t)h * job->value_size + d] /= sum[h];
}

/* ---- state ---- */

/* Products and sums round separately here: each compiler then computes the same. */
static void delta(const struct native_delta_step *job)
{
    uint32_t n = job->value_size;
    float *memory = job->scratch, *out = job->out;

    for (uint32_t i = 0; i < n; i++)
        memory[i] = out[i] = 0;
    for (uint32_t d = 0; d < job->key_size; d++) {
        float *row = job->state + (size_t)d * n, key = job->k[d], decay = job->decay;
        for (uint32_t i = 0; i < n; i++) {
            row[i] *= decay;
            memory[i] += row[i] * key;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        memory[i] = (job->v[i] - memory[i]) * job->beta;
    for (uint32_t d = 0; d < job->key_size; d++) {
        float *row = job->state + (size_t)d * n, key = job->k[d], query = job->q[d];
        for (uint32_t i = 0; i < n; i++) {
            row[i] += key * memory[i];
            out[i] += row[i] * query;
        }
    }
}

static void ssm(const struct native_ssm_step *job)
{
    uint32_t n = job->head_size;
    float *out = job->out;

    for (uint32_t i = 0; i < n; i++)
        out[i] = job->skip * job->x[i];
    for (uint32_t s = 0; s < job->state_size; s++) {
        float *row = job->state + (size_t)s * n, in = job->dt * job->b[s], c = job->c[s];
        float decay = job->decay;
        for (uint32_t i = 0; i < n; i++) {
            row[i] = row[i] * decay + in * job->x[i];
            out[i] += row[i] * c;
        }
    }
}

/* ---- activations ---- */

static void act(enum native_act how, float *x, size_t n)
{
    switch (how) {
    case NATIVE_LINEAR:
    case NATIVE_CLIPPED:
        break;
    case NATIVE_SILU:
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] / (1.0f + scalar_exp(-x[i]));
        break;
    case NATIVE_GELU:
        for (size_t i = 0; i < n; i++)
            x[i] = 0.5f * x[i] * (1.0f + scalar_erf(x[i] * 0.70710678118654752440f));
        break;
    case NATIVE_GELU_TANH:
        for (size_t i = 0; i < n; i++)
            x[i] = 0.5f * x[i] *
                   (1.0f + scalar_tanh(0.79788456080286535588f *
                                       (x[i] + 0.044715f * x[i] * x[i] * x[i])));
        break;
    case NATIVE_RELU2:
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] > 0 ? x[i] * x[i] : 0;
        break;
    case NATIVE_SIGMOID:
        for (size_t i = 0; i < n; i++)
            x[i] = 1.0f / (1.0f + scalar_exp(-x[i]));
        break;
    case NATIVE_TANH:
        for (size_t i = 0; i < n; i++)
            x[i] = scalar_tanh(x[i]);
        break;
    }
}

static const struct native_kernels body_table = {
    .name = NATIVE_KERNELS_NAME,
    .dense = dense,
    .look = look,
    .delta = delta,
    .ssm = ssm,
    .act = act,
};
