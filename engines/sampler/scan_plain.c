/* sampler/scan_plain.c - the loops of scan.h in plain C. */
#include <math.h>
#include <string.h>

#include "engines/sampler/sampler.h"
#include "engines/sampler/scan.h"

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double cubic(const double c[4], double r, double r2)
{
    return (c[0] + c[1] * r) + (c[2] + c[3] * r) * r2;
}

static double weight(double x)
{
    static const double c[8] = SCAN_SERIES;
    double n = x * SCAN_LOG2E + SCAN_ROUND, r = x - (n - SCAN_ROUND) * SCAN_LN2;
    double r2 = r * r, p = cubic(c, r, r2) + cubic(c + 4, r, r2) * (r2 * r2);
    uint64_t power, value;

    memcpy(&power, &n, sizeof(power));
    memcpy(&value, &p, sizeof(value));
    value += power << 52;
    memcpy(&p, &value, sizeof(p));
    return p;
}

static float plain_mask(const float *in, uint64_t legal, float *out, bool *odd)
{
    float peak = -INFINITY;

    for (uint32_t i = 0; i < SCAN_BLOCK; i++) {
        out[i] = (legal >> i & 1) != 0 ? in[i] : -INFINITY;
        *odd = *odd || isnan(out[i]);
        peak = out[i] > peak ? out[i] : peak;
    }
    return peak;
}

/* True when no x of the block reaches low: x grows with the value. */
static bool below(const struct scan_row *row, uint32_t block, float low)
{
    return row->peaks != NULL && !(scan_x(row, row->peaks[block]) >= low);
}

static uint32_t bucket_of(const struct scan_tally *t, float x)
{
    uint32_t bits = bits_of(x) & 0x7FFFFFFFu;

    return bits > t->base ? (bits - t->base) >> t->shift : 0;
}

static void plain_tally(const struct scan_row *row, const struct scan_tally *t)
{
    for (uint32_t b = 0; b < row->blocks; b++) {
        bool rest = below(row, b, t->least);
        if (below(row, b, t->low))
            continue;
        for (uint32_t i = b * SCAN_BLOCK; i < (b + 1) * SCAN_BLOCK; i++) {
            float x = scan_x(row, row->values[i]);
            if (!(x >= t->low))
                continue;
            uint32_t bucket = rest ? SCAN_BUCKETS : bucket_of(t, x);
            t->sums[bucket * SCAN_LANES + i % SCAN_LANES] += t->weigh ? weight((double)x) : 1.0;
        }
    }
}

static void plain_scale(float *values, uint32_t blocks, float top, float temperature)
{
    const struct scan_row row = {.top = top, .temperature = temperature};

    for (size_t i = 0; i < (size_t)blocks * SCAN_BLOCK; i++)
        values[i] = scan_x(&row, values[i]);
}

static uint32_t plain_gather(const struct scan_row *row, float low, float high, float *x,
                             uint32_t *id)
{
    uint32_t n = 0;

    for (uint32_t b = 0; b < row->blocks; b++) {
        if (below(row, b, low))
            continue;
        for (uint32_t i = b * SCAN_BLOCK; i < (b + 1) * SCAN_BLOCK; i++) {
            float at = scan_x(row, row->values[i]);
            if (!(at >= low && at <= high))
                continue;
            x[n] = at;
            id[n++] = row->ids != NULL ? row->ids[i] : i;
        }
    }
    return n;
}

static uint64_t plain_noise(const struct scan_row *row, uint32_t block,
                            const struct scan_noise *n, uint32_t words[SCAN_BLOCK])
{
    const float *values = row->values + (size_t)block * SCAN_BLOCK;
    float offset = SCAN_OFFSET - n->best * SCAN_SLOPE;
    uint64_t found = 0;

    for (uint32_t i = 0; i < SCAN_BLOCK; i += 4) {
        uint64_t reach = 0;
        for (uint32_t j = i; j < i + 4; j++) {
            float x = scan_x(row, values[j]);
            reach |= (uint64_t)(x >= n->low && x + SCAN_NOISE_MAX >= n->best) << j;
        }
        if (reach == 0)
            continue;
        sampler_philox(n->seed, (block * SCAN_BLOCK + i) / 4, n->index, words + i);
        for (uint32_t j = i; j < i + 4; j++) {
            float y = (float)(8388608u - (words[j] >> 9)) - 0.5f;
            float x = scan_x(row, values[j]);
            found |= (uint64_t)((float)bits_of(y) < x * SCAN_SLOPE + offset) << j & reach;
        }
    }
    return found;
}

void scan_noise_keys(struct scan_noise *n)
{
    uint32_t k0 = (uint32_t)n->seed, k1 = (uint32_t)(n->seed >> 32);

    for (int round = 0; round < 10; round++) {
        n->keys[round][0] = k0;
        n->keys[round][1] = k1;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

const struct scan_kernels *scan_kernels_plain(void)
{
    static const struct scan_kernels table = {.name = "plain",
                                              .mask = plain_mask,
                                              .tally = plain_tally,
                                              .scale = plain_scale,
                                              .gather = plain_gather,
                                              .noise = plain_noise};
    return &table;
}
