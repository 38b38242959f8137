/* plugin/library.h - opening an engine library.  Used by workers only.
 *
 * An open library stays open until the process ends: a new version means a new worker, never
 * dlclose.  Thread: the worker's loop.
 */
#ifndef PLUGIN_LIBRARY_H
#define PLUGIN_LIBRARY_H

#include "llm-router/engine.h"
#include "llm-router/status.h"

/* What the manifest says; the open library must say the same. */
struct plugin_expectation {
    uint32_t abi_version;       /* refused before dlopen when it is not LR_ENGINE_ABI */
    const char *engine_id;      /* NULL: not checked */
    const char *engine_version; /* NULL: not checked */
};

/* ABI_MISMATCH: the manifest's number is not ours (no code of the library has run), or the
 * table's number is not (the library's entry function has run).  INTERNAL: the library cannot
 * be opened, lacks lr_engine_entry, or lacks a required member. */
LR_MUST_USE lr_code plugin_library_open(const char *path,
                                        const struct plugin_expectation *expected,
                                        const struct lr_engine_api **out, struct lr_error *err);

#endif
