/* gptoss/backend/cpu/neon_mx.h - MXFP4 matrices times vectors: the loop of both arm64 versions.
 *
 * The arithmetic is that of avx2_mx.c: activations as 24-bit integers in three digits of 8
 * bits, exact integer products, one float32 addition for each block and lane.  NEON multiplies
 * signed bytes, so the weights are 2w from -12 to 12 and need no offset.  Lane j of a block
 * sums the products of its elements 8j to 8j + 7; even blocks belong to the lower four lanes of
 * an accumulator, odd blocks to the upper four.  So the bits are those of the AVX2 kernels.
 *
 * A packed block has 128 bytes: the digits of its 16 even and its 16 odd elements, three times,
 * then the scale s / 2 as float32.  A file that includes this header defines
 * `products(acc, w_even, w_odd, x)` first, which adds the four lanes of one digit.
 */
#ifndef GPTOSS_BACKEND_CPU_NEON_MX_H
#define GPTOSS_BACKEND_CPU_NEON_MX_H

#include "engines/gptoss/backend/cpu/neon.h"
#include "engines/gptoss/backend/cpu/neon_math.h"

enum {
    NEON_MX_BLOCK_BYTES = CPU_MX_OCTET_BYTES / 8,
    NEON_MX_DIGIT_BYTES = 32,
    NEON_MX_SCALE_AT = 96,
    NEON_MX_TOKENS = 4, /* of a tile */
};

NEON_INLINE int32x4_t products(int32x4_t acc, int8x16_t w_even, int8x16_t w_odd,
                               const uint8_t *x);

/* 2^(scale - excess - 127); 0 where the scale is not above the excess. */
NEON_INLINE float neon_mx_scale(uint8_t scale, uint32_t excess)
{
    union {
        uint32_t u;
        float f;
    } v = {.u = (scale > excess ? scale - excess : 0) << 23};
    return v.f;
}

/* Two rows and up to four tokens: activations are loaded once for both rows, weights are
 * decoded once for all tokens. */
NEON_INLINE void neon_mx_tile(const struct cpu_mx *job, uint32_t row, uint32_t token,
                              const int rows, const int tokens)
{
    static const int8_t codes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const int8x16_t table = vld1q_s8(codes);
    size_t groups = job->columns / CPU_MX_BLOCK;
    float32x4_t acc[2][NEON_MX_TOKENS][2];

    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tokens; t++)
            acc[r][t][0] = acc[r][t][1] = vdupq_n_f32(0);
    for (size_t g = 0; g < groups; g++) {
        int8x16_t even[2], odd[2];
        float scale[2];
        for (int r = 0; r < rows; r++) {
            size_t at = (row + (size_t)r) * groups + g;
            uint8x16_t bytes = vld1q_u8(job->blocks + at * 16);
            even[r] = vqtbl1q_s8(table, vandq_u8(bytes, vdupq_n_u8(15)));
            odd[r] = vqtbl1q_s8(table, vshrq_n_u8(bytes, 4));
            scale[r] = neon_mx_scale(job->scales[at], job->scale_excess);
        }
        for (int t = 0; t < tokens; t++) {
            const uint8_t *x = job->x[token + (uint32_t)t] + g * NEON_MX_BLOCK_BYTES;
            float factor;
            memcpy(&factor, x + NEON_MX_SCALE_AT, sizeof(factor));
            for (int r = 0; r < rows; r++) {
                int32x4_t sum = products(vdupq_n_s32(0), even[r], odd[r], x);
                sum = products(vshlq_n_s32(sum, 8), even[r], odd[r], x + NEON_MX_DIGIT_BYTES);
                sum =
                    products(vshlq_n_s32(sum, 8), even[r], odd[r], x + 2 * NEON_MX_DIGIT_BYTES);
                float32x4_t *to = &acc[r][t][g & 1];
                *to = vfmaq_n_f32(*to, vcvtq_f32_s32(sum), scale[r] * factor);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tokens; t++)
            job->y[(token + (size_t)t) * job->y_stride + row + (size_t)r] =
                neon_sum((struct neon8){acc[r][t][0], acc[r][t][1]});
}

NEON_INLINE void neon_mx_rows(const struct cpu_mx *job, uint32_t token, const int tokens)
{
    uint32_t r = 0;

    for (; r + 2 <= job->rows; r += 2)
        neon_mx_tile(job, r, token, 2, tokens);
    if (r < job->rows)
        neon_mx_tile(job, r, token, 1, tokens);
}

NEON_INLINE void neon_mx_all(const struct cpu_mx *job)
{
    uint32_t t = 0;

    for (; t + NEON_MX_TOKENS <= job->tokens; t += NEON_MX_TOKENS)
        neon_mx_rows(job, t, NEON_MX_TOKENS);
    for (; t < job->tokens; t++)
        neon_mx_rows(job, t, 1);
}

#endif
