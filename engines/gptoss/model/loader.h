/* gptoss/model/loader.h - a model's folder becomes weights, and facts for the serving part.
 *
 * If an artifact cannot be read, the safetensors are read instead, with a warning.
 */
#ifndef GPTOSS_MODEL_LOADER_H
#define GPTOSS_MODEL_LOADER_H

#include "engines/serving/backend.h"
#include "model/config.h"
#include "model/gptoss.h"

/* What the loader opens, and the backends get. */
struct gptoss_model {
    struct model_gptoss *weights; /* owned */
    struct model_generation generation;
};

extern const struct serving_model_api gptoss_loader;

/* The depth at which attention over the keys of a sequence takes as long as all other
 * arithmetic of a token. */
uint32_t gptoss_depth_unit(const struct model_config *config);

#endif
