/* tests/gpu/reference.c - see reference.h. */
#include "tests/gpu/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/model/rope.h"
#include "tests/gpu/fixture.h"

struct product {
    const uint16_t *dense;         /* or */
    const struct model_experts *e; /* with expert */
    uint32_t expert;
    const uint16_t *bias;
    uint32_t rows, columns, count;
    const double *x;
    double *y;
};

/* Value of a 4-bit code: sign, two bits of exponent, one of mantissa. */
static double e2m1(uint32_t code)
{
    static const double size[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return (code & 8) != 0 ? -size[code & 7] : size[code & 7];
}

static void widen_row(const struct product *p, uint32_t row, double *out)
{
    if (p->e == NULL) {
        reference_widen(p->dense + (size_t)row * p->columns, out, p->columns);
        return;
    }
    uint32_t blocks = p->columns / 32;
    const uint8_t *codes =
        p->e->blocks + p->expert * p->e->blocks_stride + (size_t)row * blocks * 16;
    const uint8_t *scales =
        p->e->scales + p->expert * p->e->scales_stride + (size_t)row * blocks;
    for (uint32_t block = 0; block < blocks; block++) {
        double scale = ldexp(1, (int)scales[block] - 127); /* a power of two: exact */
        for (uint32_t i = block * 16; i < block * 16 + 16; i++) {
            out[2 * i] = e2m1(codes[i] & 15) * scale;
            out[2 * i + 1] = e2m1(codes[i] >> 4) * scale;
        }
    }
}

static double dot(const double *a, const double *b, uint32_t count)
{
    double s[4] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < count; i += 4) /* columns are multiples of 32 */
        for (uint32_t k = 0; k < 4; k++)
            s[k] += a[i + k] * b[i + k];
    return s[0] + s[1] + (s[2] + s[3]);
}

static void product_row(void *ctx, uint32_t row)
{
    const struct product *p = ctx;
    double *w = test_alloc(p->columns, sizeof(*w));
    double bias = p->bias != NULL ? test_from_bf16(p->bias[row]) : 0;
    widen_row(p, row, w);
    for (uint32_t n = 0; n < p->count; n++)
        p->y[(size_t)n * p->rows + row] =
            bias + dot(w, p->x + (size_t)n * p->columns, p->columns);
    free(w);
}

void reference_dense(const uint16_t *weights, const uint16_t *bias, uint32_t rows,
                     uint32_t columns, const double *x, uint32_t count, double *y)
{
    struct product p = {.dense = weights,
                        .bias = bias,
                        .rows = rows,
                        .columns = columns,
                        .count = count,
                        .x = x,
                        .y = y};
    test_parallel(rows, product_row, &p);
}

void reference_expert(const struct model_experts *e, uint32_t expert, const double *x,
                      uint32_t count, double *y)
{
    struct product p = {.e = e,
                        .expert = expert,
                        .bias = (const uint16_t *)(const void *)((const char *)e->bias +
                                                                 expert * e->bias_stride),
                        .rows = e->rows,
                        .columns = e->columns,
                        .count = count,
                        .x = x,
                        .y = y};
    test_parallel(e->rows, product_row, &p);
}

void reference_norm(const struct model_config *c, const float *in, const uint16_t *norm,
                    double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->hidden; i++)
        sum += (double)in[i] * (double)in[i];
    double scale = 1 / sqrt(sum / c->hidden + c->rms_eps);
    for (uint32_t i = 0; i < c->hidden; i++)
        out[i] = (double)in[i] * scale * test_from_bf16(norm[i]);
}

void reference_rope(const struct model_config *c, uint32_t position, double head[64])
{
    double frequencies[32];
    float cosines[32], sines[32];
    gptoss_rope_frequencies(c, frequencies);
    gptoss_rope_row(c, frequencies, position, cosines, sines);
    for (uint32_t i = 0; i < 32; i++) {
        double low = head[i], high = head[i + 32];
        head[i] = low * (double)cosines[i] - high * (double)sines[i];
        head[i + 32] = high * (double)cosines[i] + low * (double)sines[i];
    }
}

double reference_route(const struct model_config *c, const struct model_gptoss_layer *l,
                       const double *normalized, uint32_t *choice, double *weight)
{
    double logits[CUDA_EXPERTS_MAX], margin = INFINITY, sum = 0;
    bool taken[CUDA_EXPERTS_MAX] = {false};
    double *row = test_alloc(c->hidden, sizeof(*row));
    for (uint32_t e = 0; e < c->experts; e++) {
        reference_widen(l->router_weight + (size_t)e * c->hidden, row, c->hidden);
        logits[e] = dot(row, normalized, c->hidden) + test_from_bf16(l->router_bias[e]);
    }
    free(row);
    for (uint32_t k = 0; k < c->experts_per_token; k++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t e = 0; e < c->experts; e++)
            if (!taken[e] && (best == UINT32_MAX || logits[e] > logits[best]))
                best = e;
        taken[best] = true;
        choice[k] = best;
        for (uint32_t e = 0; e < c->experts; e++)
            if (!taken[e] && logits[e] != logits[best])
                margin = fmin(margin, logits[best] - logits[e]);
    }
    for (uint32_t k = 0; k < c->experts_per_token; k++)
        sum += weight[k] = exp(logits[choice[k]] - logits[choice[0]]);
    for (uint32_t k = 0; k < c->experts_per_token; k++)
        weight[k] /= sum;
    return margin;
}

double reference_swiglu(const struct model_config *c, double gate, double up)
{
    gate = fmin(gate, c->swiglu_limit);
    up = fmax(fmin(up, c->swiglu_limit), -c->swiglu_limit);
    return gate / (1 + exp(-1.702 * gate)) * (up + 1);
}

void reference_widen(const uint16_t *in, double *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = test_from_bf16(in[i]);
}
