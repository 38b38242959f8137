/* gptoss/backend/cpu/neon_math.h - eight lanes as two registers, shared by the NEON kernels.
 *
 * Every function does in each lane what its twin of avx2_math.h does, so that both give the
 * same bits.  Include only from neon_*.c.
 */
#ifndef GPTOSS_BACKEND_CPU_NEON_MATH_H
#define GPTOSS_BACKEND_CPU_NEON_MATH_H

#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline))

struct neon8 {
    float32x4_t low, high; /* lanes 0 to 3, 4 to 7 */
};

NEON_INLINE struct neon8 neon_load(const float *p)
{
    return (struct neon8){vld1q_f32(p), vld1q_f32(p + 4)};
}

NEON_INLINE void neon_store(float *p, struct neon8 v)
{
    vst1q_f32(p, v.low);
    vst1q_f32(p + 4, v.high);
}

NEON_INLINE struct neon8 neon_set(float x)
{
    return (struct neon8){vdupq_n_f32(x), vdupq_n_f32(x)};
}

/* acc + a * b, rounded once. */
NEON_INLINE struct neon8 neon_fma(struct neon8 a, struct neon8 b, struct neon8 acc)
{
    return (struct neon8){vfmaq_f32(acc.low, a.low, b.low),
                          vfmaq_f32(acc.high, a.high, b.high)};
}

NEON_INLINE struct neon8 neon_mul(struct neon8 a, struct neon8 b)
{
    return (struct neon8){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}

/* The only order in which eight lanes are summed. */
NEON_INLINE float neon_sum(struct neon8 v)
{
    float s[4];
    vst1q_f32(s, vaddq_f32(v.low, v.high));
    return (s[0] + s[2]) + (s[1] + s[3]);
}

NEON_INLINE float32x4_t neon_exp4(float32x4_t x)
{
    x = vmaxq_f32(vminq_f32(x, vdupq_n_f32(89.0f)), vdupq_n_f32(-104.0f));
    float32x4_t n = vrndnq_f32(vmulq_f32(x, vdupq_n_f32(1.44269504088896341f)));
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0.693359375f));
    r = vfmsq_f32(r, n, vdupq_n_f32(-2.12194440e-4f));
    float32x4_t p = vdupq_n_f32(1.0f / 720);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 120), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 24), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 6), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t e = vcvtnq_s32_f32(n);
    int32x4_t half = vshrq_n_s32(e, 1), rest = vsubq_s32(e, half), bias = vdupq_n_s32(127);
    float32x4_t a = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    float32x4_t b = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    return vmulq_f32(vmulq_f32(p, a), b);
}

NEON_INLINE struct neon8 neon_exp(struct neon8 x)
{
    return (struct neon8){neon_exp4(x.low), neon_exp4(x.high)};
}

#endif
