/* llamacpp/entry.c - the plugin's exported symbol. */
#include "engines/llamacpp/engine.h"

const struct lr_engine_api *lr_engine_entry(void)
{
    return llamacpp_engine_api();
}
