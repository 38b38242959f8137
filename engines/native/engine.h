/* native/engine.h - the engine's table, for the plugin and for tests that link it. */
#ifndef NATIVE_ENGINE_H
#define NATIVE_ENGINE_H

#include "llm-router/engine.h"

const struct lr_engine_api *native_engine_api(void);

#endif
