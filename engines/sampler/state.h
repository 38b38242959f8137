/* sampler/state.h - the sampler's memory and its parts, inside the sampler. */
#ifndef SAMPLER_STATE_H
#define SAMPLER_STATE_H

#include <stddef.h>

#include "engines/sampler/sampler.h"
#include "engines/sampler/scan.h"

struct sampler {
    const struct scan_kernels *scan;
    uint32_t vocab;
    uint32_t blocks;
    float *values;     /* l, in whole blocks; -infinity: not there */
    float *peaks;      /* of its blocks, in whole blocks themselves */
    uint32_t *counts;  /* all zero between calls */
    uint64_t *touched; /* bit for each block whose peak is stale; all zero between calls */
    float *list_x;     /* ids still in question, and their x */
    uint32_t *list_id;
    double *sums; /* of tally() */
};

/* sampler_create() with the loops named. */
struct sampler *sampler_create_with(uint32_t vocab, const struct scan_kernels *scan);

/* values and peaks from the row: ids that a bitmap does not name are not there.  mask may be
 * NULL.  Returns whether a value is not a number. */
bool sampler_fill(struct sampler *s, const float *logits, const uint32_t *usable,
                  const uint32_t *mask);

/* ---- rank.c ---- */

/* A weight below 2^-53, which no sum that begins with the 1 of the most likely id notices. */
#define SAMPLER_WEIGHTLESS -36.75f

/* The last of the ranks kept: larger x are, equal ones up to this id are. */
struct sampler_border {
    float x;
    uint32_t id;
};

/* The shortest leading run of ranks, of the x >= low, that makes up `amount` of the sum of
 * exp(x) (weigh) or is `amount` long; never shorter than one. */
struct sampler_run {
    float low;
    float least; /* the caller knows that the run does not get below it; at least low */
    bool weigh;
    double amount;
};

/* Where the run ends.  False: there are not so many, and the border is the last.  There is at
 * least one x >= low.  Uses sums and the list, which the row may be. */
bool sampler_select(struct sampler *s, struct scan_row row, const struct sampler_run *run,
                    struct sampler_border *out);

/* No run of top_p gets below it: all ids there weigh less than 1 - top_p, and the most likely
 * one alone weighs 1. */
float sampler_least(const struct sampler *s, float top_p);

/* The border of top_k and top_p. */
struct sampler_border sampler_filter(struct sampler *s, const struct scan_row *row,
                                     const struct lr_sampling *p);

/* The peaks as a row. */
struct scan_row sampler_peaks(const struct sampler *s, const struct scan_row *row);

/* ---- report.c ---- */

/* Log probabilities of the raw row; out->id is given. */
void sampler_report(struct sampler *s, const float *logits, const uint32_t *usable,
                    const struct lr_sampling *how, struct sampler_result *out);

#endif
