/* sampler/scan.h - the loops over a whole row, inside the sampler.
 *
 * A row is processed in blocks of 64 values, padded with -infinity, so that a loop needs no
 * special end.  The largest number of each block, its peak, is kept: once a bound is known,
 * most blocks of a peaked row are skipped without being read.
 *
 * There are two implementations of the same loops, plain C and AVX2, with the same bits as
 * results: every sum has one order, and there is no FMA contraction (avx2_scan.c is compiled
 * without FMA).
 */
#ifndef SAMPLER_SCAN_H
#define SAMPLER_SCAN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SCAN_BLOCK = 64,
    SCAN_LANES = 8, /* values i and i + 8 are added to the same partial sum */
    SCAN_BUCKETS = 512,
};

/* Values whose x is (values[i] - top) / temperature. */
struct scan_row {
    const float *values; /* borrowed; whole blocks */
    const float *peaks;  /* borrowed; one for each block; NULL: not known */
    const uint32_t *ids; /* borrowed; NULL: id i is at i */
    uint32_t blocks;
    float top;
    float temperature;
};

/* What tally() adds up, and where.  The bits of |x|, read as an integer, are in rank order.
 * Values below `base` go to bucket 0 with the first ones, the others to (bits - base) >> shift.
 * The values of a block that lies entirely below `least` go only to the last row of sums. */
struct scan_tally {
    float low;   /* smaller x do not count */
    float least; /* at least low */
    bool weigh;  /* add exp(x); else 1 */
    uint32_t base;
    uint32_t shift;
    double *sums; /* borrowed: (SCAN_BUCKETS + 1) * SCAN_LANES */
};

struct scan_noise {
    uint64_t seed;
    uint32_t index;
    float low;            /* smaller x are not sampled */
    float best;           /* best x + g so far */
    uint64_t keys[10][2]; /* Philox keys of each round */
};

/* The largest possible noise: -log(-log(1 - 2^-24)), rounded up. */
#define SCAN_NOISE_MAX 16.64f

struct scan_kernels {
    const char *name;

    /* out[i] = in[i] if the bit of `legal` is set, else -infinity, for one block.  Returns the
     * block's peak; sets *odd when a legal value is NaN. */
    float (*mask)(const float *in, uint64_t legal, float *out, bool *odd);

    void (*tally)(const struct scan_row *row, const struct scan_tally *t);

    /* values[i] = x, for rows whose x is read more than once. */
    void (*scale)(float *values, uint32_t blocks, float top, float temperature);

    /* Writes x and id of every value with low <= x <= high, in order, and returns how many.
     * The outputs may be the row's own memory. */
    uint32_t (*gather)(const struct scan_row *row, float low, float high, float *x,
                       uint32_t *id);

    /* Fills the noise words of a block's ids and returns which ids may win: a set with every id
     * with low <= x and x + g > best, and few others. */
    uint64_t (*noise)(const struct scan_row *row, uint32_t block, const struct scan_noise *n,
                      uint32_t words[SCAN_BLOCK]);
};

void scan_noise_keys(struct scan_noise *n); /* fills keys from the seed */

const struct scan_kernels *scan_kernels_plain(void);
const struct scan_kernels *scan_kernels_avx2(void); /* NULL: not on this processor */

static inline float scan_x(const struct scan_row *row, float value)
{
    return (value - row->top) / row->temperature;
}

/* ---- exp(x) for -40 <= x <= 0, relative error 1.2e-10, exact at 0 ----
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2. exp(r) is a polynomial c0 + c1 r + ..., through the
 * Chebyshev points of (exp(r) - 1) / r.  With s(r) = c0 + c1 r + (c2 + c3 r) r^2 for each four
 * coefficients it is s0 + s1 r^4, which has shorter chains of dependent operations.  Adding
 * SCAN_ROUND rounds to an integer in the low bits, from where it goes to the exponent.  Both
 * implementations do these operations in this order.
 */
#define SCAN_ROUND 6755399441055744.0 /* 1.5 * 2^52 */
#define SCAN_LOG2E 1.4426950408889634
#define SCAN_LN2   0.6931471805599453
#define SCAN_SERIES                                                                            \
    {                                                                                          \
        1.0, 1.0, 0.5000000047146057, 0.16666666719028936, 0.04166635277111221,                \
            0.00833329846980059, 0.0013941118895837, 0.00019899285575896282                    \
    }

/* ---- which ids may win ----
 *
 * u = (k + 0.5) / 2^23 and log(u) <= u - 1 give g <= -log(1 - u) = -log(y / 2^23) with y = 2^23
 * - k - 0.5, exact in float32.  The bits of a float32, read as an integer, lie below 2^23 (log2
 * + 127).  So x + g > best needs
 *
 *     bits(y) < 2^23 ((x - best) log2(e) + 23 + 127).
 *
 * The slack is 2^-9 of an octave, about 0.0013 in g: far more than the rounding of all this and
 * of x + g itself, for any x that can win (x > -20).
 */
#define SCAN_SLOPE  (1.4426950408889634f * 8388608.0f)
#define SCAN_OFFSET (150.0f * 8388608.0f + 16384.0f)

#endif
