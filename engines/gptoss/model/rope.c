/* gptoss/model/rope.c - see rope.h. */
#include "engines/gptoss/model/rope.h"

#include <math.h>

/* The dimension whose wavelength fits `turns` times into the original context. */
static double ramp_end(const struct model_config *c, double turns)
{
    return (double)c->head_dim *
           log((double)c->rope.original_context / (turns * 6.283185307179586)) /
           (2.0 * log(c->rope.theta));
}

void gptoss_rope_frequencies(const struct model_config *c, double *inv_frequency)
{
    uint32_t half = c->head_dim / 2;
    double low = 0, high = 0;

    if (c->rope.kind == MODEL_ROPE_YARN) {
        low = ramp_end(c, c->rope.beta_fast);
        high = ramp_end(c, c->rope.beta_slow);
        if (c->rope.truncate) {
            low = floor(low);
            high = ceil(high);
        }
        low = low < 0 ? 0 : low;
        high = high > (double)(c->head_dim - 1) ? (double)(c->head_dim - 1) : high;
        if (high <= low)
            high = low + 0.001; /* no division by zero, as the references do */
    }
    for (uint32_t i = 0; i < half; i++) {
        double f = pow(c->rope.theta, -2.0 * i / (double)c->head_dim);
        inv_frequency[i] = f;
        if (c->rope.kind == MODEL_ROPE_YARN) {
            double ramp = ((double)i - low) / (high - low);
            ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
            inv_frequency[i] = (1 - ramp) * f + ramp * f / c->rope.factor;
        }
    }
}

void gptoss_rope_row(const struct model_config *c, const double *inv_frequency,
                     uint32_t position, float *cos_out, float *sin_out)
{
    double factor = c->rope.kind == MODEL_ROPE_YARN ? c->rope.attention_factor : 1.0;

    for (uint32_t i = 0; i < c->head_dim / 2; i++) {
        float angle = (float)position * (float)inv_frequency[i];
        cos_out[i] = (float)(cos((double)angle) * factor);
        sin_out[i] = (float)(sin((double)angle) * factor);
    }
}
