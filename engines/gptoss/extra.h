/* gptoss/extra.h - options of extra_json that this engine knows; other members are ignored.
 *
 *   "random_shape"    "20b" or "120b": random weights made on the GPU, no file is read
 *   "measure_memory"  true: log the rate at which the device reads its memory
 *   "embed_on_host"   true: a GPU reads the embedding table in host memory, also where its own
 *                     memory is not short
 */
#ifndef GPTOSS_EXTRA_H
#define GPTOSS_EXTRA_H

#include <stdbool.h>

#include "llm-router/status.h"

struct gptoss_extra {
    char random_shape[16]; /* "": none */
    bool measure_memory;
    bool embed_on_host;
};

/* json may be NULL.  INVALID_ARGUMENT: no JSON object, or a member of another type. */
lr_code gptoss_extra_read(const char *json, struct gptoss_extra *out, struct lr_error *err);

#endif
