/* native/model.h - the engine's loader of models, for the serving part and for tests. */
#ifndef NATIVE_MODEL_H
#define NATIVE_MODEL_H

#include "engines/serving/backend.h"

const struct serving_model_api *native_model_api(void);

#endif
