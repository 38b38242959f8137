/* model/shape.h - the published sizes of gpt-oss, for benchmarks without model files. */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H

#include "model/gptoss.h"

/* The config of "20b" or "120b"; INVALID_ARGUMENT for any other name. */
LR_MUST_USE lr_code model_shape_config(const char *name, struct model_config *out,
                                       struct lr_error *err);

/* A model of that shape without weights: every weight pointer is NULL, and only a backend that
 * generates weights can open it.  Closed by model_gptoss_close(). */
LR_MUST_USE lr_code model_shape_open(const char *name, struct model_gptoss **out,
                                     struct lr_error *err);

/* Bytes that one step of `batch` sequences, each with `context` earlier tokens, must read:
 * every dense weight once, the chosen experts (the expected number if the router chooses
 * evenly), the visible keys and values, and one embedding row a sequence. */
double model_step_bytes(const struct model_config *config, uint32_t batch, double context);

#endif
