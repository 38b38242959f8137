#include "base/sampling.h"

void lr_sampling_fill(struct lr_sampling *sampling, uint32_t given,
                      const struct lr_sampling_defaults *defaults)
{
    uint32_t from_model = defaults->given & ~given;
    if ((from_model & LR_GIVEN_TEMPERATURE) != 0)
        sampling->temperature = defaults->temperature;
    if ((from_model & LR_GIVEN_TOP_P) != 0)
        sampling->top_p = defaults->top_p;
    if ((from_model & LR_GIVEN_TOP_K) != 0)
        sampling->top_k = defaults->top_k;
    if ((from_model & LR_GIVEN_MIN_P) != 0)
        sampling->min_p = defaults->min_p;
    if ((from_model & LR_GIVEN_REPETITION_PENALTY) != 0)
        sampling->repetition_penalty = defaults->repetition_penalty;
}
