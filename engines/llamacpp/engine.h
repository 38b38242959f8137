/* llamacpp/engine.h - the engine's table, for the plugin and for tests that link it. */
#ifndef LLAMACPP_ENGINE_H
#define LLAMACPP_ENGINE_H

#include "llm-router/engine.h"

const struct lr_engine_api *llamacpp_engine_api(void);

#endif
