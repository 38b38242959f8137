/* base/sampling.h - the sampling values that a model's publisher recommends, for requests that
 * do not give their own.
 */
#ifndef BASE_SAMPLING_H
#define BASE_SAMPLING_H

#include <stdint.h>

#include "llm-router/engine.h"

enum {
    LR_GIVEN_TEMPERATURE = 1,
    LR_GIVEN_TOP_P = 2,
    LR_GIVEN_TOP_K = 4,
    LR_GIVEN_MIN_P = 8,
    LR_GIVEN_REPETITION_PENALTY = 16,
};

/* `given` has a bit for each value that is there; the others mean nothing. */
struct lr_sampling_defaults {
    uint32_t given;
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t top_k;
};

/* The values that a request has not given become the model's.  `given` is the request's. */
void lr_sampling_fill(struct lr_sampling *sampling, uint32_t given,
                      const struct lr_sampling_defaults *defaults);

#endif
