/* native/spec/math.c - see math.h. */
#include "engines/native/spec/math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static double power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

double native_exp(double x)
{
    const double high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10;

    if (!(x == x))
        return x;
    if (x > 709.7)
        return HUGE_VAL;
    if (x < -745)
        return 0;
    int n = (int)(x * 1.44269504088896338700 + (x < 0 ? -0.5 : 0.5));
    double r = (x - n * high) - n * low, sum = 1;
    /* |r| <= 0.35: fourteen terms reach the last bit. */
    for (int i = 14; i > 0; i--)
        sum = 1 + sum * r / i;
    int half = n / 2;
    return sum * power_of_two(half) * power_of_two(n - half);
}

double native_log(double x)
{
    const double high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10;
    int n;
    double m = frexp(x, &n);

    if (m < 0.70710678118654752440) {
        m *= 2;
        n--;
    }
    /* log m = 2 artanh((m - 1) / (m + 1)), whose argument is at most 0.172 */
    double t = (m - 1) / (m + 1), square = t * t, sum = 0;
    for (int i = 23; i >= 1; i -= 2)
        sum = sum * square + 1.0 / i;
    return n * high + (n * low + 2 * t * sum);
}

void native_sincos(double x, double *sine, double *cosine)
{
    /* pi / 2 in three parts of which the first two have few bits: exact products up to 2^26. */
    const double a = 1.57079632673412561417, b = 6.07710050630396597660e-11,
                 c = 2.02226624879595063154e-21;
    double turns = floor(x * 6.36619772367581382433e-01 + 0.5);
    double r = ((x - turns * a) - turns * b) - turns * c, square = r * r;
    double s = 0, k = 0;

    for (int i = 17; i >= 3; i -= 2)
        s = (1 - s) * square / ((i - 1) * i);
    s = r * (1 - s);
    for (int i = 18; i >= 2; i -= 2)
        k = (1 - k) * square / ((i - 1) * i);
    k = 1 - k;
    switch ((int64_t)turns & 3) {
    case 0:
        *sine = s;
        *cosine = k;
        break;
    case 1:
        *sine = k;
        *cosine = -s;
        break;
    case 2:
        *sine = -s;
        *cosine = -k;
        break;
    default:
        *sine = -k;
        *cosine = s;
        break;
    }
}
