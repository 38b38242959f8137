/* gptoss/entry.c - the plugin's exported symbol. */
#include "engines/gptoss/engine.h"

const struct lr_engine_api *lr_engine_entry(void)
{
    return gptoss_engine_api();
}
