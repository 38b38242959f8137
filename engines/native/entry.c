/* native/entry.c - the plugin's exported symbol. */
#include "engines/native/engine.h"

const struct lr_engine_api *lr_engine_entry(void)
{
    return native_engine_api();
}
