/* sampler/state.h - the sampler's memory, inside the sampler. */
#ifndef SAMPLER_STATE_H
#define SAMPLER_STATE_H

#include <stddef.h>

#include "engines/sampler/sampler.h"
#include "engines/sampler/scan.h"

struct sampler {
    const struct scan_kernels *scan;
    uint32_t vocab;
    uint32_t blocks;
    float *values;    /* l, in whole blocks; -infinity: not available */
    float *peaks;     /* peaks of the blocks, padded to whole blocks */
    uint32_t *counts; /* all zero between calls */
    uint64_t
        *touched;  /* one bit for each block with an outdated peak; all zero between calls */
    float *list_x; /* ids that are not decided yet, and their x */
    uint32_t *list_id;
    double *sums; /* of tally() */
};

/* sampler_create() with the given loops. */
struct sampler *sampler_create_with(uint32_t vocab, const struct scan_kernels *scan);

/* Fills values and peaks from the row; ids without their bit in usable and mask are not
 * available. mask may be NULL. Returns whether a value is NaN. */
bool sampler_fill(struct sampler *s, const float *logits, const uint32_t *usable,
                  const uint32_t *mask);

/* ---- rank.c ---- */

/* A weight below 2^-53: it does not change a sum that begins with the 1 of the most likely
 * id. */
#define SAMPLER_WEIGHTLESS -36.75f

/* The last of the kept ranks: larger x are kept, equal x up to this id. */
struct sampler_border {
    float x;
    uint32_t id;
};

/* The shortest leading run of ranks with x >= low that has `amount` of the sum of exp(x)
 * (weigh) or `amount` ids; at least one id. */
struct sampler_run {
    float low;
    float least; /* lower bound for the run's last x, known to the caller; at least low */
    bool weigh;
    double amount;
};

/* Where the run ends.  False: there are fewer, and the border is the last id.  At least one x
 * >= low must exist.  Uses sums and the list; the row may be that list. */
bool sampler_select(struct sampler *s, struct scan_row row, const struct sampler_run *run,
                    struct sampler_border *out);

/* A lower bound for a run of top_p: all ids below it together weigh less than 1 - top_p, and
 * the most likely id alone weighs 1. */
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
