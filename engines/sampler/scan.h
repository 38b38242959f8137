/* sampler/scan.h - the loops over a whole row, inside the sampler.
 *
 * A row is looked at in blocks of 64 values, padded with -infinity, so that a loop needs no end
 * of its own.  The largest number of each block, its peak, is kept beside it: once a bound is
 * known, most blocks of a peaked row are passed over without being read.
 *
 * There are two tables of the same loops, plain C and AVX2, and they give the same bits: every
 * sum has one order, and nothing is contracted (avx2_scan.c is compiled without FMA).
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
    const float *peaks;  /* borrowed; one for each block, NULL: not known */
    const uint32_t *ids; /* borrowed; NULL: id i stands at i */
    uint32_t blocks;
    float top;
    float temperature;
};

/* What tally() adds up, and where.  The bits of |x|, read as a whole number, are in rank order;
 * those below `base` go to bucket 0 with the first ones, the others to (bits - base) >> shift.
 * Where a whole block lies below `least` its values only go to the last row of sums. */
struct scan_tally {
    float low;   /* an x below it does not count */
    float least; /* not less than low */
    bool weigh;  /* add exp(x); else 1 */
    uint32_t base;
    uint32_t shift;
    double *sums; /* borrowed: (SCAN_BUCKETS + 1) * SCAN_LANES */
};

struct scan_noise {
    uint64_t seed;
    uint32_t index;
    float low;            /* an x below it is not sampled */
    float best;           /* of x + g so far */
    uint64_t keys[10][2]; /* Philox's, of each round */
};

/* No noise is larger: -log(-log(1 - 2^-24)), rounded up. */
#define SCAN_NOISE_MAX 16.64f

struct scan_kernels {
    const char *name;

    /* out[i] = in[i] where the bit of `legal` is set, else -infinity, for one block.  Returns
     * its peak; sets *odd when a legal value is not a number. */
    float (*mask)(const float *in, uint64_t legal, float *out, bool *odd);

    void (*tally)(const struct scan_row *row, const struct scan_tally *t);

    /* values[i] = x, once, where x is looked at more than once. */
    void (*scale)(float *values, uint32_t blocks, float top, float temperature);

    /* Writes x and id of every value with low <= x <= high, in order, and returns how many.
     * The outputs may be the row's own memory. */
    uint32_t (*gather)(const struct scan_row *row, float low, float high, float *x,
                       uint32_t *id);

    /* Fills the noise words of a block's ids and returns which of them may win: a set that
     * holds every id with low <= x and x + g > best, and few others. */
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

/* ---- exp(x) for -40 <= x <= 0, to 1.2e-10 of the value, exact at 0 ----
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial for exp(r), c0 + c1 r + ..., through
 * the Chebyshev points of (exp(r) - 1) / r; with s(r) = c0 + c1 r + (c2 + c3 r) r^2 for each
 * four of its coefficients it is s0 + s1 r^4, because steps that wait for each other take
 * longer.  Adding SCAN_ROUND rounds to a whole number and leaves it in the low bits, from where
 * it goes to the exponent.  Both tables do these steps, in this order. */
#define SCAN_ROUND 6755399441055744.0 /* 1.5 * 2^52 */
#define SCAN_LOG2E 1.4426950408889634
#define SCAN_LN2   0.6931471805599453
#define SCAN_SERIES                                                                            \
    {                                                                                          \
        1.0, 1.0, 0.5000000047146057, 0.16666666719028936, 0.04166635277111221,                \
            0.00833329846980059, 0.0013941118895837, 0.00019899285575896282                    \
    }

/* ---- who may win ----
 *
 * u = (k + 0.5) / 2^23 and log(u) <= u - 1 give g <= -log(1 - u) = -log(y / 2^23) with y =
 * 2^23 - k - 0.5, exact in float32.  The bits of a float32, read as a whole number, lie below
 * 2^23 (log2 + 127); so x + g > best needs
 *     bits(y) < 2^23 ((x - best) log2(e) + 23 + 127).
 * The slack is 2^-9 of an octave, about 0.0013 in g: far more than the rounding of all this and
 * of x + g itself, for any x that can win (x > -20). */
#define SCAN_SLOPE  (1.4426950408889634f * 8388608.0f)
#define SCAN_OFFSET (150.0f * 8388608.0f + 16384.0f)

#endif
