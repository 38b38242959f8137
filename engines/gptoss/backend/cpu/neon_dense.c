/* gptoss/backend/cpu/neon_dense.c - BF16 matrices times float32 vectors, norm, SwiGLU for
 * arm64.
 *
 * The order of every sum is that of avx2_dense.c, which explains it; only the registers are
 * half as wide.  The processors' own BF16 products round activations to BF16, so they are not
 * used: the result would differ between machines of a fleet.
 */
#include <math.h>

#include "engines/gptoss/backend/cpu/neon.h"
#include "engines/gptoss/backend/cpu/neon_math.h"

enum { TILE_TOKENS = 3, TILE_ROWS = 4, WIDE_ROWS = 8 };

void cpu_neon_pack_dense(const float *x, size_t columns, float *out)
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

NEON_INLINE struct neon8 even_of(uint32x4_t a, uint32x4_t b)
{
    return (struct neon8){vreinterpretq_f32_u32(vshlq_n_u32(a, 16)),
                          vreinterpretq_f32_u32(vshlq_n_u32(b, 16))};
}

NEON_INLINE struct neon8 odd_of(uint32x4_t a, uint32x4_t b)
{
    const uint32x4_t bits = vdupq_n_u32(0xFFFF0000u);
    return (struct neon8){vreinterpretq_f32_u32(vandq_u32(a, bits)),
                          vreinterpretq_f32_u32(vandq_u32(b, bits))};
}

NEON_INLINE void tile(const struct cpu_dense *job, uint32_t row, uint32_t token, const int rows,
                      const int tokens)
{
    const uint16_t *w = job->weight + (size_t)row * job->columns;
    const float *x = job->x + token * job->x_stride;
    struct neon8 acc[TILE_ROWS * TILE_TOKENS];
    size_t k = 0;

    for (int i = 0; i < rows * tokens; i++)
        acc[i] = neon_set(0);
    for (; k + 16 <= job->columns; k += 16) {
        for (int r = 0; r < rows; r++) {
            const uint16_t *p = w + (size_t)r * job->columns + k;
            uint32x4_t a = vreinterpretq_u32_u16(vld1q_u16(p));
            uint32x4_t b = vreinterpretq_u32_u16(vld1q_u16(p + 8));
            struct neon8 even = even_of(a, b), odd = odd_of(a, b);
            for (int t = 0; t < tokens; t++) {
                const float *xt = x + (size_t)t * job->x_stride + k;
                struct neon8 *sum = &acc[r * tokens + t];
                *sum = neon_fma(even, neon_load(xt), *sum);
                *sum = neon_fma(odd, neon_load(xt + 8), *sum);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tokens; t++) {
            float sum = neon_sum(acc[r * tokens + t]);
            for (size_t i = k; i < job->columns; i++)
                sum += cpu_bf16(w[(size_t)r * job->columns + i]) *
                       x[(size_t)t * job->x_stride + i];
            job->y[(token + (size_t)t) * job->y_stride + row + (size_t)r] = sum;
        }
}

void cpu_neon_dense(const struct cpu_dense *job)
{
    uint32_t r = 0, t;

    if (job->tokens == 1) {
        for (; r + WIDE_ROWS <= job->rows; r += WIDE_ROWS)
            tile(job, r, 0, WIDE_ROWS, 1);
        for (; r < job->rows; r++)
            tile(job, r, 0, 1, 1);
        return;
    }
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

void cpu_neon_norm(const float *x, const uint16_t *weight, size_t n, float eps, float *out)
{
    float64x2_t acc[4];
    double part[4];
    size_t i = 0;

    for (int j = 0; j < 4; j++)
        acc[j] = vdupq_n_f64(0);
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 4; j++) {
            float64x2_t v = vcvt_f64_f32(vld1_f32(x + i + 2 * j));
            acc[j] = vfmaq_f64(acc[j], v, v);
        }
    vst1q_f64(part, vaddq_f64(acc[0], acc[2]));
    vst1q_f64(part + 2, vaddq_f64(acc[1], acc[3]));
    double sum = (part[0] + part[1]) + (part[2] + part[3]);
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float factor = (float)(1.0 / sqrt(sum / (double)n + (double)eps));
    for (i = 0; i < n; i++)
        out[i] = cpu_bf16(weight[i]) * (x[i] * factor);
}

void cpu_neon_swiglu(const float *u, size_t n, float limit, float *out)
{
    const float32x4_t top = vdupq_n_f32(limit), bottom = vdupq_n_f32(-limit);
    const float32x4_t one = vdupq_n_f32(1.0f), alpha = vdupq_n_f32(-1.702f);

    for (size_t i = 0; i < n; i += 4) {
        float pad[8] = {0}, result[4];
        size_t count = n - i < 4 ? n - i : 4;
        const float *from = u + 2 * i;
        if (count < 4) {
            for (size_t j = 0; j < 2 * count; j++)
                pad[j] = from[j];
            from = pad;
        }
        float32x4x2_t both = vld2q_f32(from);
        float32x4_t gate = vminq_f32(top, both.val[0]);
        float32x4_t up = vmaxq_f32(bottom, vminq_f32(top, both.val[1]));
        float32x4_t e = neon_exp4(vmulq_f32(alpha, gate));
        float32x4_t h = vdivq_f32(gate, vaddq_f32(one, e));
        vst1q_f32(result, vmulq_f32(h, vaddq_f32(up, one)));
        for (size_t j = 0; j < count; j++)
            out[i + j] = result[j];
    }
}
