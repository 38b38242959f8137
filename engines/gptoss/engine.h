/* gptoss/engine.h - the engine's table, for the plugin and for tests that link it. */
#ifndef GPTOSS_ENGINE_H
#define GPTOSS_ENGINE_H

#include "llm-router/engine.h"

const struct lr_engine_api *gptoss_engine_api(void);

#endif
