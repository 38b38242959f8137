/* native/cpu/scalar.h - exp, tanh and erf of our own in float32, the same on every system.
 *
 * Only additions, multiplications and divisions, each of which rounds by itself, so that a
 * compiler may compute several elements at a time and no result changes.
 */
#ifndef NATIVE_CPU_SCALAR_H
#define NATIVE_CPU_SCALAR_H

#include <stdint.h>
#include <string.h>

#define SCALAR_INLINE static inline __attribute__((always_inline))

/* 2^(exponent - 127); a scale of E8M0. */
SCALAR_INLINE float scalar_power(uint8_t exponent)
{
    uint32_t bits = exponent == 0 ? 1u << 22 : (uint32_t)exponent << 23;
    float v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* To two units in the last place; below -87 it stays at the least normal number. */
SCALAR_INLINE float scalar_exp(float x)
{
    const float log2e = 1.44269504088896341f, high = 0.693359375f, low = -2.12194440e-4f;
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    float v = x < -87.0f ? -87.0f : x;
    v = v > 88.0f ? 88.0f : v;
    float whole = (v * log2e + magic) - magic;
    float r = (v - whole * high) - whole * low, p = 1.9875691500e-4f;
    int32_t n = (int32_t)whole;
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float power;

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    memcpy(&power, &bits, sizeof(power));
    return p * power;
}

SCALAR_INLINE float scalar_tanh(float x)
{
    float a = x < 0 ? -x : x, square = x * x;
    float e = scalar_exp(2.0f * a), far = 1.0f - 2.0f / (e + 1.0f);
    /* Near zero the difference above has no digits left. */
    float near =
        a * (1.0f + square * (-0.33333333f + square * (0.13333333f + square * -0.05396825f)));
    float v = a < 0.1f ? near : far;

    return x < 0 ? -v : v;
}

/* Its series, in doubles: exact to float32 up to 4, beyond which erf is 1 in float32. */
static inline float scalar_erf(float x)
{
    double a = x < 0 ? -(double)x : (double)x, square = a * a, term = a, sum = a;

    if (a > 4)
        return x < 0 ? -1.0f : 1.0f;
    for (int n = 1; n < 60; n++) {
        term *= -square / n;
        sum += term / (2 * n + 1);
    }
    sum *= 1.12837916709551257390;
    return (float)(x < 0 ? -sum : sum);
}

#endif
