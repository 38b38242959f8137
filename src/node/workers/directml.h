/* node/workers/directml.h - DirectML artifacts are recognised and refused.
 *
 * DirectML is experimental and exists on Windows only.  Nobody here runs its artifacts,
 * but who brings one learns what it is and where its runtime comes from, instead of
 * reading that some other file is missing.
 */
#ifndef NODE_WORKERS_DIRECTML_H
#define NODE_WORKERS_DIRECTML_H

#include <stdbool.h>

#include "base/fail.h"

/* By its name: model.directml.bin, model.dml.bin. */
bool node_directml_is(const char *path);

/* The DirectML artifact of a folder, or NULL. */
const char *node_directml_in(const char *dir);

/* Fills err with UNSUPPORTED: what it is, and where to get the runtime. */
void node_directml_refuse(const char *artifact, struct lr_error *err);

#endif
