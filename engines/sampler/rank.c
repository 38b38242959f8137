/* sampler/rank.c - where a run of ranks (top_k, top_p) ends, without sorting.
 *
 * The bits of |x|, read as an integer, order the ids by rank.  The upper bits select a bucket,
 * and the sums of the buckets tell in which bucket the run ends.  Only the ids of that bucket
 * are examined again, by their next bits, and so on.  Finally there are equal values in the
 * order of their ids, of which the run takes a part.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engines/sampler/state.h"

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x7FFFFFFFu;
}

static double bucket_sum(const double *sums, uint32_t bucket)
{
    const double *s = sums + (size_t)bucket * SCAN_LANES;

    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

static double total(const double *sums)
{
    double sum = 0;

    for (uint32_t b = 0; b <= SCAN_BUCKETS; b++)
        sum += bucket_sum(sums, b);
    return sum;
}

/* The bucket in which the run ends, or the last bucket that is not empty if the run goes on.
 * *before: the sum before all buckets; on return, before this bucket. */
static uint32_t rank_reach(const double *sums, double enough, double *before, bool *reached)
{
    double run = *before;
    uint32_t found = 0;

    *reached = false;
    for (uint32_t b = 0; b < SCAN_BUCKETS && !*reached; b++) {
        double sum = bucket_sum(sums, b);
        if (!(sum > 0))
            continue;
        found = b;
        *before = run;
        run += sum;
        *reached = run >= enough;
    }
    return found;
}

static struct scan_row list_row(struct sampler *s, uint32_t n)
{
    uint32_t blocks = (n + SCAN_BLOCK - 1) / SCAN_BLOCK;

    for (uint32_t i = n; i < blocks * SCAN_BLOCK; i++)
        s->list_x[i] = -INFINITY;
    return (struct scan_row){
        .values = s->list_x, .ids = s->list_id, .blocks = blocks, .temperature = 1};
}

static bool all_equal(const float *x, uint32_t n)
{
    uint32_t i = 1;

    while (i < n && x[i] == x[0])
        i++;
    return i >= n;
}

/* How many of n equal weights still belong to the run. */
static uint32_t take_ties(uint32_t n, double weight, double before, double enough)
{
    double most = (double)n, taken = ceil((enough - before) / weight);

    taken = taken < most ? taken : most;
    taken = taken > 1 ? taken : 1;
    while (taken > 1 && before + (taken - 1) * weight >= enough)
        taken--;
    while (taken < most && before + taken * weight < enough)
        taken++;
    return (uint32_t)taken;
}

/* The bits that are not decided yet, and the size of a bucket. */
struct range {
    uint32_t from, to;
    uint32_t base, shift;
};

/* Weights: 1/32 of an octave each.  16 octaves cover everything between the least weight that
 * counts and -x = 0.0005, below which all values share the first bucket. */
static void divide(struct range *r, bool by_weight)
{
    const uint32_t octaves = (uint32_t)SCAN_BUCKETS << 18;

    r->base = r->from;
    r->shift = 0;
    if (by_weight) {
        r->base = r->to >= octaves ? r->to - octaves + 1 : 0;
        r->shift = 18;
    }
    while ((r->to - r->base) >> r->shift >= SCAN_BUCKETS)
        r->shift++;
}

static void narrow(struct range *r, uint32_t bucket)
{
    uint64_t end = r->base + ((uint64_t)(bucket + 1) << r->shift) - 1;

    r->from = bucket == 0 ? r->from : r->base + (bucket << r->shift);
    r->to = end < r->to ? (uint32_t)end : r->to;
}

bool sampler_select(struct sampler *s, struct scan_row row, const struct sampler_run *run,
                    struct sampler_border *out)
{
    struct range range = {.from = 0, .to = bits_of(run->low)};
    double enough = run->amount, before = 0;
    uint32_t n;
    bool reached = false, is_long = false;

    for (bool first = true;; first = false) {
        divide(&range, first && run->weigh);
        const struct scan_tally tally = {.low = run->low,
                                         .least = first ? run->least : run->low,
                                         .weigh = run->weigh,
                                         .base = range.base,
                                         .shift = range.shift,
                                         .sums = s->sums};
        memset(s->sums, 0, (SCAN_BUCKETS + 1) * SCAN_LANES * sizeof(*s->sums));
        s->scan->tally(&row, &tally);
        if (first && run->weigh)
            enough *= total(s->sums);
        narrow(&range, rank_reach(s->sums, enough, &before, &reached));
        is_long = first ? reached : is_long;
        n = s->scan->gather(&row, -float_of(range.to), -float_of(range.from), s->list_x,
                            s->list_id);
        row = list_row(s, n);
        if (range.from == range.to || all_equal(s->list_x, n))
            break;
    }
    double weight = run->weigh ? exp((double)s->list_x[0]) : 1;
    uint32_t last = take_ties(n, weight, before, enough) - 1;
    *out = (struct sampler_border){s->list_x[last], s->list_id[last]};
    return is_long;
}

struct scan_row sampler_peaks(const struct sampler *s, const struct scan_row *row)
{
    return (struct scan_row){.values = s->peaks,
                             .blocks = (s->blocks + SCAN_BLOCK - 1) / SCAN_BLOCK,
                             .top = row->top,
                             .temperature = row->temperature};
}

static struct sampler_border first_ranks(struct sampler *s, const struct scan_row *row,
                                         uint32_t count)
{
    struct sampler_run run = {.low = -FLT_MAX, .least = -FLT_MAX, .amount = (double)count};
    struct sampler_border border;

    /* At least `count` blocks have a value at least this large, so no smaller value is among
     * the first `count`. */
    if (count <= s->blocks && sampler_select(s, sampler_peaks(s, row), &run, &border))
        run.low = run.least = border.x;
    (void)sampler_select(s, *row, &run, &border);
    return border;
}

/* Lists the ids within the border. */
static struct scan_row kept(struct sampler *s, const struct scan_row *row,
                            const struct sampler_border *border)
{
    uint32_t found = s->scan->gather(row, border->x, 0, s->list_x, s->list_id), n = 0;

    for (uint32_t i = 0; i < found; i++) {
        if (s->list_x[i] == border->x && s->list_id[i] > border->id)
            continue;
        s->list_x[n] = s->list_x[i];
        s->list_id[n++] = s->list_id[i];
    }
    return list_row(s, n);
}

struct sampler_border sampler_filter(struct sampler *s, const struct scan_row *row,
                                     const struct lr_sampling *p)
{
    struct sampler_border border = {-FLT_MAX, UINT32_MAX};
    struct scan_row left = *row;

    if (p->top_k > 0 && p->top_k < s->vocab) {
        border = first_ranks(s, row, p->top_k);
        if (p->top_p < 1.0f)
            left = kept(s, row, &border);
    }
    if (p->top_p < 1.0f) {
        const struct sampler_run run = {.low = SAMPLER_WEIGHTLESS,
                                        .least = sampler_least(s, p->top_p),
                                        .weigh = true,
                                        .amount = (double)p->top_p};
        (void)sampler_select(s, left, &run, &border);
    }
    return border;
}

float sampler_least(const struct sampler *s, float top_p)
{
    float least =
        logf((1 - top_p) / (float)s->vocab) - 0.01f; /* more than the rounding error */

    return least > SAMPLER_WEIGHTLESS ? fminf(least, 0) : SAMPLER_WEIGHTLESS;
}
