/* worker/confine.h - limits that the worker sets on itself before the engine's code runs. */
#ifndef WORKER_CONFINE_H
#define WORKER_CONFINE_H

#include "llm-router/status.h"
#include "wire/open.h"

/* From here on the process dies with `parent`, dumps no core and gains no privileges.  The
 * kernel ends it first when memory runs out.  The process ignores the signals that a terminal
 * or a service manager sends to the whole group, and has no descriptors but 0 to 3.
 * UNAVAILABLE when the parent is already gone. */
LR_MUST_USE lr_code worker_confine(int parent, struct lr_error *err);

/* Called before the engine's library is opened.  From then on this process reads only the
 * engine's folder, the model's and the system's libraries, and writes only into `scratch`.  It
 * may use GPUs, but has no sockets, no new processes and no core dumps, as far as the kernel
 * supports that (base/sandbox.h). */
LR_MUST_USE lr_code worker_confine_engine(const char *scratch, const struct wire_open *open,
                                          struct lr_error *err);

#endif
