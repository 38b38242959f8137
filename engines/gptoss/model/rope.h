/* gptoss/model/rope.h - rotary positions of gpt-oss: YaRN by parts, the same at any length.
 *
 *   out[i]        = x[i] * cos - x[i + half] * sin
 *   out[i + half] = x[i + half] * cos + x[i] * sin      (half = head_dim / 2)
 *
 * with cos, sin = attention_factor * cos, sin(position * inv_frequency[i]).  Every device
 * builds its tables from these frequencies.
 */
#ifndef GPTOSS_MODEL_ROPE_H
#define GPTOSS_MODEL_ROPE_H

#include "model/config.h"

/* half entries, in double precision; the caller rounds. */
void gptoss_rope_frequencies(const struct model_config *config, double *inv_frequency);

/* cos and sin of one position, `half` entries each, with the attention factor.  The angle is
 * position * (float)inv_frequency rounded to float, as in the published references. */
void gptoss_rope_row(const struct model_config *config, const double *inv_frequency,
                     uint32_t position, float *cos_out, float *sin_out);

#endif
