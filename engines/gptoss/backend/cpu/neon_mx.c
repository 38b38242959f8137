/* gptoss/backend/cpu/neon_mx.c - MXFP4 products for every arm64 processor, and packing. */
#include "engines/gptoss/backend/cpu/neon_mx.h"

#include <math.h>

/* The exponent e for which |x| * 2^e, rounded, stays below 127.5 * 65536 for all |x| up to
 * `top`; as in avx2_mx.c. */
static int digit_exponent(float top)
{
    int e;

    if (!(top > 1e-30f))
        return 0;
    if (!(top < 1e30f))
        return -126;
    float mantissa = frexpf(top, &e);
    return (mantissa < 0.99f ? 23 : 22) - e;
}

static float power_of_two(int e)
{
    union {
        uint32_t u;
        float f;
    } v = {.u = (uint32_t)(e + 127) << 23};
    return v.f;
}

static void pack_block(const float *x, uint8_t *block)
{
    float top = 0;

    for (int i = 0; i < CPU_MX_BLOCK; i++)
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    int exponent = digit_exponent(top);
    float up = power_of_two(exponent), scale = power_of_two(-exponent - 1);
    for (int i = 0; i < CPU_MX_BLOCK; i++) {
        float scaled = x[i] * up;
        scaled = scaled < -8.31e6f ? -8.31e6f : scaled > 8.31e6f ? 8.31e6f : scaled;
        int32_t q = vcvtns_s32_f32(scaled), c = (int8_t)q;
        q = (q - c) >> 8;
        int32_t b = (int8_t)q;
        q = (q - b) >> 8;
        uint8_t *at = block + (i & 1) * 16 + i / 2;
        at[0] = (uint8_t)q;
        at[NEON_MX_DIGIT_BYTES] = (uint8_t)b;
        at[2 * NEON_MX_DIGIT_BYTES] = (uint8_t)c;
    }
    memcpy(block + NEON_MX_SCALE_AT, &scale, sizeof(scale));
}

void cpu_neon_pack_mx(const float *x, size_t first, size_t count, uint8_t *vector)
{
    for (size_t i = 0; i < count; i++)
        pack_block(x + i * CPU_MX_BLOCK, vector + (first + i) * NEON_MX_BLOCK_BYTES);
}

NEON_INLINE int32x4_t products(int32x4_t acc, int8x16_t w_even, int8x16_t w_odd,
                               const uint8_t *x)
{
    int8x16_t x_even = vld1q_s8((const int8_t *)x), x_odd = vld1q_s8((const int8_t *)x + 16);
    int16x8_t low = vmull_s8(vget_low_s8(w_even), vget_low_s8(x_even));
    int16x8_t high = vmull_high_s8(w_even, x_even);

    low = vmlal_s8(low, vget_low_s8(w_odd), vget_low_s8(x_odd)); /* at most 2 * 12 * 128 */
    high = vmlal_high_s8(high, w_odd, x_odd);
    return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

void cpu_neon_mx(const struct cpu_mx *job)
{
    neon_mx_all(job);
}
