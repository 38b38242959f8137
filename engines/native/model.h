/* native/model.h - the engine's loader of models and its devices, for the serving part and for
 * tests. */
#ifndef NATIVE_MODEL_H
#define NATIVE_MODEL_H

#include "engines/serving/backend.h"

const struct serving_model_api *native_model_api(void);
const struct serving_backend_api *native_backend_cpu(void);
/* Where the build has them. */
const struct serving_backend_api *native_backend_vulkan(void);
const struct serving_backend_api *native_backend_metal(void);

#endif
