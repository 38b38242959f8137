/* sampler/report.c - log probabilities of the raw row. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engines/sampler/state.h"

/* The top list holds logits until sampler_report() turns them into log probabilities. */
static void insert_top(struct sampler_result *out, uint32_t wanted, uint32_t id, float logit)
{
    uint32_t at = out->top_count;

    if (at == wanted && !(logit > out->top[at - 1].logprob))
        return;
    if (at < wanted)
        out->top_count++;
    else
        at--;
    for (; at > 0 && logit > out->top[at - 1].logprob; at--)
        out->top[at] = out->top[at - 1];
    out->top[at] = (struct lr_logprob){id, logit};
}

/* Lists the usable ids with x >= `least`; -infinity: all. */
static void list_top(const struct sampler *s, const struct scan_row *row,
                     const uint32_t *usable, float least, uint32_t wanted,
                     struct sampler_result *out)
{
    for (uint32_t b = 0; b < s->blocks; b++) {
        if (scan_x(row, s->peaks[b]) < least)
            continue;
        for (uint32_t i = b * SCAN_BLOCK; i < (b + 1) * SCAN_BLOCK && i < s->vocab; i++)
            if (!(scan_x(row, s->values[i]) < least) && (usable[i >> 5] >> (i & 31) & 1u) != 0)
                insert_top(out, wanted, i, s->values[i]);
    }
}

void sampler_report(struct sampler *s, const float *logits, const uint32_t *usable,
                    const struct lr_sampling *how, struct sampler_result *out)
{
    uint32_t wanted = how->top_logprobs < SAMPLER_TOP_LOGPROBS_MAX ? how->top_logprobs
                                                                   : SAMPLER_TOP_LOGPROBS_MAX;
    bool odd = sampler_fill(s, logits, usable, NULL);
    struct scan_row row = {
        .values = s->values, .peaks = s->peaks, .blocks = s->blocks, .temperature = 1};
    struct sampler_border last = {-INFINITY, 0};
    double sum = 0;

    row.top = -INFINITY;
    for (uint32_t b = 0; b < s->blocks; b++)
        row.top = s->peaks[b] > row.top ? s->peaks[b] : row.top;
    odd = odd || !isfinite(row.top); /* then no sum is a number, and no bound holds */
    if (!odd) {
        double *rest = s->sums + SCAN_BUCKETS * SCAN_LANES;
        const struct scan_tally all = {
            .low = SAMPLER_WEIGHTLESS, .least = INFINITY, .weigh = true, .sums = s->sums};
        memset(rest, 0, SCAN_LANES * sizeof(*rest));
        s->scan->tally(&row, &all);
        for (uint32_t lane = 0; lane < SCAN_LANES; lane++)
            sum += rest[lane];
    }
    double base = odd ? (double)NAN : (double)row.top + log(sum);
    if (wanted > 0) {
        /* So many blocks have a value at or above the border, so the list has no smaller
         * value. */
        const struct sampler_run run = {
            .low = -FLT_MAX, .least = -FLT_MAX, .amount = (double)wanted};
        if (odd || wanted > s->blocks ||
            !sampler_select(s, sampler_peaks(s, &row), &run, &last))
            last.x = -INFINITY;
        list_top(s, &row, usable, last.x, wanted, out);
    }
    out->logprob = (float)((double)logits[out->id] - base);
    for (uint32_t i = 0; i < out->top_count; i++)
        out->top[i].logprob = (float)((double)out->top[i].logprob - base);
}
