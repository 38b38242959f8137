/* gptoss/backend/cpu/neon_dot_mx.c - MXFP4 products with the dot product of bytes (ARMv8.2).
 * One instruction adds four products to a lane. */
#include "engines/gptoss/backend/cpu/neon_mx.h"

NEON_INLINE int32x4_t products(int32x4_t acc, int8x16_t w_even, int8x16_t w_odd,
                               const uint8_t *x)
{
    acc = vdotq_s32(acc, w_even, vld1q_s8((const int8_t *)x));
    return vdotq_s32(acc, w_odd, vld1q_s8((const int8_t *)x + 16));
}

void cpu_neon_dot_mx(const struct cpu_mx *job)
{
    neon_mx_all(job);
}
