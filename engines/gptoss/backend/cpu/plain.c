/* gptoss/backend/cpu/plain.c - the kernels in portable C: short, slow, the reference.
 *
 * Sums run from the first element to the last in float32, unless a comment says otherwise.
 */
#include <math.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/kernels.h"

static void pack_dense(const float *x, size_t columns, float *out)
{
    memcpy(out, x, columns * sizeof(*out));
}

/* Eight partial sums reduce the rounding error of long rows and allow vectorisation. */
static float dense_dot(const uint16_t *w, const float *x, size_t n)
{
    float part[8] = {0};
    size_t k = 0;

    for (; k + 8 <= n; k += 8)
        for (size_t i = 0; i < 8; i++)
            part[i] += cpu_bf16(w[k + i]) * x[k + i];
    for (; k < n; k++)
        part[0] += cpu_bf16(w[k]) * x[k];
    return ((part[0] + part[4]) + (part[1] + part[5])) +
           ((part[2] + part[6]) + (part[3] + part[7]));
}

static void dense(const struct cpu_dense *job)
{
    for (uint32_t r = 0; r < job->rows; r++)
        for (uint32_t t = 0; t < job->tokens; t++)
            job->y[t * job->y_stride + r] = dense_dot(job->weight + r * job->columns,
                                                      job->x + t * job->x_stride, job->columns);
}

/* E2M1: sign, two bits of exponent, one of mantissa. */
static const float fp4[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                              -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* 32 floats for a block: the size of a packed block. */
static void pack_mx(const float *x, size_t first, size_t count, uint8_t *vector)
{
    size_t bytes = CPU_MX_BLOCK * sizeof(*x);

    memcpy(vector + first * bytes, x, count * bytes);
}

static float mx_dot(const uint8_t *blocks, const uint8_t *scales, uint32_t excess,
                    const float *x, size_t n)
{
    float sum = 0;

    for (size_t g = 0; g < n / CPU_MX_BLOCK; g++) {
        float part[4] = {0};
        for (size_t b = 0; b < 16; b++) {
            uint8_t byte = blocks[g * 16 + b];
            part[b / 4] += fp4[byte & 15] * x[g * 32 + 2 * b];
            part[b / 4] += fp4[byte >> 4] * x[g * 32 + 2 * b + 1];
        }
        float total = (part[0] + part[1]) + (part[2] + part[3]);
        sum += ldexpf(total, (int)scales[g] - (int)excess - 127);
    }
    return sum;
}

static void mx(const struct cpu_mx *job)
{
    size_t groups = job->columns / CPU_MX_BLOCK;

    for (uint32_t r = 0; r < job->rows; r++)
        for (uint32_t t = 0; t < job->tokens; t++)
            job->y[t * job->y_stride + r] =
                mx_dot(job->blocks + r * groups * 16, job->scales + r * groups,
                       job->scale_excess, (const float *)(const void *)job->x[t], job->columns);
}

/* Softmax over one page at a time with a running maximum.  Pages begin at multiples of
 * CPU_PAGE_TOKENS of the sequence, so a query uses the same pages however its prompt was split
 * into chunks.  The sink only enters the denominator: it is the initial maximum, with weight
 * one and no value. */
static void attend(const struct cpu_attend *job)
{
    uint32_t n = job->head_dim;

    for (uint32_t h = 0; h < job->group; h++) {
        const float *q = job->q + (size_t)h * n;
        float *out = job->out + (size_t)h * n;
        float top = job->sink[h], sum = 1;

        memset(out, 0, n * sizeof(*out));
        for (uint32_t p = job->from / CPU_PAGE_TOKENS; p <= job->to / CPU_PAGE_TOKENS; p++) {
            const float *k = job->base + job->pages[p] * job->page_stride;
            const float *v = k + job->v_offset;
            uint32_t first = p * CPU_PAGE_TOKENS;
            uint32_t a = job->from > first ? job->from - first : 0;
            uint32_t b =
                job->to - first < CPU_PAGE_TOKENS ? job->to - first + 1 : CPU_PAGE_TOKENS;
            float score[CPU_PAGE_TOKENS], high = top;
            for (uint32_t i = a; i < b; i++) {
                float dot = 0;
                for (uint32_t d = 0; d < n; d++)
                    dot += q[d] * k[d * CPU_PAGE_TOKENS + i];
                score[i] = dot * job->scale;
                high = score[i] > high ? score[i] : high;
            }
            float shrink = expf(top - high);
            top = high;
            sum *= shrink;
            for (uint32_t d = 0; d < n; d++)
                out[d] *= shrink;
            for (uint32_t i = a; i < b; i++) {
                float weight = expf(score[i] - top);
                sum += weight;
                for (uint32_t d = 0; d < n; d++)
                    out[d] += weight * v[i * n + d];
            }
        }
        for (uint32_t d = 0; d < n; d++)
            out[d] /= sum;
    }
}

static void norm(const float *x, const uint16_t *weight, size_t n, float eps, float *out)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float factor = (float)(1.0 / sqrt(sum / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++)
        out[i] = cpu_bf16(weight[i]) * (x[i] * factor);
}

static void swiglu(const float *u, size_t n, float limit, float *out)
{
    for (size_t i = 0; i < n; i++) {
        float gate = u[2 * i], up = u[2 * i + 1];
        gate = gate > limit ? limit : gate;
        up = up > limit ? limit : up < -limit ? -limit : up;
        out[i] = gate / (1.0f + expf(-1.702f * gate)) * (up + 1.0f);
    }
}

const struct cpu_kernels *cpu_kernels_plain(void)
{
    static const struct cpu_kernels table = {
        .name = "plain",
        .pack_dense = pack_dense,
        .dense = dense,
        .pack_mx = pack_mx,
        .mx = mx,
        .attend = attend,
        .norm = norm,
        .swiglu = swiglu,
    };
    return &table;
}
